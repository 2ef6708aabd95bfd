"""Algorithms of convolutions as modes: who chooses which, on training iterations that exceed the device.

ONNX networks with ``conv=modes``, weights and gradients, in steady state; inputs anywhere when an iteration
begins, one thread. The device has `DEVICE`, as that of vDNN's paper. vDNN's static policies name what is
offloaded and the algorithms; without emergency evictions, so that what does not fit has no plan. The bound is
the best of all methods', for every choice of algorithms.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial

import lowtide as lt

from ....instances import load_problem
from ...tables.spec import Column, Fields, Row, TableSpec
from ..running import Case, with_best_bounds

DEVICE = "12GB"
NETWORKS = (("vgg19", 256), ("resnet50", 256), ("inception_v1", 512))
"""With their batches."""
STATIC = tuple(
    (f"vdnn {offload}, {algorithms}", "vdnn", {"offload": offload, "algorithms": algorithms, "strict": "1"})
    for algorithms in ("least", "fastest")
    for offload in ("all", "conv")
)
METHODS: tuple[tuple[str, str, dict[str, str]], ...] = (
    *STATIC,
    ("vdnn dynamic", "vdnn", {"strict": "1"}),
    ("modnn", "modnn", {"strict": "1"}),
    ("planner", "planner", {}),
    ("auto", "auto", {}),
)
SECONDS = 60
"""Time limit of each solve of the table, in seconds."""


def cases() -> Iterator[Case]:
    """Yield a case for each network."""
    for network, batch in NETWORKS:
        spec = f"onnx:{network}?batch={batch}&train=1&weights=1&conv=modes&machine=v100-16g-pcie3"
        spec += f"&device={DEVICE}&periodic=1&start.input=anywhere"
        yield Case(network, partial(rows_of, f"{network}, batch {batch}", spec))


def rows_of(name: str, spec: str) -> Iterator[Row]:
    """Yield a row for each method."""
    problem = load_problem(lt.Placement, spec)
    graph = problem.graph
    several = [k for k, op in enumerate(graph.ops) if len(op.modes) > 1]
    for called, method, options in METHODS:
        began = time.process_time()
        result = lt.solve(problem, method, options=options, threads=1, time_limit=SECONDS)
        assert result.status is not lt.Status.FAILED, result.detail
        runs = () if result.plan is None else result.plan.runs
        modes = [(graph.ops[run.op].modes, run.mode) for run in runs if run.op in {*several}]
        yield {
            "instance": spec,
            "network": name,
            "method": called,
            "status": str(result.status),
            "period": result.objective,
            "bound": result.bound,
            "convolutions": len(several),
            "fastest": sum(
                all(mode.duration_ns >= some[m].duration_ns for mode in some) for some, m in modes
            ),
            "workspace": max((some[m].workspace for some, m in modes), default=None),
            "detail": result.detail if method == "vdnn" else "",
            "seconds": round(time.process_time() - began, 2),
        }


def _slowdown(row: Row) -> float | None:
    return None if row["period"] is None else row["period"] / row["best"]


TABLE = TableSpec(
    (
        Column("network"),
        Column("method"),
        Column("period, ms", lambda row: None if row["period"] is None else row["period"] / 1e6, ",.1f"),
        Column("over the bound", _slowdown, ".3f"),
        Column("ops at their fastest", lambda row: row["fastest"] if row["period"] else None, ",d"),
        Column("of", "convolutions", ",d"),
        Column(
            "largest workspace, MB",
            lambda row: None if row["workspace"] is None else row["workspace"] / 1e6,
            ",.0f",
        ),
        Column("CPU s", "seconds", ".1f"),
    )
)


def text(rows: list[Row]) -> Fields:
    """Return the table, each row with the best bound of its network."""
    return {"table": TABLE.of(with_best_bounds(rows))}
