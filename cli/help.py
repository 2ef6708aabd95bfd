"""``lowtide help``: what a method does, its options and its paper; or the help of a verb."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from importlib import import_module
from typing import TYPE_CHECKING

from .output import emit, emit_json, emit_pairs
from .parser import Parser, add_verb
from .verbs import VERBS

if TYPE_CHECKING:
    from ..solvers.method import Method
    from .parser import Subparsers


def add_parser(subparsers: Subparsers) -> None:
    """Add the verb."""
    parser = add_verb(
        subparsers,
        "help",
        run,
        examples=["lowtide help belady", "lowtide help peak cpsat", "lowtide help solve"],
    )
    parser.add_argument("words", nargs="+", metavar="[PROBLEM] METHOD | VERB", help="of what")


def run(args: argparse.Namespace) -> int:
    """Print what is known of the methods of a name, or the help of a verb."""
    from ..models.errors import UsageError
    from ..models.problems import PROBLEMS
    from ..models.texts import nearest
    from ..solvers.registry import find_method, methods

    *problem, name = args.words
    if len(problem) > 1:
        raise UsageError(f"help: found {len(args.words)} words, expected [PROBLEM] METHOD or VERB")
    if problem:
        chosen = [find_method(problem[0], name)]
    elif name in PROBLEMS:
        chosen = [m for m in methods() if m.problem == name]
    else:
        chosen = [m for m in methods() if m.name == name]
    if not chosen and name in VERBS:
        shown = Parser(prog="lowtide").add_subparsers()
        import_module(f".{name}", __package__).add_parser(shown)
        shown.choices[name].print_help()
        return 0
    if not chosen:
        known = dict.fromkeys([*(m.name for m in methods()), *PROBLEMS, *VERBS])
        raise UsageError(f"help: found {name!r}, {nearest(name, known)}")
    if args.json:
        emit_json({"methods": [as_dict(m) for m in chosen]})
    else:
        _print(chosen)
    return 0


def as_dict(method: Method) -> dict[str, object]:
    """Return what is known of a method as JSON values."""
    return {
        "problem": method.problem,
        "name": method.name,
        "exact": method.proves == "optimum",
        "engine": method.engine,
        "summary": method.summary,
        "source": method.source,
        **({"basis": method.basis, "abstracted": method.abstracted} if method.basis else {}),
        **({"traits": served} if (served := _traits(method)) else {}),
        "options": {option.name: option.meaning for option in method.options},
    }


def _traits(method: Method) -> dict[str, str]:
    """Return of each trait of questions whether a method serves it, as `capabilities` does."""
    from ..solvers.parts import capabilities
    from ..solvers.registry import declared

    part = declared(method)
    return {} if part is None else capabilities(part)


def print_methods(problem: str) -> None:
    """Print the methods of a problem."""
    from ..solvers.registry import methods

    _print(m for m in methods() if m.problem == problem)


def _print(found: Iterable[Method]) -> None:
    """Print every method as names and values."""
    for k, method in enumerate(found):
        if k:
            emit("")
        rows = [
            ("method", f"{method.problem} {method.name}"),
            ("what", method.summary),
            ("proves", f"{method.proves}, given time"),
        ]
        rows += [("paper", method.source)] if method.source else []
        rows += [("rests on", method.basis), ("abstracted", method.abstracted)] if method.basis else []
        served = _traits(method)
        for word, answer in (("needs", "needed"), ("refuses", "no")):
            some = [trait for trait, found in served.items() if found == answer]
            rows += [(word, "; ".join(some))] if some else []
        rows += [(f"option {option.name}", option.meaning) for option in method.options]
        if method.engine is not None:
            rows.append(("engine", f"{method.engine}; --solver-option passes what it knows on to it"))
        emit_pairs(rows)
