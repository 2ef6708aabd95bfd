"""Slurm's options and the division into tasks, and the engine against commands that stand in for Slurm's."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowtide.models.errors import UsageError
from lowtide.results.sweeps import slurm
from lowtide.results.sweeps.folder import write_record, write_runs
from lowtide.results.sweeps.runspec import RunSpec
from lowtide.results.sweeps.slurm import Situation, run_on_slurm
from lowtide.results.sweeps.slurm_options import check_time, chunks, minutes, parse_options, task_parameters
from lowtide.results.sweeps.slurm_queue import TaskState, most_tasks, read_states
from lowtide.results.sweeps.supervise import supervise
from tests.commands import refused, within
from tests.effort import many
from tests.run_records import random_records
from tests.sweep_methods import alive, planned, records_of, told, wait_for


def test_options() -> None:
    assert parse_options("") == {}
    found = parse_options("partition=a,b,mem-per-cpu=2G,exclude=n1,n2,exclusive=true,comment=k=v")
    assert found == {
        "partition": "a,b",
        "mem_per_cpu": "2G",
        "exclude": "n1,n2",
        "exclusive": "true",
        "comment": "k=v",
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cpu", "found 'cpu', expected KEY=VALUE"),
        ("partition", "found 'partition', expected KEY=VALUE"),
        ("partition=", "found 'partition=', expected KEY=VALUE"),
        ("partition=cpu,", "found '', expected KEY=VALUE"),
        ("=cpu", "found '=cpu', expected KEY=VALUE"),
        ("partitoin=cpu", "found 'partitoin', did you mean partition or"),
        ("array=0-9", "found 'array'"),
        ("ntasks=2", "found 'ntasks'"),
        ("time=1,time=2", "found 'time' twice"),
        ("time=soon", "time: found 'soon', expected a time such as 01:00:00"),
        ("time=0:00", "time: found '0:00'"),
        ("cpus-per-task=0", "cpus_per_task: found '0', expected an integer >= 1"),
        ("cpus-per-task=1;ls", "cpus_per_task: found '1;ls'"),
    ],
)
def test_wrong_options(text: str, message: str) -> None:
    with pytest.raises(UsageError, match="found") as caught:
        parse_options(text)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("5", 5),
        ("0:01", 1),
        ("2:00", 2),
        ("2:01", 3),
        ("1:00:00", 60),
        ("100:00:00", 6000),
        ("1-0", 1440),
        ("0-1:30", 90),
        ("2-00:00:01", 2881),
    ],
)
def test_minutes(text: str, expected: int) -> None:
    assert minutes(text) == expected


@pytest.mark.parametrize("text", ["", "0", "-1", "1:2:3:4", "1.5", "1-", "-", "1h", "\u0663", "1-1:2:3:4"])
def test_wrong_minutes(text: str) -> None:
    with pytest.raises(UsageError, match="expected a time such as"):
        minutes(text)


@many(100)
@given(st.integers(0, 3000), st.integers(1, 60), st.integers(1, 1000))
def test_chunks_hold_everything_once(count: int, size: int, most: int) -> None:
    found = chunks(range(count), size, most)
    assert [item for part in found for item in part] == [*range(count)]
    lengths = {len(part) for part in found}
    assert not lengths or max(lengths) - min(lengths) <= 1
    assert 0 not in lengths
    assert len(found) <= most
    if count <= size * most:
        assert len(found) == -(-count // size)
        assert max(lengths, default=0) <= size


def test_parameters_follow_from_the_runs() -> None:
    one = planned("greedy", threads=2, memory=1 << 30, seconds=20, grace=10)
    two = planned("greedy", threads=3, memory=2 << 30, seconds=20, grace=10)
    found = task_parameters({"partition": "cpu"}, [[one, two], [one]])
    own = {"signal": "TERM@10", "ntasks": "1"}
    # A minute to load, and twice 20 s and half of 10 s.
    expected = {"partition": "cpu", "cpus_per_task": "3", "mem": "2560M", "time": "2"}
    assert found == expected | own
    given = {"cpus_per_task": "8", "mem_per_cpu": "1G", "time": "7", "exclusive": "true"}
    assert task_parameters(given, [[one]]) == given | {"exclusive": True} | own
    unlimited = planned("greedy", seconds=None)
    assert "mem" not in task_parameters({"time": "1"}, [[one, unlimited]])
    with pytest.raises(UsageError, match="found no time, expected time="):
        task_parameters({}, [[one], [unlimited]])


def test_short_times_are_remarked() -> None:
    runs = [planned("greedy", seconds=60, grace=20)] * 10
    assert check_time({}, [runs]) is None
    assert check_time({"time": "13"}, [runs]) is None
    assert check_time({"time": "12"}, [runs[:3], runs]) == (
        "the runs of a task may take 13 minutes, it has 12: those that are left need --resume"
    )
    assert "have no time limit" in (check_time({"time": "12"}, [[planned("greedy", seconds=None)]]) or "")


def test_states() -> None:
    text = "a|0|5_0|COMPLETED|None\na|1|5_1|PENDING|Nodes required for job are DOWN|x\nb|N/A|6|RUNNING|None\n"
    assert read_states(text) == {
        ("a", 0): TaskState("5_0", "COMPLETED", "None"),
        ("a", 1): TaskState("5_1", "PENDING", "Nodes required for job are DOWN|x"),
        ("b", 0): TaskState("6", "RUNNING", "None"),
    }


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--out", "o", "--chunk", "2"), "bench: found --chunk without --slurm, expected both"),
        (("--out", "o", "--slurm", "x=1"), "bench: --slurm: found 'x'"),
        (("--out", "o", "--slurm", "time=x"), "bench: --slurm: time: found 'x'"),
        (("--out", "o", "--slurm", "time=1", "--chunk", "0"), "expected an integer >= 1"),
        (("--out", "o", "--slurm", "time=1"), "--slurm: found no sbatch, expected a machine from which"),
    ],
)
def test_usage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], message: str) -> None:
    pytest.importorskip("submitit")
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "exp.toml").write_text('[[runs]]\nproblem = "peak"\ninstances = []\nmethods = []\n')
    assert message in refused("bench", "exp.toml", *words, cwd=tmp_path, run=within)


def test_submitit_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lowtide.results.sweeps.slurm_queue.importlib.util.find_spec", lambda name: None)
    line = refused("bench", "exp.toml", "--out", "o", "--slurm", "time=1", cwd=tmp_path, run=within)
    assert line == "--slurm: found no submitit, expected it: pip install 'lowtide[slurm]'"


SBATCH = """\
#!/bin/bash
cp "$1" "$FAKE/script"
echo "$SLURM_CONF $SLURM_JOB_ID $SBATCH_ACCOUNT" > "$FAKE/environment"
echo Submitted batch job 7
"""
SQUEUE = """\
#!/bin/bash
job=$(basename "$(dirname "$(ls "$FAKE"/out/slurm/*/tasks.json)")")
[ ! -f "$FAKE/states" ] || sed "s/^/$job|/" "$FAKE/states"
"""


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put commands that stand in for Slurm's on the path; return the folder that they read and write."""
    pytest.importorskip("submitit")
    scripts = {"sbatch": SBATCH, "squeue": SQUEUE, "srun": "#!/bin/bash\n"}
    scripts["scontrol"] = "#!/bin/bash\necho 'MaxArraySize            = 4'\n"
    for name, script in scripts.items():
        (tmp_path / "bin").mkdir(exist_ok=True)
        (tmp_path / "bin" / name).write_text(script)
        (tmp_path / "bin" / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("FAKE", str(tmp_path))
    monkeypatch.setattr(slurm, "PAUSE", 0.02)
    monkeypatch.setattr(slurm, "SETTLE", 0.1)
    return tmp_path


def six(out: Path) -> tuple[list[RunSpec], list[dict[str, Any]]]:
    pairs = list(random_records(6))
    write_runs(out, [run for run, _ in pairs])
    return [run for run, _ in pairs], [{**record, "name": run.name} for run, record in pairs]


def test_script(fake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_CONF", "here")
    monkeypatch.setenv("SLURM_JOB_ID", "3")
    monkeypatch.setenv("SBATCH_ACCOUNT", "mine")
    out = fake / "out"
    runs, _ = six(out)
    said: list[str] = []
    lost = run_on_slurm(
        out, runs, options=parse_options("partition=cpu,cpus-per-task=3"), jobs=2, say=said.append
    )
    assert said[0] == "2 runs to a task instead of 1: an array has at most 3 tasks"
    assert said[-1] == "job 7: 6 runs in 3 tasks"
    script = (fake / "script").read_text().splitlines()
    assert "#SBATCH --array=0-2%2" in script
    assert "#SBATCH --cpus-per-task=3" in script
    assert "#SBATCH --ntasks=1" in script
    assert "#SBATCH --partition=cpu" in script
    assert "#SBATCH --signal=TERM@10" in script
    (srun,) = [line for line in script if line.startswith("srun ")]
    assert f" --cpus-per-task=3 {sys.executable} " in srun
    # The job in which this process runs is no concern of theirs, what its user has set is.
    assert (fake / "environment").read_text().split() == ["here", "mine"]
    assert os.environ["SLURM_JOB_ID"] == "3"
    (file,) = (out / "slurm").glob("*/tasks.json")
    assert json.loads(file.read_text())["tasks"] == [
        [run.name for run in runs[i : i + 2]] for i in range(0, 6, 2)
    ]
    # Slurm knows nothing of them.
    assert [(task.state, len(task.left)) for task in lost] == [("GONE", 2)] * 3
    assert most_tasks() == 3


def test_watching(fake: Path) -> None:
    """Tasks that wait, run, end early and end unseen, while Slurm fails to answer in between."""
    out = fake / "out"
    runs, records = six(out)
    names = [run.name for run in runs]
    events: list[tuple[str, str]] = []
    seen: list[Situation] = []
    states = fake / "states"
    states.write_text("0|7_0|RUNNING|None\n1|7_1|PENDING|Resources\n2|7_2|PENDING|Resources\n")
    squeue = fake / "bin" / "squeue"

    def step(situation: Situation) -> None:
        if situation in seen:
            return
        seen.append(situation)
        if situation == (1, 2, "Resources"):
            write_record(out, records[0])
            squeue.write_text("#!/bin/bash\nexit 1\n")
        elif situation.reason == "squeue does not answer":
            assert situation[:2] == (1, 2)
            write_record(out, records[1])
            squeue.write_text(SQUEUE)
            states.write_text("0|7_0|COMPLETED|None\n1|7_1|RUNNING|None\n2|7_2|RUNNING|None\n")
        elif situation == (2, 0, ""):
            write_record(out, records[5])  # another process has made it
            states.write_text("1|7_1|CANCELLED|None\n2|7_2|RUNNING|None\n")
        elif situation == (1, 0, ""):
            write_record(out, records[4])

    lost = run_on_slurm(
        out,
        runs,
        options={},
        chunk=2,
        listener=lambda event: events.append((event.kind, event.run.name)),
        watcher=step,
    )
    assert [(task.number, task.state, task.left) for task in lost] == [("7_1", "CANCELLED", names[2:4])]
    assert sorted(name for kind, name in events if kind == "finished") == sorted([*names[:2], *names[4:]])
    assert ("stopped", names[2]) in events
    assert [event for event in events if event[1] == names[0]] == [
        ("started", names[0]),
        ("finished", names[0]),
    ]


def test_tasks_that_are_still_there_are_not_submitted_again(fake: Path) -> None:
    out = fake / "out"
    runs, records = six(out)
    states = fake / "states"
    states.write_text("0|7_0|RUNNING|None\n1|7_1|PENDING|Resources\n")
    stop = threading.Event()
    left = run_on_slurm(out, runs[:4], options={}, chunk=2, watcher=lambda _: stop.set(), stop=stop)
    assert [len(task.left) for task in left] == [2, 2]
    (fake / "script").unlink()
    for record in records[:4]:
        write_record(out, record)
    said: list[str] = []
    assert not run_on_slurm(out, runs[:4], options={}, chunk=2, say=said.append)
    assert said == ["2 tasks of job 7 are still there, for 4 runs; scancel ends them"]
    assert not (fake / "script").exists()


def test_folder_with_percent_sign(fake: Path) -> None:
    with pytest.raises(UsageError, match="found '%', expected a folder without it"):
        run_on_slurm(fake / "50%", six(fake / "50%")[0], options={})


@pytest.mark.slow
def test_run_that_dies_with_its_job_leaves_no_record(defects: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Slurm sends SIGTERM to all processes of a task: that of the run may be the first to go."""
    monkeypatch.setenv("NAP", "60")
    out, run, stop = defects / "out", planned(), threading.Event()
    write_runs(out, [run])

    def end() -> None:
        wait_for(lambda: told(defects), "the run")
        os.kill(int(told(defects)[0]), signal.SIGTERM)
        wait_for(lambda: not alive(told(defects)[0]), "its end")
        stop.set()

    thread = threading.Thread(target=end)
    thread.start()
    assert supervise(out, run, stop=stop) is None
    thread.join()
    assert not records_of(out)
