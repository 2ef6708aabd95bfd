"""``lowtide plot``: draw a plan, an allocation, a run record, an order, or the runs of experiments."""

from __future__ import annotations

import argparse
import os
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from . import runs as runs_of
from .files import check_outputs
from .output import emit_found
from .parser import add_verb, size
from .progress import Progress
from .start import add_start, start_tiers

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ..instances import Allocation
    from ..models.buffers import Buffers
    from ..models.graph import Graph
    from ..models.plan import Plan
    from ..models.problems.trade_off import TradeOff
    from ..models.result import Result
    from .parser import Subparsers

PLAN_KINDS = ("profile", "gantt", "residency", "timeline", "cells", "stages", "allocation")
RUN_KINDS = ("cactus", "performance-profile", "trace", "scatter")
CURVE_KIND = "trade-off"

_OF_PLANS = ("order", "graph", "buffers", "tier", "bound", "start")
_WITHOUT = {
    "tier": ("cells", "residency", "stages", "timeline"),
    "bound": ("cells", "gantt", "residency", "stages", "timeline", "allocation"),
    "start": ("cells", "profile", "gantt", "residency", "stages", "allocation"),
}
_OF_RUNS = ("value", "by", "x", "y", "where", "virtual_best", "best_known")


def add_parser(subparsers: Subparsers) -> None:
    """Add the verb."""
    parser = add_verb(
        subparsers,
        "plot",
        run,
        details="A plan or an allocation is verified first.",
        examples=[
            "lowtide plot plan.json -o profile.svg",
            "lowtide plot record.json -o profile.pdf      # what solve --plan … --json printed",
            "lowtide plot graph.json.gz --order order.txt -o profile.png",
            "lowtide plot plan.json --kind gantt -o gantt.pdf",
            "lowtide plot plan.json --kind cells -o cells.png      # of recompute",
            "lowtide plot plan.json.gz --start input=anywhere -o timeline.png     # of a placement",
            "lowtide plot solution.csv -o allocation.svg",
            "lowtide plot curve.json -o curve.svg          # what solve --sweep-memory N --json printed",
            "lowtide plot runs/peak --kind cactus -o cactus.pdf",
            "lowtide plot runs/peak --kind scatter --x auto --y cpsat -o scatter.svg",
            "lowtide plot runs/peak --kind trace --where instance=onnx:resnet50 -o incumbents.svg",
        ],
    )
    parser.add_argument(
        "items",
        nargs="+",
        metavar="PLAN|ALLOCATION|RECORD|CURVE|GRAPH|DIR",
        help="a plan, an allocation, a run record, a trade-off curve; with --order, a graph; or experiments",
    )
    parser.add_argument("-o", "--out", required=True, metavar="FILE", help=".svg, .png or .pdf")
    parser.add_argument(
        "--kind",
        choices=(*PLAN_KINDS, *RUN_KINDS, CURVE_KIND),
        metavar="KIND",
        help=f"of plans: {', '.join(PLAN_KINDS)} (default {PLAN_KINDS[0]}; timeline of "
        f"several tiers, allocation where there are addresses, gantt of streams, stages of hybrid); "
        f"of experiments: {', '.join(RUN_KINDS)} (default {RUN_KINDS[0]}); of curves: {CURVE_KIND}",
    )
    parser.add_argument("--title", metavar="TEXT", help="title (default: the name of the graph)")
    plans = parser.add_argument_group("plans")
    plans.add_argument(
        "--order", metavar="FILE", help="ops by index or unique name, or a plan, as for verify"
    )
    plans.add_argument("--graph", metavar="SPEC", help="the plan's graph, instead of the source it names")
    plans.add_argument("--buffers", metavar="SPEC", help="the allocation's buffers, as for verify")
    plans.add_argument("--tier", metavar="NAME", help="memory or pool to draw (default: the innermost)")
    plans.add_argument("--bound", type=size, metavar="SIZE", help="bound to draw (default: the record's)")
    add_start(plans, "of a timeline: where tensors may be at time 0, as for verify")
    experiments = parser.add_argument_group("experiments")
    experiments.add_argument("--value", metavar="NAME", help="what is compared (default seconds)")
    experiments.add_argument("--by", metavar="COLUMN", help="what is compared with each other (setting)")
    experiments.add_argument("--x", metavar="NAME", help="of a scatter: the setting on the horizontal axis")
    experiments.add_argument("--y", metavar="NAME", help="of a scatter: the setting on the vertical axis")
    runs_of.add_options(experiments)


