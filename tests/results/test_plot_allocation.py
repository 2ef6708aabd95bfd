"""The picture of an allocation: what is drawn where, in which colours and words, and how large it is."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest

from lowtide import Buffer, Buffers, Gap, Graph, Op, Plan, Result, Status, Tensor
from lowtide.instances import Allocation
from lowtide.models.errors import UsageError, VerificationError
from lowtide.models.lowering.buffers import buffers_from_plan
from lowtide.results.figures.allocation_case import _kind
from lowtide.results.figures.allocation_drawing import SCHEME, VECTOR, classes, painted, scheme, shaded
from tests.drawings import GRAPH, PLAN
from tests.models.verifier.packed import PACKED

pytest.importorskip("matplotlib")
from matplotlib.collections import PathCollection

from lowtide.results import plot

KIB = 1024
STAIRS = Buffers(
    buffers=(
        Buffer(id="a", lower=0, upper=4, size=3 * KIB),
        Buffer(id="b", lower=2, upper=6, size=2 * KIB, gaps=(Gap(3, 4), Gap(4, 5, KIB, 2 * KIB))),
        Buffer(id="c", lower=4, upper=8, size=3 * KIB),
        Buffer(id="d", lower=0, upper=8, size=1 * KIB),
    ),
    pools={"": 8 * KIB},
    name="stairs",
)
OFFSETS = {"a": 0, "b": 4 * KIB, "c": 0, "d": 6 * KIB}


def drawn(offsets: Any = OFFSETS, buffers: Any = STAIRS, **options: Any) -> Any:
    return plot.allocation(offsets, buffers, plot.new_axes(), **options)


def shapes(ax: Any) -> set[tuple[float, float, float, float]]:
    """Return left, right, low and high of each rectangle."""
    found = set()
    for collection in ax.collections:
        if isinstance(collection, PathCollection):
            for path in collection.get_paths():
                for corners in np.asarray(path.vertices).reshape(-1, 5, 2):
                    (left, low), (right, high) = corners.min(axis=0), corners.max(axis=0)
                    found.add((float(left), float(right), float(low), float(high)))
    return found


def texts(ax: Any) -> list[str]:
    return [t.get_text() for t in (*ax.texts, *ax.child_axes[0].texts)]


def legend(ax: Any) -> list[str]:
    return [t.get_text() for t in ax.get_legend().get_texts()]


def many(count: int) -> tuple[Buffers, dict[str, int]]:
    rng = Random(1)
    buffers, offsets = [], {}
    for k in range(count):
        column, row = divmod(k, 60)
        size = rng.randint(1, 100)
        buffers.append(
            Buffer(id=str(k), lower=10 * column, upper=10 * column + rng.randint(1, 10), size=size)
        )
        offsets[str(k)] = 100 * row
    return Buffers(buffers=tuple(buffers), name="many"), offsets


def test_rectangles_lie_at_lifetimes_and_addresses() -> None:
    ax = drawn()
    assert shapes(ax) == {
        (0, 4, 0, 3),
        (2, 3, 4, 6),
        (4, 5, 5, 6),
        (5, 6, 4, 6),
        (4, 8, 0, 3),
        (0, 8, 6, 7),
    }
    assert (ax.get_xlabel(), ax.get_ylabel(), ax.get_xlim()) == ("time", "address [KiB]", (0, 8))
    assert ax.get_title(loc="left") == "stairs"
    assert {"a", "c", "d", "height\n7 KiB", "max load\n6 KiB", "capacity\n8 KiB", "size"} <= {*texts(ax)}
    assert "verified allocation · 4 buffers · height 7,168 bytes, 16.67 % above max load" in texts(ax)
    assert legend(ax) == ["≤ 1 KiB", "≤ 2 KiB", "≤ 4 KiB"]


def test_the_strip_shows_what_is_in_use() -> None:
    ax = drawn()
    (strip,) = ax.child_axes
    # KiB x time: a 12, b 2 + 1 + 2, c 12, d 8, of 7 x 8
    assert f"{100 * 37 / 56:.3g} %\nin use" in texts(ax)
    (area,) = strip.collections
    assert max(y for _, y in area.get_paths()[0].vertices) == pytest.approx(6 / 7)


def test_an_inplace_pair_counts_once() -> None:
    both = Buffers(
        buffers=(Buffer(id="x", lower=0, upper=3, size=4), Buffer(id="y", lower=2, upper=5, size=4)),
        inplace=(("x", "y"),),
    )
    assert any("height 4 bytes = max load" in text for text in texts(drawn({"x": 0, "y": 0}, both)))
    assert any("height 8 bytes = max load" in text for text in texts(drawn({"x": 0, "y": 4}, both)))


def test_every_event_is_one_step() -> None:
    long = replace(STAIRS.buffers[2], upper=5000)
    ax = drawn(buffers=replace(STAIRS, buffers=(*STAIRS.buffers[:2], long, STAIRS.buffers[3])), time="events")
    assert {(0, 3, 0, 3), (3, 7, 0, 3)} <= shapes(ax)  # times 0 2 3 4 5 6 8 5000
    assert [t.get_text() for t in ax.get_xticklabels()] == ["0", "2", "3", "4", "5", "6", "5,000"]
    assert ax.get_xlabel() == "time, one step for each start or end of a lifetime"


def test_auto_takes_events_if_most_buffers_could_not_be_seen() -> None:
    assert drawn().get_xlabel() == "time"
    far = Buffer(id="far", lower=10**6, upper=10**6 + 4, size=1)
    rare = replace(STAIRS, buffers=(*STAIRS.buffers, far))
    assert "one step" in drawn({**OFFSETS, "far": 0}, rare).get_xlabel()
    assert drawn({**OFFSETS, "far": 0}, rare, time="linear").get_xlabel() == "time"


def test_long_times_without_a_unit_are_in_powers_of_ten() -> None:
    ax = drawn({"x": 0}, Buffers(buffers=(Buffer(id="x", lower=0, upper=3 * 10**11, size=4),)))
    assert (ax.get_xlabel(), ax.get_xlim()) == ("time [10⁹]", (0, 300))


def test_a_plan_has_kinds_names_and_pools() -> None:
    plan = replace(PLAN, allocation=PACKED)
    ax = plot.allocation(plan, GRAPH, plot.new_axes())
    assert legend(ax) == ["weight", "input", "activation", "output", "workspace"]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("time [ns]", "gpu address [B]")
    assert {"w[0:4]", "x", "y", "z", "a/workspace", "height = capacity\n18 B"} <= {*texts(ax)}
    assert any("6 buffers in 'gpu' (1 other pool)" in text for text in texts(ax))
    host = plot.allocation(plan, GRAPH, plot.new_axes(), pool="host")
    assert shapes(host) == {(0, 26, 0, 8), (0, 26, 8, 12)}
    rows: list[Any] = plot.allocations(plan, GRAPH, plot.new_figure())
    assert [ax.get_ylabel() for ax in rows] == ["gpu address [B]", "host address [B]"]
    assert [len(shapes(ax)) for ax in rows] == [6, 2]
    assert rows[1].get_legend() is None


def test_buffers_of_a_plan_without_its_graph_are_coloured_by_size() -> None:
    buffers = buffers_from_plan(GRAPH, PLAN)
    ax = drawn(PACKED, buffers)
    assert legend(ax) == ["≤ 2 B", "≤ 4 B", "≤ 8 B"]
    assert "2:y@gpu@10" in texts(ax)
    assert legend(drawn(replace(PLAN, allocation=PACKED), buffers, colour="lifetime")) == [
        "≤ 10 ns",
        "≤ 100 ns",
    ]


def test_one_kind_alone_tells_nothing() -> None:
    graph = Graph(
        name="one",
        tensors=(Tensor(name="x", nbytes=4), Tensor(name="y", nbytes=32)),
        ops=(Op(name="a", writes=(0,)), Op(name="b", reads=(0,), writes=(1,))),
    )
    plan = Plan.from_order(graph, (0, 1))
    buffers = buffers_from_plan(graph, plan)
    plan = replace(plan, allocation={b.id: 32 * k for k, b in enumerate(buffers.buffers)})
    assert legend(plot.allocation(plan, graph, plot.new_axes())) == ["≤ 4 B", "≤ 32 B"]
    assert legend(plot.allocation(plan, graph, plot.new_axes(), colour="kind")) == ["activation"]
    assert plot.allocation(plan, graph, plot.new_axes()).get_xlabel() == "ops executed"


def test_a_result_tells_its_method_bound_and_gap() -> None:
    result = Result(
        problem="offsets",
        method="search",
        instance="stairs.csv",
        unit="bytes",
        status=Status.FEASIBLE,
        objective=7 * KIB,
        bound=6 * KIB,
        allocation=OFFSETS,
        buffers=STAIRS,
    )
    ax: Any = plot.allocation(result, ax=plot.new_axes())
    assert ax.get_title(loc="left") == "stairs.csv"
    assert "bound\n6 KiB" in texts(ax)
    assert any(text.startswith("search · feasible · 4 buffers · gap 14.29 %") for text in texts(ax))
    found = drawn(Allocation(offsets=OFFSETS), STAIRS, title="mine", subtitle="said")
    assert found.get_title(loc="left") == "mine"
    assert "said" in texts(found)


def test_a_far_capacity_is_told_not_drawn() -> None:
    ax = drawn(buffers=replace(STAIRS, pools={"": 64 * KIB}))
    assert any("height 7,168 bytes of 64 KiB, " in text for text in texts(ax))
    assert not any(text.startswith("capacity") for text in texts(ax))


@pytest.mark.parametrize(
    ("item", "buffers", "options", "expected"),
    [
        (OFFSETS, None, {}, "allocation: found offsets without their buffers, expected allocation(item, buf"),
        (PLAN, GRAPH, {}, "allocation: found none in a plan, expected one"),
        (replace(PLAN, allocation=PACKED), None, {}, "found a plan without its graph"),
        (OFFSETS, STAIRS, {"pool": "gpu"}, "pool: found 'gpu', expected one of ''"),
        (OFFSETS, STAIRS, {"time": "log"}, "time: found 'log', expected one of auto, linear, events"),
        (OFFSETS, STAIRS, {"colour": "red"}, "colour: found 'red', expected one of kind, size, lifetime"),
    ],
)
def test_what_is_missing_or_unknown(item: Any, buffers: Any, options: Any, expected: str) -> None:
    with pytest.raises(UsageError) as error:
        plot.allocation(item, buffers, plot.new_axes(), **options)
    assert expected in str(error.value)


def test_a_result_without_an_allocation() -> None:
    nothing = Result(problem="offsets", method="m", instance="i", unit="bytes", status=Status.UNKNOWN)
    with pytest.raises(UsageError, match="allocation: found none in a result that is unknown, expected one"):
        plot.allocation(nothing, STAIRS, plot.new_axes())


def test_nothing_is_drawn_of_an_invalid_allocation() -> None:
    with pytest.raises(VerificationError, match="overlap"):
        drawn({**OFFSETS, "d": 5 * KIB})


def test_no_buffers_is_an_empty_picture() -> None:
    assert shapes(drawn({}, Buffers(buffers=()))) == set()
    assert shapes(drawn({"x": 3}, Buffers(buffers=(Buffer(id="x", lower=2, upper=3, size=0),)))) == set()


@pytest.mark.slow
def test_thousands_are_one_image_in_a_small_file() -> None:
    buffers, offsets = many(VECTOR + 1)
    ax = drawn(offsets, buffers)
    assert not shapes(ax)
    assert len(ax.images) == 1
    assert len(plot.rendered(ax, "svg")) < 600_000
    few, some = many(VECTOR)
    ax = drawn(some, few)
    assert len(shapes(ax)) == VECTOR
    assert not ax.images
    assert len(ax.collections[0].get_paths()) < 150


@pytest.mark.slow
def test_the_same_picture_has_the_same_bytes() -> None:
    digests = {hashlib.sha256(plot.rendered(drawn(), "svg")).hexdigest() for _ in range(2)}
    assert len(digests) == 1


def test_images_cover_exactly_the_area_of_each_rectangle() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        cuts = np.sort(rng.uniform(0, 40, 8)).reshape(-1, 2)
        low, high = np.sort(rng.uniform(0, 20, 2))
        corners = np.array([(a, b, low, high) for a, b in cuts])
        image = painted(corners, np.full((len(corners), 3), 0.5), 40, 20)
        area = ((corners[:, 1] - corners[:, 0]) * (corners[:, 3] - corners[:, 2])).sum()
        assert image[:, :, 3].sum() / 255 == pytest.approx(area, rel=0.02, abs=0.6)
    edge = painted(np.array([[40.0, 40.0, 0, 20], [39, 40, 19.5, 20]]), np.zeros((2, 3)), 40, 20)
    assert edge[-1, -1].tolist() == [0, 0, 0, 128]


def test_a_pixel_has_the_mean_colour_of_what_shares_it() -> None:
    corners = np.array([[0, 0.5, 0, 1], [0.5, 1, 0, 1.0]])
    image = painted(corners, np.array([[1.0, 0, 0], [0, 0, 1.0]]), 1, 1)
    assert image.tolist() == [[[128, 0, 128, 255]]]


@pytest.mark.parametrize("base", [2, 10])
def test_classes_cover_all_values(base: int) -> None:
    rng = Random(0)
    for _ in range(200):
        values = [rng.randint(0, 10 ** rng.randint(0, 12)) for _ in range(rng.randint(0, 6))]
        found, highest = classes(values, base)
        assert 1 <= len(highest) <= len(SCHEME)
        assert len({*scheme(len(highest))}) == len(highest)
        for value, k in zip(values, found.tolist(), strict=True):
            assert value <= highest[k]
            assert k == 0 or value > highest[k - 1]


def test_shades_stay_colours_and_differ_between_neighbours() -> None:
    rgb = shaded(["#97D6B9"] * 100)
    assert 0 <= rgb.min() <= rgb.max() <= 1
    assert (np.abs(np.diff(rgb.sum(axis=1))) > 0.02).all()


def test_kinds_are_told_by_the_id_and_the_name() -> None:
    graph = Graph(
        name="names",
        tensors=(
            Tensor(name="conv/workspace", nbytes=4, kind="weight", initial=True),
            Tensor(name="", nbytes=4, kind="input", initial=True),
        ),
        ops=(Op(name="conv", reads=(0, 1)),),
    )
    names = ["0:conv/workspace@gpu@3", "0:conv/workspace[0:2]@gpu@3", "1:@gpu@3", "0:op/workspace@gpu@3", "x"]
    found = [_kind(Buffer(id=name, lower=0, upper=1, size=1), graph) for name in names]
    assert found == ["weight", "weight", "input", "workspace", "other"]
