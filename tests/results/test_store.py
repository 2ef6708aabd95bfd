"""The store: what a frame holds, that its copy is never stale, and what damaged files and races do."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path
from typing import Any

import pytest

from lowtide.models.errors import UsageError
from lowtide.models.files import write_whole
from lowtide.results.reports.report_view import views
from lowtide.results.sweeps import record_files
from lowtide.results.tables.measured import measured
from lowtide.results.tables.store import DamagedRecordWarning, flat, frame, missing_runs, read_records
from lowtide.results.tables.store_index import _FORMAT
from lowtide.results.tables.values import value_of
from tests.experiments import run, write
from tests.sweeps import record, sweep, write_experiment


def path_of(folder: Path, values: dict[str, Any]) -> Path:
    name: str = values["name"]
    return folder / "records" / name[:2] / f"{name}.json"


def count_reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that grows by each record file that is read."""
    found: list[str] = []
    original = record_files._parse

    def parse(content: bytes, where: str) -> dict[str, Any] | None:
        found.append(where)
        return original(content, where)

    monkeypatch.setattr(record_files, "_parse", parse)
    return found


def test_records_come_back_as_they_were_written(tmp_path: Path) -> None:
    written = sweep(3)
    write_experiment(tmp_path, written)
    expected = sorted(({**r, "folder": str(tmp_path)} for r in written), key=lambda r: r["name"])
    assert read_records(tmp_path) == expected


def test_frame_has_one_row_per_record_and_exact_whole_numbers(tmp_path: Path) -> None:
    large = 2**61 + 1
    write_experiment(
        tmp_path,
        [
            record("a", objective=large, bound=large - 1, parameters={"width": 16}, seconds=2.5),
            record("b", status="unknown", seconds=None),
        ],
    )
    rows: Any = frame(tmp_path).set_index("instance")
    assert rows.loc["a", "objective"] == large
    assert rows.loc["a", "bound"] == large - 1
    assert rows["objective"].isna().to_dict() == {"a": False, "b": True}
    assert rows.loc["a", "setting"] == "greedy (width=16)"
    assert rows["seconds_solve"].tolist()[0] == 2.5
    assert rows["limits_memory"].tolist() == [2**32] * 2
    assert json.loads(rows.loc["a", "trace"]) == [[1.25, large, large - 1]]
    assert "certificate" not in rows


def test_flat_keys_do_not_hide_lists_or_inner_objects() -> None:
    row = flat({"method": "m", "parameters": {"grid": [1, 2]}, "machine": {"cpu": {"model": "x"}}})
    assert (row["parameters_grid"], row["machine_cpu"]) == ("[1,2]", '{"model":"x"}')


@pytest.mark.parametrize("cache", [True, False])
def test_second_reading_is_the_same(tmp_path: Path, cache: bool) -> None:
    write_experiment(tmp_path, sweep(4))
    first, second = frame(tmp_path, cache=cache), frame(tmp_path, cache=cache)
    assert first.equals(second)
    assert first.dtypes.equals(second.dtypes)
    assert (tmp_path / "index.json.gz").exists() == cache


def test_second_reading_opens_no_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_experiment(tmp_path, sweep(3))
    frame(tmp_path)
    reads = count_reads(monkeypatch)
    frame(tmp_path)
    assert reads == []


def test_only_what_is_new_changed_or_gone_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = sweep(3)
    write_experiment(tmp_path, records[2:])
    frame(tmp_path)
    write_experiment(tmp_path, records[:2])
    changed = {**records[5], "status": "failed", "detail": "tried again"}
    write_whole(path_of(tmp_path, changed), json.dumps(changed).encode())
    path_of(tmp_path, records[6]).unlink()
    reads = count_reads(monkeypatch)
    found = frame(tmp_path)
    assert sorted(reads) == sorted(str(path_of(tmp_path, r)) for r in (*records[:2], changed))
    assert set(found["name"]) == {r["name"] for r in records} - {records[6]["name"]}
    assert found.set_index("name").loc[changed["name"], "detail"] == "tried again"
    assert found.equals(frame(tmp_path, cache=False)[found.columns])


