"""The table of AutoTM's forms: slowdowns, gaps and means by hand; the committed files belong together."""

import pytest

from lowtide.results.experiments.__main__ import written
from lowtide.results.experiments.placement_autotm.table import METHODS, RATIOS
from lowtide.results.experiments.placement_autotm.table import row as solved
from lowtide.results.experiments.running import read_rows
from lowtide.results.tables.spec import Row


def row(ratio: int, method: str, period: int | None, bound: int | None = None) -> Row:
    base = {"network": "net", "batch": 8, "ops": 1234, "peak": 5 * 10**9, "ideal": 1000}
    return {**base, "ratio": ratio, "method": method, "period": period, "form_bound": bound}


def test_slowdowns_gaps_and_geometric_means() -> None:
    table = [
        row(4, "first-touch", 4000),
        row(4, "autotm-static", 2000, 2000),
        row(4, "autotm-sync", 1600, 1200),
        row(4, "autotm-async", None),
        row(1, "first-touch", 1000),
        row(1, "autotm-static", 1125, 1124),
        row(1, "autotm-sync", 1000, 1000),
        row(1, "autotm-async", 1000, 1000),
    ]
    lines = written("placement_autotm", table).splitlines()
    assert "| net | 8 | 1,234 | 5 GB | 4 : 1 | 300.0% | 100.0% | 60.0% [25.0%] | - |" in lines
    assert "| net | 8 | 1,234 | 5 GB | 1 : 1 | 0.0% | 12.5% | 0.0% | 0.0% |" in lines
    assert "| geometric mean |  |  |  | 4 : 1 and 1 : 1 | 100.0% | 50.0% | 26.5% | - |" in lines


def test_a_solve_becomes_a_row() -> None:
    pytest.importorskip("onnx")
    (found,) = solved("vgg19", "1", "first-touch", 10)
    assert found["ops"] == 147
    assert found["dram"] == found["peak"] // 2
    assert found["period"] > found["ideal"]


def test_first_touch_is_never_faster_and_forms_are_in_order() -> None:
    table = read_rows("placement_autotm")
    assert len(table) == 4 * len(RATIOS) * len(METHODS)
    periods = {(r["network"], r["ratio"], r["method"]): r["period"] for r in table if r["period"]}
    bounds = {(r["network"], r["ratio"], r["method"]): r["form_bound"] for r in table if r["form_bound"]}
    for (network, ratio, method), period in periods.items():
        if method != "first-touch":
            assert bounds[network, ratio, method] <= period
            assert period < periods[network, ratio, "first-touch"]
            assert bounds[network, ratio, "autotm-async"] <= period
        if method == "autotm-static":
            assert bounds[network, ratio, "autotm-sync"] <= period
