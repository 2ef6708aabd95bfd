"""Make the README's table: minimum peak memory of real networks, each solved in its own process.

    python results/reproductions/peak_networks.py [--time-limit 60] [--only TEXT] [--threads 2]

Graphs: the nine light networks of the ``onnx`` package, inference and training at batch 1 and 32, and
the traced and profiled graphs of the data folder (``LOWTIDE_DATA``, default ``../shared/data``) where
it is present. For each: the peak of the reference order, of the greedy order, of the best order found
by ``auto``, the proved bound, the status and the seconds of the whole solve. Writes
``peak_networks.csv`` and ``peak_networks.md`` beside this script, the README's copy of the latter, and
the README's picture.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
NETWORKS = (
    "bvlc_alexnet",
    "zfnet512",
    "vgg19",
    "squeezenet",
    "inception_v1",
    "resnet50",
    "shufflenet",
    "inception_v2",
    "densenet121",
)
COLUMNS = (
    "graph",
    "ops",
    "reference",
    "greedy",
    "peak",
    "bound",
    "gap",
    "status",
    "seconds",
)


def lowtide(*arguments: str) -> dict[str, Any]:
    """Return the JSON object that one call of the command line prints."""
    command = [sys.executable, "-m", "lowtide", *arguments, "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode == 2:
        raise SystemExit(done.stderr)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def specifications() -> list[tuple[str, str]]:
    """Return (title, what `load` is given) of every graph, section after section."""
    rows = []
    for train in (0, 1):
        for batch in (1, 32):
            for name in NETWORKS:
                kind = "training" if train else "inference"
                rows.append((f"{name}, {kind}, batch {batch}", f"onnx:{name}?train={train},batch={batch}"))
    folder = Path(os.environ.get("LOWTIDE_DATA", ROOT.parent / "shared" / "data"))
    for group in ("aten", "g10"):
        for path in sorted((folder / group).glob("*.json.gz")):
            rows.append((f"{group}/{path.name.removesuffix('.json.gz')}", str(path)))
    return rows


def measure(title: str, spec: str, time_limit: str, threads: str) -> dict[str, Any]:
    """Return the table's row of one graph."""
    limits = ("--time-limit", time_limit, "--threads", threads, "--seed", "0")
    shown = lowtide("show", spec)
    reference = lowtide("solve", "peak", spec, "--method", "reference")
    greedy = lowtide("solve", "peak", spec, "--method", "greedy")
    best = lowtide("solve", "peak", spec, "--method", "auto", *limits)
    assert best["verified"], best
    return {
        "graph": title,
        "ops": shown["ops"],
        "reference": reference["objective"],
        "greedy": greedy["objective"],
        "peak": best["objective"],
        "bound": best["bound"],
        "gap": best["gap"],
        "status": best["status"],
        "seconds": round(best["seconds"]["solve"] + best["seconds"]["verify"], 2),
    }


def markdown(rows: list[dict[str, Any]], time_limit: str) -> str:
    """Return the rows as a Markdown table, bytes exact."""
    lines = [
        f"Peak memory in bytes; `auto`, {time_limit} s limit, 2 threads, every plan verified. "
        "Made by `make bench`.",
        "",
        "| " + " | ".join(COLUMNS) + " |",
        "|---" * 1 + "|---:" * 6 + "|---|---:|",
    ]
    for row in rows:
        cells = [str(row["graph"]), f"{row['ops']}"]
        cells += [f"{row[key]:,}" for key in ("reference", "greedy", "peak", "bound")]
        cells += [f"{100 * row['gap']:.2f}%", row["status"], f"{row['seconds']:.2f}"]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def draw() -> None:
    """Draw the README's picture: the optimal order's profile beside the reference order's."""
    plan = str(HERE / "squeezenet_training.json")
    lowtide("solve", "peak", "onnx:squeezenet?train=1", "--plan", plan)
    lowtide("plot", plan, "-o", str(HERE / "squeezenet_training.svg"))
    Path(plan).unlink()


def main() -> None:
    """Measure every graph, then write the table's files."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--time-limit", default="60")
    parser.add_argument("--threads", default="2")
    parser.add_argument("--only", default="", help="only graphs whose title has this text; writes no file")
    arguments = parser.parse_args()
    rows = []
    for title, spec in specifications():
        if arguments.only in title:
            rows.append(measure(title, spec, arguments.time_limit, arguments.threads))
            print({k: rows[-1][k] for k in COLUMNS}, flush=True)
    if arguments.only:
        return
    with (HERE / "peak_networks.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(rows)
    table = markdown(rows, arguments.time_limit)
    (HERE / "peak_networks.md").write_text(table)
    readme = (ROOT / "README.md").read_text()
    block = re.compile(r"(<!-- table: peak_networks -->\n).*?(<!-- end -->)", re.DOTALL)
    (ROOT / "README.md").write_text(block.sub(lambda m: m[1] + table + m[2], readme))
    draw()


if __name__ == "__main__":
    main()
