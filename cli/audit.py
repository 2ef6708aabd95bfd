"""``lowtide audit``: look for records that contradict each other, and plans that belie theirs."""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from .output import emit_json, emit_pairs, emit_table, note
from .parser import add_verb

if TYPE_CHECKING:
    from ..results.audits.findings import Audit
    from .parser import Subparsers

PLANS = ("all", "optimal", "none")
SHOWN = 5
"""Records that a line of the table names; ``--json`` names all."""


def add_parser(subparsers: Subparsers) -> None:
    """Add the verb."""
    parser = add_verb(
        subparsers,
        "audit",
        run,
        details=(
            "Records about the same graph and problem are compared with each other, with the best-known\n"
            "file and with the catalogue; plans and certificates are verified again, and the instances of\n"
            "tables loaded. Exit status 1 if anything is wrong, or a table cannot be read."
        ),
        examples=["lowtide audit runs/peak results/", "lowtide audit runs/peak --plans optimal --json"],
    )
    parser.add_argument(
        "paths",
        nargs="*",
        metavar="PATH",
        help="experiments, run records, tables (.csv, .jsonl), best-known files, or folders around them; "
        "without any, the best-known file and the catalogue are compared",
    )
    parser.add_argument(
        "--plans", choices=PLANS, default="all", help="which plans to verify again (default all)"
    )
    parser.add_argument(
        "--jobs", type=int, default=2, metavar="N", help="processes that load and verify (default 2)"
    )
    parser.add_argument(
        "--again",
        type=float,
        default=0,
        metavar="SECONDS",
        help="make a sample of rows again in that time: of those that no plan or certificate shows",
    )
    parser.add_argument(
        "--draw", metavar="TEXT", help="what the sample is drawn by (default: the hash of the commit)"
    )
    parser.add_argument("--best-known", metavar="FILE", help="default: the package's")
    parser.add_argument("--quiet", action="store_true", help="show no progress")


def run(args: argparse.Namespace) -> int:
    """Compare, verify and list."""
    from ..results.audits.again import commit_of
    from ..results.audits.audit import audit
    from ..results.audits.best_known import FOLDER

    report = audit(
        args.paths,
        best_known=args.best_known or FOLDER,
        plans=args.plans,
        jobs=args.jobs,
        again=args.again,
        draw=commit_of(Path(args.paths[0] if args.paths else ".")) if args.draw is None else args.draw,
        progress=(lambda line: None) if args.quiet else note,
    )
    if args.json:
        emit_json(
            {
                "consistent": not report.contradictions,
                "records": report.records,
                "questions": report.questions,
                "plans_verified": report.plans,
                "certificates_verified": report.certificates,
                "without_plan": report.without_plan,
                "best_with_plan": report.best_with_plan,
                "instances_loaded": report.instances,
                "unwitnessed": _counts(report),
                "unwitnessed_by_table": {table: dict(counts) for table, counts in report.unwitnessed.items()},
                "made_again": report.again,
                "contradictions": [c.to_dict() for c in report.contradictions],
                "unchecked": [{"record": who, "reason": why} for who, why in report.unchecked],
                "tables": report.tables,
                "no_claims": [{"table": table, "reason": why} for table, why in report.no_claims],
                "rows_elsewhere": report.elsewhere,
            }
        )
    else:
        _print(report)
    return 1 if report.contradictions else 0


def _counts(found: Audit) -> dict[str, int]:
    """Return how many rows have no witness, by what is lacking."""
    return dict(sum(found.unwitnessed.values(), Counter[str]()))


def _print(audit: Audit) -> None:
    count = len(audit.contradictions)
    rows = [
        ("records", f"{audit.records:,} about {audit.questions:,} questions"),
        ("plans", f"{audit.plans:,} verified again, {audit.certificates:,} certificates confirmed again"),
        ("best", f"of {audit.best_with_plan:,} questions the best objective has such a plan"),
    ]
    if audit.without_plan:
        rows.append(("without plan", f"{audit.without_plan:,} records with an objective"))
    counts = _counts(audit)
    if counts:
        text = ", ".join(f"{number:,} {words}" for words, number in counts.items())
        rows.append(("no witness", f"rows of committed tables: {text}"))
    if audit.again:
        rows.append(("made again", f"{audit.again:,} rows, the same came out"))
    if audit.unchecked:
        rows.append(("unchecked", f"{len(audit.unchecked):,} plans, listed below"))
    if audit.tables or audit.no_claims:
        rows.append(("tables", f"{len(audit.tables):,} read, {audit.instances:,} instances loaded"))
    if audit.elsewhere:
        rows.append(("elsewhere", f"{audit.elsewhere:,} rows about instances that are not at hand"))
    for table, why in audit.no_claims:
        rows.append(("no claims", f"{table}: {why}"))
    valid = "valid: no contradiction"
    if counts:
        valid += f"; {sum(counts.values()):,} rows have no witness"
    rows.append(("verdict", f"invalid: {count:,} contradiction{'s' * (count > 1)}" if count else valid))
    emit_pairs(rows)
    if audit.unchecked:
        emit_table(["plan of", "why not verified"], [list(row) for row in audit.unchecked], title="unchecked")
    if count:
        emit_table(
            ["kind", "instance", "problem", "what", "records"],
            [
                [c.kind, c.instance or "-", c.problem or "-", c.message, _names(c.records)]
                for c in audit.contradictions
            ],
            title="contradictions",
        )


def _names(records: tuple[str, ...]) -> str:
    more = len(records) - SHOWN
    return "; ".join(records[:SHOWN]) + (f" and {more} more" if more > 0 else "")
