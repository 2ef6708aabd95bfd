"""Whatever happens to a sweep, no record is lost, doubled or damaged, and resuming finishes the rest."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lowtide.results.sweeps.folder import record_path, write_runs
from lowtide.results.sweeps.runspec import RunSpec
from tests.commands import command, lowtide
from tests.sweep_methods import alive, let_go, planned, records_of, told, wait_for


def folder_of(folder: Path, runs: list[RunSpec]) -> Path:
    out = folder / "out"
    write_runs(out, runs)
    return out


def bench(out: Path, *options: str, **changes: Any) -> subprocess.Popen[str]:
    """Start to go on with a folder."""
    return subprocess.Popen(
        command("bench", "--resume", out, "--quiet", "--json", *options),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A background job may have been started with the signal ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        **changes,
    )


def finish(out: Path, *options: str, status: int = 0) -> dict[str, Any]:
    """Go on with a folder to the end; return the summary."""
    done = lowtide("bench", "--resume", out, "--quiet", "--json", *options, cwd=out)
    assert done.returncode == status, done.stderr
    summary: dict[str, Any] = json.loads(done.stdout)
    return summary


def stamps(out: Path) -> dict[str, int]:
    return {name: record_path(out, name).stat().st_mtime_ns for name in records_of(out)}


def test_killed_sweep_resumes(defects: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HELD", "4 5 6")
    runs = [planned(seed=seed) for seed in range(6)]
    out = folder_of(defects, runs)
    with bench(out, "--jobs", "2") as process:
        wait_for(lambda: len(records_of(out)) >= 2, "two records")
        process.kill()
    before = stamps(out)
    assert 2 <= len(before) < 6
    wait_for(lambda: not any(map(alive, told(defects))), "the end of the runs")
    let_go(defects)
    summary = finish(out, "--jobs", "2")
    assert (summary["done"], summary["finished"]) == (6, 6 - len(before))
    after = stamps(out)
    assert {*after} == {run.name for run in runs}
    assert before.items() <= after.items()


@pytest.mark.slow
def test_killed_run_is_one_failed_row_and_can_be_retried(
    defects: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HELD", "1")
    out = folder_of(defects, [planned(seed=seed) for seed in range(2)])
    with bench(out) as process:
        wait_for(lambda: told(defects), "the first run")
        os.kill(int(told(defects)[0]), signal.SIGKILL)
        assert process.wait(600) == 1
    first, second = sorted(records_of(out).values(), key=lambda record: record["started"])
    assert (first["status"], first["killed_by"], second["status"]) == ("failed", "signal 9", "feasible")
    assert finish(out, status=1)["finished"] == 0
    before = stamps(out)
    assert finish(out, "--retry", "failed")["statuses"] == {"feasible": 2}
    after = stamps(out)
    assert {name for name in after if after[name] != before[name]} == {first["name"]}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.slow
def test_stopped_sweep_leaves_no_half_run(defects: Path, number: signal.Signals) -> None:
    out = folder_of(defects, [planned("user-nap"), planned("user-deaf", grace=1000)])
    with bench(out, "--jobs", "2") as process:
        wait_for(lambda: len(records_of(out)) == 1 and len(told(defects)) == 2, "both runs")
        process.send_signal(number)
        stdout, stderr = process.communicate(timeout=600)
    assert process.returncode == 130
    assert json.loads(stdout)["interrupted"]
    assert f"lowtide bench --resume {out}" in stderr
    assert [record["method"] for record in records_of(out).values()] == ["user-nap"]
    wait_for(lambda: not any(map(alive, told(defects))), "the end of the runs")


@pytest.mark.slow
def test_job_that_is_cancelled_with_its_run_leaves_no_record(defects: Path) -> None:
    run = planned("user-deaf", grace=1000)
    out = folder_of(defects, [run])
    with subprocess.Popen(command("job", out, run.name), stderr=subprocess.PIPE) as process:
        wait_for(lambda: told(defects), "the run")
        os.kill(int(told(defects)[0]), signal.SIGTERM)
        process.terminate()
        assert process.wait(600) == 130
    assert records_of(out) == {}


@pytest.mark.slow
def test_stopped_job_leaves_no_record(defects: Path) -> None:
    runs = [planned("user-nap"), planned("user-deaf", grace=1000), planned("user-nap", seed=1)]
    out = folder_of(defects, runs)
    with subprocess.Popen(
        command("job", out, *(run.name for run in runs)), stderr=subprocess.PIPE
    ) as process:
        wait_for(lambda: len(told(defects)) == 2, "the second run")
        process.terminate()
        assert process.wait(600) == 130
    assert {*records_of(out)} == {runs[0].name}


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "truncated": lambda content: content[: len(content) // 2],
    "empty": lambda content: b"",
    "zeros": lambda content: bytes(len(content)),
    "another run's": lambda content: content.replace(b'"name": "', b'"name": "0'),
}


@pytest.mark.slow
def test_damaged_records_are_made_again(tmp_path: Path) -> None:
    runs = [planned("greedy", seed=seed) for seed in range(len(DAMAGES) + 1)]
    out = folder_of(tmp_path, runs)
    assert finish(out, "--jobs", "2")["finished"] == len(runs)
    before = stamps(out)
    for run, damage in zip(runs, DAMAGES.values(), strict=False):
        path = record_path(out, run.name)
        path.write_bytes(damage(path.read_bytes()))
    assert finish(out, "--jobs", "2")["finished"] == len(DAMAGES)
    after = stamps(out)
    assert {name for name in after if after[name] == before[name]} == {runs[-1].name}


@pytest.mark.slow
def test_second_process_refuses_or_shares(defects: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HELD", "1")
    runs = [planned(seed=seed) for seed in range(4)]
    out = folder_of(defects, runs)
    with bench(out) as first:
        wait_for(lambda: told(defects), "the first run")
        second = lowtide("bench", "--resume", out, cwd=defects)
        assert second.returncode == 2
        assert f"found process {first.pid} of" in second.stderr
        let_go(defects)
        summary = finish(out, "--join")
        stdout, _ = first.communicate(timeout=600)
    assert len(told(defects)) == 4
    assert summary["finished"] + json.loads(stdout)["finished"] == 4
    assert {*records_of(out)} == {run.name for run in runs}
    # Nobody holds the folder now.
    assert finish(out)["finished"] == 0


def check_full(out: Path, code: int, stderr: str) -> None:
    assert code == 2, stderr
    assert stderr.count("\n") == 1
    assert not records_of(out)
    assert not [path for path in out.rglob("*") if path.name.endswith(".tmp")]


@pytest.mark.slow
def test_file_size_limit_stops_the_sweep(tmp_path: Path) -> None:
    out = folder_of(tmp_path, [planned("greedy", seed=seed) for seed in range(4)])

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (512, 512))  # a log fits, a record does not

    done = subprocess.run(
        command("bench", "--resume", out, "--quiet"),
        preexec_fn=limited,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert f"no record is lost, lowtide bench --resume {out} goes on" in done.stderr
    check_full(out, done.returncode, done.stderr)
    assert finish(out, "--jobs", "2")["done"] == 4


@contextlib.contextmanager
def small_disk(folder: Path, size: str) -> Iterator[None]:
    """Mount a small file system in memory."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"tmpfs", os.fsencode(folder), b"tmpfs", 0, f"size={size}".encode()):
        pytest.skip("a small file system cannot be mounted here")
    try:
        yield
    finally:
        libc.umount2(os.fsencode(folder), 2)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="mounts a file system of Linux")
@pytest.mark.parametrize("pages", [1, 3])
def test_full_disk_stops_the_sweep(tmp_path: Path, pages: int) -> None:
    """Room is left for the lock only, or for log and plan too, but not for the record."""
    out = tmp_path / "out"
    out.mkdir()
    with small_disk(out, "256k"):
        runs = [planned("greedy", seed=seed, save_plan=True) for seed in range(4)]
        write_runs(out, runs)
        filler = out / "filler"
        with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))
        os.truncate(filler, filler.stat().st_size - 4096 * pages)
        done = lowtide("bench", "--resume", out, "--quiet", cwd=tmp_path)
        assert "No space left on device" in done.stderr
        check_full(out, done.returncode, done.stderr)
        filler.unlink()
        assert finish(out, "--jobs", "2")["statuses"] == {"feasible": 4}
