"""Committed tables: the audit reads all of them, and finds whatever is changed in them or beside them."""

from __future__ import annotations

import csv
import gzip
import json
import lzma
import re
from collections.abc import Callable
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest

import lowtide as lt
from lowtide.instances import load_problem, write_answer
from lowtide.instances.spec import resolved_spec
from lowtide.models.errors import InstanceError
from lowtide.results.audits.again import make_again
from lowtide.results.audits.audit import audit
from lowtide.results.audits.best_known import read_best_known
from lowtide.results.audits.claims import claim_of
from lowtide.results.audits.evidence import read_claims
from lowtide.results.audits.findings import Audit
from lowtide.results.audits.improvements import update
from lowtide.results.audits.ledger import ledger_of, write_ledger
from lowtide.results.certificates import with_certificate
from lowtide.results.tables.declared import filled, read_declared, records_of_row, with_questions
from tests.commands import answer, within
from tests.experiments import run

RESULTS = Path(__file__).parents[2] / "results"
GRAPHS = ("two-branches", "harpoon", "accumulate", "randwire-20-0")
DECLARED = """
[speed]
no_claims = "seconds"

[[small]]
problem = "peak"
instance = "catalogue:{graph}"
claims = [
    { method = "auto", status = "status", objective = "peak", bound = "bound" },
    { method = "weak", objective = "weak", bound = "below", gap = "gap" },
    { method = "reference", objective = "reference", bound = "below" },
]
elsewhere = { graph = ["secret"] }

[columns.small]
key = ["graph"]
derived = { ops = "graph_ops", ratio = "reference / below" }

[columns.speed]
key = ["what"]
measured = ["seconds"]
derived = { half = "seconds / 2" }
quoted = { published = "a paper" }
"""


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    return copytree(made.parent, tmp_path / "copy") / "results"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables, answers with their certificates, and the best-known file that fits them."""
    tmp_path = tmp_path_factory.mktemp("audited")
    rows: list[dict[str, Any]] = []
    records = []
    found = tmp_path / "results"
    (found / "answers").mkdir(parents=True)
    for graph in GRAPHS:
        spec = f"catalogue:{graph}"
        problem = lt.Peak(lt.load(spec))
        best, plain = lt.solve(problem, threads=1), lt.solve(problem, "reference")
        assert best.bound is not None
        assert plain.objective is not None
        rows.append(
            {
                "graph": graph,
                "status": str(best.status),
                "peak": best.objective,
                "bound": best.bound,
                "reference": plain.objective,
                "below": best.bound - 1,
                "weak": 2 * best.bound,
                "gap": (best.bound + 1) / (2 * best.bound),
                "ops": len(problem.graph.ops),
                "ratio": plain.objective / (best.bound - 1),
            }
        )
        certificate = found / "answers" / f"{graph}.proof.json.gz"
        best = with_certificate(best, problem, str(certificate), threads=1)
        write_answer(best, found / "answers" / f"{graph}.json.gz")
        record = best.record(f"{graph}.json.gz")
        record["certificate"]["path"] = certificate.name
        records.append({**record, "name": graph, "instance": spec, "instance_sha256": problem.graph.sha256})
    (found / "answers" / "records.jsonl").write_text("".join(f"{json.dumps(r)}\n" for r in records))
    (found / "tables.toml").write_text(DECLARED)
    (found / "speed.csv").write_text("what,seconds,half,published\nx,1.5,0.75,41\ny,3,1.5,43\n")
    declared = read_declared(found)
    assert declared is not None
    rows = with_questions(declared["small"], [*rows, {"graph": "secret", "peak": 3}], found)
    with (found / "small.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    update(read_claims([found]).claims, tmp_path / "best.json")
    write_ledger(found, ledger_of(found, audited(found).unwitnessed))
    return found


def audited(folder: Path) -> Audit:
    return audit([folder], best_known=folder.parent / "best.json")


def test_all_of_it_is_read_and_verified_again(folder: Path) -> None:
    found = audited(folder)
    assert found.contradictions == []
    assert (found.records, found.questions) == (4 * len(GRAPHS), len(GRAPHS))
    assert (found.plans, found.certificates, found.best_with_plan) == (len(GRAPHS),) * 3
    assert found.instances == len(GRAPHS)
    assert [Path(table).name for table in found.tables] == ["records.jsonl", "small.csv"]
    assert [(Path(table).name, why) for table, why in found.no_claims] == [("speed.csv", "seconds")]
    assert (found.elsewhere, found.unchecked) == (1, [])


def cell(name: str, change: Callable[[str], str], graph: str = "two-branches") -> Callable[[Path], None]:
    """Return the change of a cell of the table."""

    def changed(folder: Path) -> None:
        path = folder / "small.csv"
        with path.open(newline="") as file:
            rows = list(csv.DictReader(file))
        for row in rows:
            if row["graph"] == graph:
                row[name] = change(row[name])
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)

    return changed


def less(text: str) -> str:
    return str(int(text) - 1)


def more(text: str) -> str:
    return str(int(text) + 1)


def text_of(name: str, change: Callable[[str], str]) -> Callable[[Path], None]:
    """Return the change of a file of text."""

    def changed(folder: Path) -> None:
        path = folder / name
        before = path.read_text()
        path.write_text(change(before))
        assert path.read_text() != before

    return changed


def json_of(name: str, change: Callable[[dict[str, Any]], None]) -> Callable[[Path], None]:
    """Return the change of a gzipped JSON file."""

    def changed(folder: Path) -> None:
        path = folder / name
        data = json.loads(gzip.decompress(path.read_bytes()))
        change(data)
        path.write_bytes(gzip.compress(json.dumps(data).encode()))

    return changed


def swapped(plan: dict[str, Any]) -> None:
    runs = plan["runs"]
    runs[0]["op"], runs[-1]["op"] = runs[-1]["op"], runs[0]["op"]


def proves_more(certificate: dict[str, Any]) -> None:
    certificate["bound"] += 1


def other_name(folder: Path) -> None:
    (folder / "small.csv").rename(folder / "other.csv")


def record_says(objective: int, bound: int) -> Callable[[Path], None]:
    new = f'"objective": {objective}, "bound": {bound}'
    return text_of("answers/records.jsonl", lambda t: t.replace('"objective": 15, "bound": 15', new))


def names(old: str, new: str) -> Callable[[Path], None]:
    return text_of("answers/records.jsonl", lambda t: t.replace(f'"{old}"', f'"{new}"'))


def removed(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).unlink()


def unknown_table(folder: Path) -> None:
    (folder / "new.csv").write_text("x,y\n1,2\n")


def hash_of_nothing(text: str) -> str:
    return re.sub("[0-9a-f]{64}", "0" * 64, text, count=1)


CHANGES: dict[str, tuple[Callable[[Path], None], str]] = {
    "a better objective": (cell("peak", less), "better-than-known"),
    "a worse objective": (cell("peak", more), "optimal-without-proof"),
    "a better objective without a proof": (cell("reference", lambda text: "1"), "better-than-known"),
    "an objective that is not the best": (cell("weak", less), "malformed"),
    "a gap": (cell("gap", lambda text: "0.5"), "malformed"),
    "a gap that is no number": (cell("gap", lambda text: "half"), "malformed"),
    "no gap": (cell("gap", lambda text: ""), "malformed"),
    "a bound above the objective": (cell("bound", more), "bound-above-objective"),
    "a bound below it": (cell("bound", less), "optimal-without-proof"),
    "a bound that is empty": (cell("bound", lambda text: ""), "optimal-without-proof"),
    "a status that is none": (cell("status", lambda text: "solved"), "malformed"),
    "an objective that is no number": (cell("peak", lambda text: "12.5"), "malformed"),
    "another instance": (cell("instance", lambda text: "catalogue:diamond"), "malformed"),
    "another graph": (
        text_of("small.csv", lambda t: t.replace("two-branches", "diamond")),
        "instance-differs",
    ),
    "an instance that is not there": (
        text_of("small.csv", lambda t: t.replace("two-branches", "gone")),
        "instance-differs",
    ),
    "another hash": (text_of("small.csv", hash_of_nothing), "instance-differs"),
    "no hash": (cell("instance_sha256", lambda text: ""), "malformed"),
    "a column less": (text_of("small.csv", lambda t: t.replace("bound", "band", 1)), "table-unread"),
    "another name of a table": (other_name, "table-unread"),
    "a table that nobody tells of": (unknown_table, "table-unread"),
    "a table that nobody tells of any more": (
        text_of("tables.toml", lambda t: t.replace("[speed]", "[quick]")),
        "table-unread",
    ),
    "a plan": (json_of("answers/harpoon.json.gz", swapped), "plan-invalid"),
    "no plan": (removed("answers/harpoon.json.gz"), "plan-missing"),
    "a plan of another question": (names("harpoon.json.gz", "accumulate.json.gz"), "plan-invalid"),
    "a certificate": (json_of("answers/harpoon.proof.json.gz", proves_more), "certificate-invalid"),
    "no certificate": (removed("answers/harpoon.proof.json.gz"), "certificate-missing"),
    "a certificate of another question": (
        names("harpoon.proof.json.gz", "accumulate.proof.json.gz"),
        "certificate-invalid",
    ),
    "an objective of a record": (record_says(14, 14), "objective-differs"),
    "a bound of a record": (record_says(15, 16), "bound-differs"),
}


@pytest.mark.parametrize("what", CHANGES)
def test_every_change_is_found(folder: Path, what: str) -> None:
    change, kind = CHANGES[what]
    change(folder)
    assert kind in {c.kind for c in audited(folder).contradictions}


@pytest.mark.slow
def test_command_fails_with_a_clear_word(folder: Path) -> None:
    best = ("--best-known", folder.parent / "best.json")
    good = answer("audit", folder, *best, cwd=folder)
    assert (good["consistent"], good["certificates_verified"], good["rows_elsewhere"]) == (
        True,
        len(GRAPHS),
        1,
    )
    assert [Path(row["table"]).name for row in good["no_claims"]] == ["speed.csv"]
    (folder / "new.csv").write_text("x,y\n1,2\n")
    done = within("audit", folder, *best, cwd=folder)
    assert done.returncode == 1
    assert "found no column 'instance'" in done.stdout
    assert "tables.toml" in done.stdout


def test_what_a_table_says_is_marked_until_a_plan_is_there(folder: Path) -> None:
    known = {entry.instance: entry for entry in read_best_known(folder.parent / "best.json").values()}
    assert known["catalogue:harpoon"].objective is not None
    assert known["catalogue:harpoon"].objective.table is None
    best = folder.parent / "tables.json"
    update(read_claims([folder / "small.csv"]).claims, best)
    alone = {entry.instance: entry for entry in read_best_known(best).values()}["catalogue:harpoon"]
    assert alone.objective is not None
    assert (alone.objective.value, alone.objective.table) == (15, "small.csv")
    update(read_claims([folder]).claims, best)
    with_plan = {entry.instance: entry for entry in read_best_known(best).values()}["catalogue:harpoon"]
    assert with_plan.objective is not None
    assert (with_plan.objective.value, with_plan.objective.table) == (15, None)


@pytest.mark.slow
def test_the_committed_tables_say_nothing_that_cannot_be() -> None:
    found = audit([RESULTS], plans="none")
    assert found.contradictions == []
    tables = {*map(str, (RESULTS / "experiments").rglob("*.csv"))}
    assert {*found.tables} | {table for table, _ in found.no_claims} >= tables
    assert found.questions > 1300


@pytest.mark.slow
def test_committed_paths_count_from_their_folder() -> None:
    folder = RESULTS / "experiments"
    for path in folder.rglob("*.csv"):
        for line in path.read_text().splitlines():
            assert not re.search(r"""(^|[,"=])[/~]""", line), f"{path.name}: {line[:200]}"
    for path in folder.glob("offsets_heights/plans/*.json.gz"):
        text = gzip.decompress(path.read_bytes()).decode()
        assert not re.search('"source": "[/~]', text), path.name
    for path in folder.glob("*/witnesses.jsonl.xz"):
        specs = re.findall(r'"instance":"([^"]+)"', lzma.decompress(path.read_bytes()).decode())
        assert specs, path.name
        for spec in specs:
            assert not re.search(r"(^|=)[/~]", spec), spec


@pytest.mark.parametrize(
    ("problem", "spec", "method"),
    [
        ("peak", "gen:randwire?n=8,seed=3", "greedy"),
        ("offsets", "catalogue:minimalloc/example", "auto"),
        ("placement", "gen:chain?n=6&seed=1&machine=v100-16g-pcie3&start=gpu&device=100B", "demand-lru"),
        ("makespan", "gen:tasks?n=12&cores=2&processors=2&memory=120", "list"),
        ("parallel-memory", "gen:layered?layers=3&width=3&seed=1&processors=2", "auto"),
        ("recompute", "gen:backprop-chain?l=4&accounting=replace&memory=4B", "revolve"),
        ("minio", "catalogue:harpoon?memory=13", "postorder"),
    ],
)
def test_answers_to_every_problem_are_verified_again(
    tmp_path: Path, problem: str, spec: str, method: str
) -> None:
    record = run(tmp_path, spec, method, problem=problem)
    assert record["objective"] is not None
    found = audit([tmp_path])
    assert (found.contradictions, found.unchecked, found.plans) == ([], [], 1)


@pytest.mark.slow
def test_edges_are_verified_again_with_their_flow(tmp_path: Path) -> None:
    spec = "gen:layered?layers=3&width=3&seed=1&bound=60"
    problem = load_problem(lt.MemoryEdges, spec)
    result = with_certificate(
        lt.solve(problem, "respect-order", threads=1), problem, str(tmp_path / "proof.json"), threads=1
    )
    write_answer(result, tmp_path / "plan.json")
    record = {**result.record("plan.json"), "instance": spec, "instance_sha256": problem.instance.sha256}
    record["certificate"]["path"] = "proof.json"
    (tmp_path / "record.json").write_text(json.dumps(record))
    found = audit([tmp_path / "record.json"])
    assert (found.contradictions, found.unchecked) == ([], [])
    assert (found.plans, found.certificates) == (1, 1)
    proof = json.loads((tmp_path / "proof.json").read_text())
    proof["setting"]["edges"] = []
    (tmp_path / "proof.json").write_text(json.dumps(proof))
    assert {c.kind for c in audit([tmp_path / "record.json"]).contradictions} >= {"certificate-invalid"}


@pytest.mark.parametrize(("shift", "kinds"), [(-1, ["bound-above-objective"]), (1, [])])
def test_bounds_of_what_is_maximized_lie_above(tmp_path: Path, shift: int, kinds: list[str]) -> None:
    spec = "gen:layered?layers=3&width=3&seed=1"
    best = run(tmp_path, spec, "auto", problem="parallel-memory")["objective"]
    run(tmp_path, spec, "flow", problem="parallel-memory", name="0" * 16, keep_plan=False,
        objective=None, status="unknown", bound=best + shift)  # fmt: skip
    found = audit([tmp_path])
    assert [c.kind for c in found.contradictions] == kinds


def test_questions_about_one_graph_are_different_questions() -> None:
    graph = "gen:layered?layers=3&width=3&seed=1"
    specs = [
        ("parallel-memory", graph),
        ("parallel-memory", f"{graph}&processors=2"),
        ("parallel-memory", f"{graph}&processors=3"),
        ("memory-edges", f"{graph}&bound=60"),
        ("memory-edges", f"{graph}&bound=61"),
        ("memory-edges", f"{graph}&bound=60&processors=2"),
    ]
    assert len({load_problem(*each).instance.sha256 for each in specs}) == len(specs)


def test_templates() -> None:
    row = {"graph": "gen:sp?n=5", "memory": 7, "processors": "", "seed": None}
    assert filled("{graph}?memory={memory}[&processors={processors}]", row) == "gen:sp?n=5&memory=7"
    assert filled("{graph}", {**row, "graph": "catalogue:chain"}) == "catalogue:chain"
    with pytest.raises(InstanceError, match="found no column 'nodes', expected one"):
        filled("{nodes}", row)


def test_methods_that_are_made_again_and_when_a_row_was_made(tmp_path: Path) -> None:
    (tmp_path / "tables.toml").write_text(
        "[[a]]\nproblem = 'peak'\n"
        "claims = [{ method = '{method}', objective = 'peak', again = ['greedy', 'liu'] }]\n"
    )
    declared = (read_declared(tmp_path) or {})["a"]
    row = {"instance": "catalogue:chain", "instance_sha256": "0", "peak": "3", "date": "2026-01-31"}
    records = [
        record
        for method in ("greedy", "local-search", "liu")
        for record in records_of_row(declared, {**row, "method": method, "version": ""}, "row")
    ]
    assert [record["again"] for record in records] == [True, False, True]
    assert {(record["started"], record["version"]) for record in records} == {("2026-01-31", None)}


def test_a_row_is_made_again_with_its_options() -> None:
    """Disk-Revolve with reads=once needs 585 ns there, without it 572."""
    folder = RESULTS / "experiments"
    declared = (read_declared(folder) or {})["recompute_chains"]
    with (folder / "recompute_chains/table.csv").open() as file:
        rows = list(csv.DictReader(file))
    row = next(row for row in rows if row["objective"] == "585" and row["method"] == "disk-revolve")
    row["instance"] = resolved_spec(row["instance"], str(folder / "recompute_chains"))
    (record,) = records_of_row(declared, row, "row")
    for parameters, contradictions in (({"reads": "once"}, 0), ({}, 1)):
        claim = claim_of({**record, "parameters": parameters}, "row", "row", folder)
        assert claim is not None
        found = Audit()
        make_again([claim], found, 60, "a draw")
        assert (found.again, len(found.contradictions)) == (1, contradictions)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[a]]\nproblem = 'peak'\n", "a, question 1: found no key 'claims'"),
        ("[[a]]\nproblem = 'peek'\nclaims = [{ method = 'auto' }]\n", 'problem: found "peek"'),
        ("[a]\nwhy = 'speed'\n", "found unknown key 'why'"),
        ("a = 3\n", "a: found 3, expected questions or no_claims"),
        ("[[a]]\nproblem = 'peak'\nclaims = [{ method = 'x', again = 3 }]\n", "expected true or a list"),
        ("[[a\n", "found no TOML"),
    ],
)
def test_faults_of_what_is_told(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "tables.toml").write_text(text)
    with pytest.raises(InstanceError, match=re.escape(message)):
        read_declared(tmp_path)
