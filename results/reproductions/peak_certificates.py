"""Certificates of the instances of the benchmark plans: of which kind, how large, how long they take.

    python results/reproductions/peak_certificates.py [--time-limit 60] [--limit 200MB] [--out DIR] [SPEC ...]

Each instance of ``results/plans/peak_optimal.toml`` and ``peak_scale.toml``, or each SPEC given, is solved by
`auto` with one thread and a certificate; a second process then confirms the file. Writes
``peak_certificates.csv`` and ``.md`` beside this script, with SPECs into DIR. With ``--out`` the certificates
and the rows are kept, and an interrupted run is gone on with.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any

from lowtide.results.reproductions.table_files import HERE, Row, write_table
from lowtide.results.sweeps.sweep_instances import expand

PLANS = [HERE.parent / "plans" / name for name in ("peak_optimal.toml", "peak_scale.toml")]
COLUMNS = (
    "instance",
    "ops",
    "status",
    "bound",
    "kind",
    "checked",
    "bytes",
    "confirmed",
    "solve",
    "certify",
    "check",
)
"""Those of the text; the file has the objective as well."""


def instances() -> list[str]:
    """Return the instances of the plans."""
    found = []
    for plan in PLANS:
        for runs in tomllib.loads(plan.read_text())["runs"]:
            for text in runs["instances"]:
                found += [source.spec for source in expand(text, plan.parent)]
    return list(dict.fromkeys(found))


def answer(*arguments: str) -> dict[str, Any]:
    """Return what a call of the command line prints as JSON; its progress goes to standard error."""
    words = [sys.executable, "-m", "lowtide", *arguments, "--json"]
    done = subprocess.run(words, stdout=subprocess.PIPE, check=False)
    if done.returncode not in (0, 1):
        raise SystemExit(done.returncode)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def row(spec: str, folder: Path, time_limit: str, limit: str) -> Row:
    """Solve an instance, write its certificate and have it confirmed."""
    file = str(folder / f"{re.sub(r'[^A-Za-z0-9]+', '_', spec)}.json.gz")
    limits = ("--time-limit", time_limit, "--threads", "1", "--certificate-limit", limit)
    record = answer("solve", "peak", spec, *limits, "--certificate", file)
    told, seconds = record["certificate"], record["seconds"]
    verdict: Row = {"valid": False, "checked": None}
    if told["path"] is not None:
        verdict = answer("verify", "--certificate", file)
    return {
        "instance": spec,
        "ops": len(_graph(spec).ops),
        "status": record["status"],
        "objective": record["objective"],
        "bound": record["bound"],
        "kind": told["kind"],
        "checked": verdict["checked"],
        "bytes": told["bytes"],
        "confirmed": verdict["valid"],
        "solve": round(seconds["solve"], 2),
        "certify": None if seconds.get("certify") is None else round(seconds["certify"], 2),
        "check": None if verdict.get("seconds") is None else round(verdict["seconds"], 2),
    }


def _graph(spec: str) -> Any:
    from lowtide.instances import load

    return load(spec)


def markdown(table: list[Row], time_limit: str) -> str:
    """Return the rows as a Markdown table, and how many of the proven instances are certified."""
    lines = [
        f"Certificates of the bounds of `auto` (one thread, {time_limit} s, and as long again for the "
        "certificate), confirmed by `lowtide verify --certificate`; `checked` counts states, claims or "
        "multipliers, `certify` and `check` are seconds. Made by "
        "`python results/reproductions/peak_certificates.py`.",
        "",
        "| " + " | ".join(COLUMNS) + " |",
        "|---|---:|---|---:|---|---:|---:|---|---:|---:|---:|",
    ]
    for found in table:
        cells = [found["instance"], f"{found['ops']:,}", found["status"], _number(found["bound"])]
        cells += [found["kind"] or "-", _number(found["checked"]), _number(found["bytes"])]
        cells += ["yes" if found["confirmed"] else "no"]
        cells += ["-" if found[key] is None else f"{found[key]:.2f}" for key in ("solve", "certify", "check")]
        lines.append("| " + " | ".join(cells) + " |")
    proven = [found for found in table if found["status"] == "optimal"]
    certified = sum(found["confirmed"] for found in proven)
    largest = max((found["bytes"] or 0 for found in table if found["confirmed"]), default=0)
    summary = f"{certified} of {len(proven)} proven instances are certified, by at most {largest:,} bytes."
    return "\n".join([*lines, "", summary]) + "\n"


def _number(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def main() -> None:
    """Solve, certify and confirm, one instance after another, then write the table's files."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("specs", nargs="*", metavar="SPEC", help="instances instead of those of the plans")
    parser.add_argument("--time-limit", default="60", metavar="SECONDS")
    parser.add_argument("--limit", default="200MB", metavar="SIZE", help="of a certificate")
    parser.add_argument("--out", type=Path, metavar="DIR", help="keep certificates and rows there")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = arguments.out or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        kept = folder / "rows.jsonl"
        done = [json.loads(line) for line in kept.read_text().splitlines()] if kept.exists() else []
        table: list[Row] = []
        for spec in arguments.specs or instances():
            found = next((old for old in done if old["instance"] == spec), None)
            if found is None:
                found = row(spec, folder, arguments.time_limit, arguments.limit)
                with kept.open("a") as file:
                    file.write(json.dumps(found) + "\n")
            table.append(found)
            print(*(f"{key} {found[key]}" for key in COLUMNS), sep=", ", file=sys.stderr, flush=True)
    text = markdown(table, arguments.time_limit)
    target = HERE if not arguments.specs else arguments.out
    if target is not None:
        write_table("peak_certificates", (*COLUMNS, "objective"), table, text, folder=target)
    print(text)


if __name__ == "__main__":
    main()