def run(args: argparse.Namespace) -> int:
    """Draw."""
    from ..models.errors import UsageError
    from ..results import plot

    check_outputs({"--out": args.out}, (*args.items, args.order, args.graph, args.buffers))
    plot.file_kind(args.out)
    if (curve := _curve(args)) is not None:
        return _tell(args, *_draw_curve(args, curve))
    of_runs = args.order is None and all(_holds_runs(item, args.kind) for item in args.items)
    if (
        not of_runs
        and args.order is None
        and len(args.items) == 1
        and (pair := _allocation(args)) is not None
    ):
        return _tell(args, *_draw_allocation(args, *pair))
    if args.buffers is not None:
        raise UsageError("plot: found --buffers without an allocation, expected --graph")
    if args.kind is None and not of_runs and args.order is None:
        args.kind = _kind_of_plan(args)
    kind = args.kind or (RUN_KINDS if of_runs else PLAN_KINDS)[0]
    if (kind in RUN_KINDS) != of_runs:
        found, kinds = ("experiments", RUN_KINDS) if of_runs else ("a plan, record or graph", PLAN_KINDS)
        raise UsageError(f"plot: found --kind {kind} with {found}, expected one of {', '.join(kinds)}")
    unused = [key for key in (_OF_PLANS if of_runs else _OF_RUNS) if getattr(args, key)]
    unused += [key for key in _WITHOUT if kind in _WITHOUT[key] and getattr(args, key)]
    if unused:
        raise UsageError(
            f"plot: found --{unused[0].replace('_', '-')} with --kind {kind}, which has no use for it"
        )
    return _tell(args, *(_draw_runs(kind, args) if of_runs else _draw_plan(kind, args)))


def _allocation(args: argparse.Namespace) -> tuple[Allocation, Buffers] | None:
    """Return the allocation of the item, or of its record, and its buffers; None if it is a plan."""
    from ..models.problems import PROBLEMS
    from .sources import read_allocation_and_buffers, read_record

    record = read_record(args.items[0]) if args.items[0].endswith(".json") else None
    asked = None if record is None else PROBLEMS.get(record.values["problem"])
    pair = read_allocation_and_buffers(args.items[0] if record is None else record.plan_path, args.buffers)
    if asked is not None and asked.about == "buffers" and pair is None and args.kind is None:
        args.kind = "allocation"  # a plan with its allocation
    return pair


def _curve(args: argparse.Namespace) -> TradeOff | None:
    """Return the trade-off curve of the one item; None if it is something else."""
    from ..instances.formats.native_trade_off import trade_off_from_dict
    from ..instances.formats.strict_json import parse_json, read_bytes
    from ..models.errors import UsageError

    (path, *others) = args.items
    if (
        not others
        and path.endswith((".json", ".json.gz"))
        and (args.kind == CURVE_KIND or os.path.exists(path))
    ):
        data = parse_json(read_bytes(path), path)
        if isinstance(data, dict) and data.get("format") == "lowtide/trade-off":
            return trade_off_from_dict(data, path)
    if args.kind == CURVE_KIND:
        raise UsageError(
            f"plot: found --kind {CURVE_KIND} with {path}, expected what solve --sweep-memory --json printed"
        )
    return None


def _draw_curve(args: argparse.Namespace, curve: TradeOff) -> tuple[Axes, dict[str, Any]]:
    """Return the axes of the figure of a trade-off curve, and what is told about it."""
    from ..models.errors import UsageError
    from ..results import plot

    if args.kind not in (None, CURVE_KIND):
        raise UsageError(f"plot: found --kind {args.kind} with a trade-off curve, expected {CURVE_KIND}")
    for key in _OF_PLANS + _OF_RUNS:
        if getattr(args, key):
            raise UsageError(
                f"plot: found --{key.replace('_', '-')} with a trade-off curve, which has no use for it"
            )
    ax = plot.trade_off(curve, plot.new_axes(), title=args.title)
    return ax, {"instance": curve.instance, "memories": len(curve.points), "schedules": len(curve.front)}


