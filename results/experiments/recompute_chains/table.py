"""Checkpointing schedules of chains: published values, plans that attain them, checkpoint_schedules beside.

    pip install checkpoint_schedules==1.0.4

Every published value is the objective of a plan that the verifier replayed, and the cost of the schedule of
the public package checkpoint_schedules is counted beside it, action by action, in the same run. Seconds are
in `recompute_chains_speed`.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import lowtide as lt

from ....instances import load_problem
from ....instances.spec import resolved_spec
from ....models.errors import UsageError
from ...tables.spec import RIGHT, Cells, Column, Fields, Row, TableSpec
from ..running import HERE, Case, peer_is_there, two_tiers

FOLDER = HERE / "recompute_chains"

REVOLVE = {
    5: (15, 11, 10, 9),
    6: (21, 14, 13, 12, 11),
    10: (55, 30, 25, 24, 23, 22, 21, 20, 19),
    50: (1275, 335, 230, 194, 172, 164, 155, 145, 139, 138),
    51: (1326, 345, 236, 199, 176, 168, 159, 149, 142, 141),
    100: (5050, 945, 590, 474, 416, 380, 355, 345, 334, 322),
    101: (5151, 959, 598, 480, 421, 385, 359, 349, 338, 326),
}
MIXED = {
    5: (14, 8, 7, 5),
    6: (20, 11, 9, 8, 6),
    10: (54, 26, 19, 17, 15, 14, 13, 12, 10),
    50: (1274, 325, 209, 164, 138, 126, 116, 105, 97, 94),
    100: (5049, 931, 554, 421, 352, 311, 278, 263, 250, 237),
}
"""Forwards by n and slots 1, 2, ..., those included that the reversals of the steps take."""

DISK_X = (1, 2, 5)
"""Published costs x of a write to disk and of a read from it, in forwards."""
DISK = {
    (10, 1): (31, 36, 45),
    (10, 2): (28, 30, 30),
    (50, 1): (171, 210, 285),
    (50, 2): (161, 190, 230),
    (50, 3): (155, 175, 200),
    (50, 5): (148, 158, 172),
    (100, 1): (346, 426, 585),
    (100, 2): (328, 390, 480),
    (100, 3): (318, 363, 425),
    (100, 5): (307, 333, 380),
}
"""Costs by n and slots in memory, and x: forwards, and x for each write and each read."""

H_X = (0.1, 1, 2, 5)
"""Published costs x of a write to disk and of a read from it, in forwards."""
H = {
    (10, 2, 2): (24.4, 28, 30, 30),
    (10, 1, 3): (24.7, 31, 36, 45),
    (50, 2, 2): (195.3, 206, 214, 235),
    (50, 2, 5): (158.5, 180, 194, 230),
    (50, 3, 3): (165.5, 176, 182, 200),
    (50, 5, 5): (139, 148, 158, 172),
    (100, 2, 2): (475.9, 492, 505, 539),
    (100, 2, 5): (360, 405, 440, 490),
    (100, 3, 3): (382.9, 405, 420, 450),
    (100, 5, 5): (325.5, 347, 357, 380),
    (100, 1, 3): (478.9, 521, 562, 658),
}
"""Costs by n, slots in memory and on disk, and x."""

IN_PLACE = {
    3: {3: 1, 4: 0},
    5: {3: 6, 4: 2, 5: 1, 6: 0},
    6: {3: 10, 4: 3, 5: 2, 6: 1, 7: 0},
    8: {3: 21, 4: 7, 5: 4, 6: 3, 7: 2, 8: 1, 9: 0},
    10: {3: 36, 4: 11, 5: 6, 6: 5, 7: 4, 8: 3, 9: 2, 10: 1, 11: 0},
}
"""Least forwards run again by l and cells, by exhaustive search; an op may take its operand's cell."""

SLIDE = (
    ("store-all", 6, 0),
    ("recompute-all", 3, 10),
    ("hybrid", 4, 4),
    ("revolve", 4, 3),
)
"""Strategies for l = 5: cells in memory, forwards run again."""


def plain(n: int, memory: int, *, unit: int = 1, disk: int | None = None, time_ns: int = 0) -> str:
    """Return the question of a chain of n steps, each of `unit` ns, cells counted after each op.

    Transfers to and from a disk with so many cells, 0 for any number, take that time; None: no disk.
    """
    graph = f"gen:backprop-chain?l={n - 1}&forward={unit}&backward={unit}&accounting=replace"
    if disk is None:
        return f"{graph}&memory={memory}B"
    name = f"disk-{time_ns}ns" + (f"-{disk}" if disk else "")
    file = two_tiers(FOLDER, name, ("memory", "disk"), 10**9, time_ns - 1, capacity=disk or None)
    return f"{graph}&machine={file}&memory={memory}B"


def taped(n: int, memory: int) -> str:
    """Return the question of a chain of n steps whose states and data for backwards have one size."""
    return f"gen:taped-chain?l={n}&largest=1&saved=0&gradients=0&backward=1&spread=1&memory={memory}B"


