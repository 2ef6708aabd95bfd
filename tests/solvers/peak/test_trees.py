"""Trees with a datum for each edge: Liu, MinMem, best post-order against enumeration and closed forms."""

from __future__ import annotations

from itertools import permutations
from random import Random

import pytest

import lowtide as lt
from lowtide.models.graph import Accounting, Graph, Op, Tensor
from lowtide.models.problems.peak import Peak
from lowtide.solvers.context import Context
from lowtide.solvers.peak.search.state_space import StateSpace
from lowtide.solvers.peak.trees.liu import tree_blocks
from lowtide.solvers.peak.trees.minmem import Exploration, files
from lowtide.solvers.peak.trees.postorder import best_post_order
from lowtide.solvers.peak.trees.walks import tree_space
from lowtide.solvers.registry import find_method
from lowtide.solvers.trees.blocks import height_of, ops_of
from tests.effort import seeds
from tests.oracles.brute_force import memory_profile
from tests.oracles.least_peak import least_peak


def random_tree(seed: int, most: int = 9) -> Graph:
    """Return an in- or out-tree with workspaces, in either accounting; some forests."""
    rng = Random(f"tree {seed}")
    n = rng.randint(1, most)
    kept = rng.random() < 0.5
    parent = [rng.randint(i + 1, min(n - 1, i + 4)) if i < n - 1 else -1 for i in range(n)]
    parent = [-1 if rng.random() < 0.05 else p for p in parent]
    out = [rng.choice((0, rng.randint(1, 9), rng.randint(1, 40))) for _ in range(n)]
    tensors = [
        Tensor(name=f"t{i}", nbytes=size, final=kept and above < 0)
        for i, (size, above) in enumerate(zip(out, parent, strict=True))
    ]
    children = [[c for c in range(n) if parent[c] == i] for i in range(n)]
    spaces = [rng.choice((0, rng.randint(0, 20))) for _ in range(n)]
    if rng.random() < 0.5:
        ops = [
            Op(name=f"o{i}", reads=children[i], writes=(i,), workspace=spaces[i])  # type: ignore[arg-type]
            for i in range(n)
        ]
    else:  # the same, from its end
        ops = [
            Op(
                name=f"o{i}",
                reads=() if parent[i] < 0 else (i,),
                writes=(*children[i], *((i,) if parent[i] < 0 else ())),
                workspace=spaces[i],
            )
            for i in reversed(range(n))
        ]
    accounting = rng.choice((Accounting.COEXIST, Accounting.REPLACE))
    return Graph(name=f"tree {seed}", tensors=tuple(tensors), ops=tuple(ops), accounting=accounting)


def peak_by(method: str, graph: Graph) -> tuple[int | None, int | None]:
    """Return objective and bound of a method, both of which are claims that the oracle judges."""
    context = Context(problem=Peak(graph))
    find_method("peak", method).load()(context.problem, context)
    return context.incumbent, context.bound


@pytest.mark.parametrize("block", seeds(5, least=2))
def test_liu_and_minmem_have_the_least_peak_of_500_trees(block: int) -> None:
    for seed in range(100 * block, 100 * block + 100):
        graph = random_tree(seed)
        least = least_peak(graph)
        assert peak_by("liu", graph) == (least, least), seed
        assert minmem_peak(graph) in (least, None), seed
        found, bound = peak_by("postorder", graph)
        assert found is not None
        assert bound is None
        assert found >= least, seed


def minmem_peak(graph: Graph) -> int | None:
    """Return MinMem's peak, None if a subtree lowers the memory."""
    try:
        found, bound = peak_by("minmem", graph)
    except lt.UsageError:
        return None
    assert found == bound
    return found


def test_few_trees_are_refused_by_minmem() -> None:
    """Out-trees whose outputs are kept, and more than what comes in."""
    assert sum(minmem_peak(random_tree(seed)) is None for seed in range(200)) < 40


def test_postorder_is_the_best_of_all_postorders() -> None:
    for seed in range(60):
        graph = random_tree(seed, most=7)
        space = tree_space(graph, "postorder")
        children = [list(some) for some in space.before]
        roots = [v for v in range(space.n) if not space.after[v]]
        peaks = [max(memory_profile(graph, space.order(walk))) for walk in _postorders(roots, children)]
        assert peak_by("postorder", graph)[0] == min(peaks), seed


def _postorders(roots: list[int], children: list[list[int]]) -> list[list[int]]:
    """Return every walk that finishes each subtree it begins."""
    found = []
    for sequence in permutations(roots):
        walks: list[list[int]] = [[]]
        for v in sequence:
            walks = [[*walk, *inner, v] for walk in walks for inner in _postorders(children[v], children)]
        found += walks
    return found


CLOSED_FORMS = [(levels, branches) for levels in (1, 2, 3, 4) for branches in (2, 3, 5)]


