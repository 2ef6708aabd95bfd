"""Solve questions of the tables again, and keep the answers that hold a record: plans, certificates, records.

Of the tables in `CHOSEN` (``--only``: of those whose name contains a text) every question is solved once by
`auto`, one thread. An answer that is as good as the best row of any table is kept: a plan or an allocation in
``plans``, the proof of the bound, where there is a kind of certificate, in ``certificates``, and the run
record in ``records.jsonl``; ``lowtide audit results`` verifies all of them again. Answers and proofs above
`LARGEST` bytes are not kept. Says what was not reached, and what is better than any row: then either a table
has to be made again, or something is wrong.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import lowtide as lt

from ....instances import load_problem, read_answer, write_answer
from ....instances.spec import resolved_spec
from ....solvers.registry import ROOMS
from ...audits.audit import best
from ...audits.claims import Claim, is_maximized
from ...audits.evidence import read_claims
from ...certificates import with_certificate
from ...tables.declared import TABLE, read_declared
from ..running import HERE, read_rows, say

FOLDER = HERE / "answers"
LARGEST = 100_000
"""Bytes of a file that is kept."""

CHOSEN: tuple[tuple[str, str, dict[str, int]], ...] = (
    ("peak_networks", "", {}),
    ("peak_compilers", "", {}),
    ("peak_versus", "", {}),
    ("peak_scale", "", {"ops": 1000}),
    ("trees", "", {"nodes": 250}),
    ("offsets_heights", "", {"count": 1000}),
    ("minio", "", {"nodes": 300}),
    ("makespan_exact", "seed=0&", {}),
    ("parallel_edges", "seed=0&", {}),
    ("parallel_runtime", "", {}),
    ("placement_chains", "skipchain", {"ops": 50, "seed": 3}),
    ("placement_g10", "bert|vit", {}),
    ("recompute_chains", "", {"n": 6}),
    ("recompute_graphs", "", {"seconds": 20}),
)
"""Tables, what the specifications of their questions contain, and the most that cells may be."""

HINTS = {f"catalogue:minimalloc/{name}": HERE / f"offsets_heights/best/{name}.json" for name in "DJ"}
"""Answers from elsewhere that are better than what `auto` finds."""

METHODS = {"placement_chains": "slot-lp"}
"""Where it is not `auto`."""


def questions(only: str) -> Iterator[tuple[str, str, str, str]]:
    """Yield table, problem, specification and hash of each question that is chosen, each once."""
    declared = read_declared(HERE)
    assert declared is not None
    seen = set()
    for name, pattern, most in CHOSEN:
        for row in read_rows(name) if only in name else ():
            if any((row[key] or 0) > value for key, value in most.items()):
                continue
            for question in declared[name].questions:
                spec, sha256 = row[question.column], row[question.sha256]
                if sha256 and re.search(pattern, spec) and (question.problem, sha256) not in seen:
                    seen.add((question.problem, sha256))
                    yield name, question.problem, spec, sha256


def answered(table: str, problem: str, spec: str, time_limit: float) -> tuple[dict[str, Any], Any]:
    """Return the record of a solve, its plan and certificate not yet named, and its result."""
    asked: Any = load_problem(problem, resolved_spec(spec, os.path.relpath(HERE / table)))
    method, hint = METHODS.get(table, "auto"), HINTS.get(spec)
    given = None if hint is None else read_answer(hint).offsets  # type: ignore[union-attr]
    result = lt.solve(asked, method, hint=given, threads=1, time_limit=time_limit)
    name = f"{problem}-{asked.instance.sha256[:16]}.json.gz"
    certificate = FOLDER / "certificates" / name
    if ROOMS[problem].certify and result.bound is not None and result.objective is not None:
        result = with_certificate(
            result, asked, str(certificate), threads=1, limit=LARGEST, time_limit=time_limit
        )
    record = result.record()
    trace = record.pop("trace")
    record |= {
        "name": name.removesuffix(".json.gz"),
        "instance": resolved_spec(spec, f"../{table}"),
        "instance_sha256": asked.instance.sha256,
        "unit": result.unit,
        "trace": trace[-1:],
        "limits": {"seconds": time_limit, "threads": 1},
        "version": record["versions"]["lowtide"],
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    record.pop("edges", None)  # they are in the certificate
    if record["certificate"] is not None and record["certificate"]["path"] is not None:
        record["certificate"]["path"] = f"certificates/{name}"
    return record, result


def kept(record: dict[str, Any], result: Any) -> bool:
    """Write the answer of a record; return False if it is too large."""
    path = FOLDER / "plans" / f"{record['name']}.json.gz"
    path.parent.mkdir(parents=True, exist_ok=True)
    source = (
        resolved_spec(record["instance"], os.path.relpath(FOLDER)) if result.allocation is not None else None
    )
    write_answer(result, path, source=source)
    if path.stat().st_size > LARGEST:
        path.unlink()
        return False
    record["plan"] = f"plans/{path.name}"
    return True


def forget(records: dict[str, dict[str, Any]], name: str) -> None:
    """Remove a record and its files, if they are there."""
    records.pop(name, None)
    for kind in ("plans", "certificates"):
        (FOLDER / kind / f"{name}.json.gz").unlink(missing_ok=True)


def make(*, time_limit: float = 20, only: str = "") -> None:
    """Solve what is chosen, keep what holds a record, say what does not; the limit is each question's."""
    (FOLDER / "certificates").mkdir(parents=True, exist_ok=True)
    by_question: dict[tuple[str, str], list[Claim]] = {}
    for claim in read_claims(sorted(HERE.glob(f"*/{TABLE}"))).claims:
        by_question.setdefault(claim.question, []).append(claim)
    file = FOLDER / "records.jsonl"
    old = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    records = {record["name"]: record for record in old}
    for name, record in list(records.items()):
        if (record["instance_sha256"], record["problem"]) not in by_question:
            print(f"no question of a table any more: {name}", flush=True)
            forget(records, name)
    for table, problem, spec, sha256 in questions(only):
        record, result = answered(table, problem, spec, time_limit)
        known = best(by_question[sha256, problem])
        value, aim = record["objective"], None if known is None else known.objective
        words = f"{problem} {spec}: {record['status']} {value}, bound {record['bound']}, known {aim}"
        worse = value is None or (aim is not None and (value < aim if is_maximized(problem) else value > aim))
        if aim is not None and value is not None and value != aim and not worse:
            print(f"BETTER {words}", flush=True)
        if worse or not kept(record, result):
            print(f"not kept {words}", flush=True)
            forget(records, record["name"])
            continue
        records[record["name"]] = record
        say(f"{len(records)} {words}")
        file.write_text("".join(f"{json.dumps(records[key])}\n" for key in sorted(records)))
