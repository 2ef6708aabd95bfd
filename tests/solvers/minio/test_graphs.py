"""Least I/O on graphs with shared and changed tensors: methods against exhaustive search, mutated answers."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

import lowtide as lt
from lowtide.formulations.minio import steps_cpsat
from lowtide.formulations.minio.data import GraphData, gaps_of, graph_data
from lowtide.models.derived.memory import sequential_memory
from lowtide.models.plan import Plan, Resident
from lowtide.solvers.context import Context
from lowtide.solvers.engines.cpsat import solve_cpsat
from lowtide.solvers.minio import models
from lowtide.solvers.minio.evictions import RULES, evict, evicted
from lowtide.solvers.minio.peaks import counted_graphs, least_moved
from tests.effort import seeds, share
from tests.oracles.brute_io import fewest_moved
from tests.solvers.minio.graphs import least_need, questions, random_graph, valid_order
from tests.solvers.minio.trees import small_problems


def fewest(problem: lt.MinIO, order: tuple[int, ...] | None = None) -> int:
    kind = {"whole": problem.whole, "count": problem.count, "stored": problem.stored}
    least = fewest_moved(problem.graph, problem.memory, order=order, **kind)  # type: ignore[arg-type]
    assert least is not None
    return least


@pytest.fixture
def in_order(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """Make methods that take an order take the last one of the list."""
    orders: list[tuple[int, ...]] = []
    monkeypatch.setattr(models, "order_of", lambda *given: orders[-1])
    return orders


def test_rules_are_valid_and_move_what_they_count() -> None:
    beyond = 0
    for rng, problem in questions(share(400), "rules"):
        data, order = graph_data(problem), valid_order(rng, problem.graph)
        least = fewest(problem, order)
        for rule in RULES:
            for first in (False, True):
                traversal, moved = evicted(data, order, rule, clean_first=first)
                answer = problem.read(traversal)
                judged = problem.judge(answer)
                assert not judged.violations
                assert judged.objective == moved == problem.evaluate(answer) >= least
        beyond += least > data.fixed
    assert beyond > share(60)


def shares_nothing(data: GraphData, order: tuple[int, ...]) -> bool:
    """Whether all gaps cost the same for each byte, and no two share a write."""
    gaps = [gap for gap in gaps_of(data, order) if gap.end > gap.begin]
    if data.traffic and all(data.clean[gap.file] for gap in gaps):
        return True
    alone = len({gap.file for gap in gaps}) == len(gaps) and not any(data.clean[gap.file] for gap in gaps)
    return alone and not (data.traffic and any(not gap.read for gap in gaps))


def test_furthest_is_the_linear_program_where_gaps_share_nothing() -> None:
    equal = 0
    for rng, problem in questions(share(600), "furthest"):
        divisible = replace(problem, whole=False)
        data, order = graph_data(divisible), valid_order(rng, problem.graph)
        if shares_nothing(data, order):
            least = fewest(divisible, order)
            assert evicted(data, order)[1] == least
            equal += least > data.fixed
    assert equal > share(40)


def test_furthest_moves_more_where_a_write_is_shared(in_order: list[tuple[int, ...]]) -> None:
    """Both files are next used by op 3; then only the second one waits again without room for it."""
    tensors = tuple(lt.Tensor(name=f"t{k}", nbytes=size) for k, size in enumerate((2, 2, 1)))
    accesses = (
        ((), (0,), 3),
        ((0,), (1,), 0),
        ((), (), 3),
        ((0, 1), (), 0),
        ((0,), (), 3),
        ((0, 1), (2,), 0),
    )
    ops = tuple(
        lt.Op(name=str(i), reads=reads, writes=writes, workspace=space)
        for i, (reads, writes, space) in enumerate(accesses)
    )
    problem = lt.MinIO(lt.Graph(name="shared", tensors=tensors, ops=ops), memory=5)
    in_order.append(tuple(range(6)))
    assert evicted(graph_data(problem), in_order[-1])[1] == 4
    assert lt.solve(problem, "milp", threads=1).objective == fewest(problem, in_order[-1]) == 2


@pytest.mark.slow
def test_program_of_an_order_finds_its_fewest_bytes(in_order: list[tuple[int, ...]]) -> None:
    beyond = 0
    for rng, problem in questions(share(300), "program"):
        in_order.append(valid_order(rng, problem.graph))
        data, least = graph_data(problem), fewest(problem, in_order[-1])
        result = lt.solve(problem, "milp", threads=1)
        assert result.objective == least >= (result.bound or 0)
        beyond += least > data.fixed
    assert beyond > share(40)


@pytest.mark.parametrize(
    "method", ["states", *(pytest.param(name, marks=pytest.mark.slow) for name in ("cpsat-steps", "auto"))]
)
def test_methods_find_the_fewest_bytes_of_all_orders(method: str) -> None:
    beyond = 0
    for _, problem in questions(share(400), method):
        if method == "states":
            problem = replace(problem, whole=True)
        least = fewest(problem)
        result = lt.solve(problem, method, threads=1)
        assert (result.status, result.objective) == (lt.Status.OPTIMAL, least), problem
        beyond += least > graph_data(problem).fixed
    assert beyond > share(60, 3)


@pytest.mark.slow
def test_model_of_steps_alone_finds_the_fewest_bytes() -> None:
    for rng, problem in questions(share(100), "steps"):
        data = graph_data(problem)
        built = steps_cpsat.build(data, order=valid_order(rng, problem.graph) if rng.random() < 0.5 else None)
        context = Context(problem=problem, threads=1, time_limit=None)
        solve_cpsat(
            built.model,
            context,
            decode=lambda value: steps_cpsat.decode(built, value),  # noqa: B023
            to_objective=lambda units: units * data.unit + data.fixed - data.first_reads,  # noqa: B023
        )
        assert context.incumbent == context.bound == fewest(problem)
        assert not problem.judge(context.answer).violations


@pytest.mark.slow
def test_local_search_and_rules_are_no_less_than_the_optimum() -> None:
    for _, problem in questions(share(100), "local"):
        least = fewest(problem)
        for method in ("local-search", "furthest", "best-k"):
            result = lt.solve(problem, method, threads=1, options={"runs": "1"} if "search" in method else {})
            assert (result.bound or 0) <= least <= (result.objective or 0)


@pytest.mark.slow
@pytest.mark.parametrize("whole", [False, True])
def test_trees_keep_their_values_and_their_traffic_is_twice_the_writes(whole: bool) -> None:
    for _, problem in small_problems(share(60), whole):
        exact = lt.solve(problem, "auto", threads=1).objective
        assert exact is not None
        assert lt.solve(problem, "cpsat-steps", threads=1).objective == exact
        twice = replace(problem, count="traffic")
        assert lt.solve(twice, "states" if whole else "cpsat-steps", threads=1).objective == 2 * exact
        if whole:
            assert lt.solve(problem, "states", threads=1).objective == exact


@pytest.mark.slow
def test_nothing_is_moved_exactly_from_the_least_peak_on() -> None:
    tried = 0
    for seed in seeds(300):
        graph = random_graph(Random(f"peak {seed}"), 8, 3)
        peak = lt.solve(lt.Peak(graph), threads=1).objective
        assert peak is not None
        for count in ("writes", "traffic"):
            assert lt.solve(lt.MinIO(graph, peak, count=count), threads=1).objective == 0
        less = max(least_need(graph), sequential_memory(graph).initial_bytes)
        if less < peak:
            result = lt.solve(lt.MinIO(graph, peak - 1), threads=1)
            assert (result.objective or 0) >= (result.bound or 0) >= 1
            tried += 1
    assert tried > share(20, 3)


@pytest.mark.slow
def test_bounds_hold_with_the_least_peaks_themselves() -> None:
    above = 0
    for _, problem in questions(share(300), "bounds"):
        data = graph_data(problem)
        peaks = [lt.solve(lt.Peak(graph), threads=1).objective or 0 for graph in counted_graphs(data)]
        bound = least_moved(data, *peaks)
        assert data.fixed <= bound <= fewest(problem)
        above += bound > data.fixed
    assert above > share(30, 3)


def test_a_value_that_was_written_is_read_as_often_as_needed() -> None:
    """One value of 5 bytes, used around two ops that fill the memory: written once, read twice."""
    tensors = (lt.Tensor(name="x", nbytes=5), lt.Tensor(name="y", nbytes=1), lt.Tensor(name="z", nbytes=1))
    ops = (
        lt.Op(name="make", writes=(0,)),
        lt.Op(name="fill", workspace=6, after=(0,)),
        lt.Op(name="use", reads=(0,), writes=(1,), after=(1,)),
        lt.Op(name="again", reads=(1,), workspace=5, after=(2,)),
        lt.Op(name="last", reads=(0,), writes=(2,), after=(3,)),
    )
    graph = lt.Graph(name="twice", tensors=tensors, ops=ops)
    for count, moved in (("writes", 5), ("traffic", 15)):
        for method, whole in (("states", True), ("furthest", True), ("furthest", False)):
            assert lt.solve(lt.MinIO(graph, 6, whole=whole, count=count), method).objective == moved


def with_copies(plan: Plan, keep: int) -> Plan:
    return replace(plan, copies=tuple(c for k, c in enumerate(plan.copies) if k != keep))


def test_mutated_answers_are_refused() -> None:
    lost = moved = early = 0
    for _, problem in questions(share(300), "mutated"):
        answer = problem.read(evict(graph_data(problem), range(len(problem.graph.ops))))
        assert not problem.judge(answer).violations
        for k, copy in enumerate(answer.copies):
            if problem.graph.tensors[copy.tensor].nbytes:
                assert problem.judge(with_copies(answer, k)).violations
                lost += 1
        for free in answer.frees:
            if problem.graph.tensors[free.tensor].nbytes and free.time:
                less = replace(answer, frees=tuple(f for f in answer.frees if f is not free))
                tight = {v.kind for v in problem.judge(less).violations}
                assert tight <= {"capacity", "copy-target", "write-conflict"}
                early += bool(tight)
        other = "storage" if not problem.stored else "memory"
        if answer.start:
            elsewhere = tuple(Resident(r.tensor, other, r.bytes, r.valid) for r in answer.start)
            kinds = {v.kind for v in problem.judge(replace(answer, start=elsewhere)).violations}
            assert "start" in kinds
            moved += 1
    assert lost > share(100)
    assert early > share(50)
    assert moved > share(80)


def test_final_tensors_must_end_in_the_storage() -> None:
    graph = lt.load("gen:layered?layers=2&width=2&seed=1")
    warm, cold = (lt.MinIO(graph, 99, stored=stored) for stored in (False, True))
    traversal = lt.Traversal(tuple(range(4)))
    stays = warm.read(traversal)
    assert not warm.judge(stays).violations
    assert {v.kind for v in cold.judge(stays).violations} == {"final"}
    assert "in storage in version" in cold.judge(stays).violations[0].message
    assert cold.judge(cold.read(traversal)).objective == sum(t.nbytes for t in graph.tensors if t.final)


def test_long_plans_must_end_in_the_storage_too() -> None:
    graph = lt.load("gen:layered?layers=60&width=4&seed=1")
    order = tuple(range(len(graph.ops)))
    assert len(order) >= 200
    stays = lt.MinIO(graph, 10**6).read(lt.Traversal(order))
    assert {v.kind for v in lt.MinIO(graph, 10**6, stored=True).judge(stays).violations} == {"final"}


def test_what_is_overwritten_is_refused() -> None:
    tensors = (lt.Tensor(name="x", nbytes=1),)
    ops = (lt.Op(name="a", writes=(0,)), lt.Op(name="b", reads=(0,)), lt.Op(name="c", writes=(0,)))
    graph = lt.Graph(name="over", tensors=tensors, ops=ops)
    with pytest.raises(lt.UsageError, match="'c': found tensor 0 'x' overwritten without being read"):
        lt.solve(lt.MinIO(graph, 2))


@pytest.mark.parametrize(
    ("method", "given", "message"),
    [
        ("benders", {}, "ops that precede none, expected one, the root of a tree"),
        ("states", {"whole": False}, "found divisible tensors"),
        ("furthest", {"order": "liu"}, "option order: found liu, expected one of reference, greedy"),
    ],
)
def test_questions_that_a_method_does_not_solve(method: str, given: dict[str, object], message: str) -> None:
    order = {"order": str(given["order"])} if "order" in given else {}
    graph = lt.load("gen:layered?layers=3&width=2&seed=1")
    with pytest.raises(lt.UsageError, match=message):
        lt.solve(lt.MinIO(graph, 60), method, options=order)


def test_count_is_one_of_two_and_part_of_the_question() -> None:
    graph = lt.load("gen:layered?layers=2&width=2&seed=1")
    with pytest.raises(
        lt.InstanceError, match="minio, count: found 'reads', expected one of writes, traffic"
    ):
        lt.MinIO(graph, 9, count="reads")
    kinds = [lt.MinIO(graph, 9), lt.MinIO(graph, 9, count="traffic"), lt.MinIO(graph, 9, stored=True)]
    assert len({problem.instance.sha256 for problem in kinds}) == 3


def test_orders_of_graphs() -> None:
    graph = lt.load("gen:layered?layers=6&width=5&seed=1")
    problem = lt.MinIO(graph, 70, whole=True)
    moved = {
        o: lt.solve(problem, "best-k", options={"order": o}).objective
        for o in ("reference", "greedy", "suited")
    }
    assert moved["suited"] == lt.solve(problem, "best-k", options={"order": "least-peak"}).objective
    assert all(value is not None and value >= 15 for value in moved.values())


def test_methods_of_trees_count_writes() -> None:
    for _, problem in small_problems(1, whole=False):
        for other in (replace(problem, count="traffic"), replace(problem, stored=True)):
            with pytest.raises(lt.UsageError, match="expected the writes of a tree"):
                lt.solve(other, "benders")