def _kind_of_plan(args: argparse.Namespace) -> str | None:
    """Return what is drawn of a plan, unless a tier or a bound is named: what suits its machine or claim."""
    from ..instances import read_answer
    from ..models.plan import Plan
    from ..models.problems import PROBLEMS
    from .sources import read_record

    if len(args.items) > 1 or args.tier is not None or args.bound is not None:
        return None
    record = read_record(args.items[0]) if args.items[0].endswith(".json") else None
    plan = read_answer(args.items[0] if record is None else record.plan_path)
    if not isinstance(plan, Plan):
        return None
    if len(plan.machine.tiers) > 1:
        return "timeline"
    asked = None if plan.claim is None else PROBLEMS.get(plan.claim.problem)
    if asked is not None and asked.picture == "stages":
        return "stages"
    return "allocation" if plan.allocation else "gantt" if plan.machine.contention else None


def _tell(args: argparse.Namespace, ax: Axes, values: dict[str, Any]) -> int:
    """Write the picture and say what is in it."""
    from ..results import plot

    check_outputs({"--out": args.out})
    plot.save(ax, args.out)
    rows = [*((key, _text(key, value)) for key, value in values.items()), ("written", args.out)]
    emit_found(args.json, {**values, "written": args.out}, rows)
    return 0


def _holds_runs(item: str, kind: str | None) -> bool:
    """Return whether an item is an experiment, rather than a plan, a record of a run or a graph."""
    if os.path.isdir(item) or item.removesuffix(".gz").endswith(".jsonl"):
        return True
    return kind in RUN_KINDS and not os.path.exists(item)


def _draw_plan(kind: str, args: argparse.Namespace) -> tuple[Axes, dict[str, Any]]:
    """Return the axes of the figure of a plan, and what is told about it."""
    from ..models.derived.profile import memory_profile, memory_profiles
    from ..models.errors import UsageError
    from ..models.result import Result
    from ..models.verifier.verify import verify
    from ..results import plot

    if len(args.items) > 1:
        raise UsageError(f"plot: found {len(args.items)} files, expected one plan, record or graph")
    plot.new_axes()  # whether there is matplotlib, before the plan is verified
    item, graph = _subject(args.items[0], args)
    plan = item.plan if isinstance(item, Result) else item
    assert plan is not None
    if kind == "profile":
        ax = plot.new_axes()
        plot.profile(item, graph, ax, tier=args.tier, bound=args.bound, title=args.title)
        return ax, {"graph": graph.name, "peak": memory_profile(graph, plan, args.tier).peak}
    if kind == "allocation":
        ax = plot.allocation(item, graph, plot.new_axes(), pool=args.tier, title=args.title)
        return ax, {"graph": graph.name, "buffers": len(plan.allocation or ())}
    if kind == "gantt":
        figure = plot.new_figure(plot.gantt_inches(plan))
        (ax, *_) = plot.gantt(item, graph, figure, tier=args.tier, title=args.title)
        counted = {"runs": len(plan.runs), "copies": len(plan.copies)}
        return ax, {"graph": graph.name, **counted, "peak": memory_profile(graph, plan, args.tier).peak}
    if kind == "timeline":
        figure = plot.new_figure(plot.timeline_inches(plan))
        with Progress() as progress:
            progress(f"verifying {len(plan.copies):,} copies")
            verdict = verify(graph, plan, start_tiers=start_tiers(args.start, plan))
            progress("drawing")
            (ax, *_) = plot.timeline(item, graph, figure, verdict=verdict, title=args.title)
        return ax, {"graph": graph.name, "peaks": dict(verdict.peaks)}
    if kind == "cells":
        figure = plot.new_figure(plot.cells_inches(graph, plan))
        (ax, *_) = plot.cells(item, graph, figure, title=args.title)
        return ax, {"graph": graph.name, "runs": len(plan.runs), "ops": len(graph.ops)}
    if kind == "stages":
        figure = plot.new_figure(plot.stages_inches(plan))
        (ax, *_) = plot.stages(item, graph, figure, title=args.title)
        return ax, {"graph": graph.name, "stages": len(plan.machine.processors)}
    figure = plot.new_figure(plot.residency_inches(plan))
    (ax, *_) = plot.residency(item, graph, figure, title=args.title)
    peaks = {tier: memory.peak for tier, memory in memory_profiles(graph, plan).items()}
    return ax, {"graph": graph.name, "peaks": peaks}


