"""The largest batch that trains, by published swapping system, and the proof that one sample more does not.

ONNX networks on `MACHINE`, steady state, inputs anywhere. Systems make do without emergency evictions:
what their own decisions do not fit does not train. `auto` comes with and without a target (`TARGETS`,
times the sum of the durations). The search is `lowtide.solvers.placement.largest`.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache, partial
from statistics import geometric_mean

import lowtide as lt

from ....formulations.placement.releases import ideal_time
from ....instances import load_problem
from ....solvers.placement.largest import largest
from ...tables.spec import Column, Fields, Row, TableSpec
from ..running import HERE, Case, read_rows
from ..swap_systems.compared import AUTO
from ..swap_systems.table import PERIODIC, SYSTEMS

FOLDER = HERE / "swap_batches"
PICTURE = "shares.svg"
MACHINE = "a100-40g-pcie3"
NETWORKS = ("resnet50", "squeezenet")
TARGETS = (1.5,)
SECONDS = 2
"""Of `auto` and each batch, at most; systems end by themselves."""


def cases() -> Iterator[Case]:
    """Yield a case for each network, method and target."""
    for network in NETWORKS:
        for method, target in ((AUTO, None), *((AUTO, x) for x in TARGETS), *((x, None) for x in SYSTEMS)):
            yield Case(f"{network} {method} {target}", partial(rows_of, network, method, target))


def spec_of(network: str, batch: int) -> str:
    """Return the specification of a question."""
    return f"onnx:{network}?batch={batch}&train=1&weights=1&machine={MACHINE}&{PERIODIC}"


@lru_cache(16)
def problem_of(network: str, batch: int) -> lt.Placement:
    """Return the question of a batch."""
    return load_problem(lt.Placement, spec_of(network, batch))


def rows_of(network: str, method: str, target: float | None) -> list[Row]:
    """Return the row of a search."""
    options, seconds = ({}, SECONDS) if method == AUTO else ({"strict": "1"}, None)
    found = largest(
        partial(problem_of, network),
        target=None if target is None else Fraction(str(target)),
        method=method,
        options=options,
        time_limit=seconds,
        threads=1,
    )
    batch, result = found.number, found.result
    proved = method == AUTO and target is None and found.certified
    return [
        {
            "network": network,
            "method": method,
            "target": target,
            "batch": batch,
            "refuted": found.refuted,
            "ideal": ideal_time(problem_of(network, batch)) if batch else None,
            "period": None if result is None else result.objective,
            "instance": spec_of(network, batch) if batch else None,
            "one_more": found.reason if found.certified else found.next,
            "above": spec_of(network, batch + 1) if proved else None,
            "above_status": "infeasible" if proved else None,
        }
    ]


def share(row: Row, most: dict[str, int]) -> float:
    """Return a batch over the largest one; no batch at all counts as half a sample."""
    return float(max(row["batch"], 0.5) / most[row["network"]])


def by_method(table: list[Row]) -> dict[str, list[Row]]:
    """Return the rows without a target of each method, the one with the greatest shares first."""
    found: dict[str, list[Row]] = {}
    for row in table:
        if row["target"] is None:
            found.setdefault(row["method"], []).append(row)
    most = {row["network"]: row["batch"] for row in found[AUTO]}
    return dict(sorted(found.items(), key=lambda item: -geometric_mean(share(row, most) for row in item[1])))


def text(table: list[Row]) -> Fields:
    """Return a line for each method, by the mean of its shares; a line for each target and network."""
    groups = by_method(table)
    most = {row["network"]: row["batch"] for row in groups[AUTO]}
    lines = [
        {
            "system": f"`{method}`",
            **{row["network"]: row["batch"] for row in rows},
            "share": geometric_mean(share(row, most) for row in rows),
            "slow": geometric_mean(row["period"] / row["ideal"] for row in rows if row["period"]),
        }
        for method, rows in groups.items()
    ]
    columns = (
        Column("system"),
        *(Column(name, kind=",") for name in NETWORKS),
        Column("of the largest", "share", ".1%"),
        Column("period / ideal there", "slow", ".2f"),
    )
    bounded = [row for row in table if row["target"] is not None]
    targets = TableSpec(
        (
            Column("network"),
            Column("period / ideal at most", "target"),
            Column("batch", kind=","),
            Column("refuted from", "refuted", ","),
            Column("largest of all", "all", ","),
        )
    )
    return {
        "table": TableSpec(columns).of(lines),
        "targets": targets.of({**row, "all": most[row["network"]]} for row in bounded),
        "networks": len(NETWORKS),
        "certified": sum(row["refuted"] == row["batch"] + 1 for row in groups[AUTO]),
    }


def draw() -> None:
    """Draw the share of the largest batch by system and network."""
    from ... import plot

    groups = by_method(read_rows(FOLDER.name))
    most = {row["network"]: row["batch"] for row in groups[AUTO]}
    axes = plot.new_axes()
    for network, mark in zip(NETWORKS, "os", strict=True):
        shares = [share(row, most) for rows in groups.values() for row in rows if row["network"] == network]
        axes.plot(shares, range(len(shares)), mark, label=network, alpha=0.7)
    axes.set_yticks(range(len(groups)), list(groups))
    axes.invert_yaxis()
    axes.set_xlim(0, 1.02)
    axes.set_xlabel("share of the largest batch that trains")
    axes.grid(alpha=0.3)
    axes.legend()
    plot.save(axes, FOLDER / PICTURE)
