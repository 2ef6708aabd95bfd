"""``lowtide solve``: run a method on a problem, have the plan verified, print the run record."""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ..results.certificates import LIMIT, with_certificate
from . import certificates, joint, largest, parallel, parts, problem_flags, sweep_memory
from .certificates import certificate_line
from .files import check_outputs
from .output import emit_json, emit_pairs, note
from .parser import (
    SPEC_HELP,
    Parser,
    add_common,
    add_method_options,
    add_verb,
    seconds_or_none,
    size,
    unique,
    whole_number,
)
from .progress import Progress, loading

if TYPE_CHECKING:
    from ..models.result import Result
    from .parser import Subparsers

EXAMPLES = (
    "lowtide solve peak 'onnx:resnet50?train=1' --time-limit 60 --plan plan.json",
    "lowtide solve peak graph.json.gz --method cpsat --hint plan.json --json",
    "lowtide solve peak graph.json.gz --certificate proof.json.gz",
    "lowtide solve offsets buffers.csv --capacity 1MiB --plan solution.csv",
    "lowtide solve offsets plan.json --plan allocated.json",
    "lowtide solve placement graph.json.gz --machine a100-40g-pcie3 --device 24GiB --periodic",
    "lowtide solve placement graph.json.gz --machine a100-40g-pcie3 --periodic --start input=ssd",
    "lowtide solve placement graph.json.gz --machine m.toml --periodic --certificate proof.json.gz",
    "lowtide solve placement 'onnx:resnet50?train=1' --machine a100-40g-pcie3 --periodic --largest batch",
    "lowtide solve makespan graph.json.gz --processors 4 --memory 12GiB --plan schedule.json",
    "lowtide solve makespan graph.json.gz --processors 4 --sweep-memory 8 --plot curve.svg",
    "lowtide solve parallel-memory graph.json.gz --bound 12GiB --apply new.json.gz --simulate 1000",
    "lowtide solve memory-edges graph.json.gz --bound 12GiB --processors 4",
    "lowtide solve recompute 'gen:backprop-chain?l=5&accounting=replace' --memory 4 --plan plan.json",
    "lowtide solve pipeline catalogue:gpt2-medium-train --stages 4 --micro 8 --memory 6GB --plan plan.json",
    "lowtide solve minio 'gen:harpoon?levels=3' --memory 903 --whole",
)

ABSENT = (
    *("apply", "bound", "certificate", "certificate_limit", "largest", "machine", "plot"),
    *("merge", "simulate", "stages", "sweep_memory", "target"),
)
"""Flags that are looked at whatever the problem; None where it does not have them."""

MERGE = (
    "of the merges that the graph states (of convolutions that read the same) those that make stages fastest"
)

LEAST_SECONDS = 0.001
"""What is left to a method where choosing merges took all of the time."""


def add_parser(subparsers: Subparsers) -> None:
    """Add the verb, and for each problem a parser with the flags that it has."""
    from ..solvers.registry import ROOMS

    parser = add_verb(
        subparsers,
        "solve",
        run,
        details="What each takes says lowtide solve PROBLEM --help.\n"
        "Exit status 1 if it is infeasible or failed; Ctrl-C keeps the best plan so far.",
        examples=EXAMPLES,
    )
    for name, own, group in problem_flags.add_problems(parser, _common, EXAMPLES):
        own.set_defaults(**dict.fromkeys(ABSENT))
        if ROOMS[name].certify:
            certificates.add_flags(group)
        if ROOMS[name].trade_off:
            sweep_memory.add_flags(group)
        if ROOMS[name].largest:
            largest.add_flags(group, target=bool(ROOMS[name].ideal))
        if ROOMS[name].merges:
            group.add_argument("--merge", action="store_true", default=None, help=MERGE)
        if ROOMS[name].joint:
            joint.add_flags(group)
        if parallel.has_edges(name):
            parallel.add_flags(group)


