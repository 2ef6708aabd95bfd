"""Annealing of sequences of runs: excess by its definition, whole sequences, optima of small graphs."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pytest

import lowtide as lt
from lowtide.formulations.recompute.data import RecomputeData, fits, levels, recompute_data, time_of
from lowtide.solvers.recompute.heuristics.annealing import anneal_runs, case_of
from lowtide.solvers.recompute.heuristics.runs_kernel import INVALID, NEVER, anneal, excess
from tests.oracles.brute_recompute import fastest_recomputation
from tests.problems.recompute import needed, tight_problem


def annealed(data: RecomputeData, seed: int = 0, rounds: int = 3) -> list[list[int]]:
    """All that the search offers from the reference order, which need not fit."""
    found: list[list[int]] = []
    anneal_runs(data, range(data.n), seed=seed, offer=found.append, stop=lambda: False, rounds=rounds)
    return found


@pytest.mark.slow
def test_excess_is_what_levels_say_compiled_and_plain() -> None:
    """Sequences of random runs, most of them schedules of the memory or beyond it, some neither."""
    valid = invalid = 0
    for seed in range(250):
        problem = tight_problem(seed)
        if problem is None:
            continue
        data, rng = recompute_data(problem), Random(seed)
        runs = list(range(data.n))
        for _ in range(rng.randint(0, 4)):
            runs.insert(rng.randint(0, len(runs)), rng.randrange(data.n))
        room = np.array([*runs, 0, 0])
        over, twin = np.zeros_like(room), np.zeros_like(room)
        found = excess(case_of(data), room, len(runs), over)
        assert excess.py_func(case_of(data), room, len(runs), twin) == found
        try:
            expected = [max(0, x - data.memory) for x in levels(data, runs)]
        except ValueError:
            invalid += 1
            assert found == INVALID
            continue
        valid += 1
        assert found == sum(expected)
        assert over[: len(runs)].tolist() == twin[: len(runs)].tolist() == expected
    assert min(valid, invalid) >= 30


def test_the_first_op_runs_again_where_nothing_else_helps() -> None:
    g = lt.GraphBuilder()
    g.op("a", writes=[g.tensor("x", 5)], duration=1)
    g.op("b", reads=["x"], writes=[g.tensor("y", 1)], duration=1)
    g.op("wide", reads=["y"], writes=[g.tensor("z", 1)], workspace=6, duration=1)
    g.op("c", reads=["x", "y", "z"], duration=1)
    data = recompute_data(lt.Recompute(g.build(), 8))
    assert any(fits(data, runs) for runs in annealed(data))
    assert not fits(data, range(4))
    assert fits(data, [0, 1, 2, 0, 3])


@pytest.mark.slow
def test_a_search_keeps_every_op_and_its_best_fits_compiled_and_plain() -> None:
    """After each few moves; the plain form moves by the same rules, if not with the same random numbers."""
    fitted = repeated = 0
    for seed in range(40):
        problem = tight_problem(seed)
        if problem is None:
            continue
        data = recompute_data(problem)
        for search in (anneal, anneal.py_func):
            runs = np.zeros(10 * data.n, dtype=np.int64)
            runs[: data.n] = range(data.n)
            best, state, weight = runs.copy(), np.array([data.n, 0, NEVER]), np.array([20.0, 0.1, 1000.0])
            for _ in range(4):
                search(case_of(data), runs, best, state, weight, 250, 2.0, 0.1, seed)
                now = runs[: state[0]].tolist()
                assert set(now) == set(range(data.n))
                levels(data, now)  # raises where something is not found
                repeated += len(now) > data.n
            if state[2] < NEVER:
                fitted += 1
                assert fits(data, best[: state[1]].tolist())
                assert time_of(data, best[: state[1]].tolist()) == state[2]
    assert fitted >= 20
    assert repeated >= 5


@pytest.mark.slow
def test_it_meets_nearly_all_optima_of_small_graphs_and_none_is_beaten() -> None:
    met = all_of_them = 0
    for seed in range(250):
        problem = tight_problem(seed)
        if problem is None:
            continue
        data = recompute_data(problem)
        found = annealed(data, seed, rounds=2)
        best = fastest_recomputation(problem.graph, problem.machine)
        times = [data.ns(time_of(data, runs)) for runs in found]
        assert times == sorted(set(times), reverse=True)
        for runs in found[-1:]:
            assert problem.judge(problem.read(runs)).objective == times[-1]
        assert best is not None or not found
        if best is not None:
            all_of_them += 1
            assert min(times, default=best) >= best
            met += best in times
    assert all_of_them >= 40
    assert met >= 0.98 * all_of_them


@pytest.mark.slow
@pytest.mark.parametrize(("forwards", "memory"), [(8, 5), (20, 9)])
def test_unit_chains_take_what_is_proved(forwards: int, memory: int) -> None:
    problem = lt.Recompute(lt.load(f"gen:backprop-chain?l={forwards}"), memory=memory)
    exact = lt.solve(problem, threads=1)
    assert exact.status == lt.Status.OPTIMAL
    assert lt.solve(problem, "local-search", threads=1).objective == exact.objective


@pytest.mark.slow
def test_the_same_seed_finds_the_same() -> None:
    graph = lt.load("gen:backprop-chain?l=14&largest=9&forward=9&backward=9&spread=2&seed=4")
    least = max(lt.Recompute(graph).least_bytes(i) for i in range(len(graph.ops)))
    problem = lt.Recompute(graph, memory=least + (needed(graph) - least) // 5)
    data = recompute_data(problem)
    assert annealed(data, seed=1) == annealed(data, seed=1)
    assert annealed(data, seed=1) != annealed(data, seed=2)
    assert fits(data, annealed(data)[-1])


def test_the_option_is_checked() -> None:
    problem = lt.Recompute(lt.load("gen:backprop-chain?l=5"), memory=5)
    with pytest.raises(lt.UsageError, match="option rounds: found 'many', expected a positive integer"):
        lt.solve(problem, "local-search", options={"rounds": "many"})


def test_the_weight_of_the_excess_stays_within_its_bounds() -> None:
    """Where nothing fits it rises to the most that it can be, and no further."""
    data = recompute_data(lt.Recompute(lt.load("gen:backprop-chain?l=9"), memory=3))
    runs = np.zeros(12 * data.n, dtype=np.int64)
    runs[: data.n] = range(data.n)
    state, weight = np.array([data.n, 0, NEVER]), np.array([1.0, 0.5, 50.0])
    anneal(case_of(data), runs, runs.copy(), state, weight, 20_000, 1.0, 0.1, 0)
    assert state[2] == NEVER
    assert weight.tolist() == [50.0, 0.5, 50.0]


@pytest.mark.parametrize("nbytes", [2**58, 10**16])
def test_bytes_beyond_what_a_search_can_add_up_cost_no_answer(nbytes: int) -> None:
    """Neither sums of 64 bits nor a model that refuses such sizes."""
    graph = lt.load("gen:backprop-chain?l=4")
    tensors = tuple(replace(x, nbytes=nbytes + k) for k, x in enumerate(graph.tensors))
    large = replace(graph, tensors=tensors)
    for method in ("local-search", "auto"):
        result = lt.solve(lt.Recompute(large, memory=4 * nbytes + 60), method, threads=1, time_limit=20)
        assert result.status in ("feasible", "optimal")
