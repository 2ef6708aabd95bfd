"""Graphs of numeric algorithms have the counts of their formulas, and refuse what they cannot be."""

from __future__ import annotations

from collections import Counter

import pytest

from lowtide.instances.generators import generate
from lowtide.models.errors import InstanceError
from lowtide.models.graph import Graph


def kinds(graph: Graph) -> dict[str, int]:
    return dict(Counter(op.kind for op in graph.ops))


@pytest.mark.parametrize("n", [1, 2, 5, 7])
def test_factorizations_have_the_kernels_of_tiles(n: int) -> None:
    pairs, triples = n * (n - 1) // 2, n * (n - 1) * (n - 2) // 6
    assert kinds(generate("cholesky", tiles=n)) == {
        kind: count
        for kind, count in (("potrf", n), ("trsm", pairs), ("syrk", pairs), ("gemm", triples))
        if count
    }
    squares = n * (n - 1) * (2 * n - 1) // 6
    assert kinds(generate("lu", tiles=n)) == {
        kind: count for kind, count in (("getrf", n), ("trsm", 2 * pairs), ("gemm", squares)) if count
    }


@pytest.mark.parametrize("n", [1, 3, 6])
def test_their_arithmetic_is_that_of_the_whole_matrix(n: int) -> None:
    """Thirds of operations on unit tiles: n^3 of Cholesky and 2 n^3 of LU, both exact for b to infinity."""
    assert sum(op.duration_ns for op in generate("cholesky", tiles=n).ops) == n**3
    assert sum(op.duration_ns for op in generate("lu", tiles=n).ops) == 2 * n**3


def test_values_are_made_of_those_that_they_depend_on() -> None:
    graph = generate("fft", points=8)
    above = {t: set(op.reads) for op in graph.ops for t in op.writes}
    for t in (t for t, x in enumerate(graph.tensors) if x.final):
        reached = {t}
        for _ in range(3):
            reached = {u for v in reached for u in above[v]}
        assert reached == set(range(8))  # each result needs every input
    graph = generate("stencil", cells=6, steps=2, radius=2)
    assert [len(op.reads) for op in graph.ops[:6]] == [3, 4, 5, 5, 4, 3]
    graph = generate("matmul", rows=3, columns=4, inner=5)
    assert kinds(graph) == {"multiply": 60, "add": 48}
    used = Counter(t for op in graph.ops for t in op.reads)
    assert {used[t] for t, x in enumerate(graph.tensors) if x.initial and x.name[0] == "a"} == {4}
    assert {used[t] for t, x in enumerate(graph.tensors) if x.initial and x.name[0] == "b"} == {3}


def test_attention_keeps_scores_or_not() -> None:
    flash, eager = (
        generate("attention", form=form, tiles=3, rows=8, dim=2, nbytes=2) for form in ("flash", "eager")
    )
    assert kinds(flash) == {"attend": 9}
    assert kinds(eager) == {"score": 9, "softmax": 3, "weight": 9}
    assert max(t.nbytes for t in flash.tensors) == 8 * 2 * 2
    assert max(t.nbytes for t in eager.tensors) == 8 * 8 * 2
    assert [sum(t.final for t in graph.tensors) for graph in (flash, eager)] == [3, 3]


def test_points_must_be_a_power_of_2() -> None:
    with pytest.raises(InstanceError, match="points: found 12, expected a power of 2"):
        generate("fft", points=12)
