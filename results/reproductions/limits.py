"""How long `solve` takes for its time limit: every problem, from 100 to 100,000 ops, limits from 0.05 to 5 s.

    python results/reproductions/limits.py [--only TEXT] [--table]

Writes ``limits.csv`` (a row per problem, method, instance and limit) and ``limits.md`` beside this script;
with ``--only`` the rows whose problem, method and instance contain the text alone, which are printed and not
kept; with ``--table`` the text is made again from the committed rows. Each row is a process of its own, one
solver thread, kernels compiled before; its seconds are those of `lowtide.solve`, from call to return, so with
the lowering and the verifier's judgement; loading is not counted. Bounds on the memory are midway between
the op that needs most and the reference order's peak. A row half a minute beyond its limit is ended.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

from lowtide.results.reproductions.table_files import HERE, Row, read_table, write_table

NAME = "limits"
COLUMNS = ("problem", "method", "spec", "ops", "limit", "status", "seconds", "cpu", "overrun", "load")

LIMIT, LIMITS, ALL = 1, (0.05, 1, 5), 10_000
"""Seconds; all limits for graphs of so many ops."""

PATIENCE = 30
"""Seconds beyond a limit after which a row is ended."""

ALLOWED = "N + 1 s + 5 %"
"""What a limit of N s is to be kept to."""

CHAIN, TREE, RANDWIRE = "gen:chain?n={n}", "gen:intree?n={n}&seed=1", "gen:randwire?n={n}&seed=1"
NETWORK = "catalogue:gpt2-small-train"

GRAPHS = (
    *((TREE, n) for n in (1000, 10_000, 100_000)),
    *((RANDWIRE, n) for n in (100, 1000, 10_000, 100_000)),
    (CHAIN, 100_000),
    (NETWORK, 694),
)
FEWER = ((RANDWIRE, 10_000), (CHAIN, 100_000))

OPTIONS = {
    "peak": "",
    "offsets": "",
    "placement": "machine=a100-40g-pcie3&device={memory}B",
    "makespan": "processors=4&memory={memory}",
    "parallel-memory": "",
    "memory-edges": "bound={memory}",
    "recompute": "memory={memory}B",
    "minio": "memory={memory}",
}
"""What the question adds to a graph."""

METHODS: dict[str, tuple[str, ...]] = {
    "peak": ("auto", "greedy", "local-search", "cpsat"),
    "offsets": ("auto", "local-search", "search"),
    "placement": ("auto", "g10"),
    "makespan": ("auto", "list", "local-search", "lns"),
    "parallel-memory": ("auto", "branch"),
    "memory-edges": ("auto", "min-levels"),
    "recompute": ("auto", "eviction"),
    "minio": ("auto", "postorder"),
}
"""The first of each on all graphs, the others on fewer."""


def questions() -> Iterator[tuple[str, str, str, float]]:
    """Yield problem, method, graph and limit of every row."""
    for problem, (first, *others) in METHODS.items():
        for method in (first, *others):
            for template, n in GRAPHS if method == first else FEWER:
                spec = template.format(n=n)
                if problem == "minio" and not spec.startswith(("gen:intree", "gen:chain")):
                    continue  # trees alone
                for limit in LIMITS if method == first and n == ALL else (LIMIT,):
                    yield problem, method, spec, limit


def measure(problem: str, method: str, spec: str, limit: float) -> Row:
    """Solve one question in this process; return its row."""
    import lowtide as lt
    from lowtide.instances import load_problem
    from lowtide.models.derived.memory import sequential_memory
    from lowtide.models.lowering.buffers import buffers_from_plan
    from lowtide.models.plan import Plan

    graph = lt.load(spec)
    memory = sequential_memory(graph)
    most = memory.peak(range(len(graph.ops)))
    least = max(sum(graph.tensors[t].nbytes for t in {*op.reads, *op.writes}) for op in graph.ops)
    if problem == "offsets":
        plan = Plan.from_order(graph, range(len(graph.ops)))
        question: Any = lt.Offsets(buffers_from_plan(graph, plan))
    else:
        more = OPTIONS[problem].format(memory=(least + most) // 2)
        spec += ("&" if "?" in spec else "?") + more if more else ""
        question = load_problem(problem, spec)
    del graph, memory
    wall, cpu = time.perf_counter(), time.process_time()
    result = lt.solve(question, method, time_limit=limit, threads=1)
    seconds = time.perf_counter() - wall
    return {"spec": spec, "status": str(result.status), "seconds": seconds, "cpu": time.process_time() - cpu}


def rows(only: str) -> Iterator[Row]:
    """Yield the rows, each from a process of its own."""
    for problem, method, spec, limit in questions():
        if only not in f"{problem} {method} {spec} {limit:g}":
            continue
        begun = time.perf_counter()
        load = os.getloadavg()[0]
        call = [sys.executable, __file__, "--row", problem, method, spec, str(limit)]
        row: Row = {"spec": spec, "status": "ended", "seconds": None, "cpu": None}
        try:
            done = subprocess.run(call, capture_output=True, text=True, timeout=limit + PATIENCE, check=False)
            row = json.loads(done.stdout) if done.returncode == 0 else {**row, "status": "refused"}
            if done.returncode:
                print(done.stderr.strip().splitlines()[-1:], file=sys.stderr)
        except subprocess.TimeoutExpired:
            row["seconds"] = time.perf_counter() - begun
        took = row["seconds"]
        yield {
            "problem": problem,
            "method": method,
            "spec": row["spec"],
            "ops": int(spec.rpartition("n=")[2].partition("&")[0]) if "n=" in spec else 694,
            "limit": limit,
            "status": row["status"],
            "seconds": None if took is None else round(took, 2),
            "cpu": None if row["cpu"] is None else round(row["cpu"], 2),
            "overrun": None if took is None else round(max(0.0, took - limit), 2),
            "load": round(load, 1),
        }


def is_kept(row: Row, seconds: str = "seconds") -> bool:
    """Return whether a row took no more than is allowed."""
    return row[seconds] is not None and row[seconds] <= 1.05 * row["limit"] + 1


def markdown(table: list[Row]) -> str:
    """Return the greatest overrun by problem, method and size, and what was kept."""
    every, table = table, [row for row in table if row["status"] != "refused"]
    kept = sum(is_kept(row) for row in table)
    in_cpu = sum(is_kept(row) or is_kept(row, "cpu") for row in table)
    lines = [
        f"Seconds of `lowtide.solve` beyond a time limit of {LIMIT} s, lowering and judgement included; for "
        f"`auto` on graphs of {ALL:,} ops the greatest of limits of {', '.join(map(str, LIMITS))} s. One "
        "thread, kernels compiled before. Made by `python results/reproductions/limits.py`.",
        "",
        f"{kept} of {len(table)} rows took at most {ALLOWED}; in seconds of processor, which do not count "
        f"the waiting for others on the machine, {in_cpu} did. The machine has {os.cpu_count()} cores; its "
        f"load (`os.getloadavg`) was {table[0]['load']} at the start, {table[-1]['load']} at the end, "
        f"at most {max(row['load'] for row in table)} in between.",
        "",
        "| problem | method | graph | ops | overrun | in processor seconds |",
        "|---|---|---|---:|---:|---:|",
    ]
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in table:
        family = row["spec"].partition("?")[0].partition(":")[2]
        groups.setdefault((row["problem"], row["method"], family, row["ops"]), []).append(row)
    for (problem, method, family, ops), some in groups.items():
        over = max(row["overrun"] for row in some)
        own = [max(0.0, row["cpu"] - row["limit"]) for row in some if row["cpu"] is not None]
        cells = f"{max(own):.2f}" if len(own) == len(some) else "ended"
        lines.append(f"| {problem} | {method} | {family} | {ops:,} | {over:.2f} | {cells} |")
    planned = [problem for problem, *_ in questions()]
    missing = {p: planned.count(p) - sum(row["problem"] == p for row in every) for p in METHODS}
    if any(missing.values()):
        rest = ", ".join(f"{count} of {problem}" for problem, count in missing.items() if count > 0)
        lines += ["", f"Not measured: {rest}."]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Carry out the experiment, or read its rows, and write the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="", help="rows that contain this text; they are not kept")
    parser.add_argument("--table", action="store_true", help="make the text again from the committed rows")
    parser.add_argument("--row", nargs=4, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.row:
        problem, method, spec, limit = args.row
        print(json.dumps(measure(problem, method, spec, float(limit))))
        return
    if args.table:
        (HERE / f"{NAME}.md").write_text(markdown(read_table(NAME)))
        return
    subprocess.run([sys.executable, "-m", "lowtide", "compile", "--quiet"], check=True)
    done: list[Row] = []
    for row in rows(args.only):
        done.append(row)
        print(*(row[key] for key in COLUMNS), flush=True)
        if not args.only:
            write_table(NAME, COLUMNS, done, markdown(done))


if __name__ == "__main__":
    main()
