"""Sweeps through a real Slurm of one node, started for these tests."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lowtide.results.sweeps.folder import record_path, write_runs
from lowtide.results.sweeps.runspec import RunSpec
from tests.commands import command, lowtide
from tests.sweep_methods import alive, planned, records_of, told, wait_for

SCRIPTS = Path(__file__).parents[1] / "slurm"
NEEDED = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "squeue", "scancel")

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("slurm")]


@pytest.fixture(scope="module")
def cluster() -> Iterator[dict[str, str]]:
    """Start Slurm; yield the environment of its users; end everything that works for it."""
    pytest.importorskip("submitit", reason="submitit is not installed")
    if missing := [name for name in NEEDED if shutil.which(name) is None]:
        pytest.skip(
            f"{', '.join(missing)} not found: Debian's packages slurm-wlm and munge are not installed"
        )
    if os.getuid() != 0:
        pytest.skip("only root can start the daemons of Slurm")
    # A socket's path must be short.
    with tempfile.TemporaryDirectory(prefix="slurm-") as folder:
        try:
            done = subprocess.run(
                [SCRIPTS / "start.sh", folder, str(os.getpid())],
                capture_output=True,
                text=True,
                timeout=600,
                check=False,
            )
            assert done.returncode == 0, done.stderr
            yield {"SLURM_CONF": f"{folder}/slurm.conf", "LOWTIDE_TEST_CLUSTER": folder}
        finally:
            subprocess.run([SCRIPTS / "stop.sh", folder], timeout=600, check=True)


@pytest.fixture
def slurm(cluster: dict[str, str], defects: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let this process and those below use the cluster; return a folder."""
    for key, value in cluster.items():
        monkeypatch.setenv(key, value)
    return defects


def sweep(folder: Path, seeds: int) -> tuple[Path, list[RunSpec]]:
    out, runs = folder / "out", [planned(seed=seed) for seed in range(seeds)]
    write_runs(out, runs)
    return out, runs


