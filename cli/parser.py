"""The argument parser of every verb: errors in one line, no abbreviated options, values checked."""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from ..models.errors import UsageError
from ..models.texts import nearest
from ..models.units import parse_bytes
from .verbs import VERBS

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction["Parser"]

SPEC_HELP = """a path, or onnx:NAME, gen:FAMILY?n=32,seed=1, catalogue:NAME (see lowtide list instances);
for offsets also buffers (.csv, .json), CUDA snapshots (.pickle) and plans"""


class Parser(argparse.ArgumentParser):
    """An argument parser that raises `UsageError` where argparse would print usage and exit.

    Attributes
    ----------
    problems
        Of a verb that has other options for every problem: the parser of each, for all words but its name.
    """

    problems: Mapping[str, Parser] = {}

    def error(self, message: str) -> NoReturn:
        """Raise the message as a usage error that names the verb."""
        verb = self.prog.split()[1:2]
        raise UsageError(f"{verb[0]}: {message}" if verb else message)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse words; where there are parsers of problems, options may also stand before the problem.

        Raises
        ------
        UsageError
            Besides what argparse refuses, if there is no such problem, or an option is one of others only.
        """
        if not self.problems:
            return super().parse_known_args(args, namespace)
        parsed, unknown = super().parse_known_args(_problem_first(list(args), self.problems), namespace)
        for word in unknown:
            flag = word.partition("=")[0]
            if owners := [name for name, parser in self.problems.items() if flag in flags_of(parser)]:
                raise UsageError(
                    f"{self.prog.split()[1]}: found {flag} with problem {parsed.problem}, "
                    f"expected it with {' or '.join(owners)}"
                )
        return parsed, unknown


def flags_of(parser: argparse.ArgumentParser) -> dict[str, argparse.Action]:
    """Return what every option of a parser does."""
    return {flag: action for action in parser._actions for flag in action.option_strings}


def _problem_first(words: list[str], problems: Mapping[str, Parser]) -> list[str]:
    """Return the words with the problem in front; raise `UsageError` if there is none of that name."""
    valued = {flag for p in problems.values() for flag, action in flags_of(p).items() if action.nargs is None}
    free = [k for k, word in enumerate(words) if word[:1] != "-" and (not k or words[k - 1] not in valued)]
    if not free:
        return words
    k = next((k for k in free if words[k] in problems), free[0])
    if words[k] not in problems:
        first = f"; the problem comes first: peak {words[k]}" if {*words[k]} & {".", ":", "/"} else ""
        raise UsageError(f"problem: found {words[k]!r}, {nearest(words[k], problems)}{first}")
    return [words[k], *words[:k], *words[k + 1 :]]


def add_verb(
    subparsers: Subparsers,
    name: str,
    run: Callable[[argparse.Namespace], int],
    summary: str = "",
    *,
    details: str = "",
    examples: Sequence[str] = (),
) -> Parser:
    """Add a verb's parser, with what every verb has, to the program's parser and return it.

    The summary is that of `lowtide.cli.verbs` unless another one is given.
    """
    summary = summary or VERBS[name]
    parser = subparsers.add_parser(
        name,
        help=summary,
        description=f"{summary[0].upper()}{summary[1:]}.{' ' + details if details else ''}",
        epilog=shown_examples(examples),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add_common(parser)
    parser.set_defaults(run=run)
    return parser


def add_common(parser: argparse.ArgumentParser) -> None:
    """Add what every verb has."""
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument(
        "--unpack-limit",
        type=size_or_none,
        metavar="SIZE",
        help="read no file that holds more, unpacked, or none (default 2GiB)",
    )


def shown_examples(examples: Sequence[str]) -> str | None:
    """Return the end of a help page."""
    return "\n".join(["examples:", *(f"  {example}" for example in examples)]) if examples else None


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


def key_value(text: str) -> tuple[str, str]:
    """Convert ``key=value``."""
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise argparse.ArgumentTypeError(f"found {text!r}, expected KEY=VALUE")
    return key, value


def add_method_options(parser: argparse.ArgumentParser, meaning: str) -> None:
    """Add ``--solver-option``; `unique` reads its pairs."""
    parser.add_argument(
        "--solver-option",
        type=key_value,
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help=f"{meaning}; repeatable",
    )


def refuse_useless(args: argparse.Namespace, flag: str, useless: Sequence[str]) -> None:
    """Raise `UsageError` if flags were given that another one has no use for."""
    for name in useless:
        if getattr(args, name) is not None:
            raise UsageError(f"solve: found --{name.replace('_', '-')} with {flag}, which has no use for it")


def unique(pairs: Sequence[tuple[str, str]], option: str) -> dict[str, str]:
    """Return the pairs of a repeatable option as a mapping; raise `UsageError` if a key repeats."""
    values: dict[str, str] = {}
    for key, value in pairs:
        if key in values:
            raise UsageError(f"{option}: found {key!r} twice, expected it once")
        values[key] = value
    return values
