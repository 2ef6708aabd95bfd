"""Forgeries in copies of the committed tables: the audit finds each, and nothing in what is committed."""

from __future__ import annotations

import csv
import json
import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from lowtide.__main__ import main
from lowtide.results.audits.audit import audit
from lowtide.results.audits.best_known import read_best_known
from lowtide.results.audits.evidence import read_claims
from lowtide.results.audits.findings import Audit
from lowtide.results.audits.improvements import update
from lowtide.results.audits.ledger import ledger_of, read_ledger, write_ledger
from lowtide.results.audits.witnesses import LARGEST, WITNESSES, read_witnesses, write_witnesses
from lowtide.results.experiments.running import HERE
from lowtide.results.tables.declared import FILE, TABLE, read_declared
from tests.effort import chosen

Row = dict[str, str]
SMALL = ("partition_latency", "recompute_tiers", "offsets_speed")
"""Tables that are copied: one with witnesses, one without, one without claims."""


def copied(target: Path, names: Sequence[str] = SMALL) -> Path:
    """Return a folder with some of the committed tables, their ledger, and the best-known file they fit."""
    folder = target / "results"
    folder.mkdir()
    for name in names:
        shutil.copytree(HERE / name, folder / name, ignore=shutil.ignore_patterns("*.svg", "*.md", "*.py*"))
    blocks = (HERE / FILE).read_text().split("\n[")
    wanted = [b for b in blocks[1:] if b.lstrip("[").partition("]")[0].removeprefix("columns.") in names]
    (folder / FILE).write_text("".join(f"[{block}\n" for block in wanted))
    update(read_claims([folder]).claims, target / "best.json")
    committed = read_ledger(HERE)
    assert committed is not None
    write_ledger(folder, {name: committed[name] for name in names})
    return folder


def audited(folder: Path, **options: Any) -> Audit:
    return audit([folder], best_known=folder.parent / "best.json", **options)


def kinds(folder: Path, **options: Any) -> set[str]:
    return {c.kind for c in audited(folder, **options).contradictions}


def changed(folder: Path, name: str, change: Callable[[list[Row]], object], *, ledger: bool = False) -> None:
    """Change the rows of a table; with `ledger`, the forger changes the hashes in the ledger as well."""
    path = folder / name / TABLE
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    columns = list(rows[0])
    change(rows)
    columns += [key for key in rows[0] if key not in columns]
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    if ledger:
        said = read_ledger(folder)
        assert said is not None
        counts = {table: Counter(entry.get("unwitnessed", {})) for table, entry in said.items()}
        write_ledger(folder, ledger_of(folder, counts))


def best_known_too(folder: Path) -> None:
    """Write what the tables say into the best-known file, as a forger who knows it does."""
    (folder.parent / "best.json").unlink()
    update([c for c in read_claims([folder]).claims if c.plan is None], folder.parent / "best.json")


def optimal(row: Row) -> None:
    row.update(latency=row["bound"], status="optimal")


def all_optimal(rows: list[Row]) -> None:
    for row in rows:
        optimal(row)


def first_with_gap(rows: list[Row]) -> Row:
    return next(row for row in rows if row["status"] == "feasible" and row["latency"] != row["bound"])


def times(factor: int, *columns: str) -> Callable[[list[Row]], None]:
    def change(rows: list[Row]) -> None:
        for row in rows:
            row.update({key: str(factor * float(row[key])) for key in columns if row[key]})

    return change


def shifted(column: str, by: int) -> Callable[[list[Row]], None]:
    def change(rows: list[Row]) -> None:
        rows[0][column] = str(float(rows[0][column]) + by)

    return change


def put(**cells: str) -> Callable[[list[Row]], None]:
    return lambda rows: rows[0].update(cells)


FORGERIES: dict[str, tuple[str, Callable[[list[Row]], object], bool, str]] = {
    "a false optimum": ("partition_latency", lambda rows: optimal(first_with_gap(rows)), True, "unwitnessed"),
    "all optima false": (
        "partition_latency",
        all_optimal,
        True,
        "unwitnessed",
    ),
    "a peer's column doubled": ("offsets_speed", times(2, "minimalloc"), False, "ledger-differs"),
    "a peer's column times 100, ledger too": (
        "offsets_speed",
        times(100, "minimalloc"),
        True,
        "derived-differs",
    ),
    "a figure of another program": (
        "offsets_speed",
        shifted("omnimalloc height", 5),
        False,
        "ledger-differs",
    ),
    "a row less": ("recompute_tiers", lambda rows: rows.pop(), False, "ledger-differs"),
    "a row twice": ("recompute_tiers", lambda rows: rows.append(rows[0]), False, "ledger-differs"),
    "a row twice, ledger too": ("recompute_tiers", lambda rows: rows.append(rows[0]), True, "row-doubled"),
    "unknown beside values": ("partition_latency", put(status="unknown"), True, "malformed"),
    "no value beside feasible": ("partition_latency", put(status="feasible", latency=""), True, "malformed"),
    "a number of ops": ("partition_latency", put(ops="29"), True, "derived-differs"),
    "a column of the run": ("recompute_tiers", shifted("copies", 1), False, "ledger-differs"),
    "a new column": ("recompute_tiers", put(speedup="2"), True, "column-unclaimed"),
}


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = copied(tmp_path_factory.mktemp("committed"))
    assert audited(folder).contradictions == []
    return folder


@pytest.fixture
def folder(small: Path, tmp_path: Path) -> Path:
    shutil.copytree(small.parent, tmp_path / "copy")
    return tmp_path / "copy/results"


