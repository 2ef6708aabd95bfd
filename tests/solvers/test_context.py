"""Threads that share a context: what the better one gave stays, wherever the other one is interrupted."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from lowtide.models.problems.problem import Problem
from lowtide.solvers.context import Context

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


class Switching(Context):
    """Lets another thread run behind one comparison of the thread that is named `slow`."""

    compared: int = 0

    def _is_above(self, a: int, b: int) -> bool:
        found = super()._is_above(a, b)
        if threading.current_thread().name == "slow":
            self.compared -= 1
            if not self.compared:
                reached.set()
                returned.wait(0.2)  # it ends by itself where the other one waits for a lock
        return found


reached, returned = threading.Event(), threading.Event()


def interrupted(context: Switching, slow: Callable[[], Any], quick: Callable[[], Any], place: int) -> None:
    """Call `quick` while `slow` is behind its comparison of that number."""
    reached.clear()
    returned.clear()
    context.compared = place
    thread = threading.Thread(target=slow, name="slow")
    thread.start()
    reached.wait(5)
    quick()
    returned.set()
    thread.join()


@pytest.mark.parametrize("place", [1, 2])
def test_a_weaker_bound_never_takes_the_place_of_a_stronger_one(place: int) -> None:
    context = Switching(problem=NUMBERS)
    context.raise_bound(1)
    interrupted(
        context,
        lambda: context.raise_bound(50, kind="weak"),
        lambda: context.raise_bound(1000, "exact", kind="strong", evidence="prices"),
        place,
    )
    assert (context.bound, context.bound_kind, context.evidence) == (1000, "strong", "prices")
    assert context.exact == (1000, "strong", "prices")
    bounds = [point.bound or 0 for point in context.trace]
    assert bounds == sorted(bounds)


@pytest.mark.parametrize("place", [1, 2])
def test_a_worse_answer_never_takes_the_place_of_a_better_one(place: int) -> None:
    context = Switching(problem=NUMBERS)
    context.offer(100)
    interrupted(context, lambda: context.offer(50), lambda: context.offer(7), place)
    assert (context.answer, context.incumbent) == (7, 7)


def test_what_comes_too_late_is_not_taken() -> None:
    told: list[str] = []
    context = Context(problem=NUMBERS, progress=told.append)
    context.offer(9)
    context.raise_bound(3)
    context.end()
    assert context.offer(5) == 5
    context.raise_bound(4)
    assert (context.incumbent, context.bound, context.exact) == (9, 3, (3, None, None))
    assert len(told) == len(context.trace) == 2
