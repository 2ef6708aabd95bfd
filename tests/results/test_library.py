"""The sets of the library: frozen, made from the pool, run as experiments, scored."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from lowtide.models.errors import InstanceError, UsageError
from lowtide.results.audits.audit import audit
from lowtide.results.audits.best_known import BestKnown, Mark
from lowtide.results.experiments.library.make import MOST, MOST_OF_FAMILY, chosen, files
from lowtide.results.experiments.library.pool import UNCLEAR, class_of
from lowtide.results.library.experiment import experiment_text
from lowtide.results.library.scores import NewRecord, mean_rank, new_records, scores
from lowtide.results.library.sets import FOLDER, VERSION, find_entry, find_set, read_set, set_text, sets
from lowtide.results.sweeps.experiment import ExperimentError, read_experiment
from lowtide.results.sweeps.job import load_question
from lowtide.results.sweeps.runspec import Limits
from lowtide.results.tables.measured import measured
from tests.commands import answer, lowtide, refused, users_methods
from tests.sweeps import record

LIMITS = Limits(seconds=20)


def test_the_pool_gives_the_committed_files() -> None:
    committed = {path.name: path.read_bytes() for path in (FOLDER / VERSION).iterdir()}
    assert files() == committed


def test_reading_and_writing_are_inverse() -> None:
    for some in sets():
        problem, level = some.name.split("/")[1:]
        path = FOLDER / VERSION / f"{problem}-{level}.json"
        assert set_text(some) == path.read_bytes()
        assert some.problem == problem


def test_no_question_is_in_two_sets_and_no_family_rules() -> None:
    seen: set[tuple[str, str]] = set()
    for some in sets():
        own = {(some.problem, entry.sha256) for entry in some.entries}
        assert not own & seen
        assert len(own) == len(some.entries) <= MOST
        seen |= own


@pytest.mark.slow
@pytest.mark.parametrize("name", [some.name for some in sets()])
def test_every_question_loads_with_its_hash(name: str) -> None:
    some = find_set(name)
    for entry in some.entries:
        assert load_question(some.problem, entry.spec).instance.sha256 == entry.sha256


def row(number: int, family: str, origin: str, ops: int) -> dict[str, Any]:
    flat = dict.fromkeys(("edges", "memory", "processors"))
    features = {"ops": ops, "width": 1, "depth": 1, "bytes": 1, "largest": 1, "shared": 0, **flat}
    return {"sha256": f"{number:064x}", "family": family, "origin": origin, "features": features}


def test_the_choice_spreads_and_does_not_depend_on_the_order_of_the_pool() -> None:
    pool = [row(i, f"family {i % 9}", "generated" if i % 3 else "real", 10 + i * i) for i in range(120)]
    taken = chosen(pool)
    assert taken == chosen(pool[::-1])
    assert len(taken) == MOST
    families = [some["family"] for some in taken]
    assert max(map(families.count, families)) <= MOST_OF_FAMILY
    assert sum(some["origin"] == "real" for some in taken) == MOST  # three families of forty real ones
    ops = [some["features"]["ops"] for some in taken]
    assert min(ops) == 10
    assert max(ops) == max(some["features"]["ops"] for some in pool if some["origin"] == "real")


TRIED = {"auto": (10, 8), "greedy": (12, None), "reference": (14, None), "none": (None, 7)}


def known(objective: int | None, bound: int | None) -> BestKnown:
    best, proved = (
        None if value is None else Mark(value=value, method="auto") for value in (objective, bound)
    )
    return BestKnown(
        instance="x", sha256="0" * 64, problem="peak", unit="bytes", objective=best, bound=proved, tried=TRIED
    )


def test_classes_follow_from_what_is_known() -> None:
    quick = {"method": "auto", "status": "optimal", "objective": 5, "bound": 5, "seconds": 9.9}
    failed = {"method": "cpsat", "status": "feasible", "objective": 6, "bound": 4, "seconds": 60.0}
    assert class_of(known(5, 4), [quick]) == "open"
    assert class_of(known(5, None), []) == "open"
    assert class_of(known(5, 5), [quick, failed]) == "easy"
    assert class_of(known(5, 5), [{**quick, "seconds": 10.1}]) == "hard"
    assert class_of(known(5, 5), [failed]) == UNCLEAR
    assert class_of(known(5, 5), [failed, {**failed, "method": "auto", "limits": {}}]) == "hard"
    assert class_of(known(5, 5), [{**failed, "method": "greedy"}]) == "easy"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"sha256": "xyz"}, "sha256: found"),
        ({"features": {"ops": -1}}, "ops: found -1"),
        ({"question": {"memory": 5}}, "memory: found 5"),
        ({"origin": "mine"}, "origin: found"),
        ({"id": 3}, "id: found 3"),
        ({"more": 1}, "unknown key"),
    ],
)
def test_a_bad_entry_is_refused(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    data = json.loads((FOLDER / VERSION / "peak-hard.json").read_text())
    data["entries"][1] |= change
    (tmp_path / "x.json").write_text(json.dumps(data))
    with pytest.raises(InstanceError, match=words):
        read_set(tmp_path / "x.json")


@pytest.mark.parametrize(
    "data", [[], {}, {"format": "lowtide/set"}, {"format": "lowtide/plan", "version": 1}]
)
def test_what_is_no_set_is_refused(tmp_path: Path, data: object) -> None:
    (tmp_path / "x.json").write_text(json.dumps(data))
    with pytest.raises(InstanceError):
        read_set(tmp_path / "x.json")


def changed(tmp_path: Path) -> Path:
    """Write a set of one question whose hash is that of nothing."""
    data = json.loads((FOLDER / VERSION / "peak-hard.json").read_text())
    data["entries"] = [data["entries"][0] | {"sha256": "0" * 64}]
    path = tmp_path / "peak-hard.json"
    path.write_text(json.dumps(data))
    return path


@pytest.mark.slow
def test_audit_tells_of_a_changed_hash(tmp_path: Path) -> None:
    found = audit([changed(tmp_path)])
    assert [c.kind for c in found.contradictions] == ["instance-differs"]
    data = json.loads(changed(tmp_path).read_text())
    data["entries"][0]["sha256"] = find_set("peak/hard").entries[0].sha256
    (tmp_path / "peak-hard.json").write_text(json.dumps(data))
    assert not audit([tmp_path / "peak-hard.json"]).contradictions


@pytest.mark.slow
def test_an_experiment_refuses_a_changed_hash(tmp_path: Path) -> None:
    some = read_set(changed(tmp_path))
    (tmp_path / "x.toml").write_text(experiment_text(some, some.entries, "greedy", LIMITS, [0]))
    with pytest.raises(ExperimentError, match=r"expected 0{64}: the instance has changed"):
        read_experiment(tmp_path / "x.toml")


@pytest.mark.slow
def test_an_experiment_has_the_questions_of_the_set(tmp_path: Path) -> None:
    some = find_set("minio/hard")
    (tmp_path / "x.toml").write_text(experiment_text(some, some.entries, "auto", LIMITS, [3]))
    (run,) = read_experiment(tmp_path / "x.toml").runs
    entry = some.entries[0]
    assert (run.source, run.instance_sha256, run.seed) == (entry.spec, entry.sha256, 3)
    assert (run.limits, run.save_plan) == (LIMITS, True)


def frame(*records: dict[str, Any]) -> pd.DataFrame:
    return measured(pd.json_normalize(list(records), sep="_").assign(setting="mine"))


def test_scores_count_what_is_missing_as_a_gap_of_all() -> None:
    runs = frame(
        record("a", "mine", objective=100, bound=80, seconds=1.0),
        record("b", "mine", status="unknown", seconds=60.0),
        record("c", "mine", status="optimal", objective=7, bound=7, seconds=2.0),
    )
    table = scores(runs)
    cells = dict(zip(table.columns, table.cells[0], strict=True))
    assert [cells[c].value for c in ("solved", "feasible")] == [1, 2]
    mean = math.exp((math.log(21) + math.log(101) + math.log(1)) / 3) - 1  # percents and a shift of one
    assert cells["gap to best bound [%]"].value == pytest.approx(mean / 100)
    mean = math.exp((math.log(1) + math.log(101) + math.log(1)) / 3) - 1
    assert cells["gap to best known [%]"].value == pytest.approx(mean / 100)
    assert cells["PAR10 [s]"].value == pytest.approx((600 + 600 + 2) / 3)


def test_new_records_are_better_than_all_that_is_known() -> None:
    runs = frame(record("a", "mine", objective=10, bound=8, seconds=1.0, instance_sha256="0" * 64))
    question = ("0" * 64, "peak")
    assert new_records(runs, {question: known(10, 8)}) == []
    assert new_records(runs, {question: known(11, 9)}) == [NewRecord("a", "mine", "objective", 11, 10)]
    assert new_records(runs, {question: known(9, None)}) == [NewRecord("a", "mine", "bound", None, 8)]


def test_sets_and_questions_by_name() -> None:
    assert find_set("peak/hard") == find_set(f"{VERSION}/peak/hard")
    some, entry = find_entry("peak-hard-001")
    assert entry in some.entries
    with pytest.raises(UsageError, match="found no set 'peak/hardd'"):
        find_set("peak/hardd")
    with pytest.raises(UsageError, match="found no question 'peak-hard-999'"):
        find_entry("peak-hard-999")


def test_the_command_lists_and_shows(tmp_path: Path) -> None:
    listed = answer("library", "list", cwd=tmp_path)["sets"]
    assert [row["set"] for row in listed] == [some.name for some in sets()]
    questions = answer("library", "list", "peak/hard", cwd=tmp_path)["questions"]
    shown = answer("library", "show", questions[0]["id"], cwd=tmp_path)
    assert shown == questions[0]
    assert shown["status"] in ("certified", "claimed")
    assert shown["best"] == shown["bound"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("show",), "found no name, expected the id of a question"),
        (("run",), "found no name, expected the name of a set"),
        (("run", "peak/hard"), "found no --method"),
        (("run", "peak/none", "--method", "greedy"), "found no set 'peak/none'"),
        (("run", "peak/hard", "--method", "greedy", "--only", "xyz"), "found no question"),
        (("run", "peak/hard", "--method", "greedyy"), "found 'greedyy'"),
    ],
)
def test_the_command_refuses(tmp_path: Path, words: tuple[str, ...], message: str) -> None:
    assert message in refused("library", *words, cwd=tmp_path)


@pytest.mark.slow
def test_a_method_of_a_user_beats_a_record(tmp_path: Path) -> None:
    entry = find_set("peak/hard").entries[0]
    worse = {"value": 10**6, "method": "nobody"}
    old = {"instance": entry.spec, "instance_sha256": entry.sha256, "problem": "peak", "unit": "bytes"}
    data = {
        "format": "lowtide/best-known",
        "version": 1,
        "entries": [{**old, "objective": worse, "bound": None}],
    }
    (tmp_path / "known.json").write_text(json.dumps(data))
    words = ("library", "run", "peak/hard", "--method", "user-backwards", "--only", entry.id, "--out", "out")
    env = users_methods(tmp_path / "site")
    env["PYTHONPATH"] = os.pathsep.join((env["PYTHONPATH"], os.environ.get("PYTHONPATH", "")))
    found = answer(*words, "--quiet", "--best-known", "known.json", cwd=tmp_path, env=env)
    (new,) = found["records"]
    assert (new["side"], new["old"], new["instance"]) == ("objective", 10**6, entry.spec)
    assert found["statuses"] == {"feasible": 1}
    again = lowtide(*words, "--quiet", cwd=tmp_path, env=env)
    assert "new record" not in again.stdout
    assert "1/1" in again.stdout


def test_ranks_are_among_other_methods() -> None:
    runs = frame(
        record("a", "mine", objective=11, instance_sha256="0" * 64),
        record("b", "mine", status="unknown", instance_sha256="0" * 64),
        record("c", "greedy", objective=11, instance_sha256="0" * 64),
        record("d", "mine", objective=1, instance_sha256="1" * 64),
    )
    rank, rivals = mean_rank(runs, {("0" * 64, "peak"): known(10, 8)})
    assert (rank, rivals) == ((2 + 4 + 2) / 3, (3 + 3 + 2) / 3)
    assert mean_rank(runs, {}) == (None, 0.0)