@pytest.mark.parametrize("what", FORGERIES)
def test_forged_cells_are_found(folder: Path, what: str) -> None:
    name, change, ledger, kind = FORGERIES[what]
    changed(folder, name, change, ledger=ledger)
    if kind == "unwitnessed":
        best_known_too(folder)
        assert kind in kinds(folder)
    else:
        found = audit([folder / name], best_known=folder.parent / "best.json")
        assert kind in {c.kind for c in found.contradictions}


@pytest.mark.slow
def test_a_column_that_is_nothing_is_found(folder: Path) -> None:
    path = folder / FILE
    path.write_text(path.read_text().replace('"again", "copies"', '"again"'))
    assert "column-unclaimed" in kinds(folder)


@pytest.mark.slow
def test_no_ledger_is_found(folder: Path) -> None:
    (folder / "ledger.json").unlink()
    assert "ledger-differs" in kinds(folder)


@pytest.mark.slow
@pytest.mark.parametrize("left_out", ["plan", "all"])
def test_witnesses_that_are_missing_are_found(folder: Path, left_out: str) -> None:
    path = folder / "partition_latency" / WITNESSES
    records = read_witnesses(path)
    write_witnesses(path, [{**r, "plan": None} for r in records] if left_out == "plan" else [])
    assert kinds(folder) & {"malformed", "unwitnessed"}


@pytest.mark.slow
def test_a_witness_of_another_objective_is_found(folder: Path) -> None:
    path = folder / "partition_latency" / WITNESSES
    first, *rest = read_witnesses(path)
    write_witnesses(path, [{**first, "objective": first["objective"] - 1}, *rest])
    assert "objective-differs" in kinds(folder)


@pytest.mark.slow
def test_a_row_less_leaves_its_witness_behind(folder: Path) -> None:
    first = read_witnesses(folder / "partition_latency" / WITNESSES)[0]["instance_sha256"]
    forget: Callable[[list[Row]], object] = lambda rows: rows.__setitem__(  # noqa: E731
        slice(None), [row for row in rows if row["instance_sha256"] != first]
    )
    changed(folder, "partition_latency", forget, ledger=True)
    assert "witness-without-row" in kinds(folder)


@pytest.mark.slow
def test_more_memory_that_is_worse_is_found(folder: Path) -> None:
    def worse(rows: list[Row]) -> None:
        for row in rows:
            if row["memory"] == "150":
                row["time"] = "900"

    changed(folder, "recompute_tiers", worse, ledger=True)
    best_known_too(folder)
    assert "worse-than-neighbour" in kinds(folder)


@pytest.mark.slow
def test_the_verdict_counts_the_rows_without_a_witness(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["audit", str(folder), "--best-known", str(folder.parent / "best.json"), "--quiet"]
    assert main(words) == 0
    lacking = sum(sum(counts.values()) for counts in audited(folder).unwitnessed.values())
    assert f"valid: no contradiction; {lacking} rows have no witness" in capsys.readouterr().out


@pytest.mark.slow
def test_a_row_that_is_made_again_is_found(folder: Path) -> None:
    assert audited(folder, again=20, draw="a").again > 0
    changed(
        folder, "recompute_tiers", lambda rows: [row.update(time=f"{2 * int(row['time'])}") for row in rows]
    )
    assert "again-differs" in kinds(folder, again=20, draw="a")


@pytest.mark.slow
def test_certificates_that_are_missing_are_counted(tmp_path: Path) -> None:
    folder = copied(tmp_path, ("peak_versus",))
    write_ledger(folder, ledger_of(folder, audited(folder).unwitnessed))  # other tables have witnesses, too
    assert audited(folder).contradictions == []
    path = folder / "peak_versus" / WITNESSES
    write_witnesses(path, [{**r, "certificate": None, "status": "feasible"} for r in read_witnesses(path)])
    found = audited(folder)
    assert {c.kind for c in found.contradictions} == {"unwitnessed"}
    assert found.unwitnessed["peak_versus"]["bounds"] > 0


OBJECTIVES = ("objective", "time", "period", "makespan", "peak", "height")
"""Columns of objectives; the first one that a table has is its own."""


@pytest.mark.slow
def test_false_optima_are_found_in_every_table(tmp_path: Path) -> None:
    """Of each table with status, objective and bound, every question that is open is said to be closed.

    But for tables that declare that they claim nothing: those are about seconds.
    """
    ledger, declared = read_ledger(HERE), read_declared(HERE)
    assert ledger is not None
    assert declared is not None
    sides = {}
    for name in ledger:
        header = (HERE / name / TABLE).read_text().partition("\n")[0].split(",")
        side = next((key for key in OBJECTIVES if key in header), None)
        if (
            declared[name].no_claims is None
            and side
            and {"status", "bound"} <= {*header}
            and "gap" not in header
        ):
            sides[name] = side
    assert len(sides) > 10
    forged = chosen(sorted(sides), least=10)
    folder = copied(tmp_path, forged)
    for name in forged:

        def close(rows: list[Row], side: str = sides[name]) -> None:
            for row in rows:
                if row["status"] == "feasible" and row["bound"] and row[side] != row["bound"]:
                    row.update({side: row["bound"], "status": "optimal"})

        changed(folder, name, close, ledger=True)
    best_known_too(folder)
    said = json.dumps([c.to_dict() for c in audited(folder, jobs=2).contradictions])
    assert [name for name in forged if name not in said] == []
    assert read_best_known(folder.parent / "best.json")


def test_the_package_stays_small() -> None:
    """A clone takes seconds: witnesses are a few megabytes in all, no file of them more than LARGEST."""
    sizes = [path.stat().st_size for path in HERE.glob(f"*/{WITNESSES}")]
    assert max(sizes) <= LARGEST
    assert sum(sizes) < 5_000_000
