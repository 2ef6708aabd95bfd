"""Tables: what is averaged, what is refused, and the text of every format."""

from __future__ import annotations

import csv
import io
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from lowtide.models.errors import UsageError
from lowtide.results.tables import table_text
from lowtide.results.tables.cells import Cell
from lowtide.results.tables.measured import measured, virtual_best
from lowtide.results.tables.store import frame
from lowtide.results.tables.tables import Table, pivot, summary
from tests.sweeps import record, sweep, write_experiment


def runs_of(folder: Path, *records: dict[str, Any]) -> pd.DataFrame:
    return measured(frame(write_experiment(folder, records)))


def cells(table: Table) -> dict[tuple[str, str], Cell]:
    return {
        (", ".join(label), column): cell
        for label, row in zip(table.labels, table.cells, strict=True)
        for column, cell in zip(table.columns, row, strict=True)
    }


@pytest.fixture
def three(tmp_path: Path) -> pd.DataFrame:
    """Three instances; exact solves 1 and 2, fast solves 1, crash fails always; two seeds of instance 1."""
    return runs_of(
        tmp_path,
        record("net-1", "exact", status="optimal", objective=10, bound=10, seconds=1, seed=1),
        record("net-1", "exact", status="optimal", objective=10, bound=10, seconds=7, seed=2),
        record("net-2", "exact", status="optimal", objective=20, bound=20, seconds=3),
        record("net-10", "exact", objective=40, bound=30, seconds=60, reason="time"),
        record("net-1", "fast", status="optimal", objective=10, bound=10, seconds=0.5, seed=1),
        record("net-1", "fast", objective=12, bound=9, seconds=60, seed=2, reason="time"),
        record("net-2", "fast", status="unknown", reason="time", killed_by="time"),
        record("net-10", "fast", objective=32, bound=24, seconds=60, reason="time"),
        record("net-1", "crash", status="failed", reason="crash", objective=1, seed=1),
        record("net-2", "crash", status="failed", reason="crash"),
    )


def test_mean_is_over_the_runs_that_have_the_value_and_says_how_many(three: pd.DataFrame) -> None:
    found = cells(pivot(three, value="seconds"))
    assert found["net-1", "exact"].value == pytest.approx(3)  # sqrt(2 * 8) - 1
    assert (found["net-1", "exact"].counted, found["net-1", "exact"].runs) == (2, 2)
    assert found["net-1", "fast"] == Cell(0.5, 1, 2, "time")
    assert found["net-2", "fast"] == Cell(None, 0, 1, "time")
    assert found["net-2", "crash"] == Cell(None, 0, 1, "failed")
    assert found["net-10", "crash"] == Cell()


@pytest.mark.slow
def test_notes_say_whose_the_durations_are(tmp_path: Path) -> None:
    devices = ("roofline of l4, fp32", "measured")
    rows = [record(f"net-{k}", "fast", seconds=1) | {"durations": text} for k, text in enumerate(devices)]
    runs = runs_of(tmp_path, record("net-2", "fast", seconds=1), *rows)
    words = "Durations: measured; roofline of l4, fp32."
    assert pivot(runs, value="gap").note.endswith(words)
    assert summary(runs).note.endswith(words)
    assert "Durations" not in summary(runs[runs["durations"].isna()]).note
    assert pivot(runs, rows=("durations",), value="runs").labels == (("-",), *((d,) for d in sorted(devices)))


def test_rows_are_in_natural_order(three: pd.DataFrame) -> None:
    assert [row for (row,) in pivot(three).labels] == ["net-1", "net-2", "net-10"]


def test_best_has_most_runs_counted_before_the_least_value(three: pd.DataFrame) -> None:
    found = cells(pivot(three, value="seconds"))
    assert found["net-1", "exact"].best
    assert not found["net-1", "fast"].best
    gaps = cells(pivot(three, value="gap"))
    assert gaps["net-10", "exact"].best
    assert gaps["net-10", "fast"].best  # both 25 %


