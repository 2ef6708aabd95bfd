"""Assembly trees: fronts against the symbolic elimination of the grid's matrix, memory and time by hand."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowtide.instances import load
from lowtide.instances.generators import generate
from lowtide.instances.generators.assembly import Front, nested_dissection
from lowtide.models.errors import InstanceError
from tests.effort import many

Point = tuple[int, ...]


def dissect(points: set[Point], leaf: int) -> list[list[Point]]:
    """Return the fronts' points in elimination order, by cutting sets of points."""
    if not points:
        return []
    if len(points) <= leaf:
        return [sorted(points)]
    ranges = [sorted({p[d] for p in points}) for d in range(len(next(iter(points))))]
    side = max(range(len(ranges)), key=lambda d: len(ranges[d]))
    cut = ranges[side][len(ranges[side]) // 2]
    below = {p for p in points if p[side] < cut}
    above = {p for p in points if p[side] > cut}
    return [*dissect(below, leaf), *dissect(above, leaf), sorted(points - below - above)]


def eliminated(sides: tuple[int, ...], leaf: int, stencil: str) -> list[Front]:
    """Return the fronts by eliminating the points of the grid one by one from its graph."""
    points = set(product(*map(range, sides)))
    near = {1} if stencil == "star" else set(range(1, len(sides) + 1))
    neighbours = {
        p: {
            q
            for step in product((-1, 0, 1), repeat=len(sides))
            if sum(map(abs, step)) in near and (q := tuple(map(sum, zip(p, step, strict=True)))) in points
        }
        for p in points
    }
    fronts = dissect(points, leaf)
    front_of = {p: i for i, front in enumerate(fronts) for p in front}
    order = [p for front in fronts for p in front]
    position = {p: k for k, p in enumerate(order)}
    left: list[set[Point]] = []
    for front in fronts:
        union: set[Point] = set()
        for p in front:
            later = neighbours.pop(p)
            for q in later:
                neighbours[q] |= later - {q}
                neighbours[q].discard(p)
            union |= later
        # No point of the front is coupled to anything that its last point is not.
        assert union <= set(front) | later
        left.append(later)
    children: list[list[int]] = [[] for _ in fronts]
    for i, border in enumerate(left):
        if border:
            children[front_of[min(border, key=position.__getitem__)]].append(i)
    return [
        Front(len(front), len(border), tuple(below))
        for front, border, below in zip(fronts, left, children, strict=True)
    ]


@many(80)
@given(
    sides=st.lists(st.integers(1, 6), min_size=1, max_size=3),
    leaf=st.integers(1, 12),
    stencil=st.sampled_from(["star", "box"]),
)
def test_fronts_are_those_of_symbolic_elimination(sides: list[int], leaf: int, stencil: str) -> None:
    assert nested_dissection(tuple(sides), leaf, stencil) == eliminated(tuple(sides), leaf, stencil)


@pytest.mark.parametrize(
    ("sides", "leaf"), [((17, 12), 1), ((12, 17), 5), ((40, 3), 2), ((7, 8, 5), 1), ((60,), 1)]
)
@pytest.mark.parametrize("stencil", ["star", "box"])
def test_larger_grids(sides: tuple[int, ...], leaf: int, stencil: str) -> None:
    assert nested_dissection(sides, leaf, stencil) == eliminated(sides, leaf, stencil)


@pytest.mark.parametrize("factor", ["lu", "cholesky"])
def test_memory_and_time_of_each_front(factor: str) -> None:
    fronts = nested_dissection((9, 6), 4, "star")
    graph = generate("assembly", grid="9x6", leaf=4, factor=factor, gflops=1)
    assert len(graph.ops) == len(fronts)
    written: dict[int, int] = {t: i for i, op in enumerate(graph.ops) for t in op.writes}
    for op, front in zip(graph.ops, fronts, strict=True):
        assert tuple(written[t] for t in op.reads) == front.children
        order = front.pivots + front.border
        operations = 0
        for pivot in range(front.pivots):
            rest = order - pivot - 1
            # Division of the column, then the update: of all rest^2 entries, or of their lower triangle.
            updates = rest * rest if factor == "lu" else rest * (rest + 1) // 2
            operations += rest + 2 * updates + (factor == "cholesky")
        assert op.duration_ns == max(1, operations)
        entries = order**2 if factor == "lu" else sum(range(order + 1))
        block = front.border**2 if factor == "lu" else sum(range(front.border + 1))
        assert sum(graph.tensors[t].nbytes for t in op.writes) == 8 * block
        assert op.workspace == 8 * (entries - block)


def test_the_root_of_a_square_is_its_middle_line() -> None:
    graph = generate("assembly", grid="31x31", leaf=1)
    root = graph.ops[-1]
    assert (root.writes, len(root.reads), root.workspace) == ((), 2, 8 * 31 * 31)
    assert sorted(t for op in graph.ops for t in op.reads) == list(range(len(graph.tensors)))
    assert not any(t.initial or t.final for t in graph.tensors)


@pytest.mark.slow
def test_a_hundred_thousand_fronts() -> None:
    graph = load("gen:assembly?grid=480x480&leaf=1")
    assert len(graph.ops) > 100_000
    assert sum(len(op.reads) for op in graph.ops) == len(graph.tensors) == len(graph.ops) - 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("grid=50", ""),
        ("grid=50x", 'option grid: found "50x", expected a text like 50x50'),
        ("grid=2x2x2x2", "option grid"),
        ("grid=0x4", "found 0x4, expected sides >= 1"),
        ("grid=2000x2000&leaf=1", "some 16,000,004 ops and operands, expected at most 1,000,000"),
        ("stencil=ball", "expected star or box"),
        ("train=1", "unknown option 'train'"),
    ],
)
def test_options(options: str, message: str) -> None:
    if not message:
        assert len(load(f"gen:assembly?{options}").ops) > 1
        return
    with pytest.raises(InstanceError) as caught:
        load(f"gen:assembly?{options}")
    assert message in str(caught.value)