def _common() -> Parser:
    """Return the parser of what is the same for every problem."""
    parser = Parser(add_help=False)
    add_common(parser)
    parser.add_argument("spec", help=SPEC_HELP)
    parser.add_argument("--method", default="auto", help="see lowtide list methods (default auto)")
    parser.add_argument(
        "--time-limit",
        type=seconds_or_none,
        default=60.0,
        metavar="SECONDS",
        help="of building and solving, or none (default 60)",
    )
    parser.add_argument("--seed", type=whole_number(0), default=0, help="for everything random (default 0)")
    parser.add_argument(
        "--threads", type=whole_number(1), metavar="N", help="default: the cores this process may use"
    )
    parser.add_argument("--memory-limit", type=size, metavar="SIZE", help="for the solver, such as 4GiB")
    parser.add_argument(
        "--hint",
        metavar="PLAN",
        help="start from this plan (verified first); memory-edges also from a graph with edges, a "
        "certificate or a run record, streams from a schedule of IOS",
    )
    parser.add_argument(
        "--plan", metavar="FILE", help="write the plan or the allocation, .json(.gz); allocations also .csv"
    )
    add_method_options(parser, "an option of the method or of the solver under it")
    parser.add_argument(
        "--show-parts",
        "--parts",  # not of streams, where devices have parts
        action="store_true",
        help="show which part of the method had the time, and what it improved (--json always has it)",
    )
    parser.add_argument("--log", metavar="FILE", help="keep the solver's own log")
    shown = parser.add_mutually_exclusive_group()
    shown.add_argument("--progress", action="store_true", help="show every step, also in a pipe")
    shown.add_argument("--quiet", action="store_true", help="show no progress")
    return parser


def run(args: argparse.Namespace) -> int:
    """Solve and print the result."""
    from ..instances import load_problem, read_hint
    from ..solvers.context import available_cores
    from ..solvers.registry import find_method
    from ..solvers.solve import solve

    args.problem = problem_flags.asked_problem(args)
    sweeps = args.sweep_memory is not None
    outputs = {"--plan": None if sweeps else args.plan}
    outputs |= {f"--{key}": getattr(args, key) for key in ("log", "certificate", "apply", "plot")}
    check_outputs(outputs, (args.spec, args.hint, args.machine))
    _check_flags(args)
    options = unique(args.solver_option, "--solver-option")
    find_method(args.problem, args.method)
    cores = available_cores()
    if args.threads is not None and args.threads > cores:
        note(f"{args.threads} threads share {cores} cores")
    started = time.perf_counter()
    given = problem_flags.given(args)
    if args.largest is not None:
        check_outputs(outputs)
        return largest.run(args, given, options)
    if args.stages is not None:
        check_outputs(outputs)
        return _report(args, *joint.solved(args, given))
    with loading(args.spec, quiet=args.quiet):
        problem: Any = load_problem(args.problem, args.spec, **given)
    if args.merge:
        problem = _merged(args, problem, given)
    if sweeps:
        check_outputs(outputs)
        return sweep_memory.run(args, problem, options)
    hint: object = None
    if args.hint is not None and problem.answers == "edges":
        hint = parallel.read_edges(args.hint)
    elif args.hint is not None:
        hint = read_hint(args.hint, problem)
    check_outputs(outputs)
    loaded = time.perf_counter() - started
    with Progress(quiet=args.quiet, always=args.progress, unit=problem.unit) as progress:
        result = solve(
            problem,
            args.method,
            time_limit=args.time_limit,
            seed=args.seed,
            threads=args.threads,
            memory_limit=args.memory_limit,
            hint=hint,
            options=options,
            log=args.log,
            progress=progress,
        )
        if {args.certificate, args.simulate, args.apply} != {None}:
            _write_plan(args, result)  # before anything that may end badly
        if args.certificate is not None:
            result = with_certificate(
                result,
                problem,
                args.certificate,
                threads=args.threads,
                seed=args.seed,
                limit=args.certificate_limit or LIMIT,
                time_limit=args.time_limit,
                memory_limit=args.memory_limit,
                progress=progress,
            )
        simulated = None
        if args.simulate is not None and result.reason != "interrupted":
            with suppress(KeyboardInterrupt):  # what was solved is kept
                simulated = parallel.simulated(result, problem, args, progress)
    if args.apply is not None and is_verified(result):
        parallel.write_with_edges(result, args.apply)
    if simulated is None:
        return _report(args, result, loaded)
    return _report(args, result, loaded, {"simulated": simulated.record()}, simulated.rows())


def _check_flags(args: argparse.Namespace) -> None:
    """Raise `UsageError` if a flag lacks another one that it needs, or a file to write has a wrong ending."""
    from ..instances.answers import check_ending
    from ..models.errors import UsageError

    if args.certificate is None and args.certificate_limit is not None:
        raise UsageError("solve: found --certificate-limit without --certificate, expected both")
    for path in (args.certificate, args.apply):
        if path is not None and not path.endswith((".json", ".json.gz")):
            raise UsageError(f"{path}: found an unknown ending, expected .json or .json.gz")
    if args.plan is not None and args.sweep_memory is None:
        check_ending(args.problem, args.plan)
    for verb in (sweep_memory, largest, joint):
        verb.check_flags(args)


