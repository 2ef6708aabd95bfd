"""The flags of problems, one for every parameter, the same for each verb that takes a problem."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from .parser import Parser, key_value, shown_examples, size, size_or_none, unique, whole_number
from .start import METAVAR

if TYPE_CHECKING:
    from ..models.parameter import Parameter

SHARE = "; 50%% is half the peak of the graph's reference order"


def add_problems(
    parser: Parser, common: Callable[[], Parser], examples: Sequence[str]
) -> Iterator[tuple[str, Parser, argparse._ArgumentGroup]]:
    """Add a parser for each problem with the flags that it has; yield its name, that parser and their group.

    Parameters
    ----------
    common
        Returns a parser of what every problem has besides: a new one, for flags that are replaced go from it.
    examples
        Of the verb; the help of a problem shows its own.
    """
    from ..models.problems import PROBLEMS

    inner = parser.add_subparsers(title="problems", metavar="PROBLEM", dest="problem", required=True)
    parser.problems = inner.choices
    verb = parser.prog.split()[-1]
    for name, problem in PROBLEMS.items():
        question = (problem.__doc__ or "").splitlines()[0]
        own = inner.add_parser(
            name,
            parents=[common()],
            help=question,
            description=question,
            epilog=shown_examples([x for x in examples if f" {verb} {name} " in x]),
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
            conflict_handler="resolve",  # a problem's own flag goes before a second name of a common one
        )
        group = own.add_argument_group(f"options of {name}")
        other = PROBLEMS[problem.becomes[0]].parameters if problem.becomes[0] else {}
        for key, parameter in {**other, **problem.parameters}.items():
            if parameter.flag:
                _add_flag(group, key, parameter, problem.about == "graph")
        yield name, own, group


def _add_flag(group: argparse._ActionsContainer, key: str, parameter: Parameter, of_graph: bool) -> None:
    """Add the flag of a parameter; of one that stands for many, a repeatable one."""
    flag, text = "--" + key.rstrip(".").replace("_", "-"), parameter.text
    text += f": {parameter.expected}" if parameter.kind == "machine" else ""
    text += SHARE if parameter.kind in ("size", "limit") and of_graph else ""
    kinds: dict[str, tuple[str, Any]] = {
        "size": ("SIZE", _size_or_share),
        "limit": ("SIZE", _limit_or_share),
        "rate": ("RATE", size_or_none),
        "machine": ("NAME", str),
        "processors": ("N", str),
        "pools": ("KINDS", str),
        "banks": ("BANKS", str),
    }
    if isinstance(parameter.default, bool):
        group.add_argument(flag, action="store_true", help=text)
    elif key.endswith("."):
        group.add_argument(flag, type=key_value, action="append", metavar=METAVAR, help=text)
    elif parameter.choices:
        group.add_argument(flag, choices=parameter.choices, help=text)
    else:
        metavar, convert = kinds.get(parameter.kind) or ("N", whole_number(int(parameter.least)))
        group.add_argument(flag, type=convert, metavar=metavar, help=text)


def asked_problem(args: argparse.Namespace) -> str:
    """Return the problem that is meant (`Problem.becomes`): with a bound, parallel-memory is memory-edges."""
    from ..models.problems import PROBLEMS

    other, flags = PROBLEMS[args.problem].becomes
    return other if any(getattr(args, flag, None) is not None for flag in flags) else str(args.problem)


def given(args: argparse.Namespace) -> dict[str, object]:
    """Return the parameters that are given as flags, as options of the instance."""
    from ..models.problems import PROBLEMS

    options: dict[str, object] = {}
    for key, parameter in PROBLEMS[args.problem].parameters.items():
        value = getattr(args, key.rstrip(".")) if parameter.flag else None
        if value in (None, False):
            continue
        if key.endswith("."):
            pairs = unique(value, f"--{key.rstrip('.')}")
            options |= {f"{key}{kind}": text.replace(",", "+") for kind, text in pairs.items()}
        else:
            options[key] = value
    return options | ({"satisfy": True} if "capacity" in options else {})


def _size_or_share(text: str) -> int | str:
    """Convert a size; a share such as ``50%`` stays text."""
    return text if text.endswith("%") else size(text)


def _limit_or_share(text: str) -> int | str:
    """Convert a size, or ``none``; a share such as ``50%`` stays text."""
    return text if text == "none" else _size_or_share(text)