def test_crash_counts_nowhere_but_in_penalties(three: pd.DataFrame) -> None:
    for value in ("gap", "gap-best-known", "gap-best-bound", "objective", "bound", "seconds"):
        assert cells(pivot(three, value=value))["net-1", "crash"].value is None
    assert cells(pivot(three, value="par10"))["net-1", "crash"].value == 600
    assert cells(pivot(three, value="primal-integral"))["net-1", "crash"].value == 1
    assert cells(pivot(three, value="wins"))["net-1", "crash"].value == 0


def test_par2_is_the_mean_over_all_runs(three: pd.DataFrame) -> None:
    found = cells(pivot(three, value="par2", total=True))
    assert found["all", "exact"] == Cell((1 + 7 + 3 + 120) / 4, 4, 4, "", True)
    assert found["all", "fast"] == Cell((0.5 + 120 + 120 + 120) / 4, 4, 4)


def test_totals_compare_like_with_like(three: pd.DataFrame) -> None:
    found = cells(pivot(three[three["method"] != "crash"], value="seconds", total=True))
    assert found["all", "exact"].value == pytest.approx(3)  # cbrt(2 * 8 * 4) - 1
    assert found["all", "fast"].value == 0.5
    assert (found["in common", "exact"].value, found["in common", "exact"].runs) == (1, 1)
    assert (found["in common", "fast"].value, found["in common", "fast"].runs) == (0.5, 1)


def test_column_that_never_has_the_value_does_not_empty_the_common_cases(three: pd.DataFrame) -> None:
    found = cells(pivot(three[three["instance"] != "net-10"], value="gap", total=True))
    assert found["in common", "crash"].value is None
    assert found["in common", "exact"].value is not None


def test_exact_whole_numbers(tmp_path: Path) -> None:
    large = 2**60 + 1
    table = pivot(runs_of(tmp_path, record("a", objective=large)), value="objective")
    assert cells(table)["a", "greedy"].value == large
    assert table.frame().loc[0, "greedy"] == large
    assert f"{large},"[:-1] in table_text.csv(table)


def test_virtual_best_is_last_and_not_among_the_best(three: pd.DataFrame) -> None:
    both = pd.concat([three, virtual_best(three)], ignore_index=True)
    table = pivot(both, value="objective")
    assert table.columns == ("crash", "exact", "fast", "virtual best")
    assert cells(table)["net-10", "virtual best"].value == 32
    assert not cells(table)["net-10", "virtual best"].best


@pytest.mark.parametrize(
    ("one", "other", "column"),
    [
        ({}, {"problem": "makespan"}, "problem"),
        ({}, {"limit": 10}, "limits_seconds"),
        ({"parameters": {"width": 16}}, {"parameters": {"width": 64}}, "setting"),
        ({}, {"version": "0.2.0"}, "version"),
        ({}, {"source_hash": "other"}, "source_hash"),
    ],
)
def test_cells_do_not_mix_what_cannot_be_compared(tmp_path: Path, one: Any, other: Any, column: str) -> None:
    runs = runs_of(tmp_path, record("a", objective=1, **one), record("a", objective=2, **other))
    with pytest.raises(UsageError, match=f"found different {column} "):
        pivot(runs, cols=["method"], value="gap-best-known")
    pooled = pivot(runs, cols=["method"], value="gap-best-known", pool=[column])
    assert cells(pooled)["a", "greedy"].runs == 2
    split = pivot(runs, cols=["method"], rows=["instance", column], value="gap-best-known")
    assert len(split.labels) == 2
    assert cells(pivot(runs, cols=["method"], value="runs"))["a", "greedy"].value == 2


def test_objectives_of_different_instances_are_not_averaged(tmp_path: Path) -> None:
    runs = runs_of(tmp_path, record("a", objective=1), record("b", objective=2))
    with pytest.raises(UsageError, match="different instance"):
        pivot(runs, rows=["problem"], value="objective")
    with pytest.raises(UsageError, match="total"):
        pivot(runs, value="objective", total=True)
    assert cells(pivot(runs, rows=["problem"], value="gap-best-known"))["peak", "greedy"].value == 0


