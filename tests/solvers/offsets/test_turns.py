"""Parts of methods on the components of a problem: in turns, in bytes, each with an end of its own."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

import lowtide as lt
from lowtide.formulations.offsets.data import offsets_data
from lowtide.instances import load_problem
from lowtide.models.problems.offsets import Offsets
from lowtide.solvers.arena.allocating import FINITE
from lowtide.solvers.context import Context
from lowtide.solvers.engines.kernels import plain
from lowtide.solvers.offsets import descent, first_come, local_search
from lowtide.solvers.offsets.components import Components
from lowtide.solvers.offsets.turns import search_components
from tests.solvers.offsets.buffer_sets import larger_set


def windows() -> lt.Offsets:
    rng = Random(2)
    lives = [(rng.randint(0, 40), rng.randint(5, 20), rng.randint(8, 99)) for _ in range(60)]
    return lt.Offsets(
        lt.Buffers(
            buffers=tuple(
                lt.Buffer(
                    id=str(k), lower=a, upper=a + n, size=s, gaps=(lt.Gap(a + 1, a + n - 1, s // 2, s),)
                )
                for k, (a, n, s) in enumerate(lives)
            )
        )
    )


def test_search_places_and_says_that_it_knows_no_windows() -> None:
    result = lt.solve(windows(), "search", threads=1)
    assert (result.status, result.reason) == (lt.Status.FEASIBLE, None)
    assert result.detail == "branch and bound: gaps with windows; lower heights: gaps with windows"


def test_each_open_component_has_turns_that_count_bytes() -> None:
    problem = load_problem("offsets", "catalogue:minimalloc/E")
    result = lt.solve(problem, threads=1)
    named = [turn.part for turn in result.parts]
    assert {"component 1", "component 2"} <= {*named}
    inner = [turn for turn in result.parts if not turn.part.startswith("component")]
    assert inner
    assert all(turn.after[0] is not None and turn.after[0] % 1024 == 0 for turn in inner)
    assert result.parts[-1].after == (result.objective, result.objective)


@pytest.mark.slow
def test_without_a_limit_the_parts_end_by_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(descent, "STEPS", 15)
    monkeypatch.setattr(local_search, "EFFORT", 1)
    problem = load_problem("offsets", "catalogue:minimalloc/D")
    assert isinstance(problem, Offsets)
    ends = []
    for _ in range(2):
        context = Context(problem=problem, threads=1)
        outcome = search_components(Components(problem, context), FINITE)
        assert (outcome.reason, outcome.detail) == (None, "every part was run to its end")
        assert {turn.ended for turn in context.known.turns} == {"done"}
        ends.append((context.incumbent, context.bound))
    assert ends[0] == ends[1]


@pytest.mark.parametrize("best_fit", [False, True])
def test_what_is_not_compiled_yet_places_alike(monkeypatch: pytest.MonkeyPatch, best_fit: bool) -> None:
    (data, *_) = offsets_data(larger_set(Random(5), 60))
    monkeypatch.setattr(first_come, "PLAIN", 0)
    compiled = first_come.place_as_they_come(data, best_fit=best_fit)
    monkeypatch.setattr(first_come, "place_in_turn", plain(first_come.place_in_turn))
    assert np.array_equal(first_come.place_as_they_come(data, best_fit=best_fit), compiled)
