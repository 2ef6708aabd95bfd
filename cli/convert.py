"""``lowtide convert``: read a graph or an answer in one format, write it in another."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import TYPE_CHECKING

from .convert_answer import WRITERS, convert_answer, convert_schedule
from .files import check_outputs
from .output import emit_found
from .parser import SPEC_HELP, add_verb, key_value, unique
from .progress import loading

if TYPE_CHECKING:
    from .parser import Subparsers


def add_parser(subparsers: Subparsers) -> None:
    """Add the verb."""
    parser = add_verb(
        subparsers,
        "convert",
        run,
        examples=[
            "lowtide convert model.onnx graph.json.gz --set batch=32",
            "lowtide convert 'onnx:resnet50?train=1,weights=1' graph.json --drop weight",
            "lowtide convert graph.json graph.dot",
            "lowtide convert plan.json trace.json          # of a plan: a Chrome trace, for Perfetto",
            "lowtide convert plan.json ordered.onnx        # of a model's plan: its nodes in that order",
            "lowtide convert plan.json schedule.csv        # of pipeline: a schedule for torch",
            "lowtide convert schedule.csv plan.json --graph 'gen:stages?p=4,m=8'",
        ],
    )
    parser.add_argument("spec", help=f"{SPEC_HELP}; or a plan, or with --graph a schedule of torch (.csv)")
    parser.add_argument(
        "out",
        help="file to write; its ending tells the format: of graphs .json, .json.gz, .dot, .graphml; "
        f"of plans {', '.join(WRITERS)}",
    )
    parser.add_argument(
        "--graph",
        metavar="SPEC",
        help="the plan's graph, instead of the source it names; a schedule needs it",
    )
    parser.add_argument(
        "--set",
        type=key_value,
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="an option of the instance, such as batch=32, train=1, or the size of a symbolic dimension",
    )
    parser.add_argument(
        "--drop",
        action="append",
        default=[],
        metavar="KIND",
        help="let the tensors of a kind (weight, state, input, …) count 0 bytes",
    )
    parser.add_argument("--accounting", metavar="coexist|replace", help="how an op's own memory counts")


def run(args: argparse.Namespace) -> int:
    """Convert."""
    from ..instances import load, save
    from ..instances.answers import is_answer
    from ..models.errors import UsageError
    from ..models.units import exact_bytes

    check_outputs({"OUT": args.out}, (args.spec, args.graph))
    if is_answer(args.spec):
        return convert_answer(args)
    if args.graph is not None and args.spec.endswith(".csv"):
        return convert_schedule(args)
    if args.graph is not None:
        raise UsageError(
            f"convert: found --graph with {args.spec}, expected it with a plan or a schedule (.csv)"
        )
    options = unique(args.set, "--set")
    with loading(args.spec):
        graph = load(args.spec, **options)
    if args.drop:
        graph = graph.drop(args.drop)
    if args.accounting is not None:
        graph = replace(graph, accounting=args.accounting)
    check_outputs({"OUT": args.out})
    save(graph, args.out)
    summary = graph.summary()
    rows = [
        ("graph", f"{graph.name}: {summary['ops']:,} ops, {summary['tensors']:,} tensors"),
        ("bytes", exact_bytes(summary["bytes"])),
        ("sha256", graph.sha256),
        ("written", args.out),
    ]
    emit_found(args.json, {"source": args.spec, "written": args.out, **summary}, rows)
    return 0
