"""Memory of programs for ExecuTorch: its own algorithm beside ours, with the program's order and with ours.

Every program is made three times: with ``greedy`` alone, with `lowtide.adapters.executorch.planning_pass`
beside it, and with the order of the nodes chosen too. The bytes are those that the program asks its runtime
for (``non_const_buffer_sizes``), and ExecuTorch's verifier judges every plan. Weights count no bytes, inputs
and outputs do. Needs the extra ``executorch``; one thread.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from ....instances.torch_import.architectures import ARCHITECTURES
from ....models.problems.arena import Arena
from ....models.result import Result
from ....models.units import format_gap
from ...adapters.executorch import planning_pass, require_planning
from ...tables.spec import RIGHT, Column, Fields, Row, TableSpec
from ..offsets_heights.table import max_load
from ..running import Case

SECONDS = 20
"""Time limit of each solve of the table, in seconds."""

NETWORKS: dict[str, dict[str, int]] = {
    "resnet18": {},
    "densenet121": {},
    "efficientnet_b0": {},
    "unet": {"image": 188},
    "vit_b_16": {"layers": 4},
    "swin_t": {},
    "bert_base": {"layers": 2, "seq": 128},
    "gpt2_small": {"layers": 2, "seq": 256},
    "moe": {"layers": 2, "seq": 64},
    "diffusion_unet": {},
}
"""Network of ``torch:`` -> its options; fewer layers than published where all are alike."""

EXAMPLES = ("DeepAutoEncoderModel", "DSCNNKWSModel", "MobileNetV1025Model", "ResNet8Model")
"""The models of MLPerf Tiny among the examples of ExecuTorch."""

OWN = ("perceptron", "inception", "pyramid", "experts", "cells", "encoder")
"""The modules of ``modules.py``."""


def cases() -> Iterator[Case]:
    """Yield the programs."""
    require_planning()
    for name in (*OWN, *EXAMPLES, *NETWORKS):
        yield Case(name, partial(measured, name))


def example_of(name: str) -> tuple[Any, tuple[Any, ...]]:
    """Return a module and its inputs; weights are drawn."""
    import torch

    torch.manual_seed(0)
    if name in OWN:
        from .modules import MODULES

        make, shape = MODULES[name]
        return make(), (torch.zeros(shape),)
    if name in EXAMPLES:
        from executorch.examples.models import mlperf_tiny

        model = getattr(mlperf_tiny, name)()
        return model.get_eager_model(), model.get_example_inputs()
    architecture = ARCHITECTURES[name]
    defaults = {key: parameter.default for key, parameter in architecture.parameters.items()}
    example = architecture.build({**defaults, "batch": 1, **NETWORKS[name]})
    return example.module, tuple(example.inputs.values())


def measured(name: str) -> Iterator[Row]:
    """Yield the row of a program."""
    import torch
    from executorch.exir.passes import MemoryPlanningPass

    module, inputs = example_of(name)
    with torch.no_grad():
        exported = torch.export.export(module.eval().requires_grad_(False), inputs)
    asked: list[tuple[Any, Result]] = []
    limits: dict[str, Any] = {"time_limit": SECONDS, "threads": 1, "report": lambda *both: asked.append(both)}
    greedy = planned(exported, MemoryPlanningPass())
    ours = planned(exported, planning_pass(order=False, **limits))
    ordered = planned(exported, planning_pass(**limits))
    (problem, result), *_ = asked
    ((_, arena),) = [both for both in asked if isinstance(both[0], Arena)]
    assert ours == min(greedy, result.objective or greedy), f"{name}: the program has another plan"
    yield {
        "model": name,
        "buffers": len(problem.buffers.buffers),
        "load": max_load(problem.buffers),
        "greedy": greedy,
        "ours": ours,
        "bound": result.bound,
        "status": str(result.status),
        "ordered": ordered,
        "order bound": arena.bound,
        "order status": str(arena.status),
    }


def planned(exported: Any, planning: Any) -> int:
    """Return the bytes that a program asks for, planned by a pass and judged by ExecuTorch's verifier."""
    from executorch.exir import ExecutorchBackendConfig, to_edge

    program = to_edge(exported).to_executorch(ExecutorchBackendConfig(memory_planning_pass=planning))
    held = program.exported_program()
    verifier = require_planning().Verifier(held.graph_module, True, True, True, held.graph_signature)
    verifier.verify_storage_reuse()
    return sum(program.executorch_program.execution_plan[0].non_const_buffer_sizes)


def text(rows: list[Row]) -> Fields:
    """Return the fields of the text: how often a plan needs less, and how much."""
    saved = [1 - row["ours"] / row["greedy"] for row in rows]
    ordered = [row for row in rows if row["ordered"] < row["ours"]]
    return {
        "table": TABLE.of(rows),
        "less": sum(row["ours"] < row["greedy"] for row in rows),
        "most": f"{max(saved):.0%}".replace("%", " %"),
        "proved": sum(row["status"] == "optimal" for row in rows),
        "ordered": len(ordered),
        "order_most": f"{max(1 - row['ordered'] / row['ours'] for row in rows):.0%}".replace("%", " %"),
        "order_proved": sum(row["order status"] == "optimal" for row in rows),
    }


TABLE = TableSpec(
    (
        *(Column("model"), Column("buffers", kind=",d"), Column("load", kind=",d")),
        *(Column("greedy", kind=",d"), Column("ours", kind=",d"), Column("status")),
        Column(
            "greedy above ours", lambda row: format_gap((row["greedy"] - row["ours"]) / row["ours"]), RIGHT
        ),
        *(Column("with order", "ordered", kind=",d"), Column("its status", "order status")),
    )
)
