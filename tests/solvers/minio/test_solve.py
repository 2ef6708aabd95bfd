"""Least I/O on trees: every method against exhaustive search, and against each other on larger trees."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations, product
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any

import pytest

import lowtide as lt
from lowtide.formulations.minio import cuts_cpsat as minio_decomposition
from lowtide.formulations.minio import joint_cpsat as minio_cpsat
from lowtide.formulations.minio.data import MinIOData
from lowtide.models.graph import Graph, Op, Tensor
from lowtide.solvers.context import Context, Outcome
from lowtide.solvers.engines.cpsat import solve_cpsat
from lowtide.solvers.minio.bounds import subtree_bounds
from lowtide.solvers.minio.evictions import RULES, evict
from lowtide.solvers.minio.orders import ORDERS, io_post_order
from lowtide.solvers.minio.rules import tree_data
from tests.effort import seeds, share
from tests.oracles.brute_minio import fewest_bytes
from tests.solvers.minio.trees import orders_of, random_tree, small_problems, tight


@pytest.mark.parametrize("whole", [False, True])
def test_bound_and_rules_hold_against_exhaustive_search(whole: bool) -> None:
    written = 0
    for _, problem in small_problems(40, whole):
        least = fewest_bytes(problem.graph, problem.memory, whole=whole)
        assert least is not None
        written += least
        for rule in RULES:
            result = lt.solve(problem, rule, options={"order": "liu"})
            assert result.verification is not None
            assert result.verification.valid
            assert result.objective is not None
            assert result.bound is not None
            assert result.bound <= least <= result.objective
            assert (result.status is lt.Status.OPTIMAL) == (result.objective == result.bound)
    assert written


def test_furthest_writes_the_fewest_divisible_bytes_of_an_order() -> None:
    written = 0
    for rng, problem in small_problems(25, whole=False):
        order = rng.choice(list(orders_of(problem.graph)))
        traversal = evict(tree_data(problem, "test"), order)
        judged = problem.judge(problem.read(traversal))
        assert judged.objective == fewest_bytes(problem.graph, problem.memory, order=order)
        written += judged.objective or 0
    assert written


def post_orders(data: MinIOData, i: int) -> Iterator[tuple[int, ...]]:
    for sequence in permutations(data.children[i]):
        for parts in product(*(list(post_orders(data, c)) for c in sequence)):
            yield (*(v for part in parts for v in part), i)


def test_post_order_for_io_is_the_best_post_order() -> None:
    written = 0
    for _, problem in small_problems(60, whole=False, n=8, most=6):
        data = tree_data(problem, "test")
        order, value = io_post_order(data)
        assert problem.evaluate(problem.read(evict(data, order))) == value
        each = post_orders(data, data.n - 1)
        assert value == min(problem.evaluate(problem.read(evict(data, some))) for some in each)
        written += value
    assert written


def test_all_that_fits_writes_nothing_and_is_optimal() -> None:
    graph = lt.load("catalogue:harpoon")
    peak = lt.solve(lt.Peak(graph), "liu").objective
    assert peak is not None
    result = lt.solve(lt.MinIO(graph, memory=peak), "furthest", options={"order": "liu"})
    assert (result.status, result.objective) == (lt.Status.OPTIMAL, 0)
    result = lt.solve(lt.MinIO(graph, memory=peak - 1), "furthest", options={"order": "liu"})
    assert result.bound == 1


def test_less_memory_than_an_op_needs_is_infeasible() -> None:
    graph = random_tree(Random(1), 6)
    least = max(tree_data(lt.MinIO(graph, memory=100), "test").need)
    assert fewest_bytes(graph, least) is not None
    assert fewest_bytes(graph, least - 1) is None
    assert lt.solve(lt.MinIO(graph, memory=least - 1), "furthest").status is lt.Status.INFEASIBLE


def star(*sizes: int, need: int) -> Graph:
    """Return leaves with files of these sizes, a last one that needs much, and the root."""
    names = [f"f{k}" for k in range(len(sizes))]
    tensors = tuple(Tensor(name=name, nbytes=size) for name, size in zip(names, sizes, strict=True))
    leaves = [Op(name=name, writes=(k,)) for k, name in enumerate(names)]
    greedy = Op(name="greedy", workspace=need)
    n = len(sizes)
    root = Op(name="root", reads=tuple(range(n)), after=(n,))
    return Graph(name="star", tensors=tensors, ops=(*leaves, greedy, root))


@pytest.mark.parametrize(
    ("rule", "evicted"),
    [
        ("furthest", [0, 1]),
        ("first-fit", [1]),
        ("best-fit", [2]),
        ("first-fill", [0, 1]),
        ("best-fill", [3, 0]),
        ("best-k", [2]),
    ],
)
def test_rules_choose_what_they_say(rule: str, evicted: list[int]) -> None:
    """Sizes 2, 9, 6 and 4 wait, all for the root; 5 bytes are too many."""
    graph = star(2, 9, 6, 4, need=5)
    problem = lt.MinIO(graph, memory=21, whole=True)
    traversal = evict(tree_data(problem, "test"), range(6), rule)
    assert [e.tensor for e in traversal.evictions] == evicted
    assert problem.judge(problem.read(traversal)).verification.valid


def test_whole_tensors_must_move_whole() -> None:
    graph = star(2, 9, need=5)
    traversal = lt.Traversal((0, 1, 2, 3), (lt.Eviction(2, 1, 5),))
    assert lt.MinIO(graph, memory=11).judge(lt.MinIO(graph, memory=11).read(traversal)).objective == 5
    problem = lt.MinIO(graph, memory=11, whole=True)
    kinds = {v.kind for v in problem.judge(problem.read(traversal)).violations}
    assert kinds == {"whole"}


@pytest.mark.parametrize(
    ("traversal", "message"),
    [
        (lt.Traversal((0, 1, 2)), "each of the 4 ops once"),
        (lt.Traversal((0, 1, 2, 3), (lt.Eviction(1, 1, 1),)), "from 1 to 0 bytes"),
        (lt.Traversal((0, 1, 2, 3), (lt.Eviction(2, 1, 10),)), "from 1 to 9 bytes"),
        (lt.Traversal((0, 1, 2, 3), (lt.Eviction(9, 1, 10),)), "the place of a run"),
    ],
)
def test_wrong_traversals_are_refused(traversal: lt.Traversal, message: str) -> None:
    with pytest.raises(lt.InstanceError, match=message):
        lt.MinIO(star(2, 9, need=5), memory=20).read(traversal)


def test_a_hint_that_does_not_fit_is_refused() -> None:
    problem = lt.MinIO(star(2, 9, need=5), memory=11)
    with pytest.raises(lt.InstanceError, match="capacity"):
        lt.solve(problem, "furthest", hint=lt.Traversal((0, 1, 2, 3)))


def test_shared_tensors_and_out_trees_are_refused_by_methods_of_trees() -> None:
    graph = lt.load("gen:outtree?n=9&data=op&seed=1")
    with pytest.raises(lt.UsageError, match="tree"):
        lt.solve(lt.MinIO(graph, memory=10**6), "postorder")


@pytest.mark.slow
def test_orders_of_a_large_tree_verify() -> None:
    rng = Random(7)
    problem = tight(rng, random_tree(rng, 3000, most=1000, reach=60), whole=True)
    bound = subtree_bounds(problem.graph, tree_data(problem, "test"))[-1]
    for order in ORDERS:
        result = lt.solve(problem, "best-k", options={"order": order})
        assert result.objective is not None
        assert result.objective >= bound > 0


@pytest.mark.parametrize("whole", [False, True])
def test_joint_model_alone_finds_the_fewest_bytes(whole: bool) -> None:
    for _, problem in small_problems(15, whole, n=7):
        data = tree_data(problem, "test")
        built = minio_cpsat.build(data, [0] * data.n)
        context = Context(problem=problem, time_limit=None)
        solve_cpsat(
            built.model,
            context,
            decode=lambda value: minio_cpsat.decode(built, value),  # noqa: B023
            to_objective=lambda units: units * data.unit,  # noqa: B023
        )
        least = fewest_bytes(problem.graph, problem.memory, whole=whole)
        assert context.incumbent == context.bound == least
        assert problem.judge(context.answer).objective == least


@pytest.mark.slow
@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize(("reach", "seed"), [(3, 51), (5, 85), (5, 132)])
def test_auto_closes_the_gap_that_bounds_of_subtrees_leave(reach: int, seed: int, whole: bool) -> None:
    graph = random_tree(Random(f"hard {seed}"), 8, most=9, reach=reach)
    data = tree_data(lt.MinIO(graph, memory=10**6), "test")
    problem = lt.MinIO(graph, memory=max(data.need), whole=whole)
    result = lt.solve(problem, "auto", threads=1)
    assert result.status is lt.Status.OPTIMAL
    assert result.objective == fewest_bytes(graph, problem.memory, whole=whole)
    assert result.objective is not None
    assert result.objective > subtree_bounds(graph, tree_data(problem, "test"))[-1]
    alone = lt.solve(problem, "cpsat", threads=1)
    assert (alone.status, alone.objective) == (result.status, result.objective)


@pytest.mark.parametrize(("method", "build"), [("cpsat", minio_cpsat), ("benders", minio_decomposition)])
def test_no_model_is_built_when_the_time_is_up(
    method: str, build: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first traversal that is offered uses the time up; it is what comes back."""
    problem = lt.MinIO(lt.load("gen:intree?n=60&arity=2&largest=100&seed=1"), memory=250)
    limits: list[Context] = []

    def offered(context: Context, item: object) -> int:
        limits.append(context)
        context.time_limit = 0.0
        return offer(context, item)

    offer = Context.offer
    monkeypatch.setattr(Context, "offer", offered)
    monkeypatch.setattr(build, "build", lambda *given: pytest.fail("built a model after the time"))
    result = lt.solve(problem, method, threads=1, time_limit=None)
    assert len(limits) == 1
    assert (result.status, result.reason) == ("feasible", "time")
    assert "was not built: no time was left" in result.detail


