"""Durations of another device than that of the machine of a question: a warning, once per question."""

from __future__ import annotations

import warnings
from typing import Any

from .graph import Graph
from .machine import Machine
from .problems.problem import Problem
from .problems.recompute_machine import ONE_MEMORY


def foreign_durations(graph: Graph, machine: Machine) -> str:
    """Return in one line why durations are not those of a machine's device; empty if they are, or unknown.

    Of a machine without rates the device is the one that its name begins with; one memory alone is no device.
    """
    device = graph.device
    if device is None or device == machine.device or machine.name == ONE_MEMORY.name:
        return ""
    if machine.compute is None:
        if machine.name.startswith(device.partition(" ")[0]):
            return ""
        step = "add a [compute] table to its file, or durations=MACHINE to the instance"
    elif graph.states_work:
        step = f"durations={machine.name} takes those of its device"
    else:
        step = "ops state no work; load the network from ONNX, a generator or torch, or measure it"
    return f"durations are {graph.durations}, not of machine {machine.name!r}: {step}"


_WARNED: set[str] = set()
"""Hashes of the questions that were warned of in this process: a question is solved by several methods."""


class ForeignDurationsWarning(UserWarning):
    """The durations of a question are those of another device than its machine's."""


def warn_of_foreign_durations(problem: Problem) -> None:
    """Warn, once per question, that its durations are another device's than its machine's, if they are.

    The warning names the line that called the caller. Questions that take no machine are about no device.
    """
    if "machine" not in problem.parameters:
        return
    question: Any = problem
    text = foreign_durations(question.graph, question.machine)
    if text and problem.instance.sha256 not in _WARNED:
        _WARNED.add(problem.instance.sha256)
        warnings.warn(text, ForeignDurationsWarning, stacklevel=3)
