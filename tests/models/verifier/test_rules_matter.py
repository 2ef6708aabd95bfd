"""Every rule of the verifier matters: where it is left out, the tests notice.

Each statement of the verifier that records a violation is neutralised in turn, in a copy compiled in memory;
the cases on which the real verifier agrees with the naive simulator must then show a difference. The
statements are found in the source, so a new rule is included without a word here.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from random import Random

import pytest

from lowtide.models.lowering.buffers import buffers_from_plan
from lowtide.models.plan import Free
from lowtide.models.verifier.allocation import AllocationVerdict, verify_allocation
from lowtide.models.verifier.verdict import PLAN_KINDS, Verification
from lowtide.models.verifier.verify import verify
from tests.models.verifier import steady
from tests.oracles.attacks import ATTACKS
from tests.oracles.comparison import difference, judged, simulated
from tests.oracles.corpus import corpus, valid_cases
from tests.oracles.naive_allocation import allocation_faults, random_buffers, random_offsets
from tests.oracles.naive_state import Outcome
from tests.oracles.other_attacks import other_attacks
from tests.oracles.rule_removal import Site, constructors, load, sites, verifier_sources, verifier_without
from tests.random_plans import Case

Verify = Callable[..., Verification]
SITES = sites()


@cache
def cases() -> list[tuple[Case, Outcome]]:
    """Return the fixed cases with what the naive simulator says, those made by hand first."""
    by_hand = [case for case, _ in ATTACKS.values()]
    return [(case, simulated(case)) for case in (*by_hand, *corpus(range(1)))]


LOST = Case(steady.GRAPH, replace(steady.PLAN, frees=(*steady.PLAN.frees, Free(0, "host", 20))))
"""Breaks rule ``period``: the host's copy of the weight is there at the start, and gone at the end."""


@cache
def allocated() -> list[Case]:
    """Return periodic plans with a valid allocation: the buffers, as lowering has them, end to end."""
    found = []
    for case in (*valid_cases("periodic", range(120)), LOST):
        machine = case.plan.machine
        roomy = replace(machine, tiers=tuple(replace(tier, capacity=None) for tier in machine.tiers))
        plan = replace(case.plan, machine=roomy)
        offsets, top = {}, 0
        for b in buffers_from_plan(case.graph, plan).buffers:
            offsets[b.id] = top
            top += b.size
        found.append(replace(case, plan=replace(plan, allocation=offsets)))
    return found


def faults(verify: Verify, verify_allocation: Callable[..., AllocationVerdict]) -> Iterator[str]:
    """Yield where this verifier is wrong."""
    for case, expected in cases():
        if fault := difference(judged(case, verify), expected):
            yield fault
    for name, (case, kinds) in {**ATTACKS, **other_attacks()}.items():
        if {v.kind for v in judged(case, verify).violations} != kinds:
            yield name
    rng = Random(0)
    for _ in range(300):
        buffers = random_buffers(rng)
        offsets = random_offsets(rng, buffers)
        found = verify_allocation(buffers, offsets).violations
        if {(v.kind, frozenset(v.buffers)) for v in found} != allocation_faults(buffers, offsets):
            yield f"allocation of {buffers}"
    for case in allocated():
        if any(v.kind.startswith("allocation") for v in judged(case, verify).violations):
            yield "allocation of a plan"


@pytest.mark.slow
def test_nothing_is_wrong_with_all_rules() -> None:
    assert list(faults(verify, verify_allocation)) == []


@pytest.mark.slow
def test_nothing_is_wrong_with_a_copy_that_has_all_rules() -> None:
    """What the removals are compared with: compiling a module anew changes nothing."""
    same = load("case", ast.parse(verifier_sources()["case"].read_text()))
    assert same.verify is not verify
    assert list(faults(same.verify, same.verify_allocation)) == []


@pytest.mark.slow
@pytest.mark.parametrize("site", SITES, ids=str)
def test_leaving_the_rule_out_is_noticed(site: Site) -> None:
    changed = verifier_without(site)
    fault = next(faults(changed.verify, changed.verify_allocation), None)
    assert fault is not None, f"nobody notices that this is left out:\n{site.text}"


def test_no_rule_is_overlooked() -> None:
    """All violations are made in two functions, whose every caller is among the sites."""
    assert sorted(constructors()) == [("allocation", "_violation"), ("case", "report")]
    text = "\n".join(path.read_text() for path in verifier_sources().values())
    reported = {kind for kind in PLAN_KINDS if f'"{kind}"' in text}
    assert reported == set(PLAN_KINDS)
    assert len(SITES) >= len(PLAN_KINDS)


def test_the_real_verifier_is_left_alone() -> None:
    import lowtide.models.verifier.verify as module

    verifier_without(SITES[0])
    assert module.verify is verify
