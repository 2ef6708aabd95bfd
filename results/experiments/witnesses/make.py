"""Solve questions of the tables, and keep what witnesses their rows: plans, allocations, certificates.

Every question of the tables named by ``--only`` that has no witness yet is solved once by `auto`, or by a
method of its best row, one thread; with ``--optimal`` those alone of which a row says OPTIMAL. An answer that
is as good as the best row of any table joins the file of witnesses of the first table that has the question
(`lowtide.results.audits.witnesses`); ``lowtide audit results`` verifies all of them again. Of a file that
would be larger than `LARGEST`, the largest plans are left out, and the record says how they are made. Says
what was not reached, and what is better than any row: then either a table has to be made again, or something
is wrong.
"""

from __future__ import annotations

import json
import lzma
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import lowtide as lt

from ....instances import load_problem, read_answer, write_answer
from ....solvers.registry import ROOMS
from ...audits.claims import Claim, Question, best, is_maximized
from ...audits.evidence import read_claims
from ...audits.witnesses import (
    LARGEST,
    LARGEST_PLAN,
    WITNESSES,
    packed,
    plan_hash,
    read_witnesses,
    witness_of,
    write_witnesses,
)
from ...certificates import with_certificate
from ..running import HERE, from_folder, say

HINTS = {f"catalogue:minimalloc/{name}": HERE / f"offsets_heights/best/{name}.json" for name in "DJ"}
"""Answers from elsewhere that are better than what `auto` finds."""

KEEP_EVERY = 60.0
"""Seconds between two writings of the files; compressing 400 kB takes some seconds."""


def make(*, time_limit: float = 20, only: str = "", optimal: bool = False) -> None:
    """Solve what has no witness, and keep what holds a record; the limit is each question's."""
    claims = read_claims([HERE]).claims
    by_question: dict[Question, list[Claim]] = {}
    for claim in sorted(claims, key=lambda c: c.table or ""):
        by_question.setdefault(claim.question, []).append(claim)
    found: dict[str, list[dict[str, Any]]] = {}
    kept = time.monotonic()
    try:
        for table, some in questions(by_question, only):
            if optimal and all(claim.status != "optimal" for claim in some):
                break
            record = answered(some, HERE / table, time_limit)
            if record is not None:
                found[table] = [*_others(found.get(table) or read_known(table), some), record]
            if time.monotonic() - kept > KEEP_EVERY:
                keep_all(found)
                kept = time.monotonic()
    finally:  # an interruption keeps what is there
        keep_all(found)


def questions(by_question: Mapping[Question, list[Claim]], only: str) -> Iterator[tuple[str, list[Claim]]]:
    """Yield the first table and the claims of each question without a witness; optimal ones first."""
    some = [claims for claims in by_question.values() if not _is_witnessed(claims)]
    some.sort(key=lambda claims: all(c.status != "optimal" for c in claims))
    for claims in some:
        table = claims[0].table
        if table is not None and only in table:
            yield table, claims


def _is_witnessed(claims: Sequence[Claim]) -> bool:
    """Return whether some witness is as good as the best row."""
    known = best([c for c in claims if not c.witness])
    if known is None or known.objective is None:
        return True
    done = [c.objective for c in claims if c.witness and c.objective is not None]
    return any(_worse(objective, known.objective, known.problem) <= 0 for objective in done)


def read_known(table: str) -> list[dict[str, Any]]:
    """Return the witnesses that a table has."""
    path = HERE / table / WITNESSES
    return read_witnesses(path) if path.exists() else []


def _others(records: Sequence[dict[str, Any]], claims: Sequence[Claim]) -> list[dict[str, Any]]:
    """Return the witnesses of other questions, and those of the objective of some row of this one."""
    said = {c.objective for c in claims if not c.witness}
    return [
        r
        for r in records
        if (r["instance_sha256"], r["problem"]) != claims[0].question or r["objective"] in said
    ]


def answered(claims: Sequence[Claim], folder: Path, time_limit: float) -> dict[str, Any] | None:
    """Return a witness of the best objective of a question, or None if it was not reached."""
    known = best([c for c in claims if not c.witness])
    assert known is not None
    assert known.objective is not None
    spec, room = known.instance, ROOMS[known.problem]
    names = {method.name for method in room.methods}
    alike = [c.method for c in claims if c.objective == known.objective and c.method in names]
    problem: Any = load_problem(known.problem, spec)
    hint = HINTS.get(spec)
    given = None if hint is None else read_answer(hint).offsets  # type: ignore[union-attr]
    for method in dict.fromkeys(("auto", *alike)):
        result = lt.solve(problem, method, hint=given, threads=1, time_limit=time_limit)
        if result.reason == "interrupted":
            raise KeyboardInterrupt
        words = (
            f"{known.problem} {spec}: {method} {result.status} {result.objective}, known {known.objective}"
        )
        if result.objective is None or _worse(result.objective, known.objective, known.problem) > 0:
            say(f"not reached: {words}")
            continue
        if result.objective != known.objective:
            print(f"BETTER {words}", flush=True)
        with tempfile.TemporaryDirectory() as scratch:
            proof, plan = Path(scratch, "proof.json"), Path(scratch, "plan.json")
            if room.certify and result.bound is not None:
                result = with_certificate(
                    result, problem, str(proof), threads=1, limit=LARGEST, time_limit=time_limit
                )
            write_answer(result, plan, source=spec if result.allocation is not None else None)
            record = result.record()
            record |= {
                "instance": from_folder(spec, folder),
                "instance_sha256": problem.instance.sha256,
                "limits": {"seconds": time_limit, "threads": 1},
                "version": record["versions"]["lowtide"],
                "started": datetime.now(UTC).isoformat(timespec="seconds"),
            }
            certificate = json.loads(proof.read_text()) if proof.exists() else None
            return witness_of(record, json.loads(plan.read_text()), certificate)
    return None


def keep_all(found: Mapping[str, list[dict[str, Any]]]) -> None:
    """Write the witnesses of tables."""
    for table, records in found.items():
        keep(table, records)


def keep(table: str, records: Sequence[dict[str, Any]]) -> tuple[int, int]:
    """Write the witnesses of a table, without its largest plans if need be; return bytes, plans left out."""
    path = HERE / table / WITNESSES
    some = sorted(records, key=lambda r: (r["problem"], r["instance"], r["method"]))
    sizes = sorted((_size(r), i) for i, r in enumerate(some) if r.get("plan"))
    left_out = [i for size, i in sizes if size > LARGEST_PLAN]
    while True:
        for i in left_out:
            made = {"seed": 0, "limits": some[i]["limits"]}
            some[i] = {**some[i], "plan": None, "plan_sha256": plan_hash(some[i]["plan"]), "made": made}
        write_witnesses(path, some)
        sizes = [(size, i) for size, i in sizes if some[i]["plan"] is not None]
        if path.stat().st_size <= LARGEST or not sizes:
            return path.stat().st_size, len(some) - len(sizes)
        left_out = [i for _, i in sizes[-max(1, len(sizes) // 20) :]]


def _size(record: Mapping[str, Any]) -> int:
    return len(lzma.compress(json.dumps(packed(dict(record)), separators=(",", ":")).encode(), preset=1))


def _worse(objective: int, known: int, problem: str) -> int:
    return known - objective if is_maximized(problem) else objective - known
