"""Parts in turns, on a clock that only moves when a part works."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from lowtide.models.problems.problem import Problem
from lowtide.solvers.clock import Clock
from lowtide.solvers.context import Context, Outcome
from lowtide.solvers.engines import supervise
from lowtide.solvers.parts import Part
from lowtide.solvers.portfolio import run

NUMBERS = cast(
    "Problem",
    SimpleNamespace(
        maximize=False,
        unit="",
        read=lambda item: item,
        evaluate=lambda item: item,
        satisfied=lambda item: False,
    ),
)
"""Answers are their own objectives; the least one is the best."""


@dataclass
class World:
    """A clock, and the order in which parts had it."""

    seconds: float = 0.0
    log: list[tuple[str, float]] = field(default_factory=list)

    def context(self, limit: float | None) -> Context:
        return Context(problem=NUMBERS, time_limit=limit, clock=Clock(source=lambda: self.seconds))

    def work(self, name: str, seconds: float) -> None:
        self.seconds += seconds
        self.log.append((name, seconds))

    def of(self, name: str) -> float:
        return sum(seconds for who, seconds in self.log if who == name)

    def searching(self, name: str, values: Callable[[float], int], **given: Any) -> Part:
        """Return a part that offers a value that depends on how long it has worked, in steps of 10 ms."""

        def go(problem: Problem, context: Context) -> Outcome:
            while not context.expired and not context.closed:
                self.work(name, 0.01)
                context.offer(values(self.of(name)))
            return Outcome(reason=None if context.closed else "time")

        return Part(name=name, run=go, **given)

    def once(self, name: str, seconds: float, value: int | None, **given: Any) -> Part:
        """Return a part that works so long in one piece, if it is let, and offers one value."""

        def go(problem: Problem, context: Context) -> Outcome:
            most = context.remaining()
            self.work(name, min(most, seconds))
            if most < seconds:
                return Outcome(reason="time")
            if value is not None:
                context.offer(value)
            return Outcome()

        return Part(name=name, run=go, pauses=False, seconds=lambda problem: seconds, **given)


def test_time_goes_to_what_improves() -> None:
    world = World()
    parts = [
        world.searching("still", lambda used: 1000),
        world.searching("steady", lambda used: 900 - int(used * 10)),
    ]
    run(parts, NUMBERS, context := world.context(10.0))
    assert world.seconds <= 10.1
    assert world.of("steady") > 4.5
    assert world.of("still") > 2
    assert context.incumbent == 900 - int(world.of("steady") * 10)


def test_parts_that_change_nothing_have_equal_time() -> None:
    world = World()
    run([world.searching(name, lambda used: 5) for name in "abc"], NUMBERS, world.context(9.0))
    assert all(2 < world.of(name) < 4 for name in "abc")


def test_what_has_not_improved_for_long_gives_its_time_away() -> None:
    """One part gains much at once and nothing later; another one begins to gain little by little later."""
    world = World()
    parts = [
        world.searching("soon", lambda used: 900 if used < 1 else 700),
        world.searching("later", lambda used: 690 - 10 * int(max(0.0, used - 4))),
    ]
    run(parts, NUMBERS, context := world.context(30.0))
    assert world.of("later") > 2 * world.of("soon")
    assert context.incumbent is not None
    assert context.incumbent < 520


def test_what_improved_once_comes_before_what_never_did() -> None:
    world = World()
    parts = [
        world.searching("never", lambda used: 1000),
        world.searching("steps", lambda used: 900 - 50 * int(used / 2)),
        world.searching("neither", lambda used: 1000),
    ]
    run(parts, NUMBERS, world.context(20.0))
    assert world.of("steps") > 0.6 * world.seconds
    assert world.of("never") > 1
    assert world.of("neither") > 1


def test_a_part_with_nothing_to_show_yet_has_more_than_one_whose_answers_are_no_better() -> None:
    world = World()

    def silent(problem: Problem, context: Context) -> Outcome:
        while world.of("silent") < 7 and not context.expired:
            world.work("silent", 0.01)
        context.offer(1)
        return Outcome()

    parts = [world.searching("vain", lambda used: 5), Part(name="silent", run=silent)]
    run(parts, NUMBERS, context := world.context(12.0))
    assert context.incumbent == 1
    assert world.of("vain") > 2


def test_an_estimate_that_is_too_low_is_doubled_once() -> None:
    world = World()

    def slow(problem: Problem, context: Context) -> Outcome:
        while world.of("slow") < 3 and not context.expired:
            world.work("slow", 0.01)
        context.offer(3)
        return Outcome()

    parts = [
        *(world.searching(name, lambda used: 5) for name in "abcd"),
        Part(name="slow", run=slow, seconds=lambda problem: 1.6),
    ]
    run(parts, NUMBERS, context := world.context(12.0))
    assert [point.seconds for point in context.trace if point.incumbent == 3] == [pytest.approx(5.4, abs=0.1)]


def test_what_cannot_be_paused_gets_its_time_in_one_piece() -> None:
    world = World()
    parts = [world.searching("steady", lambda used: 900 - int(used * 10)), world.once("model", 3.0, 1)]
    run(parts, NUMBERS, context := world.context(12.0))
    assert context.incumbent == 1
    assert world.of("model") == 3.0


def test_what_had_too_little_in_one_piece_has_more_while_another_part_improves() -> None:
    world = World()
    model = replace(world.once("model", 2.0, 1), seconds=lambda problem: 0.5)
    run([world.searching("steady", lambda used: 900 - int(used * 10)), model], NUMBERS, world.context(20.0))
    assert [seconds for who, seconds in world.log if who == "model"] == [1.0, 2.0]


def test_what_no_other_part_can_use_goes_to_one_that_had_too_little() -> None:
    world = World()
    model = world.once("model", 5.0, 1)
    few = replace(model, seconds=lambda problem: 0.1)
    assert run([few], NUMBERS, context := world.context(9.0)).reason is None
    assert [seconds for _, seconds in world.log] == [0.45, 5.0]
    assert context.incumbent == 1
    world = World()
    outcome = run([replace(few, run=world.once("model", 50.0, 1).run)], NUMBERS, world.context(9.0))
    assert outcome.reason == "time"  # and does not say that it was run to its end
    assert world.seconds == 9.0


def test_a_small_question_does_not_wait_for_a_search_without_an_end() -> None:
    """The largest estimate is .01 s: the search has ten times that of a minute before the model ends all."""
    world = World()
    model = replace(world.once("model", 0.01, 1), seconds=lambda problem: 0.01)
    context = world.context(60.0)
    context.raise_bound(1)
    run([world.searching("search", lambda used: 5), model], NUMBERS, context)
    assert context.closed
    assert world.of("search") <= 0.11


def test_a_part_whose_time_was_too_short_at_once_is_not_begun_again_and_is_not_through() -> None:
    world = World()

    def hasty(problem: Problem, context: Context) -> Outcome:
        world.work("hasty", 0.001)
        return Outcome(reason="time")

    for pauses in (True, False):
        world.log.clear()
        part = Part(name="hasty", run=hasty, pauses=pauses)
        outcome = run([world.once("once", 0.1, 7), part], NUMBERS, world.context(9.0))
        assert [who for who, _ in world.log].count("hasty") == 1
        assert outcome.reason == "time"
        assert "every part" not in outcome.detail


def test_what_is_estimated_to_take_longer_has_what_no_other_part_can_use() -> None:
    for estimate, begun in ((15.0, 1), (70.0, 1), (90.0, 0)):
        world = World()
        model = replace(world.once("model", 5.0, 1), seconds=lambda problem: estimate)  # noqa: B023
        run([world.once("list", 1.0, 7), model], NUMBERS, world.context(9.0))
        assert world.of("model") == 5.0 * begun


def test_ctrl_c_that_a_solver_took_for_its_own_ends_all() -> None:
    world = World()
    stopped = Part(name="solver", run=lambda problem, context: Outcome(reason="interrupted"))
    with pytest.raises(KeyboardInterrupt):
        run([stopped, world.searching("search", lambda used: 7)], NUMBERS, world.context(None))
    assert not world.log


def test_what_takes_longer_than_is_left_is_not_begun() -> None:
    world = World()
    parts = [world.searching("search", lambda used: 7), world.once("model", 30.0, 1)]
    outcome = run(parts, NUMBERS, world.context(3.0))
    assert world.of("model") == 0
    assert outcome.reason == "time"


def test_without_a_limit_each_part_runs_to_its_end_in_order() -> None:
    world = World()
    parts = [world.once("a", 1.0, 9), world.once("b", 1.0, 8), world.once("c", 1.0, 9)]
    outcome = run(parts, NUMBERS, context := world.context(None))
    assert [name for name, _ in world.log] == ["a", "b", "c"]
    assert (context.incumbent, outcome.reason) == (8, None)
    assert "every part was run to its end" in outcome.detail


def test_nothing_is_begun_once_the_gap_is_closed() -> None:
    world = World()

    def bound(problem: Problem, context: Context) -> None:
        context.raise_bound(9)

    parts = [Part(name="bound", run=bound, first=True), world.once("a", 0.1, 9), world.once("b", 0.2, 8)]
    outcome = run(parts, NUMBERS, context := world.context(10.0))
    assert context.closed
    assert [name for name, _ in world.log] == ["a"]
    assert outcome == Outcome()


def test_an_error_in_a_part_loses_nothing(caplog: pytest.LogCaptureFixture) -> None:
    world = World()

    def fails(problem: Problem, context: Context) -> None:
        context.offer(4)
        raise ValueError("a defect")

    parts = [Part(name="fails", run=fails), world.once("a", 0.1, 9)]
    outcome = run(parts, NUMBERS, context := world.context(10.0))
    assert context.incumbent == 4
    assert outcome.reason is None
    assert outcome.detail.startswith("fails failed: ValueError: a defect")
    assert "part fails failed" in caplog.text


def test_nothing_but_errors_is_an_error() -> None:
    def fails(problem: Problem, context: Context) -> None:
        raise ValueError("a defect")

    outcome = run([Part(name="fails", run=fails)], NUMBERS, World().context(10.0))
    assert (outcome.reason, outcome.detail) == ("crash", "fails failed: ValueError: a defect")


def test_without_a_limit_the_cheapest_runs_first() -> None:
    world = World()
    long = replace(world.once("long", 5.0, None), seconds=lambda problem: 5.0)
    run([long, world.once("a", 0.1, None), world.once("b", 0.1, None)], NUMBERS, world.context(None))
    assert [name for name, _ in world.log] == ["a", "b", "long"]


def test_a_proof_that_nothing_fits_is_not_hidden_by_an_answer() -> None:
    world = World()

    def none_fits(problem: Problem, context: Context) -> Outcome:
        return Outcome(infeasible=True, detail="none fits")

    none = Part(name="none", run=none_fits, seconds=lambda problem: 1.0)
    outcome = run([world.once("a", 0.1, 9), none], NUMBERS, context := world.context(None))
    assert (context.incumbent, outcome.infeasible) == (9, True)


def test_infeasible_ends_all() -> None:
    world = World()
    none = Part(name="none", run=lambda problem, context: Outcome(infeasible=True, detail="none fits"))
    outcome = run([none, world.once("a", 0.1, None)], NUMBERS, world.context(10.0))
    assert outcome.infeasible
    assert outcome.detail == "none fits"
    assert not world.log


def test_turns_say_what_each_part_did() -> None:
    world = World()
    parts = [world.once("a", 0.2, 9), world.once("b", 0.4, 8)]
    run(parts, NUMBERS, context := world.context(10.0))
    told = [(t.part, t.start, t.seconds, t.before, t.after, t.ended) for t in context.known.turns]
    assert told == [
        ("a", 0.0, 0.2, (None, None), (9, None), "done"),
        ("b", 0.2, pytest.approx(0.4), (9, None), (8, None), "done"),
    ]


def test_a_clock_stands_still_while_others_have_their_turn() -> None:
    world = World()
    seen: list[float] = []

    def watches(problem: Problem, context: Context) -> Outcome:
        while not context.expired:
            world.work("watches", 0.01)
            seen.append(context.elapsed())
        return Outcome(reason="time")

    parts = [Part(name="watches", run=watches), world.searching("other", lambda used: 5)]
    run(parts, NUMBERS, world.context(4.0))
    assert seen[-1] == pytest.approx(world.of("watches"))
    assert all(b - a == pytest.approx(0.01) for a, b in itertools.pairwise(seen))


def test_portfolios_within_parts_keep_to_the_turns_of_the_outer_one() -> None:
    world = World()

    def nested(problem: Problem, context: Context) -> Outcome:
        inner = context.inner(NUMBERS, known=context.known)
        return run([world.searching(name, lambda used: 6) for name in ("x", "y")], NUMBERS, inner)

    parts = [Part(name="nested", run=nested), world.searching("other", lambda used: 6)]
    run(parts, NUMBERS, world.context(8.0))
    assert 3 < world.of("x") + world.of("y") < 5
    assert 3 < world.of("other") < 5
    assert world.seconds <= 8.1


def test_first_parts_of_a_nested_method_have_ended_before_its_others_begin() -> None:
    world = World()

    def nested(problem: Problem, inner: Context) -> Outcome:
        def begin(problem: Problem, context: Context) -> None:
            while world.of("begin") < 2 and not context.expired:
                world.work("begin", 0.01)

        parts = [Part(name="begin", run=begin, first=True), world.searching("then", lambda used: 5)]
        return run(parts, NUMBERS, inner)

    parts = [Part(name="nested", run=nested), world.searching("other", lambda used: 5)]
    run(parts, NUMBERS, world.context(20.0))
    names = [name for name, _ in world.log if name != "other"]
    assert world.of("begin") >= 2
    assert names.index("then") == names.count("begin")
    assert "other" in [name for name, _ in world.log[: names.count("begin")]]


def test_what_is_paused_at_the_end_is_unwound() -> None:
    world = World()
    ended: list[str] = []

    def careful(problem: Problem, context: Context) -> None:
        try:
            while not context.expired:
                world.work("careful", 0.01)
        finally:
            ended.append("careful")

    parts = [Part(name="careful", run=careful), world.searching("other", lambda used: 5)]
    run(parts, NUMBERS, world.context(1.0))
    assert ended == ["careful"]


def test_passes_in_a_thread_stand_still_between_the_turns_of_their_part(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(supervise, "POLL_SECONDS", 0.001)
    world, made, still = World(), [0], list[bool]()

    def passes(problem: Problem, context: Context) -> Outcome:
        def go(expired: Callable[[], bool]) -> None:
            while not expired():
                made[0] += 1
                world.work("passes", 0.0005)
                time.sleep(0.001)

        return Outcome(reason=supervise.run_passes(context, np.zeros(1, dtype=np.int64), go) or "time")

    def other(problem: Problem, context: Context) -> Outcome:
        while not context.expired:
            before = made[0]
            world.work("other", 0.01)
            time.sleep(0.005)
            still.append(made[0] == before)
        return Outcome(reason="time")

    parts = (Part(name="passes", run=passes), Part(name="other", run=other))
    run(parts, NUMBERS, world.context(0.4))
    assert made[0]
    assert still
    assert all(still)


def test_passes_of_a_part_that_is_unwound_have_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervise, "POLL_SECONDS", 0.001)
    world, ended = World(), list[str]()

    def passes(problem: Problem, context: Context) -> None:
        def go(expired: Callable[[], bool]) -> None:
            while not expired():
                world.work("passes", 0.001)
                time.sleep(0.001)
            time.sleep(0.1)
            ended.append("passes")

        supervise.run_passes(context, np.zeros(1, dtype=np.int64), go)

    def close(problem: Problem, context: Context) -> None:
        assert not ended
        context.raise_bound(context.offer(1))

    parts = [Part(name="passes", run=passes), Part(name="close", run=close)]
    run(parts, NUMBERS, world.context(60.0))
    assert ended == ["passes"]


def test_a_thread_of_a_part_that_is_ended_ends_with_it() -> None:
    """A question within a question, with a thread beside it; another part closes the gap meanwhile."""
    left, context = list[Context](), Context(problem=NUMBERS, time_limit=600.0, threads=2)

    def beside(problem: Problem, own: Context) -> Outcome:
        left.append(own)
        while not own.expired:
            time.sleep(0.001)
        left.remove(own)
        return Outcome(reason="time")

    def within(problem: Problem, own: Context) -> Outcome:
        def search(problem: Problem, inner: Context) -> Outcome:
            while not inner.expired:
                pass
            return Outcome(reason="time")

        parts = (Part(name="beside", run=beside), Part(name="search", run=search))
        return run(parts, NUMBERS, own.inner(NUMBERS), beside=("beside",))

    def close(problem: Problem, own: Context) -> Outcome:
        while not left:
            time.sleep(0.001)
        own.raise_bound(own.offer(7))
        return Outcome()

    run((Part(name="within", run=within), Part(name="close", run=close)), NUMBERS, context)
    assert context.closed
    for thread in threading.enumerate():
        if thread.name == "lowtide part":
            thread.join(10)
    assert left == []
