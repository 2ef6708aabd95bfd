"""``lowtide convert`` of answers: a plan in the format of another program."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING

from .files import check_outputs
from .output import emit_found
from .sources import read_plan_and_graph

if TYPE_CHECKING:
    from ..models.graph import Graph
    from ..models.plan import Plan

WRITERS = {
    ".json": ("chrome_trace", "Chrome trace"),
    ".json.gz": ("chrome_trace", "Chrome trace"),
    ".onnx": ("onnx_order", "ONNX model in the order of the plan"),
}
"""Endings of the files that a plan becomes: the module of `lowtide.adapters` that writes it, and its name."""

_OF_GRAPHS = ("set", "drop", "accounting")
"""Flags that concern graphs alone."""


def convert_answer(args: argparse.Namespace) -> int:
    """Write the plan of a file in the format that the ending of the other one tells."""
    from ..models.errors import UsageError

    ending = next((x for x in sorted(WRITERS, key=len, reverse=True) if args.out.endswith(x)), None)
    if ending is None:
        raise UsageError(
            f"{args.out}: found no known ending, expected one of {', '.join(WRITERS)} for a plan"
        )
    for flag in _OF_GRAPHS:
        if getattr(args, flag):
            raise UsageError(f"convert: found --{flag} with a plan, expected it with a graph")
    module, what = WRITERS[ending]
    plan, graph = read_plan_and_graph(args.spec, args.graph)
    check_outputs({"OUT": args.out})
    write: Callable[[Graph, Plan, str], None]
    write = import_module(f"..results.adapters.{module}", __package__).write
    write(graph, plan, args.out)
    rows = [("graph", graph.name), ("format", what), ("written", args.out)]
    values = {"source": args.spec, "graph": graph.name, "format": what, "written": args.out}
    emit_found(args.json, values, rows)
    return 0
