"""Repetitions in a sequence: the longest part of a trace that consists of equal iterations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

CANDIDATES = 64
"""Number of periods that are looked at: the most frequent distances between equal words, chosen by hand."""

WORD = 8
"""Symbols of a word whose next occurrence is looked for; longer ones make fewer false candidates."""

NEXT = 4
"""Number of earlier occurrences of a word whose distances count; by hand: layers repeat a word twice."""


class Repetition(NamedTuple):
    """Symbols [first, first + length), each equal to the one a period later, as far as both lie in it."""

    first: int
    period: int
    length: int


def repetition_of(symbols: Sequence[Hashable]) -> Repetition | None:
    """Return the longest part that repeats a period at least once, the shortest period of it.

    Candidates for the period are distances between occurrences of one word, so that the answer is a true
    repetition, but a longer one may be missed.

    Examples
    --------
    >>> from lowtide.instances.formats.repetition import repetition_of
    >>> repetition_of("xy" + "abcdeabcfg" * 4 + "ab")
    Repetition(first=2, period=10, length=42)
    """
    numbers: dict[Hashable, int] = {}
    coded = np.array([numbers.setdefault(symbol, len(numbers)) for symbol in symbols], dtype=np.int64)
    best: Repetition | None = None
    for period in sorted(_distances(coded)):
        same = np.flatnonzero(np.concatenate(([True], coded[period:] != coded[:-period], [True])))
        runs = np.diff(same) - 1
        longest = int(runs.argmax())
        length = int(runs[longest]) + period
        if length >= 2 * period and (best is None or length > best.length):
            best = Repetition(int(same[longest]), period, length)
    return best


def _distances(coded: NDArray[np.int64]) -> list[int]:
    """Return the most frequent distances between a word and its next occurrences."""
    words: dict[tuple[int, ...], list[int]] = {}
    counts: Counter[int] = Counter()
    values = coded.tolist()
    for at in range(len(values) - WORD + 1):
        seen = words.setdefault(tuple(values[at : at + WORD]), [])
        for before in seen[-NEXT:]:
            counts[at - before] += 1
        seen.append(at)
    return [distance for distance, _ in counts.most_common(CANDIDATES)]
