"""Carry out ``results/plans/makespan_exact.toml`` and count how many questions are proven optimal.

    python results/reproductions/makespan_exact.py [--out DIR] [--jobs N] [--seeds 0,1]
    python results/reproductions/makespan_exact.py --plan

The graphs are layered, Inception-like, workflows and trees, of ``40 + 5 seed`` ops and lognormal durations,
for 2 and 4 processors. The memory lies 0, 10, 25, 50 and 100% of the way from the least sequential peak to
the peak of the list schedule by critical path without a bound; levels of the same bytes are one question.
``--plan`` computes these bytes again and writes the experiment. With ``--seeds`` only some of the graphs are
solved; the table says which. Writes ``makespan_exact.csv``, ``makespan_exact.md`` and the README's copy.
"""

from __future__ import annotations

import argparse
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path

import lowtide as lt
from lowtide.models.verifier.verdict import Verification
from lowtide.results.reproductions.readme import into_readme
from lowtide.results.reproductions.table_files import ROOT, Row, records_of, write_table

PLAN = ROOT / "results/plans/makespan_exact.toml"
SHAPES = ("layered", "inception", "workflow", "tree")
PROCESSORS = (2, 4)
LEVELS = (0, 10, 25, 50, 100)
SEEDS = (0, 1, 2, 3, 4)
COLUMNS = (
    "shape", "processors", "seed", "levels", "ops", "memory", "makespan", "bound", "gap", "seconds",
    "cumulative", "cumulative bound", "cumulative gap", "cumulative seconds",
)  # fmt: skip

HEAD = """\
# Makespan within a memory, 40 to 60 ops: how many questions are solved to proven optimality in 60 s?
#
#     python results/reproductions/makespan_exact.py          # carries it out and writes the table
#     python results/reproductions/makespan_exact.py --plan   # makes this file
#
# The memory lies 0, 10, 25, 50 and 100% of the way from the least sequential peak to the peak of the list
# schedule by critical path. Beside `auto`: the plain CP-SAT model, without bounds and schedules of ours.

[experiment]
name = "makespan-exact"

[limits]
seconds = 60
memory = "4GiB"
threads = 2
"""


def questions() -> dict[str, Row]:
    """Return the distinct questions by specification: shape, processors, seed, levels and bytes of memory."""
    found: dict[str, Row] = {}
    for shape in SHAPES:
        for count in PROCESSORS:
            for seed in SEEDS:
                spec = f"gen:tasks?shape={shape}&n={40 + 5 * seed}&cores={count}&seed={seed}"
                low, high = memories(spec, count)
                for level in LEVELS:
                    memory = low + (high - low) * level // 100
                    row = {"shape": shape, "processors": count, "seed": seed, "levels": [], "memory": memory}
                    found.setdefault(f"{spec}&processors={count}&memory={memory}", row)["levels"].append(
                        level
                    )
    return found


def memories(spec: str, processors: int) -> tuple[int, int]:
    """Return the least sequential peak, and the peak of a list schedule without a bound."""
    graph = lt.load(spec)
    least = lt.solve(lt.Peak(graph), threads=1)
    assert least.status is lt.Status.OPTIMAL
    assert least.objective is not None
    free = lt.solve(lt.Makespan(graph, processors), "list", threads=1, options={"priority": "critical"})
    assert isinstance(free.verification, Verification)
    return least.objective, max(free.verification.peaks.values())


def plan(specs: Sequence[str]) -> str:
    """Return the experiment."""
    lines = "".join(f'    "{spec}",\n' for spec in specs)
    runs = '\n[[runs]]\nproblem = "makespan"\nmethods = ["{}"]\n{}instances = [\n{}]\n'
    plain = 'parameters = { start = "none" }\n'
    return HEAD + runs.format("auto", "", lines) + runs.format("cpsat", plain, lines)


