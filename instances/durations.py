"""Durations of a device: those of its roofline, for every op that states its work."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace
from typing import Any

from ..models.errors import InstanceError
from ..models.graph import Graph, Mode, Op
from ..models.machine import Machine
from ..models.work import Rates
from .machines import load_machine, rated_machines
from .transforms.roofline import PEAK

GIVEN = "given"
"""The option's value that keeps durations as they are, also where the machine states rates."""


def with_durations(graph: Graph, machine: Machine) -> Graph:
    """Return the graph with the durations that its work takes on a machine's device.

    Ops that do not state their work, such as measured ones, keep their durations.

    Raises
    ------
    InstanceError
        If the machine states no rates, or none of the data type of some work, or no op states its work.

    Examples
    --------
    >>> import lowtide as lt
    >>> graph = with_durations(lt.load("gen:unet"), lt.load_machine("h100-80g"))
    >>> graph.durations
    'roofline of h100-80g, fp32'
    """
    where = f"durations, machine {machine.name!r}"
    if machine.compute is None:
        raise InstanceError(
            f"{where}: found no rates of computation, expected a [compute] table in its file, or one of "
            f"{', '.join(rated_machines())}"
        )
    if not graph.states_work:
        raise InstanceError(
            f"{where}: graph {graph.name!r}: found no op that states its work ({graph.durations}), expected "
            "some: load the network from ONNX, a generator or torch; durations=given keeps what is there"
        )
    try:
        ops = tuple(_timed(op, machine.compute) for op in graph.ops)
    except InstanceError as error:
        raise InstanceError(
            f"{where}, {error}; dtype= of the instance changes it, durations=given keeps what is there"
        ) from None
    kernels = [part for op in graph.ops for part in op.all_work]
    kinds = Counter(part.dtype for part in kernels if part.multiply_adds) or Counter(x.dtype for x in kernels)
    stated = {
        "device": machine.device,
        "dtypes": [dtype for dtype, _ in kinds.most_common()],
        "given": sum(not op.all_work for op in graph.ops),
    }
    return replace(graph, ops=ops, provenance={**graph.provenance, "durations": stated}, source=None)


class OfQuestion(str):
    """Name of a question's machine, as option ``durations``: graphs that state no work stay as they are."""


def device_of(asked: Any, graph: Graph, node: object, where: str) -> tuple[Machine | None, dict[str, str]]:
    """Return the machine that option ``durations`` names, None if durations stay, and the option as text.

    Parameters
    ----------
    asked
        Name or file of a machine, `OfQuestion` or `GIVEN`; None: nothing is asked.
    node
        Option ``node``: durations of sockets stay.
    """
    if asked is None or asked == GIVEN:
        return None, {} if asked is None else {"durations": GIVEN}
    socket = str(node).partition("-")[0] in ("optane", "cxl")
    if isinstance(asked, OfQuestion) and (socket or not graph.states_work):
        return None, {}
    if socket:
        raise InstanceError(
            f"instance {where!r}: found durations={asked} and node={node}, whose durations are the socket's; "
            "expected one of the two"
        )
    return load_machine(asked), {"durations": os.fsdecode(asked)}


def on_device(graph: Graph, machine: Machine | None, before: Graph | None = None) -> Graph:
    """Return the graph with durations of a machine; without a machine as it is.

    Parameters
    ----------
    before
        The graph before transformations, with such durations already: ops that these added get theirs, too.
    """
    if machine is None or graph is before or (before is not None and not graph.states_work):
        return graph
    return with_durations(graph, machine)


def at_peak_rates(graph: Graph) -> Graph:
    """Return the graph with durations of the reference machine at the rates of its data types."""
    return with_durations(graph, PEAK) if graph.states_work else graph


def _timed(op: Op, rates: Rates) -> Op:
    """Return the op with the durations of its work."""

    def timed(mode: Mode) -> Mode:
        work = mode.work or op.work
        return replace(mode, duration_ns=rates.duration_ns(work)) if work else mode

    modes = tuple(timed(mode) for mode in op.modes)
    duration = rates.duration_ns(op.work) if op.work else op.duration_ns
    return replace(op, duration_ns=duration, modes=modes)
