"""The order of kernels in graphs that torch.compile makes: inductor's orders against the least peak.

Needs torch. Networks of `torch:` are compiled for a training step on the CPU; nothing is run, and no kernel
is built. After fusion, a pass keeps the graph of the kernels (``graphs/``) and asks inductor for its
estimate of the peak: of the order that comes, and of each of its heuristics. One thread.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from types import SimpleNamespace
from typing import Any

import lowtide as lt

from ....instances.formats.native import write_graph
from ....instances.torch_import.architectures import ARCHITECTURES
from ...adapters import torch_compile
from ...tables.spec import RIGHT, Column, Fields, Row, TableSpec
from ..running import HERE, Case

SECONDS = 20
"""Time limit of the least peak of each graph, in seconds."""
THRESHOLD = 1
"""Bytes above which LPMF takes kernels by their successors (``size_threshold_for_succ_based_strategy``);
1: as soon as all kernels that may be next allocate something."""

NETWORKS = {
    "resnet18": {"image": 64, "batch": 8},
    "resnet50": {"image": 64, "batch": 8},
    "densenet121": {"image": 64, "batch": 4},
    "efficientnet_b0": {"image": 64, "batch": 8},
    "unet": {"image": 188, "batch": 1},
    "vit_b_16": {"image": 224, "layers": 4, "batch": 4, "flash": False},
    "swin_t": {"image": 224, "batch": 2},
    "gpt2_small": {"seq": 256, "layers": 4, "batch": 2, "flash": False},
    "bert_base": {"seq": 256, "layers": 4, "batch": 2},
    "llama_1b": {"seq": 128, "layers": 2, "batch": 1, "flash": False},
    "moe": {"seq": 128, "layers": 4, "experts": 8, "batch": 1},
    "diffusion_unet": {"image": 32, "batch": 4},
}
"""Networks and their options; smaller than usual, so that compiling takes a minute at most."""
RULES = ("baseline", "lpmf", "bfs", "dfs", "successors")
"""Inductor's orders: as fused, its three heuristics, and LPMF by successors, which is off by default."""


class _CompiledError(Exception):
    """Both graphs are known: nothing is to be run."""


def cases() -> Iterator[Case]:
    """Yield the networks."""
    for name in NETWORKS:
        yield Case(name, partial(rows_of, name))


def rows_of(name: str) -> Iterator[Row]:
    """Yield the rows of the forward and the backward graph of a network."""
    for graph, pass_, peaks in compiled(name):
        file = HERE / "inductor_order" / "graphs" / f"{name}-{pass_}.json.gz"
        file.parent.mkdir(exist_ok=True)
        write_graph(graph, file)
        result = lt.solve(lt.Peak(graph), threads=1, time_limit=SECONDS)
        yield {
            "network": name,
            "pass": pass_,
            "kernels": len(graph.ops),
            **peaks,
            "ours": result.objective,
            "bound": result.bound,
            "status": str(result.status),
            "instance": f"graphs/{file.name}",
        }


def compiled(name: str) -> list[tuple[lt.Graph, str, Row]]:
    """Return the graph of kernels, its pass and the peaks of inductor's orders, of both passes."""
    import torch
    from torch._functorch import config as functorch_config
    from torch._inductor import config
    from torch._inductor.graph import GraphLowering

    example = ARCHITECTURES[name].build(NETWORKS[name])
    compiled_graphs: list[tuple[lt.Graph, str, Row]] = []

    def keep(nodes: list[Any]) -> list[Any]:
        graph, peaks = measured(nodes)
        compiled_graphs.append((graph, "backward" if "backward" in graph.name else "forward", peaks))
        return nodes

    def without_kernels(lowering: Any) -> Any:
        lowering.codegen()
        return SimpleNamespace(call=_not_run)

    def step(*tensors: Any) -> Any:
        inputs, targets = tensors[: len(example.inputs)], tensors[len(example.inputs) :]
        return example.loss(example.module(*inputs), *targets)

    torch._dynamo.reset()
    before, GraphLowering.compile_to_module = GraphLowering.compile_to_module, without_kernels
    try:
        with (
            config.patch(_post_fusion_custom_pass=keep, force_disable_caches=True),
            functorch_config.patch(force_non_lazy_backward_lowering=True),
            suppress(_CompiledError),
        ):
            torch.compile(step)(*example.inputs.values(), *example.targets.values())
    finally:
        GraphLowering.compile_to_module = before
    return sorted(compiled_graphs, key=lambda row: row[1], reverse=True)


def _not_run(*arguments: Any) -> Any:
    raise _CompiledError


def measured(nodes: list[Any]) -> tuple[lt.Graph, Row]:
    """Return the graph of kernels, and inductor's estimate of the peak in bytes by each of its orders."""
    from torch._inductor import config, memory
    from torch._inductor.virtualized import V

    planning = torch_compile.planned(nodes)
    least_first = (nodes, planning.inputs, V.graph.scheduler.name_to_buf, planning.outputs)
    orders = {
        "baseline": nodes,
        "lpmf": memory.topological_sort_lpmf(*least_first),
        "bfs": memory.topological_sort_bfs(nodes),
        "dfs": memory.topological_sort_dfs(nodes),
    }
    with config.patch(size_threshold_for_succ_based_strategy=THRESHOLD):
        orders["successors"] = memory.topological_sort_lpmf(*least_first)
    return torch_compile.scheduled_graph(nodes), {rule: planning.estimate(orders[rule]) for rule in RULES}


def text(rows: list[Row]) -> Fields:
    """Return the fields of the text: on how many graphs which order is least."""
    theirs = [min(row[rule] for rule in RULES[:4]) for row in rows]
    excess = [peak / row["ours"] - 1 for peak, row in zip(theirs, rows, strict=True)]
    return {
        "table": TABLE.of(rows),
        "networks": len({row["network"] for row in rows}),
        "optimal": sum(row["status"] == "optimal" for row in rows),
        "less": sum(x > 0 for x in excess),
        "most": f"{max(excess):.1%}",
    }


def _bytes(key: str) -> Column:
    return Column(key, lambda row: f"{row[key]:,d}", RIGHT)


TABLE = TableSpec(
    (
        Column("network"),
        Column("pass"),
        Column("kernels", kind=",d"),
        *map(_bytes, (*RULES, "ours", "bound")),
        Column("status"),
    )
)