def test_statuses_and_counts(three: pd.DataFrame) -> None:
    statuses = cells(pivot(three, value="status"))
    assert statuses["net-1", "fast"].words == "1 optimal, 1 feasible"
    assert statuses["net-2", "crash"].words == "failed"
    solved = cells(pivot(three, value="solved", total=True))
    assert [(solved["all", m].value, solved["all", m].runs) for m in ("exact", "fast", "crash")] == [
        (3, 4),
        (1, 4),
        (0, 2),
    ]
    assert cells(pivot(three, value="fastest"))["net-1", "fast"].value == 1


@pytest.mark.parametrize("how", ["mean", "median", "min", "max", "sum", "sgm"])
def test_aggregates(tmp_path: Path, how: str) -> None:
    values = [1.0, 2.0, 6.0]
    runs = runs_of(tmp_path, *(record("a", seconds=s, seed=k) for k, s in enumerate(values)))
    expected = {"mean": 3, "median": 2, "min": 1, "max": 6, "sum": 9, "sgm": 42 ** (1 / 3) - 1}[how]
    found = cells(pivot(runs, value="cpu-seconds", aggregate=how))
    assert found["a", "greedy"].value == pytest.approx(expected)


def test_unknown_names_are_one_line(three: pd.DataFrame) -> None:
    with pytest.raises(UsageError, match="value: found 'speed', expected one of gap, "):
        pivot(three, value="speed")
    with pytest.raises(UsageError, match="column: found 'colour', expected one of name, instance"):
        pivot(three, rows=["colour"])
    with pytest.raises(UsageError, match="aggregate: found 'mode'"):
        pivot(three, aggregate="mode")
    with pytest.raises(UsageError, match="expected different ones"):
        pivot(three, rows=["method"], cols=["method"])


def test_summary_has_one_row_per_setting(three: pd.DataFrame) -> None:
    table = summary(three)
    found = cells(table)
    assert [label for (label,) in table.labels] == ["crash", "exact", "fast"]
    counts = [
        found["fast", s].value for s in ("runs", "optimal", "feasible", "infeasible", "unknown", "failed")
    ]
    assert counts == [4, 1, 2, 0, 1, 0]
    assert found["exact", "time to solve [s]"].counted == 3
    assert found["exact", "PAR2 [s]"].value == 32.75
    assert found["fast", "gap to best known [%]"].value == pytest.approx((0 + 2 / 12 + 0) / 3)
    assert found["exact", "wins"].value == 3


@pytest.mark.slow
def test_summary_keeps_apart_what_must_not_be_mixed(tmp_path: Path) -> None:
    runs = runs_of(tmp_path, record("a", objective=1), record("a", objective=2, limit=10))
    table = summary(runs)
    assert table.keys == ("limits_seconds", "setting")
    assert table.labels == (("10", "greedy"), ("60", "greedy"))
    assert len(summary(runs, pool=["limits_seconds"]).labels) == 1
    with pytest.raises(UsageError, match="limits_seconds"):
        summary(runs, ["method"])


@pytest.mark.slow
def test_summary_shows_hashes_of_sources_only_where_a_setting_has_several(tmp_path: Path) -> None:
    two = [record("a", "mine", objective=1, source_hash="other"), record("a", "auto", objective=1)]
    assert summary(runs_of(tmp_path / "x", *two)).keys == ("setting",)
    again = record("b", "mine", objective=1, source_hash="third")
    assert summary(runs_of(tmp_path / "y", *two, again)).keys == ("source_hash", "setting")


def test_markdown(three: pd.DataFrame) -> None:
    assert table_text.markdown(pivot(three, value="gap", total=True)) == (
        "**gap to the own bound [%]**\n"
        "\n"
        "| instance  |  crash |          exact |        fast |\n"
        "| :-------- | -----: | -------------: | ----------: |\n"
        "| net-1     | failed | **0.00** (2/2) | 12.50 (2/2) |\n"
        "| net-2     | failed |           0.00 |        time |\n"
        "| net-10    |        |      **25.00** |   **25.00** |\n"
        "| all       | failed | **6.25** (4/4) | 16.67 (3/4) |\n"
        "| in common | failed | **8.33** (3/3) | 16.67 (3/3) |\n"
        "\n"
        "Of several runs the arithmetic mean of those that have the value; (n/m): n of m. In common: the "
        "cases where all columns have it.\n"
    )


