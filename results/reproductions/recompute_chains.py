"""Checkpointing schedules of chains: published values, plans that attain them, checkpoint_schedules beside.

    pip install checkpoint_schedules==1.0.4
    python results/reproductions/recompute_chains.py [--table]

Every value of `PUBLISHED` is the objective of a plan that the verifier replayed, and the cost of the schedule
of the public package checkpoint_schedules is counted beside it, action by action, in the same run. Writes
``recompute_chains.csv`` and ``recompute_chains.md`` beside this script; with ``--table`` the text is made
again from the committed rows. Seconds are in `recompute_chains_speed`.
"""

from __future__ import annotations

import argparse
import contextlib
import io
from collections.abc import Iterator
from typing import Any

from lowtide import Recompute, solve
from lowtide.instances import load_problem
from lowtide.instances.spec import resolved_spec
from lowtide.results.reproductions.table_files import (
    HERE,
    Row,
    peer_is_there,
    read_table,
    two_tiers,
    write_rows,
    write_table,
)

NAME = "recompute_chains"
COLUMNS = (
    "algorithm", "n", "slots", "disk", "x", "published", "ours", "peer", "peak", "actions",
    "method", "status", "objective", "bound",
)  # fmt: skip

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
    file = two_tiers(name, ("memory", "disk"), 10**9, time_ns - 1, capacity=disk or None)
    return f"{graph}&machine={file}&memory={memory}B"


def taped(n: int, memory: int) -> str:
    """Return the question of a chain of n steps whose states and data for backwards have one size."""
    return f"gen:taped-chain?l={n}&largest=1&saved=0&gradients=0&backward=1&spread=1&memory={memory}B"


def problem_of(instance: str) -> Recompute:
    """Return the problem of a specification; files of machines count from this folder."""
    return load_problem(Recompute, resolved_spec(instance, str(HERE)))


