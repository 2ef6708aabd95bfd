"""``lowtide estimate flexgen``: where weights, caches and states rest in inference, by FlexGen's program."""

from __future__ import annotations

import argparse
import re
from fractions import Fraction
from math import inf
from time import perf_counter
from typing import TYPE_CHECKING, Any

from .output import emit_json, emit_table, note
from .parser import Parser, add_verb, flags_of, seconds_or_none, size, whole_number

if TYPE_CHECKING:
    from ..formulations.estimates.flexgen import Policy

TIERS = {"gpu": "16GiB", "host": "200GiB", "disk": "1500GiB"}


def add_parser(parser: Parser) -> None:
    """Add it to the parser of ``estimate``."""
    verb = add_verb(
        parser.add_subparsers(dest="what", metavar="flexgen", title="inference"),
        "flexgen",
        run,
        "say which fractions of weights, caches and states rest on GPU, host and disk",
        details=(
            "FlexGen's linear program, solved exactly, with the constants of a T4. Without --batch and "
            "--batches: the best numbers of all, proved."
        ),
        examples=[
            "lowtide estimate flexgen --model opt-30b",
            "lowtide estimate flexgen --model opt-30b --batch 48 --batches 3 --json",
        ],
    )
    verb.add_argument("--model", required=True, metavar="NAME", help="such as opt-30b")
    verb.add_argument("--prompt", type=whole_number(1), default=512, help="tokens (default 512)")
    verb.add_argument("--new", type=whole_number(1), default=32, help="tokens generated (default 32)")
    for tier, nbytes in TIERS.items():
        converter = size if tier == "gpu" else _size_or_zero
        verb.add_argument(
            f"--{tier}", type=converter, default=size(nbytes), help=f"memory (default {nbytes})"
        )
    verb.add_argument("--share", type=_share, default=Fraction(4, 5), help="of it that is used (default 0.8)")
    verb.add_argument(
        "--batch", dest="size", type=whole_number(1), metavar="N", help="sequences on the GPU at a time"
    )
    verb.add_argument("--batches", type=whole_number(1), metavar="N", help="that pass a layer in a row")
    verb.add_argument("--published-search", action="store_true", help="only numbers that FlexGen tries")
    verb.add_argument(
        "--time-limit",
        type=seconds_or_none,
        default=60.0,
        metavar="SECONDS",
        help="of the search, or none (default 60)",
    )
    for flag in ("--json", "--unpack-limit"):  # they may stand before the word flexgen, too
        flags_of(verb)[flag].default = argparse.SUPPRESS


def run(args: argparse.Namespace) -> int:
    """Print the policy; 1 if none fits."""
    from ..formulations.estimates.flexgen import Inference, best_policy, policy, published_search
    from ..models.errors import UsageError
    from ..models.opt import OPT
    from ..models.texts import nearest

    for name in ("parameters", "largest_layer", "sequence", "hidden", "heads", "layers"):
        if getattr(args, name) is not None:
            flag = name.replace("_", "-")
            raise UsageError(f"estimate flexgen: found --{flag}, expected the sizes of the model by its name")
    if args.model not in OPT:
        raise UsageError(f"estimate flexgen, --model: found {args.model!r}, {nearest(args.model, OPT)}")
    if (args.size is None) != (args.batches is None) or (args.size and args.published_search):
        raise UsageError(
            "estimate flexgen: expected --batch and --batches, --published-search, or none of them"
        )
    question = Inference(
        model=OPT[args.model],
        capacity=(args.gpu, args.host, args.disk),
        prompt=args.prompt,
        new=args.new,
        share=args.share,
    )
    stopped = False
    if args.size is not None:
        chosen = policy(question, args.size, args.batches)
    else:
        until = inf if args.time_limit is None else perf_counter() + args.time_limit

        def expired() -> bool:
            nonlocal stopped
            stopped = perf_counter() > until
            return stopped

        chosen = (published_search if args.published_search else best_policy)(question, expired)
    if stopped:
        note("estimate flexgen: stopped by the time limit, --time-limit none searches to the end")
    if args.json:
        reason = "time" if stopped else None
        emit_json({"flexgen": None if chosen is None else {**_record(chosen), "reason": reason}})
    elif chosen is None:
        emit_table(["policy"], [["none fits"]])
    else:
        _show(chosen)
    return 1 if chosen is None else 0


def _record(chosen: Policy) -> dict[str, Any]:
    tiers = tuple(TIERS)
    return {
        "batch": chosen.batch,
        "batches": chosen.batches,
        "tokens_per_second": float(chosen.tokens_per_second),
        "at_most": None if chosen.at_most is None else float(chosen.at_most),
        **{
            name: dict(zip(tiers, map(float, getattr(chosen, name)), strict=True))
            for name in ("weights", "cache", "states")
        },
        "seconds": {
            phase: {name: float(value) for name, value in terms.items()}
            for phase, terms in chosen.seconds.items()
        },
        "memory": chosen.memory,
    }


def _show(chosen: Policy) -> None:
    from ..models.units import format_bytes

    columns = ["batch", "batches", "tokens per second"]
    row = [str(chosen.batch), str(chosen.batches), f"{float(chosen.tokens_per_second):.6f}"]
    if chosen.at_most is not None:
        columns, row = [*columns, "at most"], [*row, f"{float(chosen.at_most):.6f}"]
    emit_table(columns, [row], title="the best policy", right=columns)
    emit_table(
        ["what", *TIERS],
        [
            [name, *(f"{float(part):.2%}" for part in getattr(chosen, name))]
            for name in ("weights", "cache", "states")
        ],
        title="where it rests",
        right=list(TIERS),
    )
    phases = list(chosen.seconds)
    emit_table(
        ["term", *phases],
        [
            [name.replace("_", " "), *(f"{float(chosen.seconds[phase][name]):.6f} s" for phase in phases)]
            for name in chosen.seconds[phases[0]]
        ],
        title="seconds of a layer for the block, of each token in decode",
        right=phases,
    )
    emit_table(
        ["tier", *phases],
        [[tier, *(format_bytes(chosen.memory[phase][tier]) for phase in phases)] for tier in TIERS],
        title="memory in use",
        right=phases,
    )


def _size_or_zero(text: str) -> int:
    """Convert a size such as 4GiB, or 0 of a tier that is not there."""
    return 0 if text == "0" else size(text)


def _share(text: str) -> Fraction:
    """Convert a share such as 0.8."""
    value = Fraction(text) if re.fullmatch(r"\d(\.\d{1,18})?", text, re.ASCII) else Fraction(0)
    if not 0 < value <= 1:
        raise argparse.ArgumentTypeError(f"found {text!r}, expected more than 0, at most 1")
    return value