def rows(records: list[Row], asked: dict[str, Row]) -> list[Row]:
    """Return one row per question."""
    found: dict[str, Row] = {}
    for record in records:
        unsolved = record["status"] == "unknown" and record["method"] != "auto"
        if not record["verified"] and not unsolved:
            raise SystemExit(f"{record['spec']}: {record['status']}, {record['detail']}")
        spec = record["spec"]
        row = found.setdefault(spec, dict(asked[spec]))
        seconds = round(record["seconds"]["solve"] + record["seconds"]["verify"], 1)
        ops = re.search(r"n=(\d+)", spec)
        assert ops is not None
        row["ops"] = int(ops[1])
        keys: tuple[str, ...] = ("makespan", "bound", "gap", "seconds")
        if record["method"] != "auto":
            keys = ("cumulative", *(f"cumulative {key}" for key in keys[1:]))
        row |= dict(zip(keys, (record["objective"], record["bound"], record["gap"], seconds), strict=True))
    return [found[spec] for spec in asked if spec in found]


def markdown(table: list[Row]) -> str:
    """Return the shares proven and the gaps of the others, by shape and processors."""
    seeds = sorted({row["seed"] for row in table})
    plain = sum("cumulative bound" in row for row in table)
    beside = "" if plain == len(table) else f", {plain} of them"
    lines = [
        f"{len(table)} questions of 40 to 60 ops, seed{'s' * (len(seeds) > 1)} "
        f"{', '.join(map(str, seeds))}, solved by `auto` and by CP-SAT alone (`cpsat`, without our bounds "
        f"and schedules{beside}), 60 s and two threads each, two runs at a time on two cores, every plan "
        "verified: proven optimal, and mean and largest gap of the others. Made by `make bench-makespan`.",
        "",
        "| graphs | processors | questions | `auto` proven | mean gap | largest | CP-SAT proven | mean gap "
        "| largest |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    groups = [(shape, count) for shape in SHAPES for count in PROCESSORS]
    for shape, count in [*groups, ("all", None)]:
        some = [r for r in table if shape == "all" or (r["shape"], r["processors"]) == (shape, count)]
        if some:
            cells = [shape, str(count or ""), str(len(some)), *summary(some, "gap")]
            cells += summary(some, "cumulative gap")
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def summary(table: list[Row], key: str) -> list[str]:
    """Return how many are proven, and the mean and largest gap of the others."""
    known = [row[key] for row in table if key in row]
    if not known:
        return ["", "", ""]
    proven = sum(gap == 0 for gap in known)
    others = [gap for gap in known if gap]
    missing = sum(gap is None for gap in known)
    share = f"{proven} of {len(known)}" + (f", {missing} without schedule" if missing else "")
    if not others:
        return [share, "", ""]
    return [share, f"{100 * sum(others) / len(others):.2f}%", f"{100 * max(others):.2f}%"]


def main() -> None:
    """Carry out the experiment, then write the table's files."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", help="keep the experiment's folder there")
    parser.add_argument("--jobs", default="2")
    parser.add_argument("--seeds", help="of the graphs that are solved (default all)")
    parser.add_argument("--plan", action="store_true", help="write the experiment and stop")
    arguments = parser.parse_args()
    asked = questions()
    if arguments.plan:
        PLAN.write_text(plan(list(asked)))
        return
    chosen = SEEDS if arguments.seeds is None else [int(seed) for seed in arguments.seeds.split(",")]
    some = [spec for spec, row in asked.items() if row["seed"] in chosen]
    with tempfile.TemporaryDirectory() as scratch:
        path = PLAN
        if len(some) < len(asked):
            path = Path(scratch) / PLAN.name
            path.write_text(plan(some))
        table = rows(records_of(path, arguments.out, jobs=arguments.jobs), asked)
    write_table("makespan_exact", COLUMNS, table, markdown(table))
    into_readme("makespan_exact", markdown(table))


if __name__ == "__main__":
    main()
