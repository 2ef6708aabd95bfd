"""Series-parallel graphs, graphs made so, pumpkins and dominant orders, against enumeration."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from random import Random

import pytest

import lowtide as lt
from lowtide.models.derived.memory import sequential_memory
from lowtide.models.graph import Accounting, Graph, Op, Tensor
from lowtide.models.problems.peak import Peak
from lowtide.solvers.context import Context
from lowtide.solvers.peak.search.state_space import StateSpace, state_space
from lowtide.solvers.peak.series_parallel import dominance
from lowtide.solvers.peak.series_parallel.division import divided_blocks
from lowtide.solvers.peak.series_parallel.dominance import Profile, dominates, profile_of
from lowtide.solvers.peak.series_parallel.dominant import dominant_blocks, series_parallel_order
from lowtide.solvers.peak.series_parallel.networks import Irreducible, compose
from lowtide.solvers.peak.series_parallel.spization import walk_over_divisions
from lowtide.solvers.peak.series_parallel.synchronization import synchronized_blocks
from lowtide.solvers.registry import find_method
from lowtide.solvers.trees.blocks import block, height_of, in_parallel, ops_of
from tests.effort import seeds
from tests.oracles.brute_force import must_precede, topological_orders
from tests.oracles.least_peak import least_peak
from tests.problems.peak import DEFAULTS
from tests.strategies import random_graph

ACCOUNTINGS = (Accounting.COEXIST, Accounting.REPLACE)


def random_sp_graph(seed: int, least: int = 1, most: int = 9) -> Graph:
    """Return a random series-parallel order of ops with additive memory of every kind.

    Data for edges and for longer ways, inputs, updates in place, kept and dead outputs, workspaces.
    """
    rng = Random(f"sp {seed}")
    n = rng.randint(least, most)
    edges: list[tuple[int, int]] = []
    _, last = _composed(0, n, rng, edges)
    tensors: list[Tensor] = []
    reads: list[list[int]] = [[] for _ in range(n)]
    writes: list[list[int]] = [[] for _ in range(n)]

    def tensor(initial: bool = False, final: bool = False) -> int:
        nbytes = rng.choice((0, rng.randint(1, 9), rng.randint(1, 30)))
        tensors.append(Tensor(name=f"t{len(tensors)}", nbytes=nbytes, initial=initial, final=final))
        return len(tensors) - 1

    after = _closure(n, edges)
    for i in range(n):
        for j in sorted(after[i]):
            if rng.random() < (0.8 if (i, j) in edges else 0.2):
                writes[i].append(t := tensor())
                reads[j].append(t)
                if rng.random() < 0.1 and i not in last:
                    writes[j].append(t)
        if rng.random() < 0.2:
            reads[i].append(tensor(initial=True))
        if rng.random() < 0.2:
            writes[i].append(tensor(final=rng.random() < 0.5))
        if rng.random() < 0.1:
            reads[i].append(t := tensor(initial=True, final=True))
            writes[i].append(t)
    ops = tuple(
        Op(
            name=f"o{i}",
            reads=tuple(reads[i]),
            writes=tuple(writes[i]),
            after=tuple(sorted(a for a, b in edges if b == i)),
            workspace=rng.choice((0, 0, rng.randint(0, 20))),
        )
        for i in range(n)
    )
    return Graph(name=f"sp {seed}", tensors=tuple(tensors), ops=ops, accounting=rng.choice(ACCOUNTINGS))


def _composed(low: int, high: int, rng: Random, edges: list[tuple[int, int]]) -> tuple[list[int], list[int]]:
    """Compose the ops of a range; return those without predecessors in it, and those without successors."""
    if high - low == 1:
        return [low], [low]
    cut = rng.randint(low + 1, high - 1)
    first, last = _composed(low, cut, rng, edges)
    later_first, later_last = _composed(cut, high, rng, edges)
    if rng.random() < 0.5:
        return first + later_first, last + later_last
    edges += [(i, j) for i in last for j in later_first]
    return first, later_last


def _closure(n: int, edges: list[tuple[int, int]]) -> list[set[int]]:
    after: list[set[int]] = [set() for _ in range(n)]
    for i in reversed(range(n)):
        for a, b in edges:
            if a == i:
                after[i] |= {b} | after[b]
    return after


def claims(method: str, graph: Graph) -> tuple[int | None, int | None]:
    """Return objective and bound of a method."""
    context = Context(problem=Peak(graph), options=DEFAULTS)
    find_method("peak", method).load()(context.problem, context)
    return context.incumbent, context.bound


@pytest.mark.parametrize("block", seeds(6, least=2))
def test_dominant_orders_of_600_graphs_have_the_least_peak(block: int) -> None:
    for seed in range(100 * block, 100 * block + 100):
        graph = random_sp_graph(seed)
        space, least = state_space(graph), least_peak(graph)
        blocks = dominant_blocks(space)
        assert not isinstance(blocks, Irreducible), seed
        assert claims("series-parallel", graph) == claims("auto", graph) == (least, least), seed
        assert space.start + height_of(blocks) == max(space.start, least), seed


@pytest.mark.parametrize("accounting", ACCOUNTINGS)
def test_two_terminal_graphs_of_the_generator(accounting: Accounting) -> None:
    for seed in range(60):
        graph = lt.load(f"gen:sp?n={5 + seed % 6}&seed={seed}&data=edge&accounting={accounting}")
        least = least_peak(graph)
        assert claims("series-parallel", graph) == (least, least), seed


@pytest.mark.slow(reason="600 graphs of 12 ops, their executed sets enumerated in plain Python: a minute")
@pytest.mark.parametrize("block", seeds(6, least=2))
def test_600_graphs_of_twelve_ops(block: int) -> None:
    for seed in range(100 * block, 100 * block + 100):
        graph = random_sp_graph(10_000 + seed, least=12, most=12)
        least = least_peak(graph)
        assert claims("series-parallel", graph) == (least, least), seed


def test_dominant_orders_dominate_every_order() -> None:
    """This is more than a least peak: the order can replace any other inside of any schedule."""
    for seed in range(150):
        graph = random_sp_graph(seed, most=6)
        order = series_parallel_order(graph)
        assert order is not None
        assert all(_dominates(graph, order, other) for other in topological_orders(graph)), seed


def _dominates(graph: Graph, order: tuple[int, ...], other: tuple[int, ...]) -> bool:
    memory = sequential_memory(graph)
    one, two = (profile_of(memory, some) for some in (order, other))
    return dominates(one, two, memory.initial_bytes)


def relation(space: StateSpace) -> set[tuple[int, int]] | None:
    """Return which op precedes which by composition, None if it is not series-parallel."""
    Part = tuple[frozenset[int], frozenset[tuple[int, int]]]

    def series(a: Part, b: Part) -> Part:
        return a[0] | b[0], a[1] | b[1] | {(i, j) for i in a[0] for j in b[0]}

    def parallel(parts: list[Part]) -> Part:
        return frozenset().union(*(p[0] for p in parts)), frozenset().union(*(p[1] for p in parts))

    found = compose(space, lambda v: (frozenset([v]), frozenset()), series, parallel)
    return None if isinstance(found, Irreducible) else set(found[1])


def test_recognition_of_random_orders() -> None:
    """An order is series-parallel iff no four ops form an N: a < c, b < c, b < d and no others."""
    found = [0, 0]
    for seed in range(400):
        graph = random_graph(Random(f"recognition {seed}"), min_ops=2, max_ops=8)
        n = len(graph.ops)
        after = _closure(n, sorted(must_precede(graph)))
        comparable = [[j in after[i] or i in after[j] for j in range(n)] for i in range(n)]
        has_n = any(
            c in after[a] and c in after[b] and d in after[b]
            for a in range(n)
            for b in range(n)
            for c in range(n)
            for d in range(n)
            if len({a, b, c, d}) == 4 and not (comparable[a][b] or comparable[a][d] or comparable[c][d])
        )
        composed = relation(state_space(graph))
        assert (composed is None) == has_n, seed
        assert composed is None or composed == {(i, j) for i in range(n) for j in after[i]}, seed
        found[has_n] += 1
    assert min(found) >= 20


def test_recognition_of_transitive_edges_that_nothing_removed() -> None:
    """Beyond `MASK_LIMIT` ops the state space keeps them; two-terminal graphs do not mind."""
    space = StateSpace(
        backward=False,
        start=0,
        increase=(0,) * 4,
        extra=(0,) * 4,
        extra_before=True,
        groups=(),
        group_bytes=(),
        group_tensors=(),
        groups_of=((),) * 4,
        before=((), (0,), (0,), (0, 1, 2)),
        after=((1, 2, 3), (3,), (3,), ()),
    )
    assert relation(space) == {(0, 1), (0, 2), (0, 3), (1, 3), (2, 3)}


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("gen:sp?n=12&seed=8", "unordered ops that may access it last"),
        ("gen:layered?layers=3&width=3&data=edge", "found 18 arcs after all series and parallel reductions"),
    ],
)
def test_other_graphs_are_refused(spec: str, words: str) -> None:
    with pytest.raises(lt.UsageError, match=words):
        lt.solve(lt.Peak(lt.load(spec)), "series-parallel")


def test_few_blocks_are_merged_into_many_as_if_all_were_sorted() -> None:
    rng = Random(1)
    for count in (0, 1, 3):
        parts = []
        for size in (count, 100, count):
            drawn = [block(rng.randint(0, 60), rng.randint(-50, 50), v) for v in range(size)]
            parts.append(sorted(drawn, key=lambda one: one.key))
        expected = sorted(one.key for part in parts for one in part)
        merged = in_parallel(parts)
        assert [one.key for one in merged] == expected
        assert len(merged) == 100 + 2 * count


def test_no_ops() -> None:
    graph = Graph(name="", tensors=(Tensor(name="w", nbytes=3, initial=True, final=True),), ops=())
    for method in ("liu", "minmem", "series-parallel", "auto"):
        assert claims(method, graph) == (3, 3)
    assert claims("pumpkin", graph) == (3, 3)
    assert claims("postorder", graph)[0] == claims("sp-ization", graph)[0] == 3


@pytest.mark.slow
def test_sp_ization_is_valid_on_any_graph_and_optimal_where_nothing_must_be_added() -> None:
    for seed in range(80):
        graph = random_graph(Random(f"any {seed}"), min_ops=2, max_ops=8)
        result = lt.solve(lt.Peak(graph), "sp-ization")
        assert result.status == lt.Status.FEASIBLE
        assert result.objective is not None
        assert result.objective >= least_peak(graph)
        space = state_space(graph)
        if not space.groups and relation(space) is not None:
            order = ops_of(synchronized_blocks(space, range(space.n)))
            assert Peak(graph).evaluate(Peak(graph).read(order)) == least_peak(graph), seed


def test_synchronization_reduces_larger_graphs_to_one_arc() -> None:
    for seed in range(40):
        shape = f"layers={3 + seed % 6}&width={3 + seed % 4}&degree={2 + seed % 2}"
        graph = lt.load(f"gen:layered?{shape}&seed={seed}&data={'edge' if seed % 2 else 'op'}")
        order = ops_of(synchronized_blocks(state_space(graph), range(len(graph.ops))))
        assert Peak(graph).read(order) == tuple(order)


def test_moved_arcs_that_join_leave_orders_of_least_peak() -> None:
    """Graphs where only the moves as stated, of arcs that join as of those that part, have the least peak."""
    for seed in (5, 20, 22, 33, 37, 43, 58):
        graph = lt.load(f"gen:layered?layers=3&width=3&degree=2&seed={seed}&data=edge")
        order = Peak(graph).read(ops_of(synchronized_blocks(state_space(graph), range(9))))
        assert Peak(graph).evaluate(order) == least_peak(graph), seed


def test_division_never_raises_the_peak() -> None:
    better = 0
    for seed in range(60):
        graph = lt.load(f"gen:layered?layers=5&width=3&seed={seed}&data={'edge' if seed % 2 else 'op'}")
        problem = Peak(graph)
        order = problem.read(ops_of(divided_blocks(state_space(graph), range(15))))
        assert problem.evaluate(order) <= problem.evaluate(range(15))
        better += problem.evaluate(order) < problem.evaluate(range(15))
    assert better > 10


def test_the_walk_improves_and_depends_on_the_seed_alone() -> None:
    problem = Peak(lt.load("gen:outtree?n=200"))
    contexts = [Context(problem=problem, seed=seed, options=DEFAULTS) for seed in (0, 0, 1)]
    for context in contexts:
        context.offer(range(200))
        walk_over_divisions(problem, context, 20, lambda: False)
    first, again, other = ([point.incumbent for point in context.trace] for context in contexts)
    assert first == again != other
    assert len(first) > 1


@pytest.mark.slow
def test_the_walk_reaches_the_optimum_of_a_tree_with_shared_data() -> None:
    graph = lt.load("gen:outtree?n=200")
    assert claims("sp-ization", graph)[0] == lt.solve(lt.Peak(graph), threads=1).bound == 56


def pumpkin(source: int, paths: list[list[int]], sink: int) -> Graph:
    """Return the pumpkin with these outputs, each shared by all successors."""
    sizes = [source, *(size for path in paths for size in path), sink]
    tensors = [Tensor(name=f"t{i}", nbytes=size) for i, size in enumerate(sizes)]
    ops = [Op(name="source", writes=(0,))]
    ends = []
    for path in paths:
        chain = [0, *range(len(ops), len(ops) + len(path))]
        ops += [Op(name=f"o{b}", reads=(a,), writes=(b,)) for a, b in pairwise(chain)]
        ends.append(chain[-1])
    ops.append(Op(name="sink", reads=tuple(ends), writes=(len(ops),)))
    return Graph(name="pumpkin", tensors=tuple(tensors), ops=tuple(ops))


@pytest.mark.parametrize("method", ["pumpkin", "auto"])
@pytest.mark.parametrize(
    ("source", "paths", "sink", "least"),
    [
        (1, [[8], [9, 12]], 3, 23),
        (4, [[9, 5, 1, 1], [8, 6, 7], [9, 3, 9, 3]], 3, 18),
        (6, [[7], [4], [1, 1], [10, 11, 12], [5]], 7, 36),
        (5, [[5], [8, 1, 5], [9, 10, 12, 1]], 6, 27),
        (8, [[8, 7], [10, 6, 6], [3, 7, 12, 12]], 8, 36),
    ],
)
def test_the_five_pumpkins(method: str, source: int, paths: list[list[int]], sink: int, least: int) -> None:
    result = lt.solve(lt.Peak(pumpkin(source, paths, sink)), method)
    assert (result.status, result.objective) == (lt.Status.OPTIMAL, least)


@pytest.mark.slow
def test_pumpkins_of_every_kind_have_the_least_peak() -> None:
    for seed in range(150):
        data = "edge" if seed % 5 == 0 else "op"
        spec = f"gen:pumpkin?paths={1 + seed % 4}&length=3&seed={seed}&data={data}"
        graph = lt.load(f"{spec}&accounting={ACCOUNTINGS[seed // 3 % 2]}")
        least = least_peak(graph)
        assert claims("pumpkin", graph) == (least, least), seed
        assert (series_parallel_order(graph) is None) == bool(state_space(graph).groups), seed


@pytest.mark.slow
def test_paths_without_source_or_sink_that_share_data() -> None:
    """Three paths read x at any time, two of them twice; there is no sink."""
    for seed in range(60):
        rng = Random(seed)
        sizes = [rng.randint(0, 9) for _ in range(10)]
        tensors = [Tensor(name=f"t{i}", nbytes=size, initial=i == 9) for i, size in enumerate(sizes)]
        ops = []
        for i in range(9):
            shared = (9,) if rng.random() < 0.4 else ()
            ops.append(Op(name=f"o{i}", reads=shared + ((i - 1,) if i % 3 else ()), writes=(i,)))
        accounting = rng.choice(ACCOUNTINGS)
        graph = Graph(name="paths", tensors=tuple(tensors), ops=tuple(ops), accounting=accounting)
        least = least_peak(graph)
        assert claims("pumpkin", graph) == (least, least), seed


def test_pumpkin_refuses_other_graphs_and_stops_in_time() -> None:
    with pytest.raises(lt.UsageError, match="op 1 'op1': found 3 direct successors, expected at most one"):
        lt.solve(lt.Peak(lt.load("gen:layered?layers=3&width=3&data=edge")), "pumpkin")
    result = lt.solve(lt.Peak(lt.load("gen:pumpkin?paths=12&length=10&seed=1")), "pumpkin", time_limit=1e-9)
    assert (result.status, result.reason) == (lt.Status.FEASIBLE, "time")


def test_every_small_graph_has_a_dominant_order() -> None:
    for seed in range(120):
        graph = random_graph(Random(f"dominant {seed}"), min_ops=2, max_ops=6)
        order = lt.dominant_order(graph)
        assert order is not None, seed
        assert all(_dominates(graph, order, other) for other in topological_orders(graph)), seed


def test_dominant_order_refuses_large_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dominance, "MOST_SETS", 50)
    with pytest.raises(lt.UsageError, match="more than 50 executed sets"):
        lt.dominant_order(lt.load("gen:pumpkin?paths=9&length=1&sizes=equal"))


def test_domination_by_hand() -> None:
    """To run first what ends low, and to be low at every cut of the other, are both needed."""
    low_then_high = Profile((0, 1), (3, 5), (1, 2))
    high_then_low = Profile((1, 0), (5, 3), (2, 2))
    assert dominates(low_then_high, high_then_low, start=2)
    assert not dominates(high_then_low, low_then_high, start=2)
    assert dominates(high_then_low, Profile((1, 0), (5, 5), (2, 2)), start=2)
    assert not dominates(Profile((0, 1), (6, 4), (3, 2)), Profile((1, 0), (5, 5), (3, 2)), start=2)


def beside(graph: Graph, order: tuple[int, ...], other: Graph, fixed: bool) -> Graph:
    """Return two graphs side by side, the ops of the first in an order, which may be fixed."""
    shift, place = len(graph.tensors), {v: k for k, v in enumerate(order)}
    first = [
        replace(
            graph.ops[v],
            after=tuple({place[u] for u in graph.ops[v].after} | ({k - 1} if fixed and k else set())),
        )
        for k, v in enumerate(order)
    ]
    second = [
        replace(
            op,
            reads=tuple(t + shift for t in op.reads),
            writes=tuple(t + shift for t in op.writes),
            after=tuple(u + len(first) for u in op.after),
            inplace=(),
        )
        for op in other.ops
    ]
    return Graph(
        name="beside",
        tensors=graph.tensors + other.tensors,
        ops=tuple(first + second),
        accounting=graph.accounting,
    )


@pytest.mark.slow
def test_fixed_to_a_dominant_order_a_graph_costs_nothing_beside_another_one() -> None:
    """What domination is for, by enumeration of executed sets alone."""
    cost_of_others = 0
    for seed in range(60):
        rng = Random(f"beside {seed}")
        graph = random_graph(rng, min_ops=3, max_ops=5, max_nbytes=9, accountings=ACCOUNTINGS[seed % 2 :][:1])
        other = random_graph(rng, min_ops=2, max_ops=4, max_nbytes=9, accountings=ACCOUNTINGS[seed % 2 :][:1])
        order = lt.dominant_order(graph)
        assert order is not None
        least = least_peak(beside(graph, order, other, fixed=False))
        assert least_peak(beside(graph, order, other, fixed=True)) == least, seed
        worst = max(topological_orders(graph), key=lambda one: sequential_memory(graph).peak(one))
        cost_of_others += least_peak(beside(graph, worst, other, fixed=True)) > least
    assert cost_of_others > 5