def problem_of(instance: str) -> lt.Recompute:
    """Return the problem of a specification; files of machines count from this folder."""
    return load_problem(lt.Recompute, resolved_spec(instance, str(FOLDER)))


def solved(instance: str, method: str, **options: str) -> tuple[int, Row]:
    """Return the verified objective in ns, and what a row says of the plan."""
    result = lt.solve(problem_of(instance), method, threads=1, options=options)
    if result.objective is None or result.plan is None:
        raise UsageError(f"{instance}, {method}: {result.status}, {result.detail}")
    verdict: Any = result.verification
    plan = result.plan
    return result.objective, {
        "peak": verdict.peaks["memory"],
        "actions": len(plan.runs) + len(plan.copies) + len(plan.frees),
        "method": method,
        "options": ",".join(f"{key}={value}" for key, value in options.items()),
        "status": str(result.status),
        "objective": result.objective,
        "bound": result.bound,
        "instance": instance,
    }


def cost_of_peer(schedule: Any, x: float) -> float:
    """Return forwards, and x for each write and each read of the disk, in the peer's schedule."""
    from checkpoint_schedules import Copy, EndReverse, Forward, Move, StorageType

    cost: float = 0
    for action in schedule:
        if isinstance(action, Forward):
            cost += action.n1 - action.n0
            cost += x if action.write_ics and action.storage == StorageType.DISK else 0
        elif isinstance(action, Copy | Move):
            cost += x if action.from_storage == StorageType.DISK else 0
        elif isinstance(action, EndReverse):
            return round(cost, 6)
    raise UsageError("found no end of the peer's schedule, expected one")


def cases() -> Iterator[Case]:
    """Yield a case for each algorithm and length."""
    peer_is_there("checkpoint_schedules")
    for n in REVOLVE:
        yield Case(f"Revolve, n = {n}", partial(revolve, n))
    for n in MIXED:
        yield Case(f"Mixed, n = {n}", partial(mixed, n))
    for n, slots in DISK:
        yield Case(f"Disk-Revolve and periodic, n = {n}, {slots} slots", partial(with_disk, n, slots))
    for n, slots, disk in H:
        yield Case(f"H-Revolve, n = {n}, {slots} and {disk} slots", partial(h_revolve, n, slots, disk))
    for n in range(1, 31):
        yield Case(f"hetero-chain, unit, n = {n}", partial(unit_chain, n))
    for length in IN_PLACE:
        yield Case(f"in place, n = {length + 1}", partial(in_place, length))
    for method, memory, published in SLIDE:
        yield Case(f"slide: {method}", partial(slide, method, memory, published))


def revolve(n: int) -> Iterator[Row]:
    """Yield the rows of Revolve by slots."""
    import checkpoint_schedules as peer

    for slots, published in enumerate(REVOLVE[n], start=1):
        ours, more = solved(plain(n, slots + 2), "revolve")
        other = cost_of_peer(peer.Revolve(n, slots), 0)
        yield _row("Revolve", n, slots, None, None, published, ours, other, more)


def mixed(n: int) -> Iterator[Row]:
    """Yield the rows of mixed checkpointing by slots."""
    import checkpoint_schedules as peer

    for slots, published in enumerate(MIXED[n], start=1):
        ours, more = solved(taped(n, slots + 2), "mixed")
        other = cost_of_peer(peer.MixedCheckpointSchedule(n, slots), 0)
        yield _row("Mixed", n, slots, None, None, published, ours - n, other, more)


def with_disk(n: int, slots: int) -> Iterator[Row]:
    """Yield the rows of a disk without a limit, by its cost."""
    import checkpoint_schedules as peer

    for x, published in zip(DISK_X, DISK[n, slots], strict=True):
        problem = plain(n, slots + 2, disk=0, time_ns=x)
        ours, more = solved(problem, "disk-revolve", reads="once")
        other = cost_of_peer(peer.DiskRevolve(n, slots, wd=x, rd=x), x)
        yield _row("Disk-Revolve, read once", n, slots, None, x, published, ours, other, more)
        ours, more = solved(problem, "disk-revolve")
        yield _row("Disk-Revolve", n, slots, None, x, None, ours, other, more)
        ours, more = solved(problem, "periodic-disk-revolve")
        with contextlib.redirect_stdout(io.StringIO()):  # it prints its period
            other = cost_of_peer(peer.PeriodicDiskRevolve(n, slots, wd=x, rd=x), x)
        yield _row("periodic", n, slots, None, x, None, ours, other, more)


def h_revolve(n: int, slots: int, disk: int) -> Iterator[Row]:
    """Yield the rows of slots on a disk, by its cost."""
    import checkpoint_schedules as peer

    unit = 10  # ns, so that x = 0.1 is a whole number of them
    for share, cost in zip(H_X, H[n, slots, disk], strict=True):
        problem = plain(n, slots + 2, unit=unit, disk=disk, time_ns=round(share * unit))
        ours, more = solved(problem, "h-revolve")
        other = cost_of_peer(peer.HRevolve(n, slots, disk, wd=share, rd=share), share)
        yield _row("H-Revolve", n, slots, disk, share, cost, ours / unit, other, more)


