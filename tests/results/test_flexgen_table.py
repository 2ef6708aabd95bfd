"""The tables of inference on three tiers and of shared states: what their rows say of each other."""

from __future__ import annotations

from fractions import Fraction

import pytest

import lowtide as lt
from lowtide.formulations.estimates.flexgen import Inference, policy
from lowtide.instances import load_problem
from lowtide.models.opt import OPT
from lowtide.results.experiments.flexgen.table import NEW, QUESTIONS
from lowtide.results.experiments.running import read_rows


@pytest.mark.parametrize(("model", "batch", "batches", "host", "percent"), QUESTIONS)
def test_the_programs_fractions_are_those_of_its_optimum(
    model: str, batch: int, batches: int, host: int, percent: tuple[float, ...]
) -> None:
    machine = lt.load_machine("t4-flexgen", {"host": host * 2**30})
    gpu, near, disk = (tier.capacity or 0 for tier in machine.tiers)
    asked = Inference(model=OPT[model], capacity=(gpu, near, disk), new=NEW, share=Fraction(1))
    found = policy(asked, batch, batches)
    assert found is not None
    on_gpu = (found.weights[0], found.cache[0], found.states[0])
    assert tuple(round(float(100 * part), 2) for part in on_gpu) == percent


def test_no_plan_is_better_than_the_bounds_and_plans_of_tensors_beat_fractions() -> None:
    table = read_rows("flexgen")
    for spec in {row["instance"] for row in table}:
        found = {row["method"]: row for row in table if row["instance"] == spec}
        assert len(found) == 4
        bound = max(row["bound"] for row in found.values())
        assert all(row["objective"] >= bound >= row["ideal"] for row in found.values())
        assert found["auto"]["objective"] < found["FlexGen's program"]["objective"]
        assert found["auto"]["objective"] <= found["best fractions"]["objective"]


@pytest.mark.slow
def test_a_policy_plans_the_same_again() -> None:
    row = next(r for r in read_rows("flexgen") if "opt-6.7b" in r["instance"] and r["method"] != "auto")
    percent = dict(zip(("weights", "cache", "states"), map(str, QUESTIONS[0][4]), strict=True))
    assert row["method"] == "FlexGen's program"
    problem = load_problem(lt.Placement, row["instance"])
    assert lt.solve(problem, "flexgen", options=percent, threads=1).objective == row["objective"]


def test_orders_without_rules_are_faster_in_the_same_memory() -> None:
    table = read_rows("sharding")
    assert len(table) == 16
    for rules, free in zip(table[::2], table[1::2], strict=True):
        assert (rules["rules"], free["rules"]) == ("FSDP's", "none")
        assert rules["memory"] == free["memory"]
        assert rules["status"] == "optimal"
        assert free["objective"] < rules["objective"]
    row = table[-1]
    again = lt.solve(load_problem(lt.Makespan, row["instance"]), threads=1)
    assert (str(again.status), again.objective) == ("optimal", row["objective"])
