"""Traces of scientific workflows in the JSON format of WfCommons (WfFormat).

Read as its public schema (wfcommons/WfFormat, wfcommons-schema.json) has it in versions 1.0 to 1.5:

* 1.5: ``workflow.specification`` with ``tasks`` (``id``, ``parents``, ``children``, ``inputFiles``,
  ``outputFiles``) and ``files`` (``id``, ``sizeInBytes``); ``workflow.execution.tasks`` with
  ``runtimeInSeconds``, ``memoryInBytes`` and ``command.program``.
* to 1.4: ``workflow.tasks`` (to 1.2 ``workflow.jobs``) with ``name``, ``id``, ``category``,
  ``parents``, ``children``, and ``files`` (``name``, ``link``, size). The names of units came with 1.4:
  before, ``runtime`` is in seconds, ``memory`` in kB, and ``size``, against the letter of the schema,
  in bytes, as the project's own migration to 1.4 takes them (tools/wfcommons-migrate-instance.py).

What becomes of it:

1. A task is an op; its runtime, rounded to ns and at least 1, is the duration, its memory the
   workspace (leave it out with ``memory=0``: traces know the resident set, which may count pages of
   files too, and some give kB under the name of bytes).
2. A file is a tensor, shared by all tasks that read it. What no task writes is an initial input, what
   no task reads a final output; files that no task names are left out.
3. A parent, or child, without a file in between is control (``after``).
4. The reference order is the topological order that takes, of the ready tasks, always the first listed.

Abstracted from: cores of a task (each is one op on one processor), machines and their speeds,
utilization, bytes read and written (only sizes of files count), energy, priorities, and all time between
tasks.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil
from pathlib import Path
from typing import Any

from ...models.errors import InstanceError
from ...models.graph import Graph, Op, Tensor
from ..options import Parameter
from .strict_json import (
    is_list,
    is_object,
    is_size,
    is_text,
    is_text_list,
    located,
    parse_json,
    read_bytes,
    show,
)
from .task_order import topological_order

PARAMETERS = {"memory": Parameter(True, "the memory of a task is its workspace")}


@dataclass
class _Task:
    """What the file says about a task."""

    name: str
    kind: str
    seconds: Fraction
    memory: int
    parents: list[str]
    children: list[str]
    reads: list[str] = field(default_factory=list)
    writes: list[str] = field(default_factory=list)


def read_wfcommons(path: str | os.PathLike[str], *, memory: bool = True) -> Graph:
    """Return the graph of a workflow trace.

    Parameters
    ----------
    path
        A JSON file, also gzipped.
    memory
        Whether the memory of a task is its workspace; otherwise workspaces are 0.

    Raises
    ------
    InstanceError
        If the file is missing or no such trace, a size or runtime is missing, a name dangles, a file
        has two writers, or the tasks form a cycle; the message has file and element.
    """
    where = str(path)
    data = parse_json(read_bytes(path), where)
    if not is_object(data):
        raise InstanceError(f"{where}: found {show(data)}, expected an object")
    version = _get(data, "schemaVersion", is_text, "a string, as in traces of WfCommons", where)
    workflow = _get(data, "workflow", is_object, "an object", where)
    sizes: dict[str, int] = {}
    if "specification" in workflow:
        tasks = list(_tasks_of_specification(workflow, sizes, f"{where}, workflow"))
        alias: dict[str, int] = {}
    else:
        tasks, alias = _tasks_with_files(workflow, sizes, f"{where}, workflow")
    if not tasks:
        raise InstanceError(f"{where}: found no task, expected some")
    graph, name = _graph(tasks, alias, sizes, where, memory), data.get("name")
    return Graph(
        name=name if isinstance(name, str) and name else Path(path).name,
        tensors=graph.tensors,
        ops=graph.ops,
        provenance={"source": "workflow trace of WfCommons", "schema_version": version},
    )


def _tasks_of_specification(
    workflow: Mapping[str, Any], sizes: dict[str, int], where: str
) -> Iterator[_Task]:
    """Yield the tasks of version 1.5, and note the sizes of files."""
    specification = _get(workflow, "specification", is_object, "an object", where)
    files = specification.get("files", [])
    for file, place in _rows(files, f"{where}.specification, file", "id"):
        name = _get(file, "id", is_text, "a string", place)
        _note_size(sizes, name, _get(file, "sizeInBytes", is_size, "an integer >= 0", place), place)
    execution = workflow.get("execution")
    runs: dict[str, Mapping[str, Any]] = {}
    if execution is not None:
        listed = _get(execution, "tasks", is_list, "a list", f"{where}.execution")
        for run, place in _rows(listed, f"{where}.execution, task", "id"):
            name = _get(run, "id", is_text, "a string", place)
            if name in runs:
                raise InstanceError(f"{place}: found a second run, expected one")
            runs[name] = run
    listed = _get(specification, "tasks", is_list, "a list", f"{where}.specification")
    for task, place in _rows(listed, f"{where}.specification, task", "id"):
        name = _get(task, "id", is_text, "a string", place)
        if name not in runs:
            raise InstanceError(f"{place}: found no run in workflow.execution.tasks, expected one")
        command = runs[name].get("command")
        program = command.get("program") if isinstance(command, dict) else None
        yield _Task(
            name=name,
            kind=program if isinstance(program, str) else "",
            seconds=_number(runs[name], ("runtimeInSeconds",), place),
            memory=ceil(_number(runs[name], ("memoryInBytes",), place, Fraction(0))),
            parents=_texts(task, "parents", place),
            children=_texts(task, "children", place),
            reads=_texts(task, "inputFiles", place),
            writes=_texts(task, "outputFiles", place),
        )


def _tasks_with_files(
    workflow: Mapping[str, Any], sizes: dict[str, int], where: str
) -> tuple[list[_Task], dict[str, int]]:
    """Return the tasks of versions 1.0 to 1.4, and their numbers by id; note the sizes of files."""
    key = "jobs" if "jobs" in workflow else "tasks"
    listed = _get(workflow, key, is_list, "a list", where)
    tasks: list[_Task] = []
    numbers: dict[str, int] = {}
    for row, place in _rows(listed, f"{where}, task", "name"):
        kilobytes = _number(row, ("memory",), place, Fraction(0))
        category = row.get("category")
        task = _Task(
            name=_get(row, "name", is_text, "a string", place),
            kind=category if isinstance(category, str) else "",
            seconds=_number(row, ("runtimeInSeconds", "runtime"), place),
            memory=ceil(_number(row, ("memoryInBytes",), place, 1000 * kilobytes)),
            parents=_texts(row, "parents", place),
            children=_texts(row, "children", place),
        )
        for file, spot in _rows(row.get("files", []), f"{place}, file", "name"):
            name = str(file.get("path", "")) + _get(file, "name", is_text, "a string", spot)
            size = "sizeInBytes" if "sizeInBytes" in file else "size"
            _note_size(sizes, name, _get(file, size, is_size, "an integer >= 0", spot), spot)
            link = _get(file, "link", lambda x: x in ("input", "output"), "input or output", spot)
            (task.reads if link == "input" else task.writes).append(name)
        if isinstance(row.get("id"), str):
            numbers[row["id"]] = len(tasks)
        tasks.append(task)
    return tasks, numbers


def _graph(
    tasks: list[_Task], alias: Mapping[str, int], sizes: Mapping[str, int], where: str, memory: bool
) -> Graph:
    number = {task.name: i for i, task in enumerate(tasks)}
    if len(number) < len(tasks):
        names = [task.name for task in tasks]
        twice = next(name for name in names if names.count(name) > 1)
        raise InstanceError(f"{where}: found task {twice!r} twice, expected it once")
    number = {**alias, **number}
    writer: dict[str, int] = {}
    for i, task in enumerate(tasks):
        for name in dict.fromkeys(task.writes):
            if name in writer:
                raise InstanceError(
                    f"{where}, file {name!r}: found the writers {tasks[writer[name]].name!r} and "
                    f"{task.name!r}, expected one"
                )
            writer[name] = i
    parents = _parents(tasks, number, where)
    flows: list[set[int]] = []
    for i, task in enumerate(tasks):
        for name in (*task.reads, *task.writes):
            if name not in sizes:
                raise InstanceError(
                    f"{where}, task {task.name!r}: found file {name!r} without a size, expected one"
                )
        if both := [name for name in task.reads if writer.get(name) == i]:
            raise InstanceError(
                f"{where}, task {task.name!r}: found file {both[0]!r} read and written, expected one of both"
            )
        flows.append({writer[name] for name in task.reads if name in writer})
    before = [parents[i] | flows[i] for i in range(len(tasks))]
    order = topological_order(before, where, lambda i: tasks[i].name)
    read = {name for task in tasks for name in task.reads}
    names = [name for name in sizes if name in read or name in writer]
    index = {name: t for t, name in enumerate(names)}
    position = {i: k for k, i in enumerate(order)}
    with located(where):
        return Graph(
            name="",
            tensors=tuple(
                Tensor(
                    name=name,
                    nbytes=sizes[name],
                    kind="input" if name not in writer else "activation" if name in read else "output",
                    initial=name not in writer,
                    final=name not in read,
                )
                for name in names
            ),
            ops=tuple(
                Op(
                    name=tasks[i].name,
                    kind=tasks[i].kind,
                    duration_ns=max(1, round(tasks[i].seconds * 10**9)),
                    workspace=tasks[i].memory if memory else 0,
                    reads=tuple(index[name] for name in dict.fromkeys(tasks[i].reads)),
                    writes=tuple(index[name] for name in dict.fromkeys(tasks[i].writes)),
                    after=tuple(sorted(position[j] for j in parents[i] - flows[i])),
                )
                for i in order
            ),
        )


def _parents(tasks: list[_Task], number: Mapping[str, int], where: str) -> list[set[int]]:
    """Return the parents of each task: those that it names, and those that name it as a child."""
    parents: list[set[int]] = [set() for _ in tasks]
    for i, task in enumerate(tasks):
        for role, names in (("parent", task.parents), ("child", task.children)):
            for name in names:
                if name not in number:
                    raise InstanceError(
                        f"{where}, task {task.name!r}: found {role} {name!r}, expected the name of a task"
                    )
                other = number[name]
                early, late = (other, i) if role == "parent" else (i, other)
                parents[late].add(early)
    return parents


def _note_size(sizes: dict[str, int], name: str, nbytes: int, where: str) -> None:
    if sizes.setdefault(name, nbytes) != nbytes:
        raise InstanceError(f"{where}: found {nbytes} bytes, expected {sizes[name]} as before")


def _rows(rows: object, where: str, key: str) -> Iterator[tuple[Mapping[str, Any], str]]:
    """Yield the objects of a list, each with what messages call it."""
    if not isinstance(rows, list):
        raise InstanceError(f"{where}s: found {show(rows)}, expected a list")
    for i, row in enumerate(rows):
        if not isinstance(row, dict):
            raise InstanceError(f"{where} {i}: found {show(row)}, expected an object")
        name = row.get(key)
        yield row, f"{where} {i} {name!r}" if isinstance(name, str) else f"{where} {i}"


def _get(row: Mapping[str, Any], key: str, test: Callable[[Any], bool], expected: str, where: str) -> Any:
    if not isinstance(row, dict):
        raise InstanceError(f"{where}: found {show(row)}, expected an object")
    if key not in row:
        raise InstanceError(f"{where}: found no key {key!r}, expected {expected}")
    if not test(row[key]):
        raise InstanceError(f"{where}, {key}: found {show(row[key])}, expected {expected}")
    return row[key]


def _number(
    row: Mapping[str, Any], keys: tuple[str, ...], where: str, default: Fraction | None = None
) -> Fraction:
    """Return the first number >= 0 that is there, exactly."""
    for key in keys:
        if row.get(key) is not None:
            value = row[key]
            if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
                raise InstanceError(f"{where}, {key}: found {show(value)}, expected a number >= 0")
            return Fraction(repr(value))  # the decimal as it is written, not the nearest binary one
    if default is None:
        raise InstanceError(f"{where}: found no key {keys[0]!r}, expected a number >= 0")
    return default


def _texts(row: Mapping[str, Any], key: str, where: str) -> list[str]:
    value = row.get(key, [])
    if not is_text_list(value):
        raise InstanceError(f"{where}, {key}: found {show(value)}, expected a list of strings")
    return list(value)
