"""Several memories with fixed addresses each: what deployed rules need, and the least sum of heights."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import lowtide as lt

from ....models.units import format_bytes
from ....solvers.certify import certified
from ....solvers.context import Context
from ...tables.spec import RIGHT, Column, Fields, Row, TableSpec
from ..running import Case

SECONDS = 30.0
"""Time limit of each solve in seconds; the two-step method has a third for each step."""
ALIGNMENT = 16
"""Bytes that addresses are multiples of, in all rows."""
SYSTEMS = {"TFLite Micro": ("reference", "tflm"), "XLA": ("xla", "xla"), "peak, offsets": ("auto", "auto")}
"""Order and allocation of each."""
INFERENCE = (
    "gen:tinyml?image=96&width=35&weights=1",
    "gen:tinyml?image=160&width=100&weights=1",
    "gen:tinyml?network=wide-kernels&image=176&weights=1",
    "gen:tinyml?network=mobilenet-v1&width=25&classes=2&weights=1",
    "onnx:squeezenet?batch=1&weights=1",
)
TRAINING = tuple(f"onnx:{name}?batch=1&train=1&weights=1" for name in ("squeezenet", "resnet50"))
POOLS = {
    **dict.fromkeys(INFERENCE, ("weight", "weight/input+output")),
    **dict.fromkeys(TRAINING, ("weight", "weight/gradient")),
}
"""Memories besides the one of all other kinds: flash; buffers that devices read and fill; gradients."""


def cases() -> Iterator[Case]:
    """Yield a case for each network."""
    for spec in POOLS:
        yield Case(spec, partial(rows_of, spec))


def rows_of(spec: str) -> Iterator[Row]:
    """Yield, for one pool and for several, a row for each system and one for the least, with its proof."""
    graph = lt.load(spec)
    for pools in ("", *POOLS[spec]):
        problem = lt.Arena(graph, ALIGNMENT, pools=pools)
        for system, (order, allocation) in SYSTEMS.items():
            options = {"order": order, "allocation": allocation}
            result = lt.solve(problem, "two-step", options=options, time_limit=SECONDS / 3, threads=1)
            yield _row(spec, problem, system, result)
        result = lt.solve(problem, time_limit=SECONDS, threads=1)
        row = _row(spec, problem, "least", result)
        proof = certified(problem, result, Context(problem=problem, time_limit=SECONDS))
        if proof.certificate is not None and lt.verify_certificate(graph, proof.certificate).valid:
            row["certified"] = proof.certificate.bound
        yield row


def _row(spec: str, problem: lt.Arena, system: str, result: lt.Result) -> Row:
    assert result.plan is not None, result.detail
    heights = problem.heights(problem.read(result.plan))
    return {
        "instance": f"{spec}&alignment={ALIGNMENT}" + (f"&pools={problem.pools}" if problem.pools else ""),
        "graph": spec,
        "pools": problem.pools or None,
        "system": system,
        "method": result.method,
        "status": str(result.status),
        "height": result.objective,
        "each": "/".join(map(str, heights)),
        "bound": result.bound,
        "certified": None,
    }


def _ratio(system: str) -> Column:
    return Column(system, lambda row: row[system] / row["least"], ".3f")


OF_POOLS = TableSpec(
    (
        Column("graph", lambda row: row["graph"]),
        Column("pools", lambda row: f"rest/{row['pools']}" if row["pools"] else "one"),
        *map(_ratio, SYSTEMS),
        Column("least", lambda row: format_bytes(row["least"]), RIGHT),
        Column("of each", lambda row: " + ".join(format_bytes(int(x)) for x in str(row["each"]).split("/"))),
        Column("status"),
        Column("certified", lambda row: "yes" if row["certified"] == row["least"] else "no"),
    )
)


def text(table: list[Row]) -> Fields:
    """Return a line for each network and its pools, and how many are proved and certified."""
    lines: dict[str, Row] = {}
    for row in table:
        line = lines.setdefault(row["instance"], dict(row))
        line[row["system"]] = row["height"]
        if row["system"] == "least":
            line |= {key: row[key] for key in ("status", "certified", "each")}
    every = list(lines.values())
    return {
        "count": len(every),
        "proved": sum(line["status"] == "optimal" for line in every),
        "sealed": sum(line["certified"] == line["least"] for line in every),
        "table": OF_POOLS.of(every),
    }
