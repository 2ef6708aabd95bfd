"""``lowtide verify``: recompute a plan's memory, judge an allocation, or score an order of one's own."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from .output import emit_json, emit_pairs, emit_violations, invalid
from .parser import add_verb, size
from .progress import loading
from .start import add_start, start_tiers

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..models.graph import Graph
    from ..models.plan import Plan
    from ..models.verifier.verdict import Verification
    from .parser import Subparsers


_JUDGED = (
    *("start", "peaks", "heights", "makespan", "stall", "traffic", "recomputed", "status", "claim", "doubt"),
    *("reference_peak", "best_known", "bound", "bound_from", "gap"),
)
"""What the verdict on a plan may say."""


def add_parser(subparsers: Subparsers) -> None:
    """Add the verb."""
    parser = add_verb(
        subparsers,
        "verify",
        run,
        details="Exit status 1 if a rule is broken.",
        examples=[
            "lowtide verify plan.json",
            "lowtide verify answer.json --graph catalogue:mlsys2026/1",
            "lowtide verify solution.csv --buffers buffers.csv",
            "lowtide verify graph.json.gz --order order.txt",
            "lowtide verify 'onnx:squeezenet?train=1' --order order.txt --bound 12MiB",
            "lowtide verify plan.json --certificate proof.json.gz",
            "lowtide verify plan.json --start input=gpu,host,ssd",
        ],
    )
    parser.add_argument(
        "item",
        metavar="PLAN|ALLOCATION|STRATEGIES|GRAPH",
        nargs="?",
        help="a plan, an allocation or strategies; with --order, a graph; may be absent with --certificate",
    )
    parser.add_argument(
        "--certificate",
        metavar="FILE",
        help="confirm this proof of a bound on the peak of every order, or on the time of every placement, "
        "and that the plan attains it",
    )
    parser.add_argument(
        "--order",
        metavar="FILE",
        help="ops by index or unique name, one a line or separated by blanks, # begins a comment; or a plan",
    )
    add_start(
        parser,
        "tiers where tensors of a kind may be at time 0, or anywhere; repeatable; kinds that are not named "
        "may start in every tier (default: what the plan says that its question allowed; if it says nothing, "
        "inputs in the last tier)",
    )
    parser.add_argument(
        "--graph",
        metavar="SPEC",
        help="the plan's graph or the strategies' network, instead of the source it names",
    )
    parser.add_argument(
        "--buffers", metavar="SPEC", help="the allocation's buffers, instead of those that it names"
    )
    parser.add_argument(
        "--bound", type=size, metavar="SIZE", help="known bound on the peak or the height, for the gap"
    )


def run(args: argparse.Namespace) -> int:
    """Verify and print the verdict."""
    from ..instances import load
    from ..models.errors import UsageError
    from ..models.plan import Plan
    from . import certificates, verify_allocation, verify_strategies, verify_tiles
    from .sources import (
        read_allocation_and_buffers,
        read_order,
        read_plan_and_graph,
        read_strategies_and_network,
    )

    if args.certificate is not None:
        return certificates.run_verify(args)
    if args.item is None:
        raise UsageError("verify: found nothing, expected a plan, an allocation or --certificate FILE")
    if args.start and args.order is not None:
        raise UsageError("verify: found --start with --order, expected it with a plan")
    if args.order is None and (tiles := verify_tiles.read_tiles_answer(args.item)):
        return verify_tiles.run(args, tiles)
    if args.order is None and (pair := read_allocation_and_buffers(args.item, args.buffers)):
        for flag in ("graph", "start"):
            if getattr(args, flag):
                raise UsageError(f"verify: found --{flag} with an allocation, expected it with a plan")
        return verify_allocation.run(args, *pair)
    if args.order is None and (read := read_strategies_and_network(args.item, args.graph)):
        return verify_strategies.run(args, *read)
    if args.buffers is not None:
        raise UsageError("verify: found --buffers without an allocation, expected --graph")
    plan: Plan | None
    order: list[int] | None = None
    faults: list[dict[str, Any]] = []
    if args.order is None:
        plan, graph = read_plan_and_graph(args.item, args.graph)
        source = plan.graph_source if args.graph is None else args.graph
    else:
        if args.graph is not None:
            raise UsageError("verify: found --graph with --order, expected one of them")
        with loading(args.item):
            graph, source = load(args.item), args.item
        order = read_order(args.order, graph)
        faults = order_faults(graph, order)
        plan = None if faults else Plan.from_order(graph, order)
    answer: dict[str, Any] = {
        "plan": args.item if args.order is None else None,
        "order": args.order,
        "graph": {"name": graph.name, "source": source, "sha256": graph.sha256},
        "valid": False,
        "violations": faults,
        **dict.fromkeys(_JUDGED),
    }
    if plan is not None:
        answer |= _judged(args, graph, plan, order)
    if args.json:
        emit_json(answer)
    else:
        _print(answer, graph)
    return 0 if answer["valid"] else 1


def _judged(args: argparse.Namespace, graph: Graph, plan: Plan, order: list[int] | None) -> dict[str, Any]:
    """Return the verdict on a plan, and of a valid one its score and what it claims."""
    from ..models.verifier.verify import verify

    asked = start_tiers(args.start, plan)
    verdict = verify(graph, plan, start_tiers=asked)
    judged: dict[str, Any] = {
        "start": _start(plan, asked),
        "valid": verdict.valid,
        "violations": [v.to_dict() for v in verdict.violations],
        "peaks": dict(verdict.peaks),
        "makespan": verdict.makespan,
        "stall": verdict.stall,
        "traffic": {f"{src}->{dst}": n for (src, dst), n in verdict.traffic.items()},
        "recomputed": verdict.recomputed,
        "best_known": None,
        "bound": None,
    }
    if not verdict.valid:
        return judged
    if plan.allocation is not None:
        judged["heights"] = dict(verdict.heights)
    if len(verdict.peaks) == 1 and not verdict.recomputed:
        judged |= _score(graph, max(verdict.peaks.values()), args.bound, order)
    return judged | _claimed(plan, verdict, judged)


def _claimed(plan: Plan, verdict: Verification, scored: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the plan claims: its status where the objective was recomputed and agrees, else a doubt."""
    from ..models.problems import PROBLEMS
    from ..models.problems.arena import Arena
    from ..models.problems.hybrid import Hybrid
    from ..models.problems.offsets import Offsets
    from ..models.problems.partition import Partition
    from ..models.problems.peak import Peak
    from ..models.problems.pipeline import Pipeline, longest_span
    from ..models.result import relative_gap

    claim = plan.claim
    if claim is None or claim.problem not in PROBLEMS:
        return {}
    value, best = None, None
    if claim.problem == Peak.name:
        value, best = max(verdict.peaks.values(), default=0), scored["best_known"]
    elif claim.problem in (Arena.name, Offsets.name) and len(verdict.heights) == 1:
        value = max(verdict.heights.values())
    elif PROBLEMS[claim.problem].unit == "ns" and claim.problem not in (Partition.name, Hybrid.name):
        spans = (verdict.makespan, longest_span(plan)) if claim.problem == Pipeline.name else ()
        value = claim.objective if claim.objective in spans else verdict.makespan
    if value is None:
        doubt = "its objective cannot be recomputed from a plan alone"
    elif value != claim.objective or (claim.status == "optimal" and claim.bound != value):
        doubt = "the numbers of the plan are others"
    elif claim.bound is not None and best is not None and best < claim.bound:
        doubt = f"{best} are known to do, less than the bound that it claims, {claim.bound}"
    else:
        claimed: dict[str, Any] = {"status": claim.status, "claim": asdict(claim)}
        if claim.problem == Peak.name and scored["bound"] is None and claim.bound is not None:
            claimed |= {"bound": claim.bound, "bound_from": "as the plan claims"}
            claimed["gap"] = relative_gap(value, claim.bound)
        return claimed
    return {"claim": asdict(claim), "doubt": doubt}


