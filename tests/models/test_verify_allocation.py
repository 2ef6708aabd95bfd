"""The judge of allocations on buffers that were drawn by hand, and against all pairs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import combinations
from random import Random
from typing import Any

import pytest

import lowtide.models.verify_allocation as judge
from lowtide.models.buffers import Buffer, Buffers, Gap, buffers_from_plan
from lowtide.models.errors import VerificationError
from lowtide.models.plan import Copy, Free
from lowtide.models.verdict import ALLOCATION_KINDS, Violation
from lowtide.models.verify import verify
from lowtide.models.verify_allocation import verify_allocation
from tests.drawings import GRAPH, PLAN, W

STAIRS = Buffers(
    buffers=(
        Buffer(id="a", lower=0, upper=4, size=3),
        Buffer(id="b", lower=2, upper=6, size=2, alignment=4),
        Buffer(id="c", lower=4, upper=8, size=3),
        Buffer(id="d", lower=0, upper=8, size=1, offset=6),
    ),
    pools={"": 7},
)
OFFSETS = {"a": 0, "b": 4, "c": 0, "d": 6}


def witness(violation: Violation) -> dict[str, Any]:
    found = violation.to_dict()
    del found["message"]
    return found


def judged(offsets: Mapping[Any, Any], buffers: Buffers = STAIRS) -> list[dict[str, Any]]:
    return [witness(v) for v in verify_allocation(buffers, offsets).violations]


def test_stairs_fit_in_7_bytes() -> None:
    r"""Memory over time: c takes the place of a.

    6 | d d d d d d d d
    4 |     b b b b
    0 | a a a a c c c c
    """
    verdict = verify_allocation(STAIRS, OFFSETS)
    verdict.raise_if_invalid()
    assert verdict.valid
    assert verdict.complete
    assert verdict.heights == {"": 7}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"a": None}, {"kind": "offset", "tier": "", "buffers": ("a",)}),
        ({"a": -1}, {"kind": "offset", "tier": "", "buffers": ("a",)}),
        ({"a": True}, {"kind": "offset", "tier": "", "buffers": ("a",)}),
        ({"a": 2**63}, {"kind": "offset", "tier": "", "buffers": ("a",)}),
        ({"e": 0}, {"kind": "unknown"}),
        ({7: 0}, {"kind": "unknown"}),
        ({"c": 1}, {"kind": "overlap", "time": 4, "tier": "", "buffers": ("b", "c")}),
        ({"a": 2}, {"kind": "overlap", "time": 2, "tier": "", "buffers": ("a", "b")}),
    ],
)
def test_one_fault(changes: dict[Any, Any], expected: dict[str, Any]) -> None:
    if "c" in changes:
        changes = {**changes, "c": 2}
    assert judged({**OFFSETS, **changes}) == [expected]


def test_missing() -> None:
    rest = {name: at for name, at in OFFSETS.items() if name != "b"}
    assert judged(rest) == [{"kind": "missing", "tier": "", "buffers": ("b",)}]


def test_alignment() -> None:
    loose = replace(STAIRS, buffers=tuple(replace(b, alignment=1) for b in STAIRS.buffers))
    assert judged({**OFFSETS, "b": 3}, loose) == []
    assert judged({**OFFSETS, "b": 3}) == [
        {"kind": "alignment", "tier": "", "buffers": ("b",)},
    ]


def test_fixed_offset_and_capacity() -> None:
    verdict = verify_allocation(STAIRS, {**OFFSETS, "d": 7})
    assert [witness(v) for v in verdict.violations] == [
        {"kind": "capacity", "tier": "", "buffers": ("d",)},
        {"kind": "fixed", "tier": "", "buffers": ("d",)},
    ]
    assert verdict.heights == {"": 8}
    assert verdict.violations[0].message == (
        "buffer 'd': found offset 7 for 1 bytes, expected its end within pool '' of 7"
    )
    assert verify_allocation(replace(STAIRS, pools={"": 6}), OFFSETS).violations[0].kind == "capacity"


def test_raise_if_invalid() -> None:
    with pytest.raises(VerificationError, match="allocation: found 4 violations, expected none"):
        verify_allocation(STAIRS, {}).raise_if_invalid()


def test_overlap_names_every_pair_once() -> None:
    free = replace(STAIRS, buffers=tuple(replace(b, offset=None) for b in STAIRS.buffers))
    found = judged(dict.fromkeys("abcd", 0), free)
    pairs = [v["buffers"] for v in found]
    assert pairs == [("a", "d"), ("a", "b"), ("d", "b"), ("b", "c"), ("d", "c")]
    assert [v["time"] for v in found] == [0, 2, 2, 4, 4]


def test_pools_do_not_meet() -> None:
    two = Buffers(
        buffers=(
            Buffer(id="a", lower=0, upper=4, size=3, pool="gpu"),
            Buffer(id="b", lower=0, upper=4, size=5, pool="host"),
        ),
        pools={"disk": 1},
    )
    verdict = verify_allocation(two, {"a": 0, "b": 0})
    assert verdict.valid
    assert verdict.heights == {"gpu": 3, "host": 5, "disk": 0}


def test_gaps_leave_room() -> None:
    gapped = Buffer(id="a", lower=0, upper=9, size=4, gaps=(Gap(2, 4), Gap(5, 6)))
    guest = Buffer(id="b", lower=2, upper=4, size=4)
    both = Buffers(buffers=(gapped, guest))
    assert judged({"a": 0, "b": 0}, both) == []
    for lower, upper, time in ((1, 3, 1), (3, 5, 4), (5, 7, 6), (0, 9, 0)):
        longer = Buffers(buffers=(gapped, replace(guest, lower=lower, upper=upper)))
        (violation,) = judged({"a": 0, "b": 3}, longer)
        assert (violation["kind"], violation["time"]) == ("overlap", time)


def test_zero_size_overlaps_nothing_but_stays_in_its_pool() -> None:
    nothing = Buffers(
        buffers=(Buffer(id="a", lower=0, upper=9, size=0), Buffer(id="b", lower=0, upper=9, size=4)),
        pools={"": 4},
    )
    assert judged({"a": 2, "b": 0}, nothing) == []
    assert judged({"a": 5, "b": 0}, nothing) == [{"kind": "capacity", "tier": "", "buffers": ("a",)}]


def test_inplace_pairs_share_their_address() -> None:
    """The write b begins while its read a still is there; c is no part of it."""
    three = Buffers(
        buffers=(
            Buffer(id="a", lower=0, upper=5, size=4),
            Buffer(id="b", lower=3, upper=8, size=2),
            Buffer(id="c", lower=4, upper=6, size=2),
        ),
        inplace=(("a", "b"),),
    )
    assert judged({"a": 0, "b": 0, "c": 4}, three) == []
    assert judged({"a": 0, "b": 4, "c": 6}, three) == []
    assert judged({"a": 0, "b": 2, "c": 4}, three) == [
        {"kind": "overlap", "time": 3, "tier": "", "buffers": ("a", "b")}
    ]
    found = judged({"a": 0, "b": 0, "c": 0}, three)
    assert {v["buffers"] for v in found} == {("a", "c"), ("b", "c")}
    apart = replace(three, inplace=())
    assert judged({"a": 0, "b": 0, "c": 4}, apart)[0]["buffers"] == ("a", "b")


def test_too_many_overlaps_are_cut_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judge, "LISTED", 3)
    free = replace(STAIRS, buffers=tuple(replace(b, offset=None) for b in STAIRS.buffers))
    verdict = verify_allocation(free, dict.fromkeys("abcd", 0))
    assert not verdict.complete
    assert len(verdict.violations) == 3


@pytest.mark.parametrize("seed", range(60))
def test_overlaps_are_those_of_all_pairs(seed: int) -> None:
    rng = Random(seed)
    buffers = []
    for k in range(rng.randint(1, 14)):
        lower = rng.randint(0, 10)
        upper = lower + rng.randint(1, 6)
        gaps: tuple[Gap, ...] = ()
        if upper - lower > 2 and rng.random() < 0.4:
            begin = rng.randint(lower, upper - 2)
            gaps = (Gap(begin, rng.randint(begin + 1, upper - 1)),)
        buffers.append(Buffer(id=str(k), lower=lower, upper=upper, size=rng.randint(0, 5), gaps=gaps))
    offsets = {b.id: rng.randint(0, 12) for b in buffers}
    inplace = tuple((a.id, b.id) for a, b in combinations(buffers, 2) if rng.random() < 0.2)
    expected = set()
    for a, b in combinations(buffers, 2):
        low = max(offsets[a.id], offsets[b.id])
        high = min(offsets[a.id] + a.size, offsets[b.id] + b.size)
        together = any(max(p[0], q[0]) < min(p[1], q[1]) for p in a.rectangles for q in b.rectangles)
        shared = (a.id, b.id) in inplace and offsets[a.id] == offsets[b.id]
        if low < high and together and not shared:
            expected.add(frozenset((a.id, b.id)))
    verdict = verify_allocation(Buffers(buffers=tuple(buffers), inplace=inplace), offsets)
    found = [frozenset(v.buffers) for v in verdict.violations]
    assert set(found) == expected
    assert len(found) == len(expected)


# -- in a plan's verdict ---------------------------------------------------------------------------------

PACKED = {
    "0:w[0:4]@gpu@0": 0,
    "0:w[4:8]@gpu@5": 4,
    "1:x@gpu@0": 8,
    "2:y@gpu@10": 14,
    "3:z@gpu@15": 8,
    "0:a/workspace@gpu@10": 12,
    "0:w@host@0": 0,
    "1:x@host@0": 8,
}


def test_the_plan_fits_its_peak() -> None:
    assert verify(GRAPH, replace(PLAN, allocation=PACKED)).valid
    assert verify_allocation(buffers_from_plan(GRAPH, PLAN), PACKED).heights == {
        "gpu": 18,
        "host": 12,
    }


def test_verify_judges_the_allocation() -> None:
    plan = replace(PLAN, allocation={**PACKED, "3:z@gpu@15": 9})
    (violation,) = verify(GRAPH, plan).violations
    assert witness(violation) == {
        "kind": "allocation-overlap", "time": 15, "tier": "gpu",
        "buffers": ("2:y@gpu@10", "3:z@gpu@15"),
    }  # fmt: skip
    verdict = verify(GRAPH, replace(PLAN, allocation={}))
    assert [v.kind for v in verdict.violations] == ["allocation-missing"] * 8


def test_verify_judges_no_allocation_of_ill_defined_buffers() -> None:
    plan = replace(PLAN, allocation={}, frees=(*PLAN.frees, Free(W, "gpu", 30)))
    assert [v.kind for v in verify(GRAPH, plan).violations] == ["free"]
    plan = replace(PLAN, allocation={}, copies=(*PLAN.copies, Copy(W, "a", "b", 0, 1)))
    assert [v.kind for v in verify(GRAPH, plan).violations] == ["shape"]


def test_every_kind_is_provoked_here() -> None:
    drawn = {"missing", "unknown", "offset", "overlap", "alignment", "capacity", "fixed"}
    assert drawn == set(ALLOCATION_KINDS)
