"""Run a plan of a recorded step, and compare what was predicted with what was measured."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from ....models.errors import InstanceError
from ....models.graph import Graph
from ....models.plan import Plan
from ....models.verifier.verify import verify
from ..recording import Step
from .carry_out import carry_out
from .eager import eager_step
from .tensors import Tensors, draws

WARM_UP = 3
"""Iterations on a GPU before those that count: what is loaded, chosen and allocated once is there then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What was predicted of a plan, and what was measured when it was carried out.

    Attributes
    ----------
    graph, device
        What was run, and where.
    predicted_peaks, measured_peaks
        Bytes by tier: the verifier's, and those of the storages that torch held, which have no workspaces.
    same_profile
        Whether storages and predicted tensors agree at every instant of the plan, not only at the peak.
    allocated_peak, reserved_peak
        Bytes that torch's allocator gave out on a GPU, workspaces among them, beyond what it had given out
        before; and all that it took from the device. None on the CPU.
    predicted_ns
        The verifier's makespan, or the period.
    predicted_busy_ns, operators_ns
        What the ops of one iteration take: the sum over its runs, and the same of what was measured, of each
        op the median over the iterations.
    measured_ns
        What an iteration took with everything around the operators: the median over the iterations.
    compared
        How many tensors (loss, gradients, parameters, buffers, states) were compared with torch's own step.
    differing
        Those of them that are not bit by bit what it computes, by name; None: of inference, which has no
        such step.
    """

    graph: str
    device: str
    predicted_peaks: dict[str, int]
    measured_peaks: dict[str, int]
    same_profile: bool
    allocated_peak: int | None
    reserved_peak: int | None
    predicted_ns: int
    predicted_busy_ns: int
    operators_ns: int
    measured_ns: int
    compared: int
    differing: tuple[str, ...] | None


def run_plan(
    step: Step,
    plan: Plan,
    graph: Graph | None = None,
    *,
    iterations: int = 1,
    seed: int = 0,
    cap: int | None = None,
) -> Comparison:
    """Carry out a plan, and return what was predicted and measured.

    The times are those of runs that nobody looks at: on a GPU after `WARM_UP` iterations that do not count,
    and with nothing that waits in between. What they end with is compared with torch's own step. The plan is
    carried out once more to look at its memory at every instant, and to compare gradients too. Torch's step
    needs as much memory as it does without a plan.

    Parameters
    ----------
    step
        What is computed.
    plan
        A plan of the step's graph, with one or more tiers; if it has a period, the state goes round.
    graph
        The graph of the plan, if it is not the step's own: it may differ in durations and workspaces.
    iterations
        How often. Each begins with the same inputs and the same seed. A plan without a period begins anew
        each time, so that its results are those of one step.
    seed
        Of the random numbers that ops draw.
    cap
        Bytes that torch's allocator may take of a GPU while times are measured; None: all.

    Raises
    ------
    torch.OutOfMemoryError
        If a GPU, or the cap, is too small.
    InstanceError
        If there are no iterations, the graphs differ, the plan moves parts of tensors, or the module has none
        that could be computed with.
    VerificationError
        If the plan breaks a rule.
    """
    if iterations < 1:
        raise InstanceError(f"iterations: found {iterations}, expected at least 1")
    graph = step.graph if graph is None else graph
    check_same(step.graph, graph)
    _check_content(step)
    verdict = verify(graph, plan)
    verdict.raise_if_invalid()
    gradients = {f"{name}.grad" for name in step.trace.gradients}
    keep = [t for t, tensor in enumerate(graph.tensors) if tensor.name in gradients]
    first = WARM_UP if step.device == "cuda" else 0
    at_once = iterations if plan.period is not None else 1  # else each begins with nothing done
    walls: list[int] = []
    durations: dict[int, list[int]] = defaultdict(list)
    with deterministic(step.device), torch.random.fork_rng():
        drawn = drawn_in_order(step, seed)
        frugal = _frugal(step, graph, plan, drawn)
        with _Allocator(step.device, cap) as allocator:
            turns = 1 if plan.period is not None else first + iterations
            for k in range(turns):
                kept = () if k == turns - 1 else None
                backend = backend_of(step, plan, keep=kept, drawn=drawn, frugal=frugal)
                carry_out(graph, plan, backend, at_once + (first if turns == 1 else 0), watch=False)
                backend.finish()
                walls += backend.iterations_ns or [0]
                for op, some in backend.durations.items() if turns == 1 or k >= first else ():
                    durations[op] += some
        results = backend.results
        backend = backend_of(step, plan, keep=keep, drawn=drawn, frugal=frugal)
        seen = carry_out(graph, plan, backend, at_once)
        compared = backend.results
        del backend  # nothing of it stays beside torch's own step
        found = [
            (results, at_once + (first if plan.period is not None else 0)),
            (compared, at_once),
        ]
        return Comparison(
            graph=graph.name,
            device=step.device,
            predicted_peaks=dict(verdict.peaks),
            measured_peaks=seen.peaks,
            same_profile=dict(seen.profiles) == _profiles_of_tensors(graph, plan),
            allocated_peak=allocator.allocated,
            reserved_peak=allocator.reserved,
            predicted_ns=verdict.makespan,
            predicted_busy_ns=sum(run.end - run.start for run in plan.runs),
            operators_ns=sum(int(median(durations[run.op])) for run in plan.runs),
            measured_ns=int(median(walls[first:])),
            compared=len(compared),
            differing=_differing(step, found, seed),
        )


def _profiles_of_tensors(graph: Graph, plan: Plan) -> dict[str, Any]:
    """Return the profiles that the verifier computes where no op has a workspace."""
    ops = (
        replace(op, workspace=0, modes=tuple(replace(mode, workspace=0) for mode in op.modes))
        for op in graph.ops
    )
    return dict(verify(replace(graph, ops=tuple(ops)), replace(plan, graph_sha256=None)).profiles)


def backend_of(
    step: Step,
    plan: Plan,
    *,
    keep: Collection[int] | None = None,
    drawn: Mapping[int, Any] | None = None,
    alone: bool = False,
    frugal: Collection[int] = (),
) -> Tensors:
    """Return what carries out a plan where the step is computed; arguments as the backends have."""
    if step.device == "cpu":
        return Tensors(step, keep=keep, drawn=drawn)
    from .streams import Streams

    return Streams(step, plan.machine, keep=keep, drawn=drawn, alone=alone, frugal=frugal)


def _frugal(step: Step, graph: Graph, plan: Plan, drawn: Mapping[int, Any]) -> Collection[int]:
    """Return the ops that a GPU gives no workspace, as seen when the plan is carried out."""
    if step.device == "cpu":
        return ()
    from .streams import Streams

    backend = Streams(step, plan.machine, drawn=drawn, alone=True)
    carry_out(graph, plan, backend, watch=False)
    backend.finish()
    return backend.frugal


class _Allocator:
    """What torch's allocator gives out on a GPU meanwhile, within a cap; nothing is known of the CPU's."""

    def __init__(self, device: str, cap: int | None) -> None:
        self.device, self.cap = device, cap
        self.allocated: int | None = None
        self.reserved: int | None = None

    def __enter__(self) -> _Allocator:
        limit_device(self.device, self.cap)
        if self.device == "cuda":
            torch.cuda.reset_peak_memory_stats()
            self.before = int(torch.cuda.memory_allocated())
        return self

    def __exit__(self, *error: object) -> None:
        if self.device == "cuda":
            self.allocated = int(torch.cuda.max_memory_allocated()) - self.before
            self.reserved = int(torch.cuda.max_memory_reserved())
        if self.cap is not None:
            limit_device(self.device, None)


def limit_device(device: str, cap: int | None) -> None:
    """Let torch's allocator take so many bytes of a GPU at most, None: all; it gives back what it can."""
    if device == "cuda":
        torch.cuda.empty_cache()
        total = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction(1.0 if cap is None else min(1.0, cap / total))


