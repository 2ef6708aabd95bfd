"""Run a plan of a recorded step, and compare what was predicted with what was measured."""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from typing import Any

import torch

from ....models.errors import InstanceError
from ....models.graph import Graph
from ....models.plan import Plan
from ....models.verifier.verify import verify
from ..recording import Step
from .carry_out import carry_out
from .eager import eager_step
from .tensors import Tensors, draws


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What was predicted of a plan, and what was measured when it was carried out.

    Attributes
    ----------
    graph, device
        What was run, and where.
    predicted_peaks, measured_peaks
        Bytes by tier: the verifier's, and those of the storages that torch held.
    same_profile
        Whether they agree at every instant of the plan, not only in the largest value.
    predicted_ns
        The verifier's makespan, or the period.
    operators_ns
        What the operators of one iteration took: of each op the median over the iterations, once for each
        of its runs.
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
    predicted_ns: int
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
) -> Comparison:
    """Carry out a plan, and return what was predicted and measured.

    It is carried out once more than is asked for, to keep what is compared with torch's own step, which
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

    Raises
    ------
    InstanceError
        If there are no iterations, the graphs differ, or the plan moves parts of tensors.
    VerificationError
        If the plan breaks a rule.
    """
    if iterations < 1:
        raise InstanceError(f"iterations: found {iterations}, expected at least 1")
    graph = step.graph if graph is None else graph
    check_same(step.graph, graph)
    verdict = verify(graph, plan)
    verdict.raise_if_invalid()
    gradients = {f"{name}.grad" for name in step.trace.gradients}
    keep = [t for t, tensor in enumerate(graph.tensors) if tensor.name in gradients]
    at_once = iterations if plan.period is not None else 1  # else each begins with nothing done
    walls: list[int] = []
    durations: dict[int, list[int]] = defaultdict(list)
    with deterministic(step.device), torch.random.fork_rng():
        drawn = drawn_in_order(step, seed)
        for _ in range(iterations // at_once):
            backend = backend_of(step, plan, drawn=drawn)
            seen = carry_out(graph, plan, backend, at_once)
            backend.finish()
            begun = backend.begun_ns
            walls.append(0 if begun is None else (time.perf_counter_ns() - begun) // at_once)
            for op, some in backend.durations.items():
                durations[op] += some
        backend = backend_of(step, plan, keep=keep, drawn=drawn)
        carry_out(graph, plan, backend, at_once)
        return Comparison(
            graph=graph.name,
            device=step.device,
            predicted_peaks=dict(verdict.peaks),
            measured_peaks=seen.peaks,
            same_profile=dict(seen.profiles) == dict(verdict.profiles),
            predicted_ns=verdict.makespan,
            operators_ns=sum(int(median(durations[run.op])) for run in plan.runs),
            measured_ns=int(median(walls)),
            compared=len(backend.results),
            differing=_differing(step, backend.results, seed, at_once),
        )


def backend_of(
    step: Step, plan: Plan, *, keep: Collection[int] | None = None, drawn: Mapping[int, Any] | None = None
) -> Tensors:
    """Return what carries out a plan where the step was recorded; arguments as `Tensors` has them."""
    if step.device == "cpu":
        return Tensors(step, keep=keep, drawn=drawn)
    from .streams import Streams

    return Streams(step, plan.machine, keep=keep, drawn=drawn)


def drawn_in_order(step: Step, seed: int) -> dict[int, Any]:
    """Return the states of the generator before each op that draws random numbers, in the reference order."""
    if not any(map(draws, step.lowered.sources)):
        return {}
    plan = Plan.from_order(step.graph, range(len(step.graph.ops)))
    backend = backend_of(step, plan)
    torch.manual_seed(seed)
    carry_out(step.graph, plan, backend)
    return backend.noted


@contextmanager
def deterministic(device: str) -> Iterator[None]:
    """Let a GPU use algorithms that give the same bits each time; those of the CPU do."""
    before = torch.are_deterministic_algorithms_enabled()
    if device == "cuda":
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.utils.deterministic.fill_uninitialized_memory = False
        torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before)


def _differing(step: Step, results: dict[int, Any], seed: int, iterations: int) -> tuple[str, ...] | None:
    """Return the names of the tensors that torch's own step computes otherwise."""
    if step.optimizer is None:
        return None
    wanted = eager_step(step, seed=seed, iterations=iterations)
    names = {t: step.graph.tensors[t].name for t in results}
    return tuple(names[t] for t in sorted(results) if not _same_bits(results[t], wanted[names[t]]))


def _same_bits(one: Any, other: Any) -> bool:
    """Return whether two tensors have the same type, shape and bits; zeros have signs, and NaN is NaN."""
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    return bool(torch.equal(*(x.cpu().contiguous().flatten().view(torch.uint8) for x in (one, other))))


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
