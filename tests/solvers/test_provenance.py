"""Provenance is outside the graph's hash: whatever it says, answers are the same, and nothing breaks."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import pytest

import lowtide as lt
from lowtide.models.derived.merging import merge_ops
from lowtide.models.errors import InstanceError
from lowtide.models.problems.problem import Problem
from lowtide.solvers.registry import ROOMS
from tests.question_of_each import problem_of

GRAPH = lt.load("gen:intree?n=10&seed=2")

KEYS = (
    "blocks",
    "merges",
    "layers",
    "hybrid",
    "source",
    "measured",
    "dropped_bytes",
    "memory_edges",
    "merged",
)
"""Keys of provenance that somebody writes."""

STALE: dict[str, Any] = {
    "text": "?",
    "number": -1,
    "nothing": None,
    "dangling": [[0, 99], [1, 2]],
    "backwards": [[9, 8, 7], [6, 5, 4, 3, 2, 1, 0]],
    "twice": [[0, 1, 2, 3, 4], [4, 5, 6, 7, 8, 9]],
    "texts": [["a"], [], {"ops": 3}],
    "mapping": {"expert": [[0, 0.5], 3], "processors": [], "needs": 7, "ops": None},
}
"""Values that no key of this graph can have."""


def facts(problem: Problem, method: str, **options: str) -> tuple[Any, ...]:
    result = lt.solve(problem, method, time_limit=None, threads=1, options=options)
    return result.status, result.objective, result.bound, result.detail, result.facts


STAGED = lt.Streams(GRAPH, contention="half-serial")

WITHOUT = ("offsets", "pipeline", "sharding", "tiles")
"""Problems of which no question is about that graph."""

QUESTIONS: list[tuple[Problem, str, dict[str, str]]] = [
    *((problem_of(name, GRAPH), "auto", {}) for name in ROOMS if name not in WITHOUT),
    (STAGED, "auto", {}),
    (STAGED, "ios", {"blocks": "stated"}),
    (lt.Partition(GRAPH, 2), "expert", {}),
]
"""Each problem about graphs, by `auto`; and the methods that read provenance."""


@cache
def expected(k: int) -> tuple[Any, ...]:
    question, method, options = QUESTIONS[k]
    return facts(question, method, **options)


@pytest.mark.parametrize("kind", STALE)
@pytest.mark.parametrize(("question", "method", "options"), QUESTIONS, ids=lambda x: getattr(x, "name", None))
def test_garbage_changes_no_answer(
    question: Problem, method: str, options: dict[str, str], kind: str
) -> None:
    garbage = replace(GRAPH, provenance=dict.fromkeys(KEYS, STALE[kind]))
    assert garbage.sha256 == GRAPH.sha256
    other = replace(question, graph=garbage)  # type: ignore[type-var]
    assert facts(other, method, **options) == expected(QUESTIONS.index((question, method, options)))


@pytest.mark.parametrize("kind", STALE)
@pytest.mark.parametrize("name", ["partition", "hybrid"])
def test_garbage_of_layers_is_refused_in_words_or_left_out(name: str, kind: str) -> None:
    garbage = replace(GRAPH, provenance=dict.fromkeys(KEYS, STALE[kind]))
    try:
        problem = ROOMS[name].problem.of(garbage)
    except InstanceError:
        return
    assert facts(problem, "auto") == facts(ROOMS[name].problem.of(replace(GRAPH, provenance={})), "auto")


def test_stale_blocks_of_a_graph_with_merges_are_dropped() -> None:
    graph = lt.load("catalogue:ios/squeezenet")
    stale = replace(graph, provenance={**graph.provenance, "blocks": [[0, 99]]})
    assert "blocks" not in merge_ops(stale, [(3, 4)]).provenance
    assert merge_ops(stale, [(3, 4)]).sha256 == merge_ops(graph, [(3, 4)]).sha256
