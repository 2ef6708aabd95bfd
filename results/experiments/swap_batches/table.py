"""The largest batch that trains, by published swapping system, and the proof that one sample more does not.

ONNX networks on `MACHINE`, steady state, inputs anywhere. Systems make do without emergency evictions:
what their own decisions do not fit does not train. `auto` comes with and without a target (`TARGET`, times
the sum of the durations). The search is `lowtide.solvers.largest`.

Without swapping (`STAYS`) a batch trains if its peak is at most the device: that of the reference order, or
the least peak of all orders, which `auto` of `peak` proves. Nothing shrinks with the batch, and so neither
does a peak: bisection finds the largest batch exactly.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache, partial
from statistics import geometric_mean

import lowtide as lt

from ....instances import load_problem
from ....solvers.largest import ideal_time, largest
from ...tables.spec import RIGHT, Column, Fields, Row, TableSpec
from ..running import HERE, Case, read_rows
from ..swap_systems.compared import AUTO
from ..swap_systems.table import PERIODIC, SYSTEMS, peak_of

FOLDER = HERE / "swap_batches"
PICTURE = "shares.svg"
MACHINE = "a100-40g-pcie3"
NETWORKS = ("bvlc_alexnet", "inception_v1", "resnet50", "squeezenet", "vgg19", "zfnet512")
"""On the other networks of `swap_systems` the searches take minutes each."""
TARGET = 1.5
"""Time that `auto` may take with a target, as a multiple of the sum of the durations."""
SECONDS = 2
"""Time limit of `auto` for each batch with a target, in seconds."""
STAYS, STAYS_LEAST = "no swapping", "no swapping, least order"
"""Rows without a copy: in the reference order, and in an order of least peak."""
PUBLISHED = (
    ("vdnn", "VGG-16 of batch 256, 28 GB, on 12 GB, 18 % slower", "arXiv 1602.08124, abstract"),
    ("tflms-v1", "4.7 times the batch on ResNet-50, 2 times on 3D U-Net", "arXiv 1807.02037, abstract"),
    ("swapadvisor", "models of up to 12 times the memory, 53 to 99 % of the speed", "ASPLOS 2020, abstract"),
    ("flashneuron", "12.4 to 14.0 times the batch on four networks, 16 GB", "FAST 2021, abstract"),
)
"""By system: what its authors measured, on other networks and GPUs, and where they say so."""
LONGER = 10
"""Of `auto` and each batch, at most, with and without a target; systems end by themselves."""


def cases() -> Iterator[Case]:
    """Yield a case for each network, method and target."""
    for network in NETWORKS:
        for method, target in ((AUTO, None), (AUTO, TARGET), *((x, None) for x in SYSTEMS)):
            yield Case(f"{network} {method} {target}", partial(rows_of, network, method, target))
        for method in (STAYS, STAYS_LEAST):
            yield Case(f"{network} {method}", partial(rows_without, network, method))


def spec_of(network: str, batch: int) -> str:
    """Return the specification of a question."""
    return f"onnx:{network}?batch={batch}&train=1&weights=1&machine={MACHINE}&{PERIODIC}"


@lru_cache(16)
def problem_of(network: str, batch: int) -> lt.Placement:
    """Return the question of a batch."""
    return load_problem(lt.Placement, spec_of(network, batch))


def rows_of(network: str, method: str, target: float | None) -> list[Row]:
    """Return the row of a search."""
    options, seconds = ({"strict": "1"}, None) if method != AUTO else ({}, SECONDS if target else LONGER)
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


def rows_without(network: str, method: str) -> list[Row]:
    """Return the row of the largest batch that trains without a copy."""
    device = lt.load_machine(MACHINE).tiers[0].capacity or 0

    def held(batch: int) -> int:
        spec = f"onnx:{network}?batch={batch}&train=1&weights=1"
        return peak_of(spec) if method == STAYS else least_peak(spec)

    batch = bisect_right(range(1, 2**17), device, key=held)
    of = "the reference order" if method == STAYS else "every order"
    return [
        {
            "network": network,
            "method": method,
            "target": None,
            "batch": batch,
            "refuted": batch + 1,
            "ideal": ideal_time(problem_of(network, batch)),
            "period": None,
            "instance": spec_of(network, batch),
            "one_more": f"{of} holds {held(batch + 1)} bytes at once, expected at most {device}",
            "above": None,
            "above_status": None,
        }
    ]


def least_peak(spec: str) -> int:
    """Return the least peak of a graph over all orders, in bytes."""
    result = lt.solve(lt.Peak(lt.load(spec)), threads=1)
    assert result.status is lt.Status.OPTIMAL, result.detail
    return int(result.objective or 0)


def share(row: Row, most: dict[str, int]) -> float:
    """Return a batch over the largest one; no batch at all counts as half a sample."""
    return float(max(row["batch"], 0.5) / most[row["network"]])


def by_method(table: list[Row]) -> tuple[dict[str, list[Row]], dict[str, int]]:
    """Return the rows without a target by method, those of the greatest shares first; `auto`'s batches."""
    found: dict[str, list[Row]] = {}
    for row in table:
        if row["target"] is None:
            found.setdefault(row["method"], []).append(row)
    most = {row["network"]: row["batch"] for row in found[AUTO]}
    ordered = sorted(
        found, key=lambda name: (-geometric_mean(share(row, most) for row in found[name]), name != AUTO)
    )
    return {name: found[name] for name in ordered}, most


