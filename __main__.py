"""The command line ``lowtide``: builds the parser from `lowtide.cli` and dispatches to a verb."""

from __future__ import annotations

import difflib
import gc
import os
import sys
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

from ._version import __version__
from .cli.output import complain, drop_output, noting_warnings, open_streams, reserve_output
from .cli.parser import Parser, option_names
from .cli.verbs import VERBS
from .instances.formats.strict_json import UNPACK_VARIABLE
from .models.errors import LowtideError, UsageError, VerificationError
from .models.files import noting_files
from .models.texts import cut, printable

if TYPE_CHECKING:
    from .cli.parser import Subparsers


@cache
def build_parser(only: str = "") -> tuple[Parser, Subparsers]:
    """Return the parser of the program and its verbs; of one verb only: the others are listed."""
    parser = Parser(
        prog="lowtide",
        description="Mathematical optimization for memory-aware scheduling of computation graphs.",
        epilog="Exit status: 0 done, 1 verification failed, infeasible or failed, 2 usage or bad input.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"lowtide {__version__}")
    subparsers = parser.add_subparsers(title="verbs", metavar="VERB", dest="verb")
    for verb, summary in VERBS.items():
        if only in ("", verb):
            import_module(f"{__package__}.cli.{verb}").add_parser(subparsers)
        else:
            subparsers.add_parser(verb, help=summary)
    return parser, subparsers


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit status.

    Parameters
    ----------
    argv
        The words behind ``lowtide``; None for those of this process, whose standard output is then reserved.

    Examples
    --------
    >>> main(["list", "problems", "--json"])  # doctest: +ELLIPSIS
    {"problems": [{"name": "peak", ...}]}
    0
    """
    if argv is None:
        open_streams()
        reserve_output()
        status = _main(sys.argv[1:])
        solvers = sys.modules.get(f"{__package__}.solvers.engines.supervise")  # if one was started
        return status if solvers is None else int(solvers.leave(status))
    return _main(list(argv))


def _main(argv: list[str]) -> int:
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a name that the terminal cannot show must not stop the work
            stream.reconfigure(errors="replace")
    # Graphs are many small objects that live on and form no cycles: by default, looking for cycles among
    # them takes a third of the time of loading and verifying 100,000 ops.
    gc.set_threshold(100_000, 50, 100)
    try:
        return _run(argv)
    except VerificationError as error:
        lines = (cut(printable(line)) for line in str(error).splitlines())
        print("lowtide: " + "\n".join(lines), file=sys.stderr)
        return 1
    except (LowtideError, OSError) as error:
        if isinstance(error, BrokenPipeError):
            drop_output()
            return 0
        complain(str(error))
        return 2
    except KeyboardInterrupt:
        print("lowtide: interrupted", file=sys.stderr)
        return 130


def _run(argv: list[str]) -> int:
    for word in argv:
        _check_word(word)
    verb = next((word for word in argv if not word.startswith("-")), "--help")
    parser, subparsers = build_parser(verb)
    names = list(VERBS)
    if not argv:
        raise UsageError(f"found no verb, expected one of {', '.join(names)} (lowtide --help)")
    if not argv[0].startswith("-") and argv[0] not in names:
        raise UsageError(f"verb: found {argv[0]!r}, {_nearest(argv[0], names)}")
    try:
        args, unknown = parser.parse_known_args(argv)
        sys.stdout.flush()  # help and version end here; a closed pipe shows now, not at exit
    except SystemExit as stop:
        sys.stdout.flush()
        return int(stop.code or 0)
    if args.verb is None or (unknown and unknown[0] in argv[: argv.index(args.verb)]):
        found = f"unknown option {unknown[0]!r} before the verb" if unknown else "no verb"
        raise UsageError(f"found {found}, expected one of {', '.join(names)} first (lowtide --help)")
    if unknown:
        what = "option" if unknown[0].startswith("-") else "argument"
        chosen = subparsers.choices[args.verb]
        chosen = chosen.problems.get(getattr(args, "problem", ""), chosen)
        hint = _nearest(unknown[0].partition("=")[0], option_names(chosen))
        raise UsageError(f"{args.verb}: found unknown {what} {unknown[0]!r}, {hint}")
    before = os.environ.get(UNPACK_VARIABLE)
    if args.unpack_limit is not None:
        os.environ[UNPACK_VARIABLE] = str(args.unpack_limit)  # processes that this one starts obey it too
    try:
        with noting_files(), noting_warnings():
            status: int = args.run(args)
    finally:
        if before is not None:
            os.environ[UNPACK_VARIABLE] = before
        elif args.unpack_limit is not None:
            del os.environ[UNPACK_VARIABLE]
    return status


def _check_word(word: str) -> None:
    """Raise `UsageError` at a word that can be no path and no name."""
    try:
        sound = b"\0" not in word.encode()
    except UnicodeEncodeError:  # bytes that are no UTF-8: no plan could name such a file
        sound = False
    if not sound:
        raise UsageError(f"found {word!r}, expected Unicode text without null characters")


def _nearest(word: str, words: Sequence[str]) -> str:
    near = difflib.get_close_matches(word, words, n=2, cutoff=0.5)
    return f"did you mean {' or '.join(near)}?" if near else f"expected one of {', '.join(words)}"


if __name__ == "__main__":
    sys.exit(main())
