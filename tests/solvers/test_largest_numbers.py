"""Instances of the largest sums that are taken: `auto` solves them, in integers that do not overflow."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

import lowtide as lt
from lowtide.models.problems.problem import Problem
from lowtide.solvers.peak.methods import ROOM
from tests.oracles.brute_orders import shortest_within
from tests.oracles.brute_parallel import most_memory
from tests.oracles.least_peak import least_peak
from tests.strategies import random_graph, readers_graph

MOST = 2**62 - 1


def chain(accounting: str, *, nbytes: int = 0, workspace: int = 0, duration: int = 3) -> lt.Graph:
    """a makes x, b makes y of it, and c reads both; each sum is what is named, uneven."""
    tensors = (
        lt.Tensor(name="x", nbytes=nbytes // 3),
        lt.Tensor(name="y", nbytes=nbytes - 2 * (nbytes // 3)),
        lt.Tensor(name="z", nbytes=nbytes // 3, final=True),
    )
    third = duration // 3
    ops = (
        lt.Op(name="a", writes=(0,), workspace=workspace // 2, duration_ns=third),
        lt.Op(name="b", reads=(0,), writes=(1,), workspace=workspace - workspace // 2, duration_ns=third),
        lt.Op(name="c", reads=(0, 1), writes=(2,), duration_ns=duration - 2 * third),
        *((lt.Op(name="d", workspace=0),) if duration < MOST else ()),
    )
    return lt.Graph(name="largest", tensors=tensors, ops=ops, accounting=lt.Accounting(accounting))


def largest() -> list[lt.Graph]:
    """Graphs whose bytes, workspaces or durations are the largest together."""
    return [
        chain(accounting, **numbers)
        for accounting in ("coexist", "replace")
        for numbers in (
            {"nbytes": MOST},
            {"nbytes": 9, "workspace": MOST - 9},
            {"nbytes": 9, "duration": MOST},
        )
    ]


@pytest.mark.parametrize("method", [m.name for m in ROOM.methods if m.engine is None or m.name == "auto"])
def test_peak(method: str) -> None:
    taken = 0
    for graph in largest():
        try:
            result = lt.solve(
                lt.Peak(graph), method, threads=1, options={"runs": "1"} if "local" in method else None
            )
        except lt.UsageError:
            continue
        taken += 1
        least = least_peak(graph)
        assert result.status in ("optimal", "feasible"), result.detail
        assert result.objective is not None
        assert result.objective >= least
        assert result.bound is None or result.bound <= least
        if method == "auto":
            assert result.status == "optimal"
    assert taken or method in ("liu", "minmem", "postorder", "series-parallel", "pumpkin")


def test_parallel_memory_and_edges() -> None:
    for graph in largest():
        for processors in (None, 1):
            most = most_memory(graph, processors=processors)
            for method in ("auto", "flow", "lp", "branch"):
                result = lt.solve(lt.ParallelMemory(graph, processors), method, threads=1)
                assert result.status in ("optimal", "feasible", "unknown"), result.detail
                assert result.bound is None or result.bound >= most
                if method in ("auto", "branch"):
                    assert (result.status, result.objective) == ("optimal", most)
            for bound in (most, most - 1):
                least = shortest_within(graph, bound, processors)
                result = lt.solve(lt.MemoryEdges(graph, bound, processors), threads=1)
                assert result.objective == least
                assert result.status == ("infeasible" if least is None else "optimal")


@pytest.mark.slow
def test_parallel_memory_of_uneven_sizes() -> None:
    """Gains and losses add up to more than 2**62 together, and prices of processors pass it."""
    for seed in range(20):
        rng = Random(seed)
        sizes = [rng.randrange(2**59, 2**60) for _ in range(3)]
        ops = [lt.Op(name=str(k), writes=(k,), workspace=rng.randrange(2**57)) for k in range(3)]
        ops.append(lt.Op(name="end", reads=(0, 1)))
        graph = lt.Graph(
            name="uneven", tensors=tuple(lt.Tensor(name=str(s), nbytes=s) for s in sizes), ops=tuple(ops)
        )
        for processors in (None, 1, 2):
            result = lt.solve(lt.ParallelMemory(graph, processors), threads=1)
            most = most_memory(graph, processors=processors)
            assert result.objective is not None
            assert result.bound is not None
            assert result.objective <= most <= result.bound, seed
            assert result.status == ("optimal" if result.bound == most else "feasible")
            assert processors is not None or result.bound == most


def solved(problem: Problem) -> lt.Result | None:
    """Return what `auto` finds; None if it says that its solvers do not count so far."""
    try:
        result = lt.solve(problem, threads=1)
    except lt.UsageError as error:
        if "expected less than 2^53" in str(error):
            return None
        raise
    assert result.status in ("optimal", "feasible"), result.detail
    return result


def test_makespan_and_recompute() -> None:
    for graph in largest():
        peak, length = least_peak(graph), sum(op.duration_ns for op in graph.ops[:3])
        nbytes = sum(t.nbytes for t in graph.tensors) + sum(op.workspace for op in graph.ops)
        for memory in (None, peak):
            schedule = solved(lt.Makespan(graph, processors=2, memory=memory))
            runs = solved(lt.Recompute(graph, memory=memory))
            if nbytes < 2**53:
                assert schedule is not None
                assert runs is not None
            assert schedule is None or schedule.objective == length
            assert runs is None or runs.objective == sum(op.duration_ns for op in graph.ops)


def test_offsets() -> None:
    boxes = tuple(lt.Buffer(id=str(k), lower=k, upper=2**62 - 3 + k, size=MOST // 3 - 1) for k in range(3))
    result = lt.solve(lt.Offsets(lt.Buffers(buffers=boxes)), threads=1)
    assert (result.status, result.objective) == ("optimal", 3 * (MOST // 3 - 1))


def test_minio() -> None:
    third = MOST // 3
    tensors = tuple(lt.Tensor(name=str(k), nbytes=third) for k in range(3))
    ops = (
        lt.Op(name="a", writes=(0,)),
        lt.Op(name="b", writes=(1,)),
        lt.Op(name="c", reads=(1,), writes=(2,)),
        lt.Op(name="d", reads=(0, 2)),
    )
    graph = lt.Graph(name="largest", tensors=tensors, ops=ops)
    for memory in (2 * third, 3 * third):
        result = solved(lt.MinIO(graph, memory=memory))
        assert result is not None
        assert (result.status, result.objective) == ("optimal", 0)


def uneven(graph: lt.Graph, rng: Random, factor: int) -> lt.Graph:
    """Return a graph with about so many times the bytes, without a common divisor."""

    def larger(nbytes: int) -> int:
        return nbytes and nbytes * factor - rng.randrange(10)

    return replace(
        graph,
        tensors=tuple(replace(t, nbytes=larger(t.nbytes)) for t in graph.tensors),
        ops=tuple(replace(op, workspace=larger(op.workspace)) for op in graph.ops),
    )


def check_milps(seed: int) -> int:
    """MILPs of many bytes against enumeration; return how many optima they proved."""
    rng = Random(seed)
    small = readers_graph(rng) if seed % 2 else random_graph(rng, min_ops=2, max_ops=4)
    graph = uneven(small, rng, 2 ** rng.choice((24, 28, 31, 36)))
    most, peak = most_memory(graph), least_peak(graph)
    bound = rng.randint(most * 6 // 10, most)
    questions: list[tuple[Problem, int | None, tuple[str, ...]]] = [
        (lt.ParallelMemory(graph), most, ("milp",)),
        (lt.Peak(graph), peak, ("milp", "milp-tensors", "milp-steps")),
        (lt.MemoryEdges(graph, bound), shortest_within(graph, bound), ("milp",)),
    ]
    proved = 0
    for problem, value, methods in questions:
        for method in methods:
            result = lt.solve(problem, method, threads=1)
            assert result.status != "failed", (seed, method, result.detail)
            assert result.status != "infeasible" or value is None, (seed, method)
            if result.status == "optimal":
                assert result.objective == value, (seed, method)
                proved += 1
            if value is not None and result.bound is not None:
                above = result.bound - value
                assert above >= 0 if problem.name == "parallel-memory" else above <= 0, (seed, method)
    return proved


@pytest.mark.slow
def test_milps_of_many_bytes_claim_nothing_false() -> None:
    assert sum(check_milps(seed) for seed in range(25)) > 25


@pytest.mark.slow
def test_milps_of_many_bytes_claim_nothing_false_on_many_graphs() -> None:
    assert sum(check_milps(seed) for seed in range(100, 400)) > 300


def test_walks_over_divisions_keep_to_integers() -> None:
    """A float below the least memory once left no place to divide a chain at."""
    graph = replace(chain("coexist", nbytes=2**60 + 7), ops=chain("coexist").ops[:3])
    result = lt.solve(lt.Peak(graph), "sp-ization", threads=1)
    assert (result.status, result.objective) == ("feasible", least_peak(graph))
