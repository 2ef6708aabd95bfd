"""A plan file says which result it was written from: pictures and the verifier say its status."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import lowtide as lt
from tests.commands import answer, refused, within

SPEC = "gen:randwire?n=10&seed=7"


def solved(tmp_path: Path, *words: str, plan: str = "p.json") -> None:
    answer("solve", *words, "--plan", plan, "--quiet", cwd=tmp_path)


def change(path: Path, **values: object) -> None:
    data = json.loads(path.read_text())
    data["claim"] |= values
    path.write_text(json.dumps(data))


def test_verify_says_the_status_and_the_bound_that_a_plan_claims(tmp_path: Path) -> None:
    solved(tmp_path, "peak", SPEC)
    found = answer("verify", "p.json", cwd=tmp_path)
    assert (found["status"], found["gap"], found["bound_from"]) == ("optimal", 0.0, "as the plan claims")
    assert found["bound"] == found["claim"]["objective"] == found["peaks"]["memory"]
    assert "optimal, as the plan claims (peak auto)" in within("verify", "p.json", cwd=tmp_path).stdout


def test_verify_recomputes_where_addresses_end(tmp_path: Path) -> None:
    solved(tmp_path, "arena", SPEC, plan="a.json")
    found = answer("verify", "a.json", cwd=tmp_path)
    assert (found["status"], found["claim"]["objective"]) == ("optimal", max(found["heights"].values()))
    change(tmp_path / "a.json", objective=found["claim"]["objective"] + 1)
    assert answer("verify", "a.json", cwd=tmp_path)["status"] is None


def test_verify_confirms_the_height_that_offsets_claim(tmp_path: Path) -> None:
    solved(tmp_path, "peak", SPEC)
    solved(tmp_path, "offsets", "p.json", plan="o.json")
    found = answer("verify", "o.json", cwd=tmp_path)
    assert (found["status"], found["claim"]["problem"]) == ("optimal", "offsets")
    assert found["claim"]["objective"] == max(found["heights"].values())
    change(tmp_path / "o.json", objective=found["claim"]["objective"] - 1)
    assert answer("verify", "o.json", cwd=tmp_path)["status"] is None


def test_what_is_known_of_the_peak_is_named_so_beside_another_claim(tmp_path: Path) -> None:
    for problem, names in (("arena", {"bound of the peak", "gap of the peak"}), ("peak", {"bound", "gap"})):
        solved(tmp_path, problem, "catalogue:chain", plan="k.json")
        shown = within("verify", "k.json", cwd=tmp_path).stdout.splitlines()
        rows = {line.partition("  ")[0] for line in shown}
        assert {name for name in rows if name.startswith(("bound", "gap"))} == names


@pytest.mark.parametrize("values", [{"objective": 1}, {"bound": 1}])
def test_a_claim_that_disagrees_with_the_verifier_is_no_status(tmp_path: Path, values: object) -> None:
    solved(tmp_path, "peak", SPEC)
    change(tmp_path / "p.json", **values)  # type: ignore[arg-type]
    found = answer("verify", "p.json", cwd=tmp_path)
    assert (found["valid"], found["status"], found["bound"]) == (True, None, None)


@pytest.mark.parametrize(
    "words",
    [
        ("minio", "catalogue:harpoon?memory=14"),
        ("partition", SPEC, "--processors", "2"),
        ("hybrid", SPEC, "--processors", "2"),
        ("tiles", "catalogue:mlsys2026/1"),
    ],
)
def test_what_a_plan_alone_cannot_show_is_no_status(words: tuple[str, ...], tmp_path: Path) -> None:
    solved(tmp_path, *words, plan="q.json")
    found = answer("verify", "q.json", cwd=tmp_path)
    assert (found["valid"], found["status"], found["claim"]["status"]) == (True, None, "optimal")
    shown = within("verify", "q.json", cwd=tmp_path).stdout
    assert "not confirmed: its objective cannot be recomputed" in shown
    assert "as the plan claims" not in shown


def test_a_claim_below_which_a_peak_is_known_is_doubted(tmp_path: Path) -> None:
    problem = lt.Peak(lt.load("catalogue:harpoon"))
    worst = lt.solve(problem, "reference")
    assert worst.objective is not None
    lt.save(worst, tmp_path / "p.json")
    change(tmp_path / "p.json", status="optimal", bound=worst.objective)
    found = answer("verify", "p.json", cwd=tmp_path)
    assert found["best_known"] < worst.objective
    assert (found["status"], found["bound"]) == (None, found["best_known"])
    assert "are known to do" in within("verify", "p.json", cwd=tmp_path).stdout


@pytest.mark.slow
def test_an_answer_to_added_rows_claims_nothing_of_the_question_without_them(tmp_path: Path) -> None:
    problem = lt.Peak(lt.load("catalogue:harpoon"))
    result = lt.solve(problem, "milp", constrain=lambda built: None, threads=1)
    lt.save(result, tmp_path / "p.json")
    assert json.loads((tmp_path / "p.json").read_text()).get("claim") is None
    assert answer("verify", "p.json", cwd=tmp_path)["status"] is None


def test_makespan_of_a_placement_is_held_against_its_claim(tmp_path: Path) -> None:
    solved(tmp_path, "placement", "catalogue:harpoon?machine=a100-40g-pcie3", "--device", "20B")
    assert answer("verify", "p.json", cwd=tmp_path)["status"] == "optimal"


def test_claims_are_read_strictly(tmp_path: Path) -> None:
    solved(tmp_path, "peak", SPEC)
    change(tmp_path / "p.json", status="best")
    assert "claim: status: found" in refused("verify", "p.json", cwd=tmp_path).replace(", status", ": status")


@pytest.mark.slow
def test_pictures_say_optimal_and_draw_addresses_where_a_plan_has_them(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    solved(tmp_path, "peak", SPEC)
    within("plot", "p.json", "-o", "p.svg", cwd=tmp_path)
    assert "optimal" in (tmp_path / "p.svg").read_text()
    solved(tmp_path, "offsets", "p.json", plan="a.json")
    assert "buffers" in answer("plot", "a.json", "-o", "a.svg", cwd=tmp_path)
    assert "peak" in answer("plot", "a.json", "-o", "b.svg", "--kind", "profile", cwd=tmp_path)


def test_a_claim_is_no_part_of_the_answer(tmp_path: Path) -> None:
    solved(tmp_path, "peak", SPEC)
    plan = lt.solve(lt.Peak(lt.load(SPEC)), "reference", hint=None).plan
    assert plan is not None
    assert plan.claim is None
    hinted = answer("solve", "peak", SPEC, "--method", "reference", "--hint", "p.json", cwd=tmp_path)
    assert hinted["status"] == "feasible"


@pytest.mark.slow
def test_what_is_known_of_orders_is_not_held_against_plans_with_second_runs(tmp_path: Path) -> None:
    least = lt.solve(lt.Peak(lt.load("onnx:squeezenet?train=1"))).objective
    assert least is not None
    solved(
        tmp_path,
        "recompute",
        "onnx:squeezenet?train=1",
        "--memory",
        str(least - 1),
        "--method",
        "eviction",
        plan="r.json",
    )
    found = answer("verify", "r.json", cwd=tmp_path)
    assert (found["valid"], found["recomputed"] > 0, found["bound"]) == (True, True, None)
