"""``lowtide plot``: draw the memory profile of a plan, a run record or an order."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from .output import emit_json, emit_pairs
from .parser import add_verb, size

if TYPE_CHECKING:
    from ..models.graph import Graph
    from ..models.plan import Plan
    from ..models.result import Result
    from .parser import Subparsers


def add_parser(subparsers: Subparsers) -> None:
    """Add the verb."""
    parser = add_verb(
        subparsers,
        "plot",
        run,
        "draw a memory profile",
        details="The plan is verified first.",
        examples=[
            "lowtide plot plan.json -o profile.svg",
            "lowtide plot record.json -o profile.pdf      # what solve --plan … --json printed",
            "lowtide plot graph.json.gz --order order.txt -o profile.png",
        ],
    )
    parser.add_argument(
        "item", metavar="PLAN|RECORD|GRAPH", help="a plan or a run record; with --order, a graph"
    )
    parser.add_argument("-o", "--out", required=True, metavar="FILE", help=".svg, .png or .pdf")
    parser.add_argument("--order", metavar="FILE", help="ops by index or unique name, as for verify")
    parser.add_argument("--graph", metavar="SPEC", help="the plan's graph, instead of the source it names")
    parser.add_argument("--tier", metavar="NAME", help="memory to draw (default: the innermost)")
    parser.add_argument("--bound", type=size, metavar="SIZE", help="bound to draw (default: the record's)")
    parser.add_argument("--title", metavar="TEXT", help="title (default: the name of the graph)")


def run(args: argparse.Namespace) -> int:
    """Draw."""
    from ..instances import check_writable
    from ..models.profile import memory_profile
    from ..models.result import Result
    from ..models.units import exact_bytes
    from ..results import plot

    check_writable(args.out)
    plot.file_kind(args.out)
    ax = plot.new_axes()
    item, graph = _subject(args)
    plot.profile(item, graph, ax, tier=args.tier, bound=args.bound, title=args.title)
    plot.save(ax, args.out)
    plan = item.plan if isinstance(item, Result) else item
    assert plan is not None
    peak = memory_profile(graph, plan, args.tier).peak
    if args.json:
        emit_json({"graph": graph.name, "peak": peak, "written": args.out})
    else:
        emit_pairs([("graph", graph.name), ("peak", exact_bytes(peak)), ("written", args.out)])
    return 0


def _subject(args: argparse.Namespace) -> tuple[Result | Plan, Graph]:
    """Return what is drawn, and its graph."""
    from ..instances import load
    from ..models.errors import UsageError
    from ..models.plan import Plan
    from .sources import read_order, read_plan_and_graph, read_record

    if args.order is not None:
        if args.graph is not None:
            raise UsageError("plot: found --graph with --order, expected one of them")
        graph = load(args.item)
        return Plan.from_order(graph, read_order(args.order, graph)), graph
    record = read_record(args.item)
    if record is None:
        return read_plan_and_graph(args.item, args.graph)
    plan, graph = read_plan_and_graph(record.plan_path, args.graph)
    return record.result(plan, graph), graph