@pytest.mark.slow
def test_log_has_every_round_of_cuts(tmp_path: Path) -> None:
    problem = lt.MinIO(lt.load("gen:intree?n=40&arity=2&largest=100&seed=2"), memory=250)
    path = tmp_path / "solver.log"
    path.write_text("old")
    rounds: list[Context] = []

    def counted(model: Any, context: Context, **more: Any) -> Outcome:
        rounds.append(context)
        return solve_cpsat(model, context, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lowtide.solvers.engines.cpsat.solve_cpsat", counted)
        assert lt.solve(problem, "benders", threads=1, log=path).status == "optimal"
    text = path.read_text()
    assert "old" not in text
    assert text.count("Starting CP-SAT solver") == len(rounds) >= 2


@pytest.mark.parametrize("whole", [False, True])
def test_program_of_an_order_finds_its_fewest_bytes(whole: bool) -> None:
    for _, problem in small_problems(12, whole):
        result = lt.solve(problem, "milp", threads=1, options={"order": "reference"})
        order = range(len(problem.graph.ops))
        assert result.objective == fewest_bytes(problem.graph, problem.memory, whole=whole, order=order)


def test_furthest_equals_the_linear_program() -> None:
    written = 0
    for seed in seeds(200):
        rng = Random(f"lp {seed}")
        problem = tight(rng, random_tree(rng, rng.randint(5, 30), most=50, reach=12), whole=False)
        options = {"order": rng.choice(list(ORDERS))}
        least = lt.solve(problem, "milp", threads=1, options=options)
        result = lt.solve(problem, "furthest", options=options)
        assert result.objective == least.objective
        written += (result.objective or 0) > 0
    assert written > share(50)
