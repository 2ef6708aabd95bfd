"""Memory profiles: the data that is drawn, labels that keep apart, files that are always the same."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowtide import Graph, Machine, Op, Peak, Plan, Tensor, load, solve, verify
from lowtide.models.errors import UsageError, VerificationError
from lowtide.models.plan import Free
from lowtide.results.figures.profile_drawing import shorten, spread

pytest.importorskip("matplotlib")
from matplotlib.text import Text

from lowtide.results import plot
from tests.effort import many

MIB = 2**20


def two_kinds(duration_ns: int = 1) -> Graph:
    """Two ops: 3 MiB of activation, then 5 MiB of output beside it."""
    return Graph(
        name="two kinds",
        tensors=(
            Tensor(name="x", nbytes=3 * MIB),
            Tensor(name="y", nbytes=5 * MIB, kind="output", final=True),
        ),
        ops=(
            Op(name="load", writes=(0,), duration_ns=duration_ns),
            Op(name="relu", reads=(0,), writes=(1,), duration_ns=duration_ns),
        ),
    )


def drawn(graph: Graph, order: Sequence[int], **options: Any) -> Any:
    return plot.profile(Plan.from_order(graph, order), graph, plot.new_axes(), **options)


def texts(ax: Any) -> list[str]:
    return [t.get_text() for t in ax.texts]


def test_outline_is_the_memory_in_mebibytes_over_ops() -> None:
    ax = drawn(two_kinds(), (0, 1))
    (outline,) = [line for line in ax.lines if len(line.get_xdata()) == 3]
    assert list(outline.get_xdata()) == [0, 1, 2]
    assert list(outline.get_ydata()) == [3, 8, 8]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("ops executed", "memory [MiB]")


def test_axis_is_time_where_ops_take_time() -> None:
    ax = drawn(two_kinds(duration_ns=2000), (0, 1))
    assert ax.get_xlabel() == "time [µs]"
    assert ax.get_xlim() == (0, 4)


def test_legend_names_the_kinds_that_can_be_seen() -> None:
    ax = drawn(two_kinds(), (0, 1))
    assert [t.get_text() for t in ax.get_legend().get_texts()] == ["activation", "output"]


def test_title_and_levels_say_instance_peak_and_bound() -> None:
    ax = drawn(two_kinds(), (0, 1), bound=6 * MIB)
    assert ax.get_title(loc="left") == "two kinds"
    assert {"peak\n8 MiB", "bound\n6 MiB", "relu (op 1) sets the peak"} <= set(texts(ax))
    assert "verified plan · peak 8,388,608 bytes · gap 25.00 % · profile of the reference order" in texts(ax)


def test_result_says_method_and_status_and_equal_levels_share_a_label() -> None:
    result = solve(Peak(load("catalogue:diamond")), "reference")
    ax = plot.profile(result, ax=plot.new_axes(), bound=result.objective)
    assert "peak = bound\n8 B" in texts(ax)
    assert "reference · feasible · peak 8 bytes · gap 0 % · profile of the reference order" in texts(ax)


def test_reference_order_is_drawn_where_it_differs() -> None:
    graph = load("catalogue:two-branches")
    best = solve(Peak(graph), "greedy")
    assert best.plan is not None
    ax: Any = plot.profile(best, ax=plot.new_axes())
    assert "reference\n16 B" in texts(ax)
    assert "reference order" in [t.get_text() for t in ax.get_legend().get_texts()]
    same = drawn(graph, range(len(graph.ops)))
    assert "reference order" not in [t.get_text() for t in same.get_legend().get_texts()]


def test_capacity_of_the_machine_is_a_level() -> None:
    graph = two_kinds()
    plan = Plan.from_order(graph, (0, 1), Machine.single(capacity=10 * MIB))
    ax = plot.profile(plan, graph, plot.new_axes())
    assert "capacity\n10 MiB" in texts(ax)


def test_nothing_is_drawn_of_a_plan_that_does_not_verify() -> None:
    graph = two_kinds()
    plan = Plan(machine=Machine.single(), frees=(Free(0, "memory", 0),))
    with pytest.raises(VerificationError, match="missing-run"):
        plot.profile(plan, graph, plot.new_axes())


def test_misuse_is_one_line() -> None:
    graph = two_kinds()
    plan = Plan.from_order(graph, (0, 1))
    with pytest.raises(UsageError, match="without its graph"):
        plot.profile(plan)
    with pytest.raises(UsageError, match="tier: found 'disk', expected one of memory"):
        plot.profile(plan, graph, tier="disk")
    with pytest.raises(UsageError, match="at most the peak"):
        plot.profile(plan, graph, plot.new_axes(), bound=9 * MIB)
    with pytest.raises(UsageError, match=r"expected one of \.svg, \.png, \.pdf"):
        plot.file_kind("x.gif")


@pytest.mark.slow
@pytest.mark.parametrize("kind", plot.FILE_KINDS)
def test_same_picture_same_bytes(tmp_path: Path, kind: str) -> None:
    graph = load("gen:unet?depth=1")
    hashes = set()
    for name in ("a", "b"):
        path = tmp_path / f"{name}.{kind}"
        plot.save(drawn(graph, range(len(graph.ops)), bound=1), path)
        hashes.add(hashlib.sha256(path.read_bytes()).hexdigest())
    assert len(hashes) == 1


@pytest.mark.slow
def test_graph_without_memory_and_empty_graph_are_drawn(tmp_path: Path) -> None:
    nothing = Graph(name="nothing", tensors=(), ops=(Op(name="noop"),))
    empty = Graph(name="empty", tensors=(), ops=())
    for graph in (nothing, empty):
        plot.save(drawn(graph, range(len(graph.ops))), tmp_path / "x.png")


@pytest.mark.parametrize("seed", range(4))
def test_labels_never_overlap(seed: int) -> None:
    rng = Random(seed)
    graph = load(f"gen:randwire?n=30&seed={seed}")
    plan = Plan.from_order(graph, range(len(graph.ops)), Machine.single(capacity=10**6))
    (peak,) = verify(graph, plan).peaks.values()
    capacity = peak + rng.randint(0, peak // 20)
    plan = Plan.from_order(graph, range(len(graph.ops)), Machine.single(capacity=capacity))
    ax: Any = plot.profile(plan, graph, plot.new_axes(), bound=peak - rng.randint(1, peak // 20))
    ax.figure.draw_without_rendering()
    boxes = [Text.get_window_extent(t) for t in ax.texts if t.get_text()]  # without the leader lines
    boxes += [ax.get_legend().get_window_extent()]
    for i, one in enumerate(boxes):
        assert one.x0 >= 0
        assert one.x1 <= ax.figure.bbox.width
        assert not any(one.overlaps(other) for other in boxes[:i])


@pytest.mark.slow
def test_thousands_of_ops_are_few_shapes() -> None:
    graph = load("gen:chain?n=5000&seed=1")
    ax = drawn(graph, range(5000))
    assert len(ax.patches) + len(ax.lines) + len(ax.collections) < 10
    longest = max(len(line.get_xdata()) for line in ax.lines)
    assert longest < 2500


@many(100)
@given(st.lists(st.floats(-1e3, 1e3), max_size=8).map(sorted), st.floats(0, 100))
def test_spread_keeps_order_distance_and_what_is_far_apart(wanted: list[float], gap: float) -> None:
    found = spread(wanted, gap)
    assert all(b - a >= gap - 1e-6 for a, b in pairwise(found))
    if all(b - a >= gap for a, b in pairwise(wanted)):
        assert found == pytest.approx(wanted)
    assert sum(found) == pytest.approx(sum(wanted), abs=1e-6)


def test_shortened_names_keep_both_ends() -> None:
    assert shorten("features/denseblock4/conv", 12) == "featur…/conv"
    assert shorten("conv", 12) == "conv"
