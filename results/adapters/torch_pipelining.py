"""Pipeline plans as schedules of ``torch.distributed.pipelining``, and its schedules as plans.

The files are the CSVs of torch's ``_load_csv`` and ``_dump_csv``: a row for each rank, a cell for each
action; ``2F0`` is the forward pass of micro-batch 0 on stage 2. The backward pass is ``B``, or ``I``
(gradient of the input) and ``W`` (gradients of the weights). Empty cells wait. Device k is rank k. Torch adds
the sends and receives itself (``format="compute_only"``). (Read: pytorch 2.13,
torch/distributed/pipelining/schedules.py; run: torch 2.13 on the CPU with gloo.)
"""

from __future__ import annotations

import contextlib
import csv
import io
import os
import re

from ...instances.formats.strict_json import read_bytes, show
from ...models.checks import check_type
from ...models.derived.stages import pipeline_of
from ...models.errors import BackendUnavailable, InstanceError, UsageError
from ...models.files import write_whole
from ...models.graph import Graph
from ...models.plan import Plan
from ...models.problems.pipeline import Pipeline
from ...models.verify import verify

_ACTION = re.compile(r"(\d{1,6})(F|B|I|W)(\d{1,6})", re.ASCII)
_OTHER = re.compile(r"\d{1,6}(SEND_F|RECV_F|SEND_B|RECV_B|UNSHARD|RESHARD|REDUCE_GRAD)(\d{1,6})?", re.ASCII)
"""Actions that are no computation; torch adds them itself."""
_OVERLAP = re.compile(r"\((.*)\)OVERLAP_F_B")
"""Actions of a cell that torch may run at the same time; here they run one after the other."""


def rows(graph: Graph, plan: Plan) -> list[list[str]]:
    """Return the actions of each rank, in the order in which the plan starts them.

    Parameters
    ----------
    graph
        Of a pipeline, as `lowtide.pipeline_graph` makes it.
    plan
        An answer to `pipeline`.

    Raises
    ------
    InstanceError
        If the graph is no pipeline's.
    VerificationError
        If the plan does not verify.

    Examples
    --------
    >>> import lowtide as lt
    >>> from lowtide.adapters import torch_pipelining
    >>> result = lt.solve(lt.Pipeline(lt.load("gen:stages?p=2&m=2&w=0")), "1f1b")
    >>> torch_pipelining.rows(result.graph, result.plan)
    [['0F0', '0F1', '0B0', '0B1'], ['1F0', '1B0', '1F1', '1B1']]
    """
    check_type(graph, Graph, "rows, graph")
    check_type(plan, Plan, "rows, plan", "a Plan; result.plan of a result with one")
    line = pipeline_of(graph)
    verify(graph, plan, rerun=False).raise_if_invalid()
    cells: list[list[str]] = [[] for _ in range(line.devices)]
    for run in sorted(plan.runs, key=lambda run: (run.start, run.end)):
        kind, stage, micro = line.keys[run.op]
        split = kind == "B" and line.stages[stage].weight
        cells[line.device[run.op]].append(f"{stage}{'I' if split else kind}{micro}")
    return cells


def write(graph: Graph, plan: Plan, path: str | os.PathLike[str]) -> None:
    """Write the schedule of a plan, for ``_load_csv(path, format="compute_only")``.

    Parameters
    ----------
    graph, plan
        As of `rows`.
    path
        The file; written whole or not at all.

    Raises
    ------
    InstanceError, VerificationError
        As `rows`.
    UsageError
        If the path cannot be written.
    """
    text = io.StringIO(newline="")
    csv.writer(text).writerows(rows(graph, plan))
    write_whole(path, text.getvalue().encode())


