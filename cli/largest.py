"""``lowtide solve PROBLEM … --largest NAME``: the greatest number that a graph can be made with."""

from __future__ import annotations

import argparse
from fractions import Fraction
from functools import lru_cache
from typing import Any

from .output import emit_json, emit_pairs
from .parser import refuse_useless
from .progress import Progress

_USELESS = ("certificate", "hint", "log")
"""Flags of a single plan."""


def add_flags(parser: argparse._ActionsContainer, *, target: bool) -> None:
    """Add the flags of the search."""
    parser.add_argument(
        "--largest",
        metavar="NAME",
        help="the largest NAME, such as batch, of the instance that has a plan, and the proof that one more "
        "has none, where there is one (--time-limit is for each plan; --plan takes that of the largest)",
    )
    if target:
        parser.add_argument(
            "--target",
            type=Fraction,
            metavar="RATIO",
            help="with --largest: such a plan takes at most so many times the sum of the durations",
        )


def check_flags(args: argparse.Namespace) -> None:
    """Raise `UsageError` at flags that do not go together."""
    from ..models.errors import UsageError

    if args.largest is None:
        if args.target is not None:
            raise UsageError("solve: found --target without --largest, expected both")
        return
    refuse_useless(args, "--largest", _USELESS)


def run(args: argparse.Namespace, given: dict[str, object], options: dict[str, str]) -> int:
    """Search, and print what fits and what is refuted."""
    from ..instances import load_problem, write_answer
    from ..models.problems import PROBLEMS
    from ..models.problems.problem import Problem
    from ..models.units import exact_value
    from ..solvers.largest import largest

    name: str = args.problem

    @lru_cache(2)
    def problem_of(number: int) -> Problem:
        return load_problem(name, args.spec, **{**given, args.largest: number})

    with Progress(quiet=args.quiet, always=args.progress, unit=PROBLEMS[name].unit) as progress:
        answer = largest(
            problem_of,
            target=args.target,
            method=args.method,
            time_limit=args.time_limit,
            seed=args.seed,
            threads=args.threads,
            memory_limit=args.memory_limit,
            options=options,
            progress=progress,
        )
    result = answer.result
    if args.plan is not None and result is not None:
        write_answer(result, args.plan)
    if args.json:
        record: dict[str, Any] = {
            "parameter": args.largest,
            "largest": answer.number,
            "target": None if args.target is None else float(args.target),
            "refuted": answer.refuted,
            "certified": answer.certified,
            "reason": answer.reason,
            "next": answer.next,
            "result": None if result is None else result.record(args.plan),
        }
        emit_json(record)
    else:
        rows = [("largest", f"{args.largest}={answer.number}" if answer.number else "none found")]
        if result is not None and result.objective is not None:
            rows += [("instance", result.instance), ("objective", exact_value(result.objective, result.unit))]
        if answer.refuted is not None:
            rows += [("refuted", f"{args.largest}={answer.refuted}"), ("because", answer.reason)]
        rows.append(("one more", "refuted" if answer.certified else f"open: {answer.next or 'not tried'}"))
        emit_pairs(rows)
    return 0 if answer.number else 1
