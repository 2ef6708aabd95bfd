"""Makespan of graphs of 1,000 to 5,000 ops with little memory: `auto` against published heuristics.

    python results/reproductions/makespan_large.py [--seconds S] [--table]

Writes ``makespan_large.csv`` (a row per graph, memory and method) and ``makespan_large.md`` beside this
script; with ``--table`` the table is made again from the committed rows. Four processors; memories at 0, 10
and 25 % of the way from the least sequential peak to the peak of the list schedule by longest chains without
a bound. Durations: the roofline model of the generators for networks and `torch` graphs, operations over
speed for assembly trees, lognormal for tasks. One solver thread; kernels are
compiled before the clock starts. A heuristic whose schedule does not fit leaves no plan.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator

from lowtide import Makespan, Peak, load, solve
from lowtide.models.errors import UsageError
from lowtide.models.verifier.verdict import Verification
from lowtide.results.reproductions.table_files import HERE, Row, read_table, write_rows

GRAPHS = (
    "gen:tasks?shape=tree&n=2000&cores=50",
    "gen:assembly?grid=60x60&leaf=1",
    "gen:tasks?shape=layered&n=2000&cores=4",
    "gen:tasks?shape=inception&n=2000&cores=4",
    "gen:randwire?n=500&train=1",
    "catalogue:llama-1b-train",
    "gen:assembly?grid=100x100&leaf=1",
)
PERCENTS = (0, 10, 25)
PROCESSORS = 4
LISTS = ("critical", "fallback", "successors", "longest", "bytes")
SINGLE: tuple[tuple[str, str, dict[str, str]], ...] = (
    *((f"list, {name}", "list", {"priority": name}) for name in LISTS),
    ("mem-booking", "mem-booking", {}),
    ("memory-aware-mapping", "memory-aware-mapping", {}),
    ("proportional-mapping", "proportional-mapping", {}),
    ("par-subtrees", "par-subtrees", {}),
    ("par-inner-first", "par-inner-first", {}),
    ("par-inner-first, limited", "par-inner-first", {"leaves": "limited"}),
    ("par-deepest-first", "par-deepest-first", {}),
    ("par-deepest-first, limited", "par-deepest-first", {"leaves": "limited"}),
)
"""The published heuristics: label, method, options."""

COLUMNS = (
    "graph",
    "ops",
    "percent",
    "memory",
    "method",
    "status",
    "makespan",
    "bound",
    "bound_kind",
    "seconds",
)


def rows(seconds: float) -> Iterator[Row]:
    """Yield a row for each graph, memory and method; makespans in ns, None where there is no plan."""
    for spec in GRAPHS:
        graph = load(spec)
        least = solve(Peak(graph), time_limit=seconds, threads=1).objective
        free = solve(Makespan(graph, PROCESSORS), "list", options={"priority": "critical"}, threads=1)
        assert least is not None
        assert isinstance(free.verification, Verification)
        most = free.verification.peaks["memory"]
        for percent in PERCENTS:
            problem = Makespan(graph, PROCESSORS, least + (most - least) * percent // 100)
            for label, method, options in (*SINGLE, ("auto", "auto", {})):
                try:
                    result = solve(problem, method, options=options, time_limit=seconds, threads=1)
                except UsageError:  # no tree
                    continue
                if str(result.status) == "failed":
                    raise SystemExit(f"{spec}, {percent} %, {label}: {result.detail}")
                yield {
                    "graph": spec,
                    "ops": len(graph.ops),
                    "percent": percent,
                    "memory": problem.memory,
                    "method": label,
                    "status": str(result.status),
                    "makespan": result.objective,
                    "bound": result.bound,
                    "bound_kind": result.bound_kind,
                    "seconds": round(sum(result.seconds.values()), 1),
                }


def markdown(table: list[Row], seconds: str) -> str:
    """Return makespans over the best bound, by graph and memory, and geometric means over `auto`."""
    found = {(row["graph"], row["percent"], row["method"]): row for row in table}
    every = list(dict.fromkeys((row["graph"], row["percent"]) for row in table))
    cases = [case for case in every if found[*case, "auto"]["makespan"]]
    auto = {case: found[*case, "auto"] for case in every}
    means = {label: _mean_over_auto(label, cases, found) for label, _, _ in SINGLE}
    whole = [label for label in means if means[label][1] == len(cases)]
    best = min(whole, key=lambda label: means[label][0])
    lines = [
        "Makespans of large graphs on four processors with little memory, over the best bound: by the "
        "published heuristic with the best geometric mean, by the one that is best in that row, and by "
        "`auto`. The memory is that part of the way from the least sequential peak (0 %) to the peak of the "
        "list schedule without a bound (100 %). Every schedule is verified. One thread, "
        f"{seconds} s for `auto`. Made by `python results/reproductions/makespan_large.py`.",
        "",
        f"| graph | ops | memory | {best} | best heuristic | auto | gap | bound |",
        "|---|---:|---:|---:|---|---:|---:|---|",
    ]
    for graph, percent in every:
        row = auto[graph, percent]
        bound = row["bound"]
        if (graph, percent) not in cases:
            lines.append(f"| `{graph}` | {row['ops']} | {percent} % | - | - | no order found | - | |")
            continue
        known = {
            label: found[graph, percent, label]["makespan"]
            for label in means
            if (graph, percent, label) in found and found[graph, percent, label]["makespan"]
        }
        top = min(known, key=lambda label: known[label])
        lines.append(
            f"| `{graph}` | {row['ops']} | {percent} % | {known[best] / bound:.3f} | "
            f"{known[top] / bound:.3f} {top} | {row['makespan'] / bound:.3f} | "
            f"{100 * (1 - bound / row['makespan']):.1f} % | {row['bound_kind']} |"
        )
    missing = [f"`{graph}`, {p} %" for graph in GRAPHS for p in PERCENTS if (graph, p) not in auto]
    if missing:
        lines += ["", f"Not measured: {'; '.join(missing)}."]
    lines += [
        "",
        "Geometric mean of the makespan over that of `auto`, where the heuristic has a plan:",
        "",
        "| heuristic | plans | all | " + " | ".join(f"{percent} %" for percent in PERCENTS) + " |",
        "|---|---:|---:|" + "---:|" * len(PERCENTS),
    ]
    for label in sorted(means, key=lambda label: (-means[label][1], means[label][0])):
        mean, count = means[label]
        parts = [_mean_over_auto(label, [c for c in cases if c[1] == p], found)[0] for p in PERCENTS]
        cells = " | ".join(f"{x:.3f}" if math.isfinite(x) else "-" for x in (mean, *parts))
        lines.append(f"| {label} | {count} of {len(cases)} | {cells} |")
    return "\n".join(lines) + "\n"


def _mean_over_auto(
    label: str, cases: list[tuple[str, int]], found: dict[tuple[str, int, str], Row]
) -> tuple[float, int]:
    """Return the geometric mean (infinite of none) and of how many."""
    ratios = [
        found[*case, label]["makespan"] / found[*case, "auto"]["makespan"]
        for case in cases
        if (*case, label) in found and found[*case, label]["makespan"]
    ]
    return (math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else math.inf), len(ratios)


def main() -> None:
    """Carry out the experiment, or read its rows, and write the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60.0, help="for `auto`, and at most for the others")
    parser.add_argument("--table", action="store_true", help="make the table again from the committed rows")
    args = parser.parse_args()
    if not args.table:
        warm = Makespan(load("gen:tasks?n=100&cores=4"), PROCESSORS, 200)
        solve(warm, "lns", options={"windows": "10"}, threads=1)  # compiles the kernels
        tree = load("gen:assembly?grid=15x15")
        tight = Makespan(tree, PROCESSORS, solve(Peak(tree), "liu").objective)
        solve(tight, "lns", options={"windows": "10"}, threads=1)
        solve(Makespan(load("gen:tasks?n=40&cores=4"), PROCESSORS, 120), time_limit=20, threads=1)
        done: list[Row] = []
        for row in rows(args.seconds):
            done.append(row)
            if row["method"] == "auto":
                print(*(row[key] for key in COLUMNS), flush=True)
                write_rows(HERE / "makespan_large.csv", COLUMNS, done)
    (HERE / "makespan_large.md").write_text(markdown(read_table("makespan_large"), f"{args.seconds:g}"))


if __name__ == "__main__":
    main()