def text(table: list[Row]) -> Fields:
    """Return a line for each method, by the mean of its shares; a line for each network with a target."""
    groups, most = by_method(table)
    stays = {row["network"]: row["batch"] for row in groups[STAYS]}
    times = {name: [row["batch"] / stays[row["network"]] for row in rows] for name, rows in groups.items()}
    lines = [
        {
            "system": method if method in (STAYS, STAYS_LEAST) else f"`{method}`",
            **{row["network"]: row["batch"] for row in rows},
            "share": geometric_mean(share(row, most) for row in rows),
            "times": geometric_mean(times[method]),
            "slow": geometric_mean((row["period"] or row["ideal"]) / row["ideal"] for row in rows),
        }
        for method, rows in groups.items()
    ]
    published = [
        {"system": f"`{name}`", "published": claim, "source": source, "here": times[name]}
        for name, claim, source in PUBLISHED
    ]
    bounded = [row for row in table if row["target"] is not None]
    return {
        "table": SHARES.of(lines),
        "targets": TARGETS.of({**row, "all": most[row["network"]]} for row in bounded),
        "published": FIGURES.of(published),
        "networks": len(most),
        "certified": sum(row["refuted"] == row["batch"] + 1 for row in groups[AUTO]),
    }


SHARES = TableSpec(
    (
        Column("system"),
        *(Column(name, kind=",") for name in NETWORKS),
        Column("of the largest", "share", ".1%"),
        Column("of no swapping", "times", ".2f"),
        Column("period / ideal there", "slow", ".2f"),
    )
)
FIGURES = TableSpec(
    (
        *(Column("system"), Column("published"), Column("source")),
        Column("here, of no swapping", lambda r: f"{min(r['here']):.1f} to {max(r['here']):.1f}", RIGHT),
    )
)
TARGETS = TableSpec(
    (
        Column("network"),
        Column("batch", kind=","),
        Column("refuted from", "refuted", ","),
        Column("largest of all", "all", ","),
    )
)


def draw() -> None:
    """Draw the shares of the largest batches by system: each, and their geometric mean."""
    from ... import plot

    groups, most = by_method(read_rows(FOLDER.name))
    axes = plot.new_axes()
    for k, rows in enumerate(groups.values()):
        axes.plot([share(row, most) for row in rows], [k] * len(rows), "o", color="C0", alpha=0.5)
    means = [geometric_mean(share(row, most) for row in rows) for rows in groups.values()]
    axes.plot(means, range(len(groups)), "|", color="black", markersize=14, label="geometric mean")
    axes.set_yticks(range(len(groups)), list(groups))
    axes.invert_yaxis()
    axes.set_xlim(0, 1.02)
    axes.set_xlabel("share of the largest batch that trains")
    axes.grid(alpha=0.3)
    axes.legend(loc="upper left")
    plot.save(axes, FOLDER / PICTURE)
