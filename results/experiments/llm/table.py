"""Language and image models layer by layer: peak, recomputation, placement, pipeline and hybrid parallelism.

Graphs ``gen:llm`` of one rank with the durations of an H100 in bf16; one thread. A share of recomputation is
of the peak of the reference order. Placements are on one H100 with host and drive, where the GPU alone has no
room; nothing but inputs must be anywhere at first. The pipeline's bound is over all partitions, ways to
recompute and schedules with one stage on each device; `audit` loads the pipeline of the stages chosen.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import lowtide as lt

from ....instances import load_problem
from ....instances.transforms.staged import words_of
from ....models.derived.layers import Joint
from ....models.derived.training_layers import training_layers
from ....solvers.pipeline.joint import joint_plan
from ...tables.spec import RIGHT, Column, Row, TableSpec
from ..running import Case

DEVICE = "h100-80g"
"""The machine of placements, whose rates give all durations."""
SECONDS = 30
"""Time limit of each solve of the table, in seconds."""
PEAKS = {
    "Llama-3.2 1B": "model=llama-3.2-1b",
    "Llama-3.2 3B": "model=llama-3.2-3b",
    "Llama-3 8B, ZeRO-3 over 8": "model=llama-3-8b&dp=8&zero=3",
    "Llama-3 70B, tensor 8, stage 0 of 4, 8 micro-batches": "model=llama-3-70b&tp=8&sp=1&pp=4&micro=8",
    "Llama-3.1 405B, tensor 8, stage 15 of 16": "model=llama-3.1-405b&tp=8&sp=1&pp=16&stage=15&micro=16",
    "Mixtral 8x7B, tensor 2, experts 8": "model=mixtral-8x7b&tp=2&ep=8&dp=8&zero=1",
    "DeepSeek-V3, stage 1, experts 64": "model=deepseek-v3&pp=16&stage=1&ep=64&dp=128&zero=1&experts=ops",
    "DeepSeek-V3, prefill, all experts": "model=deepseek-v3&step=prefill&experts=ops",
    "DeepSeek-V2-Lite": "model=deepseek-v2-lite&experts=ops",
    "Qwen3-30B-A3B, experts 8": "model=qwen3-30b-a3b&ep=8&dp=8&zero=3",
    "gpt-oss-20b, eager attention": "model=gpt-oss-20b&attention=eager&dp=8&zero=3",
    "FLUX.1-dev": "model=flux.1-dev",
    "DiT-XL/2": "model=dit-xl-2&batch=64",
}
"""Graphs of the problem peak."""
RECOMPUTED = {
    "Llama-3.2 1B, ZeRO-3 over 64": "model=llama-3.2-1b&dp=64&zero=3&overlap=0",
    "Llama-3 8B, 8 layers, ZeRO-3 over 64": "model=llama-3-8b&layers=8&dp=64&zero=3&overlap=0",
    "DiT-XL/2": "model=dit-xl-2&batch=64",
}
"""Graphs of which parts are computed again."""
SHARES = (70, 50, 35)
"""Percent of the peak of the reference order that recomputation has."""
PLACED = {
    "Llama-3 8B": "model=llama-3-8b",
    "FLUX.1-dev": "model=flux.1-dev",
    "Llama-3 70B, decoding 16": "model=llama-3-70b&step=decode&batch=16",
    "Mixtral 8x7B, decoding 64": "model=mixtral-8x7b&step=decode&batch=64",
}
"""Graphs on one H100 with host and drive."""
PIPELINES = {
    "Llama-3.2 3B": "model=llama-3.2-3b&gradients=fp32",
    "Llama-3 8B": "model=llama-3-8b&gradients=fp32",
}
"""Training steps that are cut into stages."""
DEVICES, MICRO, MEMORY = 4, 8, 79 * 2**30
"""Of pipelines: devices, micro-batches, bytes of each device."""
HYBRID = {"Llama-3 8B, prefill": "model=llama-3-8b&step=prefill"}
"""Graphs on groups of devices."""


class Answer(NamedTuple):
    """What was solved: a specification of its question, the result, and a bound on what is asked."""

    spec: str
    result: lt.Result
    bound: int | None


def graph_of(options: str) -> str:
    """Return the specification of a graph with the durations of the device."""
    return f"gen:llm?{options}&durations={DEVICE}"


def cases() -> Iterator[Case]:
    """Yield a case for each question."""
    for name, options in PEAKS.items():
        yield _case("peak", name, "", partial(_solved, "peak", graph_of(options)))
    for name, options in RECOMPUTED.items():
        for share in SHARES:
            spec = f"{graph_of(options)}&memory={_memory(options, share)}B"
            yield _case("recompute", name, f"{share} %", partial(_solved, "recompute", spec))
    for name, options in PLACED.items():
        spec = f"{graph_of(options)}&machine={DEVICE}"
        yield _case("placement", name, "", partial(_solved, "placement", spec))
    for name, options in PIPELINES.items():
        yield _case("pipeline", name, "", partial(_piped, graph_of(options)))
    for name, options in HYBRID.items():
        spec = f"{graph_of(options)}&processors=8&memory={MEMORY}"
        yield _case("hybrid", name, "", partial(_solved, "hybrid", spec))


def _case(problem: str, name: str, share: str, solved: Callable[[], Answer]) -> Case:
    return Case(f"{problem}, {name} {share}".strip(), partial(rows_of, problem, name, share, solved))


def _memory(options: str, share: int) -> int:
    result = lt.solve(lt.Peak(lt.load(graph_of(options))), "reference", threads=1)
    assert result.objective is not None
    return result.objective * share // 100


def _solved(problem: str, spec: str) -> Answer:
    result = lt.solve(load_problem(problem, spec), threads=1, time_limit=SECONDS)
    return Answer(spec, result, result.bound)


def _piped(spec: str) -> Answer:
    """Return the fastest pipeline of any stages."""
    layers = training_layers(lt.load(spec)).layers
    asked = Joint(layers=layers, devices=DEVICES, micro=MICRO, memory=MEMORY, latency_ns=0)
    plan = joint_plan(asked, time_limit=SECONDS)
    assert plan.result is not None
    cuts, ways = words_of(layers, plan.ends, plan.choices)
    return Answer(f"{spec}&cuts={cuts}&ways={ways}&micro={MICRO}&memory={MEMORY}", plan.result, plan.bound)


def rows_of(problem: str, name: str, share: str, solved: Callable[[], Answer]) -> Iterator[Row]:
    """Yield the row of a question."""
    began = time.process_time()
    answer = solved()
    result = answer.result
    assert result.status is not lt.Status.FAILED, result.detail
    yield {
        "problem": problem,
        "model": name,
        "share": share,
        f"{problem}_question": answer.spec,
        "ops": None if result.graph is None else len(result.graph.ops),
        "status": str(result.status),
        "objective": result.objective,
        "bound": result.bound,
        "any": answer.bound,
        "seconds": round(time.process_time() - began, 2),
    }


def _shown(row: Row, key: str) -> str:
    if row[key] is None:
        return "-"
    return f"{row[key] / 2**30:,.2f} GiB" if row["problem"] == "peak" else f"{row[key] / 1e6:,.1f} ms"


def _status(row: Row) -> str:
    """Return the status; a pipeline is optimal if no other stages are better."""
    proven = row["status"] == "optimal" and row["any"] != row["objective"]
    return "feasible" if proven else str(row["status"])


def _gap(row: Row) -> float | None:
    return None if None in (row["objective"], row["any"]) else 1 - row["any"] / row["objective"]


TABLE = TableSpec(
    (
        Column("problem"),
        Column("model"),
        Column("memory", "share"),
        Column("ops", kind=",d"),
        Column("status", _status),
        Column("objective", lambda row: _shown(row, "objective"), RIGHT),
        Column("at least", lambda row: _shown(row, "any"), RIGHT),
        Column("gap", _gap, ".3%"),
        Column("CPU s", "seconds", ".1f"),
    )
)
