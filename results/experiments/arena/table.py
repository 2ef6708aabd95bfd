"""What deployed systems need with fixed addresses, in two steps, and the least over orders and addresses."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import lowtide as lt

from ....models.units import format_bytes
from ....solvers.certify import certified
from ....solvers.context import Context
from ...tables.spec import RIGHT, Column, Fields, Row, TableSpec
from ..running import HERE, Case, lowtide

ALIGNMENT = 16
"""Of microcontrollers; the other graphs' sizes are multiples of 4 bytes, which no alignment rounds."""
SECONDS = 30.0
"""Time limit of each solve in seconds; the two-step method has a third for each step."""
SMALL = 2**18
"""Bytes of the smaller device memory; the larger one has twice as many."""
SYSTEMS = {
    "TFLite Micro": ("reference", "tflm"),
    "TFLite": ("reference", "size"),
    "TVM size": ("reference", "usmp-size"),
    "TVM conflicts": ("reference", "usmp-conflicts"),
    "XLA": ("xla", "xla"),
    "inductor": ("inductor", "run-time"),
    "peak, offsets": ("auto", "auto"),
}
"""Order and allocation of each."""
TINY = (
    *(f"gen:tinyml?image={side}&width={width}" for side in (96, 160) for width in (35, 50, 75, 100)),
    *(f"gen:tinyml?network=wide-kernels&image={side}" for side in (96, 128, 160, 176)),
    "gen:tinyml?network=mobilenet-v1&width=25&classes=2",
    "gen:tinyml?network=ds-cnn&classes=12",
)
LIGHT = (
    *("bvlc_alexnet", "densenet121", "inception_v1", "inception_v2", "resnet50", "shufflenet"),
    *("squeezenet", "vgg19", "zfnet512"),
)
TRACES = (
    *("densenet121", "diffusion-unet", "swin-t", "ios/inception_v3", "ios/nasnet_large", "ios/squeezenet"),
    *(
        "ios/randwire_large",
        "nasnet-6",
        "nasnet-12",
        "darts-8",
        "darts-20",
        "unet-4",
        "decoder-12",
        "seq2seq-6",
    ),
    *("llama-1b", "resnet50-train", "densenet121-train", "efficientnet-b0-train", "original-unet-train"),
    *("vit-b-16-train", "swin-t-train", "gpt2-small-train", "bert-base-train", "diffusion-unet-train"),
    *("moe-train", "llama-block-train", "g10/bert_base-256", "g10/inceptionv3-1536", "g10/resnet152-1280"),
    *("g10/senet154-1024", "g10/vit-1280", "gpt2-small-flash-train", "gpt2-medium-train", "llama-1b-train"),
    *(f"aten/{name}_in" for name in ("densenet121", "efficientnet_b0", "swin_t")),
    *(
        f"aten/{name}_tr"
        for name in ("googlenet", "gpt2s", "mobilenet_v2", "resnet18", "resnet50", "unet", "vit_b_16")
    ),
)
SPECS = (
    *TINY,
    *(f"onnx:{name}?batch=1" for name in LIGHT),
    *(f"onnx:{name}?batch=1&train=1" for name in LIGHT),
    *(f"catalogue:{name}" for name in TRACES),
)


def cases() -> Iterator[Case]:
    """Yield a case for each graph."""
    for spec in SPECS:
        yield Case(spec, partial(rows_of, spec))


def rows_of(spec: str) -> Iterator[Row]:
    """Yield a row for each system, then one for the least height, whose bound is certified."""
    graph = lt.load(spec)
    problem = lt.Arena(graph, ALIGNMENT if spec in TINY else 1)
    for system, (order, allocation) in SYSTEMS.items():
        options = {"order": order, "allocation": allocation}
        limit = SECONDS / 3 if system == "peak, offsets" else SECONDS
        result = lt.solve(problem, "two-step", options=options, time_limit=limit, threads=1)
        yield _row(spec, system, result)
    result = lt.solve(problem, time_limit=SECONDS, threads=1)
    row = _row(spec, "least", result)
    proof = certified(problem, result, Context(problem=problem, time_limit=SECONDS))
    if proof.certificate is not None and lt.verify_certificate(graph, proof.certificate).valid:
        row["certified"] = proof.certificate.bound
    yield row


def _row(spec: str, system: str, result: lt.Result) -> Row:
    return {
        "instance": f"{spec}&alignment={ALIGNMENT}" if spec in TINY else spec,
        "graph": spec,
        "ops": len(result.graph.ops) if result.graph is not None else None,
        "system": system,
        "method": result.method,
        "status": str(result.status),
        "height": result.objective,
        "bound": result.bound,
        "certified": None,
    }


def _ratio(system: str) -> Column:
    return Column(system, lambda row: row[system] / row["least"], ".3f")


def _kib(system: str) -> Column:
    return Column(system, lambda row: row[system] / 1024, ",.1f")


def _fits(row: Row) -> str:
    """Return which systems stay within the smaller and the larger memory."""
    found = []
    for size in (SMALL, 2 * SMALL):
        some = [name for name in (*SYSTEMS, "least") if row[name] <= size]
        found.append("all" if len(some) == len(SYSTEMS) + 1 else ", ".join(some) or "none")
    return "; ".join(found)


OF_GRAPHS = TableSpec(
    (
        Column("graph", lambda row: row["graph"].removeprefix("catalogue:")),
        Column("ops", kind=","),
        *map(_ratio, SYSTEMS),
        Column("least", lambda row: format_bytes(row["least"]), RIGHT),
        Column("status"),
        Column("certified", lambda row: "yes" if row["certified"] == row["least"] else "no"),
    )
)
OF_TINY = TableSpec(
    (
        Column("network", lambda row: row["graph"].removeprefix("gen:tinyml?")),
        *map(_kib, (*SYSTEMS, "least")),
        Column("within 256 KiB; 512 KiB", _fits),
    )
)


def text(table: list[Row]) -> Fields:
    """Return the lines of microcontrollers and of the other graphs, and what is proved and certified."""
    lines: dict[str, Row] = {}
    for row in table:
        line = lines.setdefault(row["graph"], {"graph": row["graph"], "ops": row["ops"]})
        line[row["system"]] = row["height"]
        if row["system"] == "least":
            line |= {"status": row["status"], "certified": row["certified"]}
    every = list(lines.values())
    return {
        "count": len(every),
        "proved": sum(line["status"] == "optimal" for line in every),
        "sealed": sum(line["certified"] == line["least"] for line in every),
        "below": sum(line["least"] < line["peak, offsets"] for line in every),
        "tiny": OF_TINY.of(line for line in every if line["graph"] in TINY),
        "graphs": OF_GRAPHS.of(line for line in every if line["graph"] not in TINY),
    }


def draw() -> None:
    """Draw the addresses of Swin-T's least arena."""
    folder = HERE / "arena"
    plan = folder / "swin_t.json"
    lowtide("solve", "arena", "catalogue:swin-t", "--plan", plan, "--quiet")
    lowtide("plot", plan, "-o", folder / "swin_t.svg")
    plan.unlink()