def check(graph: Graph, plan: Plan) -> int:
    """Return in how many steps torch's own simulator runs the schedule, sends and receives included.

    Parameters
    ----------
    graph, plan
        As of `rows`.

    Raises
    ------
    InstanceError, VerificationError
        As `rows`.
    UsageError
        If torch refuses the schedule; the message has torch's words.
    BackendUnavailable
        If torch is not installed.
    """
    try:
        from torch.distributed.pipelining import schedules
    except ImportError:
        raise BackendUnavailable(
            "pipelining: the package torch is not installed; pip install 'lowtide[torch]'"
        ) from None
    cells, line = rows(graph, plan), pipeline_of(graph)
    count = len(line.stages)
    try:
        actions = {rank: [schedules._Action.from_str(cell) for cell in row] for rank, row in enumerate(cells)}
        ranks = schedules._validate_schedule(actions, len(cells), count, line.micro)
        with contextlib.redirect_stdout(io.StringIO()):  # torch prints what it could not place
            sent = schedules._add_send_recv(actions, lambda stage: ranks[stage], count)
            steps = schedules._simulate_comms_compute(sent, lambda stage: ranks[stage], count)
    except (AssertionError, KeyError, RuntimeError, ValueError) as error:
        words = f"{type(error).__name__} {error}".strip().partition("\n")[0]
        raise UsageError(
            f"plan of {graph.name!r}: found a schedule that torch refuses ({words}), expected one it can run"
        ) from None
    return max(len(row) for row in steps.values())


def read(path: str | os.PathLike[str], problem: Pipeline) -> Plan:
    r"""Return the plan of a schedule: its order on each rank, every action as early as the objective lets it.

    Sends, receives and other actions that torch adds do not count, nor do empty cells. ``B`` on a stage whose
    backward pass the graph splits is both parts, one after the other.

    Parameters
    ----------
    path
        As torch dumps it, or any other in that format.
    problem
        Stages, their devices and times, and how many micro-batches.

    Raises
    ------
    InstanceError
        If the file is missing, a cell is no action, one is missing, repeated or on another rank, or the
        actions wait for each other.

    Examples
    --------
    >>> import os, tempfile
    >>> import lowtide as lt
    >>> from lowtide.adapters import torch_pipelining
    >>> problem = lt.Pipeline(lt.load("gen:stages?p=2&m=1&w=0"))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "schedule.csv")
    ...     _ = open(path, "w").write("0F0,,,0B0\n,1F0,1B0,\n")
    ...     plan = torch_pipelining.read(path, problem)
    >>> lt.verify(problem.graph, plan).makespan
    4
    """
    where = os.fspath(path)
    line = problem.line
    try:
        table = list(csv.reader(io.StringIO(read_bytes(path).decode(), newline=""), strict=True))
    except (UnicodeDecodeError, csv.Error) as error:
        raise InstanceError(f"{where}: found {error}, expected a CSV file of actions") from None
    if len(table) != line.devices:
        raise InstanceError(
            f"{where}: found {len(table)} rows, expected {line.devices}, one for each device of the graph"
        )
    orders: list[list[int]] = []
    for rank, row in enumerate(table):
        order: list[int] = []
        for k, cell in enumerate(row):
            at = f"{where}:{rank + 1}, action {k + 1}"
            overlap = _OVERLAP.fullmatch(cell.strip())
            for part in overlap[1].split(";") if overlap else (cell.strip(),):
                if part and not _OTHER.fullmatch(part):
                    order += _ops(part, problem, rank, at)
        if len(set(order)) < len(order) or len(order) != line.device.count(rank):
            raise InstanceError(
                f"{where}:{rank + 1}: found {len(order)} actions, {len(set(order))} of them different, "
                f"expected the {line.device.count(rank)} of the graph's device {rank}, each once"
            )
        orders.append(order)
    try:
        return problem.lower(problem.timed(orders))
    except InstanceError as error:
        raise InstanceError(f"{where}: {error}") from None


def _ops(text: str, problem: Pipeline, rank: int, at: str) -> list[int]:
    """Return the ops of an action that computes."""
    line = problem.line
    match = _ACTION.fullmatch(text)
    if match is None:
        raise InstanceError(
            f"{at}: found {show(text)}, expected STAGE, F, B, I or W, MICROBATCH, such as 2F0"
        )
    kind, stage, micro = match[2], int(match[1]), int(match[3])
    if stage >= len(line.stages) or micro >= line.micro or line.stages[stage].device != rank:
        chunk = ", ".join(map(str, line.chunks[rank]))
        raise InstanceError(
            f"{at}: found {show(text)}, expected one of the stages {chunk} and a micro-batch below "
            f"{line.micro}"
        )
    splits = line.stages[stage].weight > 0
    if kind in "IW" and not splits:
        raise InstanceError(
            f"{at}: found {show(text)}, expected B for a stage whose backward pass is one op; a graph with W "
            "(gen:stages?w=1) has both parts"
        )
    kinds = ("B", "W") if kind == "B" and splits else ("B",) if kind == "I" else (kind,)
    return [line.op[each, stage, micro] for each in kinds]
