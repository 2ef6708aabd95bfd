"""Stages: against enumeration, and the counts and optima of published networks."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations
from random import Random

import pytest

import lowtide as lt
from lowtide.formulations.model import BuildTimeout
from lowtide.solvers.context import Context
from lowtide.solvers.streams import stages
from lowtide.solvers.streams.pieces import offer_one_at_a_time
from lowtide.solvers.streams.stages import Pruning, StageProgram, blocks_of, program
from tests.effort import seeds
from tests.oracles.brute_force import must_precede
from tests.oracles.brute_streams import fastest_stages, stage_bytes
from tests.solvers.streams.stages import question

PRUNED, ALL = Pruning(most_ops=3, most_groups=8), Pruning(endings="all")
COUNTS = [
    ("squeezenet", 1, 12, (51, 131), (47, 126), (60, 152)),
    ("squeezenet", 2, 6, (18, 22), (16, 20), (20, 24)),
    ("inception_v3", 0, 7, (28, 64), (18, 44), (28, 64)),
    ("inception_v3", 1, 72, (1017, 59_892), (1016, 59_716), (1080, 69_032)),
    ("inception_v3", 4, 16, (80, 232), (79, 229), (90, 264)),
    ("inception_v3", 5, 144, (3648, 4_598_400), (3104, 4_448_840), (3780, 5_243_136)),
    ("inception_v3", 9, 30, (248, 3344), (228, 3224), (270, 3776)),
    ("inception_v3", 10, 180, (4871, 3_757_392), (4616, 3_727_132), (5040, 4_410_136)),
]
"""Block, states, then transitions and schedules with all unions, pruned, with all endings."""


def block_of(name: str, number: int) -> tuple[lt.Streams, list[int]]:
    graph = lt.load(f"catalogue:ios/{name}")
    return lt.Streams(graph, contention="fluid"), graph.provenance["blocks"][number]


@pytest.mark.slow
@pytest.mark.parametrize("contention", ["fluid", "half-serial"])
def test_blocks_that_are_done_better_the_stages_and_the_bound(
    monkeypatch: pytest.MonkeyPatch, contention: str
) -> None:
    problem = lt.Streams(lt.load("catalogue:ios/squeezenet"), contention=contention)
    optimum = lt.solve(problem, threads=1).objective
    assert optimum is not None
    count = len(blocks_of(problem.graph))
    found = []
    for done in range(count + 1):
        context = Context(
            problem=problem, options={"blocks": "bottlenecks", "endings": "all", "r": 0, "s": 0}
        )
        context.offer([[[i]] for i in range(len(problem.graph.ops))])
        left = iter([program] * done)
        monkeypatch.setattr(stages, "program", lambda *a, **b: next(left, too_late)(*a, **b))  # noqa: B023
        outcome = stages.solve_ios(problem, context)
        assert outcome.reason == (None if done == count else "time")
        assert not problem.judge(context.answer).violations
        assert context.incumbent is not None
        assert context.bound is not None
        found.append((context.incumbent, context.bound))
    assert found == sorted(found, key=lambda pair: (-pair[0], pair[1]))
    assert all(bound <= optimum <= time for time, bound in found)
    assert found[-1] == (optimum, optimum)
    assert len(set(found)) > 2


def too_late(*args: object, **given: object) -> StageProgram:
    raise BuildTimeout("late")


@pytest.mark.parametrize(("name", "number", "states", "code", "pruned", "everything"), COUNTS)
def test_the_program_looks_at_as_much_as_the_published_code_prints(
    name: str,
    number: int,
    states: int,
    code: tuple[int, int],
    pruned: tuple[int, int],
    everything: tuple[int, int],
) -> None:
    problem, block = block_of(name, number)
    costs = set()
    for pruning, counts in ((Pruning(), code), (PRUNED, pruned), (ALL, everything)):
        found = program(problem, block, pruning)
        assert (found.states, found.transitions, found.schedules) == (states, *counts)
        costs.add(found.cost)
    assert len(costs) == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "states", "transitions", "schedules"),
    [("nasnet_large", 2071, 229_695, 4.089e11), ("randwire_large", 4799, 522_389, 2.538e24)],
)
def test_counts_of_large_blocks(name: str, states: int, transitions: int, schedules: float) -> None:
    number = {"nasnet_large": 4, "randwire_large": 4}[name]
    found = program(*block_of(name, number), PRUNED)
    assert (found.states, found.transitions) == (states, transitions)
    assert found.schedules == pytest.approx(schedules, rel=1e-3)


OPTIMA = [
    ("squeezenet", "fluid", 459_582.2),
    ("squeezenet", "half-serial", 496_606.1),
    ("inception_v3", "fluid", 2_310_759),
    ("inception_v3", "half-serial", 3_329_287),
    pytest.param("nasnet_large", "fluid", 4_392_860, marks=pytest.mark.slow),
    pytest.param("nasnet_large", "half-serial", 6_348_515, marks=pytest.mark.slow),
    pytest.param("randwire_large", "fluid", 1_408_990, marks=pytest.mark.slow),
    pytest.param("randwire_large", "half-serial", 2_309_426, marks=pytest.mark.slow),
]
"""In fractions of a nanosecond, of times that are not rounded."""


@pytest.mark.parametrize(("name", "contention", "known"), OPTIMA)
def test_optima_of_published_networks(name: str, contention: str, known: float) -> None:
    # Times of ops and prices of stages are rounded here: by half a ns for each op, one for each stage.
    problem = lt.Streams(lt.load(f"catalogue:ios/{name}"), contention=contention)
    result = lt.solve(problem, "ios", options={"blocks": "stated"}, threads=1, time_limit=None)
    assert result.objective is not None
    assert known - len(problem.graph.ops) / 2 <= result.objective <= known + 1.5 * len(problem.graph.ops)


@pytest.mark.parametrize(("name", "known"), [("squeezenet", 496_670), ("inception_v3", 3_412_821)])
def test_greedy_stages_of_published_networks(name: str, known: int) -> None:
    problem = lt.Streams(lt.load(f"catalogue:ios/{name}"), contention="half-serial")
    result = lt.solve(problem, "greedy", threads=1)
    assert result.objective is not None
    assert known <= result.objective <= known + len(problem.graph.ops)


@pytest.mark.parametrize(
    ("name", "number", "points"),
    [
        (
            "inception_v3",
            1,
            [(81968, 4155200), (82324.6, 3214400), (87059, 2900800), (92994.6, 2744000), (97729, 2508800)],
        ),
        pytest.param(
            "inception_v3",
            5,
            [(186451, 2293504), (193492, 2145536), (225445, 1997568)],
            marks=pytest.mark.slow,
        ),
        pytest.param("inception_v3", 10, [(282990, 1048576)], marks=pytest.mark.slow),
        ("squeezenet", 1, [(32300.9, 4646400)]),
        ("squeezenet", 8, [(64971, 4478976)]),
    ],
)
def test_frontier_of_time_and_memory(name: str, number: int, points: list[tuple[float, int]]) -> None:
    graph = lt.load(f"catalogue:ios/{name}")
    blocks = graph.provenance["blocks"]
    before = sum(1 << i for block in blocks[:number] for i in block)
    memory: int | None = None
    for known, nbytes in points:
        problem = lt.Streams(graph, contention="fluid", memory=memory)
        found = program(problem, blocks[number], Pruning(), executed=before)
        assert found.cost is not None
        assert abs(found.cost - known) <= 1.5 * len(blocks[number])
        # What is the least memory of the stages that take so long?
        low, high = 0, memory or 10**9
        while low < high:
            middle = (low + high) // 2
            tried = program(
                lt.Streams(graph, contention="fluid", memory=middle),
                blocks[number],
                Pruning(),
                executed=before,
            )
            low, high = (low, middle) if tried.cost == found.cost else (middle + 1, high)
        assert low == nbytes
        memory = nbytes - 1
    last = lt.Streams(graph, contention="fluid", memory=memory)
    assert program(last, blocks[number], Pruning(), executed=before).cost is None


@pytest.mark.parametrize("seed", seeds(300))
def test_what_is_proved_is_the_least_of_all_stages(seed: int) -> None:
    problem = question(seed)
    known = fastest_stages(
        problem.graph,
        problem.contention,
        problem.device.parts,
        sync_ns=problem.sync_ns,
        memory=problem.memory,
        streams=problem.streams,
    )
    for method, options in (
        ("auto", {}),
        ("ios", {"endings": "all", "r": "0", "s": "0"}),
        ("ios", {}),
        ("greedy", {}),
        ("ios", {"endings": "code", "r": "0", "s": "2"}),
        ("ios-cpsat", {}),
    ):
        result = lt.solve(problem, method, options=options, threads=1)
        assert result.status != "failed", result.detail
        if result.status == "infeasible":
            assert known is None
        if result.objective is not None:
            assert known is not None
            assert result.objective >= known
        if result.bound is not None and known is not None:
            assert result.bound <= known
        if result.status == "optimal":
            assert result.objective == known
        if method == "ios-cpsat":
            assert result.status == ("infeasible" if known is None else "optimal")
        if problem.streams is None and method == "auto":
            assert result.status in ("optimal", "infeasible") or problem.memory is not None


@pytest.mark.parametrize("seed", seeds(12))
def test_two_judges_of_larger_graphs_agree(seed: int) -> None:
    problem = question(seed, ops=9)
    by_program = lt.solve(problem, "ios", options={"endings": "all", "r": "0", "s": "0"}, threads=1)
    by_model = lt.solve(problem, "ios-cpsat", threads=1)
    assert by_model.status in ("optimal", "infeasible")
    if by_program.status in ("optimal", "infeasible"):
        assert by_model.status == by_program.status
        assert by_model.objective == by_program.objective
    elif by_program.objective is not None:
        assert by_model.objective is not None
        assert by_model.objective <= by_program.objective


def test_the_model_of_stages_is_handed_out() -> None:
    graph = lt.load("catalogue:diamond")
    built = lt.build(lt.Streams(graph, contention="fluid"), "ios-cpsat")
    assert built.decode({"x[0][0][0]": 1, "x[1][1][1]": 1, "x[1][2][2]": 1, "x[2][3][3]": 1}).stages == (
        ((0,),),
        ((1,), (2,)),
        ((3,),),
    )
    with pytest.raises(lt.UsageError, match="expected fluid or half-serial"):
        lt.build(lt.Streams(graph), "ios-cpsat")


def test_blocks_end_with_ops_on_every_path() -> None:
    for name, count in (("inception_v3", 13), ("squeezenet", 12)):
        graph = lt.load(f"catalogue:ios/{name}")
        blocks = blocks_of(graph)
        assert sorted(i for block in blocks for i in block) == list(range(len(graph.ops)))
        stated = graph.provenance["blocks"]
        assert len(stated) == count
        ends = {max(block) for block in blocks}
        assert {max(block) for block in stated} <= ends


def least_bytes(graph: lt.Graph) -> int:
    """Return what stages of one op each need at least, of all orders."""
    before = must_precede(graph)
    found = []
    for order in permutations(range(len(graph.ops))):
        place = {i: k for k, i in enumerate(order)}
        if all(place[i] < place[j] for i, j in before):
            found.append(max(stage_bytes(graph, set(order[:k]), [[i]]) for k, i in enumerate(order)))
    return min(found)


@pytest.mark.parametrize("seed", seeds(100))
def test_one_op_at_a_time_needs_the_least_memory(seed: int) -> None:
    problem = replace(question(seed), streams=Random(seed).choice((None, 1, 2)))
    graph = problem.graph
    least = least_bytes(graph)
    for memory in {least, max(0, least - 1)}:
        asked = replace(problem, memory=memory)
        alone = Context(problem=asked, threads=1)
        outcome = offer_one_at_a_time(asked, alone)
        assert outcome.infeasible == (memory < least)
        assert (alone.answer is None) == (memory < least)
        result = lt.solve(asked, threads=1)
        assert (result.status == "infeasible") == (memory < least), result.detail
        if memory == least:
            assert not asked.judge(alone.answer).violations
            assert result.plan is not None
            assert lt.verify(graph, result.plan).valid
