"""Certificates of the instances of two experiments: of which kind, how large, how long they take.

Each instance of `peak_networks` and `peak_scale` is solved by `auto` with one thread and a certificate; a
second process then confirms the file.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from typing import Any

from ...tables.spec import Column, Fields, Row, TableSpec
from ..running import Case, instances_of

SECONDS = 60
"""Time limit of each solve of the table, in seconds."""
LARGEST = "200MB"
"""Of a certificate."""

TABLE = TableSpec(
    (
        *(Column("instance"), Column("ops", kind=","), Column("status"), Column("bound", kind=",")),
        *(Column("kind"), Column("checked", kind=","), Column("bytes", kind=",")),
        Column("confirmed", lambda row: "yes" if row["confirmed"] else "no"),
        *(Column(key, kind=".2f") for key in ("solve", "certify", "check")),
    )
)


def cases() -> Iterator[Case]:
    """Yield a case for each instance of the two experiments."""
    for spec in dict.fromkeys(instances_of("peak_networks") + instances_of("peak_scale")):
        yield Case(spec, partial(certified, spec))


def answer(*arguments: str) -> dict[str, Any]:
    """Return what a call of the command line prints as JSON; its progress goes to standard error."""
    words = [sys.executable, "-m", "lowtide", *arguments, "--json"]
    done = subprocess.run(words, stdout=subprocess.PIPE, check=False)
    if done.returncode not in (0, 1):
        raise SystemExit(done.returncode)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def certified(spec: str) -> list[Row]:
    """Solve an instance, write its certificate and have it confirmed."""
    from ....instances import load

    limits = ("--time-limit", str(SECONDS), "--threads", "1", "--certificate-limit", LARGEST)
    with tempfile.TemporaryDirectory() as scratch:
        file = f"{scratch}/proof.json.gz"
        record = answer("solve", "peak", spec, *limits, "--certificate", file)
        told, seconds = record["certificate"], record["seconds"]
        verdict: Row = {"valid": False, "checked": None}
        if told["path"] is not None:
            verdict = answer("verify", "--certificate", file)
    return [
        {
            "instance": spec,
            "ops": len(load(spec).ops),
            "status": record["status"],
            "bound": record["bound"],
            "kind": told["kind"],
            "checked": verdict["checked"],
            "bytes": told["bytes"],
            "confirmed": verdict["valid"],
            "solve": round(seconds["solve"], 2),
            "certify": None if seconds.get("certify") is None else round(seconds["certify"], 2),
            "check": None if verdict.get("seconds") is None else round(verdict["seconds"], 2),
            "objective": record["objective"],
        }
    ]


def text(table: list[Row]) -> Fields:
    """Return the rows, and how many of the proven instances are certified."""
    proven = [row for row in table if row["status"] == "optimal"]
    largest = max((row["bytes"] or 0 for row in table if row["confirmed"]), default=0)
    return {
        "table": TABLE.of(table),
        "certified": sum(row["confirmed"] for row in proven),
        "proven": len(proven),
        "largest": largest,
    }
