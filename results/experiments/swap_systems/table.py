"""Published swapping systems on training iterations that exceed the device, against certified bounds.

Every policy of the registry, and `auto`, on `MACHINES`: steady states, inputs anywhere when an iteration
begins, one thread. G10's workloads have the device as it is; ONNX networks train at the least batch whose
peak in the reference order is a multiple of the device (`NEEDS`); traces, whose batch is fixed, get a device
that is such a part of their peak. A slowdown is the period over the certified bound of the question, which
`auto` or, where that ends with a gap, `lp-bound` proves. ``busy`` is the share of the period in which the
busiest channel, or group of channels, moves its bytes at its full rate. ``height`` is what a best-fit
allocator takes at run time for what the plan holds on the device (`pool_height`).

ZeRO-Offload and ZeRO-Infinity need a second processor, and updates that it runs: questions of their own
(`ZERO`), each with the bound that is proved there.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Iterator
from functools import lru_cache, partial
from typing import NamedTuple

import lowtide as lt

from ....instances import load_problem
from ....models.buffers import Buffer, Buffers
from ....models.lowering.buffers import buffers_from_plan
from ....models.result import relative_gap
from ....models.verifier.allocation import verify_allocation
from ....models.verifier.verdict import Verification
from ....solvers.largest import ideal_time
from ....solvers.offsets.components import addresses
from ....solvers.offsets.first_come import place_as_they_come
from ....solvers.registry import ROOMS
from ...tables.spec import Row
from ..placement_g10.table import PUBLISHED
from ..running import HERE, Case, read_rows
from .compared import AUTO, CHANNELS, by_question, is_published, rows_of_systems, text

__all__ = ["cases", "draw", "text", "together"]

FOLDER = HERE / "swap_systems"
PICTURE = "performance_profile.svg"

MACHINES = ("a100-40g-pcie3", "h200-node")
NETWORKS = (
    *("bvlc_alexnet", "densenet121", "inception_v1", "inception_v2", "resnet50"),
    *("shufflenet", "squeezenet", "vgg19", "zfnet512"),
)
TRACES = ("bert-base-train", "gpt2-medium-train", "swin-t-train", "vit-b-16-train")
NEEDS = (1.5, 3.0)
"""Peaks in the reference order that are asked, as multiples of the device's memory."""

SYSTEMS = tuple(m.name for m in ROOMS["placement"].methods if any(o.name == "strict" for o in m.options))
"""The published systems: policies that the simulator carries out."""

SECONDS = 10
"""Time limit of `auto` for each question, in seconds."""
BOUND_SECONDS = 25
"""Of `lp-bound`, at most, where `auto` ends with a gap."""
MOST = 300
"""Of a system; they end by themselves long before."""

ZERO_MACHINE = "v100-32g-cpu-nvme"
ZERO = {
    "llama-1b": "catalogue:llama-1b-train?",
    "moe": "catalogue:moe-train?",
    "decoder-24": "gen:transformer?layers=24&d_model=1024&heads=16&seq=1024&batch=4&vocab=50257&weights=1"
    "&train=1&",
    "vgg19": "onnx:vgg19?batch=64&train=1&weights=1&",
    "resnet50": "onnx:resnet50?batch=64&train=1&weights=1&",
}
"""Training iterations with weights."""
FORMS = {
    "updates on the host": ("zero-offload", "zero", {}),
    "delayed updates": ("zero-offload", "zero-delayed", {}),
    "parameters on the host": ("zero-infinity", "zero", {"home": "host"}),
    "parameters on the drive": ("zero-infinity", "zero", {"home": "drive"}),
}
"""Method, node, options."""
BUCKET = 1100
"""MB of gradients, of which one here has 1051 MB."""

PERIODIC = "periodic=1&start.input=anywhere"


class Question(NamedTuple):
    """A workload on a machine; `need` is None where both are as they are."""

    machine: str
    workload: str
    need: float | None


def questions() -> Iterator[Question]:
    """Yield all of them."""
    for machine in MACHINES:
        yield from (Question(machine, workload, None) for workload in PUBLISHED)
        yield from (Question(machine, name, need) for name in (*NETWORKS, *TRACES) for need in NEEDS)


def cases() -> Iterator[Case]:
    """Yield a case for each question and method."""
    for question in questions():
        for method in (AUTO, *SYSTEMS):
            name = " ".join((question.machine, question.workload, f"{question.need}", method))
            yield Case(name, partial(rows_of, question, method))
    for workload in ZERO:
        for form in FORMS:
            yield Case(f"{ZERO_MACHINE} {workload} {form}", partial(zero_rows, workload, form))


@lru_cache(1)
def asked(question: Question) -> tuple[str, int, lt.Placement]:
    """Return the specification of a question, the peak of its graph in the reference order, the problem."""
    machine, workload, need = question
    device = lt.load_machine(machine).tiers[0].capacity or 0
    if workload in PUBLISHED:
        graph, more = f"catalogue:g10/{workload}?", ""
    elif workload in NETWORKS:
        assert need is not None
        network = f"onnx:{workload}?batch={{}}&train=1&weights=1&"
        batches = range(1, 2**17)
        batch = bisect_left(batches, need * device, key=lambda batch: peak_of(network.format(batch)[:-1]))
        graph, more = network.format(batches[batch]), ""
    else:
        assert need is not None
        graph = f"catalogue:{workload}?"
        more = f"&device={int(peak_of(graph[:-1]) / need)}B"
    spec = f"{graph}machine={machine}{more}&{PERIODIC}"
    return spec, peak_of(graph[:-1]), load_problem(lt.Placement, spec)


def peak_of(spec: str) -> int:
    """Return the peak of a graph in its reference order, in bytes."""
    graph = lt.load(spec)
    return lt.Peak(graph).evaluate(tuple(range(len(graph.ops))))


