"""``solve --certificate`` and ``verify --certificate`` as a user types them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

import lowtide as lt
from lowtide.models.verifier.proofs.refused import Refused
from lowtide.solvers.registry import ROOMS
from tests.commands import answer, contents, refused, within

SPEC = "gen:randwire?n=20&seed=1"


@pytest.fixture
def solved(tmp_path: Path) -> Path:
    """Return a folder with a plan and a certificate of its peak."""
    found = answer(
        "solve",
        "peak",
        SPEC,
        "--threads",
        "1",
        "--plan",
        "plan.json",
        "--certificate",
        "proof.json.gz",
        cwd=tmp_path,
    )
    assert found["status"] == "optimal"
    size = (tmp_path / "proof.json.gz").stat().st_size
    certificate = {"path": "proof.json.gz", "kind": "descents", "bytes": size, "checked": True, "detail": ""}
    assert found["certificate"] == certificate
    return tmp_path


def test_a_certificate_is_confirmed_alone_and_with_its_plan(solved: Path) -> None:
    alone = answer("verify", "--certificate", "proof.json.gz", cwd=solved)
    assert (alone["valid"], alone["kind"], alone["optimal"]) == (True, "descents", None)
    assert alone["checked"] > 10
    both = answer("verify", "plan.json", "--certificate", "proof.json.gz", cwd=solved)
    assert (both["valid"], both["plan_valid"], both["optimal"]) == (True, True, True)
    assert both["peak"] == both["bound"]
    shown = within("verify", "plan.json", "--certificate", "proof.json.gz", cwd=solved).stdout
    assert "confirmed: no order has a lower peak" in shown


def test_an_order_above_the_bound_is_not_confirmed(solved: Path) -> None:
    (solved / "order.txt").write_text("\n".join(map(str, range(22))))
    found = answer("verify", SPEC, "--order", "order.txt", "--certificate", "proof.json.gz", cwd=solved)
    assert (found["valid"], found["plan_valid"], found["optimal"]) == (True, True, False)


def test_a_false_bound_exits_1_with_a_witness(solved: Path) -> None:
    data = json.loads(gzip.decompress((solved / "proof.json.gz").read_bytes()))
    data["bound"] += 1
    (solved / "false.json").write_text(json.dumps(data))
    found = answer("verify", "--certificate", "false.json", cwd=solved, status=1)
    assert not found["valid"]
    assert "expected at least the bound" in found["witness"]
    done = within("verify", "plan.json", "--certificate", "false.json", cwd=solved)
    assert done.returncode == 1
    assert "invalid: " in done.stdout


def test_another_graph_is_bad_input(solved: Path) -> None:
    line = refused(
        "verify",
        "--certificate",
        "proof.json.gz",
        "--graph",
        "gen:randwire?n=20&seed=2",
        cwd=solved,
        run=within,
    )
    assert "sha256: found" in line


def test_a_truncated_file_is_bad_input(solved: Path) -> None:
    content = (solved / "proof.json.gz").read_bytes()
    (solved / "half.json.gz").write_bytes(content[: len(content) // 2])
    line = refused("verify", "--certificate", "half.json.gz", cwd=solved, run=within)
    assert "found a truncated gzip file" in line


def test_without_a_source_the_graph_must_be_given(solved: Path) -> None:
    data = json.loads(gzip.decompress((solved / "proof.json.gz").read_bytes()))
    data["graph"]["source"] = None
    (solved / "bare.json").write_text(json.dumps(data))
    assert "expected --graph SPEC" in refused("verify", "--certificate", "bare.json", cwd=solved, run=within)
    assert answer("verify", "--certificate", "bare.json", "--graph", SPEC, cwd=solved)["valid"]


def test_too_large_a_certificate_is_not_written(tmp_path: Path) -> None:
    found = answer(
        "solve", "peak", SPEC, "--certificate", "proof.json", "--certificate-limit", "100B", cwd=tmp_path
    )
    told = found["certificate"]
    assert (told["path"], told["kind"], told["checked"]) == (None, "descents", False)
    assert told["bytes"] > 100
    assert told["detail"] == f"found {told['bytes']:,} bytes, expected at most the limit 100"
    assert contents(tmp_path) == {}


def test_no_bound_no_certificate(tmp_path: Path) -> None:
    found = answer(
        "solve", "peak", SPEC, "--method", "reference", "--certificate", "proof.json", cwd=tmp_path
    )
    assert found["certificate"]["detail"] == "there is no bound"
    assert contents(tmp_path) == {}


def test_a_proof_that_does_not_hold_is_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from lowtide.models.certificate import Certificate
    from lowtide.models.graph import Graph
    from lowtide.models.verifier.proofs.working_set import WorkingSetProof

    def wrong(graph: Graph, bound: int, **limits: object) -> Certificate:
        proof = WorkingSetProof(at="op", op=0)
        return Certificate(
            bound=bound, proof=proof, graph_name="", graph_source=None, graph_sha256=graph.sha256
        )

    monkeypatch.setattr("lowtide.solvers.peak.certify.certify.certify", wrong)
    found = answer("solve", "peak", SPEC, "--certificate", "proof.json", cwd=tmp_path, status=1)
    assert found["status"] == "failed"
    assert "the certificate does not hold: op 0" in found["detail"]
    assert contents(tmp_path) == {}


CERTIFIED = {
    "peak": ("catalogue:diamond",),
    "arena": ("catalogue:diamond",),
    "placement": ("gen:chain?n=5&seed=1", "--machine", "a100-40g-pcie3"),
    "parallel-memory": ("catalogue:diamond",),
    "memory-edges": ("gen:randwire?n=12&seed=1", "--bound", "1GB"),
}
"""A question of each problem with certificates."""


@pytest.mark.parametrize("problem", [name for name, room in ROOMS.items() if room.certify])
@pytest.mark.parametrize("error", [ValueError("no luck"), lt.InstanceError("no luck"), MemoryError()])
def test_what_was_found_outlasts_its_certifier(
    problem: str, error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*arguments: object, **limits: object) -> None:
        assert (tmp_path / "plan.json").exists(), "a certifier that is killed must not lose the plan"
        raise error

    module, name = ROOMS[problem].certify.split(":")
    monkeypatch.setattr(f"lowtide.solvers{module}.{name}", failing)
    words = ("solve", problem, *CERTIFIED[problem], "--plan", "plan.json", "--certificate", "proof.json")
    plain = answer(*words[:-2], cwd=tmp_path)
    (tmp_path / "plan.json").unlink()
    found = answer(*words, cwd=tmp_path)
    assert [found[key] for key in ("status", "objective", "plan")] == [
        "optimal",
        plain["objective"],
        "plan.json",
    ]
    told = {ValueError: "the certifier failed: ValueError: no luck", MemoryError: "out of memory"}
    assert found["certificate"]["detail"] == told.get(type(error), "no luck")
    assert found["certificate"]["path"] is None
    assert answer("verify", "plan.json", cwd=tmp_path)["valid"]
    shown = within(*words, cwd=tmp_path)
    assert f"not written: {found['certificate']['detail']}" in shown.stdout


def test_the_plan_outlasts_a_wrong_proof(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lowtide.models.verifier.certificate._check_peak", doubtful)
    words = ("solve", "peak", "catalogue:diamond", "--plan", "plan.json", "--certificate", "proof.json")
    found = answer(*words, cwd=tmp_path, status=1)
    assert found["detail"] == "the certificate does not hold: a doubt"
    assert (found["plan"], found["verified"], found["certificate"]["path"]) == ("plan.json", True, None)
    assert answer("verify", "plan.json", cwd=tmp_path)["valid"]


def doubtful(*proof: object) -> int:
    raise Refused("a doubt")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("solve", "offsets", "x.csv", "--certificate", "p.json"), "expected it with peak or arena"),
        (("solve", "peak", SPEC, "--certificate-limit", "1MB"), "without --certificate"),
        (("solve", "peak", SPEC, "--certificate", "p.txt"), "expected .json or .json.gz"),
        (("solve", "peak", SPEC, "--certificate", "no/p.json"), "found no folder"),
        (("verify",), "expected a plan, an allocation or --certificate FILE"),
        (("verify", "--certificate", "none.json"), "found no such file"),
        (("verify", "--certificate", "none.json", "--bound", "3"), "expected neither"),
        (("verify", "--certificate", "none.json", "--buffers", "x.csv"), "expected neither"),
    ],
)
def test_misuse_is_one_line(arguments: tuple[str, ...], expected: str, tmp_path: Path) -> None:
    assert expected in refused(*arguments, cwd=tmp_path, run=within)