def test_markdown_and_latex_escape_names(tmp_path: Path) -> None:
    name = r"a_b|c*d<i>&%$#{}~^\x"
    table = pivot(runs_of(tmp_path, record(name, objective=1)), value="objective")
    assert r"a\_b\|c\*d\<i>&%$#{}~^\\x" in table_text.markdown(table)
    latex = table_text.latex(table)
    assert r"a\_b\textbar{}c*d\textless{}i\textgreater{}\&\%\$\#\{\}" in latex
    assert r"\textasciitilde{}\textasciicircum{}\textbackslash{}x" in latex


def test_latex_has_the_rules_of_booktabs(three: pd.DataFrame) -> None:
    lines = table_text.latex(pivot(three, value="seconds", total=True)).splitlines()
    assert lines[0] == "% time to solve [s]"
    assert lines[3:5] == [r"\begin{tabular}{lrrr}", r"\toprule"]
    assert lines[6] == lines[10] == r"\midrule"
    assert lines[7].split() == [
        "net-1",
        "&",
        "failed",
        "&",
        r"\textbf{3.00}",
        "(2/2)",
        "&",
        "0.50",
        "(1/2)",
        r"\\",
    ]
    assert lines[-2:] == [r"\bottomrule", r"\end{tabular}"]


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")
def test_latex_compiles(tmp_path: Path, three: pd.DataFrame) -> None:
    body = table_text.latex(pivot(three, value="seconds", total=True))
    document = rf"\documentclass{{article}}\usepackage{{booktabs}}\begin{{document}}{body}\end{{document}}"
    (tmp_path / "t.tex").write_text(document)
    subprocess.run(["pdflatex", "-halt-on-error", "t.tex"], cwd=tmp_path, check=True, capture_output=True)


def test_csv_has_exact_numbers_and_how_many_runs_they_are_of(three: pd.DataFrame) -> None:
    rows = [*csv.DictReader(io.StringIO(table_text.csv(pivot(three, value="seconds"))))]
    assert rows[0]["instance"] == "net-1"
    assert float(rows[0]["exact"]) == pytest.approx(3)
    assert (rows[0]["fast: counted"], rows[0]["fast: runs"]) == ("1", "2")
    assert rows[1]["fast"] == ""


def test_units_scale_amounts_only(tmp_path: Path) -> None:
    runs = runs_of(tmp_path, record("a", objective=3 * 2**20))
    table = pivot(runs, value="objective")
    assert "**objective [bytes]**" in table_text.markdown(table)
    assert "3,145,728" in table_text.markdown(table)
    scaled = table_text.markdown(table, "MiB")
    assert "**objective [MiB]**" in scaled
    assert "3.00" in scaled
    with pytest.raises(UsageError, match="unit: found 'ms', expected one of B, KiB"):
        table_text.plain(table, "ms")
    with pytest.raises(UsageError, match="expected none"):
        table_text.plain(pivot(runs, value="seconds"), "MiB")


def test_small_numbers_never_read_as_zero(tmp_path: Path) -> None:
    runs = runs_of(tmp_path, record("a", status="optimal", objective=1, bound=1, seconds=0.0004))
    assert table_text.plain(pivot(runs, value="seconds"))[2] == [["a", "< 0.01"]]


def test_text_and_json_say_the_same(three: pd.DataFrame) -> None:
    table = pivot(three, value="seconds")
    found = table_text.json_values(table)
    assert found["rows"][1]["cells"]["fast"] == {"value": None, "counted": 0, "runs": 1, "words": "time"}
    assert found["rows"][0]["cells"]["fast"]["value"] == 0.5
    lines = table_text.text(table).splitlines()
    assert lines[3].split() == ["net-1", "failed", "3.00", "(2/2)", "0.50", "(1/2)"]


@pytest.mark.slow
def test_every_value_of_a_believable_sweep(tmp_path: Path) -> None:
    runs = measured(frame(write_experiment(tmp_path, sweep(6))))
    both = pd.concat([runs, virtual_best(runs)], ignore_index=True)
    from lowtide.results.tables.values import VALUES

    for value in VALUES:
        table = pivot(both, value=value)
        assert len(table.labels) == 6
        assert table_text.markdown(table)
        assert len(table.frame()) == 6