def rows_of(question: Question, method: str) -> list[Row]:
    """Return the row of one solve; its plan was verified."""
    spec, peak, problem = asked(question)
    began = time.process_time()
    result = lt.solve(problem, method, threads=1, time_limit=SECONDS if method == AUTO else MOST)
    if result.status is lt.Status.INFEASIBLE and method != AUTO:
        return []
    row = row_of(question, problem, peak, result)
    if method == AUTO and result.status is lt.Status.FEASIBLE:
        proved = lt.solve(problem, "lp-bound", hint=result.plan, threads=1, time_limit=BOUND_SECONDS)
        if (proved.bound or 0) > (result.bound or 0):
            row |= {"bound": proved.bound, "bound_kind": proved.bound_kind}
    return [row | {"seconds": round(time.process_time() - began, 1), "instance": spec}]


def zero_rows(workload: str, form: str) -> list[Row]:
    """Return the row of one of ZeRO's systems; its plan was verified."""
    method, node, options = FORMS[form]
    spec = f"{ZERO[workload]}node={node}&machine={ZERO_MACHINE}&{PERIODIC}"
    problem, began = load_problem(lt.Placement, spec), time.process_time()
    result = lt.solve(problem, method, threads=1, time_limit=MOST, options={"bucket": str(BUCKET), **options})
    peak = lt.Peak(problem.graph).evaluate(tuple(range(len(problem.graph.ops))))
    row = row_of(Question(ZERO_MACHINE, f"{workload}, {form}", None), problem, peak, result)
    return [row | {"seconds": round(time.process_time() - began, 1), "instance": spec}]


def row_of(question: Question, problem: lt.Placement, peak: int, result: lt.Result) -> Row:
    """Return what a row says of a question and a result, without seconds and instance."""
    assert result.status is not lt.Status.FAILED, result.detail
    return {
        **question._asdict(),
        "ops": len(problem.graph.ops),
        "peak": peak,
        "device": problem.machine.tiers[0].capacity,
        "ideal": ideal_time(problem),
        "method": result.method,
        "status": str(result.status),
        "period": result.objective,
        "bound": result.bound,
        "bound_kind": result.bound_kind,
        "emergencies": result.facts.get("emergencies"),
        "gives_up": result.facts.get("gives_up"),
        "evictions": result.facts.get("evictions"),
        "copies": None if result.plan is None else len(result.plan.copies),
        **costs(problem, result),
    }


def together(rows: list[Row]) -> list[Row]:
    """Return the rows with the bound that `auto` has of their question, if it has one, and the gaps."""
    known = {row["instance"]: row for row in rows if row["method"] == AUTO}
    for row in rows:
        own = known.get(row["instance"], row)
        row["bound"], row["bound_kind"] = own["bound"], own["bound_kind"]
        row["gap"] = relative_gap(row["period"], row["bound"])
        if row["gap"] == 0:
            row["status"] = "optimal"
    return rows


def costs(problem: lt.Placement, result: lt.Result) -> Row:
    """Return bytes by channel, the busiest channel or group, load and height of the device's memory."""
    columns = ("busy", "busiest", *CHANNELS, "load", "height")
    if result.plan is None or not isinstance(result.verification, Verification):
        return dict.fromkeys(columns)
    traffic, machine = result.verification.traffic, problem.machine
    links = [(group.name, group.channels, group.bytes_per_s) for group in machine.groups]
    links += [(f"{c.src} to {c.dst}", ((c.src, c.dst),), c.bytes_per_s) for c in machine.channels]
    used = {
        name: sum(traffic.get(pair, 0) for pair in pairs) * 1e9 / rate / result.verification.makespan
        for name, pairs, rate in links
    }
    busiest = max(used, key=lambda name: used[name])
    moved = [traffic.get((src, dst), 0) for src, _, dst in (c.partition("_") for c in CHANNELS)]
    first = machine.tiers[0].name
    height = pool_height(buffers_from_plan(problem.graph, result.plan), first)
    load = result.verification.peaks[first]
    return dict(zip(columns, (round(used[busiest], 4), busiest, *moved, load, height), strict=True))


def pool_height(buffers: Buffers, pool: str) -> int:
    """Return the bytes of a pool that a best-fit allocator takes which knows nothing of what comes.

    Bytes that come and go together are one buffer; what leaves and returns is allocated anew.
    """
    pieces = Buffers(
        buffers=tuple(
            Buffer(id=f"{buffer.id}/{k}", lower=lower, upper=upper, size=high - low)
            for buffer in buffers.buffers
            if buffer.pool == pool
            for k, (lower, upper, low, high) in enumerate(buffer.rectangles)
        )
    )
    placed = addresses(pieces, partial(place_as_they_come, best_fit=True))
    verdict = verify_allocation(pieces, placed)
    verdict.raise_if_invalid()
    return verdict.heights[""]


def draw() -> None:
    """Draw the performance profile of `auto` and the systems with a rank, where there is a plan."""
    import pandas as pd

    from ... import plot
    from ...tables.measured import measured

    known = [row for row in read_rows(FOLDER.name) if row["machine"] in MACHINES]
    systems = {AUTO, *filter(is_published, rows_of_systems(by_question(known)))}
    rows = [row for row in known if row["bound"] is not None and row["method"] in systems]
    runs = pd.DataFrame(rows).rename(columns={"period": "objective"})
    runs = measured(runs.assign(problem="placement", setting=runs["method"], seed=0))
    title = "Published swapping systems and auto"
    axes = plot.performance_profile(runs, plot.new_axes(), value="objective", title=title)
    axes.set_xlabel("period within this factor of the least")
    plot.save(axes, FOLDER / PICTURE)
