"""The argument parser of every verb: errors in one line, no abbreviated options, values checked."""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NoReturn

from ..models.errors import InstanceError, UsageError
from ..models.problems.processors import parse_processors, processors_text
from ..models.units import parse_bytes

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction["Parser"]

SPEC_HELP = """a path, or onnx:NAME, gen:FAMILY?n=32,seed=1, catalogue:NAME (see lowtide list instances);
for offsets also buffers (.csv, .json) and plans"""


class Parser(argparse.ArgumentParser):
    """An argument parser that raises `UsageError` where argparse would print usage and exit."""

    def error(self, message: str) -> NoReturn:
        """Raise the message as a usage error that names the verb."""
        verb = self.prog.partition(" ")[2]
        raise UsageError(f"{verb}: {message}" if verb else message)


def add_verb(
    subparsers: Subparsers,
    name: str,
    run: Callable[[argparse.Namespace], int],
    summary: str,
    *,
    details: str = "",
    examples: Sequence[str] = (),
) -> Parser:
    """Add a verb's parser, with what every verb has, to the program's parser and return it."""
    lines = [f"  {example}" for example in examples]
    parser = subparsers.add_parser(
        name,
        help=summary,
        description=f"{summary[0].upper()}{summary[1:]}.{' ' + details if details else ''}",
        epilog="\n".join(["examples:", *lines]) if lines else None,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument(
        "--unpack-limit",
        type=size_or_none,
        metavar="SIZE",
        help="read no file that holds more, unpacked, or none (default 2GiB)",
    )
    parser.set_defaults(run=run)
    return parser


def option_names(parser: argparse.ArgumentParser) -> list[str]:
    """Return the long options of a parser."""
    return sorted(set(re.findall(r"--[a-z][a-z-]*", parser.format_usage())))


def seconds_or_none(text: str) -> float | None:
    """Convert the value of a time limit: seconds > 0, or ``none``."""
    if text == "none":
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (value > 0 and math.isfinite(value)):
        raise argparse.ArgumentTypeError(f"found {text!r}, expected seconds > 0, or none")
    return value


def size(text: str) -> int:
    """Convert a size such as ``4GiB``."""
    try:
        return parse_bytes(text)
    except UsageError as error:
        raise argparse.ArgumentTypeError(str(error).removeprefix("size: ")) from None


def size_or_none(text: str) -> int | str:
    """Convert a size, or ``none`` for no limit, which stays text."""
    return text if text == "none" else size(text)


def whole_number(least: int) -> Callable[[str], int]:
    """Return the converter of integers that are at least `least`."""

    def convert(text: str) -> int:
        if not re.fullmatch(r"\d{1,18}", text, re.ASCII) or int(text) < least:
            raise argparse.ArgumentTypeError(f"found {text!r}, expected an integer >= {least}")
        return int(text)

    return convert


def processors(text: str) -> int | str:
    """Convert a count of processors, or kinds with counts such as ``cpu=4,gpu=1``, which stay text."""
    try:
        found = parse_processors(text)
    except InstanceError as error:
        raise argparse.ArgumentTypeError(str(error).removeprefix("processors: ")) from None
    return found if isinstance(found, int) else processors_text(found)


def key_value(text: str) -> tuple[str, str]:
    """Convert ``key=value``."""
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise argparse.ArgumentTypeError(f"found {text!r}, expected KEY=VALUE")
    return key, value


def unique(pairs: Sequence[tuple[str, str]], option: str) -> dict[str, str]:
    """Return the pairs of a repeatable option as a mapping; raise `UsageError` if a key repeats."""
    found: dict[str, str] = {}
    for key, value in pairs:
        if key in found:
            raise UsageError(f"{option}: found {key!r} twice, expected it once")
        found[key] = value
    return found
