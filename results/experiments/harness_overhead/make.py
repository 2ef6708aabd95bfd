"""What the harness costs a run beyond the interpreter's start, the imports and the work itself.

Trivial runs, one at a time, in blocks that alternate with bare processes which only import what a run's
process imports, so that noise of the machine hits both. For each run: wall seconds of the harness (from
taking up the run to having its record on disk), less those of a bare process, less load, solve, verify.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from ...sweeps.folder import write_runs
from ...sweeps.local import Event, run_all
from ...sweeps.runspec import Limits, RunSpec, source_hash
from ...sweeps.supervise import child_environment

BLOCK = 10
BARE = [sys.executable, "-c", "import lowtide.results.sweeps.job"]


def trivial_runs(count: int) -> list[RunSpec]:
    """Return runs that take next to no time."""
    code, limits = source_hash("peak", "reference"), Limits(seconds=60, memory=4 << 30)
    return [
        RunSpec(
            instance=f"gen:chain?n=2,seed={seed}",
            problem="peak",
            method="reference",
            limits=limits,
            source_hash=code,
        )
        for seed in range(count)
    ]


def measure(count: int) -> dict[str, float]:
    """Return mean and median milliseconds of a run, and of its parts."""
    environment = child_environment(1)
    bare, work, whole = [], [], []

    def listen(event: Event) -> None:
        if event.kind == "finished" and event.record is not None:
            seconds = event.record["seconds"]
            work.append(seconds["load"] + seconds["solve"] + seconds["verify"])

    with tempfile.TemporaryDirectory(prefix="lowtide-") as folder:
        out, runs = Path(folder), trivial_runs(count)
        write_runs(out, runs)
        for first in range(0, count, BLOCK):
            for run in runs[first : first + BLOCK]:
                begun = time.perf_counter()
                run_all(out, [run], listener=listen)
                whole.append(time.perf_counter() - begun)
            for _ in range(BLOCK):
                begun = time.perf_counter()
                subprocess.run(BARE, env=environment, check=True)
                bare.append(time.perf_counter() - begun)
    assert len(work) == count
    net = [total - part for total, part in zip(whole, work, strict=True)]
    return {
        "run, from start to record": statistics.mean(whole),
        "of it load, solve and verify": statistics.mean(work),
        "interpreter and imports alone": statistics.mean(bare),
        "overhead, mean": statistics.mean(net) - statistics.mean(bare),
        "overhead, median": statistics.median(net) - statistics.median(bare),
    }


def make(*, runs: int = 100) -> None:
    """Print the figures in milliseconds."""
    for name, seconds in measure(runs).items():
        print(f"{name:<32}{1000 * seconds:8.1f} ms")
