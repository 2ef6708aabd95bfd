"""Training on DRAM and persistent memory: AutoTM's three forms beside first touch, at three ratios.

Steady state, durations and modes of `lowtide.instances.transforms.optane`, machine ``optane-node``; DRAM
holds 1 / (ratio + 1) of the peak of the reference order. One thread, each solve in a process of its own.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from statistics import geometric_mean

import lowtide as lt

from ....instances import load_problem
from ...tables.spec import RIGHT, Column, Fields, Row, TableSpec
from ..running import Case, apart

BATCH = {"vgg19": 2048, "inception_v2": 1024, "resnet50": 512, "densenet121": 512}
"""Batches of AutoTM's conventional workloads (VGG19, Inception-v4, ResNet200, DenseNet264)."""

RATIOS = (8, 4, 1)
"""Bytes of persistent memory per byte of DRAM."""

BESIDE = {"read-beside": "2GB", "write-beside": "2.5GB"}
"""Bandwidths of AutoTM's optimizer for copies beside kernels."""

METHODS: dict[str, tuple[str, dict[str, str]]] = {
    "first-touch": ("first touch", {}),
    "autotm-static": ("static", {}),
    "autotm-sync": ("synchronous", {}),
    "autotm-async": ("asynchronous", BESIDE),
}
"""Heading and options of each method."""

SECONDS = 45
"""Time limit of each solve of the table, in seconds."""


def cases() -> Iterator[Case]:
    """Yield a case for each network, ratio and method."""
    for network in BATCH:
        for ratio in RATIOS:
            for method in METHODS:
                words = (network, str(ratio), method)
                # HiGHS may go on behind its time limit, and would disturb the next solve.
                yield Case(" ".join(words), partial(apart, "placement_autotm", *words))


def row(network: str, ratio: str, method: str, time_limit: float = SECONDS) -> list[Row]:
    """Return the row of one solve; its plan was verified."""
    spec = f"onnx:{network}?batch={BATCH[network]}&train=1&weights=1&node=optane"
    graph = lt.load(spec)
    peak = lt.Peak(graph).evaluate(tuple(range(len(graph.ops))))
    dram = peak // (int(ratio) + 1)
    problem = load_problem(
        lt.Placement, f"{spec}&machine=optane-node&start=anywhere&periodic=1&device={dram}B"
    )
    began = time.process_time()
    result = lt.solve(problem, method, time_limit=time_limit, threads=1, options=METHODS[method][1])
    assert result.status is not lt.Status.FAILED, result.detail
    return [
        {
            "network": network,
            "batch": BATCH[network],
            "ops": len(graph.ops),
            "peak": peak,
            "ratio": int(ratio),
            "dram": dram,
            "method": method,
            "ideal": graph.summary()["duration_ns"],
            "period": result.objective,
            "form_bound": result.facts.get("form_bound"),
            "copies": None if result.plan is None else len(result.plan.copies),
            "seconds": round(time.process_time() - began, 1),
            "status": result.detail.partition(",")[0] or str(result.status),
        }
    ]


def text(table: list[Row]) -> Fields:
    """Return slowdowns by network and ratio, and their geometric means."""
    spec = TableSpec(
        (
            *(Column("network"), Column("batch", kind="d"), Column("ops", kind=",")),
            Column("peak", lambda group: f"{group[0]['peak'] / 1e9:,.0f} GB", RIGHT),
            Column("PMM : DRAM", lambda group: f"{group[0]['ratio']} : 1", RIGHT),
            *(Column(heading, partial(_cell, method), RIGHT) for method, (heading, _) in METHODS.items()),
        ),
        groups=("network", "ratio"),
    )
    means = [["geometric mean", "", "", "", *_means(table, some)] for some in ((8,), (4, 1))]
    return {
        "table": spec.of(table, means),
    }


def _cell(method: str, group: list[Row]) -> str | None:
    row = next((row for row in group if row["method"] == method), None)
    if row is None or not row["period"]:
        return None
    gap = 1 - (row["form_bound"] or row["period"]) / row["period"]
    return f"{row['period'] / row['ideal'] - 1:.1%}" + (f" [{gap:.1%}]" if gap >= 0.001 else "")


def _means(table: list[Row], ratios: tuple[int, ...]) -> Iterator[str]:
    """Yield the ratios, and by method the geometric mean of the slowdowns at them."""
    yield " and ".join(f"{ratio} : 1" for ratio in ratios)
    for method in METHODS:
        some = [row for row in table if row["ratio"] in ratios and row["method"] == method]
        known = some and all(row["period"] for row in some)
        yield f"{geometric_mean(row['period'] / row['ideal'] for row in some) - 1:.1%}" if known else "-"
