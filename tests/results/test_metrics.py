"""Statistics of experiments against figures worked out by hand."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from lowtide.models.errors import UsageError
from lowtide.results.audits.best_known import BestKnown, Mark
from lowtide.results.tables.measured import (
    measured,
    name_of,
    primal_integrals,
    select,
    traces,
    virtual_best,
    wins,
)
from lowtide.results.tables.metrics import (
    performance_ratios,
    primal_gap,
    primal_integral,
    profile_steps,
)
from lowtide.results.tables.store import frame
from tests.sweeps import record, sweep, write_experiment


def runs_of(folder: Path, *records: dict[str, Any], known: Any = None) -> pd.DataFrame:
    return measured(frame(write_experiment(folder, records)), known)


def test_primal_gap_counts_no_plan_as_1() -> None:
    assert [primal_gap(o, 80) for o in (80, 100, 160, None)] == [0, 0.2, 0.5, 1]
    assert primal_gap(0, 0) == 0
    assert primal_gap(5, 0) == 1


@pytest.mark.parametrize(
    ("trace", "expected"),
    [
        ([], 1.0),
        ([[0, 100, None]], 0.0),
        ([[0, None, 50], [0, 100, 50]], 0.0),
        ([[5, 200, None]], (5 * 1 + 5 * 0.5) / 10),
        ([[2, 200, None], [4, 125, None], [9, 100, 100]], (2 * 1 + 2 * 0.5 + 5 * 0.2) / 10),
        ([[20, 100, 100]], 1.0),  # found after the horizon
        ([[8, 200, None], [20, 100, 100]], (8 + 2 * 0.5) / 10),
    ],
)
def test_primal_integral_is_the_mean_gap_until_the_horizon(trace: Any, expected: float) -> None:
    assert primal_integral(trace, 100, 10) == pytest.approx(expected)


def test_primal_integral_without_any_known_plan_is_1() -> None:
    assert primal_integral([], None, 10) == 1


def test_performance_ratios_and_profile_of_a_small_example() -> None:
    costs = pd.DataFrame({"a": [1.0, 4.0, None, None], "b": [2.0, 1.0, 3.0, math.inf]})
    ratios = performance_ratios(costs)
    assert ratios.to_dict("list") == {"a": [1, 4, math.inf, math.inf], "b": [2, 1, 1, math.inf]}
    at, share = profile_steps(ratios["a"])
    assert (at.tolist(), share.tolist()) == ([1, 4], [0.25, 0.5])
    at, share = profile_steps(ratios["b"])
    assert (at.tolist(), share.tolist()) == ([1, 2], [0.5, 0.75])
    assert profile_steps([])[1].tolist() == []


def test_performance_ratio_of_two_zeros_is_a_tie_and_the_floor_makes_one() -> None:
    assert performance_ratios(pd.DataFrame({"a": [0], "b": [0]})).to_numpy().tolist() == [[1, 1]]
    assert performance_ratios(pd.DataFrame({"a": [0], "b": [5]})).to_numpy().tolist() == [[1, math.inf]]
    costs = pd.DataFrame({"a": [0.0001], "b": [0.0009], "c": [0.002]})
    assert performance_ratios(costs, floor=0.001).to_numpy().tolist() == [[1, 1, 2]]


def test_only_proofs_count_as_solved_and_only_plans_as_answers(tmp_path: Path) -> None:
    runs = runs_of(
        tmp_path,
        record("a", "optimum", status="optimal", objective=10, bound=10, seconds=3),
        record("a", "plan", status="feasible", objective=20, bound=8, seconds=60),
        record("a", "proof", status="infeasible", seconds=4),
        record("a", "nothing", status="unknown", seconds=None),
        record("a", "crash", status="failed", objective=1, bound=99, seconds=1),
    ).set_index("method")
    assert {*runs.index[runs["solved"]]} == {"optimum", "proof"}
    assert {*runs.index[runs["answered"]]} == {"optimum", "plan"}
    assert runs["seconds"].dropna().to_dict() == {"optimum": 3, "proof": 4}
    assert runs["par2"].to_dict() == {"optimum": 3, "plan": 120, "proof": 4, "nothing": 120, "crash": 120}
    assert runs["par10"].to_dict() == {"optimum": 3, "plan": 600, "proof": 4, "nothing": 600, "crash": 600}
    assert runs["gap_best_known"].dropna().to_dict() == {"optimum": 0, "plan": 0.5}
    assert runs["gap_best_bound"].dropna().to_dict() == {"optimum": 0, "plan": 0.5}
    assert runs["gap"].dropna().to_dict() == {"optimum": 0, "plan": 0.6}


def test_time_is_building_and_solving(tmp_path: Path) -> None:
    seconds = {"load": 9.0, "build": 2.0, "solve": 3.0, "verify": 9.0, "total": 99.0}
    values = record("a", status="optimal", objective=1, bound=1) | {"seconds": seconds}
    assert runs_of(tmp_path, values)["seconds"].tolist() == [5]


def test_run_without_a_limit_has_no_penalty(tmp_path: Path) -> None:
    runs = runs_of(tmp_path, record("a", status="unknown", limit=None))
    assert runs["par10"].isna().tolist() == [True]


def test_best_known_lowers_and_raises_but_never_worsens(tmp_path: Path) -> None:
    records = [record(i, objective=100, bound=50) for i in ("a", "b", "c")]

    def known(k: int, objective: int | None, bound: int | None) -> dict[Any, BestKnown]:
        values = records[k]
        marks = [None if v is None else Mark(value=v, method="m") for v in (objective, bound)]
        entry = BestKnown(
            instance=values["instance"],
            sha256=values["instance_sha256"],
            problem="peak",
            unit="bytes",
            objective=marks[0],
            bound=marks[1],
        )
        return {(entry.sha256, "peak"): entry}

    better = known(0, 80, 60) | known(1, 200, 10)
    runs: Any = runs_of(tmp_path, *records, known=better).set_index("instance")
    assert runs["best"].to_dict() == {"a": 80, "b": 100, "c": 100}
    assert runs["best_bound"].to_dict() == {"a": 60, "b": 50, "c": 50}
    assert runs.loc["a", ["gap_best_known", "gap_best_bound"]].tolist() == [0.2, 0.4]


def test_best_is_per_question_over_all_methods_and_seeds(tmp_path: Path) -> None:
    runs = runs_of(
        tmp_path,
        record("a", "x", objective=10, seed=1),
        record("a", "x", objective=8, seed=2),
        record("a", "y", objective=9, problem="makespan"),
        record("b", "x", objective=7),
    )
    assert runs.set_index(["instance", "problem", "seed"])["best"].to_dict() == {
        ("a", "peak", 1): 8,
        ("a", "peak", 2): 8,
        ("a", "makespan", 1): 9,
        ("b", "peak", 1): 7,
    }


def test_what_is_maximized_has_its_best_above_and_its_bound_below(tmp_path: Path) -> None:
    runs = runs_of(
        tmp_path,
        record("a", "x", objective=75, bound=200, problem="parallel-memory"),
        record("a", "y", objective=100, bound=120, problem="parallel-memory"),
    ).set_index("method")
    assert set(runs["best"]) == {100}
    assert set(runs["best_bound"]) == {120}
    assert runs["gap_best_bound"].to_dict() == {"x": 0.6, "y": 0.2}
    assert wins(runs).to_dict() == {"x": False, "y": True}
    assert virtual_best(runs.reset_index())["objective"].tolist() == [100]
    assert primal_gap(75, 100) == 0.25


def test_run_that_never_knew_the_hash_belongs_to_the_question_of_its_instance(tmp_path: Path) -> None:
    runs = runs_of(
        tmp_path,
        record("a", "x", objective=5),
        record("a", "y", status="failed", instance_sha256=None),
        record("b", "x", objective=5, instance_sha256=None),
    )
    assert runs.groupby("instance")["question"].nunique().to_dict() == {"a": 1, "b": 1}
    assert runs["question"].nunique() == 2


def test_primal_integrals_use_trace_limit_and_best(tmp_path: Path) -> None:
    runs = runs_of(
        tmp_path,
        record("a", "x", objective=100, limit=10, trace=[[2, 200, None], [4, 100, 100]]),
        record("a", "y", objective=200, limit=10, seconds=5, trace=[]),
        record("a", "z", status="failed", objective=100, limit=10, trace=[[0, 100, None]]),
        record("a", "w", objective=100, limit=None),
        record("b", "x", status="infeasible", limit=10),
        record("b", "y", status="unknown", limit=10),
        record("c", "x", status="unknown", limit=10),
    )
    found = dict(zip(runs["instance"] + runs["method"], primal_integrals(runs), strict=True))
    assert found == pytest.approx(
        {
            "ax": (2 + 2 * 0.5) / 10,
            "ay": (5 + 5 * 0.5) / 10,
            "az": 1.0,
            "aw": math.nan,
            "bx": math.nan,
            "by": math.nan,
            "cx": 1.0,
        },
        nan_ok=True,
    )


def test_run_with_a_plan_but_no_trace_has_it_at_its_end(tmp_path: Path) -> None:
    runs = runs_of(tmp_path, record("a", objective=7, seconds=3, trace=[]))
    assert [*traces(runs)] == [[(3.0, 7, None)]]


def test_virtual_best_prefers_proofs_then_plans_then_bounds(tmp_path: Path) -> None:
    runs = runs_of(
        tmp_path,
        record("a", "slow", status="optimal", objective=5, bound=5, seconds=9),
        record("a", "fast", status="optimal", objective=5, bound=5, seconds=2),
        record("a", "plan", objective=5, seconds=1),
        record("b", "good", objective=6, bound=1, seconds=60),
        record("b", "poor", objective=7, bound=5, seconds=1),
        record("c", "low", status="unknown", bound=1, seconds=60),
        record("c", "high", status="unknown", bound=3, seconds=60),
    )
    best = virtual_best(runs)
    assert {*best["method"]} == {*best["setting"]} == {"virtual best"}
    names = runs.set_index("name")["method"]
    assert dict(zip(best["instance"], best["name"].map(names), strict=True)) == {
        "a": "fast",
        "b": "good",
        "c": "high",
    }


def test_wins_count_ties_for_all_and_absent_values_for_nobody(tmp_path: Path) -> None:
    runs = runs_of(
        tmp_path,
        record("a", "x", objective=5),
        record("a", "y", objective=5),
        record("a", "z", objective=6),
        record("b", "x", status="unknown"),
        record("b", "y", status="unknown"),
    )
    assert wins(runs).groupby(runs["method"]).sum().to_dict() == {"x": 1, "y": 1, "z": 0}
    assert not wins(runs, "seconds").any()


def test_cases_of_different_limits_and_seeds_are_not_compared(tmp_path: Path) -> None:
    runs = runs_of(
        tmp_path,
        record("a", "x", objective=5, limit=10),
        record("a", "y", objective=9, limit=60),
        record("a", "y", objective=7, limit=60, seed=2),
    )
    assert wins(runs).all()
    assert len(virtual_best(runs)) == 3


def test_selection_by_patterns(tmp_path: Path) -> None:
    runs = measured(frame(write_experiment(tmp_path, sweep(12))))
    assert {*select(runs, [("instance", "net-1*"), ("method", "auto"), ("method", "m*")])["instance"]} == {
        "net-1",
        "net-10",
        "net-11",
    }
    assert {*select(runs, [("parameters.width", "16")])["setting"]} == {"beam (width=16)"}
    assert {*select(runs, [("limits-seconds", "60"), ("parameters_width", "-")])["method"]} == {
        "auto",
        "cpsat",
        "milp",
        "greedy",
    }
    with pytest.raises(UsageError, match="found 'colour', expected one of name, instance"):
        select(runs, [("colour", "red")])
    with pytest.raises(UsageError, match="no run with method x, expected one of auto, beam"):
        select(runs, [("method", "x")])


def test_names_of_values() -> None:
    assert [name_of(v) for v in (None, math.nan, pd.NA, 60.0, 0.5, 3, "x", True)] == [
        "-", "-", "-", "60", "0.5", "3", "x", "True",
    ]  # fmt: skip
