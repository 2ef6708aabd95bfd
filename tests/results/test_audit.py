"""Every kind of contradiction is found when one is made, and none where there is none."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lowtide.instances.catalogue import Bounds, entries
from lowtide.models.errors import InstanceError
from lowtide.results.audits import audit as auditing
from lowtide.results.audits.findings import Audit
from tests.commands import answer, within
from tests.experiments import proved, run, write

SPEC = "catalogue:two-branches"
BEST = 12
"""Its optimum; the reference order has 16."""
FREE = "gen:randwire?n=8,seed=3"
"""A graph that neither the catalogue nor the best-known file knows."""


def audit(paths: Sequence[Path], **options: Any) -> Audit:
    """Audit without what the package knows besides the catalogue: it takes longer to read than the rest."""
    return auditing.audit(paths, **{"best_known": Path(__file__).parent, **options})


def kinds(found: Audit) -> list[str]:
    return [c.kind for c in found.contradictions]


def only(found: Audit, kind: str) -> Any:
    """Return the one contradiction of a kind."""
    (wanted,) = [c for c in found.contradictions if c.kind == kind]
    return wanted


def test_consistent_experiment_passes_and_says_how_much_it_looked_at(tmp_path: Path) -> None:
    run(tmp_path, SPEC, "greedy", change=proved)
    run(tmp_path, SPEC, "reference", bound=11)
    run(tmp_path, FREE, "greedy", keep_plan=False)
    found = audit([tmp_path])
    assert found.contradictions == []
    assert (found.records, found.questions, found.plans, found.unchecked) == (3, 2, 2, [])
    assert found.without_plan == 1


def test_what_the_package_knows_is_consistent() -> None:
    assert auditing.audit().contradictions == []


def test_bound_above_the_objective_of_another_record(tmp_path: Path) -> None:
    low = run(tmp_path, FREE, "greedy")
    high = run(tmp_path, FREE, "reference", bound=low["objective"] + 1)
    found = only(audit([tmp_path]), "bound-above-objective")
    assert any(low["name"] in who for who in found.records)
    assert any(high["name"] in who for who in found.records)
    assert str(low["objective"] + 1) in found.message
    assert (found.problem, found.instance) == ("peak", FREE)


def test_bound_above_the_own_objective(tmp_path: Path) -> None:
    record = run(tmp_path, FREE, bound=10**9)
    assert only(audit([tmp_path]), "bound-above-objective").records == (
        f"{tmp_path}: {record['name']} (greedy)",
    )


def test_what_is_said_of_a_model_with_added_rows_is_not_held_against_the_question(tmp_path: Path) -> None:
    run(tmp_path, FREE, bound=10**9, constrained=True)
    assert audit([tmp_path]).contradictions == []


def test_bound_of_a_failed_run_counts(tmp_path: Path) -> None:
    run(tmp_path, FREE, status="failed", bound=10**9)
    assert kinds(audit([tmp_path])) == ["bound-above-objective"]


def test_equal_bound_is_no_contradiction(tmp_path: Path) -> None:
    low = run(tmp_path, FREE, "greedy")
    run(tmp_path, FREE, "reference", bound=low["objective"])
    assert audit([tmp_path]).contradictions == []


def test_infeasible_beside_a_plan(tmp_path: Path) -> None:
    plan = run(tmp_path, FREE, "greedy")
    none = run(tmp_path, FREE, "reference", keep_plan=False, status="infeasible", objective=None, bound=None)
    found = only(audit([tmp_path]), "infeasible-with-plan")
    assert {who.split()[1] for who in found.records} == {plan["name"], none["name"]}


def test_two_optima(tmp_path: Path) -> None:
    run(tmp_path, SPEC, "greedy", change=proved)
    run(tmp_path, SPEC, "reference", change=proved)
    found = audit([tmp_path])
    assert set(kinds(found)) == {"two-optima", "bound-above-objective"}
    assert only(found, "two-optima").message.startswith("12 and 16")


@pytest.mark.parametrize("bound", [None, BEST - 1])
def test_optimal_without_a_bound_that_meets_it(tmp_path: Path, bound: int | None) -> None:
    run(tmp_path, SPEC, change=proved, bound=bound)
    assert kinds(audit([tmp_path])) == ["optimal-without-proof"]


def test_optimal_without_an_objective(tmp_path: Path) -> None:
    run(tmp_path, SPEC, keep_plan=False, status="optimal", objective=None, bound=BEST)
    assert kinds(audit([tmp_path])) == ["optimal-without-proof"]


def test_objective_that_nobody_verified(tmp_path: Path) -> None:
    run(tmp_path, SPEC, verified=False)
    assert kinds(audit([tmp_path])) == ["not-verified"]


def swap_runs(plan: dict[str, Any]) -> None:
    first, last = plan["runs"][0], plan["runs"][-1]
    first["op"], last["op"] = last["op"], first["op"]


def drop_run(plan: dict[str, Any]) -> None:
    plan["runs"].pop()


def other_graph(plan: dict[str, Any]) -> None:
    plan["graph"]["sha256"] = "0" * 64


def free_too_early(plan: dict[str, Any]) -> None:
    for free in plan["frees"]:
        free["time"] = 0


def roomier_machine(plan: dict[str, Any]) -> None:
    plan["machine"]["tiers"].append({"name": "disk", "capacity": None})


def no_plan(plan: dict[str, Any]) -> None:
    plan["format"] = "lowtide/graph"


@pytest.mark.parametrize(
    "damage", [swap_runs, drop_run, other_graph, free_too_early, roomier_machine, no_plan]
)
@pytest.mark.parametrize("plans", ["all", "optimal"])
def test_plan_that_does_not_verify_again(
    tmp_path: Path, damage: Callable[[dict[str, Any]], None], plans: str
) -> None:
    record = run(tmp_path, SPEC, change=proved)
    path = tmp_path / record["plan"]
    plan = json.loads(gzip.decompress(path.read_bytes()))
    damage(plan)
    path.write_bytes(gzip.compress(json.dumps(plan).encode()))
    found = audit([tmp_path], plans=plans)
    assert kinds(found) == ["plan-invalid"]
    assert record["name"] in found.contradictions[0].records[0]
    assert audit([tmp_path], plans="none").contradictions == []


def test_truncated_plan(tmp_path: Path) -> None:
    record = run(tmp_path, SPEC)
    path = tmp_path / record["plan"]
    path.write_bytes(path.read_bytes()[:-20])
    assert kinds(audit([tmp_path])) == ["plan-invalid"]
    path.unlink()
    assert kinds(audit([tmp_path])) == ["plan-missing"]


def test_plan_with_another_objective(tmp_path: Path) -> None:
    run(tmp_path, SPEC, "reference", objective=13, bound=None)
    assert kinds(audit([tmp_path])) == ["objective-differs"]


def test_wrong_objective_is_not_held_against_right_bounds(tmp_path: Path) -> None:
    run(tmp_path, SPEC, "reference", objective=11)
    run(tmp_path, SPEC, "greedy", change=proved)
    assert kinds(audit([tmp_path])) == ["objective-differs"]


def test_catalogue_takes_part(tmp_path: Path) -> None:
    run(tmp_path, SPEC, keep_plan=False, objective=BEST - 1)
    found = only(audit([tmp_path]), "bound-above-objective")
    assert any(who.startswith("catalogue: two-branches") for who in found.records)


def test_catalogue_contradicts_a_bound(tmp_path: Path) -> None:
    run(tmp_path, SPEC, "reference", bound=BEST + 1)
    found = only(audit([tmp_path]), "bound-above-objective")
    assert any(who.startswith("catalogue: two-branches") for who in found.records)


def test_optimum_of_the_catalogue_contradicts_another_one(tmp_path: Path) -> None:
    run(tmp_path, SPEC, "reference", change=proved)
    found = only(audit([tmp_path]), "two-optima")
    assert found.message.startswith("12 and 16")
    assert any(who.startswith("catalogue: two-branches") for who in found.records)


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        (Bounds(lower=BEST + 5), ["bound-above-objective"]),
        (Bounds(upper=BEST - 4), ["bound-above-objective"]),
        (Bounds(lower=BEST, upper=BEST + 9), []),
        (Bounds(), []),
    ],
)
def test_open_entry_of_the_catalogue_takes_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, known: Bounds, expected: list[str]
) -> None:
    entry = replace(entries()["two-branches"], peak=known)
    monkeypatch.setattr("lowtide.instances.catalogue.entries", lambda: {"two-branches": entry})
    run(tmp_path, SPEC, "reference", bound=BEST - 2)
    assert kinds(audit([tmp_path])) == expected


def test_message_names_the_highest_bound(tmp_path: Path) -> None:
    for method, bound in (("greedy", 10**6), ("reference", 10**7)):
        run(tmp_path, FREE, method, bound=bound)
    found = only(audit([tmp_path]), "bound-above-objective")
    assert found.message.startswith(f"bound {10**7} above")
    assert len(found.records) == 2


def best_known(path: Path, sha256: str, **sides: int) -> None:
    entry = {
        "instance": FREE,
        "instance_sha256": sha256,
        "problem": "peak",
        "unit": "bytes",
        "objective": None,
        "bound": None,
    }
    for side, value in sides.items():
        entry[side] = {"value": value, "method": "m", "date": "2026-01-31", "version": "0.1.0"}  # type: ignore[assignment]
    data = {"format": "lowtide/best-known", "version": 1, "entries": [entry]}
    path.write_text(json.dumps(data))


def test_best_known_file_takes_part(tmp_path: Path) -> None:
    record = run(tmp_path / "out", FREE)
    file = tmp_path / "best_known.json"
    best_known(file, record["instance_sha256"], bound=record["objective"] + 1)
    assert kinds(audit([tmp_path / "out"], best_known=file)) == ["bound-above-objective"]
    assert kinds(audit([tmp_path])) == ["bound-above-objective"]  # found on the way, as records are
    best_known(file, record["instance_sha256"], bound=2, objective=1)
    assert kinds(audit([], best_known=file)) == ["bound-above-objective"]


def test_instance_that_is_not_at_hand_is_unchecked_not_wrong(tmp_path: Path) -> None:
    record = run(tmp_path, SPEC)
    path = tmp_path / record["plan"]
    plan = json.loads(gzip.decompress(path.read_bytes()))
    plan["graph"]["source"] = "catalogue:gone"
    path.write_bytes(gzip.compress(json.dumps(plan).encode()))
    write(tmp_path, {**record, "spec": "catalogue:gone"})
    found = audit([tmp_path])
    assert found.contradictions == []
    assert "gone" in found.unchecked[0][1]
    write(tmp_path, {**record, "spec": "catalogue:diamond"})
    assert "changed since" in audit([tmp_path]).unchecked[0][1]


def test_malformed_records_are_listed_and_the_others_compared(tmp_path: Path) -> None:
    low = run(tmp_path, FREE, "greedy")
    run(tmp_path, FREE, "reference", bound=low["objective"] + 1)
    write(tmp_path, {**low, "name": "00strange", "objective": "12"})
    (tmp_path / "records" / "00" / "00cut.json").write_text('{"name": "00c')
    assert sorted(kinds(audit([tmp_path]))) == ["bound-above-objective", "malformed", "malformed"]


def test_committed_tables_are_read_and_others_named(tmp_path: Path) -> None:
    record = run(tmp_path / "out", FREE)
    keys = ("name", "instance", "instance_sha256", "problem", "method", "status", "objective", "bound")
    row = {**record, "method": "other", "bound": record["objective"] + 1, "name": "r2"}
    lines = [",".join(keys), ",".join("" if row[k] is None else str(row[k]) for k in keys)]
    (tmp_path / "table.csv").write_text("\n".join(lines))
    (tmp_path / "figure.csv").write_text("x,y\n1,2\n")
    (tmp_path / "rows.jsonl").write_text(json.dumps({**row, "plan": None, "name": "r3"}) + "\n")
    found = audit([tmp_path])
    assert found.records == 3
    assert only(found, "table-unread").records == (str(tmp_path / "figure.csv"),)
    assert "found no column 'instance'" in only(found, "table-unread").message
    who = only(found, "bound-above-objective")
    assert {name.split(": ")[1].split()[0] for name in who.records} == {record["name"], "r2", "r3"}
    with pytest.raises(InstanceError, match="no column 'instance'"):
        audit([tmp_path / "figure.csv"])


@pytest.mark.slow
def test_command_lists_records_and_exits_1(tmp_path: Path) -> None:
    low = run(tmp_path / "out", FREE, "greedy")
    run(tmp_path / "out", FREE, "reference", keep_plan=False)
    good = answer("audit", "out", cwd=tmp_path)
    assert (good["consistent"], good["records"], good["plans_verified"]) == (True, 2, 1)
    run(tmp_path / "out", FREE, "reference", bound=low["objective"] + 1)
    bad = answer("audit", "out", cwd=tmp_path, status=1)
    assert [c["kind"] for c in bad["contradictions"]] == ["bound-above-objective"]
    done = within("audit", "out", cwd=tmp_path)
    assert done.returncode == 1
    assert low["name"] in done.stdout
    assert "invalid: 1 contradiction" in done.stdout


@pytest.mark.slow
def test_command_without_paths_compares_what_is_known(tmp_path: Path) -> None:
    assert answer("audit", cwd=tmp_path)["consistent"]


@pytest.mark.parametrize("path", ["nothing", "text.json"])
def test_what_is_no_record_is_refused(tmp_path: Path, path: str) -> None:
    (tmp_path / "text.json").write_text("[]")
    done = within("audit", path, cwd=tmp_path)
    assert done.returncode == 2
