"""``lowtide convert`` of answers: a plan in the format of another program, and back."""

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
    ".csv": ("torch_pipelining", "schedule of torch.distributed.pipelining"),
    ".onnx": ("onnx_order", "ONNX model in the order of the plan"),
    ".tflite": ("tflite_arena", "TensorFlow Lite model with the addresses of the plan"),
}
"""Endings of the files that a plan becomes: the module of `lowtide.adapters` that writes it, and its name."""


def convert_answer(args: argparse.Namespace) -> int:
    """Write the plan of a file in the format that the ending of the other one tells."""
    from ..models.errors import UsageError

    ending = next((x for x in sorted(WRITERS, key=len, reverse=True) if args.out.endswith(x)), None)
    if ending is None:
        raise UsageError(
            f"{args.out}: found no known ending, expected one of {', '.join(WRITERS)} for a plan"
        )
    _refuse_flags(args)
    module, what = WRITERS[ending]
    plan, graph = read_plan_and_graph(args.spec, args.graph)
    check_outputs({"OUT": args.out})
    write: Callable[[Graph, Plan, str], None]
    write = import_module(f"..results.adapters.{module}", __package__).write
    write(graph, plan, args.out)
    return _tell(args, graph, what)


def convert_schedule(args: argparse.Namespace) -> int:
    """Write the plan of a schedule of ``torch.distributed.pipelining`` for the graph of a pipeline."""
    from ..instances import load, save
    from ..models.errors import UsageError
    from ..models.problems.pipeline import Pipeline
    from ..results.adapters import torch_pipelining

    if not args.out.endswith((".json", ".json.gz")):
        raise UsageError(f"{args.out}: found no known ending, expected .json or .json.gz for a plan")
    _refuse_flags(args)
    problem = Pipeline(load(args.graph))
    plan = torch_pipelining.read(args.spec, problem)
    check_outputs({"OUT": args.out})
    save(plan, args.out)
    return _tell(args, problem.graph, "plan")


def _refuse_flags(args: argparse.Namespace) -> None:
    from ..models.errors import UsageError

    for flag in ("set", "drop", "accounting"):
        if getattr(args, flag):
            raise UsageError(f"convert: found --{flag} with a plan, expected it with a graph")


def _tell(args: argparse.Namespace, graph: Graph, what: str) -> int:
    rows = [("graph", graph.name), ("format", what), ("written", args.out)]
    values = {"source": args.spec, "graph": graph.name, "format": what, "written": args.out}
    emit_found(args.json, values, rows)
    return 0