def _start(plan: Plan, asked: Mapping[str, Sequence[str]] | None) -> str | None:
    """Say by which rule things start, and whose it is; None if there is only one tier."""
    from ..models.problems.placement import start_words

    if len(plan.machine.tiers) == 1:
        return None
    if asked is not None:
        return f"{start_words(asked, plan)} (--start)"
    if plan.start_tiers is not None:
        return f"{start_words(plan.start_tiers, plan)} (as the plan says)"
    last = plan.machine.tiers[-1].name
    return f"{start_words({'input': (last,)}, plan)} (the plan does not say)"


def order_faults(graph: Graph, order: Sequence[int]) -> list[dict[str, Any]]:
    """Return every way in which an order is not one of all ops that obeys the precedence."""
    from ..models.derived.precedence import precedence

    ops = graph.ops
    place = {op: k for k, op in reversed(list(enumerate(order)))}
    faults: list[dict[str, Any]] = []
    for i in range(len(ops)):
        if i not in place:
            faults.append(
                {"kind": "missing-run", "message": f"op {i} {ops[i].name!r} is not in the order", "op": i}
            )
    if len(place) < len(order):
        for k, i in enumerate(order):
            if place[i] != k:
                message = f"op {i} {ops[i].name!r} stands at place {place[i]} and again at place {k}"
                faults.append({"kind": "repeated-run", "message": message, "op": i})
    for j, before in enumerate(precedence(graph).predecessors):
        for i in before:
            if i in place and j in place and place[i] > place[j]:
                message = f"op {i} {ops[i].name!r} must run before op {j} {ops[j].name!r}, it stands after it"
                faults.append({"kind": "precedence", "message": message, "op": i, "other": j})
    return faults


