"""Predicted against measured: plans of training steps, carried out on torch tensors, on this machine.

Each step is traced, its ops are timed one by one in the reference order, and the plans are made for the graph
with those durations: the reference order, the order of least peak memory (`peak auto`); copies to the host
within `SHARE` of the peak, whole tensors (`placement`: `auto` and three policies), in a single run and, with
`auto`, in a period; ops that run again within what is resident and `SHARE` of the rest (`recompute`: `auto`
and `segments`); and both (`placement`, ``recompute``). Then each is carried out
(`lowtide.instances.torch_import.running`). Needs torch.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from ....instances.machines import load_machine
from ....instances.torch_import import record_torch
from ....models.graph import Graph
from ....models.plan import Plan
from ....models.problems import PROBLEMS
from ....models.verifier.verify import verify
from ....solvers.solve import solve
from ...tables.spec import Column, Fields, Row, TableSpec
from ..running import Case

NETWORKS = {
    "resnet18": {"image": 32, "batch": 64},
    "efficientnet_b0": {"image": 64, "batch": 8},
    "unet": {"image": 188, "batch": 2},
    "vit_b_16": {"image": 32, "layers": 2, "batch": 64},
    "gpt2_small": {"seq": 64, "layers": 2, "batch": 4},
}
"""Network of ``torch:`` -> its options. Scores over words are most of the last one's memory."""

SHARE = 0.7
"""Memory that is asked, as a part of the peak."""

POLICIES = ("vdnn", "autoswap", "demand-lru")
"""Published: one that offloads by layers, one by scores of absences, and one without any forecast."""

ITERATIONS = 3
"""Of each measurement, whose median counts."""

ROUNDS = 20
"""Iterations of a plan that has a period, one after another: weights go on from each to the next."""

SECONDS = 20.0
"""Time limit of each solve of the table, in seconds."""

MACHINE = "v100-16g-pcie3"
"""Its rates decide what the planner moves; no time of copies is compared."""


def cases(device: str = "cpu") -> Iterator[Case]:
    """Yield the networks; `device`: cpu or cuda."""
    for name in NETWORKS:
        yield Case(name, partial(measured, name, device))


def measured(name: str, device: str) -> list[Row]:
    """Return the rows of a network."""
    from ....instances.torch_import.measure import measured_graph, measurement
    from ....instances.torch_import.running.run import run_plan
    from ....instances.torch_import.tracing import require_torch

    require_torch(name).set_num_threads(1)  # threads that wait for each other on busy cores take minutes
    step = record_torch(name, device=device, train=1, weights=1, **NETWORKS[name])
    graph = measured_graph(step, measurement(device, ITERATIONS, ""))
    rows = []
    for kind, plan in plans(graph).items():
        iterations = ITERATIONS if plan.period is None else ROUNDS
        found = run_plan(step, plan, graph, iterations=iterations)
        verdict = verify(graph, plan)
        predicted = sum(graph.ops[run.op].duration_ns for run in plan.runs)
        fast = plan.machine.tiers[0].name
        rows.append(
            {
                "network": name,
                "batch": NETWORKS[name]["batch"],
                "ops": len(graph.ops),
                "device": found.device,
                "plan": kind,
                "iterations": iterations,
                "copies": len(plan.copies),
                "recomputed": verdict.recomputed,
                "predicted_peak": found.predicted_peaks[fast],
                "measured_peak": found.measured_peaks[fast],
                "every_instant": "yes" if found.same_profile else "no",
                "same_bits": "no" if found.differing else "yes",
                "predicted_ns": predicted,
                "operators_ns": found.operators_ns,
                "measured_ns": found.measured_ns,
            }
        )
    return rows


def plans(graph: Graph) -> dict[str, Plan]:
    """Return the plans of a step; without those that its method does not find."""
    order = Plan.from_order(graph, range(len(graph.ops)))
    peak = max(verify(graph, order).peaks.values())
    resident = sum(tensor.nbytes for tensor in graph.tensors if tensor.initial)
    machine = load_machine(MACHINE, {"gpu": int(SHARE * peak)})
    placement = partial(PROBLEMS["placement"].of, graph, machine=machine, whole=True)
    recompute = PROBLEMS["recompute"].of(graph, memory=int(resident + SHARE * (peak - resident)))
    asked: dict[str, tuple[Any, str]] = {
        "least-peak order": (PROBLEMS["peak"].of(graph), "auto"),
        "copies, `auto`": (placement(), "auto"),
        **{f"copies, `{policy}`": (placement(), policy) for policy in POLICIES},
        "copies in a period, `auto`": (placement(periodic=True), "auto"),
        "second runs, `auto`": (recompute, "auto"),
        "second runs, `segments`": (recompute, "segments"),
        "copies and second runs, `auto`": (placement(recompute=True), "auto"),
    }
    found = {kind: solve(*question, time_limit=SECONDS, threads=1).plan for kind, question in asked.items()}
    return {"reference order": order, **{kind: plan for kind, plan in found.items() if plan is not None}}


TABLE = TableSpec(
    (
        Column("network", lambda row: f"`{row['network']}`, batch {row['batch']}"),
        Column("plan"),
        Column("iterations", kind=","),
        Column("copies", kind=","),
        Column("second runs", "recomputed", ","),
        Column("peak predicted, MB", lambda row: row["predicted_peak"] / 1e6, ",.2f"),
        Column("measured, MB", lambda row: row["measured_peak"] / 1e6, ",.2f"),
        Column("every instant", "every_instant"),
        Column("same bits", "same_bits"),
        Column("ops predicted, ms", lambda row: row["predicted_ns"] / 1e6, ",.0f"),
        Column("measured, ms", lambda row: row["operators_ns"] / 1e6, ",.0f"),
        Column("measured / predicted", lambda row: row["operators_ns"] / row["predicted_ns"], ".2f"),
    )
)


def text(rows: list[Row]) -> Fields:
    """Return how many rows are exact, how far times are, and the table."""
    ratios = sorted(row["operators_ns"] / row["predicted_ns"] for row in rows)
    exact = [row for row in rows if row["measured_peak"] == row["predicted_peak"]]
    return {
        "devices": ", ".join(sorted({row["device"] for row in rows})),
        "exact": sum(row["every_instant"] == "yes" for row in exact),
        "bits": sum(row["same_bits"] == "yes" for row in rows),
        "close": sum(abs(ratio - 1) <= 0.05 for ratio in ratios),
        "least": f"{ratios[0]:.2f}",
        "most": f"{ratios[-1]:.2f}",
        "share": f"{SHARE:.0%}",
        "rounds": max(row["iterations"] for row in rows),
        "table": TABLE.of(rows),
    }
