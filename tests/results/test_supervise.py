"""One run in its own process: whatever it does, it costs one row, and the row says the truth."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lowtide import load, verify
from lowtide.instances import read_plan
from lowtide.models.errors import UsageError
from lowtide.results.sweeps import supervise as supervise_module
from lowtide.results.sweeps.folder import log_path, read_record, record_path
from lowtide.results.sweeps.runspec import RunSpec
from lowtide.results.sweeps.supervise import THREAD_VARIABLES, supervise
from tests.sweep_methods import alive, planned, told, wait_for


def record_of(out: Path, run: RunSpec) -> dict[str, Any]:
    record = supervise(out, run)
    assert record is not None
    assert read_record(record_path(out, run.name)) == json.loads(json.dumps(record))
    return record


@pytest.mark.slow
def test_record_of_a_run_that_is_proved(tmp_path: Path) -> None:
    graph = load("catalogue:two-branches")
    run = planned("beam", seconds=20, memory=2 << 30, instance_sha256=graph.sha256, save_plan=True)
    record = record_of(tmp_path, run)
    assert (record["status"], record["objective"], record["bound"], record["gap"]) == ("optimal", 12, 12, 0)
    assert (record["instance"], record["spec"], record["graph"]) == (run.instance, run.instance, graph.name)
    assert (record["name"], record["instance_sha256"], record["verified"]) == (run.name, graph.sha256, True)
    assert record["limits"] == {"seconds": 20, "memory": 2 << 30, "threads": 1}
    assert (record["killed_by"], record["returncode"], record["reason"]) == (None, 0, None)
    assert {"load", "build", "solve", "verify", "total"} == {*record["seconds"]}
    assert 0 < record["seconds"]["load"] < record["seconds"]["total"]
    assert record["cpu_seconds"] > 0
    assert 10**6 < record["peak_rss"] < 2 << 30
    assert record["machine"]["cores"] >= 1
    assert record["trace"][-1][1:] == [12, 12, "exhaustive pass"]
    verify(graph, read_plan(tmp_path / record["plan"])).raise_if_invalid()
    assert "incumbent 12 bytes, bound 12 bytes" in (tmp_path / record["log"]).read_text()


@pytest.mark.slow
def test_threads_are_set_for_every_library(defects: Path) -> None:
    record = record_of(defects, planned("user-surroundings", threads=3, seed=7, memory=1 << 30))
    log = (defects / record["log"]).read_text().splitlines()
    (threads, seed, seconds, memory), *_ = (line.split() for line in log if line.count(" ") == 3)
    assert (threads, seed, seconds) == ("3", "7", "20.0")
    assert 800 << 20 < int(memory) < 1 << 30  # what is left for the method, and a reserve
    for name in THREAD_VARIABLES:
        assert f"{name} 3" in log


@pytest.fixture
def leaps(monkeypatch: pytest.MonkeyPatch, defects: Path) -> Callable[[int], None]:
    """Return what sets how often the supervisor's clock leaps a day ahead, once a method has told."""

    def leap(count: int) -> None:
        days = iter(range(1, count + 1))
        day = 0

        def monotonic() -> float:
            nonlocal day
            if told(defects):
                day = next(days, day)
            return time.monotonic() + 86_400 * day

        monkeypatch.setattr(supervise_module, "time", SimpleNamespace(monotonic=monotonic))

    return leap


@pytest.mark.slow
@pytest.mark.parametrize("handler", [signal.default_int_handler, signal.SIG_IGN], ids=["here", "background"])
def test_asked_to_stop_it_keeps_its_incumbent(
    defects: Path, leaps: Callable[[int], None], handler: Any
) -> None:
    """Also where a shell ignores Ctrl-C for what it runs in the background."""
    leaps(2)  # one of them may pass with the word that the graph is loaded
    before = signal.signal(signal.SIGINT, handler)
    try:
        record = record_of(defects, planned("user-patient", seconds=20, grace=120))
    finally:
        signal.signal(signal.SIGINT, before)
    assert (record["status"], record["reason"], record["objective"]) == ("feasible", "time", 16)
    assert (record["killed_by"], record["returncode"]) == (None, 0)


