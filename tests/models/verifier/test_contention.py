"""The rules on ops that share a device: what is possible passes, everything else is named."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import pytest

import lowtide as lt
from lowtide.instances.formats.native_plan import read_plan
from lowtide.models.plan import Plan
from lowtide.models.verifier import verify as verifying
from lowtide.models.verifier.transport import unplaced
from tests.effort import seeds
from tests.solvers.streams.events import question as streams_question
from tests.solvers.streams.stages import question as stages_question

WIDE = lt.Graph(
    name="wide",
    tensors=(),
    ops=tuple(lt.Op(name=f"o{i}", duration_ns=100, share=share) for i, share in enumerate((4, 2, 2, 1))),
)


def plan_of(problem: lt.Streams, item: object) -> Plan:
    judged = problem.judge(problem.read(item))
    assert judged.verification.valid, judged.violations
    assert judged.plan is not None
    return judged.plan


def kinds(graph: lt.Graph, plan: Plan) -> set[str]:
    return {v.kind for v in lt.verify(graph, plan).violations}


def shortened(plan: Plan, factor: float) -> Plan:
    """Return a plan in which all happens sooner."""
    return replace(
        plan,
        runs=tuple(replace(r, start=int(r.start * factor), end=int(r.end * factor)) for r in plan.runs),
    )


def test_a_device_does_no_more_than_it_can() -> None:
    problem = lt.Streams(WIDE, contention="proportional")
    plan = plan_of(problem, [[0], [1], [2], [3]])
    assert max(run.end for run in plan.runs) == 225
    assert lt.verify(WIDE, plan).valid
    late = replace(plan, runs=tuple(replace(run, end=225) for run in plan.runs))
    assert lt.verify(WIDE, late).valid
    soon = replace(plan, runs=tuple(replace(run, end=224) for run in plan.runs))
    (violation,) = lt.verify(WIDE, soon).violations
    assert violation.kind == "contention"
    assert "4 parts times ns more than the 4 parts" in violation.message


@pytest.mark.parametrize("seed", seeds(200))
def test_simulations_are_possible_and_nothing_is_below_the_bounds(seed: int) -> None:
    problem = replace(streams_question(seed), contention="proportional", memory=None, streams=None, sync_ns=0)
    rng = Random(seed)
    graph = problem.graph
    streams: list[list[int]] = [[] for _ in range(rng.randint(1, 4))]
    for i in range(len(graph.ops)):
        rng.choice(streams).append(i)
    plan = plan_of(problem, [some for some in streams if some])
    makespan = lt.verify(graph, plan).makespan
    assert makespan is not None
    least = -(-problem.area // problem.device.parts)
    assert makespan >= least
    if least < 2:
        return
    squeezed = replace(plan, runs=tuple(replace(run, start=0, end=least - 1) for run in plan.runs), frees=())
    assert kinds(graph, squeezed) & {"contention", "precedence", "duration", "processor-overlap"}


def test_one_maximum_flow_is_exact() -> None:
    rng = Random(0)
    for _ in range(300):
        works = [rng.randint(0, 6) for _ in range(rng.randint(1, 4))]
        room = [rng.randint(0, 6) for _ in range(rng.randint(1, 4))]
        arcs = [
            (i, k, rng.randint(0, 5))
            for i in range(len(works))
            for k in range(len(room))
            if rng.random() < 0.7
        ]
        missing, near = unplaced(works, room, arcs)
        # By cuts: the most that the works of a set have above what any intervals and arcs let through.
        worst = 0
        for chosen in range(1 << len(works)):
            over = sum(w for i, w in enumerate(works) if chosen >> i & 1)
            through = sum(
                min(room[k], sum(most for i, x, most in arcs if x == k and chosen >> i & 1))
                for k in range(len(room))
            )
            worst = max(worst, over - through)
        assert missing == worst
        over = sum(works[i] for i in near) - sum(
            min(room[k], sum(most for i, x, most in arcs if x == k and i in near)) for k in range(len(room))
        )
        assert over == missing


def earlier_start(plan: Plan) -> Plan:
    last = max(plan.runs, key=lambda run: run.start)
    moved = replace(last, start=last.start - 1)
    return replace(plan, runs=tuple(moved if run is last else run for run in plan.runs))


def cut_short(plan: Plan) -> Plan:
    last = max(plan.runs, key=lambda run: run.end)
    return replace(plan, runs=tuple(replace(r, end=r.end - 1) if r is last else r for r in plan.runs))


def one_stage(plan: Plan) -> Plan:
    return replace(plan, stages=(0,))


def no_stages(plan: Plan) -> Plan:
    return replace(plan, stages=None)


def split_stage(plan: Plan) -> Plan:
    run = max(plan.runs, key=lambda run: run.end - run.start)
    begins: Any = sorted({*(plan.stages or ()), (run.start + run.end) // 2})
    return replace(plan, stages=tuple(begins))


DIAMOND = lt.load("catalogue:diamond")
LONG = replace(DIAMOND, ops=tuple(replace(op, duration_ns=10, share=1) for op in DIAMOND.ops))


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (cut_short, "stage"),
        (one_stage, "stage"),
        (no_stages, "shape"),
        (split_stage, "stage"),
        (lambda plan: replace(plan, stages=(5, 0)), "shape"),
        (lambda plan: replace(plan, stages=[0]), "shape"),
        (lambda plan: replace(plan, stages=("a",)), "shape"),
        (lambda plan: replace(plan, stages=()), "stage"),
        (lambda plan: replace(plan, period=100), "shape"),
        (earlier_start, "stage"),
    ],
)
def test_plans_of_stages_that_are_wrong(change: Callable[[Plan], Plan], kind: str) -> None:
    problem = lt.Streams(LONG, contention="half-serial", parts=1)
    plan = plan_of(problem, [[[0]], [[1], [2]], [[3]]])
    assert kind in kinds(LONG, change(plan))


def test_synchronisation_takes_time() -> None:
    problem = lt.Streams(LONG, sync_ns=7)
    plan = plan_of(problem, [[0, 1, 3], [2]])
    assert max(run.end for run in plan.runs) == 44
    first = min(plan.runs, key=lambda run: run.start)
    third = next(run for run in plan.runs if run.op == 2)
    sooner = replace(third, start=first.end + 6, end=first.end + 16)
    changed = replace(plan, runs=tuple(sooner if run is third else run for run in plan.runs))
    (violation,) = [v for v in lt.verify(LONG, changed).violations if v.kind == "sync"]
    assert (violation.op, violation.other) == (2, 0)


def test_stages_have_nothing_to_say_without_contention() -> None:
    plan = replace(lt.Plan.from_order(LONG, (0, 1, 2, 3)), stages=(0,))
    assert kinds(LONG, plan) == {"shape"}
    streams = plan_of(lt.Streams(LONG, contention="proportional"), [[0, 1, 3], [2]])
    assert kinds(LONG, replace(streams, stages=(0,))) == {"shape"}


@pytest.mark.parametrize("seed", seeds(150))
def test_a_stage_needs_room_for_all_that_it_may_hold_at_once(seed: int) -> None:
    problem = replace(stages_question(seed), memory=None)
    result = lt.solve(problem, "ios", options={"r": "0"}, threads=1)
    assert result.plan is not None
    answer = problem.read(result.plan)
    assert isinstance(answer, lt.Stages)
    from tests.oracles.brute_streams import stage_bytes

    past: set[int] = set()
    most = 0
    for stage in answer.stages:
        most = max(most, stage_bytes(problem.graph, past, [list(group) for group in stage]))
        past |= {i for group in stage for i in group}
    judged = replace(problem, memory=most).judge(answer)
    assert judged.verification.valid, judged.violations
    if most:
        assert not replace(problem, memory=most - 1).judge(answer).verification.valid


def test_a_stage_needs_room_for_what_the_plan_keeps_longer() -> None:
    ops = (lt.Op(name="make", writes=(0,)), lt.Op(name="a", workspace=4), lt.Op(name="b", workspace=4))
    graph = lt.Graph(name="kept", tensors=(lt.Tensor(name="x", nbytes=2),), ops=ops)
    plan = plan_of(lt.Streams(graph, contention="fluid", memory=8), [[[0]], [[1], [2]]])
    assert lt.verify(graph, plan).valid
    late = replace(plan, frees=tuple(replace(free, time=2) for free in plan.frees))
    found = {v.message for v in lt.verify(graph, late).violations if v.kind == "stage"}
    assert found == {"the stage at 1 ns needs 10 bytes, expected at most the capacity 8"}
    assert "stage" in kinds(graph, replace(plan, frees=()))


def test_a_graph_without_ops_has_no_stages() -> None:
    graph = lt.Graph(name="empty", tensors=(), ops=())
    for method in ("auto", "ios"):
        result = lt.solve(lt.Streams(graph, contention="fluid"), method, threads=1)
        assert (str(result.status), result.objective) == ("optimal", 0)
        assert result.plan is not None
        assert kinds(graph, replace(result.plan, stages=(0, 3))) == {"stage"}


def changed(plan: Plan, rng: Random) -> Plan:
    """Return a plan with a few times moved by a nanosecond, or a release or stage left out."""
    runs = list(plan.runs)
    for _ in range(rng.randint(0, 2)):
        k = rng.randrange(len(runs))
        start = max(0, runs[k].start + rng.choice((-1, 0, 1)))
        runs[k] = replace(runs[k], start=start, end=max(start + 1, runs[k].end + rng.choice((-1, 0, 1))))
    frees = [free for free in plan.frees if rng.random() < 0.9]
    frees = [replace(free, time=max(0, free.time + rng.choice((-1, 0, 0, 1)))) for free in frees]
    stages = plan.stages and tuple(t for t in plan.stages if rng.random() < 0.95)
    return replace(plan, runs=tuple(runs), frees=tuple(frees), stages=stages)


@pytest.mark.parametrize("seed", seeds(300))
def test_the_quick_look_says_what_the_simulation_says(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = Random(seed)
    made = rng.choice((streams_question, stages_question))(seed)
    order: Any = [[[i]] for i in range(len(made.graph.ops))]
    if not made.device.staged:
        order = [[i for i in range(len(made.graph.ops)) if i % 2 == k] for k in (0, 1)]
    problem = replace(made, streams=None, memory=None)
    judged = problem.judge(problem.read(order))
    assert judged.plan is not None
    for plan in (judged.plan, *(changed(judged.plan, rng) for _ in range(4))):
        monkeypatch.setattr(verifying, "FEWEST", 10**9)
        slowly = lt.verify(made.graph, plan)
        monkeypatch.setattr(verifying, "FEWEST", 0)
        assert lt.verify(made.graph, plan) == slowly


def test_stages_are_found_amiss_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verifying, "FEWEST", 0)
    plan = replace(lt.Plan.from_order(LONG, (0, 1, 2, 3)), stages=(0,))
    assert kinds(LONG, plan) == {"shape"}


@pytest.mark.parametrize("parts", [2**20, 2**40, 2**61])
def test_one_part_of_many_more_than_there_are(parts: int) -> None:
    ops = tuple(lt.Op(name=f"o{u}", duration_ns=10, share=u) for u in (parts, 1))
    graph = lt.Graph(name="wide", tensors=(), ops=ops)
    plan = plan_of(lt.Streams(graph, contention="proportional", parts=parts), [[0], [1]])
    assert max(run.end for run in plan.runs) == 11
    soon = replace(plan, runs=tuple(replace(run, end=10) for run in plan.runs))
    assert kinds(graph, soon) == {"contention"}


def test_files_keep_contention_and_stages(tmp_path: Any) -> None:
    problem = lt.Streams(LONG, contention="fluid", parts=3, sync_ns=2)
    result = lt.solve(problem, "ios", threads=1)
    lt.save(result, tmp_path / "p.json")
    again = read_plan(tmp_path / "p.json")
    assert again == result.plan
    assert lt.verify(LONG, again).valid
