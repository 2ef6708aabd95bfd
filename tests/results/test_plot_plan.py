"""Gantt charts and the memory of tiers: what is drawn where, and that thousands of runs are few shapes."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from itertools import pairwise
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lowtide as lt
from lowtide import (
    Access,
    Channel,
    Copy,
    Free,
    Graph,
    Machine,
    Op,
    Peak,
    Placement,
    Plan,
    Processor,
    Resident,
    Run,
    Tensor,
    Tier,
    load,
    load_machine,
    solve,
    verify,
)
from lowtide.models.errors import UsageError, VerificationError
from lowtide.results.figures.plan_drawing import OTHER, RUN_COLOURS, Bar, merged, op_kinds, rows_of
from lowtide.results.figures.plot_plan import _within, drawn_tiers
from tests.random_plans import random_case

pytest.importorskip("matplotlib")
from matplotlib.collections import PathCollection
from matplotlib.colors import to_hex

from lowtide.results import plot
from tests.effort import many

MIB = 2**20
MS = 10**6


@pytest.fixture
def swapped() -> tuple[Graph, Plan]:
    """Two weights come over one channel at the same time, while the first op runs; the ssd is not used."""
    graph = Graph(
        name="swapped",
        tensors=(
            Tensor(name="v", nbytes=1 * MIB, kind="weight", initial=True, final=True),
            Tensor(name="w", nbytes=2 * MIB, kind="weight", initial=True, final=True),
            Tensor(name="x", nbytes=3 * MIB),
            Tensor(name="y", nbytes=4 * MIB, kind="output", final=True),
        ),
        ops=(
            Op(name="load", kind="Load", writes=(2,), duration_ns=4 * MS),
            Op(name="mul", kind="Gemm", reads=(0, 1, 2), writes=(3,), duration_ns=5 * MS),
        ),
    )
    machine = Machine(
        tiers=(Tier(name="gpu", capacity=16 * MIB), Tier(name="host"), Tier(name="ssd")),
        processors=(Processor(name="gpu0", tiers=(Access(tier="gpu"),)),),
        channels=(
            Channel(src="host", dst="gpu", bytes_per_s=10**10),
            Channel(src="gpu", dst="host", bytes_per_s=10**10),
        ),
    )
    plan = Plan(
        machine=machine,
        start=(Resident(0, "host"), Resident(1, "host")),
        runs=(Run(0, 0, 0, 4 * MS, "gpu0"), Run(1, 0, 5 * MS, 10 * MS, "gpu0")),
        copies=(Copy(0, "host", "gpu", 0, 2 * MS), Copy(1, "host", "gpu", 1 * MS, 4 * MS)),
        frees=(Free(2, "gpu", 10 * MS),),
    )
    verify(graph, plan).raise_if_invalid()
    return graph, plan


def bars(ax: Any) -> list[tuple[str, tuple[float, float], tuple[float, float]]]:
    """Return colour, horizontal and vertical extent of each rectangle, lane by lane."""
    found = []
    for collection in ax.collections:
        if isinstance(collection, PathCollection):
            colours: Any = collection.get_facecolor()
            for path, colour in zip(collection.get_paths(), colours, strict=True):
                for corners in path.to_polygons():
                    (x0, y0), (x1, y1) = np.min(corners, axis=0), np.max(corners, axis=0)
                    found.append((to_hex(colour).upper(), (x0, x1), (y0, y1)))
    return found


def texts(ax: Any) -> list[str]:
    return [t.get_text() for t in ax.texts]


def test_gantt_has_a_lane_per_processor_and_channel(swapped: tuple[Graph, Plan]) -> None:
    graph, plan = swapped
    ax, memory = plot.gantt(plan, graph, plot.new_figure(plot.gantt_inches(plan)))
    assert [t for t in texts(ax) if t in ("gpu0", "host → gpu", "gpu → host")] == [
        "gpu0",
        "host → gpu",
        "gpu → host",
    ]
    assert {"90 % busy", "40 % busy\n3 MiB", "unused"} <= {*texts(ax)}
    assert "verified plan · 2 runs · 2 copies · makespan 10 ms · stall 1 ms" in texts(ax)
    assert (memory.get_xlabel(), memory.get_xlim(), ax.get_xlim()) == ("time [ms]", (0, 10), (0, 10))


def test_gantt_has_the_memory_of_one_tier_under_it(swapped: tuple[Graph, Plan]) -> None:
    graph, plan = swapped
    _, gpu = plot.gantt(plan, graph, plot.new_figure())
    assert {"peak\n10 MiB", "capacity\n16 MiB"} <= {*texts(gpu)}
    heights = [np.unique(line.get_ydata()) for line in gpu.lines]
    assert {10.0, 16.0} <= {float(h[0]) for h in heights if h.size == 1}
    _, host = plot.gantt(plan, graph, plot.new_figure(), tier="host")
    assert host.get_ylabel() == "host [MiB]"
    with pytest.raises(UsageError, match="found 'disk', expected one of gpu, host, ssd"):
        plot.gantt(plan, graph, plot.new_figure(), tier="disk")


def test_time_counts_ops_only_where_they_run_one_after_another() -> None:
    graph = Graph(name="two", tensors=(), ops=(Op(name="a"), Op(name="b"), Op(name="c")))
    machine = Machine(
        tiers=(Tier(name="memory"),),
        processors=tuple(Processor(name=f"p{k}", tiers=(Access(tier="memory"),)) for k in (0, 1)),
    )
    for runs, name in (
        ([(0, "p0"), (1, "p0"), (2, "p1")], "ops executed"),
        ([(0, "p0"), (0, "p1"), (1, "p0")], "time [ns]"),
        ([(0, "p0"), (1, "p0"), (3, "p0")], "time [ns]"),
    ):
        plan = Plan(machine=machine, runs=tuple(Run(i, 0, s, s + 1, p) for i, (s, p) in enumerate(runs)))
        assert plot.gantt(plan, graph, plot.new_figure())[1].get_xlabel() == name
        assert plot.profile(plan, graph, plot.new_axes()).get_xlabel() == name


def test_bars_lie_where_runs_and_copies_do(swapped: tuple[Graph, Plan]) -> None:
    graph, plan = swapped
    lanes = plot.gantt(plan, graph, plot.new_figure())[0]
    load_bar, mul_bar, v, w = sorted(bars(lanes), key=lambda b: b[2][0])
    assert load_bar[1] == pytest.approx((0, 4), abs=0.01)
    assert mul_bar[1] == pytest.approx((5, 10), abs=0.01)
    assert v[1] == pytest.approx((0, 2), abs=0.01)
    assert w[1] == pytest.approx((1, 4), abs=0.01)
    assert load_bar[2] == mul_bar[2] == (-0.4, 0.4)
    assert 0.6 <= v[2][0] < v[2][1] <= w[2][0] < w[2][1] <= 1.4  # one lane, one row each
    assert load_bar[0] != mul_bar[0]
    assert v[0] == w[0] == "#EEDD88"


def test_names_are_written_into_bars_with_room(swapped: tuple[Graph, Plan]) -> None:
    graph, plan = swapped
    assert {"load", "mul", "v", "w"} <= {*texts(plot.gantt(plan, graph, plot.new_figure())[0])}


@pytest.mark.parametrize(("rows", "taller", "written"), [(3, 1, True), (5, 1, False), (5, 3, True)])
def test_names_are_written_into_rows_with_room(rows: int, taller: int, written: bool) -> None:
    names = [f"w{i}" for i in range(rows)]
    graph = Graph(
        name="together",
        tensors=tuple(Tensor(name=x, nbytes=MIB, kind="weight", initial=True, final=True) for x in names),
        ops=(Op(name="use", reads=tuple(range(rows)), duration_ns=MS),),
    )
    machine = Machine(
        tiers=(Tier(name="gpu"), Tier(name="host")),
        processors=(Processor(name="gpu0", tiers=(Access(tier="gpu"),)),),
        channels=(Channel(src="host", dst="gpu", bytes_per_s=10**10),),
    )
    plan = Plan(
        machine=machine,
        start=tuple(Resident(i, "host") for i in range(rows)),
        runs=(Run(0, 0, 9 * MS, 10 * MS, "gpu0"),),
        copies=tuple(Copy(i, "host", "gpu", 0, 9 * MS) for i in range(rows)),
    )
    width, height = plot.timeline_inches(plan)
    lanes = plot.timeline(plan, graph, plot.new_figure((width, height * taller)))[0]
    assert {*names} & {*texts(lanes)} == ({*names} if written else set())


def test_residency_has_axes_per_tier(swapped: tuple[Graph, Plan]) -> None:
    graph, plan = swapped
    figure = plot.new_figure(plot.residency_inches(plan))
    gpu, host, ssd = plot.residency(plan, graph, figure)
    assert [ax.get_ylabel() for ax in (gpu, host, ssd)] == ["gpu [MiB]", "host [MiB]", "ssd [B]"]
    assert {"peak\n10 MiB", "capacity\n16 MiB"} <= {*texts(gpu)}
    assert "peak\n3 MiB" in texts(host)
    assert "never used" in texts(ssd)
    legend = gpu.get_legend()
    assert legend is not None
    assert [t.get_text() for t in legend.get_texts()] == ["weight", "activation", "output"]
    assert gpu.get_xlim() == ssd.get_xlim() == (0, 10)


def test_what_a_chain_does_not_save_has_no_axes() -> None:
    graph = load("gen:taped-chain?l=3")
    problem = Placement(graph, load_machine("v100-16g-pcie3"), recompute=True)
    result = solve(problem, "pofo", threads=1)
    assert result.plan is not None
    assert [tier.name for tier in result.plan.machine.tiers] == ["memory", "lost", "host"]
    _, *timeline = plot.timeline(result, figure=plot.new_figure())
    for axes in (timeline, plot.residency(result, figure=plot.new_figure())):
        assert [ax.get_ylabel().split()[0] for ax in axes] == ["memory", "host"]
    wanted = replace(graph, tensors=tuple(replace(x, final=True) for x in graph.tensors))
    assert [tier.name for tier in drawn_tiers(wanted, result.plan)] == ["memory", "lost", "host"]
    started = replace(result.plan, start=(*result.plan.start, Resident(0, "lost")))
    assert [tier.name for tier in drawn_tiers(graph, started)] == ["memory", "lost", "host"]


def test_pictures_of_results_name_method_and_status() -> None:
    result = solve(Peak(load("catalogue:diamond")), "reference")
    assert result.plan is not None
    ax, memory = plot.gantt(result, figure=plot.new_figure())
    runs = len(result.plan.runs)
    assert f"reference · feasible · {runs} runs" in texts(ax)
    assert memory.get_xlabel() == "ops executed"
    (only,) = plot.residency(result, figure=plot.new_figure())
    assert only.get_ylabel() == "memory [B]"


def test_nothing_is_drawn_of_a_plan_that_does_not_verify(swapped: tuple[Graph, Plan]) -> None:
    graph, plan = swapped
    bad = Plan(machine=plan.machine, runs=plan.runs)
    for draw in (plot.gantt, plot.residency):
        with pytest.raises(VerificationError):
            draw(bad, graph)
        with pytest.raises(UsageError, match="without its graph"):
            draw(plan)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gantt", "residency"])
def test_same_picture_same_bytes(swapped: tuple[Graph, Plan], name: str) -> None:
    graph, plan = swapped
    hashes = set()
    for _ in range(2):
        if name == "gantt":
            ax = plot.gantt(plan, graph, plot.new_figure())[0]
        else:
            ax = plot.residency(plan, graph, plot.new_figure())[0]
        hashes.add(hashlib.sha256(plot.rendered(ax, "svg")).hexdigest())
    assert len(hashes) == 1


@pytest.mark.slow
def test_thousands_of_runs_are_few_shapes() -> None:
    graph = load("gen:chain?n=8000&seed=1")
    ax = plot.gantt(Plan.from_order(graph, range(8000)), graph, plot.new_figure())[0]
    assert len(bars(ax)) < 2 * 2400
    assert len(ax.collections) + len(ax.patches) + len(ax.texts) < 20


@pytest.mark.parametrize(
    ("seed", "flavour"), [(5, "periodic"), (3, "tiered"), (8, "parallel"), (2, "recompute")]
)
def test_plans_of_every_flavour_are_drawn(seed: int, flavour: str) -> None:
    rng = Random(seed)
    while True:
        case = random_case(rng, flavour, max_ops=8)
        verdict = verify(case.graph, case.plan)
        if verdict.valid and case.plan.runs:
            break
    ax = plot.gantt(case.plan, case.graph, plot.new_figure())[0]
    assert all(0 <= x0 <= x1 for _, (x0, x1), _ in bars(ax))
    assert len(plot.residency(case.plan, case.graph, plot.new_figure())) == len(case.plan.machine.tiers)


def test_copies_over_the_end_of_a_period_come_round() -> None:
    assert _within(3, 7, None) == _within(3, 7, 10) == [(3, 7)]
    assert _within(8, 13, 10) == [(8, 10), (0, 3)]
    assert _within(11, 13, 10) == [(1, 3)]


def test_kinds_beyond_the_colours_share_one() -> None:
    ops = tuple(Op(name=f"o{k}", kind=f"k{k:02}", duration_ns=20 - k) for k in range(12))
    graph = Graph(name="kinds", tensors=(), ops=ops)
    found = op_kinds(graph, Plan.from_order(graph, range(12)))
    assert [*found] == [f"k{k:02}" for k in range(len(RUN_COLOURS) - 1)] + [OTHER]
    assert len({*found.values()}) == len(found)


@st.composite
def some_bars(draw: st.DrawFn) -> list[Bar]:
    spans = draw(
        st.lists(st.tuples(st.integers(0, 5000), st.integers(1, 900), st.sampled_from("ab")), max_size=30)
    )
    return [Bar(start, start + length, kind) for start, length, kind in spans]


@many(100)
@given(some_bars())
def test_rows_hold_everything_and_nothing_overlaps(given_bars: list[Bar]) -> None:
    placed, count = rows_of(given_bars)
    assert sorted(b._replace(row=0) for b in placed) == sorted(given_bars)
    for row in range(count):
        inside = [b for b in placed if b.row == row]
        assert all(a.end <= b.start for a, b in pairwise(inside))
    most = max((sum(b.start <= a.start < b.end for b in given_bars) for a in given_bars), default=1)
    assert count == max(most, 1)


@many(100)
@given(some_bars(), st.integers(6000, 10**7))
def test_joined_bars_keep_the_extent_and_are_few(given_bars: list[Bar], span: int) -> None:
    placed, count = rows_of(given_bars)
    found = merged(placed, span)
    assert found == sorted(found)
    for row in range(count):
        before, after = [b for b in placed if b.row == row], [b for b in found if b.row == row]
        assert {b.start for b in after} <= {b.start for b in before}
        assert after[0].start == before[0].start if before else not after
        assert all(a.end <= b.start for a, b in pairwise(after))
        column = span / 2400
        wide = {(b.start, b.end, b.kind) for b in before if b.end - b.start > column}
        assert wide <= {(b.start, b.end, b.kind) for b in after}
        assert all(b.end - b.start <= column or (b.start, b.end, b.kind) in wide for b in after)


def test_axes_of_time_say_whose_the_durations_are() -> None:
    graph = lt.load("gen:unet?depth=1&train=1", durations="l4")
    problem = lt.Placement(graph, lt.load_machine("l4"), addresses=True)
    result, words = lt.solve(problem, "demand-lru"), "roofline of l4, fp32"
    assert result.graph
    for kind in ("timeline", "gantt", "residency"):
        labels = [ax.get_xlabel() for ax in result.plot(kind, figure=plot.new_figure())]
        assert labels[-1].startswith("time [")
        assert labels[-1].endswith(f"], {words}")
    for kind in ("profile", "allocation"):
        assert getattr(plot, kind)(result, ax=plot.new_axes()).get_xlabel().endswith(f"], {words}")
