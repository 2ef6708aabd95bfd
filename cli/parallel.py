"""What ``lowtide solve`` shows and writes for the problems of parallel memory."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .parser import whole_number

if TYPE_CHECKING:
    from ..models.result import Result


def has_edges(name: str) -> bool:
    """Return whether answers of a problem, or of the one that it becomes with a flag, are edges."""
    from ..models.problems import PROBLEMS

    meant = PROBLEMS.get(PROBLEMS[name].becomes[0], PROBLEMS[name])
    return "edges" in (PROBLEMS[name].answers, meant.answers)


def add_flags(parser: argparse._ActionsContainer) -> None:
    """Add the flags that say what is done with edges and schedules."""
    parser.add_argument("--apply", metavar="FILE", help="write the graph with its new edges, .json(.gz)")
    parser.add_argument(
        "--simulate",
        type=whole_number(1),
        metavar="RUNS",
        help="also run the graph as often with random durations, and show the memory",
    )


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

        rows = []
        for when, peaks in (("before", self.before), ("after", self.after)):
            if peaks is not None:
                above = "" if self.bound is None else f", {self._above(peaks)} above the bound"
                name = "simulated" if self.after is None else f"simulated {when}"
                rows.append((name, f"{len(peaks)} runs, at most {exact_bytes(max(peaks))}{above}"))
        return rows

    def _one(self, peaks: list[int]) -> dict[str, int]:
        most = {"most": max(peaks)}
        return most if self.bound is None else {**most, "above_bound": self._above(peaks)}

    def _above(self, peaks: list[int]) -> int:
        return sum(self.bound is not None and peak > self.bound for peak in peaks)


def simulated(
    result: Result, problem: Any, args: argparse.Namespace, progress: Callable[[str], None]
) -> Simulated:
    """Run the graph many times with random durations, without and with the edges that were found."""
    from ..solvers.parallel.runtime import simulate

    common: dict[str, Any] = {"runs": args.simulate, "seed": args.seed, "progress": progress}
    common["processors"] = problem.processors
    before = simulate(problem.graph, **common)
    after = None if result.edges is None else simulate(problem.graph, result.edges, **common)
    return Simulated(before=before, after=after, bound=getattr(problem, "bound", None))
