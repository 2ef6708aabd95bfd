"""Certificates of verbs: ``solve --certificate`` writes one, ``verify --certificate`` confirms one."""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING, Any

from .output import emit_json, emit_pairs
from .parser import size

if TYPE_CHECKING:
    from ..models.certificate import Certificate
    from ..models.graph import Graph
    from ..models.plan import Plan
    from ..models.problems.problem import Judgement
    from ..models.result import Result


def add_flags(parser: argparse._ActionsContainer) -> None:
    """Add the flags of ``solve``."""
    parser.add_argument(
        "--certificate",
        metavar="FILE",
        help="prove the bound once more, within the time limit again, and write the proof, .json(.gz)",
    )
    parser.add_argument(
        "--certificate-limit",
        type=size,
        metavar="SIZE",
        help="write no larger certificate (default 200 MB)",
    )


def certificate_line(result: Result) -> str:
    """Return what people read of a result's certificate."""
    certificate = result.certificate
    assert certificate is not None
    if certificate["path"] is None:
        return f"not written: {certificate['detail']}"
    detail = f", {certificate['detail']}" if certificate["detail"] else ""
    return f"{certificate['path']} ({certificate['kind']}, {certificate['bytes']:,} bytes, checked{detail})"


def run_verify(args: argparse.Namespace) -> int:
    """Confirm a certificate, and that the peak or the time of a plan is its bound; print the verdict."""
    from ..instances import load, read_certificate
    from ..models.errors import InstanceError, UsageError
    from ..models.setting import Setting
    from ..models.verifier.certificate import verify_certificate

    if args.buffers is not None or args.bound is not None:
        raise UsageError("verify: found --buffers or --bound with --certificate, expected neither")
    certificate = read_certificate(args.certificate)
    plan, graph = _plan_and_graph(args)
    if graph is None:
        source = certificate.graph_source if args.graph is None else args.graph
        if source is None:
            raise UsageError(
                f"{args.certificate}: found a certificate without the source of its graph, "
                "expected --graph SPEC"
            )
        graph = load(source)
    if graph.sha256 != certificate.graph_sha256:
        raise InstanceError(
            f"{args.certificate}, graph, sha256: found {certificate.graph_sha256}, "
            f"expected {graph.sha256} ({graph.source or graph.name})"
        )
    started = time.perf_counter()
    verdict = verify_certificate(graph, certificate)
    answer: dict[str, Any] = {
        "certificate": args.certificate,
        "graph": {"name": graph.name, "source": graph.source, "sha256": graph.sha256},
        **verdict.to_dict(),
        "problem": certificate.problem,
        "unit": certificate.unit,
        "seconds": round(time.perf_counter() - started, 6),
        "plan": args.item,
        **dict.fromkeys(("plan_valid", "peak", "time", "gap", "optimal")),
    }
    judged = _judged(graph, plan, certificate)
    if judged is not None:
        value = judged.objective
        answer["plan_valid"] = value is not None
        answer["time" if isinstance(certificate.setting, Setting) else "peak"] = value
        if value is not None and verdict.valid:
            answer["gap"] = abs(value - verdict.bound) / value if value else None if verdict.bound else 0.0
            answer["optimal"] = value == verdict.bound
    if args.json:
        emit_json(answer)
    else:
        emit_pairs(_rows(answer, graph, judged))
    return 0 if verdict.valid and answer["plan_valid"] is not False else 1


def _plan_and_graph(args: argparse.Namespace) -> tuple[Plan | None, Graph | None]:
    """Return the plan (of an order too) and the graph that come with the certificate, if any do."""
    from ..instances import load
    from ..models.errors import InstanceError, UsageError
    from ..models.plan import Plan
    from .sources import read_order, read_plan_and_graph

    if args.item is None:
        if args.order is not None:
            raise UsageError("verify: found --order without a graph, expected GRAPH --order FILE")
        return None, None
    if args.order is None:
        return read_plan_and_graph(args.item, args.graph)
    if args.graph is not None:
        raise UsageError("verify: found --graph with --order, expected one of them")
    graph = load(args.item)
    try:
        return Plan.from_order(graph, read_order(args.order, graph)), graph
    except InstanceError as error:
        raise InstanceError(f"{args.order}: {error}") from None


def _judged(graph: Graph, plan: Plan | None, certificate: Certificate) -> Judgement | None:
    """Return what the verifier says of a plan that answers the question of the certificate."""
    from ..models.errors import InstanceError, UsageError
    from ..models.problems.arena import Arena
    from ..models.problems.placement import Placement
    from ..models.problems.problem import Judgement
    from ..models.setting import ArenaSetting, Setting
    from ..models.verifier.proofs.flow import outside
    from ..models.verifier.verify import verify

    if plan is None:
        return None
    setting = certificate.setting
    if isinstance(setting, Setting):
        problem = Placement(
            graph, setting.machine, periodic=setting.periodic, start=setting.starts, order=setting.order
        )
        try:
            return problem.judge(problem.read(plan))
        except InstanceError as error:
            raise InstanceError(f"verify, plan beside the certificate: {error}") from None
    if isinstance(setting, ArenaSetting):
        arena = Arena(graph, setting.alignment, pools="/".join(setting.pools))
        try:
            return arena.judge(arena.read(plan))
        except InstanceError as error:
            raise InstanceError(f"verify, plan beside the certificate: {error}") from None
    if len(plan.machine.tiers) > 1 or plan.period is not None:
        raise UsageError("verify: found a plan of several tiers or a period, expected one of problem peak")
    if setting is not None and (fault := outside(setting, plan)):
        raise InstanceError(f"verify, plan beside the certificate: {fault}")
    verdict = verify(graph, plan, rerun=False)
    peak = max(verdict.peaks.values(), default=0) if verdict.valid else None
    return Judgement(objective=peak, verification=verdict, plan=plan)


def _rows(answer: dict[str, Any], graph: Graph, judged: Judgement | None) -> list[tuple[str, str]]:
    from ..models.problems import PROBLEMS
    from ..models.units import exact_value, format_gap

    of_peak = answer["unit"] == "bytes"
    words = {"states": "states", "descents": "claims", "cut": "multipliers", "stacks": "steps"}
    words |= {"pools": "steps", "lags": "pairs of ops", "flow": "arcs"}
    words |= dict.fromkeys(("prices", "windows"), "byte paths")
    word = words.get(answer["kind"])
    counted = f"{answer['checked']:,} {word} in " if word and answer["valid"] else ""
    rows = [
        ("graph", f"{graph.name} ({len(graph.ops):,} ops, sha256 {graph.sha256[:12]}…)"),
        ("certificate", answer["certificate"]),
        ("kind", answer["kind"]),
        ("bound", exact_value(answer["bound"], answer["unit"])),
        ("verdict", "valid" if answer["valid"] else f"invalid: {answer['witness']}"),
        ("checked", f"{counted}{answer['seconds']:.2f} s"),
    ]
    if judged is not None:
        problem = PROBLEMS[answer["problem"]]
        name, value = problem.measure, answer["peak" if of_peak else "time"]
        fault = f"invalid: {judged.violations[0].message}" if value is None else ""
        rows.append(("plan", fault or f"valid, {name} {exact_value(value, answer['unit'])}"))
        if answer["optimal"] is not None:
            if not of_peak:
                rows.append(("gap", format_gap(answer["gap"])))
            above = f"not confirmed: the {name} is {'below' if problem.maximize else 'above'} the bound"
            rows.append(("optimal", f"confirmed: {problem.optimum}" if answer["optimal"] else above))
    return rows
