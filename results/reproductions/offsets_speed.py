"""Time to a feasible allocation: lowtide, MiniMalloc, CP-SAT and omnimalloc in one loop, one thread each.

    python results/reproductions/offsets_speed.py [--minimalloc BINARY] [--omnimalloc PYTHON] [--repeats 3]

BINARY is MiniMalloc (github.com/google/minimalloc, Apache-2.0), built with ``-O3 -DNDEBUG``: without it
there is nothing to compare with, and the table stays. PYTHON is an interpreter that has omnimalloc. On
each of MiniMalloc's eleven challenging sets, in each repetition one after the other: MiniMalloc's process;
lowtide in this process (kernels loaded: neither the interpreter's start nor compilation counts, as reading
the file does not count for MiniMalloc's own clock); lowtide's whole process. CP-SAT (this suite's
formulation) and omnimalloc run once per set, each for at most the limit.
Writes ``offsets_speed.csv`` and ``offsets_speed.md`` beside this script, and the README's copy.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

import lowtide as lt
from lowtide.instances import load_buffers, read_answer
from lowtide.models.verifier.allocation import verify_allocation
from lowtide.results.reproductions.readme import into_readme
from lowtide.results.reproductions.table_files import ROOT, write_table

CAPACITY = 1048576
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


def minimalloc(binary: str, path: Path, limit: float, scratch: Path) -> tuple[float | None, float]:
    """Return MiniMalloc's own seconds, None if unsolved, and those of the whole process."""
    out = scratch / "minimalloc.csv"
    out.unlink(missing_ok=True)
    command = [binary, f"--capacity={CAPACITY}", f"--input={path}", f"--output={out}", f"--timeout={limit}s"]
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


def within(path: Path, limit: float) -> float | None:
    """Return the seconds until an allocation within the capacity, in this process; None if unsolved."""
    problem = lt.Offsets(load_buffers(path, capacity=CAPACITY), satisfy=True)
    result = lt.solve(problem, threads=1, time_limit=limit)
    return sum(result.seconds[k] for k in ("build", "solve") if k in result.seconds) if done(result) else None


def done(result: lt.Result) -> bool:
    """Return whether a verified allocation within the capacity was found."""
    return result.objective is not None and result.objective <= CAPACITY


def whole_process(path: Path, limit: float, method: str = "auto") -> tuple[dict[str, Any], float]:
    """Return the record of ``lowtide solve`` and the seconds of its whole process."""
    words = ["solve", "offsets", str(path), "--capacity", str(CAPACITY), "--method", method]
    words += ["--threads", "1", "--time-limit", str(limit), "--quiet", "--json"]
    begin = time.perf_counter()
    result = subprocess.run(
        [sys.executable, "-m", "lowtide", *words], capture_output=True, text=True, check=False
    )
    return json.loads(result.stdout), time.perf_counter() - begin


def cpsat(path: Path, limit: float) -> float | None:
    """Return the seconds of building and solving with the suite's CP-SAT model; None if unsolved."""
    record, _ = whole_process(path, limit, "cpsat")
    seconds = record["seconds"]
    return (seconds["build"] or 0) + seconds["solve"] if record["objective"] is not None else None


def omnimalloc(python: str, path: Path, limit: float) -> tuple[float, int]:
    """Return the seconds that omnimalloc's exact allocator took, and the height that it reached."""
    command = [python, "-c", OMNIMALLOC, str(path), str(limit)]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    seconds, height = out[0].split()
    offsets = {name: int(offset) for name, offset in (line.rsplit(" ", 1) for line in out[1:])}
    assert check(path, offsets) == int(height)
    return float(seconds), int(height)


