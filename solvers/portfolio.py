"""The only place that divides time: parts of a method in turns.

Parts share the best answer and the best bound, and each has a clock that stands still while others have their
turn. A part is an ordinary function: wherever it looks at its clock (`Context.remaining`, `Context.expired`)
its turn may end, and it goes on from there at its next one (greenlets: one thread, so nothing runs beside).

**With a time limit T**

1. Parts that take next to nothing (`Part.first`) run to their end, in order.
2. Each other part has an early turn whose estimate fits in there, the cheapest first: a twentieth (`EARLY`)
   of the time, or ten times (`ROUGHLY`) the largest estimate, if that is less: a small question does not wait
   for searches without an end.
3. From then on the next turn goes to the part with the greatest *promise* (`_Work.promise`): what its last
   improving turn closed of the gap, plan and bound alike, in parts of the incumbent and no more than the gap
   that is left, per second that it has worked since that turn began; less by as much again as it has worked
   in vain since. A part that has improved nothing yet counts as if it gained a thousandth (`LITTLE`) in as
   much time as it has had; from its first answer on that falls likewise. What cannot be paused counts with
   the time that it takes to begin anew.

   - The turns of a part double while it improves, up to a third (`LONGEST`) of what is left.
   - A quarter of the time (`RESTED`) is for the other parts by equal shares.
   - Parts that have not had their estimate come before all, the least that is lacking first: for half of the
     time at most (`FLOOR`) while a part improves, and where the estimate is no more than half (`PIECE`) of
     what is left; else where it is no more than what is left. The estimate of one that has nothing to show
     by then is doubled once. What cannot be paused has up to twice (`AGAIN`) the estimate.
   - What cannot be paused gets half of what is left in one piece later, unless it is too little, or an
     estimate of more while a part improves; and again only with twice the time.
   - What can be paused is begun only if what is left is a tenth of its estimate. Where no other part can use
     what is left, one has all of that whose estimate is larger.
   - A part that said long before the end of its turn that its time was too short is not begun again.

Without a limit each part runs to its end, the cheapest estimate first: the result depends on nothing but the
question.

It ends when the gap is closed, when one part proves that there is no answer, with the time, or when all parts
have ended by themselves. An exception in a part is reported, and loses nothing that is known.

With more threads than one, a part that is named in `beside` runs in a thread of its own all the while.
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from greenlet import GreenletExit, getcurrent, greenlet

from ..models.result import Turn
from .clock import Clock
from .context import Context, Outcome
from .engines.supervise import stop_running
from .parts import Part

EARLY = 20
"""An early turn is one in so many of the time."""

FLOOR = 0.5
"""Of the time while a part improves, for those that have not had their estimate, at most."""

RESTED = 0.25
"""Of the time, for parts of less promise than the best, by equal shares."""

PIECE, LONGEST = 2, 3
"""One in so many of the time that is left is for what cannot be paused; and for other turns at most."""

LITTLE = 0.001
"""Part of the incumbent that a part may gain in as much time as it has had, if it has gained nothing yet."""

LEAST = 0.02
"""Seconds of a turn at least: less is lost in going from one part to another."""

ROUGHLY = 10
"""What can be paused is begun unless its estimate is so many times what is left: estimates are rough."""

AGAIN = 2
"""A turn is so many times as long as the last one of the part."""


@dataclass(eq=False, kw_only=True)
class _Work:
    """A part under way.

    Attributes
    ----------
    used, last, granted
        Seconds that it has worked, those of its last turn, and those that this turn was to have.
    gain, took, dry
        What its last improving turn closed of the gap, how long that took, and how long it has worked since.
        Where there is no such turn, but an answer, the time until that one stands for it.
    """

    part: Part
    number: int = 0
    estimate: float = 0.0
    context: Context | None = None
    let: greenlet | None = None
    left_at: float = 0.0
    used: float = 0.0
    last: float = 0.0
    granted: float = 0.0
    gain: float = 0.0
    took: float = 0.0
    dry: float = 0.0
    ended: bool = False
    outcomes: list[Outcome] = field(default_factory=list)

    @property
    def waits_longest(self) -> tuple[float, int]:
        """The key by which the part that has had least comes first."""
        return max(self.used, self.estimate), self.number

    @property
    def improves(self) -> bool:
        """Whether its last turn changed something."""
        return self.gain > 0 and self.dry <= 0

    def promise(self, left: float, gap: float) -> float:
        """Return what it may close per second of a gap, both in parts of the incumbent, in what is left."""
        took = self.took or max(self.used, self.estimate, LEAST)
        past = took + (self.dry if self.took else 0.0)
        ahead = past
        if not self.part.pauses and self.used:  # it begins anew
            past, ahead = past + took, max(past, _piece(self, left))
        return min(self.gain or LITTLE, gap) * took / past / ahead


def run(parts: Sequence[Part], problem: Any, context: Context, *, beside: Collection[str] = ()) -> Outcome:
    """Run the parts of a method that serve a problem, in turns as above.

    Parameters
    ----------
    parts
        Of equal estimates the first one runs first.
    beside
        Names of those that run in a thread of their own, if the context has more than one.
    """
    works = [_Work(part=p) for p in parts if p.first and not p.refuses(problem)]
    apart: list[_Work] = []
    threads = _Beside(problem, context, apart)
    try:
        for work in works:
            while not work.outcomes and not _over(context):
                _give(work, problem, context, math.inf)  # until the turn of the whole is over
        if not _over(context):  # what the others refuse and estimate may take a while
            served = [p for p in parts if not p.first and not p.refuses(problem)]
            others = [_Work(part=p, number=k, estimate=p.seconds(problem)) for k, p in enumerate(served)]
            apart += [w for w in others if w.part.name in beside and context.threads > 1]
            others = [w for w in others if w not in apart]
            works += others
            threads.start()
            _in_turns(others, problem, context)
            threads.wait()
    finally:
        for work in works:
            if work.let is not None and not work.let.dead:
                work.let.throw(GreenletExit)
        threads.stop()
    return _outcome([*works, *apart], context)


def _over(context: Context) -> bool:
    return context.closed or context.expired or context.infeasible


def _in_turns(works: Sequence[_Work], problem: Any, context: Context) -> None:
    """Give turns until nothing is left to do, or no time."""
    if math.isinf(context.remaining()):
        for work in sorted(works, key=lambda w: (w.estimate, w.number)):
            if not _over(context):
                _give(work, problem, context, math.inf)
        return
    early = context.remaining() / EARLY
    short = ROUGHLY * max((w.estimate for w in works), default=0.0)
    for work in sorted(works, key=lambda w: (w.estimate, w.number)):
        if not _over(context) and work.estimate <= early:
            _give(work, problem, context, min(early, short) if work.part.pauses else early)
    _by_gain(works, problem, context, early)


def _by_gain(works: Sequence[_Work], problem: Any, context: Context, early: float) -> None:
    """Give turns by what the last ones gained, until nothing is left to do, or no time."""
    others = total = 0.0
    while not _over(context):
        left = context.remaining()
        if usable := [w for w in works if not w.ended and _needs(w, left) <= left]:
            promise = {w: w.promise(left, _gap(context)) for w in usable}
            chosen, other, seconds = _next(promise, left, early, others / max(total, LEAST))
        elif (last := _last(works, left)) is not None:
            chosen, other, seconds = last, False, left
        else:
            return
        spent = _give(chosen, problem, context, seconds)
        total += spent
        others += spent if other else 0.0


def _next(
    works: Mapping[_Work, float], left: float, early: float, others: float
) -> tuple[_Work, bool, float]:
    """Return whose turn it is, whether only since it has not had its estimate, and the seconds.

    Parameters
    ----------
    works
        Parts that can use what is left, and the promise of each.
    others
        What part of the time went, while others improved, to parts that had not had their estimate.
    """
    improving = any(w.improves for w in works)
    most = left / PIECE if improving else left
    able = [w for w in works if w.part.pauses or w.improves or w.estimate <= most]
    best = max(able, key=lambda w: (works[w], -w.number))
    waiting = [w for w in able if w.used < w.estimate <= most]
    if waiting and (not improving or others < FLOOR):
        chosen = min(waiting, key=lambda w: (w.estimate - w.used, w.number))
        need = chosen.estimate - chosen.used
        if not chosen.part.pauses:
            need = max(need, min(AGAIN * need, left / PIECE))
        return chosen, improving, max(early, need) if len(works) > 1 else left
    chosen = best
    if rested := [w for w in able if w is not best]:
        least = min(rested, key=lambda w: w.waits_longest)
        if least.used < best.used and least.used * len(rested) < RESTED * sum(w.used for w in able):
            chosen = least
    if not chosen.part.pauses:
        return chosen, False, _piece(chosen, left) if len(works) > 1 else left
    seconds = max(early, min(AGAIN * chosen.last, left / LONGEST)) if chosen.improves else early
    return chosen, False, seconds


def _last(works: Sequence[_Work], left: float) -> _Work | None:
    """Return what has all that is left, where its estimate asks for more."""
    may = [
        w
        for w in works
        if not w.ended and w.granted < left and (w.part.pauses or w.estimate <= ROUGHLY * left)
    ]
    return max(may, key=lambda w: (w.gain, -w.estimate, -w.number), default=None)


def _needs(work: _Work, left: float) -> float:
    """Return the least seconds that are worth giving to a part."""
    if not work.part.pauses:
        return _piece(work, left)
    return 0.0 if work.used else work.estimate / ROUGHLY


def _piece(work: _Work, left: float) -> float:
    """Return the seconds in one piece for a part that cannot be paused."""
    return max(left / PIECE, work.estimate, AGAIN * work.last, LEAST)


def _give(work: _Work, problem: Any, context: Context, seconds: float) -> float:
    """Let a part work for so many seconds; return how long it did."""
    seconds = max(LEAST, min(seconds, context.clock.turn_left()))
    if begins := work.let is None or work.let.dead:
        _begin(work, problem, context, seconds)
    assert work.let is not None
    assert work.context is not None
    clock = work.context.clock
    clock.paused += context.clock.now() - work.left_at
    clock.turn_ends = clock.now() + seconds if work.part.pauses else math.inf
    before, start, work.granted = (context.incumbent, context.bound), context.since(), seconds
    count, offers = len(work.outcomes), context.known.offers
    work.let.switch()
    work.left_at = context.clock.now()
    after, taken = (context.incumbent, context.bound), context.since() - start
    work.used, work.last = work.used + taken, taken
    work.dry += taken
    if gain := _gain(before, after):
        work.gain, work.took, work.dry = gain, max(taken, LEAST), 0.0
    elif not work.took and context.known.offers > offers:
        work.took, work.dry = max(work.used, LEAST), 0.0
    elif work.part.pauses and not work.took and work.estimate <= work.used < AGAIN * work.estimate:
        work.estimate *= AGAIN  # it has nothing to show yet
    outcome = work.outcomes[-1] if len(work.outcomes) > count else None
    ended = "paused" if outcome is None else outcome.reason or ("refused" if outcome.refused else "done")
    if outcome is not None:
        no_time = work.part.pauses and context.remaining() < AGAIN * work.used
        too_soon = begins and AGAIN * taken < seconds * work.part.share  # it would do the same again
        work.ended = outcome.reason != "time" or no_time or too_soon
    detail = "" if outcome is None else outcome.refused or outcome.detail
    context.known.turns.append(Turn(work.part.name, start, taken, before, after, ended, detail))
    return taken


def _begin(work: _Work, problem: Any, context: Context, seconds: float) -> None:
    """Make the part's own context, with a clock of its own, and what runs it."""
    part, whole = work.part, context.clock
    if part.kernels:
        context.prepare(part.kernels)
    clock = Clock(whole=whole, paused=whole.now(), ends=context.started + context.ends)
    limit = context.remaining() * part.share if part.pauses else min(seconds, context.remaining())
    own = replace(
        context,
        clock=clock,
        started=clock.now(),
        time_limit=None if math.isinf(limit) else limit,
        kept_back=0.0,
        options={**context.options, **part.options},
        longest=0.0,
    )
    own.progress = lambda line: context.progress(f"{part.name}: {line}")

    def work_on() -> None:
        work.outcomes.append(_carried_out(part, problem, own))
        if work.outcomes[-1].reason == "interrupted":  # a solver's thread took Ctrl-C for its own
            raise KeyboardInterrupt

    let = greenlet(work_on)

    def pause() -> None:
        if getcurrent() is let:  # and not a thread of the part's own
            assert let.parent is not None
            let.parent.switch()

    clock.pause = pause
    work.context, work.let, work.left_at = own, let, whole.now()