def _report(
    args: argparse.Namespace,
    result: Result,
    loaded: float,
    more: Mapping[str, Any] | None = None,
    rows: Sequence[tuple[str, str]] = (),
) -> int:
    """Write the plan, print the record, and `more` in it or `rows` below; return the exit status."""
    plan_path = _write_plan(args, result)
    if args.json:
        emit_json({**run_record(result, loaded, plan_path), **(more or {})})
    else:
        emit_pairs([*summary(result, loaded, plan_path), *rows])
        if args.show_parts:
            print("", *parts.picture(result), sep="\n")
    return exit_status(result)


def _write_plan(args: argparse.Namespace, result: Result) -> str | None:
    """Write the plan if one was asked for and found; return where it is."""
    from ..instances import write_answer

    if args.plan is None or not is_verified(result):
        return None
    write_answer(result, args.plan)
    return str(args.plan)


def _merged(args: argparse.Namespace, problem: Any, given: dict[str, object]) -> Any:
    """Return the question of the graph with its best merges, found in half of the time; name them."""
    from ..instances import load_problem
    from ..instances.spec import parse_spec
    from ..models.derived.merging import text_of
    from ..models.errors import UsageError
    from ..solvers.method import load
    from ..solvers.registry import ROOMS

    if stated := parse_spec(args.spec).options.get("merge"):
        raise UsageError(f"--merge: found merge={stated} in the source too, expected one of the two")
    began, limit = time.monotonic(), args.time_limit
    sets = load(ROOMS[args.problem].merges)(
        problem, expired=lambda: limit is not None and time.monotonic() - began > limit / 2
    )
    if limit is not None:
        args.time_limit = max(LEAST_SECONDS, limit - (time.monotonic() - began))
    text = text_of(problem.graph, sets)
    note(f"merged: {text or 'nothing'}")
    return load_problem(args.problem, args.spec, **{**given, "parts": problem.parts, "merge": text})


def is_verified(result: Result) -> bool:
    """Return whether there is a plan and the verifier found no fault in it."""
    return result.verification is not None and result.verification.valid


def exit_status(result: Result) -> int:
    """Return 0 if something was found or nothing was proved, 1 if infeasible or failed, 130 if stopped."""
    if result.status in ("infeasible", "failed"):
        return 1
    return 130 if result.reason == "interrupted" and result.objective is None else 0


def run_record(result: Result, loaded: float, plan_path: str | None) -> dict[str, Any]:
    """Return what ``solve --json`` prints; a phase that was not timed on its own is None."""
    record = result.record(plan_path)
    seconds = {"load": round(loaded, 6), "build": None, "solve": None, "verify": None}
    return {**record, "seconds": {**seconds, **record["seconds"]}}


def summary(result: Result, loaded: float, plan_path: str | None) -> list[tuple[str, str]]:
    """Return names and values for people."""
    from ..models.units import exact_value, format_gap

    stopped = f", stopped by {result.reason}" if result.reason in ("time", "memory") else ""
    stopped = {"interrupted": ", interrupted", "exhausted": ", search exhausted"}.get(
        result.reason or "", stopped
    )
    rows = [
        ("instance", result.instance),
        ("problem", result.problem),
        ("method", result.method),
        ("status", f"{result.status}{stopped}"),
    ]
    if result.detail:
        rows.append(("detail", result.detail))
    if result.objective is not None:
        rows.append(("objective", exact_value(result.objective, result.unit)))
    if result.bound is not None:
        proof = {"exact": "exact", "floating": "floating-point"}.get(result.proof or "", "unknown")
        kind = "" if result.bound_kind is None else f" by {result.bound_kind}"
        rows.append(("bound", f"{exact_value(result.bound, result.unit)}{kind}, proof {proof}"))
        rows.append(("gap", format_gap(result.gap)))
    rows += [(fact.name, fact.text) for fact in result.about]
    if result.durations is not None:
        rows.append(("durations", result.durations))
    rows.append(("verified", "yes" if is_verified(result) else "no"))
    seconds = {"load": loaded, **result.seconds}
    rows.append(("seconds", ", ".join(f"{phase} {value:.2f}" for phase, value in seconds.items())))
    if plan_path is not None:
        rows.append(("plan", plan_path))
    if result.certificate is not None:
        rows.append(("certificate", certificate_line(result)))
    return rows
