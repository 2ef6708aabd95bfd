"""``lowtide solve``: run a method on a problem, have the plan verified, print the run record."""

from __future__ import annotations

import argparse
import time
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from . import sweep_memory
from .certificates import LIMIT, certificate_line, with_certificate
from .files import check_outputs
from .output import emit_json, emit_pairs, note
from .parallel import PARALLEL, parallel_rows, read_edges, simulated, write_with_edges
from .parser import SPEC_HELP, add_verb, key_value, processors, seconds_or_none, size, unique, whole_number
from .progress import Progress
from .recompute import recompute_rows
from .start import add_start, start_options, start_words

if TYPE_CHECKING:
    from ..models.result import Result
    from .parser import Subparsers


OWN_FLAGS = {
    "offsets": ("capacity",),
    "placement": ("machine", "device", "host", "periodic", "whole", "start"),
    "makespan": ("processors", "memory", "sweep_memory", "plot"),
    "parallel-memory": ("processors", "bound", "apply", "simulate"),
    "memory-edges": ("processors", "bound", "apply", "simulate"),
    "recompute": ("memory", "slots", "machine", "sweep_memory", "plot"),
    "minio": ("memory", "whole"),
}
"""Flags that only some problems have."""

NO_OPTIONS = ("apply", "simulate", "sweep_memory", "plot", "start")
"""Those of them that are no options of their instances."""

CERTIFIED = ("peak", "placement", *PARALLEL)
"""Problems whose bounds have certificates."""


def add_parser(subparsers: Subparsers) -> None:
    """Add the verb."""
    parser = add_verb(
        subparsers,
        "solve",
        run,
        "solve a problem",
        details="Exit status 1 if it is infeasible or failed; Ctrl-C keeps the best plan so far.",
        examples=[
            "lowtide solve peak 'onnx:resnet50?train=1' --time-limit 60 --plan plan.json",
            "lowtide solve peak graph.json.gz --method cpsat --hint plan.json --json",
            "lowtide solve peak graph.json.gz --certificate proof.json.gz",
            "lowtide solve offsets buffers.csv --capacity 1MiB --plan solution.csv",
            "lowtide solve offsets plan.json --plan allocated.json",
            "lowtide solve placement graph.json.gz --machine a100-40g-pcie3 --device 24GiB --periodic",
            "lowtide solve placement graph.json.gz --machine a100-40g-pcie3 --periodic --start input=ssd",
            "lowtide solve makespan graph.json.gz --processors 4 --memory 12GiB --plan schedule.json",
            "lowtide solve makespan graph.json.gz --processors 4 --sweep-memory 8 --plot curve.svg",
            "lowtide solve recompute 'gen:backprop-chain?l=5&accounting=replace' --memory 4 --plan plan.json",
            "lowtide solve minio 'gen:harpoon?levels=3' --memory 903 --whole",
            "lowtide solve parallel-memory graph.json.gz --bound 12GiB --apply new.json.gz --simulate 1000",
            "lowtide solve placement graph.json.gz --machine m.toml --periodic --certificate proof.json.gz",
        ],
    )
    parser.add_argument("problem", help="see lowtide list problems")
    parser.add_argument("spec", help=SPEC_HELP)
    parser.add_argument(
        "--capacity", type=size, metavar="SIZE", help="offsets: any allocation within it will do"
    )
    parser.add_argument(
        "--machine",
        metavar="NAME",
        help="placement, recompute: a bundled machine, or a .toml or .json file",
    )
    parser.add_argument(
        "--device", type=size, metavar="SIZE", help="placement: capacity of the machine's first tier"
    )
    parser.add_argument(
        "--host", type=size, metavar="SIZE", help="placement: capacity of the machine's second tier"
    )
    parser.add_argument(
        "--periodic", action="store_true", help="placement: the steady state, the end like the start"
    )
    parser.add_argument(
        "--whole", action="store_true", help="placement, minio: copies move whole tensors, uninterrupted"
    )
    add_start(
        parser,
        "placement: tiers where tensors of a kind may be at time 0, or anywhere; repeatable; kinds that are "
        "not named may start in every tier (default: everything anywhere with --periodic, else inputs in the "
        "last tier)",
    )
    parser.add_argument(
        "--processors",
        type=processors,
        metavar="N",
        help="makespan: identical processors (default 1), or kinds with counts as in cpu=4,gpu=1; "
        "parallel-memory: at most (default any number)",
    )
    parser.add_argument(
        "--memory",
        type=size,
        metavar="SIZE",
        help="makespan: of all processors (default: no limit); recompute: the fast memory; minio: the memory",
    )
    parser.add_argument(
        "--slots",
        type=whole_number(0),
        metavar="N",
        help="recompute: as much fast memory as the largest op needs, and N tensors, all of one size",
    )
    parser.add_argument(
        "--sweep-memory",
        type=whole_number(2),
        metavar="N",
        help="makespan, recompute: the fastest plan within each of N memories, from the least to what is "
        "enough for the fastest (--time-limit is for all together; --plan FOLDER takes a plan for each)",
    )
    parser.add_argument("--plot", metavar="FILE", help="with --sweep-memory: a picture, .svg, .png or .pdf")
    parser.add_argument(
        "--bound",
        type=size,
        metavar="SIZE",
        help="parallel-memory: edges to add so that no parallel schedule needs more (problem memory-edges)",
    )
    parser.add_argument(
        "--apply", metavar="FILE", help="memory-edges: write the graph with its new edges, .json(.gz)"
    )
    parser.add_argument(
        "--simulate",
        type=whole_number(1),
        metavar="RUNS",
        help="parallel-memory: also run the graph as often with random durations, and show the memory",
    )
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
        help="start from this plan (verified first); memory-edges: a plan, a graph with edges, a certificate "
        "or a run record",
    )
    parser.add_argument(
        "--plan", metavar="FILE", help="write the plan or the allocation, .json(.gz); allocations also .csv"
    )
    parser.add_argument(
        "--certificate",
        metavar="FILE",
        help="peak, placement, parallel-memory: prove the bound once more, within the time limit again, and "
        "write the proof, .json(.gz)",
    )
    parser.add_argument(
        "--certificate-limit",
        type=size,
        metavar="SIZE",
        help="write no larger certificate (default 200 MB)",
    )
    parser.add_argument(
        "--solver-option",
        type=key_value,
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="an option of the method or of the solver under it; repeatable",
    )
    parser.add_argument("--log", metavar="FILE", help="keep the solver's own log")
    shown = parser.add_mutually_exclusive_group()
    shown.add_argument("--progress", action="store_true", help="show every step, also in a pipe")
    shown.add_argument("--quiet", action="store_true", help="show no progress")


