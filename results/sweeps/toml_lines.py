"""Where each key and each element of a TOML text stands: the reader of the standard library does not say.

To be called on texts that `tomllib` accepts; it follows their structure and trusts their syntax.
"""

from __future__ import annotations

import re
import tomllib
from bisect import bisect_left

Place = tuple[str | int, ...]
"""Keys and indices from the root to a value."""

_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_KEY = re.compile(r"""[ \t]*("(?:\\.|[^"\\])*"|'[^']*'|[A-Za-z0-9_-]+)[ \t]*""")
_STRING = re.compile(
    r'"""(?:\\.|[^\\])*?"{3,5}' + r"|'''.*?'{3,5}" + r"""|"(?:\\.|[^"\\])*"|'[^']*'""",
    re.DOTALL,
)
_OTHER = re.compile(r"[^,\]}#\n]*")


def line_numbers(text: str) -> dict[Place, int]:
    r"""Return the line (from 1) of every table, key and element of a valid TOML text.

    Examples
    --------
    >>> line_numbers("[limits]\nseconds = 10\n\n[[runs]]\nseeds = [1,\n 2]\n")["runs", 0, "seeds", 1]
    6
    """
    return _Scan(text).places


class _Scan:
    """One pass over the text; `at` is where the next unread character stands."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.ends = [match.start() for match in re.finditer("\n", text)]
        self.places: dict[Place, int] = {}
        self.lengths: dict[Place, int] = {}
        table: Place = ()
        while self.skip_blank():
            if text.startswith("[[", self.at):
                table = self.header(2)
            elif text[self.at] == "[":
                table = self.header(1)
            else:
                self.pair(table)

    def skip_blank(self) -> bool:
        """Pass blanks, line ends and comments; return whether something is left."""
        self.at = self.match(_BLANK).end()
        return self.at < len(self.text)

    def match(self, pattern: re.Pattern[str]) -> re.Match[str]:
        found = pattern.match(self.text, self.at)
        assert found is not None, f"not TOML at offset {self.at}"
        return found

    def note(self, place: Place) -> None:
        self.places.setdefault(place, bisect_left(self.ends, self.at) + 1)

    def header(self, brackets: int) -> Place:
        """Read ``[a.b]`` or ``[[a.b]]``; return the table that it opens."""
        start = self.at
        self.at += brackets
        keys = self.keys()
        end = self.at + brackets
        self.at = start
        table: Place = ()
        for i, key in enumerate(keys):
            table = (*table, key)
            self.note(table)
            last = i == len(keys) - 1
            if last and brackets == 2:
                self.lengths[table] = self.lengths.get(table, 0) + 1
            if table in self.lengths:  # further keys are of its latest element
                table = (*table, self.lengths[table] - 1)
                self.note(table)
        self.at = end
        return table

    def keys(self) -> list[str]:
        """Read a dotted key."""
        keys = []
        while True:
            match = self.match(_KEY)
            self.at = match.end()
            word = match[1]
            keys.append(next(iter(tomllib.loads(f"{word} = 0"))))
            if self.text[self.at : self.at + 1] != ".":
                return keys
            self.at += 1

    def pair(self, table: Place) -> None:
        """Read ``key = value``."""
        start = self.at
        keys = self.keys()
        end, self.at = self.at, start
        place = table
        for key in keys:
            place = (*place, key)
            self.note(place)
        self.at = end + 1  # the equals sign
        self.skip_blank()
        self.value(place)

    def value(self, place: Place) -> None:
        """Read a value; note the places within it."""
        first = self.text[self.at]
        if first == "[":
            self.sequence(place, "]")
        elif first == "{":
            self.sequence(place, "}")
        else:
            self.at = self.match(_STRING if first in "\"'" else _OTHER).end()

    def sequence(self, place: Place, close: str) -> None:
        """Read an array or an inline table."""
        self.at += 1
        index = 0
        while self.skip_blank() and self.text[self.at] != close:
            if close == "}":
                self.pair(place)
            else:
                self.note((*place, index))
                self.value((*place, index))
                index += 1
            self.skip_blank()
            if self.text[self.at] == ",":
                self.at += 1
        self.at += 1
