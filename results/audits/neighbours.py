"""Questions that differ in one resource: with more of it, the best is never worse.

A plan within 6 GiB is one within 8 GiB as well; one for 2 devices leaves the third idle; an order that was
given is one of all orders. So the optimum of the question with more is at least as good, and its bound holds
for the question with less. If its best objective is worse, it was not searched for well enough, or the other
one is false.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from ...instances.spec import parse_spec
from ...models.errors import LowtideError
from .claims import Claim, Question, is_beyond, is_maximized
from .findings import Contradiction, about

MORE = ("memory", "device", "host", "ssd", "bound", "processors", "devices")
"""Options of questions that are amounts: of bytes, processors, devices."""
FREER = (("order", "free"), ("recompute", "1"), ("start", "anywhere"))
"""Options that allow more with this value than without it."""

_AMOUNT = re.compile(r"(\d+(?:\.\d+)?)([A-Za-z%]*)")


def compare_neighbours(best: Mapping[Question, tuple[Claim | None, Claim | None]]) -> list[Contradiction]:
    """Return which questions with more of something are worse than those with less.

    Parameters
    ----------
    best
        A claim with the best objective and one with the best bound of each question.
    """
    worse: list[Contradiction] = []
    groups: dict[tuple[str, ...], list[tuple[float, Question]]] = {}
    for question, (objective, bound) in sorted(best.items()):
        claim = objective or bound
        for key, amount in keys_of(claim) if claim is not None else ():
            groups.setdefault(key, []).append((amount, question))
    for key, some in sorted(groups.items()):
        for (less, a), (more, b) in pairwise(sorted(some)):
            if less != more:
                worse += _compared(best[a], best[b], key[1])
    return worse


def keys_of(claim: Claim) -> Iterable[tuple[tuple[str, ...], float]]:
    """Yield, for each resource of a question, what it has in common with its neighbours, and the amount."""
    try:
        spec = parse_spec(claim.instance)
    except LowtideError:
        return
    for name, freer in (*((name, None) for name in MORE), *FREER):
        text = spec.options.get(name)
        if freer is not None:
            if text not in (None, freer):
                continue
            amount, unit = float(text is not None), ""
        else:
            match = _AMOUNT.fullmatch(text or "")
            if match is None:
                continue
            amount, unit = float(match[1]), match[2]
        rest = {key: value for key, value in spec.options.items() if key != name}
        yield (claim.problem, name, unit, str(replace(spec, options=dict(sorted(rest.items()))))), amount


def _compared(
    less: Sequence[Claim | None], more: Sequence[Claim | None], resource: str
) -> Iterable[Contradiction]:
    (objective, _), (other, bound) = less, more
    if objective is None or objective.objective is None:
        return
    words = f"objective {objective.objective} of {objective.instance}, which has less {resource}"
    if (
        bound is not None
        and bound.bound is not None
        and is_beyond(bound.bound, objective.objective, bound.problem)
    ):
        yield about("bound-above-neighbour", f"bound {bound.bound} contradicts {words}", [bound, objective])
    if other is not None and other.objective is not None:
        worse = other.objective - objective.objective
        if (-worse if is_maximized(other.problem) else worse) > 0:
            message = f"objective {other.objective} is worse than {words}"
            yield about("worse-than-neighbour", message, [other, objective])
