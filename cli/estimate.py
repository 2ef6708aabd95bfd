"""``lowtide estimate``: what training takes on each of several devices, and inference on three tiers."""

from __future__ import annotations

import argparse
import re
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from . import estimate_flexgen
from .output import emit_json, emit_table
from .parser import add_verb, whole_number

if TYPE_CHECKING:
    from .parser import Subparsers

MODEL = ("sequence", "hidden", "heads", "layers")
"""What activations need; the rest of a transformer's numbers are 1 where they are not given."""


def add_parser(subparsers: Subparsers) -> None:
    """Add the verb."""
    parser = add_verb(
        subparsers,
        "estimate",
        run,
        details=(
            "With --parameters: model states under ZeRO's stages (3 is FSDP), with --largest-layer also what "
            "DeepSpeed estimates. With --hidden, --heads, --layers and --sequence: activations of a "
            "transformer. Inference: lowtide estimate flexgen --help."
        ),
        examples=[
            "lowtide estimate --parameters 7.5e9 --devices 64",
            "lowtide estimate --parameters 2851e6 --devices 8 --largest-layer 32e6",
            "lowtide estimate --hidden 12288 --heads 96 --layers 96 --sequence 2048 --tensor 8 --stages 8",
            "lowtide estimate flexgen --model opt-30b",
        ],
    )
    states = parser.add_argument_group("model states")
    states.add_argument("--parameters", type=_count, metavar="N", help="of the model, such as 7.5e9")
    states.add_argument("--devices", type=whole_number(1), default=1, help="in all nodes (default 1)")
    states.add_argument("--nodes", type=whole_number(1), default=1, help="of so many devices (default 1)")
    states.add_argument(
        "--optimizer", type=whole_number(0), default=12, help="bytes per parameter (12: Adam)"
    )
    states.add_argument("--largest-layer", type=_count, metavar="N", help="parameters; stage 3 gathers them")
    model = parser.add_argument_group("activations")
    model.add_argument("--sequence", type=whole_number(1), metavar="TOKENS", help="of one sequence")
    model.add_argument("--batch", type=whole_number(1), default=1, help="sequences (default 1)")
    model.add_argument("--hidden", type=whole_number(1), help="numbers of a token between layers")
    model.add_argument("--heads", type=whole_number(1), help="of attention")
    model.add_argument("--layers", type=whole_number(1), help="of the model")
    model.add_argument("--tensor", type=whole_number(1), default=1, help="devices of each layer (default 1)")
    model.add_argument("--stages", type=whole_number(1), default=1, help="of the pipeline (default 1)")
    model.add_argument("--chunks", type=whole_number(1), default=1, help="of layers in each (default 1)")
    estimate_flexgen.add_parser(parser)


def run(args: argparse.Namespace) -> int:
    """Print the estimates."""
    from ..models.errors import UsageError

    given = [name for name in MODEL if getattr(args, name) is not None]
    if given and len(given) < len(MODEL):
        missing = next(name for name in MODEL if name not in given)
        raise UsageError(f"estimate: found --{given[0]} without --{missing}, expected {_flags(MODEL)}")
    if args.parameters is None and args.largest_layer is not None:
        raise UsageError("estimate: found --largest-layer without --parameters, expected both")
    if args.parameters is None and not given:
        raise UsageError(f"estimate: found neither, expected --parameters, or {_flags(MODEL)}")
    if args.devices % args.nodes:
        raise UsageError(
            f"estimate: found {args.devices} devices in {args.nodes} nodes, expected equal nodes"
        )
    estimates: dict[str, list[dict[str, Any]]] = {}
    if args.parameters is not None:
        estimates["states"] = _states(args)
        if args.largest_layer is not None:
            estimates["deepspeed"] = _deepspeed(args)
    if given:
        estimates["activations"] = _activations(args)
    if args.json:
        emit_json(estimates)
    else:
        for name, rows in estimates.items():
            _show(name, rows)
    return 0


def _states(args: argparse.Namespace) -> list[dict[str, Any]]:
    from ..formulations.estimates.sharding import STAGES, zero

    unit = args.largest_layer or 0
    rows = (
        zero(args.parameters, args.devices, stage, optimizer=args.optimizer, largest_unit=unit)
        for stage in STAGES
    )
    return [{**asdict(states), "total": states.total} for states in rows]


def _deepspeed(args: argparse.Namespace) -> list[dict[str, Any]]:
    from ..formulations.estimates.sharding import deepspeed

    per_node = args.devices // args.nodes
    return [asdict(need) for need in deepspeed(args.parameters, args.largest_layer, per_node, args.nodes)]


def _activations(args: argparse.Namespace) -> list[dict[str, Any]]:
    from ..formulations.estimates.activations import KINDS, Transformer, of_first_stage, of_layer

    model = Transformer(
        **{name: getattr(args, name) for name in (*MODEL, "batch", "tensor", "stages", "chunks")}
    )
    return [
        {"kind": kind, "layer": of_layer(model, kind), "first_stage": of_first_stage(model, kind)}
        for kind in KINDS
    ]


TITLES = {
    "states": "model states under ZeRO on each device, and the elements that it sends in a step",
    "deepspeed": "model states as DeepSpeed estimates them, on each device and host",
    "activations": "activations on each device, by what is shared or run again",
}
NUMBERS = ("stage", "sent")
"""Columns that are no bytes."""


def _show(name: str, rows: list[dict[str, Any]]) -> None:
    from ..models.units import format_bytes

    columns = list(rows[0])
    cells = [
        [
            format_bytes(value) if type(value) is int and column not in NUMBERS else _text(value)
            for column, value in row.items()
        ]
        for row in rows
    ]
    numbers = [column for column in columns if type(rows[0][column]) is int]
    emit_table([column.replace("_", " ") for column in columns], cells, title=TITLES[name], right=numbers)


def _text(value: Any) -> str:
    if type(value) is bool:
        return "yes" if value else "no"
    return f"{value:,}" if type(value) is int else str(value)


def _flags(names: tuple[str, ...]) -> str:
    flags = [f"--{name}" for name in names]
    return f"{', '.join(flags[:-1])} and {flags[-1]}"


def _count(text: str) -> int:
    """Convert a count such as 7500000000 or 7.5e9."""
    from fractions import Fraction

    plain = re.fullmatch(r"\d{1,18}(\.\d{1,18})?(e\d{1,2})?", text, re.ASCII)
    value = Fraction(text) if plain else Fraction(0)
    if value.denominator != 1 or not 1 <= value < 10**18:
        raise argparse.ArgumentTypeError(f"found {text!r}, expected a whole number such as 7.5e9")
    return int(value)
