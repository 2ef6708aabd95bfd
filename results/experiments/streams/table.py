"""What published methods of streams and stages take in time and memory, ours within a memory, what is proved.

IOS's four networks have times and shares of a roofline; the five traces of G10 have measured times and no
shares: each op fills the device, so that nothing is gained beside another under any contention but ``none``,
under which they are asked. The memory lies halfway from the least sequential peak to the most of any
concurrent run; of stages it counts what a stage reads and writes throughout.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial

import lowtide as lt

from ....models.derived.streams import synchronisations
from ....models.problems.memory_edges import apply_edges
from ....models.problems.stream_answers import Stages, StreamOrder
from ....models.verifier.verdict import Verification
from ...tables.spec import RIGHT, Column, Fields, Row, TableSpec
from ..running import Case

NETWORKS = tuple(
    f"catalogue:ios/{name}" for name in ("inception_v3", "squeezenet", "nasnet_large", "randwire_large")
)
TRACES = tuple(
    f"catalogue:g10/{name}"
    for name in ("bert_base-256", "inceptionv3-1536", "resnet152-1280", "senet154-1024", "vit-1280")
)
ORDERS = ("sequential", "nimble", "matching", "opara", "asap", "lios", "auto")
STAGED = ("ios",)
SECONDS = 30.0
"""Time limit of each solve of the table, in seconds."""
TWICE = 2.0
"""Seconds of the processor below which a schedule is made a second time, for its own time alone."""


def cases() -> Iterator[Case]:
    """Yield a case for each graph and contention."""
    for spec in (*NETWORKS, *TRACES):
        for contention in ("none", "proportional", "fluid", "half-serial") if spec in NETWORKS else ("none",):
            yield Case(f"{spec} {contention}", partial(rows_of, spec, contention))


def rows_of(spec: str, contention: str) -> Iterator[Row]:
    """Yield a row for each method, and for ours within the memory."""
    graph = lt.load(spec)
    most = lt.solve(lt.ParallelMemory(graph), threads=1).objective
    least = lt.solve(lt.Peak(graph), threads=1, time_limit=SECONDS).objective
    assert most is not None
    assert least is not None
    staged = contention in ("fluid", "half-serial")
    methods = STAGED if staged else ORDERS
    asked: list[tuple[str, int | None]] = [(method, None) for method in methods]
    if spec in NETWORKS:
        asked.append(("ios" if staged else "auto", (least + most) // 2))
    for method, memory in asked:
        yield _row(spec, graph, contention, method, memory)


def _row(spec: str, graph: lt.Graph, contention: str, method: str, memory: int | None) -> Row:
    problem = lt.Streams(graph, contention=contention, memory=memory)
    options = {"blocks": "stated"} if method == "ios" else {}
    for _ in range(2):  # the first one imports, and reads compiled kernels
        began = time.process_time()
        result = lt.solve(problem, method, options=options, time_limit=SECONDS, threads=1)
        seconds = time.process_time() - began
        if seconds > TWICE:
            break
    within = "" if memory is None else f"&memory={memory}"
    row: Row = {
        "instance": f"{spec}?contention={contention}{within}",
        "graph": spec,
        "contention": contention,
        "method": method,
        "memory": memory,
        "status": str(result.status),
        "time": result.objective,
        "bound": result.bound,
        "seconds": round(seconds, 4),
        **dict.fromkeys(("streams", "synchronisations", "stages", "worst")),
    }
    if result.plan is None or not isinstance(result.verification, Verification):
        return row
    answer = problem.read(result.plan)
    if isinstance(answer, Stages):
        return {**row, "stages": len(answer.stages), "worst": max(result.verification.peaks.values())}
    assert isinstance(answer, StreamOrder)
    edges = result.edges or ()
    worst = lt.solve(lt.ParallelMemory(apply_edges(graph, edges)), threads=1).objective
    waits = len(synchronisations(graph, answer.streams, edges))
    return {**row, "streams": len(answer.streams), "synchronisations": waits, "worst": worst}


def _memory(row: Row) -> str:
    return "" if row["memory"] is None else f"{row['memory'] / 1e6:,.1f}"


def _gap(row: Row) -> float | None:
    return None if not row["time"] else (row["time"] - row["bound"]) / row["time"]


TABLE = TableSpec(
    (
        Column("graph", lambda row: row["graph"].partition("/")[2]),
        Column("contention"),
        Column("method"),
        Column("within MB", _memory, RIGHT),
        Column("ms", lambda row: None if row["time"] is None else row["time"] / 1e6, ",.3f"),
        Column("bound ms", lambda row: row["bound"] / 1e6, ",.3f"),
        Column("gap", _gap, ".1%"),
        Column("CPU s", "seconds", ",.3f"),
        Column("streams", kind="d", missing=""),
        Column("syncs", "synchronisations", "d", ""),
        Column("stages", kind="d", missing=""),
        Column("worst MB", lambda row: None if row["worst"] is None else row["worst"] / 1e6, ",.1f"),
    )
)


def text(table: list[Row]) -> Fields:
    """Return the lines of the networks and of the traces."""
    of_networks = [row for row in table if row["graph"] in NETWORKS]
    return {
        "networks": TABLE.of(of_networks),
        "traces": TABLE.of(row for row in table if row not in of_networks),
    }
