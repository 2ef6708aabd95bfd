"""Time to a feasible allocation: lowtide, MiniMalloc, CP-SAT and omnimalloc in one loop, one thread each.

``--minimalloc`` is the binary (github.com/google/minimalloc, Apache-2.0), built with ``-O3 -DNDEBUG``;
without it there is nothing to compare with. ``--omnimalloc`` is an interpreter that has omnimalloc.
On each of MiniMalloc's eleven challenging sets, in each repetition one after the other: MiniMalloc's process;
lowtide in this process (kernels loaded: neither the interpreter's start nor compilation counts, as reading
the file does not count for MiniMalloc's own clock); lowtide's whole process. CP-SAT (this suite's
formulation) and omnimalloc run once per set, each for at most the limit.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

import lowtide as lt

from ....instances import load_buffers, read_answer
from ....models.errors import UsageError
from ....models.verifier.allocation import verify_allocation
from ...tables.spec import Column, Fields, Row, TableSpec
from ..running import ROOT, Case

REPEATS = 3
"""Runs of each system on each file; their median counts."""
SECONDS, EXACT_SECONDS = 60.0, 20.0
"""Limits: of lowtide and MiniMalloc; of CP-SAT and omnimalloc."""

CAPACITY = 1048576
"""Bytes of the memory in which MiniMalloc's challenging files are asked."""
OMNIMALLOC = """
import csv, sys, time
import omnimalloc as om
rows = list(csv.DictReader(open(sys.argv[1])))
om.set_max_threads(1)
items = [om.Allocation(r["id"], int(r["size"]), int(r["lower"]), int(r["upper"])) for r in rows]
solver = om.allocators.SupermallocAllocator(timeout=float(sys.argv[2]), num_threads=1)
begin = time.perf_counter()
placed = om.allocate(items, solver)
seconds = time.perf_counter() - begin
print(seconds, max(a.offset + a.size for a in placed))
for a in placed:
    print(a.id, a.offset)
"""


def minimalloc(binary: str, path: Path, scratch: Path) -> tuple[float | None, float]:
    """Return MiniMalloc's own seconds, None if unsolved, and those of the whole process."""
    out = scratch / "minimalloc.csv"
    out.unlink(missing_ok=True)
    command = [
        binary,
        f"--capacity={CAPACITY}",
        f"--input={path}",
        f"--output={out}",
        f"--timeout={SECONDS}s",
    ]
    begin = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    whole = time.perf_counter() - begin
    found = re.search(r"([\d.]+)\s*s", done.stderr)
    if done.returncode or found is None or not out.exists():
        return None, whole
    check(path, read_answer(out).offsets)  # type: ignore[union-attr]
    return float(found[1]), whole


def check(path: Path, offsets: Any) -> int:
    """Verify an allocation from anywhere, and return its height."""
    verdict = verify_allocation(load_buffers(path), offsets)
    verdict.raise_if_invalid()
    return sum(verdict.heights.values())


def within(path: Path) -> float | None:
    """Return the seconds until an allocation within the capacity, in this process; None if unsolved."""
    problem = lt.Offsets(load_buffers(path, capacity=CAPACITY), satisfy=True)
    result = lt.solve(problem, threads=1, time_limit=SECONDS)
    return sum(result.seconds[k] for k in ("build", "solve") if k in result.seconds) if done(result) else None


def done(result: lt.Result) -> bool:
    """Return whether a verified allocation within the capacity was found."""
    return result.objective is not None and result.objective <= CAPACITY


def whole_process(path: Path, limit: float = SECONDS, method: str = "auto") -> tuple[dict[str, Any], float]:
    """Return the record of ``lowtide solve`` and the seconds of its whole process."""
    words = ["solve", "offsets", str(path), "--capacity", str(CAPACITY), "--method", method]
    words += ["--threads", "1", "--time-limit", str(limit), "--quiet", "--json"]
    begin = time.perf_counter()
    result = subprocess.run(
        [sys.executable, "-m", "lowtide", *words], capture_output=True, text=True, check=False
    )
    return json.loads(result.stdout), time.perf_counter() - begin


def cpsat(path: Path) -> float | None:
    """Return the seconds of building and solving with the suite's CP-SAT model; None if unsolved."""
    record, _ = whole_process(path, EXACT_SECONDS, "cpsat")
    seconds = record["seconds"]
    return (seconds["build"] or 0) + seconds["solve"] if record["objective"] is not None else None


def omnimalloc(python: str, path: Path) -> int:
    """Return the height that omnimalloc's exact allocator reached."""
    command = [python, "-c", OMNIMALLOC, str(path), str(EXACT_SECONDS)]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    height = out[0].split()[1]
    offsets = {name: int(offset) for name, offset in (line.rsplit(" ", 1) for line in out[1:])}
    assert check(path, offsets) == int(height)
    return int(height)


def cases(*, minimalloc: Path | None = None, omnimalloc: str | None = None) -> Iterator[Case]:
    """Yield a case for each set of buffers."""
    if minimalloc is None or not minimalloc.is_file():
        found = "nothing" if minimalloc is None else str(minimalloc)
        raise UsageError(f"--minimalloc: found {found}, expected the binary; the table stays as it is")
    paths = sorted(ROOT.glob(f"instances/catalogue/minimalloc/?.{CAPACITY}.csv"))
    within(paths[0])  # loads the kernels
    whole_process(paths[0])  # and fills their cache
    for path in paths:
        yield Case(path.name.split(".")[0], partial(measure, path, str(minimalloc), omnimalloc))


def measure(path: Path, binary: str, python: str | None) -> list[Row]:
    """Return the row of a set of buffers."""
    times: list[tuple[float, float, float, float]] = []
    with tempfile.TemporaryDirectory() as scratch:
        for _ in range(REPEATS):
            own, whole = minimalloc(binary, path, Path(scratch))
            ours = within(path)
            record, ours_whole = whole_process(path)
            if own is None or ours is None or not record["verified"]:
                raise UsageError(f"{path.name}: unsolved within {SECONDS:g} s")
            times.append((own, ours, whole, ours_whole))
    own, ours, whole, ours_whole = map(median, zip(*times, strict=True))
    seconds = cpsat(path)
    return [
        {
            "set": path.name.split(".")[0],
            "buffers": len(load_buffers(path).buffers),
            "minimalloc": round(own, 4),
            "lowtide": round(ours, 4),
            "ratio": round(own / ours, 2),
            "minimalloc process": round(whole, 3),
            "lowtide process": round(ours_whole, 3),
            "process ratio": round(whole / ours_whole, 2),
            "cpsat": None if seconds is None else round(seconds, 2),
            "omnimalloc height": None if python is None else omnimalloc(python, path),
        }
    ]


TABLE = TableSpec(
    (
        *(Column("set"), Column("buffers", kind="d"), Column("MiniMalloc", "minimalloc", ".3f")),
        *(Column("lowtide", kind=".4f"), Column("ratio", kind=".1f")),
        Column("MiniMalloc, process", "minimalloc process", ".2f"),
        Column("lowtide, process", "lowtide process", ".2f"),
        *(Column("ratio", "process ratio", ".1f"), Column("CP-SAT", "cpsat", ".1f")),
        Column("omnimalloc, height", "omnimalloc height", ",", ""),
    )
)


def text(table: list[Row]) -> Fields:
    """Return the rows and the geometric means of the ratios."""
    means = [f"**{geometric_mean([row[key] for row in table]):.1f}**" for key in ("ratio", "process ratio")]
    return {
        "table": TABLE.of(table, [["geometric mean", "", "", "", means[0], "", "", means[1], "", ""]]),
    }
