"""What is given to constructors and public functions is checked at once: what, found, expected."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import lowtide as lt
from lowtide.models.checks import check_integer, shown

GRAPH = lt.load("catalogue:diamond")
MACHINE = lt.Machine.single()
STREAMS = replace(lt.Machine.single(), contention=lt.Contention(model="fluid"))
PLAN = lt.Plan.from_order(GRAPH, range(len(GRAPH.ops)))
BUFFERS = lt.Offsets.from_plan(GRAPH, PLAN).buffers
WRONG: Any = "spec"
ANY: Any = GRAPH

CALLS: dict[str, tuple[Callable[[], object], str]] = {
    "Peak": (lambda: lt.Peak(WRONG), "peak, graph: found 'spec', expected a Graph, as load(...) returns it"),
    "Offsets": (lambda: lt.Offsets(WRONG), "offsets, buffers: found 'spec', expected a Buffers"),
    "Offsets satisfy": (lambda: lt.Offsets(BUFFERS, satisfy=WRONG), "expected True or False"),
    "Offsets origin": (lambda: lt.Offsets(BUFFERS, False, WRONG), "expected an Origin or None"),
    "Offsets.from_plan": (lambda: lt.Offsets.from_plan(WRONG, PLAN), "expected a Graph"),
    "Offsets.from_plan plan": (lambda: lt.Offsets.from_plan(GRAPH, WRONG), "expected a Plan"),
    "Placement": (lambda: lt.Placement(WRONG, MACHINE), "placement, graph: found 'spec'"),
    "Placement machine": (lambda: lt.Placement(GRAPH, WRONG), "placement, machine: found 'spec'"),
    "Placement periodic": (lambda: lt.Placement(GRAPH, MACHINE, periodic=1), "found 1, expected True or"),  # type: ignore[arg-type]
    "Placement start": (lambda: lt.Placement(GRAPH, MACHINE, start=WRONG), "expected a mapping of kinds"),
    "Placement tiers": (
        lambda: lt.Placement(GRAPH, MACHINE, start={"input": WRONG}),
        "start of kind 'input': found 'spec', expected a tuple of tiers",
    ),
    "Makespan": (lambda: lt.Makespan(WRONG), "makespan, graph: found 'spec'"),
    "Makespan processors": (lambda: lt.Makespan(GRAPH, True), "processors: found True"),
    "Makespan memory": (lambda: lt.Makespan(GRAPH, memory=1.5), "memory: found 1.5, expected an int"),  # type: ignore[arg-type]
    "Recompute": (lambda: lt.Recompute(WRONG), "recompute, graph: found 'spec'"),
    "Recompute memory": (lambda: lt.Recompute(GRAPH, True), "memory: found True, expected an integer >= 0"),
    "Recompute machine": (lambda: lt.Recompute(GRAPH, 9, WRONG), "recompute, machine: found 'spec'"),
    "Placement contention": (
        lambda: lt.Placement(GRAPH, STREAMS),
        "placement, machine 'single': found contention 'fluid', expected none",
    ),
    "Recompute contention": (
        lambda: lt.Recompute(GRAPH, machine=STREAMS),
        "recompute, machine 'single': found contention 'fluid', expected none",
    ),
    "Partition": (lambda: lt.Partition(WRONG), "partition, graph: found 'spec'"),
    "Sharding": (lambda: lt.Sharding(WRONG), "sharding, network: found 'spec'"),
    "Hybrid": (lambda: lt.Hybrid(WRONG), "hybrid, graph: found 'spec'"),
    "Hybrid needs": (lambda: lt.Hybrid(GRAPH, needs=((),)), "hybrid, needs: found other numbers of them"),
    "Arena": (lambda: lt.Arena(WRONG), "arena, graph: found 'spec'"),
    "Arena sums": (lambda: lt.Arena(GRAPH, 2**62 - 1), "arena, sizes and alignments: found"),
    "Arena alignment": (lambda: lt.Arena(GRAPH, 0), "arena, alignment: found 0, expected"),
    "Distributed": (lambda: lt.Distributed(WRONG, STREAMS), "distributed, graph: found 'spec'"),
    "Distributed machine": (lambda: lt.Distributed(GRAPH, WRONG), "distributed, machine: found 'spec'"),
    "Distributed contention": (
        lambda: lt.Distributed(GRAPH, STREAMS),
        "distributed, machine 'single': found contention 'fluid', expected none",
    ),
    "Pipeline": (lambda: lt.Pipeline(WRONG), "pipeline, graph: found 'spec'"),
    "Pipeline objective": (
        lambda: lt.Pipeline(lt.pipeline_graph([lt.Stage(device=0)], 1), objective=WRONG),
        "pipeline, objective: found 'spec', expected makespan or span",
    ),
    "Stage": (lambda: lt.Stage(device=0, weight=0), "stage, kept: found 1 bytes without W, expected 0"),
    "pipeline_graph": (lambda: lt.pipeline_graph([lt.Stage(device=1)], 1), "expected devices 0, 1"),
    "MinIO": (lambda: lt.MinIO(WRONG, 3), "minio, graph: found 'spec'"),
    "MinIO memory": (lambda: lt.MinIO(GRAPH, -1), "memory: found -1, expected an integer >= 0"),
    "MinIO whole": (lambda: lt.MinIO(GRAPH, 99, WRONG), "minio, whole: found 'spec'"),
    "ParallelMemory": (lambda: lt.ParallelMemory(WRONG), "parallel-memory, graph: found 'spec'"),
    "ParallelMemory processors": (lambda: lt.ParallelMemory(GRAPH, True), "processors: found True"),
    "MemoryEdges": (lambda: lt.MemoryEdges(WRONG, 3), "memory-edges, graph: found 'spec'"),
    "MemoryEdges bound": (lambda: lt.MemoryEdges(GRAPH, 2.5), "bound: found 2.5, expected an integer"),  # type: ignore[arg-type]
    "Tensor": (lambda: lt.Tensor(name=3, nbytes=1), "tensor, name: found 3, expected a str"),  # type: ignore[arg-type]
    "Tensor initial": (lambda: lt.Tensor(name="x", nbytes=1, initial=WRONG), "expected True or False"),
    "Op": (lambda: lt.Op(name="f", reads=3), "op 'f', reads: found 3, expected a tuple"),  # type: ignore[arg-type]
    "Op modes": (lambda: lt.Op(name="f", modes=(WRONG,)), "op, modes: found 'spec', expected a Mode"),
    "Graph": (lambda: lt.Graph(name="g", tensors=(WRONG,), ops=()), "expected a Tensor"),
    "Graph ops": (lambda: lt.Graph(name="g", tensors=(), ops=3), "ops: found 3, expected a tuple of Op"),  # type: ignore[arg-type]
    "Buffers": (lambda: lt.Buffers(buffers=(WRONG,)), "buffers, buffers: found 'spec', expected a Buffer"),
    "Machine": (lambda: lt.Machine(tiers=(WRONG,), processors=()), "tiers: found 'spec', expected a Tier"),
    "Makespan size": (
        lambda: lt.Makespan(GRAPH, memory=WRONG),
        "memory: found 'spec', expected bytes such as",
    ),
    "solve memory": (
        lambda: lt.solve(lt.Peak(GRAPH), memory_limit=WRONG),
        "memory limit: found 'spec', expected",
    ),
    "solve graph": (
        lambda: lt.solve(ANY),
        "solve, problem: found Graph('diamond', 4 ops, 4 tensors), expected",
    ),
    "solve graph, example": (lambda: lt.solve(ANY), "Tiles, such as Peak(graph)"),
    "solve": (lambda: lt.solve(WRONG), "solve, problem: found 'spec', expected one of Arena, Distributed"),
    "solve method": (lambda: lt.solve(lt.Peak(GRAPH), 3), "method: found 3, expected the name of a method"),  # type: ignore[arg-type]
    "solve limit": (lambda: lt.solve(lt.Peak(GRAPH), time_limit=WRONG), "time limit: found 'spec'"),
    "solve nan": (lambda: lt.solve(lt.Peak(GRAPH), time_limit=float("nan")), "time limit: found nan"),
    "solve seed": (lambda: lt.solve(lt.Peak(GRAPH), seed=1.5), "seed: found 1.5, expected an integer"),  # type: ignore[arg-type]
    "solve threads": (lambda: lt.solve(lt.Peak(GRAPH), threads=True), "threads: found True"),
    "solve options": (lambda: lt.solve(lt.Peak(GRAPH), options=WRONG), "options: found 'spec'"),
    "solve log": (lambda: lt.solve(lt.Peak(GRAPH), log=3), "log: found 3, expected a path or None"),  # type: ignore[arg-type]
    "verify": (lambda: lt.verify(WRONG, PLAN), "verify, graph: found 'spec', expected a Graph"),
    "verify plan": (lambda: lt.verify(GRAPH, WRONG), "verify, plan: found 'spec', expected a Plan"),
    "verify_certificate": (lambda: lt.verify_certificate(GRAPH, WRONG), "expected a Certificate"),
    "load": (lambda: lt.load(3), "instance: found 3, expected a specification or a path"),  # type: ignore[arg-type]
    "load_buffers": (lambda: lt.load_buffers(None), "instance: found None, expected a specification"),  # type: ignore[arg-type]
    "load_machine": (lambda: lt.load_machine(3), "machine: found 3, expected a name or a path"),  # type: ignore[arg-type]
    "dominant_order": (lambda: lt.dominant_order(WRONG), "dominant_order, graph: found 'spec'"),
    "certify": (lambda: lt.certify(WRONG, 3), "certify, graph: found 'spec'"),
    "certify bound": (
        lambda: lt.certify(GRAPH, WRONG),
        "certify, bound: found 'spec', expected bytes such as",
    ),
    "certify_parallel": (lambda: lt.certify_parallel(WRONG, 3), "certify_parallel, graph: found 'spec'"),
    "certify_placement": (lambda: lt.certify_placement(WRONG, 3), "problem: found 'spec', expected a Place"),
    "sweep_memory": (lambda: lt.sweep_memory(WRONG), "found 'spec', expected a Makespan or a Recompute"),
    "certify_parallel edges": (
        lambda: lt.certify_parallel(GRAPH, 99, edges=((0,),)),  # type: ignore[arg-type]
        "edges: found (0,), expected a pair of op indices",
    ),
    "Offsets.from_order edges": (
        lambda: lt.Offsets.from_order(GRAPH, [(0, 1.5)]),  # type: ignore[list-item]
        "edges: found (0, 1.5), expected a pair of op indices",
    ),
    "Plan.from_order": (lambda: lt.Plan.from_order(WRONG, (0,)), "plan, graph: found 'spec'"),
    "Plan.from_order order": (lambda: lt.Plan.from_order(GRAPH, 3), "plan, order: found 3"),  # type: ignore[arg-type]
}


def test_bytes_may_be_texts_wherever_they_are_asked_for() -> None:
    tier = lt.Tier(name="t", capacity="1KiB")  # type: ignore[arg-type]
    buffer = lt.Buffer(id="b", lower=0, upper=1, size="1KiB")  # type: ignore[arg-type]
    given: Any = "1KiB"
    for found in (
        lt.Tensor(name="x", nbytes=given).nbytes,
        lt.Op(name="f", workspace=given).workspace,
        lt.Mode(workspace=given).workspace,
        tier.capacity,
        lt.Machine.single(capacity=given).tiers[0].capacity,
        buffer.size,
        lt.Buffers(buffers=(buffer,), pools={"": given}).pools[""],
        lt.Makespan(GRAPH, memory=given).memory,
        lt.Recompute(GRAPH, memory=given).memory,
        lt.Recompute(GRAPH, memory=given).machine.tiers[0].capacity,
        lt.MinIO(GRAPH, given).memory,
        lt.MemoryEdges(GRAPH, given).bound,
    ):
        assert found == 1024
    certificate = lt.certify(GRAPH, "1B", memory_limit="1GiB")
    assert certificate is not None
    assert certificate.bound == 1
    assert lt.solve(lt.Peak(GRAPH), "greedy", memory_limit="1GiB").objective is not None


@pytest.mark.parametrize("name", CALLS)
def test_wrong_types_are_named_at_once(name: str, caplog: pytest.LogCaptureFixture) -> None:
    call, message = CALLS[name]
    with caplog.at_level(logging.WARNING), pytest.raises((lt.InstanceError, lt.UsageError)) as info:
        call()
    assert message.lower() in str(info.value).lower()
    assert not caplog.records


def test_sequences_become_tuples() -> None:
    op = lt.Op(name="f", reads=[0], writes=iter([1]), inplace=[[0, 1]])  # type: ignore[arg-type]
    assert (op.reads, op.writes, op.inplace) == ((0,), (1,), ((0, 1),))
    assert replace(GRAPH, tensors=list(GRAPH.tensors)) == GRAPH  # type: ignore[arg-type]


class Mute:
    """Has no repr."""

    def __repr__(self) -> str:
        raise RuntimeError


def test_values_are_shown_short() -> None:
    assert shown(Mute()) == "a Mute"
    assert len(shown("x" * 1000)) == 60
    with pytest.raises(lt.InstanceError, match=r"found None, expected an integer >= 1$"):
        check_integer(None, 1, "x")
    check_integer(None, 1, "x", optional=True)
