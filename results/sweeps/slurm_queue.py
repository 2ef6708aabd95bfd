"""Slurm's own account of array tasks, by ``squeue``: accounting (``sacct``) need not be there."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
from collections.abc import Collection
from typing import NamedTuple

from ...models.errors import BackendUnavailable
from .slurm_options import MOST_TASKS

ENDED = frozenset(
    {
        "BOOT_FAIL",
        "CANCELLED",
        "COMPLETED",
        "DEADLINE",
        "FAILED",
        "GONE",
        "NODE_FAIL",
        "OUT_OF_MEMORY",
        "PREEMPTED",
        "REVOKED",
        "TIMEOUT",
    }
)
"""States after which a task does no more; in all others it may. GONE: Slurm knows it no longer."""
TIMEOUT = 60.0
"""Seconds for an answer of Slurm."""


class TaskState(NamedTuple):
    """What Slurm says of a task: its number there, its state, and why it waits."""

    number: str
    state: str
    reason: str


def check_available() -> None:
    """Raise `BackendUnavailable` unless runs can be handed to Slurm from here."""
    if importlib.util.find_spec("submitit") is None:
        raise BackendUnavailable("--slurm: found no submitit, expected it: pip install 'lowtide[slurm]'")
    for command in ("sbatch", "srun", "squeue"):
        if shutil.which(command) is None:
            raise BackendUnavailable(
                f"--slurm: found no {command}, expected a machine from which Slurm is used"
            )


def task_states(jobs: Collection[str]) -> dict[tuple[str, int], TaskState] | None:
    """Return the state of every task of arrays that Slurm still knows, by name of the job and index.

    None if Slurm does not answer: nothing follows from that.
    """
    if not jobs:
        return {}
    text = _ask("squeue", "-h", "-r", "-a", "-t", "all", "-n", ",".join(jobs), "-o", "%j|%K|%i|%T|%r")
    return None if text is None else read_states(text)


def read_states(text: str) -> dict[tuple[str, int], TaskState]:
    """Return the states in an answer of squeue with the columns name, index, number, state, reason.

    Examples
    --------
    >>> read_states("sweep|3|17_3|PENDING|Resources")
    {('sweep', 3): TaskState(number='17_3', state='PENDING', reason='Resources')}
    """
    states = {}
    for line in text.splitlines():
        job, index, number, state, reason = line.split("|", 4)
        # A single task is no array.
        states[job, int(index) if index.isdigit() else 0] = TaskState(number, state, reason)
    return states


def most_tasks() -> int:
    """Return how many tasks an array may have."""
    text = _ask("scontrol", "show", "config") or ""
    found = re.search(r"^MaxArraySize\s*=\s*(\d+)", text, re.MULTILINE)
    return MOST_TASKS if found is None else max(1, min(MOST_TASKS, int(found[1]) - 1))


def _ask(*command: str) -> str | None:
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIMEOUT, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None
