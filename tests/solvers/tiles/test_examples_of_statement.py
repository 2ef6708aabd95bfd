"""The verifier on the worked examples of the contest's statement, to the digit."""

from __future__ import annotations

from fractions import Fraction

import pytest

from lowtide.models.problems.tiles import latency_text
from tests.oracles.naive_tiles import latency
from tests.problems.tiles import tiles_problem
from tests.problems.tiles_examples import EXAMPLES, REVISIT, SPLIT


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_have_the_latency_of_the_statement(name: str) -> None:
    data, given, stated = EXAMPLES[name]
    # Example 2 computes with tiles of 128 x 128, which the text's rule does not let into its 25,000 elements.
    problem = tiles_problem(data, name, place="shared" if name.startswith("capacity") else "apart")
    answer = problem.read(given)
    verdict = problem.verdict(answer)
    assert not verdict.violations
    assert latency_text(sum(verdict.latencies, Fraction(0))) == stated
    assert latency(problem, answer) == sum(verdict.latencies)
    assert problem.judge(answer).objective == problem.evaluate(answer)


def test_what_does_not_fit_is_a_violation() -> None:
    data, given, _ = EXAMPLES["capacity, fused"]
    problem = tiles_problem(data)
    assert [v.kind for v in problem.judge(problem.read(given)).violations] == ["capacity"]
    whole = {"subgraphs": [[0, 1]], "granularities": [[128, 128, 128]]}
    problem = tiles_problem(SPLIT)
    assert [v.kind for v in problem.judge(problem.read(whole)).violations] == ["capacity"]


def test_a_raster_that_keeps_slices_is_another_reading() -> None:
    problem = tiles_problem(REVISIT, raster="keep")
    answer = problem.read(EXAMPLES["revisit, raster"][1])
    assert (
        latency_text(sum(problem.verdict(answer).latencies, Fraction(0))) == "7,096"
    )  # 2,048 + 1,500 + 2,048 + 1,500


def test_working_sets_are_those_of_the_statement() -> None:
    problem = tiles_problem(SPLIT)
    assert problem.verdict(problem.read(EXAMPLES["split"][1])).held == (40_960,)
