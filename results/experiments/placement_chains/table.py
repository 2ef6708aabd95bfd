"""Placement of training iterations at three budgets: plans of `slot-lp` and their gaps.

Instances: training chains with skip connections (`gen:skipchain`) on 12 GB/s each way, and networks of the
catalogue in blocks of 50 ops (`blocks=50`) on links, each way, over which all activations go and come back in
the time of the ops. Everything starts on the device, which has a part of the peak of the reference order; one
thread. Seconds are those of the processor, of loading, solving and verifying: the time limit is one of the
clock.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from statistics import median

import lowtide as lt

from ....instances import load_problem
from ....instances.spec import resolved_spec
from ...tables.spec import Column, Fields, Row, TableSpec
from ..running import HERE, Case, two_tiers

FOLDER = HERE / "placement_chains"
PARTS = (70, 50, 35)
"""Memories in percent of the peak in the reference order."""
OPS, SEEDS = (50, 200), 10
"""Lengths of the drawn chains in ops, and how many are drawn of each."""
NETWORKS = (
    "resnet50",
    "densenet121",
    "efficientnet-b0",
    "original-unet",
    "diffusion-unet",
    "vit-b-16",
    "swin-t",
    "bert-base",
    "gpt2-small-flash",
)
BLOCKS = 50
"""Blocks into which the ops of each network are merged."""
SECONDS = 120
"""Time limit of each solve of the table, in seconds."""


def cases() -> Iterator[Case]:
    """Yield a case for each chain or network, and budget."""
    for ops in OPS:
        for part in PARTS:
            for seed in range(1, SEEDS + 1):
                spec = f"gen:skipchain?n={ops}&seed={seed}"
                yield Case(
                    f"{spec} {part}%", partial(solved, "skipchain", seed, spec, "v100-16g-pcie3", part)
                )
    for name in NETWORKS:
        for part in PARTS:
            yield Case(f"{name} {part}%", partial(network, name, part))


def network(name: str, part: int) -> list[Row]:
    """Return the row of a network in blocks, whose activations go and return while its ops run."""
    spec = f"catalogue:{name}-train?blocks={BLOCKS}"
    graph = lt.load(spec)
    activations = sum(t.nbytes for t in graph.tensors if t.kind == "activation")
    rate = 2 * activations * 10**9 // graph.summary()["duration_ns"]
    return solved(name, None, spec, two_tiers(FOLDER, f"links-{name}", ("gpu", "host"), rate), part)


def solved(name: str, seed: int | None, spec: str, machine: str, part: int) -> list[Row]:
    """Return the row of one instance."""
    graph = lt.load(spec)
    device = lt.Peak(graph).evaluate(tuple(range(len(graph.ops)))) * part // 100
    instance = f"{spec}&machine={machine}&start=gpu&device={device}B"
    began = time.process_time()
    problem = load_problem(lt.Placement, resolved_spec(instance, str(FOLDER)))
    (rate,) = {c.bytes_per_s for c in problem.machine.channels}
    result = lt.solve(problem, "slot-lp", time_limit=SECONDS, threads=1)
    assert result.status is not lt.Status.FAILED, result.detail
    return [
        {
            "graph": name,
            "ops": len(graph.ops),
            "seed": seed,
            "budget": f"{part}%",
            "device": device,
            "bytes_per_s": rate,
            "ideal": graph.summary()["duration_ns"],
            "status": str(result.status),
            "makespan": result.objective,
            "bound": result.bound,
            "gap": result.gap,
            "copies": None if result.plan is None else len(result.plan.copies),
            "seconds": round(time.process_time() - began, 2),
            "instance": instance,
        }
    ]


def stall(row: Row) -> float | None:
    """Return the stall over the ideal time; None without a plan."""
    return None if row["makespan"] is None else row["makespan"] / row["ideal"] - 1


def _of(
    how: Callable[[list[float]], float], what: Callable[[Row], float | None], group: list[Row]
) -> float | None:
    """Return the median or the largest of what rows with a plan have."""
    found = [value for row in group if (value := what(row)) is not None]
    return how(found) if found else None


def _gap(row: Row) -> float | None:
    return None if row["makespan"] is None else float(row["gap"])


CHAINS = TableSpec(
    (
        *(Column("ops", kind="d"), Column("budget", kind=">"), Column("seeds", len, "d")),
        Column("solved", lambda group: sum(row["makespan"] is not None for row in group), "d"),
        Column("median gap", partial(_of, median, _gap), ".1e"),
        Column("largest gap", partial(_of, max, _gap), ".1e"),
        Column("median stall", partial(_of, median, stall), ".1%"),
        Column("median CPU s", lambda group: median(row["seconds"] for row in group), ".1f"),
        Column("largest CPU s", lambda group: max(row["seconds"] for row in group), ".1f"),
    ),
    groups=("ops", "budget"),
)
BESIDE = TableSpec(
    (
        *(Column("network", "graph"), Column("budget", kind=">")),
        *(Column("GB/s", lambda row: row["bytes_per_s"] / 1e9, ".0f"), Column("status")),
        *(Column("gap", _gap, ".1e"), Column("stall", stall, ".1%"), Column("copies", kind="d")),
        Column("CPU s", "seconds", ".1f"),
    )
)


def text(table: list[Row]) -> Fields:
    """Return a line for each size and budget of chains, then one for each network and budget."""
    return {
        "table": CHAINS.of(row for row in table if row["graph"] == "skipchain"),
        "networks": BESIDE.of(row for row in table if row["graph"] != "skipchain"),
    }
