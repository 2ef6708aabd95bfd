"""Several GPUs on one host link: in step, in turn, and in a runtime that knows nothing of contention.

Training iterations in single runs, everything on its GPU at the start; GPUs with a part of the peak as
memory, whose links to the host share one of the same rate (`v100x4-16g-shared-pcie3`). No limits in seconds.

*In step*: the best plan of one GPU on its share of the link, on all at the same times, and the bound of all
plans in step. *In turn*: the best plan of the planner (and of `slot-lp` on small graphs) for one GPU with the
link for itself, carried out by the runtime, the first GPU first. *Unaware*: the same plans, first come first
served. Then TMOF's engine in that runtime, `tmof-online`. The bound is one of all plans. *Gradients*: MB that
all GPUs sum up at the end by a ring over the link, which counts in all of these.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import product

import lowtide as lt

from ....instances import load_problem
from ....models.units import MIB
from ....solvers.placement.policies.tmof_online import SHARES
from ....solvers.placement.reductions.replicas.runtime import carry_out
from ....solvers.placement.reductions.replicas.share import Replicas, replicas
from ...tables.spec import Column, Fields, Row, TableSpec
from ..running import Case

SQUEEZENET = "onnx:squeezenet?train=1&batch=64"
GRAPHS = (
    ("SqueezeNet, 14 blocks", f"{SQUEEZENET}&blocks=14", (1300, 1000)),
    ("SqueezeNet", SQUEEZENET, (1014, 676)),
    ("U-Net", "catalogue:unet-4-train", (155, 103)),
    ("chain of 50 ops", "gen:skipchain?n=50&seed=1", (1311, 873)),
    ("ResNet-50", "onnx:resnet50?train=1&batch=32", (1990, 1323)),
)
"""Names, graphs and MiB of each GPU: but for the first, the peak over 4/3 and over 2."""
GRADIENTS = {"SqueezeNet, 14 blocks": 4_941_984}
"""Bytes of gradients that are exchanged at the end in further cases: those of all weights."""
GPUS = (2, 4)
"""Numbers of GPUs of the questions of the table."""
MOST_OPS = 100
"""Of graphs on which `slot-lp` runs as well; the others have the bound in step by prices."""


def cases() -> Iterator[Case]:
    """Yield a case for each question."""
    for name, graph, sizes in GRAPHS:
        for size in sizes:
            for many, gradients in product(GPUS, sorted({0, GRADIENTS.get(name, 0)})):
                joined = "&" if "?" in graph else "?"
                machine = f"machine=v100x4-16g-shared-pcie3&start=device&device={size}MiB&replicas={many}"
                question = f"{graph}{joined}{machine}" + (f"&exchange={gradients}" if gradients else "")
                said = f"{name}, {size} MiB, {many} GPUs" + (
                    f", exchange of {gradients} B" if gradients else ""
                )
                yield Case(said, partial(measured, name, size, many, gradients, question))


def measured(name: str, size: int, many: int, gradients: int, question: str) -> list[Row]:
    """Return the row of a question."""
    problem = load_problem(lt.Placement, question)
    found = replicas(problem)
    assert found is not None
    assert found.even
    assert found.closed
    graph = found.alone.graph
    small = len(graph.ops) <= MOST_OPS
    online = {share: solved(problem, "tmof-online", share=share) for share in SHARES}
    plans = ("planner", "slot-lp") if small else ("planner",)
    shared = [solved(found.shared, method) for method in (*plans, *(() if small else ("lp-bound",)))]
    alone = [solved(found.alone, method) for method in plans]
    bounds = [x.bound + found.last_delay for x in alone if x.bound is not None]
    bounds += [x.bound for x in online.values() if x.bound is not None]
    return [
        {
            "network": name,
            "device": size,
            "gpus": many,
            "gradients": gradients,
            "ops": len(graph.ops),
            "footprint": round(lt.Peak(graph).evaluate(tuple(range(len(graph.ops)))) / (size * MIB), 2),
            "ideal": sum(op.all_modes[0].duration_ns for op in graph.ops),
            "bound": max(bounds),
            "bound in step": max(x.bound or 0 for x in shared) + found.step_delay,
            "in step": min(in_step(found, x) for x in shared if x.objective is not None),
            "in turn": min(carried(found, x, rule) for x in alone for rule in ("turn", "token")),
            "unaware": min(carried(found, x, "fifo") for x in alone),
            **{share: result.objective for share, result in online.items()},
            "emergencies": max(result.facts["emergencies"] for result in online.values()),
            "question": question,
        }
    ]


def solved(problem: lt.Placement, method: str, **options: str) -> lt.Result:
    """Return the verified result of a method, however long it takes."""
    return lt.solve(problem, method, threads=1, time_limit=None, options=options)


def carried(found: Replicas, result: lt.Result, rule: str) -> int:
    """Return the time of a plan of one GPU, carried out by all of them and verified."""
    assert result.plan is not None, result.detail
    judged = found.problem.judge(carry_out(found, [result.plan] * len(found.lanes), rule))
    assert judged.objective is not None, judged.violations
    return judged.objective


def in_step(found: Replicas, result: lt.Result) -> int:
    """Return the time of a plan of one GPU on its share, on all of them at the same times and verified."""
    assert result.plan is not None, result.detail
    judged = found.problem.judge(found.spread([result.plan] * len(found.lanes)))
    assert judged.objective is not None, judged.violations
    return judged.objective


def _ms(column: str) -> Column:
    return Column(column, lambda row: None if row[column] is None else row[column] / 10**6, ".1f")


TABLE = TableSpec(
    (
        *(Column("network"), Column("GPUs", "gpus", "d"), Column("footprint", kind=".2f")),
        Column("gradients", lambda row: row["gradients"] / 10**6 if row["gradients"] else None, ".1f"),
        *map(_ms, ("ideal", "bound", "in turn", "bound in step", "in step", "unaware")),
        *map(_ms, SHARES),
    )
)


def text(table: list[Row]) -> Fields:
    """Return the table, and the identity of TMOF's example in ns."""
    row = next(
        r
        for r in table
        if (r["network"], r["device"], r["gpus"], r["gradients"]) == ("SqueezeNet, 14 blocks", 1000, 2, 0)
    )
    return {
        "table": TABLE.of(table),
        "least": f"{row['bound in step']:,}",
        "found": f"{row['in step']:,}",
        "slower": f"{max(100 * (r['in turn'] / r['bound'] - 1) for r in table):.1f}",
        "apart": f"{max(100 * (r['in step'] / r['bound in step'] - 1) for r in table if r['gradients']):.2f}",
    }
