"""Valid makespan plans, broken in one place: the verifier rejects each, and its witness names the place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import permutations
from typing import Any, NamedTuple

import pytest

import lowtide as lt
from lowtide.models.derived.precedence import precedence
from lowtide.models.graph import Accounting, Mode
from lowtide.models.machine import Tier
from lowtide.models.plan import Free, Plan, Run
from lowtide.models.verifier.verdict import Verification
from tests.problems.makespan import problem_of_identical, problem_with_kinds


class Case(NamedTuple):
    """A fastest schedule and its verdict."""

    problem: lt.Makespan
    plan: Plan
    verdict: Verification

    def mode(self, run: Run) -> Mode:
        return self.problem.graph.ops[run.op].all_modes[run.mode]

    def kind(self, processor: str) -> str:
        return next(p.kind for p in self.plan.machine.processors if p.name == processor)

    def with_run(self, run: Run, **changes: Any) -> Plan:
        return replace(
            self.plan, runs=tuple(replace(r, **changes) if r is run else r for r in self.plan.runs)
        )


class Broken(NamedTuple):
    """A plan with a fault, and what some violation must say: its kinds and fields."""

    plan: Plan
    kinds: tuple[str, ...]
    fields: dict[str, object]


Attack = Callable[[Case], list[Broken]]
"""Returns all ways to break the plan so."""


def fastest(seed: int) -> Case | None:
    problem = (problem_of_identical if seed % 2 else problem_with_kinds)(seed)
    result = lt.solve(problem, "cpsat", threads=1, options={"start": "none"})
    if result.plan is None:
        return None
    return Case(problem, result.plan, lt.verify(problem.graph, result.plan, rerun=False))


CASES = [case for case in map(fastest, range(40)) if case is not None]


def early_op(case: Case) -> list[Broken]:
    """It starts 1 ns before what precedes it has ended."""
    run_of = {run.op: run for run in case.plan.runs}
    return [
        Broken(
            case.with_run(run, start=early, end=early + run.end - run.start),
            ("precedence",),
            {"op": run.op, "other": i},
        )
        for run in case.plan.runs
        for i in precedence(case.problem.graph).predecessors[run.op]
        if (early := run_of[i].end - 1) >= 0
    ]


def shared_processor(case: Case) -> list[Broken]:
    """One of two ops that run at once moves to the processor of the other."""
    return [
        Broken(case.with_run(a, processor=b.processor), ("processor-overlap",), {"resource": b.processor})
        for a, b in permutations(case.plan.runs, 2)
        if a.processor != b.processor
        and a.start < b.end
        and b.start < a.end
        and case.kind(b.processor) in (case.mode(a).processors or (case.kind(b.processor),))
    ]


def one_byte_less(case: Case) -> list[Broken]:
    (peak,) = case.verdict.peaks.values()
    machine = replace(case.plan.machine, tiers=(Tier(name="memory", capacity=peak - 1),)) if peak else None
    if machine is None:
        return []
    (profile,) = case.verdict.profiles.values()
    first = next(time for time, nbytes in profile if nbytes == peak)
    return [Broken(replace(case.plan, machine=machine), ("capacity",), {"tier": "memory", "time": first})]


def missing_run(case: Case) -> list[Broken]:
    return [
        Broken(
            replace(case.plan, runs=tuple(r for r in case.plan.runs if r is not run)),
            ("missing-run",),
            {"op": run.op},
        )
        for run in case.plan.runs
    ]


def repeated_run(case: Case) -> list[Broken]:
    end = max(run.end for run in case.plan.runs)
    return [
        Broken(
            replace(
                case.plan, runs=(*case.plan.runs, replace(run, start=end, end=end + run.end - run.start))
            ),
            ("repeated-run",),
            {"op": run.op},
        )
        for run in case.plan.runs
    ]


def shorter_run(case: Case) -> list[Broken]:
    return [
        Broken(case.with_run(run, end=run.end - 1), ("duration",), {"op": run.op})
        for run in case.plan.runs
        if run.end - run.start > 1
    ]


def longer_run(case: Case) -> list[Broken]:
    return [
        Broken(case.with_run(run, end=run.end + 1), ("duration",), {"op": run.op}) for run in case.plan.runs
    ]


def mode_of_another_duration(case: Case) -> list[Broken]:
    return [
        Broken(case.with_run(run, mode=k), ("duration",), {"op": run.op})
        for run in case.plan.runs
        for k, mode in enumerate(case.problem.graph.ops[run.op].all_modes)
        if mode.duration_ns != run.end - run.start
    ]


def mode_of_another_kind(case: Case) -> list[Broken]:
    return [
        Broken(case.with_run(run, mode=k), ("processor-kind",), {"op": run.op})
        for run in case.plan.runs
        for k, mode in enumerate(case.problem.graph.ops[run.op].all_modes)
        if mode.processors and case.kind(run.processor) not in mode.processors
    ]


def processor_of_another_kind(case: Case) -> list[Broken]:
    return [
        Broken(case.with_run(run, processor=p.name), ("processor-kind",), {"op": run.op})
        for run in case.plan.runs
        for p in case.plan.machine.processors
        if case.mode(run).processors and p.kind not in case.mode(run).processors
    ]


def unknown_mode(case: Case) -> list[Broken]:
    return [
        Broken(case.with_run(run, mode=len(case.problem.graph.ops[run.op].all_modes)), ("shape",), {})
        for run in case.plan.runs
    ]


def unknown_processor(case: Case) -> list[Broken]:
    return [Broken(case.with_run(run, processor="nowhere"), ("shape",), {}) for run in case.plan.runs]


def early_free(case: Case) -> list[Broken]:
    """A tensor that nobody overwrites is freed 1 ns before the last op that reads it starts."""
    found = []
    ops = case.problem.graph.ops
    for free in case.plan.frees:
        time = max((r.start for r in case.plan.runs if free.tensor in ops[r.op].reads), default=0) - 1
        tensor = case.problem.graph.tensors[free.tensor]
        writes = sum(free.tensor in op.writes for op in ops)
        if time < 0 or writes + tensor.initial > 1 or not tensor.nbytes:
            continue
        frees = tuple(replace(f, time=time) if f is free else f for f in case.plan.frees)
        kinds = ("read", "free", "write-conflict")
        found.append(Broken(replace(case.plan, frees=frees), kinds, {"tensor": free.tensor}))
    return found


def lost_input(case: Case) -> list[Broken]:
    """An initial tensor that some op reads as it is, is nowhere at the start."""
    found = []
    for entry in case.plan.start:
        users = [op for op in case.problem.graph.ops if entry.tensor in {*op.reads, *op.writes}]
        if users and entry.tensor in users[0].reads and case.problem.graph.tensors[entry.tensor].nbytes:
            rest = tuple(e for e in case.plan.start if e is not entry)
            found.append(Broken(replace(case.plan, start=rest), ("read",), {"tensor": entry.tensor}))
    return found


def freed_output(case: Case) -> list[Broken]:
    end = max(run.end for run in case.plan.runs)
    return [
        Broken(
            replace(case.plan, frees=(*case.plan.frees, Free(t, "memory", end))), ("final",), {"tensor": t}
        )
        for t, tensor in enumerate(case.problem.graph.tensors)
        if tensor.final and tensor.nbytes
    ]


def other_accounting(case: Case) -> list[Broken]:
    other = next(a for a in Accounting if a is not case.plan.accounting)
    return [Broken(replace(case.plan, accounting=other), ("graph",), {})]


ATTACKS: tuple[Attack, ...] = (
    early_op,
    shared_processor,
    one_byte_less,
    missing_run,
    repeated_run,
    shorter_run,
    longer_run,
    mode_of_another_duration,
    mode_of_another_kind,
    processor_of_another_kind,
    unknown_mode,
    unknown_processor,
    early_free,
    lost_input,
    freed_output,
    other_accounting,
)


def test_plans_are_valid_before_they_are_broken() -> None:
    assert len(CASES) >= 25
    assert all(case.verdict.valid for case in CASES)


@pytest.mark.parametrize("attack", ATTACKS, ids=[attack.__name__ for attack in ATTACKS])
def test_broken_plan_is_rejected_with_its_witness(attack: Attack) -> None:
    tried = 0
    for seed, case in enumerate(CASES):
        for broken in attack(case):
            tried += 1
            found = lt.verify(case.problem.graph, broken.plan, rerun=False).violations
            assert any(
                v.kind in broken.kinds and all(getattr(v, k) == x for k, x in broken.fields.items())
                for v in found
            ), f"case {seed}, {broken.kinds} {broken.fields}: {[v.message for v in found]}"
    assert tried >= 5


def test_plan_of_a_larger_machine_is_no_hint() -> None:
    ops = (lt.Op(name="a", duration_ns=3), lt.Op(name="b", duration_ns=3))
    graph = lt.Graph(name="two", tensors=(), ops=ops)
    plan = lt.solve(lt.Makespan(graph, processors=2), threads=1).plan
    with pytest.raises(lt.InstanceError, match="hint: op 1 'b' starts at 0 ns on 'p0', expected not before"):
        lt.solve(lt.Makespan(graph, processors=1), threads=1, hint=plan)
