"""moDNN's pool: which blocks it offloads, against brute force and a map of bytes."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain as chained
from itertools import combinations
from random import Random

import pytest

from lowtide.solvers.placement.policies import modnn
from lowtide.solvers.placement.policies.follow import DoesNotFit
from lowtide.solvers.placement.policies.pool import WORKSPACE, Pool
from lowtide.solvers.placement.simulator.problem import simulated_problem
from tests.effort import seeds
from tests.problems.placement import machine, training_problem, working_set


@pytest.mark.parametrize("seed", seeds(200, least=60))
def test_the_pool_offloads_the_fewest_bytes(seed: int) -> None:
    """Against all sets of blocks that may go."""
    rng = Random(seed)
    pool, low = Pool(60), 0
    for owner in range(rng.randint(1, 7)):
        low += rng.choice((0, 0, 1, 3, 6))
        size = rng.randint(1, 9)
        if low + size <= pool.nbytes:
            pool.blocks.append((low, low + size, owner))
        low += size
    uses = {owner: rng.randint(1, 5) for _, _, owner in pool.blocks if rng.random() < 0.8}
    wanted = rng.randint(1, 40)
    sizes = {owner: end - start for start, end, owner in pool.blocks}

    def fits(gone: tuple[int, ...]) -> bool:
        left = [block for block in pool.blocks if block[2] not in gone]
        edges = [0, *chained.from_iterable((start, end) for start, end, _ in left), pool.nbytes]
        return max(b - a for a, b in zip(edges[::2], edges[1::2], strict=True)) >= wanted

    sets = chained.from_iterable(combinations(uses, r) for r in range(1, len(uses) + 1))
    keys = [(sum(sizes[i] for i in some), -min(uses[i] for i in some)) for some in sets if fits(some)]
    if fits(()):
        before = list(pool.blocks)
        assert pool.place(99, wanted)
        (block,) = (block for block in pool.blocks if block[2] == 99)
        ends = [0, *(end for _, end, _ in before)]
        holes = [start - end for end, (start, _, _) in zip(ends, [*before, (pool.nbytes, 0, 0)], strict=True)]
        assert block[0] in ends
        assert holes[ends.index(block[0])] == min(hole for hole in holes if hole >= wanted)
        return
    chosen = pool.cheapest(wanted, {*sizes} - {*uses} | {WORKSPACE}, uses.__getitem__)
    assert (chosen is None) == (not keys)
    if chosen is not None:
        assert fits(tuple(chosen))
        assert (sum(sizes[i] for i in chosen), -min(uses[i] for i in chosen)) == min(keys)


@pytest.mark.parametrize("seed", seeds(100, least=30))
def test_the_pool_fills_from_both_ends(seed: int) -> None:
    """Against a map of bytes."""
    rng = Random(seed)
    pool, owners = Pool(40), [0] * 40
    for owner in range(1, 40):
        size, high = rng.randint(1, 9), rng.random() < 0.5
        starts = [a for a in range(41 - size) if not any(owners[a : a + size])]
        found = pool.place_at_end(owner, size, high=high)
        assert found == bool(starts)
        if found:
            first = max(starts) if high else min(starts)
            owners[first : first + size] = [owner] * size
        if rng.random() < 0.6:
            gone = rng.randint(1, owner)
            pool.drop(gone)
            owners = [0 if x == gone else x for x in owners]
        assert pool.blocks == sorted(pool.blocks)
        assert [x for a, b, i in pool.blocks for x in (i,) * (b - a)] == [x for x in owners if x]
        assert all({*owners[a:b]} == {i} for a, b, i in pool.blocks)


def test_modnn_fails_exactly_if_an_op_does_not_fit() -> None:
    for seed in range(30):
        problem = training_problem(seed)
        least = working_set(problem.graph)
        for room in (least, least - 1):
            case = simulated_problem(replace(problem, machine=machine(room, None, ssd=False)))
            if room == least:
                list(modnn.decide(case))
                continue
            with pytest.raises(DoesNotFit, match="does not fit on an empty pool"):
                list(modnn.decide(case))
