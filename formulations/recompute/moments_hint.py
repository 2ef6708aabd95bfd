"""The values of the variables of `moments_milp` that are read off a schedule."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .moments_milp import MomentsModel


def set_values(built: MomentsModel, hint: Sequence[int]) -> None:
    """Give every variable the value that is read off a schedule with early discards, given by its runs."""
    data, values = built.data, built.data.values
    starts = [0, *(hint.index(p) for p in built.moments), len(hint)]
    there: list[list[bool]] = []
    needed = [x.final for x in values]
    for k in range(len(starts) - 2, -1, -1):
        there.append(list(needed))
        for i in reversed(hint[starts[k] : starts[k + 1]]):
            for u in data.writes[i]:
                needed[u] = False
            for u in data.reads[i]:
                needed[u] = True
    there.append(list(needed))
    there.reverse()
    for k in range(len(built.moments) + 1):
        ran = set(hint[starts[k] : starts[k + 1]])
        stays = [
            here and later and x.writer not in ran
            for x, here, later in zip(values, there[k], there[k + 1], strict=True)
        ]
        _set(built.runs[k], [i in ran for i in range(data.n)])
        _set(built.there[k], there[k])
        _set(built.through[k], stays)
        built.levels[k].set_value(
            sum(
                m * h.value
                for m, h in zip(built.weights, built.through[k], strict=True)
                if not isinstance(h, int)
            )
        )
    _set(built.there[-1], there[-1])
    for unused in (built.written, *built.back):
        _set(unused, [False] * len(unused))


def _set(variables: Sequence[Any], values: Sequence[bool]) -> None:
    """Set those that are variables."""
    for variable, value in zip(variables, values, strict=True):
        if not isinstance(variable, int):
            variable.set_value(int(value))