def measure(args: argparse.Namespace, paths: list[Path]) -> list[dict[str, Any]]:
    """Return one row per set of buffers."""
    within(paths[0], args.limit)  # loads the kernels
    whole_process(paths[0], args.limit)  # and fills their cache
    times: dict[tuple[str, str], list[float]] = {}
    scratch = Path(tempfile.mkdtemp())
    for repeat in range(args.repeats):
        for path in paths:
            own, whole = minimalloc(args.minimalloc, path, args.limit, scratch)
            ours = within(path, args.limit)
            record, ours_whole = whole_process(path, args.limit)
            if own is None or ours is None or not record["verified"]:
                raise SystemExit(f"{path.name}: unsolved within {args.limit:g} s")
            for key, value in (("mm", own), ("mm whole", whole), ("lt", ours), ("lt whole", ours_whole)):
                times.setdefault((path.name, key), []).append(value)
            print(f"{repeat} {path.name}: {own:.3f} {ours:.3f} | {whole:.2f} {ours_whole:.2f}", flush=True)
    rows = []
    for path in paths:
        of = {key: median(times[path.name, key]) for key in ("mm", "mm whole", "lt", "lt whole")}
        row: dict[str, Any] = {
            "set": path.name.split(".")[0],
            "buffers": len(load_buffers(path).buffers),
            "minimalloc": round(of["mm"], 4),
            "lowtide": round(of["lt"], 4),
            "ratio": round(of["mm"] / of["lt"], 2),
            "minimalloc process": round(of["mm whole"], 3),
            "lowtide process": round(of["lt whole"], 3),
            "process ratio": round(of["mm whole"] / of["lt whole"], 2),
        }
        seconds = cpsat(path, args.cpsat_limit)
        row["cpsat"] = None if seconds is None else round(seconds, 2)
        if args.omnimalloc:
            _, row["omnimalloc height"] = omnimalloc(args.omnimalloc, path, args.cpsat_limit)
        rows.append(row)
        print(row, flush=True)
    os.rmdir(scratch) if not any(scratch.iterdir()) else None
    return rows


def markdown(rows: list[dict[str, Any]], args: argparse.Namespace) -> str:
    """Return the table for the README."""
    lines = [
        f"Seconds to an allocation within {CAPACITY:,} bytes, one thread, medians of {args.repeats}; "
        f"CP-SAT and omnimalloc's exact allocator once, at most {args.cpsat_limit:g} s "
        "(`-`: nothing within the capacity). Made by `make bench-offsets`.",
        "",
        "| set | buffers | MiniMalloc | lowtide | ratio | MiniMalloc, process | lowtide, process | ratio "
        "| CP-SAT | omnimalloc, height |",
        "|---" + "|---:" * 9 + "|",
    ]
    for row in rows:
        cells = [row["set"], f"{row['buffers']}", f"{row['minimalloc']:.3f}", f"{row['lowtide']:.4f}"]
        cells += [f"{row['ratio']:.1f}", f"{row['minimalloc process']:.2f}", f"{row['lowtide process']:.2f}"]
        cells += [f"{row['process ratio']:.1f}", "-" if row["cpsat"] is None else f"{row['cpsat']:.1f}"]
        height = row.get("omnimalloc height")
        cells.append("" if height is None else f"{height:,}")
        lines.append("| " + " | ".join(cells) + " |")
    means = [geometric_mean([row[key] for row in rows]) for key in ("ratio", "process ratio")]
    lines.append(f"| geometric mean |  |  |  | **{means[0]:.1f}** |  |  | **{means[1]:.1f}** |  |  |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure, then write the files."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minimalloc", metavar="BINARY", help="the table stays without it")
    parser.add_argument("--omnimalloc", metavar="PYTHON")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--limit", type=float, default=60.0, help="seconds of lowtide and MiniMalloc")
    parser.add_argument("--cpsat-limit", type=float, default=25.0, help="seconds of CP-SAT and omnimalloc")
    args = parser.parse_args()
    if not args.minimalloc:
        print("offsets_speed: no --minimalloc BINARY to compare with, the table stays", file=sys.stderr)
        return
    paths = sorted(ROOT.glob(f"instances/catalogue/minimalloc/?.{CAPACITY}.csv"))
    rows = measure(args, paths)
    text = markdown(rows, args)
    write_table("offsets_speed", list(rows[0]), rows, text)
    into_readme("offsets_speed", text)


if __name__ == "__main__":
    main()
