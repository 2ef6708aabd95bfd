"""What an experiment asks of Slurm: options in words, the division into tasks, and what a task needs."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import TypeVar

from ...instances.formats.strict_json import nearest
from ...models.errors import UsageError
from .runspec import RunSpec
from .supervise import LOAD_SECONDS

OPTIONS = (
    "account",
    "begin",
    "comment",
    "constraint",
    "cpus_per_task",
    "deadline",
    "dependency",
    "exclude",
    "exclusive",
    "export",
    "gpus",
    "gpus_per_node",
    "gres",
    "hint",
    "licenses",
    "mail_type",
    "mail_user",
    "mem",
    "mem_per_cpu",
    "nice",
    "no_requeue",
    "nodelist",
    "partition",
    "qos",
    "requeue",
    "reservation",
    "threads_per_core",
    "time",
    "tmp",
    "wckey",
)
"""Options of sbatch that can be given; the others are the engine's own, or would start runs twice."""

MOST_TASKS = 1000
"""Of one array: what Slurm allows unless it is configured otherwise."""
HARNESS_MEMORY = 512 << 20
"""Bytes that a task needs beyond its runs' memory limit: the process that watches them."""

Item = TypeVar("Item")


def parse_options(text: str) -> dict[str, str]:
    """Return the options of sbatch in a text ``KEY=VALUE,KEY=VALUE``.

    Keys are sbatch's long options. A part without ``=`` continues the value before it; the value ``true``
    stands for an option without a value.

    Raises
    ------
    UsageError
        If a key is unknown, repeated or without a value, or the time or the cores are no such thing.

    Examples
    --------
    >>> parse_options("partition=cpu,nodelist=n1,n2,time=01:00:00,cpus-per-task=4")
    {'partition': 'cpu', 'nodelist': 'n1,n2', 'time': '01:00:00', 'cpus_per_task': '4'}
    """
    options: dict[str, str] = {}
    last = None
    for part in text.split(",") if text else ():
        key, equals, value = part.partition("=")
        if not equals and last is not None and part:
            options[last] += f",{part}"
            continue
        last = key.strip().replace("-", "_")
        if not last or not value:
            raise UsageError(f"found {part!r}, expected KEY=VALUE")
        if last not in OPTIONS:
            raise UsageError(f"found {key.strip()!r}, {nearest(last, OPTIONS)}")
        if last in options:
            raise UsageError(f"found {key.strip()!r} twice, expected it once")
        options[last] = value
    if "time" in options:
        minutes(options["time"])
    if not re.fullmatch(r"[1-9]\d{0,4}", options.get("cpus_per_task", "1"), re.ASCII):
        raise UsageError(f"cpus_per_task: found {options['cpus_per_task']!r}, expected an integer >= 1")
    return options


def minutes(text: str) -> int:
    """Return the minutes, rounded up, of a time as Slurm writes it.

    That is M, M:S, H:M:S, D-H, D-H:M or D-H:M:S.

    Raises
    ------
    UsageError
        If it is none, or 0.

    Examples
    --------
    >>> minutes("90"), minutes("0:30"), minutes("01:00:00"), minutes("1-12")
    (90, 1, 60, 2160)
    """
    if re.fullmatch(r"\d{1,6}-\d{1,6}(:\d{1,6}){0,2}|\d{1,9}(:\d{1,6}){0,2}", text, re.ASCII):
        days, dash, clock = text.rpartition("-")
        parts = [*map(int, clock.split(":"))]
        units = [3600, 60, 1] if dash or len(parts) == 3 else [60, 1]
        seconds = sum(part * unit for part, unit in zip(parts, units, strict=False))
        if total := math.ceil((int(days or 0) * 86400 + seconds) / 60):
            return total
    raise UsageError(f"time: found {text!r}, expected a time such as 01:00:00")


def chunks(items: Sequence[Item], size: int, most: int = MOST_TASKS) -> list[list[Item]]:
    """Return the items in their order, in at most `most` parts of at most `size`, equal up to one item.

    If `most` parts of that size do not suffice, they are larger.

    Examples
    --------
    >>> chunks("abcdefg", 3)
    [['a', 'b', 'c'], ['d', 'e'], ['f', 'g']]
    >>> [len(part) for part in chunks(range(5000), 1)][:2]
    [5, 5]
    """
    count = min(most, math.ceil(len(items) / size))
    short, longer = divmod(len(items), count) if count else (0, 0)
    sizes, at = [], 0
    for i in range(count):
        end = at + short + (i < longer)
        sizes.append([*items[at:end]])
        at = end
    return sizes


def longest_seconds(runs: Sequence[RunSpec]) -> float | None:
    """Return how long runs take one after another if each uses its time limit and half its grace.

    None if one has no time limit.
    """
    total = LOAD_SECONDS
    for run in runs:
        if run.limits.seconds is None:
            return None
        total += run.limits.seconds + run.grace / 2
    return total


def check_time(options: Mapping[str, str], tasks: Sequence[Sequence[RunSpec]]) -> str | None:
    """Return a warning if the given time may not suffice for a task; None if it does, or none is given."""
    if "time" not in options:
        return None
    given, needed = (
        minutes(options["time"]),
        max((longest_seconds(task) or math.inf for task in tasks), default=0),
    )
    if needed <= 60 * given:
        return None
    long = "have no time limit" if needed == math.inf else f"may take {math.ceil(needed / 60)} minutes"
    return f"the runs of a task {long}, it has {given}: those that are left need --resume"


def task_parameters(options: Mapping[str, str], tasks: Sequence[Sequence[RunSpec]]) -> dict[str, str | bool]:
    """Return the options of sbatch for tasks: those given, and what follows from the runs.

    Cores are the threads of a run; memory is its limit and something for the harness; time is what the
    longest task may take. SIGTERM comes ten seconds before the time is up.

    Raises
    ------
    UsageError
        If the time does not follow: a run has no time limit.
    """
    runs = [run for task in tasks for run in task]
    given: dict[str, str | bool] = {key: True if value == "true" else value for key, value in options.items()}
    given.setdefault("cpus_per_task", str(max(run.limits.threads for run in runs)))
    limits = [run.limits.memory for run in runs]
    if not {"mem", "mem_per_cpu"} & given.keys() and None not in limits:
        given["mem"] = f"{math.ceil((max(filter(None, limits)) + HARNESS_MEMORY) / 2**20)}M"
    if "time" not in given:
        times = [longest_seconds(task) for task in tasks]
        if None in times:
            raise UsageError("--slurm: found no time, expected time=... where runs have no time limit")
        given["time"] = str(math.ceil(max(filter(None, times)) / 60))
    # Unless told otherwise submitit has SIGUSR2 sent 90 s before the end, of which a run's process dies.
    return given | {"signal": "TERM@10", "ntasks": "1"}
