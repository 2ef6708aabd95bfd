"""``lowtide list``: the problems, methods, instances and machines there are."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from .output import emit_json, emit_table, note
from .parser import add_verb

if TYPE_CHECKING:
    from .parser import Subparsers

WHAT = ("problems", "methods", "instances", "machines")


def add_parser(subparsers: Subparsers) -> None:
    """Add the verb."""
    parser = add_verb(
        subparsers,
        "list",
        run,
        examples=["lowtide list", "lowtide list methods peak", "lowtide list machines --json"],
    )
    parser.add_argument("what", nargs="?", choices=WHAT, help="only these (default: all)")
    parser.add_argument(
        "problem",
        nargs="?",
        metavar="PROBLEM",
        help="of methods: its own, with options and papers",
    )


def run(args: argparse.Namespace) -> int:
    """Print the lists."""
    from ..models.errors import UsageError
    from ..models.problems import PROBLEMS
    from .help import print_methods

    if args.problem is not None and (args.what != "methods" or args.problem not in PROBLEMS):
        expected = "none" if args.what != "methods" else f"one of {', '.join(PROBLEMS)}"
        raise UsageError(f"list {args.what}: found {args.problem!r}, expected {expected}")
    chosen = WHAT if args.what is None else (args.what,)
    listed = {"problems": _problems, "methods": _methods, "instances": _instances, "machines": _machines}
    listed_all = {what: listed[what]() for what in chosen}
    if args.problem is not None:
        listed_all["methods"] = [row for row in listed_all["methods"] if row["problem"] == args.problem]
    if args.json:
        emit_json(listed_all)
        return 0
    if args.problem is not None:
        print_methods(args.problem)
        return 0
    for what, rows in listed_all.items():
        groups = {what: rows} if what != "instances" else _by_scheme(rows)
        for title, group in groups.items():
            columns = [key for key in group[0] if key not in ("options", "source", "traits")]
            emit_table(columns, [[_text(row[c]) for c in columns] for row in group], title=title)
    return 0


def _problems() -> list[dict[str, Any]]:
    from ..models.problems import PROBLEMS

    return [
        {"name": name, "objective": problem.unit, "question": (problem.__doc__ or "").splitlines()[0]}
        for name, problem in PROBLEMS.items()
    ]


def _methods() -> list[dict[str, Any]]:
    from ..solvers.registry import methods, registered
    from .help import as_dict

    for fault in registered().faults.values():
        note(fault)
    return [as_dict(m) for m in methods()]


def _instances() -> list[dict[str, Any]]:
    from ..instances import list_instances

    return [{"instance": spec, "description": text} for spec, text in list_instances()]


def _machines() -> list[dict[str, Any]]:
    from ..instances.machines import machine_names

    return [{"machine": name, "description": text} for name, text in machine_names().items()]


def _by_scheme(rows: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Return the instances in one table per scheme: the width of one does not spread the others."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault(f"instances, {row['instance'].partition(':')[0]}", []).append(row)
    return groups


def _text(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)