def drawn_in_order(step: Step, seed: int) -> dict[int, Any]:
    """Return the states of the generator before each op that draws random numbers, in the reference order."""
    if not any(map(draws, step.lowered.sources)):
        return {}
    plan = Plan.from_order(step.graph, range(len(step.graph.ops)))
    backend = backend_of(step, plan)
    torch.manual_seed(seed)
    carry_out(step.graph, plan, backend)
    return backend.noted


def prepare(device: str) -> None:
    """Say how cuBLAS is to work; it asks once, at the first product on a GPU, so this comes before."""
    if device == "cuda":
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")


@contextmanager
def deterministic(device: str) -> Iterator[None]:
    """Let a GPU use algorithms that give the same bits each time, where it has some; those of the CPU do."""
    prepare(device)
    before = (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
    )
    filled = torch.utils.deterministic.fill_uninitialized_memory
    if device == "cuda":
        torch.utils.deterministic.fill_uninitialized_memory = False
        torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before[0], warn_only=before[1])
        torch.utils.deterministic.fill_uninitialized_memory = filled


def _differing(step: Step, found: list[tuple[dict[int, Any], int]], seed: int) -> tuple[str, ...] | None:
    """Return the names of the tensors that torch's own step computes otherwise, after so many iterations."""
    if step.optimizer is None:
        return None
    wanted = {n: eager_step(step, seed=seed, iterations=n) for n in {n for _, n in found}}
    names = [tensor.name for tensor in step.graph.tensors]
    return tuple(
        names[t]
        for t in range(len(names))
        if any(t in some and not _same_bits(some[t], wanted[n][names[t]]) for some, n in found)
    )


def _same_bits(one: Any, other: Any) -> bool:
    """Return whether two tensors have the same type, shape and bits; zeros have signs, and NaN is NaN."""
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    return bool(torch.equal(*(x.cpu().contiguous().flatten().view(torch.uint8) for x in (one, other))))


def _check_content(step: Step) -> None:
    """Raise unless what exists before the first op has bytes."""
    for node, value in step.trace.content.items():
        if value.device.type == "meta" or isinstance(value, FakeTensor):
            raise InstanceError(
                f"step {step.graph.name!r}: found tensor {step.trace.initial[node][0]!r} without content, "
                "expected one on the CPU or a GPU (module.to_empty(device='cpu') gives memory to a module)"
            )


def check_same(step: Graph, graph: Graph) -> None:
    """Raise unless two graphs have the same tensors, and ops that read and write the same of them."""
    if step.tensors != graph.tensors:
        raise InstanceError(
            f"graph {graph.name!r}: found other tensors than the recorded step {step.name!r} has, expected "
            "the same (weights=1 keeps the bytes of weights and states)"
        )
    if len(step.ops) != len(graph.ops):
        raise InstanceError(
            f"graph {graph.name!r}: found {len(graph.ops)} ops, expected the {len(step.ops)} of the recorded "
            f"step {step.name!r}"
        )
    for i, (one, other) in enumerate(zip(step.ops, graph.ops, strict=True)):
        if (one.kind, one.reads, one.writes) != (other.kind, other.reads, other.writes):
            raise InstanceError(
                f"graph {graph.name!r}, op {i}: found {other.kind!r} {other.reads} {other.writes}, expected "
                f"that of the recorded step, {one.kind!r} {one.reads} {one.writes}"
            )