def run(args: argparse.Namespace) -> int:
    """Solve and print the result."""
    from ..instances import Allocation, load_problem, read_answer, write_answer
    from ..instances.answers import check_ending
    from ..models.errors import UsageError
    from ..models.problems.makespan import Makespan
    from ..models.problems.memory_edges import MemoryEdges
    from ..models.problems.offsets import Offsets
    from ..models.problems.parallel_memory import ParallelMemory
    from ..models.problems.peak import Peak
    from ..models.problems.placement import Placement
    from ..models.problems.recompute import Recompute
    from ..solvers.context import available_cores
    from ..solvers.registry import find_method
    from ..solvers.solve import solve

    sweeps = args.sweep_memory is not None
    outputs = {
        "--plan": None if sweeps else args.plan,
        "--log": args.log,
        "--certificate": args.certificate,
        "--apply": args.apply,
        "--plot": args.plot,
    }
    check_outputs(outputs, (args.spec, args.hint, args.machine))
    certified = (args.certificate, args.certificate_limit) != (None, None)
    if certified and args.problem not in CERTIFIED:
        raise UsageError(
            f"solve: found --certificate with problem {args.problem}, expected one of {', '.join(CERTIFIED)}"
        )
    if args.certificate is None and args.certificate_limit is not None:
        raise UsageError("solve: found --certificate-limit without --certificate, expected both")
    for path in (args.certificate, args.apply):
        if path is not None and not path.endswith((".json", ".json.gz")):
            raise UsageError(f"{path}: found an unknown ending, expected .json or .json.gz")
    if args.plan is not None and not sweeps:
        check_ending(args.problem, args.plan)
    for flag in sorted({flag for flags in OWN_FLAGS.values() for flag in flags}):
        owners = [owner for owner, flags in OWN_FLAGS.items() if flag in flags]
        if getattr(args, flag) not in (None, False) and args.problem not in owners:
            raise UsageError(
                f"solve: found --{flag.replace('_', '-')} with problem {args.problem}, "
                f"expected it with {' or '.join(owners)}"
            )
    if args.problem == "parallel-memory" and (args.bound, args.apply) != (None, None):
        args.problem = "memory-edges"
    sweep_memory.check_flags(args)
    options = unique(args.solver_option, "--solver-option")
    find_method(args.problem, args.method)
    cores = available_cores()
    if args.threads is not None and args.threads > cores:
        note(f"{args.threads} threads share {cores} cores")
    started = time.perf_counter()
    given = {
        flag: value
        for flag in OWN_FLAGS.get(args.problem, ())
        if flag not in NO_OPTIONS and (value := getattr(args, flag)) not in (None, False)
    }
    problem = load_problem(args.problem, args.spec, **given, **start_options(args.start))
    if isinstance(problem, Offsets):
        problem = replace(problem, satisfy=args.capacity is not None)
    if sweeps:
        check_outputs(outputs)
        assert isinstance(problem, Makespan | Recompute)
        return sweep_memory.run(args, problem, options)
    hint: object = None
    if args.hint is not None and args.problem == "memory-edges":
        hint = read_edges(args.hint)
    elif args.hint is not None:
        known = read_answer(args.hint)
        hint = known.offsets if isinstance(known, Allocation) else known
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
        if args.certificate is not None:
            assert isinstance(problem, Peak | Placement | ParallelMemory | MemoryEdges)
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
        found = None
        if args.simulate is not None and result.reason != "interrupted":
            with suppress(KeyboardInterrupt):  # what was solved is kept
                found = simulated(result, problem, args, progress)
    plan_path = None
    if args.plan is not None and is_verified(result):
        write_answer(result, args.plan)
        plan_path = args.plan
    if args.apply is not None and is_verified(result):
        write_with_edges(result, args.apply)
    if args.json:
        record = run_record(result, loaded, plan_path)
        emit_json(record if found is None else {**record, "simulated": found.record()})
    else:
        emit_pairs([*summary(result, loaded, plan_path), *([] if found is None else found.rows())])
    return exit_status(result)


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
    from ..models.units import exact_bytes, exact_value, format_duration, format_gap
    from ..models.verifier.verdict import Verification

    stopped = f", stopped by {result.reason}" if result.reason in ("time", "memory") else ""
    stopped = ", interrupted" if result.reason == "interrupted" else stopped
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
        proof = {"exact": "exact", "floating": "to floating point"}.get(result.proof or "", "unknown")
        kind = "" if result.bound_kind is None else f" by {result.bound_kind}"
        rows.append(("bound", f"{exact_value(result.bound, result.unit)}{kind}, proof {proof}"))
        rows.append(("gap", format_gap(result.gap)))
    if result.graph is not None and result.problem == "peak" and result.objective is not None:
        rows.append(("reference", compared_with_reference(result)))
    verdict = result.verification
    if isinstance(verdict, Verification) and verdict.valid and result.problem == "placement":
        rows.append(("stall", format_duration(verdict.stall)))
        if result.plan is not None and result.plan.start_tiers is not None:
            rows.append(("may start", start_words(result.plan.start_tiers, result.plan)))
        rows += [(f"peak in {tier}", exact_bytes(peak)) for tier, peak in verdict.peaks.items()]
        rows += [(f"traffic {a}->{b}", exact_bytes(moved)) for (a, b), moved in verdict.traffic.items()]
    if isinstance(verdict, Verification) and verdict.valid and result.problem == "makespan":
        rows += [("peak", exact_bytes(peak)) for peak in verdict.peaks.values()]
    if isinstance(verdict, Verification) and verdict.valid and result.problem == "recompute":
        rows += recompute_rows(result, verdict)
    if isinstance(verdict, Verification) and verdict.valid and result.problem == "minio":
        rows += [(f"peak in {tier}", exact_bytes(peak)) for tier, peak in verdict.peaks.items()]
    if result.problem in PARALLEL and is_verified(result):
        rows += parallel_rows(result)
    rows.append(("verified", "yes" if is_verified(result) else "no"))
    seconds = {"load": loaded, **result.seconds}
    rows.append(("seconds", ", ".join(f"{phase} {value:.2f}" for phase, value in seconds.items())))
    if plan_path is not None:
        rows.append(("plan", plan_path))
    if result.certificate is not None:
        rows.append(("certificate", certificate_line(result)))
    return rows


def compared_with_reference(result: Result) -> str:
    """Return the peak of the reference order, and how much less the result needs."""
    from ..models.derived.memory import sequential_memory
    from ..models.units import exact_bytes

    assert result.graph is not None
    assert result.objective is not None
    reference = sequential_memory(result.graph).peak(range(len(result.graph.ops)))
    text = f"{exact_bytes(reference)} in the reference order"
    if result.objective == reference or not reference:
        return text
    change = 100 * (result.objective - reference) / reference
    return f"{text}, {abs(change):.1f} % {'less' if change < 0 else 'more'} here"
