"""Seconds to whole checkpointing schedules of long chains, checkpoint_schedules beside.

    pip install checkpoint_schedules==1.0.4

That schedules cost the same is what `recompute_chains` shows; here the forwards of Revolve and Mixed, which
know no disk, are compared once more.
"""

from __future__ import annotations

import contextlib
import io
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import lowtide as lt

from ....models.errors import UsageError
from ....solvers.recompute.chains.disk_revolve import disk_revolve, periodic_disk_revolve
from ....solvers.recompute.chains.h_revolve import h_revolve
from ....solvers.recompute.chains.mixed import mixed
from ....solvers.recompute.chains.revolve import revolve
from ...tables.spec import RIGHT, Column, Fields, Row, TableSpec
from ..recompute_chains.table import cost_of_peer, plain, problem_of, taped
from ..running import Case, peer_is_there

LENGTHS = (1000, 2000, 10_000, 100_000)
"""Forwards of the chains: times are compared over three orders of magnitude."""

CUBIC = 10_000
"""Chains of more steps only for closed forms."""

SLOTS = 10
"""Slots; where there is a disk, half of them are there."""

HALF = SLOTS // 2

PATIENCE = 60
"""CPU seconds: where the peer would take longer, if its time grew with the square of n, it is not asked."""

REPEATS, ENOUGH = 5, 2
"""Runs at most, the fastest of which counts, and CPU seconds after which none is repeated."""


class Timed(NamedTuple):
    """An algorithm: the schedules of n steps, ours and the peer's, and the problem and method of `solve`."""

    ours: Callable[[int], Any]
    peer: Callable[[int], Any]
    problem: Callable[[int], lt.Recompute]
    method: str


def algorithms() -> dict[str, Timed]:
    """Return what is timed, by name."""
    import checkpoint_schedules as peer

    def in_memory(n: int) -> lt.Recompute:
        return problem_of(plain(n, SLOTS + 2))

    def beside_disk(n: int) -> lt.Recompute:
        return problem_of(plain(n, HALF + 2, disk=0, time_ns=2))

    def beside_slots(n: int) -> lt.Recompute:
        return problem_of(plain(n, HALF + 2, disk=SLOTS - HALF, time_ns=2))

    return {
        "Revolve": Timed(
            lambda n: revolve(n - 1, SLOTS), lambda n: peer.Revolve(n, SLOTS), in_memory, "revolve"
        ),
        "Revolve (Multistage)": Timed(
            lambda n: revolve(n - 1, SLOTS),
            lambda n: peer.MultistageCheckpointSchedule(n, SLOTS, 0),
            in_memory,
            "revolve",
        ),
        "Mixed": Timed(
            lambda n: _codes(mixed(n, SLOTS)),
            lambda n: peer.MixedCheckpointSchedule(n, SLOTS),
            lambda n: problem_of(taped(n, SLOTS + 2)),
            "mixed",
        ),
        "Disk-Revolve": Timed(
            lambda n: disk_revolve(n - 1, HALF, 2, 2)[1],
            lambda n: peer.DiskRevolve(n, HALF),
            beside_disk,
            "disk-revolve",
        ),
        "periodic": Timed(
            lambda n: periodic_disk_revolve(n - 1, HALF, 2, 2)[1],
            lambda n: peer.PeriodicDiskRevolve(n, HALF),
            beside_disk,
            "periodic-disk-revolve",
        ),
        "H-Revolve": Timed(
            lambda n: _codes(h_revolve(n - 1, [HALF, SLOTS - HALF], [0, 2], [0, 2])),
            lambda n: peer.HRevolve(n, HALF, SLOTS - HALF),
            beside_slots,
            "h-revolve",
        ),
    }


def cases() -> Iterator[Case]:
    """Yield a case for each algorithm."""
    peer_is_there("checkpoint_schedules")
    for name, timed in algorithms().items():
        yield Case(name, partial(speeds, name, timed))


