"""Records of the library: only what verifies and is better is written, all of it or nothing, and audited."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from lowtide.models.errors import InstanceError, LowtideError
from lowtide.results.audits.audit import audit
from lowtide.results.audits.best_known import BestKnown, read_best_known
from lowtide.results.library.sets import find_entry
from lowtide.results.library.submission import submit
from tests.commands import answer, contents, refused
from tests.experiments import proved, run

SET, ENTRY = find_entry("peak-hard-001")
GREEDY = 446
"""Bytes of the greedy order's peak on the question."""
WORST: dict[str, Any] = {"value": 900, "method": "nobody"}


@pytest.fixture
def known(tmp_path: Path) -> Path:
    """Return a best-known file in which the question has a bad objective and no bound."""
    entry = {"instance": ENTRY.spec, "instance_sha256": ENTRY.sha256, "problem": "peak", "unit": "bytes"}
    data = {
        "format": "lowtide/best-known",
        "version": 1,
        "entries": [entry | {"objective": WORST, "bound": None}],
    }
    path = tmp_path / "best" / "known.json"
    path.parent.mkdir()
    path.write_text(json.dumps(data))
    return path


def read(known: Path) -> BestKnown:
    return read_best_known(known)[ENTRY.sha256, "peak"]


def kinds(known: Path) -> list[str]:
    return [c.kind for c in audit([known.parent], best_known=known).contradictions]


def test_a_better_answer_is_a_record_that_the_audit_verifies(tmp_path: Path, known: Path) -> None:
    run(tmp_path / "out", ENTRY.spec, bound=5)
    done = submit([str(tmp_path / "out")], "A. Author", best_known=known)
    assert [(c.side, c.old, c.new) for c in done.changes] == [
        ("objective", 900, GREEDY)
    ]  # no proof, no bound
    assert done.files == [known.parent / "plans" / f"{ENTRY.id}-{GREEDY}.json"]
    entry = read(known)
    assert entry.objective is not None
    assert (entry.objective.by, entry.objective.method, entry.objective.date) == (
        "A. Author",
        "greedy",
        "2026-11-20",
    )
    assert (entry.bound, entry.status) == (None, "open")
    assert [(past.side, past.mark.value) for past in entry.history] == [("objective", 900)]
    record = json.loads(done.files[0].read_text())
    assert (record["by"], record["bound"], record["limits"]["threads"]) == ("A. Author", None, 1)
    assert "host" not in record["machine"]
    assert kinds(known) == []
    record["plan"]["runs"].pop()
    done.files[0].write_text(json.dumps(record))
    assert kinds(known) == ["plan-invalid", "record-unproved"]
    done.files[0].unlink()
    assert kinds(known) == ["record-unproved"]


def test_what_is_not_better_or_does_not_verify_changes_nothing(tmp_path: Path, known: Path) -> None:
    record = run(tmp_path / "out", ENTRY.spec, change=proved)
    plan = tmp_path / "out" / record["plan"]
    kept = plan.read_bytes()
    data = json.loads(gzip.decompress(kept))
    data["runs"].pop()
    plan.write_bytes(gzip.compress(json.dumps(data).encode()))
    before = contents(tmp_path)
    for path in (tmp_path / "out", plan):
        with pytest.raises(InstanceError, match="does not verify"):
            submit([str(path)], "me", question=ENTRY.id, best_known=known)
    assert contents(tmp_path) == before
    plan.write_bytes(kept)
    words = ("library", "submit", "out", "--by", "me", "--best-known", "best/known.json")
    assert len(answer(*words, cwd=tmp_path)["records"]) == 1
    assert "nothing is better than the best known: peak-hard-001: objective 446" in refused(
        *words, cwd=tmp_path
    )


def test_a_plan_finds_its_question(tmp_path: Path, known: Path) -> None:
    record = run(tmp_path / "out", ENTRY.spec)
    plan = str(tmp_path / "out" / record["plan"])
    done = submit([plan], "me", best_known=known)
    assert [file.name for file in done.files] == [f"{ENTRY.id}-{GREEDY}.json"]
    assert kinds(known) == []
    other = run(tmp_path / "two", "catalogue:two-branches")
    with pytest.raises(
        LowtideError, match=r"found questions of the library that it may answer: none; expected --id"
    ):
        submit([str(tmp_path / "two" / other["plan"])], "me", best_known=known)
    with pytest.raises(LowtideError, match="found no answer to a question of the library"):
        submit([str(tmp_path / "two")], "me", best_known=known)


def test_a_bound_counts_with_a_certificate_that_holds(tmp_path: Path, known: Path) -> None:
    record = run(tmp_path / "out", ENTRY.spec, change=proved)
    (tmp_path / "out" / record["plan"]).with_name("proof.json").write_text("{}")
    run(tmp_path / "out", ENTRY.spec, change=proved, certificate={"path": "plans/proof.json"})
    with pytest.raises(InstanceError, match="found no file"):
        submit([str(tmp_path / "out")], "me", best_known=known)
    assert read(known).objective.value == 900  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("out",), "found out, expected paths and --by NAME"),
        (("--by", "me"), "found no path"),
        (("nowhere", "--by", "me"), "found neither a plan nor"),
        (("x.json", "--by", "me", "--certificate", "y"), "--certificate goes with --id"),
    ],
)
def test_the_command_refuses(tmp_path: Path, words: tuple[str, ...], message: str) -> None:
    assert message in refused("library", "submit", *words, cwd=tmp_path)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"status": "certified"}, "found status 'certified', expected none"),
        ({"status": "fine"}, "status: found"),
        ({"history": [{"side": "left", "value": 3, "method": "x"}]}, "side: found"),
        ({"history": [3]}, "history"),
        ({"tried": {"x": [1]}}, "x: found"),
    ],
)
def test_a_bad_record_is_refused(known: Path, change: dict[str, Any], words: str) -> None:
    data = json.loads(known.read_text())
    data["entries"][0] |= change
    known.write_text(json.dumps(data))
    with pytest.raises(InstanceError, match=words):
        read_best_known(known)
