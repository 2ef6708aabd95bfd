"""``lowtide solve --show-parts``: which part of a method had the time and what it improved, drawn in text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..models.result import Result, Turn

WIDTH = 40
"""Characters of the time axis: a line then fits 80 columns."""


def picture(result: Result) -> Iterator[str]:
    """Yield a line for each part: when it had its turns, how long in all, and what it improved, by how much.

    Where it bettered the answer the bar is ``#``, where it raised the bound ``=``, else ``.``.

    Examples
    --------
    >>> import lowtide as lt
    >>> for line in picture(lt.solve(lt.Peak(lt.load("catalogue:chain")), time_limit=5)):
    ...     print(line[:13].rstrip())
    reference ord
    """
    turns = result.parts
    if not turns:
        yield f"{result.method} has no parts"
        return
    end = max(turn.start + turn.seconds for turn in turns) or 1.0
    names = list(dict.fromkeys(turn.part for turn in turns))
    widest = max(map(len, names))
    for name in names:
        own = [turn for turn in turns if turn.part == name]
        bar = [" "] * WIDTH
        for turn in own:
            first = min(WIDTH - 1, int(turn.start / end * WIDTH))
            last = min(WIDTH - 1, int((turn.start + turn.seconds) / end * WIDTH))
            bar[first : last + 1] = [_mark(turn)] * (last + 1 - first)
        seconds = sum(turn.seconds for turn in own)
        yield f"{name:{widest}} |{''.join(bar)}| {seconds:7.2f} s  {_improved(own)}".rstrip()


def _mark(turn: Turn) -> str:
    if turn.before[0] != turn.after[0]:
        return "#"
    return "=" if turn.before[1] != turn.after[1] else "."


def _improved(turns: list[Turn]) -> str:
    """Say the last answer and the last bound that are the part's own, and how it ended."""
    answers = [turn.after[0] for turn in turns if turn.before[0] != turn.after[0]]
    bounds = [turn.after[1] for turn in turns if turn.before[1] != turn.after[1]]
    words = [f"answer {answers[-1]:,}"] if answers else []
    words += [f"bound {bounds[-1]:,}"] if bounds else []
    ended = turns[-1].ended
    return ", ".join([*words, *([ended] if ended != "paused" else [])])