def _carried_out(part: Part, problem: Any, own: Context) -> Outcome:
    """Run a part; an error in it is an outcome."""
    try:
        outcome = part(problem, own)
    except MemoryError:
        return Outcome(reason="memory", detail="out of memory")
    except Exception as error:
        logging.getLogger("lowtide").exception("part %s failed", part.name)
        return Outcome(reason="crash", detail=f"{type(error).__name__}: {error}")
    if outcome.infeasible:
        own.known.infeasible = outcome
    return outcome


def _gain(before: tuple[int | None, int | None], after: tuple[int | None, int | None]) -> float:
    """Return how much of the gap was closed, in parts of the incumbent.

    A first answer or a first bound counts nothing: any will do.
    """
    if after[0] is None:
        return 0.0
    size = max(1, abs(after[0]))
    improved = 0 if before[0] is None else abs(before[0] - after[0])
    proved = 0 if before[1] is None or after[1] is None else abs(after[1] - before[1])
    return (improved + proved) / size


def _gap(context: Context) -> float:
    """Return the gap, in parts of the incumbent; infinite while there is none."""
    if context.incumbent is None or context.bound is None:
        return math.inf
    return abs(context.incumbent - context.bound) / max(1, abs(context.incumbent))


def _outcome(works: Sequence[_Work], context: Context) -> Outcome:
    """Return how all of it ended."""
    last = [(w, w.outcomes[-1]) for w in works if w.outcomes]
    facts = {key: value for _, outcome in last for key, value in outcome.facts.items()}
    if context.known.infeasible is not None:  # with an answer, too: one of both is wrong, and `solve` says so
        return replace(context.known.infeasible, facts=facts)
    failed = [f"{w.part.name} failed: {o.detail}" for w, o in last if o.reason == "crash"]
    if context.closed:
        return Outcome(facts=facts, detail="; ".join(failed))
    details = [
        f"{w.part.name}: {words}" for w, o in last if o.reason != "crash" and (words := o.refused or o.detail)
    ]
    reasons = [o.reason for _, o in last if o.reason == "memory"]
    done = all(w.ended and o.reason != "time" for w, o in last) and len(last) == len(works) > 0
    reason = "time" if context.expired or not done else reasons[0] if reasons else None
    if failed and context.answer is None and reason is None:
        reason = "crash"
    elif reason is None and works and not failed:
        details.append("every part was run to its end")
    return Outcome(reason=reason, facts=facts, detail="; ".join([*failed, *details]))


class _Beside:
    """Parts that run in threads of their own."""

    def __init__(self, problem: Any, context: Context, works: Sequence[_Work]) -> None:
        self.problem, self.context, self.works = problem, context, works
        self.threads: list[threading.Thread] = []
        self.contexts: list[Context] = []

    def start(self) -> None:
        """Start them."""
        for work in self.works:
            own = replace(self.context, options={**self.context.options, **work.part.options})
            self.contexts.append(own)
            thread = threading.Thread(target=self._work, args=(work, own), name="lowtide part", daemon=True)
            thread.start()
            self.threads.append(thread)

    def _work(self, work: _Work, own: Context) -> None:
        work.outcomes.append(_carried_out(work.part, self.problem, own))
        work.ended = True

    def wait(self) -> None:
        """Wait until they have ended, or nothing is left to do."""
        for thread in self.threads:
            while thread.is_alive() and not _over(self.context):
                thread.join(0.1)  # in slices: Ctrl-C comes through

    def stop(self) -> None:
        """Tell them that the time is up: they must not outlive the solve, nor the part that this one is."""
        for own in self.contexts:
            own.time_limit = 0.0
            stop_running(own)
