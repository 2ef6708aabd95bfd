"""The judge of allocations on buffers that were drawn by hand, and against all pairs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, permutations
from random import Random
from typing import Any

import pytest

import lowtide.models.verifier.allocation as judge
from lowtide.models.buffers import Buffer, Buffers, Gap
from lowtide.models.errors import VerificationError
from lowtide.models.lowering.buffers import buffers_from_plan
from lowtide.models.plan import Copy, Free
from lowtide.models.verifier import cells
from lowtide.models.verifier.allocation import verify_allocation
from lowtide.models.verifier.cells import are_disjoint
from lowtide.models.verifier.verdict import Violation
from lowtide.models.verifier.verify import verify
from tests.drawings import GRAPH, PLAN, W
from tests.effort import seeds
from tests.models.verifier.packed import PACKED
from tests.oracles.naive_allocation import first_collision, first_fit, random_buffers

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


def test_windows_leave_room_above_and_below() -> None:
    r"""From 2 on a keeps only its bytes 1 and 2; b and c lie around them.

    5 | a a a a c c
    4 |     a a
    3 | a a a a        (a at 3, of 4 bytes)
    """
    a = Buffer(id="a", lower=0, upper=6, size=4, gaps=(Gap(2, 4, 1, 3),))
    below, above = Buffer(id="b", lower=2, upper=4, size=4), Buffer(id="c", lower=2, upper=4, size=4)
    three = Buffers(buffers=(a, below, above))
    assert judged({"a": 3, "b": 0, "c": 6}, three) == []
    assert judged({"a": 3, "b": 1, "c": 6}, three) == [
        {"kind": "overlap", "time": 2, "tier": "", "buffers": ("a", "b")}
    ]
    assert judged({"a": 3, "b": 0, "c": 5}, three) == [
        {"kind": "overlap", "time": 2, "tier": "", "buffers": ("a", "c")}
    ]
    assert verify_allocation(three, {"a": 3, "b": 1, "c": 6}).violations[0].message == (
        "buffers 'a' at [3, 7) and 'b' at [1, 5) but for their gaps are both alive from time 2, "
        "expected disjoint addresses"
    )
    longer = replace(three, buffers=(a, replace(below, upper=5), above))
    assert judged({"a": 3, "b": 0, "c": 6}, longer) == [
        {"kind": "overlap", "time": 4, "tier": "", "buffers": ("b", "a")}
    ]


def test_two_windows_that_pass_each_other() -> None:
    """Each has the half of the room that the other leaves, and they swap halves."""
    a = Buffer(id="a", lower=0, upper=4, size=4, gaps=(Gap(0, 2, 0, 2), Gap(2, 4, 2, 4)))
    b = Buffer(id="b", lower=0, upper=4, size=4, gaps=(Gap(0, 2, 2, 4), Gap(2, 4, 0, 2)))
    assert judged({"a": 0, "b": 0}, Buffers(buffers=(a, b))) == []
    late = replace(b, gaps=(Gap(0, 3, 2, 4), Gap(3, 4, 0, 2)))
    assert [v["time"] for v in judged({"a": 0, "b": 0}, Buffers(buffers=(a, late)))] == [2]


def test_the_height_counts_the_whole_buffer_and_so_does_the_capacity() -> None:
    low = Buffer(id="a", lower=0, upper=4, size=4, gaps=(Gap(0, 4, 0, 1),))
    verdict = verify_allocation(Buffers(buffers=(low,), pools={"": 3}), {"a": 0})
    assert verdict.heights == {"": 4}
    assert [v.kind for v in verdict.violations] == ["capacity"]


def test_inplace_pairs_with_windows_share_their_address_or_stay_apart() -> None:
    a = Buffer(id="a", lower=0, upper=5, size=4, gaps=(Gap(3, 5, 0, 2),))
    b = Buffer(id="b", lower=3, upper=8, size=4)
    both = Buffers(buffers=(a, b), inplace=(("b", "a"),))
    assert judged({"a": 4, "b": 4}, both) == []
    assert judged({"a": 4, "b": 6}, both) == []
    assert [v["buffers"] for v in judged({"a": 4, "b": 5}, both)] == [("a", "b")]


def test_a_pair_that_meets_many_times_is_told_once() -> None:
    gaps = tuple(Gap(t, t + 1) for t in range(1, 40, 2))
    both = Buffers(
        buffers=(
            Buffer(id="a", lower=0, upper=41, size=4, gaps=gaps),
            Buffer(id="b", lower=0, upper=41, size=4, gaps=gaps),
        )
    )
    assert [v["time"] for v in judged({"a": 0, "b": 3}, both)] == [0]
    shifted = tuple(Gap(t, t + 1) for t in range(0, 41, 2))
    apart = replace(both, buffers=(both.buffers[0], replace(both.buffers[1], gaps=shifted)))
    assert judged({"a": 0, "b": 0}, apart) == []


@pytest.mark.parametrize("block", seeds(8, least=2))
def test_overlaps_are_those_of_all_pairs_byte_by_byte(block: int) -> None:
    """With the first instant of each as its time."""
    rng = Random(block)
    for _ in range(25):
        buffers = random_buffers(rng, most=14)
        offsets = {b.id: rng.randint(0, 10) for b in buffers.buffers}
        expected: dict[frozenset[str], int] = {}
        for a, b in combinations(buffers.buffers, 2):
            time = first_collision(a, offsets[a.id], b, offsets[b.id])
            paired = {(a.id, b.id), (b.id, a.id)} & {*buffers.inplace}
            if a.pool != b.pool or time is None or (paired and offsets[a.id] == offsets[b.id]):
                continue
            expected[frozenset((a.id, b.id))] = time
        verdict = verify_allocation(buffers, offsets)
        overlaps = [v for v in verdict.violations if v.kind == "overlap"]
        assert {frozenset(v.buffers): v.time for v in overlaps} == expected
        assert len(overlaps) == len(expected)


@pytest.mark.parametrize("block", seeds(8, least=2))
def test_a_map_of_the_addresses_accepts_what_has_no_overlap_and_nothing_else(
    block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = Random(block)
    accepted: list[bool] = []
    most = cells.MOST

    def noted(boxes: Iterable[Sequence[cells.Box]]) -> bool:
        accepted.append(are_disjoint(boxes))
        return accepted[-1]

    monkeypatch.setattr(cells, "are_disjoint", noted)
    for k in range(60):
        buffers = random_buffers(rng, most=14 if k % 2 else 4)
        offsets = {b.id: rng.randint(0, 10 if k % 2 else 40) for b in buffers.buffers}
        monkeypatch.setattr(judge, "FEWEST", 10**9)
        slowly = verify_allocation(buffers, offsets)
        monkeypatch.setattr(judge, "FEWEST", 0)
        assert verify_allocation(buffers, offsets) == slowly
        assert not (accepted[-1] and any(v.kind == "overlap" for v in slowly.violations))
        monkeypatch.setattr(cells, "MOST", 0)  # too many cells: the sweep says the same
        assert verify_allocation(buffers, offsets) == slowly
        monkeypatch.setattr(cells, "MOST", most)
    assert 20 < sum(accepted) < 100


def test_a_map_of_the_addresses_takes_any_integers() -> None:
    assert are_disjoint([[(0, 10**30, 0, 5)]]) is False  # not seen at once
    assert are_disjoint([[(0, 3, 0, 2**62), (3, 4, 5, 2**62)], [(0, 3, 0, 1)], []]) is True
    assert are_disjoint([[(0, 3, 0, 2**62), (2, 4, 5, 6)]]) is False


# -- mutations of valid allocations: each fault is found, with its witness -------------------------------


def valid_cases() -> Iterator[tuple[Random, Buffers, dict[str, int]]]:
    rng = Random(7)
    for _ in range(120):
        buffers = random_buffers(rng, most=8)
        if (offsets := first_fit(rng, buffers)) is not None:
            verify_allocation(buffers, offsets).raise_if_invalid()
            yield rng, buffers, offsets


def kinds_about(verdict: judge.AllocationVerdict, *names: str) -> list[str]:
    return [v.kind for v in verdict.violations if set(v.buffers) == set(names)]


def test_overlapping_is_rejected_with_the_pair() -> None:
    met = 0
    for _, buffers, offsets in valid_cases():
        for a, b in permutations(buffers.buffers, 2):
            moved = {**offsets, a.id: offsets[b.id] + (1 if b.size > 1 else 0)}
            paired = {(a.id, b.id), (b.id, a.id)} & {*buffers.inplace} and moved[a.id] == offsets[b.id]
            collides = first_collision(a, moved[a.id], b, offsets[b.id]) is not None
            expected = collides and a.pool == b.pool and not paired
            found = "overlap" in kinds_about(verify_allocation(buffers, moved), a.id, b.id)
            assert found == expected
            met += found
    assert met > 100


def test_misaligned_is_rejected() -> None:
    met = 0
    for rng, buffers, offsets in valid_cases():
        b = rng.choice(buffers.buffers)
        if b.alignment > 1:
            verdict = verify_allocation(buffers, {**offsets, b.id: offsets[b.id] + 1})
            assert "alignment" in kinds_about(verdict, b.id)
            met += 1
    assert met > 10


def test_moved_fixed_is_rejected() -> None:
    met = 0
    for rng, buffers, offsets in valid_cases():
        for b in buffers.buffers:
            if b.offset is not None:
                moved = {**offsets, b.id: b.offset + rng.choice((2, 4, 40))}
                assert "fixed" in kinds_about(verify_allocation(buffers, moved), b.id)
                met += 1
    assert met > 20


def test_out_of_pool_is_rejected() -> None:
    met = 0
    for rng, buffers, offsets in valid_cases():
        b = rng.choice(buffers.buffers)
        capacity = buffers.pools[b.pool]
        if capacity is not None:
            moved = {**offsets, b.id: capacity - b.size + 1}
            assert "capacity" in kinds_about(verify_allocation(buffers, moved), b.id)
            met += 1
    assert met > 20


def test_left_out_or_made_up_is_rejected() -> None:
    for rng, buffers, offsets in valid_cases():
        b = rng.choice(buffers.buffers)
        less = {name: at for name, at in offsets.items() if name != b.id}
        assert kinds_about(verify_allocation(buffers, less), b.id) == ["missing"]
        assert kinds_about(verify_allocation(buffers, {**offsets, "nobody": 0})) == ["unknown"]


# -- in a plan's verdict ---------------------------------------------------------------------------------


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