def test_rewritten_record_of_same_size_and_time_is_noticed(tmp_path: Path) -> None:
    old = record("a", objective=11)
    write_experiment(tmp_path, [old])
    path = path_of(tmp_path, old)
    before = path.stat()
    frame(tmp_path)
    write_whole(path, path.read_bytes().replace(b"11,", b"12,"))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_size == before.st_size
    assert frame(tmp_path)["objective"].tolist() == [12]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"no gzip",
        gzip.compress(b"[]"),
        gzip.compress(b'{"format": "lowtide/index"}'),
        gzip.compress(json.dumps({**_FORMAT, "stamps": 1}).encode()),
        gzip.compress(json.dumps({**_FORMAT, "stamps": [["a", 1, 1, 1]], "columns": {"x": []}}).encode()),
    ],
    ids=["empty", "no gzip", "a list", "no stamps", "stamps of another kind", "columns too short"],
)
def test_copy_that_cannot_be_used_is_made_anew(tmp_path: Path, content: bytes) -> None:
    write_experiment(tmp_path, sweep(2))
    expected = frame(tmp_path)
    (tmp_path / "index.json.gz").write_bytes(content)
    assert frame(tmp_path).equals(expected)
    assert (tmp_path / "index.json.gz").read_bytes() != content


def test_truncated_copy_is_made_anew(tmp_path: Path) -> None:
    write_experiment(tmp_path, sweep(2))
    expected = frame(tmp_path)
    whole = (tmp_path / "index.json.gz").read_bytes()
    (tmp_path / "index.json.gz").write_bytes(whole[: len(whole) // 2])
    assert frame(tmp_path).equals(expected)


def test_folder_that_cannot_be_written_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_experiment(tmp_path, sweep(2))

    def refuse(path: Path, content: bytes) -> None:
        raise UsageError(f"{path}: found a full disk, expected room")

    monkeypatch.setattr("lowtide.results.tables.store_index.write_whole", refuse)
    assert len(frame(tmp_path)) == len(sweep(2))
    assert not (tmp_path / "index.json.gz").exists()


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", '{"name": "x"}', '{"instance": "a", "problem": "p", "method": "m", "status": "done"}'],
)
def test_damaged_record_is_left_out_with_a_warning(tmp_path: Path, content: str) -> None:
    good, bad = record("a"), record("b")
    write_experiment(tmp_path, [good, bad])
    path_of(tmp_path, bad).write_text(content)
    for _ in range(2):
        with pytest.warns(DamagedRecordWarning, match=bad["name"]):
            assert frame(tmp_path)["name"].tolist() == [good["name"]]
    with pytest.warns(DamagedRecordWarning):
        assert len(read_records(tmp_path)) == 1


def test_unfinished_files_are_not_records(tmp_path: Path) -> None:
    values = record("a")
    write_experiment(tmp_path, [values])
    shelf = path_of(tmp_path, values).parent
    (shelf / ".lowtide-0123.tmp").write_text("{")
    (shelf / ".hidden.json").write_text("{")
    (shelf.parent / "note.json").write_text("{")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(frame(tmp_path)) == len(read_records(tmp_path)) == 1


def test_experiment_without_records_yet_is_empty(tmp_path: Path) -> None:
    (tmp_path / "records").mkdir()
    assert read_records(tmp_path) == []
    assert {"instance", "method", "status", "objective"} <= {*frame(tmp_path).columns}
    assert len(frame(tmp_path)) == 0


@pytest.mark.parametrize("name", ["records.jsonl", "records.jsonl.gz", "record.json"])
def test_files_of_records_are_read_too(tmp_path: Path, name: str) -> None:
    records = sweep(2)[: 1 if name == "record.json" else None]
    text = "\n".join(json.dumps(r) for r in records).encode()
    path = tmp_path / name
    path.write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    assert [r["name"] for r in read_records(path)] == [r["name"] for r in records]
    assert frame(path)["name"].tolist() == [r["name"] for r in records]


def test_several_folders_count_each_name_once(tmp_path: Path) -> None:
    records = sweep(2)
    one, other = write_experiment(tmp_path / "one", records[:8]), tmp_path / "other"
    write_experiment(other, [{**records[7], "detail": "later"}, *records[8:]])
    found = frame([one, other])
    assert sorted(found["name"]) == sorted(r["name"] for r in records)
    assert found.set_index("name").loc[records[7]["name"], ["detail", "folder"]].tolist() == [
        "later",
        str(other),
    ]
    assert {r["name"]: r["folder"] for r in read_records([one, other])} == dict(
        zip(found["name"], found["folder"], strict=True)
    )


def test_missing_places_are_one_line(tmp_path: Path) -> None:
    for read in (frame, read_records):
        with pytest.raises(UsageError, match="found no such folder"):
            read(tmp_path / "nothing")
        with pytest.raises(UsageError, match="no folder 'records'"):
            read(tmp_path)
        with pytest.raises(UsageError, match="at least one"):
            read([])
        (tmp_path / "x.jsonl.gz").write_bytes(b"no gzip")
        with pytest.raises(UsageError, match="expected a file of run records"):
            read(tmp_path / "x.jsonl.gz")


def test_runs_without_a_record_are_counted(tmp_path: Path) -> None:
    records = sweep(2)
    write_experiment(tmp_path, records[3:])
    assert missing_runs(tmp_path) == 0
    (tmp_path / "runs.json").write_text(json.dumps([{"name": r["name"]} for r in records]))
    assert missing_runs(tmp_path) == 3


@pytest.mark.slow
def test_readers_are_not_disturbed_by_writers(tmp_path: Path) -> None:
    """Records appear and are replaced while several readers renew the copy: no reader sees half of one."""
    records = sweep(6)
    write_experiment(tmp_path, records[:20])
    stop, faults = threading.Event(), []

    def read() -> None:
        while not stop.is_set():
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                try:
                    found = frame(tmp_path)
                    assert len(found) >= 20
                    assert found["name"].is_unique
                except Exception as error:
                    faults.append(error)

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for k, values in enumerate(records[20:]):
        path = path_of(tmp_path, values)
        path.parent.mkdir(exist_ok=True)
        write_whole(path, json.dumps(values).encode())
        again = {**records[k % 20], "detail": "x" * k}
        write_whole(path_of(tmp_path, again), json.dumps(again).encode())
        time.sleep(0.002)
    stop.set()
    for reader in readers:
        reader.join()
    assert faults == []
    assert frame(tmp_path).equals(frame(tmp_path, cache=False)[frame(tmp_path).columns])
    assert len(frame(tmp_path)) == len(records)
    assert not list(tmp_path.glob(".lowtide-*"))


@pytest.mark.slow
def test_pandas_is_imported_only_when_a_frame_is_made() -> None:
    code = "import sys, lowtide.results.tables.store; sys.exit('pandas' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.slow
def test_ten_thousands_of_records(tmp_path: Path) -> None:
    """Written as files, read twice: all rows are there, the second time from the copy."""
    write_experiment(tmp_path, sweep(2000))
    first = frame(tmp_path)
    assert len(first) == 24_000
    assert frame(tmp_path).equals(first)


def test_what_a_plan_costs_is_in_records_tables_and_reports(tmp_path: Path) -> None:
    spec = "catalogue:harpoon?machine=a100-40g-pcie3&device=16B&periodic=1"
    found = run(tmp_path, spec, "belady", problem="placement")
    assert found["peaks"]["gpu"] <= 16
    assert found["traffic"]["gpu->host"] > 0
    assert found["stall"] == found["objective"] - 10
    assert found["recomputed"] == 0
    write(tmp_path, found)
    runs = measured(frame(tmp_path))
    assert value_of(runs, "traffic")[1].tolist() == [sum(found["traffic"].values())]
    assert value_of(runs, "stall")[1].tolist() == [found["stall"]]
    assert value_of(runs, "peaks_gpu")[1].tolist() == [found["peaks"]["gpu"]]
    assert value_of(runs, "traffic_gpu->host")[1].tolist() == [found["traffic"]["gpu->host"]]
    facts = dict(views([found])[0].runs[0].facts)
    assert f"gpu->host {found['traffic']['gpu->host']} B" in facts["traffic"]
    assert {"peaks", "stall"} <= facts.keys()
