"""Thousands of copies on a page: shares of bandwidth, stacked steps with few vertices, short paths."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lowtide as lt
from lowtide import Access, Channel, Copy, Graph, Machine, Op, Plan, Processor, Resident, Run, Tensor, Tier
from lowtide.results.figures.channel_use import bandwidth_use
from lowtide.results.figures.stacked_steps import draw_stack, thinned
from lowtide.results.figures.svg_paths import compact_paths
from tests.effort import many
from tests.random_plans import random_case

pytest.importorskip("matplotlib")

NS = 10**9
SPAN = 100_000


def machine(latency: int = 0) -> Machine:
    return Machine(
        tiers=(Tier(name="gpu"), Tier(name="host")),
        processors=(Processor(name="gpu0", tiers=(Access(tier="gpu"),)),),
        channels=(
            Channel(src="gpu", dst="host", bytes_per_s=2 * NS, latency_ns=latency),
            Channel(src="host", dst="gpu", bytes_per_s=2 * NS),
        ),
    )


def copied_in_pieces(count: int) -> tuple[Graph, Plan]:
    """A weight of `count` bytes leaves byte by byte, at half the rate of the channel, during one long op."""
    graph = Graph(
        name="pieces",
        tensors=(Tensor(name="w", nbytes=count, kind="weight", initial=True, final=True),),
        ops=(Op(name="wait", duration_ns=SPAN),),
    )
    step = SPAN // count
    copies = tuple(Copy(0, "gpu", "host", k * step, (k + 1) * step, (k, k + 1)) for k in range(count))
    plan = Plan(
        machine=machine(), start=(Resident(0, "gpu"),), runs=(Run(0, 0, 0, SPAN, "gpu0"),), copies=copies
    )
    lt.verify(graph, plan).raise_if_invalid()
    return graph, plan


@pytest.mark.slow
def test_few_copies_are_bars_and_many_are_shares_of_the_bandwidth() -> None:
    for count, words in ((10, "100 % busy\n10 B"), (10_000, "5 % in use\n9.77 KiB")):
        graph, plan = copied_in_pieces(count)
        lanes = lt.plot.timeline(plan, graph, lt.plot.new_figure(lt.plot.timeline_inches(plan)))[0]
        remarks = [text.get_text() for text in lanes.texts]
        assert words in remarks
        assert "unused" in remarks
        assert ("w" in remarks) == (count == 10)


@pytest.mark.slow
def test_pictures_of_thousands_of_copies_are_small_files(tmp_path: Path) -> None:
    graph, plan = copied_in_pieces(20_000)
    axes = lt.plot.timeline(plan, graph, lt.plot.new_figure(lt.plot.timeline_inches(plan)))
    lt.plot.save(axes[0], tmp_path / "line.svg")
    assert (tmp_path / "line.svg").stat().st_size < 150_000


def test_shares_of_a_drawing() -> None:
    """Two ns of latency, then 4 bytes in 4 ns of a channel for 2 bytes/ns; over the end of the period."""
    graph = Graph(
        name="two",
        tensors=(
            Tensor(name="w", nbytes=4, kind="weight", initial=True, final=True),
            Tensor(name="s", nbytes=8, kind="state", initial=True, final=True),
        ),
        ops=(Op(name="wait", duration_ns=12),),
    )
    copies = (Copy(0, "gpu", "host", 0, 6), Copy(1, "gpu", "host", 8, 14))
    plan = Plan(
        machine=machine(latency=2),
        start=(Resident(0, "gpu"), Resident(1, "gpu")),
        runs=(Run(0, 0, 0, 12, "gpu0"),),
        copies=copies,
        period=12,
    )
    edges, shares = bandwidth_use(graph, plan, plan.machine.channels[0], 12, 6)
    assert edges.tolist() == [0, 2, 4, 6, 8, 10, 12]
    assert shares["weight"].tolist() == pytest.approx([0, 0.5, 0.5, 0, 0, 0])
    assert shares["state"].tolist() == pytest.approx([1, 0, 0, 0, 0, 1])


@pytest.mark.parametrize("flavour", ["tiered", "periodic"])
def test_shares_carry_every_byte_within_the_rate(flavour: str) -> None:
    rng, found = Random(7), 0
    while found < 25:
        case = random_case(rng, flavour, max_ops=8)
        verdict = lt.verify(case.graph, case.plan)
        if not verdict.valid:
            continue
        span = verdict.makespan
        for channel in case.plan.machine.channels:
            edges, shares = bandwidth_use(case.graph, case.plan, channel, span, 37)
            total = sum(shares.values(), np.zeros(37))
            moved = float((total * np.diff(edges)).sum()) * channel.bytes_per_s / NS
            assert moved == pytest.approx(verdict.traffic.get((channel.src, channel.dst), 0))
            assert total.max() <= 1 + 1e-9
            found += bool(shares)


steps = st.lists(st.floats(0, 1).map(lambda x: round(x, 3)), min_size=1, max_size=30).map(np.array)


@many(100)
@given(steps, st.sampled_from([0.0, 0.01, 0.1]))
def test_thinned_steps_are_near_and_keep_the_highest(heights: np.ndarray, least: float) -> None:
    edges = np.arange(len(heights) + 1.0)
    x, y = thinned(edges, heights, least)
    shown = y[np.searchsorted(x, edges[:-1], side="right") - 1]
    assert (abs(shown - heights) <= least + 1e-12).all()
    assert y.max() == heights.max()
    assert (x[0], x[-1]) == (0, len(heights))
    assert all(a != b for a, b in pairwise(y))


def test_a_stack_lies_over_its_base_with_lower_layers_in_front() -> None:
    ax = lt.plot.new_axes()
    layers = {"a": np.array([1.0, 2.0]), "b": np.array([3.0, 0.0])}
    draw_stack(ax, np.arange(3.0), layers, {"a": "red", "b": "blue"}, least=0.1, base=10, unit=-1)
    a, b = ax.patches
    assert a.get_zorder() > b.get_zorder()
    assert a.get_path().get_extents().bounds == (0, 8, 2, 2)
    assert b.get_path().get_extents().bounds == (0, 6, 2, 4)
    assert np.asarray(a.get_path().vertices).tolist()[:6] == [
        [0, 10],
        [0, 9],
        [1, 9],
        [1, 8],
        [2, 8],
        [2, 10],
    ]


numbers = st.floats(-999, 999).map(lambda x: f"{x:.6f}")


@many(100)
@given(st.lists(st.tuples(st.sampled_from("ML"), numbers, numbers), min_size=1, max_size=20))
def test_short_paths_lead_where_long_ones_did(turns: list[tuple[str, str, str]]) -> None:
    turns[0] = ("M", *turns[0][1:])
    svg = compact_paths('<path d="' + "\n".join(" ".join(turn) for turn in turns) + '"/>')
    found = re.search(r'd="([^"]*)"', svg)
    assert found is not None
    x = y = 0.0
    places = []
    for command, rest in re.findall(r"([MLHV])([-0-9. ]+)", found[1]):
        values = [float(word) for word in rest.split()]
        x = values[0] if command in "MLH" else x
        y = values[-1] if command in "MLV" else y
        places.append((x, y))
    wanted = [(float(a), float(b)) for _, a, b in turns]
    assert {(round(a, 2), round(b, 2)) for a, b in wanted} == {(round(a, 2), round(b, 2)) for a, b in places}
    assert places[-1] == pytest.approx(wanted[-1], abs=0.0051)
