"""The sets that label setting goes through: ideals, and what may run together."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

import lowtide as lt
from lowtide.formulations.makespan.data import makespan_data
from lowtide.solvers.makespan.labels.ideals import KnownIdeals, find_ideals, nothing_started, steps_from
from lowtide.solvers.makespan.labels.shape import shape_of
from lowtide.solvers.makespan.labels.together import find_sets
from tests.effort import seeds, share
from tests.oracles.brute_force import brute_force_peak
from tests.oracles.brute_makespan import live_bytes
from tests.problems.labels import prepared, random_tree, small_problem


def test_whatever_runs_together_in_an_optimal_schedule_lies_in_one_of_the_sets() -> None:
    """The started ops of a schedule are among the ideals, and the running ones in a set."""
    for seed in range(400, 400 + share(40)):
        problem = small_problem(seed)
        result = lt.solve(problem, "cpsat", threads=1)
        if result.plan is None:
            continue
        _, shape, ideals = prepared(problem)
        together = find_sets(shape, ideals, lambda: False)
        assert together is not None
        ideal_sets = set(ideals.sets.tolist())
        for now in sorted({run.start for run in result.plan.runs}):
            ended = sum(run.end <= now for run in result.plan.runs)
            running = sum(1 << run.op for run in result.plan.runs if run.start <= now < run.end)
            started = sum(1 << run.op for run in result.plan.runs if run.start <= now)
            assert started in ideal_sets
            assert any(
                running & ~s == 0 and ended <= latest
                for s, latest in zip(together.sets.tolist(), together.latest.tolist(), strict=True)
            ), f"seed {seed}, at {now}"


def test_ideals_are_those_within_the_memory_that_can_be_completed() -> None:
    for seed in range(500, 500 + share(30)):
        problem = small_problem(seed, most_ops=5)
        if problem.memory is None:
            continue
        data, shape, ideals = prepared(problem)
        edges = data.bytes.predecessors

        def paths(done: frozenset[int], n: int = data.n, edges=edges, problem=problem) -> set[frozenset[int]]:  # type: ignore[no-untyped-def]
            if len(done) == n:
                return {done}
            found = set[frozenset[int]]()
            for i in set(range(n)) - done:
                more = done | {i}
                if set(edges[i]) <= done and live_bytes(problem.graph, more, done) <= problem.memory:
                    found |= paths(more)
            return found | {done} if found else set()

        expected = {sum(1 << i for i in some) for some in paths(frozenset())}
        assert set(ideals.sets.tolist()) == expected
        known, (sets, after) = KnownIdeals(), nothing_started(shape)
        for _ in range(data.n if expected else 0):
            level = steps_from(shape, sets, after, known, np.zeros(1, dtype=np.int64))
            sets, after = level.sets[level.first[1] :], level.after[level.first[1] :]
            assert set(sets.tolist()) == {s for s in expected if s.bit_count() == int(sets[0]).bit_count()}


@pytest.mark.slow
def test_the_ideals_of_trees_lead_nowhere_but_to_all_ops() -> None:
    dead = 0
    for seed in seeds(70):
        rng = Random(seed)
        graph = random_tree(rng, rng.randint(5, 9))
        peak = brute_force_peak(graph)[0]
        shape = shape_of(
            makespan_data(lt.Makespan(graph, processors=2, memory=peak + rng.choice([0, 0, 1, 3])))
        )
        assert shape is not None
        assert len(shape.child_at)
        n, capacity = len(shape.duration), int(shape.numbers[1])
        none = np.empty(0, dtype=np.int64)
        free = find_ideals(shape._replace(child_at=none, child=none), 10**6, lambda: False)
        assert free is not None
        reached = [nothing_started(shape)]
        stop, known = np.zeros(1, dtype=np.int64), KnownIdeals()
        for _ in range(n):
            both = steps_from(shape, *reached[-1], known, stop)
            reached.append((both.sets[both.first[1] :], both.after[both.first[1] :]))
        found = sorted(int(s) for sets, _ in reached for s in sets)
        assert found == sorted(int(s) for s in free.sets)
        # Without a look ahead more sets are reached.
        some = {0: int(shape.numbers[2])}
        everything = set(some)
        while some:
            wider = {}
            for s, live in some.items():
                for i in range(n):
                    fits = not s >> i & 1 and not int(shape.before[i]) & ~s
                    if fits and live + int(shape.alloc[i]) <= capacity:
                        freed = int(shape.workspace[i]) + int(
                            shape.life_bytes[shape.life_at[i] : shape.life_at[i + 1]].sum()
                        )
                        wider[s | 1 << i] = live + int(shape.alloc[i]) - freed
            some = wider
            everything |= set(wider)
        assert everything.issuperset(found)
        dead += len(everything) - len(found)
    assert dead > 200 * share(70) // 70
