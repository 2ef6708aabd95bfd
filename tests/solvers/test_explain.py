"""Irreducible sets of buffers without allocation: by brute force, and by the judge of witnesses."""

from __future__ import annotations

import json
from dataclasses import replace
from random import Random

import pytest

import lowtide as lt
from lowtide.models.buffers import Buffer, Buffers, Gap
from lowtide.models.verifier.allocation import verify_allocation
from lowtide.solvers.explain import Explanation, explain, subset
from tests.oracles.brute_offsets import brute_heights, brute_offsets, random_set


def tight_set(seed: int) -> Buffers:
    """Return a random set whose capacities are often one byte too small."""
    rng = Random(seed)
    buffers = random_set(rng, most=8)
    heights = brute_heights(replace(buffers, pools=dict.fromkeys(buffers.pools)))
    if heights is None or rng.random() < 0.3:
        return buffers
    pools = {p: max(0, heights[p] - 1) if rng.random() < 0.7 else None for p in buffers.pools}
    return replace(buffers, pools=pools)


def explained(buffers: Buffers) -> Explanation:
    return explain(buffers, threads=1, time_limit=None)


@pytest.mark.slow
def test_members_have_no_allocation_and_none_can_be_spared() -> None:
    sizes: dict[int, int] = {}
    for seed in range(150):
        buffers = tight_set(seed)
        found = explained(buffers)
        if brute_offsets(buffers) is not None:
            assert found.status is lt.Status.FEASIBLE
            assert found.allocation is not None
            assert verify_allocation(buffers, found.allocation).valid
            continue
        assert (found.status, found.irreducible) == (lt.Status.INFEASIBLE, True), buffers
        assert brute_offsets(subset(buffers, found.members)) is None
        assert list(found.witnesses) == list(found.members)
        for member, offsets in found.witnesses.items():
            others = subset(buffers, set(found.members) - {member})
            assert verify_allocation(others, offsets).valid
        sizes[len(found.members)] = sizes.get(len(found.members), 0) + 1
    assert max(sizes) >= 4
    assert sizes[1] >= 5


SKYLINE = Buffers(
    buffers=(
        Buffer(id="a", lower=0, upper=2, size=2),
        Buffer(id="b", lower=1, upper=4, size=2),
        Buffer(id="c", lower=3, upper=6, size=1),
        Buffer(id="d", lower=3, upper=8, size=1),
        Buffer(id="bystander", lower=20, upper=21, size=4),
    ),
    pools={"": 4},
)


def test_what_fits_has_an_allocation() -> None:
    found = explained(SKYLINE)
    assert (found.status, found.members, found.capacity) == (lt.Status.FEASIBLE, (), None)
    assert found.allocation is not None
    assert verify_allocation(SKYLINE, found.allocation).valid


def test_largest_of_a_crowd_are_enough() -> None:
    crowd = tuple(Buffer(id=f"b{k}", lower=k, upper=10, size=k) for k in range(1, 8))
    found = explained(Buffers(buffers=crowd, pools={"": 15}))
    assert found.members == ("b5", "b6", "b7")
    assert found.irreducible
    assert found.detail == "at time 7 they need 18 bytes, more than the capacity 15"
    assert found.witnesses["b6"] == {"b5": 0, "b7": 5}


def test_alignments_that_cost_room() -> None:
    """The load is 7 of 8, but with x at a multiple of 4 nothing of size 3 fits twice."""
    three = Buffers(
        buffers=(
            Buffer(id="x", lower=0, upper=4, size=1, alignment=4),
            Buffer(id="y", lower=0, upper=4, size=3, alignment=4),
            Buffer(id="z", lower=0, upper=4, size=3, alignment=4),
            Buffer(id="w", lower=0, upper=4, size=0),
        ),
        pools={"": 8},
    )
    found = explained(three)
    assert found.members == ("x", "y", "z")
    assert found.irreducible


