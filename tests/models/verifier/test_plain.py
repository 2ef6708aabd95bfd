"""The quick look at plain plans: what it accepts, the simulation finds valid, with the same profile."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lowtide as lt
from lowtide.models.graph import Accounting, Graph, Mode, Op, Tensor
from lowtide.models.machine import Access, Machine, Processor, Tier
from lowtide.models.plan import Free, Plan, Resident, Run
from lowtide.models.verifier import plain
from lowtide.models.verifier import verify as verifying
from lowtide.models.verifier.plain import judge_plain
from lowtide.models.verifier.verdict import Verification
from lowtide.models.verifier.verify import verify
from tests.effort import many
from tests.mutations import MUTATIONS, mutate
from tests.oracles.comparison import disagreement
from tests.oracles.corpus import valid_cases
from tests.random_plans import FLAVOURS, Case, random_case

ONE_MEMORY = ("sequential", "parallel")


def both(case: Case) -> tuple[Verification | None, Verification]:
    """Return what the quick look says, and the simulation's verdict."""
    slowly = verify(case.graph, case.plan, rerun=case.rerun, start_tiers=case.start_tiers)
    found: list[Verification | None] = []

    def noted(*args: object) -> None:
        found.append(judge_plain(*args))  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(verifying, "FEWEST", 0)
        patch.setattr(plain, "judge_plain", noted)
        verify(case.graph, case.plan, rerun=case.rerun, start_tiers=case.start_tiers)
    return (found[0] if found else None), slowly


def accepted(case: Case) -> bool:
    """Return whether the quick look accepts; the simulation then says the same of everything."""
    quickly, slowly = both(case)
    assert quickly is None or quickly == slowly, case
    return quickly is not None


@pytest.mark.slow
@pytest.mark.parametrize("flavour", ONE_MEMORY)
def test_it_accepts_what_is_plain_and_valid(flavour: str) -> None:
    cases = [
        case
        for case in valid_cases(flavour, range(300))
        if all(f.time <= max(r.end for r in case.plan.runs) for f in case.plan.frees)
        and not any(a.bytes_per_s for p in case.plan.machine.processors for a in p.tiers)
        and not any(m.operands for op in case.graph.ops for m in op.modes)
        and all(x.valid and x.bytes is None for x in case.plan.start)
        and all(x.bytes is None for x in case.plan.frees)
    ]
    assert len(cases) >= 10
    # Not all: some release a tensor twice, or before it is written anew.
    assert sum(accepted(case) for case in cases) >= 0.8 * len(cases)


@pytest.mark.slow
@many(300)
@given(st.randoms(use_true_random=False), st.sampled_from(FLAVOURS), st.integers(0, 2))
def test_it_accepts_only_what_the_simulation_accepts(rng: Random, flavour: str, count: int) -> None:
    case = random_case(rng, flavour, max_ops=4)
    for _ in range(count):
        case = mutate(rng, case, rng.choice(sorted(MUTATIONS))) or case
    accepted(case)


@pytest.mark.slow
@many(100)
@given(st.randoms(use_true_random=False), st.sampled_from(FLAVOURS), st.integers(0, 2))
def test_with_it_the_verifier_agrees_with_the_naive_simulator(rng: Random, flavour: str, count: int) -> None:
    case = random_case(rng, flavour, max_ops=4)
    for _ in range(count):
        case = mutate(rng, case, rng.choice([x for x in sorted(MUTATIONS) if "nonsense" not in x])) or case
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(verifying, "FEWEST", 0)
        assert disagreement(case) is None, case


