"""Methods that end in every way a run can end, and what tests of experiments share."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lowtide.results.sweeps.folder import read_record, record_files
from lowtide.results.sweeps.runspec import Limits, RunSpec, source_hash

SOURCE = '''
"""Methods with defects."""
import ctypes
import os
import signal
import subprocess
import sys
import time


def tell(word):
    with open(os.environ["TOLD"], "a") as file:
        file.write(f"{word}\\n")


def nap(problem, context):
    """Takes a moment; the runs whose numbers HELD lists (the first is 1) wait until they are let go."""
    tell(os.getpid())
    with open(os.environ["TOLD"]) as file:
        number = len(file.readlines())
    if str(number) in os.environ.get("HELD", "").split():
        while not os.path.exists(os.environ["TOLD"] + ".go"):
            time.sleep(0.02)
    time.sleep(float(os.environ.get("NAP", "0.2")))
    return range(len(problem.graph.ops))


def patient(problem, context):
    """Offers the reference order, then waits for more than its time."""
    context.offer(range(len(problem.graph.ops)))
    tell(os.getpid())
    time.sleep(600)


def deaf(problem, context):
    """Does not stop when asked to."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    tell(os.getpid())
    while True:
        time.sleep(600)


def hog(problem, context):
    """Takes more memory, bit by bit, then waits."""
    blocks = []
    for _ in range(25):
        blocks.append(b"x" * 10**7)
        time.sleep(0.005)
    time.sleep(600)


def hog_below(problem, context):
    """Has another process, in a session of its own, take ever more memory."""
    program = "import os, time; x = b'x' * 400_000_000; time.sleep(600)"
    below = subprocess.Popen([sys.executable, "-c", program], start_new_session=True)
    tell(below.pid)
    below.wait()


def vast(problem, context):
    """Asks for more memory than the machine has."""
    return bytearray(10**14)


def segfault(problem, context):
    """Reads from address 0."""
    ctypes.string_at(0)


def leave(problem, context):
    """Ends the process."""
    print("leaving", file=sys.stderr, flush=True)
    os._exit(3)


def lasting(problem, context):
    """Leaves a process behind, and waits at its own end."""
    below = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    tell(below.pid)
    return range(len(problem.graph.ops))


def surroundings(problem, context):
    """Writes its environment and threads to the log."""
    print(context.threads, context.seed, context.time_limit, context.memory_limit, file=sys.stderr)
    for name, value in os.environ.items():
        print(name, value, file=sys.stderr)
    return range(len(problem.graph.ops))
'''


def planned(method: str = "user-nap", *, seed: int = 0, **changes: Any) -> RunSpec:
    """Return a run of a method on a tiny instance."""
    limits: dict[str, Any] = {"seconds": 20.0, "memory": None, "threads": 1}
    limits |= {key: changes.pop(key) for key in [*changes] if key in limits}
    return RunSpec(
        **{
            "instance": "catalogue:two-branches",
            "problem": "peak",
            "method": method,
            "seed": seed,
            "limits": Limits(**limits),
            "grace": 20,
            "source_hash": source_hash("peak", method),
            **changes,
        }
    )


def records_of(out: Path) -> dict[str, dict[str, Any]]:
    """Return the records of a folder, each of which must be whole."""
    found = {}
    for path in record_files(out):
        record = read_record(path)
        assert record is not None, path
        assert json.loads(path.read_text()) == record
        found[path.stem] = record
    return found


def told(folder: Path) -> list[str]:
    """Return what methods have told, in lines."""
    file = folder / "told"
    return file.read_text().split() if file.exists() else []


def let_go(folder: Path) -> None:
    """Let the runs go on that are held."""
    (folder / "told.go").touch()


def wait_for(condition: Callable[[], Any], what: str, seconds: float = 600) -> None:
    """Wait until something is so."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"waited in vain for {what}"
        time.sleep(0.02)


def alive(pid: str) -> bool:
    """Return whether a process runs."""
    import psutil

    try:
        status: str = psutil.Process(int(pid)).status()
    except psutil.NoSuchProcess:
        return False
    return status != psutil.STATUS_ZOMBIE
