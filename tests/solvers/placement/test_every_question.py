"""Every method against a question of each trait: a verified plan, a true bound, or a refusal in words."""

from __future__ import annotations

from contextlib import suppress

import pytest

import lowtide as lt
from lowtide.solvers.registry import METHODS
from tests.problems.placement_questions import questions

SECONDS = 1.0
"""Of each of the 40 methods; few take them."""

QUICK = (
    "in place, apart",
    "a mode names no tier of the machine",
    "no tensor",
    "replicas",
    "processors that differ",
    "processors that share a tier",
)
"""Questions that most methods refuse, or answer at once."""

QUESTIONS = questions()


def answers(problem: lt.Placement) -> dict[str, lt.Result]:
    """Return what each method answers, by its name; what it refuses is left out."""
    found = {}
    for method in METHODS:
        options = {"runs": "100"} if method.name == "local-search" else {}
        if method.problem == problem.name:
            with suppress(lt.UsageError):
                found[method.name] = lt.solve(
                    problem, method.name, time_limit=SECONDS, threads=1, options=options
                )
    return found


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in QUICK else pytest.mark.slow(reason="40 methods"))
        for name in QUESTIONS
    ],
)
def test_every_method_answers_or_refuses(name: str) -> None:
    found = answers(QUESTIONS[name])
    failed = {method: result.detail for method, result in found.items() if result.status is lt.Status.FAILED}
    assert not failed
    best = min(result.objective for result in found.values() if result.objective is not None)
    for method, result in found.items():
        assert result.bound is None or result.bound <= best, (method, result.bound_kind)
        assert result.status is not lt.Status.INFEASIBLE, (method, result.detail)
        assert result.objective is None or (result.verification and result.verification.valid), method


def test_several_processors_are_refused_in_words() -> None:
    for method in ("planner", "belady", "local-search", "deeptm"):
        with pytest.raises(lt.UsageError, match="found several processors that differ"):
            lt.solve(QUESTIONS["processors that differ"], method)
