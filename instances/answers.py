"""What results are kept as: a plan, an allocation, buffers with their offsets as CSV, or strategies."""

from __future__ import annotations

import gzip
import os
import re
import zlib
from dataclasses import replace

from ..models.cost_network import Strategies
from ..models.errors import InstanceError, UsageError
from ..models.plan import Plan, PlanClaim
from ..models.problems import PROBLEMS
from ..models.problems.problem import Problem
from ..models.result import Result
from .formats import format_of
from .formats.ios_schedule import is_schedule, stages_of
from .formats.minimalloc_csv import read_csv, write_csv
from .formats.native_allocation import Allocation, allocation_from_dict, write_allocation
from .formats.native_plan import plan_from_dict, write_plan
from .formats.native_strategies import strategies_from_dict, write_strategies
from .formats.strict_json import parse_json, read_bytes, show


def is_csv(path: str | os.PathLike[str]) -> bool:
    """Return whether a file name is that of a CSV."""
    row = format_of(os.fspath(path), buffers=True)
    return row is not None and bool(row.write)


def is_answer(spec: str) -> bool:
    """Return whether a specification is the path of an answer of ours, by its first bytes."""
    if not spec.endswith((".json", ".json.gz")):
        return False
    try:
        with (gzip.open if spec.endswith(".gz") else open)(spec, "rb") as file:
            head = file.read(1024)
    except (OSError, EOFError, ValueError, zlib.error):
        return False  # whoever reads it says what is wrong
    return re.search(rb'"format"\s*:\s*"lowtide/(plan|allocation|strategies)"', head) is not None


def read_answer(path: str | os.PathLike[str]) -> Plan | Allocation | Strategies:
    """Return the plan, the allocation or the strategies of a file; of a CSV, its offset column.

    Raises
    ------
    InstanceError
        If the file is none of them, or not exactly of its format; if the CSV lacks an offset.
    """
    where = os.fspath(path)
    if is_csv(path):
        buffers = read_csv(path)
        offsets = {b.id: b.offset for b in buffers.buffers if b.offset is not None}
        lacking = next((b.id for b in buffers.buffers if b.id not in offsets), None)
        if lacking is not None:
            raise InstanceError(
                f"{where}: found no offset of buffer {lacking!r}, expected one of each buffer"
            )
        return Allocation(offsets=offsets)
    return answer_from_dict(parse_json(read_bytes(path), where), where)


def read_hint(path: str | os.PathLike[str], problem: Problem) -> object:
    """Return what a file has to say as a hint: a plan, offsets, strategies, or stages of a schedule of IOS.

    Raises
    ------
    InstanceError
        As `read_answer`; if a schedule is of another network.
    """
    where = os.fspath(path)
    data = None if is_csv(path) else parse_json(read_bytes(path), where)
    if is_schedule(data) and problem.plan_graph is not None:
        return stages_of(data, problem.plan_graph, where)
    known = read_answer(path) if data is None else answer_from_dict(data, where)
    return known.offsets if isinstance(known, Allocation) else known


def answer_from_dict(data: object, where: str) -> Plan | Allocation | Strategies:
    """Return the plan, the allocation or the strategies of a native JSON object that was read `where`."""
    folder = os.path.dirname(where)
    kind = data.get("format") if isinstance(data, dict) else None
    if kind == "lowtide/allocation":
        return allocation_from_dict(data, where, folder=folder)
    if kind == "lowtide/strategies":
        return strategies_from_dict(data, where, folder=folder)
    if isinstance(kind, str) and kind not in ("lowtide/plan",):
        raise InstanceError(
            f'{where}: format: found {show(kind)}, expected "lowtide/plan", "lowtide/allocation" or '
            '"lowtide/strategies"'
        )
    return plan_from_dict(data, where, folder=folder)


def check_ending(problem: str, path: str | os.PathLike[str]) -> None:
    """Raise `UsageError` unless an answer to the problem can be written to a file of that name."""
    takes_csv = PROBLEMS[problem].answers == "allocation"
    if not os.fspath(path).endswith((".json", ".json.gz")) and not (takes_csv and is_csv(path)):
        expected = ".json, .json.gz or .csv" if takes_csv else ".json or .json.gz"
        ending = f"ending {os.path.splitext(os.fspath(path))[1] or 'none'}"
        raise UsageError(f"{path}: found {ending}, expected {expected} for problem {problem}")


def write_answer(result: Result, path: str | os.PathLike[str], *, source: str | None = None) -> None:
    """Write the plan of a result, the allocation in it; without a plan, the allocation or the strategies.

    Parameters
    ----------
    result
        One with a plan, an allocation or strategies.
    path
        Of a CSV for buffers with their offsets, else ``.json`` or ``.json.gz``.
    source
        What the file names as the source of the instance, and then an allocation stands for itself
        even if there is a plan; default: what it was loaded from.

    Raises
    ------
    UsageError
        If the path cannot be written.
    """
    check_ending(result.problem, path)
    if result.strategies is not None:
        kept = result.strategies
        write_strategies(kept if source is None else replace(kept, network_source=source), path)
        return
    if result.allocation is None:
        plan = _claimed(result)
        write_plan(plan if source is None else replace(plan, graph_source=source), path)
        return
    assert result.buffers is not None
    if is_csv(path):
        write_csv(result.buffers, path, result.allocation)
    elif result.plan is not None and source is None:
        write_plan(_claimed(result), path)
    else:
        placed = Allocation.of(result.buffers, result.allocation)
        write_allocation(placed if source is None else replace(placed, buffers_source=source), path)


def _claimed(result: Result) -> Plan:
    """Return the plan of a result with what the result says of it; nothing if it speaks of added rows."""
    assert result.plan is not None
    if result.constrained:
        return result.plan
    claim = PlanClaim(
        problem=result.problem,
        method=result.method,
        status=str(result.status),
        objective=result.objective,
        bound=result.bound,
    )
    return replace(result.plan, claim=claim)
