"""Texts of others (names from files) made safe to show: nothing in them steers a terminal or a picture."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

_STEERING = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff]"
)
"""Control characters, marks that turn or hide text, line separators, halves of surrogate pairs."""

_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}

_FORMULA = re.compile(r"'*[=+\-@\t\r]")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)

LONGEST = 300
"""Characters of one line of an error message; longer ones keep their begin and their end."""


def printable(text: str, *, keep: str = "") -> str:
    r"""Return a text whose control characters are written out, as ``\x1b``; those in `keep` stay.

    Examples
    --------
    >>> from lowtide.models.texts import printable
    >>> print(printable("red \x1b[31mname"))
    red \x1b[31mname
    """
    return _STEERING.sub(lambda match: match[0] if match[0] in keep else _escaped(match[0]), text)


def _escaped(character: str) -> str:
    code = ord(character)
    return _SHORT.get(character) or (f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}")


def escaped_json(text: str) -> str:
    """Return a JSON text in which those characters that JSON lets pass (DEL, C1, marks) are escaped too."""
    return _STEERING.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def one_line(text: str) -> str:
    """Return an error's message as one line that can be shown, cut in the middle if it is long.

    Most of what is cut is what was found: the place is said before it, what was expected after it.
    """
    return cut(printable(" ".join(text.split())))


def cut(line: str) -> str:
    """Return a line of at most `LONGEST` characters: its begin and its end."""
    if len(line) <= LONGEST:
        return line
    tail = LONGEST // 3
    return f"{line[: LONGEST - tail - 3]} … {line[-tail:]}"


def as_cell(text: str) -> str:
    """Return a text as a cell of a CSV file that no spreadsheet takes for a formula: after an apostrophe.

    Numbers stay as they are. `from_cell` undoes it, also where the text has apostrophes of its own.

    Examples
    --------
    >>> from lowtide.models.texts import as_cell, from_cell
    >>> as_cell("=1+1"), as_cell("-1"), as_cell("conv"), from_cell(as_cell("'=1+1"))
    ("'=1+1", '-1', 'conv', "'=1+1")
    """
    return f"'{text}" if _FORMULA.match(text) and not _NUMBER.fullmatch(text) else text


def from_cell(cell: str) -> str:
    """Return the text of a cell that `as_cell` made."""
    return cell[1:] if cell[:1] == "'" and _FORMULA.match(cell) else cell


def nearest(word: str, words: Iterable[str]) -> str:
    """Return the names to propose instead of a wrong one: the near ones, all if none is near."""
    names = sorted(words)
    close = difflib.get_close_matches(word.lower(), names, n=3, cutoff=0.5)
    if close:
        return "did you mean " + " or ".join(close) + "?"
    return "expected one of " + ", ".join(names) if names else "expected none"
