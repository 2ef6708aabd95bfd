"""Two programs say which buffers a plan has: the one that lowers plans, and the verifier's own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from lowtide.models.buffers import Buffers
from lowtide.models.errors import InstanceError
from lowtide.models.graph import Accounting
from lowtide.models.lowering import residencies as lowering
from lowtide.models.lowering.buffers import buffers_from_plan
from lowtide.models.verifier import residencies as verifier
from lowtide.models.verifier.actions import well_formed
from lowtide.models.verifier.buffers_of_plan import buffers_of_plan
from lowtide.models.verifier.byte_ranges import ByteRanges
from lowtide.models.verifier.case import Case
from tests.oracles.corpus import corpus, valid_cases
from tests.random_plans import FLAVOURS
from tests.random_plans import Case as RandomCase

SEEDS = range(60)


def judged(case: RandomCase) -> Buffers:
    """Return the buffers that the verifier judges."""
    facts = Case(case.graph, case.plan.machine, case.plan.period)
    return buffers_of_plan(facts, well_formed(facts, case.plan, {}))


def with_inplace(case: RandomCase) -> RandomCase:
    """Let every op write in place of what it only reads; which pairs arise is for the plan to say."""
    ops = tuple(
        replace(op, inplace=tuple((r, w) for r in op.reads for w in op.writes if r not in op.writes))
        for op in case.graph.ops
    )
    return replace(case, graph=replace(case.graph, ops=ops))


CASES = [with_inplace(case) for flavour in FLAVOURS for case in valid_cases(flavour, SEEDS)]


def differences() -> int:
    """Return the number of cases in which the two programs differ."""
    count = 0
    for case in CASES:
        try:
            count += buffers_from_plan(case.graph, case.plan) != judged(case)
        except InstanceError:
            count += 1
    return count


def test_both_programs_name_the_same_buffers() -> None:
    for case in CASES:
        assert buffers_from_plan(case.graph, case.plan) == judged(case), case


def test_the_cases_reach_every_structure() -> None:
    seen: Counter[str] = Counter()
    for case in CASES:
        found = judged(case)
        seen["periodic"] += case.plan.period is not None
        seen["single"] += case.plan.period is None
        seen["gap"] += any(b.gaps for b in found.buffers)
        seen["bytes"] += any("[" in b.id for b in found.buffers)
        seen["whole"] += any("[" not in b.id for b in found.buffers)
        seen["in place"] += bool(found.inplace)
        seen["workspace"] += any("/workspace@" in b.id for b in found.buffers)
        seen[case.graph.accounting] += 1
    kinds = ("periodic", "single", "gap", "bytes", "whole", "in place", "workspace", *Accounting)
    assert min(seen[kind] for kind in kinds) >= 5, seen


DEFECTS: dict[str, tuple[object, str, Callable[..., Any]]] = {
    "lowering: a gap is forgotten": (
        lowering,
        "_lives",
        lambda spells, horizon, lasting, f=lowering._lives: [
            (a, b, (), released) for a, b, _, released in f(spells, horizon, lasting)
        ],
    ),
    "lowering: nothing lives on round the period": (
        lowering,
        "_lives",
        lambda spells, horizon, lasting, f=lowering._lives: f(spells, horizon, False),
    ),
    "lowering: what stays ends early": (lowering, "plan_length", lambda plan: 1),
    "lowering: frees come after starts": (lowering, "_FREE", 3),  # type: ignore[dict-item]
    "lowering: every tensor is whole": (
        lowering,
        "_bytes",
        lambda graph, action, where: (0, graph.tensors[action.tensor].nbytes or 1),
    ),
    "lowering: no pair": (lowering, "bisect_right", lambda *args, **rest: 0),
    "lowering: a pair is shared": (lowering, "bisect_left", lambda uses, at: 0),
    "verifier: nothing lives on round the period": (
        verifier,
        "_around_the_period",
        lambda case, closed, left: closed + left,
    ),
    "verifier: neighbours stay apart": (verifier, "_maximal", lambda case, found: found),
    "verifier: a write goes home": (
        verifier,
        "_write_tier",
        lambda case, run, tensor: case.processors[run.processor].home,
    ),
    "verifier: every pair is shared": (verifier, "_shared", lambda *args: True),
    "verifier: no pair is shared": (verifier, "_shared", lambda *args: False),
    "verifier: allocated again begins anew": (
        verifier,
        "_allocate",
        lambda held, k, t, low, high, time: held.setdefault((k, t), ByteRanges()).replace(low, high, time),
    ),
}


@pytest.mark.parametrize("name", DEFECTS)
def test_a_defect_on_one_side_shows(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module, attribute, defect = DEFECTS[name]
    monkeypatch.setattr(module, attribute, defect)
    assert differences() > 0


@pytest.mark.slow
def test_both_programs_agree_on_broken_plans() -> None:
    """Where the verifier finds actions malformed, or bytes released that are not there, lowering refuses."""
    refused = same = 0
    for case in map(with_inplace, corpus(range(6))):
        if type(case.plan.period) not in (int, type(None)) or not 0 < (case.plan.period or 1) < 2**63:
            continue
        facts = Case(case.graph, case.plan.machine, case.plan.period)
        actions = well_formed(facts, case.plan, {})
        try:
            expected = buffers_of_plan(facts, actions)
        except InstanceError:
            expected = None
        if any(v.kind == "start" and "overlaps" in v.message for v in facts.violations):
            continue
        if expected is None or any(v.kind in ("shape", "start") for v in facts.violations):
            with pytest.raises(InstanceError):
                pytest.fail(str((buffers_from_plan(case.graph, case.plan), facts.violations, case.plan)))
            refused += 1
        else:
            assert buffers_from_plan(case.graph, case.plan) == expected, case
            same += 1
    assert refused > 50
    assert same > 200


@pytest.mark.slow
@pytest.mark.parametrize("flavour", FLAVOURS)
def test_both_programs_agree_on_many_plans(flavour: str) -> None:
    for case in valid_cases(flavour, range(60, 460)):
        case = with_inplace(case)
        assert buffers_from_plan(case.graph, case.plan) == judged(case), case