@contextlib.contextmanager
def bench(out: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    """Start to go on with a folder on the cluster."""
    words = command("bench", "--resume", out, "--slurm", "partition=cpu,time=10", "--json", *options)
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def finish(process: subprocess.Popen[str], status: int = 0) -> tuple[dict[str, Any], str]:
    """Wait for the end; return the summary and what was said."""
    stdout, stderr = process.communicate(timeout=600)
    assert process.returncode == status, stderr
    return json.loads(stdout), stderr


def squeue(states: str) -> list[str]:
    """Return the numbers of the tasks in some states."""
    done = subprocess.run(
        ["squeue", "-h", "-r", "-t", states, "-o", "%i"], capture_output=True, text=True, check=True
    )
    return sorted(done.stdout.split(), key=lambda number: [*map(int, number.split("_"))])


def stamps(out: Path) -> dict[str, int]:
    return {name: record_path(out, name).stat().st_mtime_ns for name in records_of(out)}


def started(folder: Path) -> int:
    return len(told(folder))


def test_cancelled_task_is_resumed(slurm: Path) -> None:
    out, runs = sweep(slurm, 30)
    with bench(out, "--chunk", "10") as process:
        wait_for(lambda: len(records_of(out)) >= 6, "six records")
        cancelled = squeue("RUNNING")[0]
        subprocess.run(["scancel", cancelled], check=True)
        summary, said = finish(process, status=1)
    before = stamps(out)
    assert 20 <= len(before) < 30
    assert (summary["done"], summary["finished"]) == (len(before), len(before))
    assert {record["status"] for record in records_of(out).values()} == {"feasible"}
    assert ": 30 runs in 3 tasks" in said
    assert f"task {cancelled} ended (CANCELLED), {30 - len(before)} of its runs are left" in said
    again = f"lowtide bench --resume {out} --slurm partition=cpu,time=10 --chunk 10"
    assert f"{30 - len(before)} runs have no record; {again} goes on" in said
    with bench(out, "--chunk", "10") as process:
        summary, _ = finish(process)
    assert (summary["done"], summary["finished"]) == (30, 30 - len(before))
    after = stamps(out)
    assert {*after} == {run.name for run in runs}
    assert before.items() <= after.items()
    # Only the run in work was begun twice, if there was one just then.
    assert started(slurm) in (30, 31)


def test_array_outlives_the_process_that_watches_it(slurm: Path) -> None:
    out, runs = sweep(slurm, 12)
    with bench(out, "--chunk", "4", "--jobs", "1") as process:
        wait_for(lambda: records_of(out), "a record")
        process.kill()
    assert len(squeue("PENDING,RUNNING")) > 1
    with bench(out, "--chunk", "4") as process:
        wait_for(lambda: len(records_of(out)) >= 5, "five records")
        process.terminate()
        summary, said = finish(process, status=130)
    assert summary["interrupted"]
    assert "are still there, for " in said
    assert "the tasks go on in Slurm; scancel " in said
    with bench(out, "--chunk", "4") as process:
        summary, said = finish(process)
    assert summary["done"] == 12
    assert "runs in" not in said  # nothing had to be submitted
    assert {*records_of(out)} == {run.name for run in runs}
    assert started(slurm) == 12


def test_task_that_slurm_requeues_goes_on(slurm: Path) -> None:
    many = 20  # so that the task still runs when it is requeued, however late that is
    out, runs = sweep(slurm, many)
    with bench(out, "--chunk", str(many)) as process:
        wait_for(lambda: len(records_of(out)) >= 2, "two records")
        (number,) = squeue("RUNNING")
        before = stamps(out)
        subprocess.run(["scontrol", "requeue", number], check=True)
        wait_for(lambda: squeue("PENDING") == [number], "the requeued task")
        # Slurm would begin it again after two minutes.
        subprocess.run(["scontrol", "update", f"JobId={number}", "StartTime=now"], check=True)
        summary, _ = finish(process)
    assert summary["finished"] == many
    after = stamps(out)
    assert {*after} == {run.name for run in runs}
    assert before.items() <= after.items()


def test_retried_run_counts_when_its_record_is_new(slurm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good = planned()
    bad = planned(instance_sha256="0" * 64)
    out = slurm / "out"
    write_runs(out, [good, bad])
    with bench(out) as process:
        summary, _ = finish(process, status=1)
    assert summary["statuses"] == {"failed": 1, "feasible": 1}
    before = stamps(out)
    with bench(out, "--retry", "failed") as process:
        summary, _ = finish(process, status=1)
    assert summary["finished"] == 1
    after = stamps(out)
    assert (after[good.name], after[bad.name] > before[bad.name]) == (before[good.name], True)


def test_refused_tasks_leave_nothing(slurm: Path) -> None:
    out, _ = sweep(slurm, 2)
    done = lowtide("bench", "--resume", out, "--slurm", "partition=none", cwd=slurm)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "sbatch refused the tasks: sbatch: error: invalid partition specified: none" in done.stderr
    assert not [*(out / "slurm").iterdir()]


def test_scripts_leave_no_process(cluster: dict[str, str], tmp_path: Path) -> None:
    """Daemons, tasks and whatever carries the cluster's mark are ended; others are not."""
    job = tmp_path / "job"
    with tempfile.TemporaryDirectory(prefix="slurm-") as folder:
        nap = [sys.executable, "-c", "import time; time.sleep(300)"]
        env = {**os.environ, "SLURM_CONF": f"{folder}/slurm.conf", "LOWTIDE_TEST_CLUSTER": folder}
        with subprocess.Popen(nap, env=env) as inside, subprocess.Popen(nap) as outside:
            try:
                subprocess.run([SCRIPTS / "start.sh", folder], timeout=600, check=True)
                words = ["sbatch", "-o", "/dev/null", "--wrap", f"echo $$ > {job}; exec sleep 300"]
                subprocess.run(words, env=env, check=True)
                wait_for(lambda: job.exists() and job.read_text(), "the job")
                assert len(daemons(folder)) == 3
            finally:
                subprocess.run([SCRIPTS / "stop.sh", folder], timeout=600, check=True)
                assert outside.poll() is None
                outside.kill()
            assert inside.wait(10) < 0
    assert not alive(job.read_text())
    assert not daemons(folder)


def daemons(folder: str) -> set[int]:
    """Return the daemons of the Slurm of a folder; others may be running beside it."""
    import psutil

    names, found = {"munged", "slurmctld", "slurmd"}, set()
    for process in psutil.process_iter(["name", "status"]):
        if process.info["name"] in names and process.info["status"] != psutil.STATUS_ZOMBIE:
            with contextlib.suppress(psutil.Error):  # it ended meanwhile
                if process.environ().get("LOWTIDE_TEST_CLUSTER") == folder:
                    found.add(process.pid)
    return found