@pytest.mark.parametrize(("levels", "branches"), CLOSED_FORMS)
def test_harpoons_have_the_peaks_of_the_closed_forms(levels: int, branches: int) -> None:
    memory, eps = 900, 1
    graph = lt.load(f"gen:harpoon?levels={levels}&branches={branches}&memory={memory}&eps={eps}")
    counts = {2: (7, 17, 37, 77), 3: (10, 34, 106, 322), 5: (16, 86, 436, 2186)}
    assert len(graph.ops) == counts[branches][levels - 1]
    best = memory + eps + levels * (branches - 1) * eps
    assert peak_by("liu", graph) == peak_by("minmem", graph) == peak_by("auto", graph) == (best, best)
    assert peak_by("postorder", graph)[0] == memory + eps + levels * (branches - 1) * memory // branches


def shape(kind: str, n: int) -> list[int]:
    """Return the parent of each node of a large tree; -1 for the last one."""
    rng = Random(kind)

    def above(i: int) -> int:
        if kind == "random":
            return rng.randint(i + 1, min(n - 1, i + rng.choice((5, 50, 1000))))
        if kind == "caterpillar":
            return min(i // 2 * 2 + 2, n - 1)
        return i + 1 if kind == "chain" else n - 1

    return [above(i) for i in range(n - 1)] + [-1]


@pytest.mark.parametrize("kind", ["random", "chain", "star", "caterpillar"])
@pytest.mark.parametrize("weights", ["random", "rising"])
def test_two_algorithms_agree_on_large_trees_of_every_depth(kind: str, weights: str) -> None:
    """Rising outputs keep thousands of segments apart, which random ones do not."""
    n, rng = 5000, Random(weights)
    parent = shape(kind, n)
    file = [rng.randint(1, 10**6) if weights == "random" else i + 1 for i in range(n)]
    extra = [file[i] + (rng.randint(1, 2000) if weights == "random" else 3 * (n - i)) for i in range(n)]
    before: list[list[int]] = [[] for _ in range(n)]
    for i, above in enumerate(parent[:-1]):
        before[above].append(i)
    space = StateSpace(
        backward=False,
        start=0,
        increase=tuple(f - sum(file[c] for c in some) for f, some in zip(file, before, strict=True)),
        extra=tuple(extra),
        extra_before=True,
        groups=(),
        group_bytes=(),
        group_tensors=(),
        groups_of=((),) * n,
        before=tuple(map(tuple, before)),
        after=tuple(() if above < 0 else (above,) for above in parent),
    )
    exploration = Exploration(space, files(lt.load("gen:chain?n=1"), space))
    least = exploration.finish()
    blocks = tree_blocks(space)
    assert height_of(blocks) == least
    assert peak_of(space, exploration.walk()) == peak_of(space, ops_of(blocks)) == least
    assert peak_of(space, best_post_order(space)) >= least


def peak_of(space: StateSpace, walk: list[int]) -> int:
    """Return the peak of a walk that visits children before their parent."""
    assert sorted(walk) == list(range(space.n))
    done, memory, peak = [False] * space.n, 0, 0
    for v in walk:
        assert all(done[u] for u in space.before[v])
        done[v] = True
        peak = max(peak, memory + space.extra[v])
        memory += space.increase[v]
    return peak


@pytest.mark.parametrize("method", ["liu", "minmem", "postorder"])
@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("gen:outtree?n=9", "tensor 0 't0': found 2 unordered ops that may access it last"),
        ("gen:layered?layers=3&width=3&data=edge", "op 1 'op1' with 3 direct successors and op 3"),
    ],
)
def test_other_graphs_are_refused(method: str, spec: str, words: str) -> None:
    with pytest.raises(lt.UsageError, match=words) as caught:
        lt.solve(lt.Peak(lt.load(spec)), method)
    assert f"method {method}, graph " in str(caught.value)


def test_inputs_that_vanish_with_leaves_are_liu_s_alone() -> None:
    """Leaf b first: it takes 9 bytes of input away and leaves 1."""
    graph = Graph(
        name="inputs",
        tensors=(
            Tensor(name="x", nbytes=2, initial=True),
            Tensor(name="y", nbytes=9, initial=True),
            Tensor(name="a", nbytes=6),
            Tensor(name="b", nbytes=1),
        ),
        ops=(
            Op(name="a", reads=(0,), writes=(2,)),
            Op(name="b", reads=(1,), writes=(3,)),
            Op(name="c", reads=(2, 3)),
        ),
    )
    result = lt.solve(lt.Peak(graph), "liu")
    assert (result.status, result.objective) == (lt.Status.OPTIMAL, 12)
    with pytest.raises(lt.UsageError, match="op 1 'b': found a subtree that lowers the memory by 8 bytes"):
        lt.solve(lt.Peak(graph), "minmem")
