"""``lowtide solve pipeline … --stages``: stages, recomputation and schedule chosen together."""

from __future__ import annotations

from pathlib import Path

import pytest

from lowtide.solvers.pipeline import joint
from tests.commands import answer, refused, within

SPEC = (
    "gen:transformer?form=llama&layers=2&d_model=16&heads=2&groups=1&hidden=32&seq=8&vocab=64&train=1&split=1"
)
ASKED = ("--stages", "2", "--micro", "3", "--time-limit", "20", "--threads", "1")


def test_the_record_has_stages_and_a_bound_of_all_and_the_plan_stands_alone(tmp_path: Path) -> None:
    found = answer("solve", "pipeline", SPEC, *ASKED, "--plan", "plan.json", cwd=tmp_path)
    together = found["joint"]
    assert (found["verified"], together["stages"], together["micro"]) == (True, 2, 3)
    assert found["bound"] <= together["bound_of_these"] <= found["objective"]
    verdict = answer("verify", "plan.json", cwd=tmp_path)
    assert (verdict["valid"], verdict["makespan"]) == (True, found["objective"])
    given = f"{SPEC}&cuts={together['cuts']}&ways={together['ways']}&micro=3"
    again = answer("solve", "pipeline", given, "--method", "1f1b", cwd=tmp_path)
    assert again["instance"] == found["instance"]
    assert together["bound_of_these"] <= again["objective"]
    assert again["objective"] >= found["objective"]


@pytest.mark.slow
def test_best_times_of_the_stages_alone_are_not_said_to_be_optimal(tmp_path: Path) -> None:
    asked = ("--stages", "4", "--micro", "4", "--threads", "1", "--time-limit", "20")
    found = answer(
        "solve", "pipeline", "catalogue:gpt2-small-train", *asked, "--plan", "p.json", cwd=tmp_path
    )
    assert found["bound"] < found["objective"]
    assert (found["status"], found["bound_kind"]) == ("feasible", "all stages")
    assert answer("verify", "p.json", cwd=tmp_path)["status"] == "feasible"


def test_people_see_the_stages_and_the_bound(tmp_path: Path) -> None:
    lines = within("solve", "pipeline", SPEC, *ASKED, "--memory", "1MB", cwd=tmp_path).stdout.splitlines()
    shown = dict(line.split(None, 1) for line in lines)
    assert {"status", "cuts", "ways", "verified", "these"} <= shown.keys()
    assert "all stages" in shown["bound"]


def test_a_memory_too_small_for_any_stages_is_infeasible(tmp_path: Path) -> None:
    found = answer("solve", "pipeline", SPEC, *ASKED, "--memory", "1", cwd=tmp_path, status=1)
    assert (found["status"], found["bound"], found["plan"]) == ("infeasible", None, None)
    assert "within the memory" in found["detail"]


def test_with_no_time_there_is_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock moves by a second with each look at it; the search for stages ends at once."""
    clock = [0.0]

    class Clock:
        @staticmethod
        def monotonic() -> float:
            clock[0] += 1
            return clock[0]

    monkeypatch.setattr(joint, "time", Clock)
    found = answer("solve", "pipeline", SPEC, *ASKED[:4], "--time-limit", "3", cwd=tmp_path)
    assert (found["status"], found["reason"], found["objective"]) == ("unknown", "time", None)
    assert found["bound"] > 0
    assert clock[0] < 20


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        ((SPEC, "--stages", "2"), "found --stages without --micro"),
        ((SPEC, "--micro", "2"), "found --micro without --stages"),
        ((SPEC, *ASKED, "--method", "1f1b"), "expected auto"),
        ((SPEC, *ASKED, "--objective", "span"), "expected makespan"),
        ((f"{SPEC}&objective=span", *ASKED), "expected makespan"),
        ((SPEC, *ASKED, "--hint", "plan.json"), "found --hint with --stages"),
        ((f"{SPEC}&cuts=3-9", *ASKED), "found cuts with --stages"),
        ((SPEC, *ASKED, "--memory-limit", "1GiB"), "found --memory-limit with --stages"),
        ((SPEC, "--stages", "99", "--micro", "2"), "expected at least 99"),
        (("gen:randwire?n=8", *ASKED), "expected a training step"),
        (("gen:stages?p=2&m=3", *ASKED), "found a pipeline of 3 micro-batches, expected a step of one"),
    ],
)
def test_what_does_not_go_together_is_refused(words: tuple[str, ...], fault: str, tmp_path: Path) -> None:
    assert fault in refused("solve", "pipeline", *words, cwd=tmp_path)