@pytest.mark.parametrize(
    "spec", ["gen:randwire?n=400&seed=1", "gen:intree?n=400&seed=2", "catalogue:gpt2-small-train"]
)
def test_large_plain_plans_are_accepted_at_once(spec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = lt.load(spec)
    plan = Plan.from_order(graph, range(len(graph.ops)))
    monkeypatch.setattr(verifying, "FEWEST", 10**9)
    slowly = verify(graph, plan)
    monkeypatch.undo()
    monkeypatch.setattr(verifying, "well_formed", None)  # what comes after the quick look
    assert verify(graph, plan) == slowly
    assert slowly.valid


GRAPH = Graph(
    name="plain",
    tensors=(
        Tensor(name="x", nbytes=4, initial=True, kind="input"),
        Tensor(name="w", nbytes=5, initial=True, final=True, kind="weight"),
        Tensor(name="y", nbytes=6),
        Tensor(name="z", nbytes=7, final=True),
        Tensor(name="v", nbytes=0, initial=True, final=True),
    ),
    ops=(
        Op(name="a", reads=(0, 1), writes=(2,), duration_ns=2, workspace=3),
        Op(
            name="b",
            reads=(1,),
            writes=(3,),
            duration_ns=2,
            modes=(Mode(duration_ns=4, processors=("cpu",)),),
        ),
        Op(name="c", reads=(2,), writes=(2,), after=(1,), duration_ns=1),
    ),
)
MACHINE = Machine(
    tiers=(Tier(name="m", capacity=40),),
    processors=tuple(
        Processor(name=n, kind=n[:3], tiers=(Access(tier="m"),)) for n in ("cpu0", "cpu1", "gpu0")
    ),
)
TWO_TIERS = replace(MACHINE, tiers=(*MACHINE.tiers, Tier(name="far")))
PLAIN = Plan(
    machine=MACHINE,
    start=(Resident(0, "m"), Resident(1, "m"), Resident(4, "m")),
    runs=(Run(0, 0, 0, 2, "gpu0"), Run(1, 0, 0, 4, "cpu0"), Run(2, 0, 4, 5, "gpu0")),
    frees=(Free(0, "m", 2), Free(2, "m", 5)),
)


def run(k: int, **changes: object) -> dict[str, object]:
    """Return the runs with one changed."""
    runs = list(PLAIN.runs)
    runs[k] = replace(runs[k], **changes)  # type: ignore[arg-type]
    return {"runs": tuple(runs)}


BROKEN: dict[str, dict[str, object]] = {
    "a final tensor that nobody brings": {"start": PLAIN.start[:2]},
    "an op that never runs": {"runs": PLAIN.runs[:2]},
    "an op twice, another never": {"runs": (*PLAIN.runs[:2], Run(1, 0, 4, 8, "cpu0"))},
    "two runs on one processor": {
        "runs": (Run(0, 0, 0, 2, "cpu0"), Run(1, 0, 1, 5, "cpu0"), Run(2, 0, 5, 6, "gpu0")),
        "frees": (Free(0, "m", 2), Free(2, "m", 6)),
    },
    "before the end of what it comes after": run(2, start=3, end=4),
    "before its operand is there": {"runs": (Run(0, 0, 4, 6, "gpu0"), *PLAIN.runs[1:])},
    "a processor of another kind": run(1, processor="gpu0", start=5, end=9),
    "a mode that is none": run(1, mode=1),
    "a duration that is none": run(1, end=5),
    "a free before the last read": {"frees": (Free(0, "m", 1), Free(2, "m", 5))},
    "a free twice": {"frees": (*PLAIN.frees, Free(0, "m", 5))},
    "a free of a final tensor": {"frees": (*PLAIN.frees, Free(3, "m", 4))},
    "a start where its kind may not be": {"start_tiers": {"input": ()}},
    "a start twice": {"start": (*PLAIN.start, Resident(0, "m"))},
    "a stale start": {"start": (Resident(0, "m", valid=False), *PLAIN.start[1:])},
    "more at the start than there is room": {
        "machine": replace(MACHINE, tiers=(Tier(name="m", capacity=8),))
    },
    "more than there is room": {"machine": replace(MACHINE, tiers=(Tier(name="m", capacity=24),))},
    "a start in another tier": {
        "machine": TWO_TIERS,
        "start": (Resident(0, "far"), *PLAIN.start[1:]),
        "start_tiers": {},
    },
    "a free in another tier": {
        "machine": TWO_TIERS,
        "frees": (Free(0, "far", 2), Free(2, "m", 5)),
        "start_tiers": {},
    },
    "another home": {
        "machine": replace(
            TWO_TIERS,
            processors=(
                *MACHINE.processors[:2],
                Processor(name="gpu0", kind="gpu", tiers=(Access(tier="far"),)),
            ),
        ),
        "start_tiers": {},
    },
    "a slow home": {
        "machine": replace(
            MACHINE,
            processors=tuple(
                replace(p, tiers=(Access(tier="m", bytes_per_s=1),)) for p in MACHINE.processors
            ),
        )
    },
    "another graph": {"graph_sha256": "0" * 64},
    "another accounting": {"accounting": Accounting.REPLACE},
}


def test_the_plain_plan_is_accepted() -> None:
    assert accepted(Case(GRAPH, PLAIN))
    assert accepted(Case(GRAPH, replace(PLAIN, machine=TWO_TIERS, start_tiers={})))


@pytest.mark.parametrize("name", BROKEN)
def test_what_breaks_one_rule_is_left_to_the_simulation(name: str) -> None:
    case = Case(GRAPH, replace(PLAIN, **BROKEN[name]))  # type: ignore[arg-type]
    quickly, slowly = both(case)
    assert quickly is None
    assert not slowly.valid


def test_initial_tensors_that_go_at_once_must_fit_as_well() -> None:
    """At time 0 everything has to be there together, before the first release."""
    graph = Graph(
        name="unused",
        tensors=(Tensor(name="x", nbytes=4, initial=True), Tensor(name="y", nbytes=1)),
        ops=(Op(name="a", writes=(1,)),),
    )
    machine = Machine.single(capacity=3)
    plan = Plan(
        machine=machine,
        start=(Resident(0, "memory"),),
        runs=(Run(0, 0, 0, 1, machine.processors[0].name),),
        frees=(Free(0, "memory", 0),),
    )
    quickly, slowly = both(Case(graph, plan))
    assert quickly is None
    assert [v.kind for v in slowly.violations] == ["capacity"]


def test_a_mode_that_names_tiers_is_left_to_the_simulation() -> None:
    op = replace(GRAPH.ops[1], modes=(Mode(duration_ns=4, processors=("cpu",), operands=((1, "m"),)),))
    case = Case(replace(GRAPH, ops=(GRAPH.ops[0], op, GRAPH.ops[2])), PLAIN)
    quickly, slowly = both(case)
    assert quickly is None
    assert slowly.valid