def _draw_allocation(
    args: argparse.Namespace, allocation: Allocation, buffers: Buffers
) -> tuple[Axes, dict[str, Any]]:
    """Return the axes of the figure of an allocation that is no plan's, and what is told about it."""
    from ..models.errors import UsageError
    from ..results import plot

    if args.kind not in (None, "allocation"):
        raise UsageError(f"plot: found --kind {args.kind} with an allocation, expected --kind allocation")
    for key in ("graph", "bound"):
        if getattr(args, key) is not None:
            raise UsageError(f"plot: found --{key} with an allocation, which has no use for it")
    ax = plot.allocation(allocation, buffers, plot.new_axes(), pool=args.tier, title=args.title)
    return ax, {"buffers": buffers.name, "count": len(buffers.buffers)}


def _draw_runs(kind: str, args: argparse.Namespace) -> tuple[Axes, dict[str, Any]]:
    """Return the axes of the figure of experiments, and what is told about it."""
    from ..models.errors import UsageError
    from ..results import plot

    options: dict[str, Any] = {"by": (args.by or "setting").replace(".", "_"), "title": args.title}
    for key in ("x", "y"):
        if getattr(args, key) is not None and kind != "scatter":
            raise UsageError(f"plot: found --{key} with --kind {kind}, expected it with --kind scatter")
    if kind in ("cactus", "trace") and args.value is not None:
        raise UsageError(f"plot: found --value with --kind {kind}, which has no use for it")
    ax = plot.new_axes(plot.SCATTER_INCHES) if kind == "scatter" else plot.new_axes()
    runs = runs_of.read_runs(args.items, args)
    if options["by"] not in runs:
        raise UsageError(f"by: found {args.by!r}, expected one of {', '.join(map(str, runs))}")
    if kind == "scatter":
        plot.scatter(runs, ax, x=args.x, y=args.y, value=args.value or "seconds", **options)
    elif kind == "performance-profile":
        value = args.value or ("seconds" if runs["solved"].any() else "objective")  # nothing is proved
        plot.performance_profile(runs, ax, value=value, **options)
    elif kind == "cactus":
        plot.cactus(runs, ax, **options)
    elif runs["question"].nunique() == 1:
        plot.incumbents(runs, ax, **options)
    else:
        plot.trace(runs, ax, **options)
    return ax, {"kind": kind, "runs": len(runs)}


def _subject(path: str, args: argparse.Namespace) -> tuple[Result | Plan, Graph]:
    """Return what is drawn, and its graph."""
    from ..instances import load
    from ..models.errors import UsageError
    from ..models.plan import Plan
    from .sources import read_order, read_plan_and_graph, read_record, result_of

    if args.order is not None:
        if args.graph is not None:
            raise UsageError("plot: found --graph with --order, expected one of them")
        graph = load(path)
        return Plan.from_order(graph, read_order(args.order, graph)), graph
    record = read_record(path)
    if record is None:
        plan, graph = read_plan_and_graph(path, args.graph)
        return plan if plan.claim is None else result_of(plan, graph, graph.name, asdict(plan.claim)), graph
    plan, graph = read_plan_and_graph(record.plan_path, args.graph)
    return record.result(plan, graph), graph


def _text(key: str, value: Any) -> str:
    from ..models.units import exact_bytes

    if key == "peaks":
        return ", ".join(f"{tier} {exact_bytes(nbytes)}" for tier, nbytes in value.items())
    return exact_bytes(value) if key == "peak" else str(value)
