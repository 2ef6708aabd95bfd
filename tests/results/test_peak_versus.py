"""The comparison of auto with CP-SAT and HiGHS: instances, seconds, contradictions; the aims at scale."""

from __future__ import annotations

from typing import Any

import pytest

from lowtide.results.experiments.__main__ import written
from lowtide.results.experiments.peak_scale.table import AIMS, aims
from lowtide.results.experiments.peak_versus.table import (
    FLOOR,
    contradictions,
    counted,
    needs_search,
    row,
)


def record(status: str = "optimal", **changes: Any) -> dict[str, Any]:
    """Return what the table reads of a record."""
    found = {
        "status": status,
        "objective": 8,
        "bound": 8 if status == "optimal" else 7,
        "verified": True,
        "detail": "",
        "seconds": {"load": 0.25, "build": 1.0, "solve": 2.0, "verify": 0.5, "total": 9.0},
        "limits": {"seconds": 60},
    }
    return found | changes


def test_seconds_are_end_to_end_with_floor_and_limit() -> None:
    assert counted(record()) == 3.75
    assert counted(record(seconds={"load": 0.01, "build": None, "solve": 0.02, "verify": 0.0})) == FLOOR
    assert counted(record("feasible")) == 60
    assert counted(record("unknown", objective=None, seconds={})) == 60


def test_an_instance_that_the_first_steps_close_is_left_out() -> None:
    closed = record(seconds={"load": 0.1, "build": None, "solve": 0.1, "verify": 0.1})
    assert not needs_search({"cpsat": closed})
    assert needs_search({"cpsat": record()})
    assert needs_search({"cpsat": record("feasible", seconds={"load": 0.1, "build": None})})  # too large


def test_agreeing_runs_have_no_contradiction() -> None:
    runs = {
        "auto": record(),
        "cpsat": record("feasible", objective=9),
        "milp": record("unknown", objective=None),
    }
    assert contradictions(runs) == []


@pytest.mark.parametrize(
    ("rival", "words"),
    [
        (record(objective=9, bound=9), "bound 9 of milp, peak 8 of auto"),
        (record(objective=7, bound=7), "bound 8 of auto, peak 7 of milp"),
        (record("failed", detail="worse"), "milp: failed: worse"),
        (record(verified=False), "milp: not verified"),
    ],
)
def test_contradictions_are_named(rival: dict[str, Any], words: str) -> None:
    assert words in contradictions({"auto": record(), "milp": rival})


def test_table_marks_unsolved_runs_and_ends_with_the_means_of_the_ratios() -> None:
    runs = {"auto": record(), "cpsat": record("feasible"), "milp": record("feasible")}
    text = written("peak_versus", [row("catalogue:diamond", runs)])
    lines = [line for line in text.splitlines() if line.startswith("|")]
    assert lines[-2] == "| catalogue:diamond | 4 | 8 | 3.75 | >60 | 16.0 | >60 | 16.0 |"
    assert lines[-1] == "| geometric mean of 1 |  |  |  |  | **16.0** |  | **16.0** |"


def test_aims_count_the_rows_that_meet_them() -> None:
    large = {"status": "optimal", "seconds": 9.0, "gap": 0.0, "greedy seconds": 1.0, "megabytes": 100}
    table = [large | {"instance": f"gen:randwire?n=100&seed={seed}"} for seed in range(6)]
    table += [
        large | {"instance": f"gen:randwire?n=100&seed={seed}", "status": "feasible"} for seed in (6, 7)
    ]
    table += [
        large | {"instance": "gen:intree?n=1000"},
        large | {"instance": "gen:intree?n=5000", "seconds": 11},
    ]
    lines = aims(table)
    assert len(lines) == len(AIMS)
    assert lines[1].endswith("6 of 8, met")
    assert lines[2].endswith("1 of 2, not met")
    assert lines[0].endswith("0 of 0, not met")
