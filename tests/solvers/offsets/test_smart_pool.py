"""SmartPool: its rule by another program, its doubled region, valid with every feature."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import lowtide as lt
from lowtide.formulations.offsets.data import offsets_data
from lowtide.models.buffers import Buffer, Buffers, Gap
from lowtide.models.errors import UsageError
from lowtide.models.lowering.buffers import buffers_from_plan
from lowtide.models.problems.offsets import Offsets
from lowtide.models.verifier.allocation import verify_allocation
from lowtide.solvers.offsets.smart_pool import colour, crosses_the_end
from tests.effort import many
from tests.oracles.brute_offsets import brute_offsets, random_set
from tests.problems.placement import machine, training_problem


@many(100)
@given(st.randoms(use_true_random=False))
def test_valid_and_never_below_the_optimum(rng: Random) -> None:
    buffers = random_set(rng)
    assume(all((b.offset or 0) % b.alignment == 0 for b in buffers.buffers))
    unlimited = Buffers(buffers=buffers.buffers, inplace=buffers.inplace)
    try:
        result = lt.solve(Offsets(unlimited), "smartpool")
    except UsageError:  # not for parts that a bound closes at once
        assert any(crosses_the_end(x).any() and (x.fixed >= 0).any() for x in offsets_data(unlimited))
        return
    if result.allocation is None:
        assert brute_offsets(unlimited) is None
        return
    assert not verify_allocation(unlimited, result.allocation).violations
    best = brute_offsets(unlimited)
    assert best is None or (result.objective is not None and result.objective >= best)


def test_fixed_offsets_beside_buffers_that_cross_the_end_are_refused() -> None:
    turn = Buffer(id="turn", lower=0, upper=20, size=3, gaps=(Gap(3, 17),))
    held = Buffer(id="held", lower=1, upper=19, size=2, offset=4)
    with pytest.raises(UsageError, match="found fixed offsets beside buffers that cross"):
        lt.solve(Offsets(Buffers(buffers=(turn, held))), "smartpool")


def by_hand(blocks: list[Buffer], floor: int, best: bool) -> dict[str, int]:
    """Colour plain blocks by falling size, one candidate address after the other."""
    placed: dict[str, tuple[int, Buffer]] = {}
    for b in sorted(blocks, key=lambda b: (-b.size, b.lower)):
        meets = sorted((o, o + c.size) for o, c in placed.values() if c.lower < b.upper and b.lower < c.upper)
        top, holes = floor, []
        for low, high in meets:
            if low - top >= b.size:
                holes.append((low - top if best else 0, top))
            top = max(top, high)
        placed[b.id] = (min(holes)[1] if holes else top, b)
    return {name: offset for name, (offset, _) in placed.items()}


@pytest.mark.parametrize("best", [True, False])
@pytest.mark.parametrize("seed", range(30))
def test_the_rule_by_another_program(seed: int, best: bool) -> None:
    rng = Random(seed)
    plain = [
        Buffer(
            id=f"b{k}",
            lower=(low := rng.randint(0, 12)),
            upper=low + rng.randint(1, 8),
            size=rng.randint(1, 9),
        )
        for k in range(rng.randint(2, 14))
    ]
    plain.append(Buffer(id="long", lower=0, upper=21, size=5))
    # Each of these is alive at both ends of the time, and not between: two of them always meet.
    turns = [
        Buffer(
            id=f"c{k}",
            lower=0,
            upper=21,
            size=rng.randint(1, 9),
            gaps=(Gap(rng.randint(1, 9), rng.randint(10, 20)),),
        )
        for k in range(rng.randint(0, 3))
    ]
    blocks = [*plain, *turns]
    (part,) = offsets_data(Buffers(buffers=tuple(blocks)))
    arrival = np.array([blocks[i].lower for i in part.numbers.tolist()])
    offsets = (colour(part, arrival, best) * part.unit).tolist()
    found = {blocks[i].id: offset for i, offset in zip(part.numbers.tolist(), offsets, strict=True)}
    height = sum(b.size for b in turns)
    starts = np.cumsum([height, *(b.size for b in sorted(turns, key=lambda b: -b.size))])
    assert sorted(found[b.id] for b in turns) == starts[:-1].tolist()
    assert {b.id: found[b.id] for b in plain} == by_hand(plain, 2 * height, best)


def test_weights_that_are_swapped_over_the_end_count_twice() -> None:
    doubled = 0
    for seed in range(1, 20, 2):
        graph = training_problem(seed).graph
        plan = lt.solve(lt.Placement(graph, machine(45, None), periodic=True), "demand-lru").plan
        if plan is None:
            continue
        some = tuple(b for b in buffers_from_plan(graph, plan).buffers if b.pool == "gpu")
        result = lt.solve(Offsets(Buffers(buffers=some)), "smartpool")
        assert result.allocation is not None
        assert not verify_allocation(Buffers(buffers=some), result.allocation).violations
        if any(b.gaps for b in some):
            doubled += min(result.allocation[b.id] for b in some if not b.gaps) > 0
    assert doubled > 1