def test_causes_of_one_or_two() -> None:
    long = Buffer(id="long", lower=0, upper=2, size=9)
    crooked = Buffer(id="crooked", lower=0, upper=2, size=1, offset=3, alignment=2)
    first = Buffer(id="first", lower=0, upper=2, size=2, offset=0)
    second = Buffer(id="second", lower=1, upper=3, size=2, offset=1)
    rest = Buffer(id="rest", lower=0, upper=3, size=1)
    found = explained(Buffers(buffers=(rest, long), pools={"": 8}))
    assert (found.members, found.irreducible) == (("long",), True)
    assert found.detail == "it ends at 9, above the capacity 8"
    found = explained(Buffers(buffers=(rest, crooked)))
    assert (found.members, found.capacity) == (("crooked",), None)
    assert found.detail == "its fixed offset 3 is no multiple of its alignment 2"
    found = explained(Buffers(buffers=(rest, first, second)))
    assert (found.members, found.irreducible) == (("first", "second"), True)
    assert found.detail == "they overlap at their fixed offsets"
    assert found.witnesses == {"first": {"second": 1}, "second": {"first": 0}}


def test_pool_to_blame_is_named() -> None:
    both = (
        Buffer(id="a", lower=0, upper=2, size=3, pool="small"),
        Buffer(id="b", lower=1, upper=3, size=3, pool="small"),
        Buffer(id="c", lower=1, upper=3, size=3, pool="large"),
    )
    found = explained(Buffers(buffers=both, pools={"small": 5, "large": 100}))
    assert (found.pool, found.capacity, found.members) == ("small", 5, ("a", "b"))


def test_pair_that_may_share_is_no_crowd() -> None:
    three = tuple(Buffer(id=x, lower=0, upper=2, size=3) for x in "abc")
    paired = Buffers(buffers=three, pools={"": 6}, inplace=(("a", "b"),))
    assert explained(paired).status is lt.Status.FEASIBLE
    found = explained(replace(paired, pools={"": 5}))
    assert found.irreducible
    assert len(found.members) == 2
    assert "c" in found.members


def test_windows_are_looked_into() -> None:
    host = Buffer(id="h", lower=0, upper=6, size=4, gaps=(Gap(2, 4, 1, 2),))
    guest = Buffer(id="g", lower=2, upper=4, size=3)
    found = explained(Buffers(buffers=(host, guest), pools={"": 4}))
    assert (found.members, found.irreducible) == (("h", "g"), True)


def test_time_that_is_up_is_admitted() -> None:
    found = explain(SKYLINE, threads=1, time_limit=1e-6)
    assert (found.status, found.members, found.allocation) == (lt.Status.UNKNOWN, (), None)
    assert found.detail == "the time was up before it was known whether all fit"


def test_reduction_cut_short_claims_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the first question is answered: the set is without allocation, and nobody is proved needed."""
    from lowtide.solvers import explain as module

    five = tuple(Buffer(id=f"b{k}", lower=0, upper=2, size=3, alignment=4) for k in range(5))
    whole = module._Asker.ask
    asked: list[int] = []

    def ask(self: module._Asker, buffers: Buffers, seconds: float) -> object:
        asked.append(len(buffers.buffers))
        return whole(self, buffers, seconds if len(asked) == 1 else 0.0)

    monkeypatch.setattr(module._Asker, "ask", ask)
    found = explained(Buffers(buffers=five, pools={"": 16}))
    assert found.status is lt.Status.INFEASIBLE
    assert found.members == ("b0", "b1", "b2", "b3", "b4")
    assert (found.irreducible, found.witnesses) == (False, {})
    assert asked[0] == 5
    assert asked[-5:] == [4, 4, 4, 4, 4]


def test_object_is_json() -> None:
    found = explained(replace(SKYLINE, pools={"": 3}))
    values = json.loads(json.dumps(found.to_dict()))
    assert values["status"] == "infeasible"
    assert values["members"] == ["bystander"]
    assert values["witnesses"] == {"bystander": {}}
