"""`auto` for `offsets`: what is cheap first, and more only while a part is open.

1. The bound of each part, and greedy placements until one meets it; after the first few of
   them the next methods begin.
2. Methods that take turns on the parts that are still open, each round of turns longer than the last:
   branch and bound at the height below which nothing is gained (a solution closes the part, an exhausted
   search raises its bound), searches that lower the height step by step, and CP-SAT. The latter is the only
   one that proves anything of parts with windows or in-place pairs; on others it begins late.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from ...models.problems.offsets import Offsets
from ..context import Context, Outcome
from .greedy import greedy_offsets, is_short
from .local_search import improved_offsets
from .parts import Part, Parts
from .search import Found, Infeasible, Prepared, Search

FIRST_TURN = 0.25
"""Seconds of the first round's turns."""
GREEDY_TURN = 0.005
"""Seconds of greedy placements before the search begins."""
GROWTH = 1.4
"""Of a turn, from one round to the next."""

MODEL_TURN = 1.5
"""Seconds of a turn from which on CP-SAT takes part."""
MODEL_RECTANGLES = 2000
"""Above this many CP-SAT is left out."""

Method = Callable[[Parts, Part], Iterator[None]]
"""Works on a part slice by slice."""


def solve_auto(problem: Offsets, context: Context) -> Outcome:
    """Stop as soon as every part is done."""
    return search_all(Parts(problem, context))


def search_all(parts: Parts) -> Outcome:
    """Place and search by all that there is."""
    return take_turns(parts, (place, prove, descend, improve, model))


def solve_search(problem: Offsets, context: Context) -> Outcome:
    """Prove the bounds of the parts, or lower their heights to them, by branch and bound alone."""
    return take_turns(Parts(problem, context), (prove, descend))


def take_turns(parts: Parts, methods: tuple[Method, ...]) -> Outcome:
    """Have methods take turns on the open parts until all are done or the time is up."""
    working: dict[int, dict[Method, Iterator[None]]] = {}
    turn = FIRST_TURN
    first = GREEDY_TURN
    for part in (
        parts.open() if place in methods else ()
    ):  # an answer for all comes before a better one for any
        parts.offer(part, next(greedy_offsets(part.data))[1])
    while (waiting := parts.open()) and not parts.context.expired:
        for part in waiting:
            of = working.setdefault(id(part), {method: method(parts, part) for method in methods})
            for method, work in tuple(of.items()):
                if method is model and turn < MODEL_TURN and is_plain(part):
                    continue
                seconds = first if method is place else turn * SHARES.get(method, 1)
                if not _turn(work, parts, part, seconds):
                    del of[method]
        if not any(working[id(part)] for part in waiting):
            break
        turn *= GROWTH
        first = turn
    short = any(is_short(part.data, parts.context.remaining()) for part in parts.open())
    ended = parts.outcome("time" if short else None)
    if ended.reason is None and not ended.infeasible and (left := len(parts.open())):
        words = f"the searches gave up on {left} part{'s' * (left > 1)} that do not touch in time"
        larger = f"; auto leaves out CP-SAT above {MODEL_RECTANGLES:,} rectangles: --method cpsat takes more"
        return replace(ended, detail="; ".join(filter(None, (ended.detail, words))) + larger)
    return ended


def _turn(work: Iterator[None], parts: Parts, part: Part, seconds: float) -> bool:
    """Let a method work for some seconds; return whether it has more to do."""
    end = parts.context.elapsed() + seconds
    while parts.is_open(part):
        if next(work, work) is work:
            return False
        if parts.context.expired or parts.context.elapsed() > end:
            break
    return True


def is_plain(part: Part) -> bool:
    """Return whether branch and bound is exact on the part."""
    return not part.data.has_windows and not len(part.data.inplace)


def place(parts: Parts, part: Part) -> Iterator[None]:
    """Offer greedy placements."""
    for _, offsets in greedy_offsets(part.data, parts.context.remaining):
        parts.offer(part, offsets)
        yield


def prepared(part: Part) -> Prepared:
    """Return what the searches of a part share."""
    if part.prepared is None:
        part.prepared = Prepared(part.data)
    return part.prepared


def prove(parts: Parts, part: Part) -> Iterator[None]:
    """Search for an allocation within the least height that is not refuted."""
    while not part.data.has_windows and parts.is_open(part):
        target = parts.target(part)
        for answer in Search(prepared(part), target, parts.context.seed).steps():
            if isinstance(answer, Found):
                parts.offer(part, answer.offsets)
            elif isinstance(answer, Infeasible):
                parts.raise_bound(part, target + 1, kind="branch and bound")
            elif answer is not None:
                return
            yield


def descend(parts: Parts, part: Part) -> Iterator[None]:
    """Search for allocations below the best one, half-way to the target first, then nearer to it."""
    patience, seed = FIRST_TURN, parts.context.seed
    while not part.data.has_windows and parts.is_open(part):
        target = parts.target(part)
        height = int(part.data.size.sum()) if part.height is None else part.height
        step = max(1, (height - target) // 2)
        while True:
            yield from prepared(part).make()
            end = parts.context.elapsed() + patience
            seed += 1
            for answer in Search(prepared(part), height - step, seed).steps():
                if isinstance(answer, Found):
                    parts.offer(part, answer.offsets)
                elif isinstance(answer, Infeasible):
                    parts.raise_bound(part, height - step + 1, kind="branch and bound")
                elif answer is not None:
                    return
                if parts.context.elapsed() > end:
                    break
                yield
            yield
            if not parts.is_open(part) or (part.height or height) < height:
                break
            if step == 1:
                patience *= 2
                break
            step = max(1, step // 2)


def improve(parts: Parts, part: Part) -> Iterator[None]:
    """Lower the height by local search."""
    assert part.offsets is not None
    context = parts.context
    found = improved_offsets(part.data, part.offsets, parts.target(part), context.seed, context.remaining)
    for offsets in found:
        parts.offer(part, offsets)
        yield


def model(parts: Parts, part: Part) -> Iterator[None]:
    """Run CP-SAT again and again."""
    if len(part.data.rect_first) > MODEL_RECTANGLES:
        return
    from .models import runs

    for outcome in runs(parts, part):
        if outcome.reason == "interrupted":
            raise KeyboardInterrupt
        yield


SHARES: dict[Method, float] = {descend: 1.5, improve: 2.5}
"""How much longer than others a method's turns are."""