def speeds(name: str, timed: Timed) -> Iterator[Row]:
    """Yield a row for each length."""
    closed = timed.method in ("revolve", "mixed")
    timed.ours(30_000 if closed else 60)  # loaded before the clock runs
    forwards_of_peer(timed, 60)
    lt.solve(timed.problem(60), timed.method, threads=1)
    growth = 0.0  # of the peer's seconds, by the square of n
    for n in LENGTHS:
        if closed or n <= CUBIC:
            row = _row(name, timed, n, patient=growth * n**2 < PATIENCE)
            growth = row["peer"] / n**2 if row["peer"] is not None else growth
            yield row


def _row(name: str, timed: Timed, n: int, *, patient: bool) -> Row:
    """Return seconds and ops; raise if the peer has other forwards, and no disk to trade them for."""
    seconds, codes = _fastest(timed.ours, n)
    no_disk = timed.method in ("revolve", "mixed")
    row: Row = {"algorithm": name, "n": n, "slots": SLOTS, "disk": None if no_disk else SLOTS - HALF}
    row |= {"ops": len(codes), "ours": seconds, "peer": None, "solve": None}
    if patient:
        row["peer"], forwards = _fastest(lambda n: forwards_of_peer(timed, n), n)
        # Of each step of a plain chain the peer counts a forward more, which is inside our backward.
        expected = len(codes) if timed.method == "revolve" else len(codes) - n
        if no_disk and forwards != expected:
            raise UsageError(f"{name}, n = {n}: found {forwards} forwards of the peer, expected {expected}")
    if n <= CUBIC:
        row["solve"], _ = _clocked(lambda p: lt.solve(p, timed.method, threads=1), timed.problem(n))
    return row


def forwards_of_peer(timed: Timed, n: int) -> float:
    """Return the forwards of the peer's schedule, which it is asked for action by action."""
    with contextlib.redirect_stdout(io.StringIO()):  # one of them prints its period
        return cost_of_peer(timed.peer(n), 0)


def _codes(found: tuple[int, Any] | None) -> Any:
    assert found is not None
    return found[1]


def _fastest(run: Callable[[int], Any], n: int) -> tuple[float, Any]:
    """Return the CPU seconds of the fastest of some calls, and what the first one returns."""
    spent, found = _clocked(run, n)
    every = [spent]
    while len(every) < REPEATS and sum(every) < ENOUGH:
        every.append(_clocked(run, n)[0])
    return min(every), found


def _clocked(run: Callable[[Any], Any], argument: Any) -> tuple[float, Any]:
    """Return the CPU seconds of a call, and what it returns."""
    begin = time.process_time()
    found = run(argument)
    return time.process_time() - begin, found


def times_faster(row: Row) -> str:
    """Return how many times faster ours is, nothing where the peer was not timed."""
    return "" if row["peer"] is None else f"{row['peer'] / row['ours']:,.0f}"


def _slots(row: Row) -> str:
    return str(row["slots"]) if row["disk"] is None else f"{row['slots'] - row['disk']} + {row['disk']}"


TABLE = TableSpec(
    (
        *(
            Column("algorithm"),
            Column("n", kind=","),
            Column("slots", _slots, RIGHT),
            Column("ops", kind=","),
        ),
        *(Column("ours", kind=".2g"), Column("peer", kind=".2g", missing="")),
        *(Column("times faster", times_faster, RIGHT), Column("`solve`", "solve", ".2g", "")),
    )
)


def excerpt(table: list[Row]) -> Fields:
    """Return how many times faster the schedules are, by steps."""

    def of(n: int, group: list[Row]) -> str:
        return next((times_faster(row) for row in group if row["n"] == n), "")

    columns = (Column(f"n = {n:,}", partial(of, n), RIGHT) for n in LENGTHS)
    first = Column("times faster than checkpoint_schedules", "algorithm")
    return {"table": TableSpec((first, *columns), groups=("algorithm",)).of(table)}
