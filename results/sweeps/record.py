"""The record of a run: what a run found, what it used, by which code and on which machine."""

from __future__ import annotations

import os
import platform
import socket
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from ..._version import __version__
from ...solvers.context import available_cores
from .runspec import RunSpec

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What a run used, and how its process ended.

    Parameters
    ----------
    started
        When the process was started (ISO 8601, UTC).
    load
        Of the machine then: processes that ran or waited, mean over a minute.
    total
        Wall seconds from the start of the process to its end.
    cpu_seconds
        Of the process and of those that it waited for.
    peak_rss
        Highest resident bytes: of the process exactly; of all its processes together as sampled.
    killed_by
        "time", "memory", "signal N", or None if it ended by itself.
    returncode
        Of the process; negative after a signal; None if the run was carried out by the caller itself.
    """

    started: str
    load: float | None
    total: float
    cpu_seconds: float | None = None
    peak_rss: int | None = None
    killed_by: str | None = None
    returncode: int | None = None


def now() -> str:
    """Return the time of day (ISO 8601, UTC, milliseconds)."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def load_average() -> float | None:
    """Return the machine's load over the last minute; None where it is not known."""
    try:
        return round(os.getloadavg()[0], 2)
    except OSError:
        return None


@cache
def machine() -> dict[str, Any]:
    """Return host, CPU model, cores that may be used, and bytes of memory; None for what is not known."""
    cpu = platform.processor() or platform.machine() or None
    if sys.platform == "linux":
        lines = Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines()
        cpu = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), cpu)
    try:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):
        memory = None
    return {"host": socket.gethostname(), "cpu": cpu, "cores": available_cores(), "memory": memory}


def git_commit(root: Path = ROOT) -> str | None:
    """Return the commit that is checked out where the package lies; None outside a checkout.

    Read from git's files, because starting git for each run takes longer than a trivial run.
    """
    try:
        git = root / ".git"
        if git.is_file():  # a linked work tree
            git = (root / git.read_text().removeprefix("gitdir:").strip()).resolve()
        head = (git / "HEAD").read_text().strip()
        if not head.startswith("ref: "):
            return head or None
        reference = head.removeprefix("ref: ")
        common = git / "commondir"
        shared = (git / common.read_text().strip()).resolve() if common.is_file() else git
        for folder in (git, shared):
            if (folder / reference).is_file():
                return (folder / reference).read_text().strip() or None
        packed = (shared / "packed-refs").read_text().splitlines()
    except (OSError, UnicodeDecodeError):
        return None
    return next((line.split()[0] for line in packed if line.endswith(f" {reference}")), None)


def unanswered(run: RunSpec, status: str, reason: str | None, detail: str) -> dict[str, Any]:
    """Return the part of a record that a run leaves which found nothing: absent numbers are None."""
    return {
        "problem": run.problem,
        "method": run.method,
        "graph": None,
        "unit": None,
        "status": status,
        "objective": None,
        "bound": None,
        "gap": None,
        "reason": reason,
        "proof": None,
        "bound_kind": None,
        "verified": False,
        "detail": detail,
        "facts": {},
        "peaks": {},
        "traffic": {},
        "stall": None,
        "recomputed": None,
        "seconds": {},
        "trace": [],
        "certificate": None,
        "versions": {"lowtide": __version__, "python": platform.python_version()},
        "plan": None,
    }


def complete(run: RunSpec, answer: Mapping[str, Any], usage: Usage, log: str | None) -> dict[str, Any]:
    """Return the whole record of a run.

    Parameters
    ----------
    run
        What was to be done.
    answer
        What `job.perform` or `unanswered` returned.
    usage
        What it used.
    log
        The log file, counted from the folder of the experiment.
    """
    seconds = {"load": None, "build": None, "solve": None, "verify": None, **answer["seconds"]}
    return {
        "name": run.name,
        **answer,
        "instance": run.instance,
        "seconds": {**seconds, "total": round(usage.total, 6)},
        "spec": run.source,
        "instance_sha256": answer.get("instance_sha256", run.instance_sha256),
        "parameters": dict(run.parameters),
        "seed": run.seed,
        "limits": asdict(run.limits),
        "version": run.version,
        "source_hash": run.source_hash,
        "git_commit": git_commit(),
        "machine": {**machine(), "load": usage.load},
        "cpu_seconds": None if usage.cpu_seconds is None else round(usage.cpu_seconds, 6),
        "peak_rss": usage.peak_rss,
        "killed_by": usage.killed_by,
        "returncode": usage.returncode,
        "started": usage.started,
        "log": log,
    }
