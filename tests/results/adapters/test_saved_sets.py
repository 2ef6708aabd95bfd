"""Saved sets on small graphs: what runs again and what is alive, by hand and against the verifier."""

from __future__ import annotations

import itertools
import random
import time

import pytest

import lowtide as lt
from lowtide.results.adapters.joint_graph import CALLER
from lowtide.results.adapters.saved_sets import SavedSets
from tests.effort import seeds


def chain(*sizes: int) -> lt.Graph:
    """Return a chain of forward ops, each of 10 ns and with a derivative that reads its operand."""
    n = len(sizes)
    tensors = [lt.Tensor(name="x", nbytes=0, initial=True, final=True, kind="weight")]
    tensors += [lt.Tensor(name=f"y{k}", nbytes=size, final=k == n - 1) for k, size in enumerate(sizes)]
    tensors += [lt.Tensor(name=f"g{k}", nbytes=1, final=k == n) for k in range(n + 1)]
    ops = [lt.Op(name=f"f{k}", reads=(k,), writes=(k + 1,), duration_ns=10) for k in range(n)]
    ops.append(lt.Op(name=CALLER, reads=(n,), writes=(n + 1,)))
    ops += [
        lt.Op(name=f"b{k}", reads=(n - k - 1, n + k + 1), writes=(n + k + 2,), duration_ns=20)
        for k in range(n)
    ]
    return lt.Graph(name="chain", tensors=tuple(tensors), ops=tuple(ops))


def test_all_saved_is_every_op_once() -> None:
    sets = SavedSets(chain(8, 8, 8), 100)
    assert sets.boundary() == {1, 2}
    # y0, y1, y2 and two gradients while b0 runs
    found = sets.partition(sets.boundary())
    assert found.saved == {1, 2}
    assert not found.again
    assert (found.peak, found.above, found.time) == (26, 0, 91)


def test_nothing_saved_runs_forward_again_for_each_derivative() -> None:
    found = SavedSets(chain(8, 8, 8), 20).partition(())
    # b0 needs y1 made anew from x; y0 stays from then to b1
    assert not found.saved
    assert found.again == {0, 1}
    assert found.time == 111
    assert found.peak == 26  # y2, y0, y1 and two gradients while b0 runs
    assert found.above == 5 + 6


def test_a_fixed_op_is_never_run_again() -> None:
    found = SavedSets(chain(8, 8, 8), 100, fixed=frozenset({0})).partition(())
    assert found.saved == {1}
    assert found.again == {1}


def random_graph(rng: random.Random) -> lt.Graph:
    n, m = rng.randint(1, 5), rng.randint(1, 4)
    tensors = [lt.Tensor(name="x", nbytes=0, initial=True, final=True, kind="weight")]
    ops = []
    for k in range(n):
        reads = sorted({0, *rng.sample(range(len(tensors)), rng.randint(0, min(2, len(tensors))))})
        if k == n - 1:  # no op is dead
            reads = list(range(n))
        tensors.append(lt.Tensor(name=f"y{k}", nbytes=rng.randint(0, 9), final=k == n - 1))
        ops.append(lt.Op(name=f"f{k}", reads=tuple(reads), writes=(k + 1,), duration_ns=rng.randint(1, 9)))
    tensors.append(lt.Tensor(name="g", nbytes=1))
    ops.append(lt.Op(name=CALLER, reads=(n,), writes=(n + 1,)))
    for k in range(m):
        reads = sorted({len(tensors) - 1, *rng.sample(range(n + 1), rng.randint(0, min(2, n + 1)))})
        tensors.append(
            lt.Tensor(name=f"g{k}", nbytes=rng.randint(0, 9), final=k == m - 1 or rng.random() < 0.3)
        )
        ops.append(
            lt.Op(name=f"b{k}", reads=tuple(reads), writes=(len(tensors) - 1,), duration_ns=rng.randint(1, 9))
        )
    return lt.Graph(name="random", tensors=tuple(tensors), ops=tuple(ops))


@pytest.mark.parametrize("seed", seeds(40))
def test_partitions_are_plans_of_the_same_peak_and_the_search_finds_the_best(seed: int) -> None:
    rng = random.Random(seed)
    graph = random_graph(rng)
    sets, problem = SavedSets(graph, 10**9), lt.Recompute(graph)
    returned = {t for t in range(len(graph.tensors)) if graph.tensors[t].final} & sets.boundary()
    early = [
        t for t in range(1, len(graph.tensors)) if t not in returned and sets.partition({t}).saved <= {t}
    ]
    every = [t for t in early if sets.partition({t}).saved == {t}]
    found = []
    for size in range(len(every) + 1):
        for some in itertools.combinations(every, size):
            one = sets.partition({*some, *returned})  # what forward returns has one copy in a plan
            forward, backward = sets.steps(one.saved, one.backward)
            caller = next(i for i, op in enumerate(graph.ops) if op.name == CALLER)
            checked = lt.verify(graph, problem.plan_of(problem.read([*forward, caller, *backward])))
            assert checked.valid
            assert (checked.peaks["memory"], checked.makespan) == (one.peak, one.time)
            found.append(one)
    memory = rng.randint(min(x.peak for x in found), max(x.peak for x in found))
    best = SavedSets(graph, memory).best([returned], time.monotonic() + 20)
    assert best.peak <= memory
    assert best.time <= min(x.time for x in found if x.peak <= memory)
