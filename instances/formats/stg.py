"""Files of the Standard Task Graph Set (Kasahara laboratory, Waseda University), without communication.

The first number of the file is the number of tasks n (a second one on its line, which some copies have,
is left out); then one line per task: its number, its processing time, how many tasks precede it, and
their numbers. Entry and exit may be dummies of time 0 that n does not count. What begins with ``#``,
and all that follows the first such line, is information. (The format as the set's own page describes it,
kasahara.cs.waseda.ac.jp/schedule/format_e.html; files with communication costs are refused.)

What becomes of it:

1. A task of positive time is an op; one unit of time is `unit_ns` nanoseconds.
2. The set knows no sizes: a task writes one tensor that all tasks after it read (``data=op``) or one for
   each of them (``data=edge``), of random sizes by `seed`, as the generated graphs have. Tensors that
   nobody reads are outputs, final.
3. A task of time 0 vanishes: what follows it comes ``after`` what precedes it.
4. The reference order is the topological order that takes, of the ready tasks, always the least number.
"""

from __future__ import annotations

import os
import random
import re
from dataclasses import dataclass, replace
from pathlib import Path

from ...models.errors import InstanceError
from ...models.graph import Graph
from ..generators.builder import DATA, SEED, SIZES, from_successors
from ..options import Parameter
from .strict_json import located, read_bytes, show
from .task_order import topological_order

PARAMETERS = {
    "unit_ns": Parameter(1, "nanoseconds of a unit of time", least=1),
    "seed": SEED,
    "data": DATA,
    **SIZES,
}


@dataclass(frozen=True)
class _Row:
    """A task as its line has it."""

    time: int
    before: frozenset[int]


def read_stg(
    path: str | os.PathLike[str],
    *,
    unit_ns: int = 1,
    seed: int = 0,
    sizes: str = "random",
    largest: int = 20,
    data: str = "op",
) -> Graph:
    r"""Return the graph of a file, with sizes drawn.

    Parameters
    ----------
    unit_ns
        Nanoseconds of a unit of time.
    seed, sizes, largest, data
        As for generated graphs: sizes are uniform on 1 to `largest` bytes, or all equal; one tensor for
        each task (``op``) or for each pair of tasks (``edge``).

    Raises
    ------
    InstanceError
        If the file is missing, or a line is not as the format has it; the message has file and line.
    """
    where = str(path)
    rows = _read(where, read_bytes(path))
    numbers = sorted(rows)
    index = {number: i for i, number in enumerate(numbers)}
    before = [{index[p] for p in rows[number].before} for number in numbers]
    order = topological_order(before, where, lambda i: f"task {numbers[i]}")
    # Predecessors in time of each task, dummies replaced by those before them.
    direct: list[set[int]] = [set() for _ in numbers]
    through: list[set[int]] = [set() for _ in numbers]
    for i in order:
        for p in sorted(before[i]):
            if rows[numbers[p]].time:
                direct[i].add(p)
            else:
                through[i] |= direct[p] | through[p]
    kept = [i for i in order if rows[numbers[i]].time]
    if not kept:
        raise InstanceError(f"{where}: found no task of positive time, expected one")
    position = {i: k for k, i in enumerate(kept)}
    successors: list[list[int]] = [[] for _ in kept]
    for k, i in enumerate(kept):
        for p in direct[i]:
            successors[position[p]].append(k)
    drawn = from_successors(
        [sorted(readers) for readers in successors],
        random.Random(seed),
        data=data,
        sizes=sizes,
        largest=largest,
    )
    ops = tuple(
        replace(
            op,
            name=f"task {numbers[i]}",
            duration_ns=rows[numbers[i]].time * unit_ns,
            after=tuple(sorted(position[p] for p in through[i] - direct[i])),
        )
        for op, i in zip(drawn.ops, kept, strict=True)
    )
    with located(where):
        graph = Graph(
            name=Path(path).name,
            tensors=drawn.tensors,
            ops=ops,
            provenance={"source": "file of the Standard Task Graph Set, sizes drawn", "seed": seed},
        )
    return graph


def _read(where: str, content: bytes) -> dict[int, _Row]:
    """Return the tasks by number."""
    count: int | None = None
    rows: dict[int, _Row] = {}
    for at, line in enumerate(content.decode("utf-8", "replace").splitlines(), 1):
        words = line.split()
        if not words:
            continue
        if words[0].startswith("#"):
            break
        for word in words:
            if not re.fullmatch(r"\d{1,15}", word, re.ASCII):
                raise InstanceError(f"{where}:{at}: found {show(word)}, expected an integer >= 0")
        values = [int(word) for word in words]
        if count is None:
            if len(values) > 2:
                raise InstanceError(f"{where}:{at}: found {show(line)}, expected the number of tasks")
            count = values[0]
            continue
        if len(values) < 3 or len(values) != 3 + values[2]:
            named = f"{values[2]} numbers of tasks" if len(values) >= 3 else "their numbers"
            raise InstanceError(
                f"{where}:{at}: found {len(values)} numbers, expected number, time, count of tasks "
                f"before, {named}"
            )
        number, time, _, *sources = values
        if number in rows:
            raise InstanceError(f"{where}:{at}: found task {number} twice, expected it once")
        rows[number] = _Row(time, frozenset(sources))
    if count is None:
        raise InstanceError(f"{where}: found no number, expected the number of tasks")
    if not 0 <= len(rows) - count <= 2:
        raise InstanceError(
            f"{where}: found {len(rows)} tasks, expected {count}, as the first line says, and up to two "
            "dummies"
        )
    for number, row in rows.items():
        if missing := sorted(row.before - rows.keys()):
            raise InstanceError(
                f"{where}, task {number}: found task {missing[0]} before it, expected a task of the file"
            )
    return rows