def unit_chain(n: int) -> Iterator[Row]:
    """Yield the rows of the program for any chain on chains of one size, by slots."""
    import checkpoint_schedules as peer

    for slots in range(1, 9):
        ours, more = solved(taped(n, slots + 2), "hetero-chain")
        other = cost_of_peer(peer.MixedCheckpointSchedule(n, min(slots, max(n - 1, 1))), 0)
        yield _row("hetero-chain, unit", n, slots, None, None, None, ours - n, other, more)


def in_place(length: int) -> Iterator[Row]:
    """Yield the rows of chains whose ops may take their operand's cell, by cells."""
    for memory, published in IN_PLACE[length].items():
        ours, more = solved(plain(length + 1, memory), "hetero-chain")
        again = ours - 2 * length - 1
        yield _row("in place", length + 1, None, None, None, published, again, None, more, memory)


def slide(method: str, memory: int, published: int) -> Iterator[Row]:
    """Yield the row of a strategy."""
    ours, more = solved(plain(6, memory), method)
    yield _row(f"slide: {method}", 6, None, None, None, published, ours - 11, None, more, memory)


def _row(
    algorithm: str,
    n: int,
    slots: int | None,
    disk: int | None,
    x: float | None,
    published: float | None,
    ours: float,
    other: float | None,
    more: Row,
    memory: int | None = None,
) -> Row:
    """Return a row; raise if the value, the peer's or the peak is another than it must be."""
    number = int(ours) if ours == int(ours) else ours
    row = {
        "algorithm": algorithm,
        "n": n,
        "slots": slots,
        "disk": disk,
        "x": x,
        "published": published,
        "ours": number,
        "peer": other if other is None or other != int(other) else int(other),
        **more,
    }
    wanted = other if published is None else published
    limit = memory if slots is None else slots + 2
    cheaper = algorithm in ("periodic", "Disk-Revolve") and ours < (wanted or 0)
    if (ours != wanted and not cheaper) or (limit is not None and more["peak"] > limit):
        raise UsageError(f"found {row}, expected {wanted} in {limit} cells")
    return row


def _equal(of: str, group: list[Row]) -> str | None:
    """Return how many values are those of a column, of how many it has."""
    known = [row for row in group if row[of] is not None]
    return f"{sum(row['ours'] == row[of] for row in known)} of {len(known)}" if known else None


def _cheaper(group: list[Row]) -> int | None:
    beside = [row for row in group if row["peer"] is not None]
    return sum(row["ours"] < row["peer"] for row in beside) if beside else None


VALUES = TableSpec(
    (
        *(Column("algorithm"), Column("values", len, "d")),
        Column("as published", partial(_equal, "published"), RIGHT),
        Column("as checkpoint_schedules", partial(_equal, "peer"), RIGHT),
        Column("cheaper", _cheaper, "d"),
    ),
    groups=("algorithm",),
)


def _by(
    heading: str,
    label: Callable[[Row], str],
    columns: Mapping[Any, str],
    key: Callable[[Row], Any],
    rows: list[Row],
) -> Cells:
    """Return what rows cost: a line for each label, a column for each key."""

    def cell(value: Any, group: list[Row]) -> str:
        return next((str(row["ours"]) for row in group if key(row) == value), "")

    spec = TableSpec(
        (Column(heading, "label"), *(Column(words, partial(cell, k), RIGHT) for k, words in columns.items())),
        groups=("label",),
    )
    return spec.of({**row, "label": label(row)} for row in rows)


def _slots(row: Row) -> str:
    return f"{row['n']}, {row['slots']}, {'any number' if row['disk'] is None else row['disk']}"


def _cells(row: Row) -> int:
    """Return the cells that a value in place belongs to."""
    return next(m for m, value in IN_PLACE[row["n"] - 1].items() if value == row["ours"])


def text(table: list[Row]) -> Fields:
    """Return the tables."""

    def of(*algorithms: str) -> list[Row]:
        return [row for name in algorithms for row in table if row["algorithm"] == name]

    strategies = [row for row in table if row["algorithm"].startswith("slide")]
    return {
        "table": VALUES.of(table),
        "forwards": _by(
            "n",
            lambda row: f"{row['algorithm']}, {row['n']}",
            {s: f"s = {s}" for s in range(1, 11)},
            lambda row: row["slots"],
            of("Revolve", "Mixed"),
        ),
        "disk": _by(
            "n, slots in memory, on disk",
            _slots,
            {x: f"x = {x}" for x in H_X},
            lambda row: row["x"],
            of("Disk-Revolve", "H-Revolve"),
        ),
        "in_place": _by(
            "l",
            lambda row: str(row["n"] - 1),
            {m: f"{m} cells" for m in range(3, 12)},
            _cells,
            of("in place"),
        ),
        "strategies": "Strategies for l = 5, as (peak in cells, forwards run again): "
        + ", ".join(f"{row['algorithm'][7:]} ({row['peak']}, {row['ours']})" for row in strategies)
        + ".",
    }
