"""The quick look at plain plans: what it accepts, the simulation finds valid, with the same profile."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lowtide as lt
from lowtide.models.plan import Plan
from lowtide.models.verifier import plain
from lowtide.models.verifier import verify as verifying
from lowtide.models.verifier.verdict import Verification
from lowtide.models.verifier.verify import verify
from tests.effort import many
from tests.mutations import MUTATIONS, mutate
from tests.oracles.comparison import disagreement
from tests.oracles.corpus import valid_cases
from tests.random_plans import Case, random_case

ONE_MEMORY = ("sequential", "parallel")


def both(case: Case) -> tuple[Verification | None, Verification]:
    """Return what the quick look says, and the simulation's verdict."""
    slowly = verify(case.graph, case.plan, rerun=case.rerun, start_tiers=case.start_tiers)
    found: list[Verification | None] = []

    def noted(*args: object) -> None:
        found.append(plain.judge_plain(*args))  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(verifying, "FEWEST", 0)
        patch.setattr(verifying, "judge_plain", noted)
        verify(case.graph, case.plan, rerun=case.rerun, start_tiers=case.start_tiers)
    return (found[0] if found else None), slowly


def accepted(case: Case) -> bool:
    """Return whether the quick look accepts; the simulation then says the same of everything."""
    quickly, slowly = both(case)
    assert quickly is None or quickly == slowly, case
    return quickly is not None


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


@many(300)
@given(st.randoms(use_true_random=False), st.sampled_from(ONE_MEMORY), st.integers(0, 2))
def test_it_accepts_only_what_the_simulation_accepts(rng: Random, flavour: str, count: int) -> None:
    case = random_case(rng, flavour, max_ops=4)
    for _ in range(count):
        case = mutate(rng, case, rng.choice(sorted(MUTATIONS))) or case
    accepted(case)


@many(100)
@given(st.randoms(use_true_random=False), st.sampled_from(ONE_MEMORY), st.integers(0, 2))
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
