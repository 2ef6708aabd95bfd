"""Whatever ends `auto`, and wherever: the best answer that any of its parts had is the result's."""

from __future__ import annotations

from typing import Any

import pytest

import lowtide as lt
from lowtide.models.problems.problem import Problem
from lowtide.solvers.context import Context
from lowtide.solvers.registry import ROOMS
from tests.question_of_each import problem_of

TREE = lt.load("gen:intree?n=30&seed=2")
GRAPH = lt.load("gen:randwire?n=10&seed=3")

QUESTIONS: dict[str, Problem] = {
    **{name: problem_of(name, TREE if name == "minio" else GRAPH) for name in ROOMS},
    "stages in any order": lt.Partition(GRAPH, 3, contiguous=False, link=10**9),
    "time of a sample": lt.Partition(GRAPH, 3, objective="latency", link=10**9),
    "stages of streams": lt.Streams(GRAPH, contention="half-serial"),
    "periods": lt.Placement(GRAPH, lt.load_machine("a100-40g-pcie3"), periodic=True),
}


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, MemoryError])
@pytest.mark.parametrize("name", QUESTIONS)
def test_no_answer_is_lost_to_an_error(
    name: str, error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the first, second and third answer that is offered to `auto` or to a part of it."""
    problem, offer = QUESTIONS[name], Context.offer
    for last in (1, 2, 3):
        known: list[int] = []

        def offer_and_fail(self: Context, item: Any) -> int:
            value = offer(self, item)
            if self.problem == problem and self.incumbent is not None:
                known.append(-self.incumbent if problem.maximize else self.incumbent)  # noqa: B023
                if len(known) == last:  # noqa: B023
                    raise error("injected")
            return value

        monkeypatch.setattr(Context, "offer", offer_and_fail)
        result = lt.solve(problem, time_limit=30, threads=1)
        monkeypatch.setattr(Context, "offer", offer)
        assert known
        assert result.objective is not None
        assert (-result.objective if problem.maximize else result.objective) <= min(known)
        assert result.verification is not None
        assert result.verification.valid