def _score(graph: Graph, peak: int, given: int | None, order: list[int] | None) -> dict[str, Any]:
    """Return the peak of the reference order, the best that is known, and the gap to the bound."""
    from ..models.derived.memory import sequential_memory
    from ..models.errors import UsageError
    from ..models.result import relative_gap
    from .known import known_about

    known = known_about(graph, given=given, order=order)
    if known.bound is not None and known.bound > peak:
        raise UsageError(f"{known.origin} bound: found {known.bound}, expected at most the peak, {peak}")
    return {
        "reference_peak": sequential_memory(graph).peak(range(len(graph.ops))),
        "best_known": known.best,
        "bound": known.bound,
        "bound_from": known.origin,
        "gap": relative_gap(peak, known.bound),
    }


def _print(answer: dict[str, Any], graph: Graph) -> None:
    from ..models.problems.peak import Peak
    from ..models.units import exact_bytes, format_duration, format_gap

    faults = answer["violations"]
    rows = [
        ("graph", f"{graph.name} ({len(graph.ops):,} ops, sha256 {graph.sha256[:12]}…)"),
        ("plan", answer["plan"]) if answer["order"] is None else ("order", answer["order"]),
        ("verdict", "valid" if answer["valid"] else invalid(faults)),
    ]
    if answer["start"] is not None:
        rows.append(("start tiers", answer["start"]))
    for words, key in (("peak in", "peaks"), ("allocated in", "heights")):
        rows += [(f"{words} {tier}", exact_bytes(value)) for tier, value in (answer[key] or {}).items()]
    claim = answer["claim"]
    of = "" if claim is None or claim["problem"] == Peak.name else " of the peak"  # nothing that it claims
    for words, key in (("reference order", "reference_peak"), (f"best known{of}", "best_known")):
        if answer[key] is not None:
            rows.append((words, exact_bytes(answer[key])))
    if answer["bound"] is not None:
        rows.append((f"bound{of}", f"{exact_bytes(answer['bound'])}, {answer['bound_from']}"))
        rows.append((f"gap{of}", format_gap(answer["gap"])))
    if claim is not None:
        whose = f"({claim['problem']} {claim['method']})"
        if answer["doubt"] is None:
            rows.append(("status", f"{answer['status']}, as the plan claims {whose}"))
        else:
            rows.append(("claim", f"{claim['status']} {whose}, not confirmed: {answer['doubt']}"))
    if answer["makespan"] is not None:
        rows.append(("makespan", format_duration(answer["makespan"])))
        rows.append(("stall", format_duration(answer["stall"])))
    for channel, moved in (answer["traffic"] or {}).items():
        rows.append((f"traffic {channel}", exact_bytes(moved)))
    if answer["recomputed"]:
        rows.append(("recomputed", f"{answer['recomputed']:,} runs"))
    emit_pairs(rows)
    emit_violations(faults)
