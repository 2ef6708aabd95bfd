"""Shorter SVG files: paths of pictures with hundredths of a point, and straight lines in one number.

A hundredth of a point is a seventh of a dot of a printer of 1,000 dots per inch.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_NUMBERS = {"M": 2, "L": 2, "Q": 4, "C": 6, "z": 0}


def compact_paths(svg: str) -> str:
    r"""Return a picture of matplotlib with shorter paths, which look the same.

    Examples
    --------
    >>> compact_paths('<path d="M 0.5 2.25099 \nL 8 2.25099 \nL 8 7.125 \nz\n"/>')
    '<path d="M0.5 2.25H8V7.12z"/>'
    """
    return re.sub(r' d="([^"]*)"', lambda found: f' d="{"".join(_shortened(found[1].split()))}"', svg)


def _shortened(words: list[str]) -> Iterator[str]:
    """Yield commands, each with its numbers; all of them in capitals count from the origin."""
    here: tuple[str, str] | None = None
    begun = here
    k = 0
    while k < len(words):
        command = words[k]
        count = _NUMBERS[command]
        numbers = [_rounded(word) for word in words[k + 1 : k + 1 + count]]
        k += 1 + count
        if command == "z":
            here = begun
            yield command
            continue
        there = numbers[-2], numbers[-1]
        if command == "L" and here is not None and there[0] == here[0]:
            yield "" if there == here else f"V{there[1]}"
        elif command == "L" and here is not None and there[1] == here[1]:
            yield f"H{there[0]}"
        else:
            yield command + " ".join(numbers)
        here = there
        if command == "M":
            begun = here


def _rounded(word: str) -> str:
    text = f"{float(word):.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text
