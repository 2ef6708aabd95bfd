"""What to save for backward: torch's memory budget against the true peak, and what must be computed again.

Needs torch and scipy. The joint graph of a training step of networks of `torch:` is kept (``graphs/``) and
partitioned by torch on fake tensors: nothing is run. Memories lie between the true peak of torch's default
partition and the least one that torch makes with any of its solvers. Of each of torch's knapsack solvers the
fastest partition within the memory is taken, over `BUDGETS`. One thread.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import Any

from ....instances.formats.native import write_graph
from ....instances.torch_import.architectures import ARCHITECTURES
from ...adapters import torch_budget
from ...adapters.joint_graph import joint_graph
from ...tables.spec import RIGHT, Column, Fields, Row, TableSpec
from ..running import HERE, Case

SECONDS = 20
"""Time limit of our search for each memory, in seconds; a third of it goes to the bound."""
LEVELS = (67, 33, 0)
"""Memories, in per cent of the way from the least true peak of torch's partitions to that of its default."""
BUDGETS = (0.25, 0.5, 0.75)
"""Values of ``activation_memory_budget`` that torch's solvers are asked with, beside 0 and 1."""
SOLVERS = ("dp", "greedy", "ilp")
"""Torch's knapsack solvers."""

NETWORKS = {
    "resnet18": {"image": 64, "batch": 8},
    "unet": {"image": 188, "batch": 1},
    "vit_b_16": {"image": 224, "layers": 3, "batch": 4, "flash": False},
    "gpt2_small": {"seq": 256, "layers": 4, "batch": 4, "flash": False},
    "bert_base": {"seq": 256, "layers": 4, "batch": 4},
    "llama_1b": {"seq": 512, "layers": 2, "batch": 1, "flash": False},
    "moe": {"seq": 256, "layers": 2, "experts": 4, "batch": 4},
    "gpt2_medium": {"seq": 256, "layers": 2, "batch": 4, "flash": False},
}
"""Networks and their options; smaller than usual, so that torch partitions them in seconds."""


class _KeptError(Exception):
    """The joint graph is known: nothing is to be compiled."""


def cases() -> Iterator[Case]:
    """Yield the networks."""
    for name in NETWORKS:
        yield Case(name, partial(rows_of, name))


def rows_of(name: str) -> Iterator[Row]:
    """Yield a row for each memory."""
    module = joint_module(name)
    joint = joint_graph(module.graph, name)
    file = HERE / "torch_budget" / "graphs" / f"{name}.json.gz"
    file.parent.mkdir(exist_ok=True)
    write_graph(joint.graph, file)
    theirs = partitions(module)
    default = theirs[SOLVERS[0]][-1].peak
    floor = min(x.peak for results in theirs.values() for x in results)
    for level in LEVELS:
        memory = floor + (default - floor) * level // 100
        mine = ours(module, memory)
        fits = mine.peak <= memory
        row: Row = {"network": name, "ops": len(joint.graph.ops), "default": default, "level": level}
        row |= {"memory": memory, "least_time": mine.least_ns}
        for solver in SOLVERS:
            within = [x for x in theirs[solver] if x.peak <= memory]
            best = min(within, key=lambda x: x.time_ns, default=None)
            row |= {solver: best and best.time_ns, f"{solver} peak": best and best.peak}
        optimal = fits and mine.bound_ns == mine.time_ns
        row |= {"ours": mine.time_ns if fits else None, "ours peak": mine.peak if fits else None}
        row |= {"bound": mine.bound_ns, "status": "optimal" if optimal else "feasible" if fits else "unknown"}
        yield {**row, "instance": f"graphs/{file.name}?memory={memory}B"}


def ours(module: Any, memory: int) -> torch_budget.Partitioned:
    """Return what our budget chooses."""
    limit = torch_budget.budget(memory, time_limit=SECONDS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        limit.joint_pass(copy.deepcopy(module), None)
    return limit.reports[0]


def joint_module(name: str) -> Any:
    """Return the joint module of a training step of a network, as AOTAutograd gives it to the partitioner."""
    import torch
    from torch._functorch import config

    example = ARCHITECTURES[name].build(NETWORKS[name])
    modules: list[Any] = []

    def keep(module: Any, joint_inputs: Any) -> Any:
        modules.append(module)
        raise _KeptError

    def step(*tensors: Any) -> Any:
        inputs, targets = tensors[: len(example.inputs)], tensors[len(example.inputs) :]
        return example.loss(example.module(*inputs), *targets)

    torch._dynamo.reset()
    with config.patch(joint_custom_pass=keep), suppress(_KeptError, torch._dynamo.exc.BackendCompilerFailed):
        compiled = torch.compile(step, backend="aot_eager_decomp_partition")
        compiled(*example.inputs.values(), *example.targets.values())
    (module,) = modules
    return module


def partitions(module: Any) -> dict[str, list[torch_budget.TruePeak]]:
    """Return by solver the partitions that torch takes; budgets 0, first, and 1, last, ask no solver."""
    from torch._functorch import config

    def of(share: float, solver: str) -> torch_budget.TruePeak:
        with config.patch(activation_memory_budget=share, activation_memory_budget_solver=solver):
            return torch_budget.true_peak(module, {})

    least, default = of(0.0, "dp"), of(1.0, "dp")
    return {solver: [least, *(of(share, solver) for share in BUDGETS), default] for solver in SOLVERS}


def text(rows: list[Row]) -> Fields:
    """Return the fields of the text: how many memories are met by whom, and how often torch is slower."""
    torchs = [min((row[s] for s in SOLVERS if row[s] is not None), default=None) for row in rows]
    ours = [row["ours"] for row in rows]
    return {
        "table": TABLE.of(rows),
        "networks": len({row["network"] for row in rows}),
        "optimal": sum(row["status"] == "optimal" for row in rows),
        "met": sum(x is not None for x in ours),
        "met by torch": sum(x is not None for x in torchs),
        "faster": sum(x is not None and y is not None and x < y for x, y in zip(ours, torchs, strict=True)),
        "slower": sum(y is not None and (x is None or x > y) for x, y in zip(ours, torchs, strict=True)),
    }


def _again(key: str) -> Column:
    """Return the column of the time that a partition takes beyond the ops once, in per cent of that."""

    def cell(row: Row) -> str:
        least = row["least_time"]
        return "-" if row[key] is None else f"{(row[key] - least) / least:.2%}"

    return Column(key, cell, RIGHT)


TABLE = TableSpec(
    (
        Column("network"),
        Column("ops", kind=",d"),
        Column("default, bytes", lambda row: f"{row['default']:,d}", RIGHT),
        Column("memory", lambda row: f"{row['memory'] / row['default']:.1%}", RIGHT),
        *map(_again, (*SOLVERS, "ours", "bound")),
        Column(
            "our peak",
            lambda row: "-" if row["ours"] is None else f"{row['ours peak'] / row['default']:.1%}",
            RIGHT,
        ),
        Column("status"),
    )
)
