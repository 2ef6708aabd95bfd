"""Plans made to slip through: the verifier names their fault, or accepts them where there is none."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from lowtide.models.errors import VerificationError
from lowtide.models.verifier.allocation import verify_allocation
from lowtide.models.verifier.verdict import Verification
from tests.mutations import nonsense
from tests.oracles.attacks import ATTACKS
from tests.oracles.comparison import difference, judged, simulated
from tests.oracles.corpus import base_case
from tests.oracles.naive_allocation import allocation_faults, is_offset, random_buffers, random_offsets
from tests.oracles.other_attacks import other_attacks
from tests.random_plans import FLAVOURS, Case


@pytest.mark.parametrize("name", ATTACKS)
def test_attack_by_hand(name: str) -> None:
    case, kinds = ATTACKS[name]
    found, expected = judged(case), simulated(case)
    assert {v.kind for v in found.violations} == kinds
    assert expected.kinds == kinds
    assert difference(found, expected) is None


@pytest.mark.parametrize("name", other_attacks())
def test_attack_beyond_the_simulator(name: str) -> None:
    case, kinds = other_attacks()[name]
    found = judged(case)
    assert {v.kind for v in found.violations} == kinds
    if not kinds:
        found.raise_if_invalid()
    else:
        with pytest.raises(VerificationError, match=r"found \d+ violation"):
            found.raise_if_invalid()


def test_nothing_in_the_fields_of_a_plan_makes_the_verifier_raise() -> None:
    rng = Random(0)
    for seed in range(60):
        case = base_case(FLAVOURS[seed % len(FLAVOURS)], seed)
        plan = replace(case.plan, allocation={"x": 0})
        for name in ("start", "runs", "copies", "frees"):
            for _ in range(3):
                items = list(getattr(plan, name))
                if items:
                    k = rng.randrange(len(items))
                    items[k : k + 1] = nonsense(rng, case, items[k])
                    changes: dict[str, Any] = {name: tuple(items)}
                    plan = replace(plan, **changes)
        found = judged(Case(case.graph, plan))
        assert isinstance(found, Verification)
        assert found == judged(Case(case.graph, plan))


KINDS = ("", "missing", "unknown", "offset", "overlap", "alignment", "capacity", "fixed")


def test_allocations_are_judged_as_address_by_address() -> None:
    rng = Random(0)
    seen: dict[str, int] = dict.fromkeys(KINDS, 0)
    for _ in range(1500):
        buffers = random_buffers(rng)
        offsets = random_offsets(rng, buffers)
        verdict = verify_allocation(buffers, offsets)  # type: ignore[arg-type]
        expected = allocation_faults(buffers, offsets)
        assert sorted((v.kind, sorted(v.buffers)) for v in verdict.violations) == sorted(
            (kind, sorted(names)) for kind, names in expected
        )
        assert verdict.valid == (not expected)
        sound = {b: x for b in buffers.buffers if is_offset(x := offsets.get(b.id))}
        for pool, height in verdict.heights.items():
            assert height == max((x + b.size for b, x in sound.items() if b.pool == pool), default=0)
        for kind in {kind for kind, _ in expected} or {""}:
            seen[kind] += 1
    assert min(seen.values()) >= 20, seen