@pytest.mark.slow
def test_deaf_is_killed(defects: Path, leaps: Callable[[int], None]) -> None:
    leaps(10**6)
    record = record_of(defects, planned("user-deaf", seconds=20, grace=120))
    assert (record["status"], record["reason"], record["killed_by"]) == ("unknown", "time", "time")
    assert (record["objective"], record["bound"], record["gap"], record["returncode"]) == (
        None,
        None,
        None,
        -9,
    )
    assert record["seconds"]["load"] is not None


@pytest.mark.slow
def test_memory_is_limited(defects: Path) -> None:
    record = record_of(defects, planned("user-hog", memory=150 << 20))
    assert (record["status"], record["reason"], record["killed_by"]) == ("unknown", "memory", "memory")
    assert 150 << 20 < record["peak_rss"] < 400 << 20


@pytest.mark.slow
def test_memory_of_all_processes_is_limited_and_all_are_killed(defects: Path) -> None:
    record = record_of(defects, planned("user-hog_below", memory=300 << 20))
    assert (record["status"], record["killed_by"]) == ("unknown", "memory")
    assert record["peak_rss"] > 300 << 20
    wait_for(lambda: not alive(told(defects)[0]), "the end of the other process")


@pytest.mark.slow
def test_vast_allocation_fails_under_a_limit(defects: Path) -> None:
    record = record_of(defects, planned("user-vast", memory=1 << 30))
    assert (record["status"], record["reason"], record["killed_by"]) == ("unknown", "memory", None)


@pytest.mark.slow
def test_what_a_run_leaves_behind_is_killed(defects: Path) -> None:
    assert record_of(defects, planned("user-lasting"))["status"] == "feasible"
    wait_for(lambda: not alive(told(defects)[0]), "the end of the other process")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "killed_by", "words"),
    [
        ("user-segfault", "signal 11", "killed by SIGSEGV: Fatal Python error: Segmentation fault"),
        ("user-leave", None, "exit status 3 without an answer: leaving"),
    ],
)
def test_crash_is_a_failed_row(defects: Path, method: str, killed_by: str | None, words: str) -> None:
    record = record_of(defects, planned(method))
    assert (record["status"], record["reason"], record["killed_by"]) == ("failed", "crash", killed_by)
    assert words in record["detail"]
    assert (record["objective"], record["verified"], record["trace"]) == (None, False, [])


@pytest.mark.slow
def test_instance_that_changed_is_a_failed_row(tmp_path: Path) -> None:
    record = record_of(tmp_path, planned("greedy", instance_sha256="0" * 64))
    assert record["status"] == "failed"
    assert "found sha256" in record["detail"]


@pytest.mark.slow
def test_instance_that_is_gone_is_a_failed_row(tmp_path: Path) -> None:
    record = record_of(tmp_path, planned("greedy", instance="nowhere.json"))
    assert (record["status"], record["detail"][:12]) == ("failed", "nowhere.json")


@pytest.mark.slow
def test_other_sources_are_refused_without_a_record(tmp_path: Path) -> None:
    run = planned("greedy", source_hash="0123456789abcdef")
    with pytest.raises(UsageError, match="other solver sources"):
        supervise(tmp_path, run)
    assert not record_path(tmp_path, run.name).exists()


@pytest.mark.slow
def test_stopped_leaves_no_record(defects: Path) -> None:
    run, stop, records = planned("user-deaf"), threading.Event(), []
    thread = threading.Thread(target=lambda: records.append(supervise(defects, run, stop=stop)))
    thread.start()
    wait_for(lambda: told(defects) or not thread.is_alive(), "the run")
    stop.set()
    thread.join()
    assert records == [None]
    assert not record_path(defects, run.name).exists()
    assert not alive(told(defects)[0])


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's signal at the parent's death is Linux's")
def test_run_ends_with_its_supervisor(defects: Path) -> None:
    run = planned("user-deaf")
    program = (
        "import json, sys; from pathlib import Path; from lowtide.results.sweeps.runspec import RunSpec; "
        "from lowtide.results.sweeps.supervise import supervise; "
        "supervise(Path(sys.argv[1]), RunSpec.from_dict(json.loads(sys.argv[2])))"
    )
    words = [sys.executable, "-c", program, str(defects), json.dumps(run.to_dict())]
    with subprocess.Popen(words) as process:
        wait_for(lambda: told(defects), "the run")
        os.kill(process.pid, signal.SIGKILL)
    wait_for(lambda: not alive(told(defects)[0]), "the end of the run")
    assert not record_path(defects, run.name).exists()
    assert log_path(defects, run.name).exists()
