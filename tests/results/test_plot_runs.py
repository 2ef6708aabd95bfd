"""Pictures of experiments: the numbers that are drawn, labels that keep apart, files that are the same."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from lowtide.models.errors import UsageError
from lowtide.results import plot
from lowtide.results.tables.measured import measured, select, virtual_best
from lowtide.results.tables.store import frame
from tests.commands import within
from tests.sweeps import record, sweep, write_experiment

pytest.importorskip("matplotlib")


def runs_of(folder: Path, *records: dict[str, Any]) -> pd.DataFrame:
    return measured(frame(write_experiment(folder, records)))


@pytest.fixture(scope="module")
def believable(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    runs = runs_of(tmp_path_factory.mktemp("sweep"), *sweep(10))
    return pd.concat([runs, virtual_best(runs)], ignore_index=True)


@pytest.fixture
def small(tmp_path: Path) -> pd.DataFrame:
    """Two cases: a solves both, in 1 s and 8 s; b the first in 2 s; both have plans of 100 and 110."""
    return runs_of(
        tmp_path,
        record("one", "a", status="optimal", objective=100, bound=100, seconds=1, limit=10),
        record("two", "a", status="optimal", objective=100, bound=100, seconds=8, limit=10),
        record("one", "b", status="optimal", objective=100, bound=100, seconds=2, limit=10),
        record(
            "two", "b", objective=110, bound=50, seconds=10, limit=10, trace=[[5, 200, 50], [10, 110, 50]]
        ),
        record("two", "c", status="failed", objective=1, limit=10),
        record("one", "c", status="unknown", limit=10),
    )


def lines(ax: Any) -> dict[str, list[tuple[float, float]]]:
    """Return the points of each line that has a label."""
    found = {}
    for line in ax.lines:
        if not line.get_label().startswith("_"):
            found[line.get_label()] = [*zip(*map(np.ndarray.tolist, line.get_data()), strict=True)]
    return found


def texts(ax: Any) -> list[str]:
    return [t.get_text() for t in ax.texts]


def steps(ax: Any, label: str) -> list[tuple[float, float]]:
    """Return the points of the line whose end has this label: labels have the colours of their lines."""
    text = next(t for t in ax.texts if t.get_text().startswith(label))
    colour = text.arrow_patch.get_edgecolor()
    from matplotlib.colors import to_rgba

    (line,) = [x for x in ax.lines if to_rgba(x.get_color()) == colour and x.get_linestyle() != ":"]
    return [*zip(*map(np.ndarray.tolist, map(np.asarray, line.get_data())), strict=True)]


def test_cactus_counts_proofs_by_time(small: pd.DataFrame) -> None:
    ax: Any = plot.cactus(small, plot.new_axes())
    assert lines(ax) == {"a: 2": [(1, 1), (2, 8)], "b: 1": [(1, 2)]}
    assert ax.get_yscale() == "log"
    assert ax.get_xlim() == (0, 2)
    assert "2 cases, no proof by c" in texts(ax)
    assert "limit 10 s" in texts(ax)


def test_performance_profile_is_the_share_within_a_factor(small: pd.DataFrame) -> None:
    ax: Any = plot.performance_profile(small, plot.new_axes())
    assert steps(ax, "a: 100 %") == [(1, 100), (2, 100)]
    assert steps(ax, "b: 50 %") == [(1, 0), (2, 50), (2, 50)]
    assert ax.get_xscale() == "log"
    assert "2 cases, none by c" in texts(ax)


def test_performance_profile_of_objectives_shows_the_excess(small: pd.DataFrame) -> None:
    ax: Any = plot.performance_profile(small, plot.new_axes(), value="objective")
    assert steps(ax, "a: 100 %") == [(0, 100), (pytest.approx(10), 100)]
    assert steps(ax, "b: 100 %") == [(0, 50), (pytest.approx(10), 100), (pytest.approx(10), 100)]
    assert "percent of the best" in ax.get_xlabel()


def test_trace_is_the_mean_gap_and_ends_with_the_integral(small: pd.DataFrame) -> None:
    ax: Any = plot.trace(small, plot.new_axes())
    found = steps(ax, "b: ")
    # One: best after 1 s; two: 50 % after 5 s, then 1/11 at 10 s.
    assert found[-1] == pytest.approx((10, 100 * (0 + 1 / 11) / 2))
    at = dict(found)
    assert at[1] == pytest.approx(50)
    assert at[5] == pytest.approx(25)
    integral = ((1 * 1) + (5 * 1 + 5 * 0.5)) / 2 / 10
    assert f"b: {100 * integral:.3g} %" in texts(ax)
    assert "c: 100 %" in texts(ax)


def test_incumbents_of_one_question(small: pd.DataFrame) -> None:
    runs = select(small, [("instance", "two")])
    ax: Any = plot.incumbents(runs, plot.new_axes())
    assert ax.get_ylabel() == "objective [B]"
    assert steps(ax, "b: 110")[:2] == [(5, 200), (10, 110)]
    dotted = [line for line in ax.lines if line.get_linestyle() == ":"]
    assert sorted(line.get_ydata()[-1] for line in dotted) == [50, 100]
    with pytest.raises(UsageError, match="found 2 questions"):
        plot.incumbents(small, plot.new_axes())


def test_seeds_are_told_apart_in_traces(tmp_path: Path) -> None:
    values = {"objective": 100, "bound": 50, "seconds": 2, "limit": 10}
    records = [record("one", "a", seed=seed, **values) for seed in (1, 2)]  # type: ignore[arg-type]
    runs = runs_of(tmp_path, *records, record("one", "b", **values))  # type: ignore[arg-type]
    ax: Any = plot.incumbents(runs, plot.new_axes())
    assert {t.partition(":")[0] for t in texts(ax)} >= {"a, seed 1", "a, seed 2", "b"}
    drawn = [line for line in ax.lines if line.get_linestyle() != ":" and len(line.get_xdata()) > 1]
    assert sorted(line.get_alpha() for line in drawn) == [0.8, 1.0, 1.0]


@pytest.mark.slow
def test_profile_is_of_objectives_where_nothing_is_proved(tmp_path: Path) -> None:
    write_experiment(tmp_path / "x", [record("one", m, objective=v) for m, v in (("a", 4), ("b", 5))])
    words = ("plot", "x", "--kind", "performance-profile", "-o", "p.svg")
    assert within(*words, cwd=tmp_path).returncode == 0
    assert "Performance profile: objective" in (tmp_path / "p.svg").read_text()


def test_scatter_puts_failures_beyond_all_values(small: pd.DataFrame) -> None:
    ax: Any = plot.scatter(small, plot.new_axes(), x="a", y="b")
    found = lines(ax)
    assert found["both: 1"] == [(1, 2)]
    ((x, y),) = found["only a: 1"]
    assert x == 8
    assert y == ax.get_ylim()[1] > 10
    assert "2 cases: a better in 2, b better in 0" in texts(ax)
    assert "unsolved" in texts(ax)


def test_scatter_of_gaps_has_a_zero(small: pd.DataFrame) -> None:
    ax: Any = plot.scatter(small, plot.new_axes(), x="a", y="b", value="gap-best-known")
    assert sorted(lines(ax)["both: 2"]) == [(0, 0), (0, pytest.approx(100 / 11))]
    assert ax.get_xlim()[0] == 0


@pytest.mark.slow
def test_settings_look_the_same_in_every_picture(believable: pd.DataFrame) -> None:
    cactus: Any = plot.cactus(believable, plot.new_axes())
    profile: Any = plot.performance_profile(believable, plot.new_axes())
    colours = {x.get_label().split(":")[0]: x.get_color() for x in cactus.lines if ":" in x.get_label()}
    assert {"auto", "cpsat", "milp", "virtual best"} == {*colours}
    assert len({*colours.values()}) == 4
    for name, colour in colours.items():
        text = next(t for t in profile.texts if t.get_text().startswith(f"{name}:"))
        from matplotlib.colors import to_rgba

        assert text.arrow_patch.get_edgecolor() == to_rgba(colour)


PICTURES: dict[str, Any] = {
    "cactus": plot.cactus,
    "performance-profile": plot.performance_profile,
    "quality-profile": lambda runs, ax: plot.performance_profile(runs, ax, value="objective"),
    "trace": plot.trace,
    "incumbents": lambda runs, ax: plot.incumbents(select(runs, [("instance", "net-1")]), ax),
    "scatter": lambda runs, ax: plot.scatter(runs, ax, x="auto", y="milp"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PICTURES)
def test_same_picture_same_bytes_and_labels_apart(believable: pd.DataFrame, name: str) -> None:
    hashes = set()
    for runs in (believable, believable.sample(frac=1, random_state=1)):
        ax: Any = PICTURES[name](runs, plot.new_axes())
        hashes.add(hashlib.sha256(plot.rendered(ax, "svg")).hexdigest())
    assert len(hashes) == 1
    from matplotlib.text import Text

    ax.figure.draw_without_rendering()
    boxes = [Text.get_window_extent(t) for t in ax.texts if t.get_text() and t.arrow_patch is not None]
    for i, one in enumerate(boxes):
        assert one.x1 <= ax.figure.bbox.width
        assert one.x0 >= ax.get_window_extent().x1  # beside the data
        assert not any(one.overlaps(other) for other in boxes[:i])
    if (legend := ax.get_legend()) is not None:
        assert not legend.get_window_extent().padded(-1).overlaps(ax.get_window_extent())


def test_misuse_is_one_line(small: pd.DataFrame, believable: pd.DataFrame, tmp_path: Path) -> None:
    ax = plot.new_axes()
    with pytest.raises(UsageError, match="expected two of auto, beam"):
        plot.scatter(believable, ax)
    with pytest.raises(UsageError, match="expected two of a, b, c"):
        plot.scatter(small, ax, x="a", y="z")
    with pytest.raises(UsageError, match="scatter: found the value 'status', expected one of gap, "):
        plot.scatter(small, ax, x="a", y="b", value="status")
    with pytest.raises(UsageError, match="performance-profile: found the value 'gap'"):
        plot.performance_profile(small, ax, value="gap")
    with pytest.raises(UsageError, match="value: found 'speed'"):
        plot.performance_profile(small, ax, value="speed")
    nothing = select(small, [("method", "c")])
    with pytest.raises(UsageError, match="cactus: found no run that solved"):
        plot.cactus(nothing, ax)
    with pytest.raises(UsageError, match="performance-profile: found no run with seconds"):
        plot.performance_profile(nothing, ax)
    with pytest.raises(UsageError, match="incumbents: found no run with a plan"):
        plot.incumbents(select(nothing, [("instance", "two")]), ax)
    twice = runs_of(tmp_path / "twice", record("a", seconds=1), record("a", seconds=1, version="0.2.0"))
    for draw in (plot.cactus, plot.performance_profile, plot.trace):
        with pytest.raises(UsageError, match="several runs of one setting"):
            draw(twice, ax)


@pytest.mark.slow
def test_ties_and_single_points_are_drawn(tmp_path: Path) -> None:
    runs = runs_of(
        tmp_path,
        record("a", "x", status="optimal", objective=0, bound=0, seconds=0.0),
        record("a", "y", status="optimal", objective=0, bound=0, seconds=0.0),
    )
    for name, draw in (PICTURES | {"scatter": plot.scatter, "incumbents": plot.incumbents}).items():
        ax = draw(runs, plot.new_axes())
        ax.figure.draw_without_rendering()
        assert ax.lines, name


@pytest.mark.slow
def test_many_runs_are_few_points(tmp_path: Path) -> None:
    records = [
        record(f"i{k}", "m", status="optimal", objective=k + 1, bound=1, seconds=0.01 + k / 100)
        for k in range(5000)
    ]
    path = tmp_path / "records.jsonl"
    import json

    path.write_text("\n".join(map(json.dumps, records)))
    runs = measured(frame(path))
    for draw in (plot.cactus, plot.performance_profile, plot.trace):
        ax: Any = draw(runs, plot.new_axes())
        assert max(len(line.get_xdata()) for line in ax.lines) < 2500


@pytest.mark.slow
def test_neither_matplotlib_nor_pandas_is_imported_before_it_is_needed() -> None:
    code = "import sys, lowtide.results.plot; sys.exit(bool({'matplotlib', 'pandas'} & {*sys.modules}))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
