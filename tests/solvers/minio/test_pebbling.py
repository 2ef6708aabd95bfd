"""Red-blue pebbling, each op run once: exact values of known graphs, and closed forms.

The values are those of a breadth-first search over pebble moves that is none of ours: unit sizes, no sliding,
sources begin with a blue pebble, sinks end with one; loads and saves cost 1.
"""

from __future__ import annotations

import pytest

import lowtide as lt
from lowtide.models.graph import Graph, Op, Tensor


def unit_graph(name: str, operands: dict[str, tuple[str, ...]]) -> Graph:
    """Return values that are made of others; those of nothing are inputs, unused ones results."""
    number = {v: k for k, v in enumerate(operands)}
    used = {v for some in operands.values() for v in some}
    tensors = tuple(
        Tensor(name=v, nbytes=1, initial=not some, final=v not in used) for v, some in operands.items()
    )
    ops = tuple(
        Op(name=v, reads=tuple(number[u] for u in some), writes=(number[v],))
        for v, some in operands.items()
        if some
    )
    return Graph(name=name, tensors=tensors, ops=ops)


def pyramid(base: int) -> Graph:
    return unit_graph(
        "pyramid",
        {
            f"{level}.{i}": (f"{level - 1}.{i}", f"{level - 1}.{i + 1}") if level else ()
            for level in range(base)
            for i in range(base - level)
        },
    )


def in_tree(leaves: int) -> Graph:
    return unit_graph(
        "tree",
        {
            f"{level}.{i}": (f"{level - 1}.{2 * i}", f"{level - 1}.{2 * i + 1}") if level else ()
            for level in range(leaves.bit_length())
            for i in range(leaves >> level)
        },
    )


def grid(side: int) -> Graph:
    return unit_graph(
        "grid",
        {
            f"{i}.{j}": tuple(f"{a}.{b}" for a, b in ((i - 1, j), (i, j - 1)) if a >= 0 and b >= 0)
            for i in range(side)
            for j in range(side)
        },
    )


def least(graph: Graph, pebbles: int, method: str = "states") -> int | None:
    problem = lt.MinIO(graph, pebbles, whole=True, count="traffic", stored=True)
    result = lt.solve(problem, method, threads=1)
    assert result.status is lt.Status.OPTIMAL
    return result.objective


KNOWN = [
    (pyramid(3), {3: 6, 4: 4}),
    (pyramid(4), {3: 11, 4: 7, 5: 5}),
    (pyramid(5), {3: 18, 4: 10, 5: 8, 6: 6}),
    (pyramid(6), {3: 25, 4: 15, 5: 11, 6: 9, 7: 7}),
    (lt.load("gen:fft?points=4"), {3: 14, 4: 11, 5: 9, 6: 8}),
    (in_tree(4), {3: 7, 4: 5}),
    (in_tree(8), {3: 15, 4: 11, 5: 9}),
    (grid(4), {3: 14, 4: 6, 5: 2, 6: 2}),
    (lt.load("gen:matmul?rows=2&columns=2&inner=2"), {3: 25, 4: 17, 5: 14, 6: 13, 8: 12}),
    (lt.load("gen:stencil?cells=4&steps=3"), {4: 16, 5: 12, 6: 8}),
]


@pytest.mark.parametrize(("graph", "values"), KNOWN, ids=[f"{g.name} {len(g.tensors)}" for g, _ in KNOWN])
def test_exact_values(graph: Graph, values: dict[int, int]) -> None:
    assert {r: least(graph, r) for r in values} == values


@pytest.mark.slow
def test_exact_value_of_a_transform_of_8_points() -> None:
    graph = lt.load("gen:fft?points=8")
    assert {r: least(graph, r) for r in (3, 10)} == {3: 40, 10: 16}


@pytest.mark.parametrize(
    "base", [3, 4, 5, 6, pytest.param(7, marks=pytest.mark.slow), pytest.param(8, marks=pytest.mark.slow)]
)
def test_pyramids_need_one_pebble_more_than_their_base(base: int) -> None:
    trivial = base + 1
    assert least(pyramid(base), base + 1) == trivial
    assert least(pyramid(base), base) == trivial + 2


@pytest.mark.slow
def test_other_exact_methods_agree() -> None:
    for graph, r in ((pyramid(4), 3), (in_tree(4), 3), (grid(3), 3), (lt.load("gen:fft?points=4"), 4)):
        assert least(graph, r, "cpsat-steps") == least(graph, r)


def test_too_few_pebbles_are_infeasible() -> None:
    problem = lt.MinIO(pyramid(3), 2, whole=True, count="traffic", stored=True)
    assert lt.solve(problem, "states").status is lt.Status.INFEASIBLE


@pytest.mark.slow
def test_products_meet_their_lower_bound() -> None:
    """2 n^3 / sqrt(M) - 2 M at least (Smith, Lowery, Langou, van de Geijn)."""
    for memory in (3, 4, 6):
        moved = least(lt.load("gen:matmul?rows=2&columns=2&inner=2"), memory)
        assert moved is not None
        assert moved >= 2 * 8 / memory**0.5 - 2 * memory
