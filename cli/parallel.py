"""What ``lowtide solve`` shows and writes for the problems of parallel memory."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..models.result import Result

PARALLEL = ("parallel-memory", "memory-edges")
"""The problems."""

SHOWN = 8
"""How many ops, or edges, are named."""


def parallel_rows(result: Result) -> list[tuple[str, str]]:
    """Return the witness of the largest memory, or the edges that were added, for people."""
    from ..models.problems.parallel_memory import ParallelMemory

    assert result.graph is not None
    ops = result.graph.ops
    if result.edges is not None:
        return [("edges", _counted([f"{ops[i].name} -> {ops[j].name}" for i, j in result.edges]))]
    moment = ParallelMemory(result.graph).read(result.plan)
    return [
        ("finished", f"{len(moment.finished)} ops"),
        ("running", _counted([ops[i].name for i in moment.running])),
    ]


def write_with_edges(result: Result, path: str) -> None:
    """Write the graph with the edges that were added."""
    from ..instances import write_graph
    from ..models.problems.memory_edges import apply_edges

    assert result.graph is not None
    assert result.edges is not None
    write_graph(apply_edges(result.graph, result.edges), path)


def read_edges(path: str) -> object:
    """Return what a file says of edges: a plan, a graph, or the pairs of a certificate or run record.

    Raises
    ------
    InstanceError
        If it is something else, or not exactly of its format.
    """
    from ..instances import decode_certificate, load, read_plan
    from ..instances.formats.strict_json import is_pair_list, parse_json, read_bytes, show
    from ..models.errors import InstanceError
    from ..models.flow_proof import ParallelSetting

    content = read_bytes(path)
    data = parse_json(content, path)
    kind = data.get("format") if isinstance(data, dict) else None
    if kind == "lowtide/graph":
        return load(path)
    if kind == "lowtide/plan":
        return read_plan(path)
    if kind == "lowtide/certificate":
        setting = decode_certificate(content, path).setting
        if isinstance(setting, ParallelSetting):
            return setting.edges
    elif kind is None and isinstance(data, dict) and is_pair_list(data.get("edges")):
        return data["edges"]
    expected = "a plan, a graph, a certificate of parallel-memory or a run record with edges"
    raise InstanceError(f"{path}: found format {show(kind)}, expected {expected}")


@dataclass(frozen=True, kw_only=True)
class Simulated:
    """Peak memory of each simulated run in bytes, before and with the edges; None if there are none."""

    before: list[int]
    after: list[int] | None
    bound: int | None

    def record(self) -> dict[str, Any]:
        """Return JSON values."""
        found: dict[str, Any] = {"runs": len(self.before), "before": self._one(self.before)}
        return found if self.after is None else {**found, "after": self._one(self.after)}

    def rows(self) -> list[tuple[str, str]]:
        """Return names and values for people."""
        from ..models.units import exact_bytes

        found = []
        for when, peaks in (("before", self.before), ("after", self.after)):
            if peaks is not None:
                above = "" if self.bound is None else f", {self._above(peaks)} above the bound"
                name = "simulated" if self.after is None else f"simulated {when}"
                found.append((name, f"{len(peaks)} runs, at most {exact_bytes(max(peaks))}{above}"))
        return found

    def _one(self, peaks: list[int]) -> dict[str, int]:
        most = {"most": max(peaks)}
        return most if self.bound is None else {**most, "above_bound": self._above(peaks)}

    def _above(self, peaks: list[int]) -> int:
        return sum(self.bound is not None and peak > self.bound for peak in peaks)


def simulated(
    result: Result, problem: object, args: argparse.Namespace, progress: Callable[[str], None]
) -> Simulated:
    """Run the graph many times with random durations, without and with the edges that were found."""
    from ..models.problems.memory_edges import MemoryEdges
    from ..models.problems.parallel_memory import ParallelMemory
    from ..solvers.parallel.runtime import simulate

    assert isinstance(problem, MemoryEdges | ParallelMemory)
    common: dict[str, Any] = {"runs": args.simulate, "seed": args.seed, "progress": progress}
    common["processors"] = problem.processors
    before = simulate(problem.graph, **common)
    after = None if result.edges is None else simulate(problem.graph, result.edges, **common)
    return Simulated(before=before, after=after, bound=getattr(problem, "bound", None))


def _counted(names: list[str]) -> str:
    """Return how many names there are, and the first ones."""
    shown = ", ".join(names[:SHOWN]) + (", …" if len(names) > SHOWN else "")
    return f"{len(names)}{': ' if names else ''}{shown}"