def solved(instance: str, method: str, **options: str) -> tuple[int, Row]:
    """Return the verified objective in ns, and what a row says of the plan."""
    result = solve(problem_of(instance), method, threads=1, options=options)
    if result.objective is None or result.plan is None:
        raise SystemExit(f"{instance}, {method}: {result.status}, {result.detail}")
    verdict: Any = result.verification
    plan = result.plan
    return result.objective, {
        "peak": verdict.peaks["memory"],
        "actions": len(plan.runs) + len(plan.copies) + len(plan.frees),
        "instance": instance,
        "method": method,
        "status": str(result.status),
        "objective": result.objective,
        "bound": result.bound,
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
    raise SystemExit("the peer's schedule has no end")


def values() -> Iterator[Row]:
    """Yield a row for each value."""
    import checkpoint_schedules as peer

    for n, row in REVOLVE.items():
        for slots, published in enumerate(row, start=1):
            ours, more = solved(plain(n, slots + 2), "revolve")
            other = cost_of_peer(peer.Revolve(n, slots), 0)
            yield _row("Revolve", n, slots, None, None, published, ours, other, more)
    for n, row in MIXED.items():
        for slots, published in enumerate(row, start=1):
            ours, more = solved(taped(n, slots + 2), "mixed")
            other = cost_of_peer(peer.MixedCheckpointSchedule(n, slots), 0)
            yield _row("Mixed", n, slots, None, None, published, ours - n, other, more)
    for (n, slots), row in DISK.items():
        for x, published in zip(DISK_X, row, strict=True):
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
    unit = 10  # ns, so that x = 0.1 is a whole number of them
    for (n, slots, disk), costs in H.items():
        for share, cost in zip(H_X, costs, strict=True):
            problem = plain(n, slots + 2, unit=unit, disk=disk, time_ns=round(share * unit))
            ours, more = solved(problem, "h-revolve")
            other = cost_of_peer(peer.HRevolve(n, slots, disk, wd=share, rd=share), share)
            yield _row("H-Revolve", n, slots, disk, share, cost, ours / unit, other, more)
    for n in range(1, 31):
        for slots in range(1, 9):
            ours, more = solved(taped(n, slots + 2), "hetero-chain")
            other = cost_of_peer(peer.MixedCheckpointSchedule(n, min(slots, max(n - 1, 1))), 0)
            yield _row("hetero-chain, unit", n, slots, None, None, None, ours - n, other, more)
    for l, cells in IN_PLACE.items():  # noqa: E741
        for memory, published in cells.items():
            ours, more = solved(plain(l + 1, memory), "hetero-chain")
            yield _row("in place", l + 1, None, None, None, published, ours - 2 * l - 1, None, more, memory)
    for method, memory, published in SLIDE:
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
        raise SystemExit(f"found {row}, expected {wanted} in {limit} cells")
    return row


def markdown(rows: list[Row]) -> str:
    """Return the tables for people."""
    lines = [
        "Checkpointing schedules of chains. Every value below is the objective of a plan that the verifier "
        "replayed within the memory stated; the public package checkpoint_schedules 1.0.4 ran beside: its "
        "schedules cost the same on every row, but where ours do what it does not (periodic: the best period "
        "for the chain; Disk-Revolve: may read a checkpoint again). Made by `make bench-recompute`.",
        "",
        "| algorithm | values | as published | as checkpoint_schedules | cheaper |",
        "|---|---:|---:|---:|---:|",
    ]
    for name in dict.fromkeys(str(row["algorithm"]) for row in rows):
        some = [row for row in rows if row["algorithm"] == name]
        published = [row for row in some if row["published"] is not None]
        beside = [row for row in some if row["peer"] is not None]
        equal = sum(row["ours"] == row["published"] for row in published)
        same = sum(row["ours"] == row["peer"] for row in beside)
        fewer = sum(row["ours"] < row["peer"] for row in beside)
        cells = [f"{equal} of {len(published)}" if published else "-"]
        cells += [f"{same} of {len(beside)}", str(fewer)] if beside else ["-", "-"]
        lines.append(f"| {name} | {len(some)} | " + " | ".join(cells) + " |")
    lines += [
        "",
        "Forwards by steps n and slots s (those included that the reversals of the steps take):",
        "",
        "| n | " + " | ".join(f"s = {s}" for s in range(1, 11)) + " |",
        "|---|" + "---:|" * 10,
    ]
    for name, table in (("Revolve", REVOLVE), ("Mixed", MIXED)):
        for n in table:
            line = {row["slots"]: row["ours"] for row in rows if (row["algorithm"], row["n"]) == (name, n)}
            lines.append(f"| {name}, {n} | " + " | ".join(str(line.get(s, "")) for s in range(1, 11)) + " |")
    lines += [
        "",
        "Costs with a disk: forwards, and x for each write and each read:",
        "",
        "| n, slots in memory, on disk | x = 0.1 | x = 1 | x = 2 | x = 5 |",
        "|---|---:|---:|---:|---:|",
    ]
    for name in ("Disk-Revolve", "H-Revolve"):
        some = [row for row in rows if row["algorithm"] == name]
        for key in dict.fromkeys((row["n"], row["slots"], row["disk"]) for row in some):
            found = {row["x"]: row["ours"] for row in some if (row["n"], row["slots"], row["disk"]) == key}
            label = f"{key[0]}, {key[1]}, {'any number' if key[2] is None else key[2]}"
            lines.append(f"| {label} | " + " | ".join(str(found.get(x, "")) for x in H_X) + " |")
    lines += [
        "",
        "Chain of l forwards and l + 1 backwards where an op may take its operand's cell: least forwards run "
        "again, by cells (`hetero-chain`; equal to exhaustive search):",
        "",
        "| l | " + " | ".join(f"{m} cells" for m in range(3, 12)) + " |",
        "|---|" + "---:|" * 9,
    ]
    for l in IN_PLACE:  # noqa: E741
        again = {
            next(m for m, value in IN_PLACE[l].items() if value == row["ours"]): row["ours"]
            for row in rows
            if (row["algorithm"], row["n"]) == ("in place", l + 1)
        }
        lines.append(f"| {l} | " + " | ".join(str(again.get(m, "")) for m in range(3, 12)) + " |")
    slide = [row for row in rows if str(row["algorithm"]).startswith("slide")]
    lines += [
        "",
        "Strategies for l = 5, as (peak in cells, forwards run again): "
        + ", ".join(f"{str(row['algorithm'])[7:]} ({row['peak']}, {row['ours']})" for row in slide)
        + ".",
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Solve and count, or read the rows, and write the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--table", action="store_true", help="make the text again from the committed rows")
    args = parser.parse_args()
    if not args.table and not peer_is_there("checkpoint_schedules", NAME):
        return
    rows: list[Row] = []
    if args.table:
        rows = read_table(NAME)
    else:
        for row in values():
            rows.append(row)
            if len(rows) % 20 == 0:
                print(f"{len(rows)} values, last {row['algorithm']}, n = {row['n']}", flush=True)
        write_rows(HERE / f"{NAME}.csv", COLUMNS, rows)
        rows = read_table(NAME)
    write_table(NAME, COLUMNS, rows, markdown(rows))


if __name__ == "__main__":
    main()
