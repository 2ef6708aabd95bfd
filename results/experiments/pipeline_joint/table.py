"""Transformers on 4 and 8 devices: published partition, recomputation and schedule against all three at once.

Layers and times are those of traced training steps and of a Llama of 8 billion parameters, layer by layer.
The memory of a device is between what Megatron's 1F1B takes with full recomputation and with none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import pairwise

import lowtide as lt
from lowtide import plot

from ....instances import load_problem
from ....instances.transforms.staged import words_of
from ....models.derived.layers import Choice, Joint, Layer, split_of
from ....models.derived.training_layers import training_layers
from ....models.verifier.verdict import Verification
from ....solvers.pipeline.joint import Choices, Stages, bound_of_any_stages, divided, joint_plan, pipeline_for
from ...tables.spec import RIGHT, Column, Fields, Row, TableSpec
from ..running import HERE, Case

FOLDER = HERE / "pipeline_joint"
LLAMA = (
    "gen:transformer?form=llama&layers=32&d_model=4096&heads=32&groups=8&hidden=14336&seq=1024"
    "&vocab=128256&train=1&split=1"
)
MODELS = {
    "BERT base": "catalogue:bert-base-train",
    "GPT-2 medium": "catalogue:gpt2-medium-train",
    "Llama 1B": "catalogue:llama-1b-train",
    "Llama 8B": LLAMA,
}
DEVICES = (4, 8)
"""Numbers of devices of the questions of the table."""
SHARES = (25, 100)
"""Percent of the way from the memory of full recomputation to that of none."""
LINK, LATENCY = 25 * 10**9, 10_000
"""Bytes per second and ns before, from device to device."""
SECONDS = 12.0
"""Time limit of each joint plan, in seconds; `auto` on two stages each has half of it."""
RULE_SECONDS = 5.0
"""Time limit of each solve by a rule, in seconds."""
PICTURES = {("Llama 1B", 4, 100): "llama"}
ADAPTED = "AdaPipe"


def cases() -> Iterator[Case]:
    """Yield a case for each question."""
    for model in MODELS:
        for devices in DEVICES:
            for share in SHARES:
                case = partial(rows_of, model, devices, share)
                yield Case(f"{model} {devices} {share}", case)


def equal(layers: Sequence[Layer], parts: int) -> tuple[int, ...]:
    """Return the ends of stages with as many attention and feed-forward layers each, as Megatron has them.

    What is before the first and behind the last of these layers goes to the first and last stage.
    """
    inner = [k for k, x in enumerate(layers[:-1]) if any(way.name == "selective" for way in x.ways)]
    return (*(inner[len(inner) * s // parts] for s in range(1, parts)), len(layers))


def kept(layers: Sequence[Layer], ends: Sequence[int], name: str) -> tuple[Choice, ...]:
    """Return choices by which all layers but the last, of the loss, have a way where they can."""
    ways = []
    for k, x in enumerate(layers):
        names = [way.name for way in x.ways]
        ways.append(names.index(name) if name in names and k + 1 < len(layers) else 0)
    return tuple(tuple(ways[i:j]) for i, j in pairwise([0, *ends]))


def parted(asked: Joint, method: str, way: str, objective: str, memory: bool) -> Stages | None:
    """Return the stages of a method of problem `partition` on layers that all have a way."""
    (choice,) = kept(asked.layers, [len(asked.layers)], way)
    graph, _ = split_of(asked.layers, [len(asked.layers)], [choice])
    n = len(asked.layers)
    question = lt.Partition(
        graph,
        asked.devices,
        memory=asked.memory if memory else None,
        together=tuple((k, 2 * n - 1 - k) for k in range(n)),
        backward=tuple(range(n, 2 * n)),
        schedule="1f1b",
        micro=asked.micro,
        objective=objective,
    )
    result = lt.solve(question, method, threads=1, time_limit=RULE_SECONDS)
    if result.plan is None:
        return None
    stage = question.read(result.plan).stage[:n]
    ends = tuple(k for k in range(1, n + 1) if k == n or stage[k] != stage[k - 1])
    return (ends, kept(asked.layers, ends, way)) if len(ends) == asked.devices else None


def systems(asked: Joint) -> Iterator[tuple[str, str, Stages | None]]:
    """Yield names, methods of `pipeline`, and stages; twice as many as devices where two are on each."""
    layers, p = asked.layers, asked.devices
    even, double = equal(layers, p), equal(layers, 2 * p)
    for way in ("keep", "selective", "full"):
        yield f"Megatron, {way}", "1f1b", (even, kept(layers, even, way))
        yield f"Megatron interleaved, {way}", "interleaved", (double, kept(layers, double, way))
    balanced = parted(asked, "torchgpipe", "keep", "load", memory=False)
    yield "torchgpipe", "gpipe", None if balanced is None else (balanced[0], (None,) * p)
    yield "PipeDream-Flush", "1f1b", parted(asked, "pipedream", "keep", "load", memory=False)
    for way in ("keep", "full"):
        yield f"Alpa, {way}", "1f1b", parted(asked, "alpa", way, "time", memory=True)
    for method in ("zb-h1", "zb-h2", "zb"):
        yield f"zero bubble, {method}", method, (even, kept(layers, even, "keep"))
    for method in ("v-min", "v-half", "v-zb"):
        yield f"controllable memory, {method}", method, (double, kept(layers, double, "keep"))
    yield ADAPTED, "1f1b", divided(asked, Choices(asked), [min(asked.micro, p - s) for s in range(p)])


def question(model: str, devices: int, share: int) -> Joint:
    """Return layers, devices and their memory."""
    found = training_layers(lt.load(MODELS[model]))
    micro = 2 * devices
    asked = Joint(
        layers=found.layers,
        devices=devices,
        micro=micro,
        memory=None,
        latency_ns=LATENCY - (-found.between * 10**9 // LINK),
    )
    ends = equal(found.layers, devices)
    takes = []
    for way in ("full", "keep"):
        stages = pipeline_for(asked, (ends, kept(found.layers, ends, way))).line.stages
        takes.append(max(x.fixed + min(micro, devices - s) * x.activation for s, x in enumerate(stages)))
    memory = takes[0] + (takes[1] - takes[0]) * share // 100
    return Joint(
        layers=asked.layers, devices=devices, micro=micro, memory=memory, latency_ns=asked.latency_ns
    )


def rows_of(model: str, devices: int, share: int) -> Iterator[Row]:
    """Yield a row for each system, and ours with one and two stages on each device."""
    asked = question(model, devices, share)
    single: list[Stages] = []
    double: list[tuple[int, Stages, str]] = []

    def row(name: str, method: str, stages: Stages, found: lt.Result, bound: int | None) -> Row:
        verdict = found.verification
        peaks = verdict.peaks if isinstance(verdict, Verification) and found.plan is not None else None
        asks = spec(model, asked, stages, method)
        return {
            "instance": asks if name == "together" else None,  # `lowtide audit` loads these
            "pipeline": asks,
            "audited": "yes" if name == "together" else "no",
            "model": model,
            "devices": devices,
            "share": share,
            "memory": asked.memory,
            "system": name,
            "method": method,
            "stages": len(stages[0]),
            "status": str(found.status),
            "time": found.objective,
            "bound": found.bound,
            "joint": bound,
            "anywhere": bound_of_any_stages(asked) if name == "together" else None,
            "peak": None if peaks is None else max(peaks.values()),
        }

    name_of = PICTURES.get((model, devices, share))
    fastest: tuple[int, str, lt.Result] | None = None
    for name, method, stages in systems(asked):
        if stages is None:  # nothing that it permits is within the memory
            continue
        problem = load_problem(lt.Pipeline, spec(model, asked, stages, method))
        found = lt.solve(problem, method, threads=1, time_limit=RULE_SECONDS)
        if len(stages[0]) == devices:
            single.append(stages)
            if found.objective is not None and (fastest is None or found.objective < fastest[0]):
                fastest = found.objective, name, found
        elif found.objective is not None:
            double.append((found.objective, stages, method))
        yield row(name, method, stages, found, None)
    plan = joint_plan(asked, time_limit=SECONDS, also=list(dict.fromkeys(single)))
    if plan.result is not None:
        yield row("together", "auto", (plan.ends, plan.choices), plan.result, plan.bound)
        if name_of is not None and fastest is not None:
            _draw(f"{name_of}-published", fastest[1], fastest[2])
            _draw(f"{name_of}-together", "Partition, recomputation and schedule together", plan.result)
    if double:
        _, stages, method = min(double)
        problem = load_problem(lt.Pipeline, spec(model, asked, stages, method))
        yield row(
            "two stages each", "auto", stages, lt.solve(problem, threads=1, time_limit=SECONDS / 2), None
        )


def spec(model: str, asked: Joint, stages: Stages, method: str) -> str:
    """Return the specification of the pipeline of stages."""
    cuts, ways = words_of(asked.layers, *stages)
    text = MODELS[model]
    text += f"{'&' if '?' in text else '?'}cuts={cuts}&ways={ways}&micro={asked.micro}"
    p = asked.devices
    if len(stages[0]) > p:
        back = [*range(p)] if method == "interleaved" else [*reversed(range(p))]
        text += f"&devices={'-'.join(map(str, [*range(p), *back]))}"
    return f"{text}&memory={asked.memory}&latency_ns={asked.latency_ns}"


def _draw(name: str, title: str, result: lt.Result) -> None:
    """Draw a plan."""
    assert result.plan is not None
    assert result.objective is not None
    figure = plot.new_figure(plot.timeline_inches(result.plan))
    words = f"{title}: {result.objective / 1e6:.1f} ms"
    plot.save(plot.timeline(result.plan, result.graph, figure, title=words)[0], FOLDER / f"{name}.svg")


TABLE = TableSpec(
    (
        Column("model"),
        Column("devices", kind="d"),
        Column("memory, GB", lambda row: row["memory"] / 1e9, ".2f"),
        Column("published", lambda row: _ms(row["published"]), RIGHT),
        Column("by", lambda row: row["by"] or "none fits"),
        Column("AdaPipe's", lambda row: _ms(row["adapted"]), RIGHT),
        Column("together", lambda row: _ms(row["ours"]), RIGHT),
        Column("at least", lambda row: _ms(row["least"]), RIGHT),
        Column("gain", lambda row: _part(row["adapted"], row["ours"]), RIGHT),
        Column("gap", lambda row: _part(row["ours"], row["least"]), RIGHT),
        Column("at least, several each", lambda row: _ms(row["anywhere"]), RIGHT),
        Column("two stages each", lambda row: _ms(row["double"]), RIGHT),
        Column("by which", lambda row: row["turned"] or "none fits"),
        Column("auto", lambda row: _ms(row["improved"]), RIGHT),
    )
)


def _ms(time: int | None) -> str:
    return "-" if time is None else f"{time / 1e6:,.1f}"


def _part(large: int | None, small: int | None) -> str:
    return "-" if large is None or small is None else f"{large / small - 1:.1%}"


def text(table: list[Row]) -> Fields:
    """Return a line for each question."""
    lines: dict[tuple[str, int, int], Row] = {}
    for row in table:
        line = lines.setdefault(
            (row["model"], row["devices"], row["memory"]),
            {
                **row,
                "published": None,
                "by": None,
                "adapted": None,
                "double": None,
                "turned": None,
                "improved": None,
            },
        )
        time, single = row["time"], row["stages"] == row["devices"]
        if row["system"] == "together":
            line |= {"ours": time, "least": row["joint"], "anywhere": row["anywhere"]}
        elif row["system"] == "two stages each":
            line["improved"] = time
        elif row["system"] == ADAPTED:
            line["adapted"] = time
        elif time is not None:
            value, by = ("published", "by") if single else ("double", "turned")
            if time < (line[value] or time + 1):
                line |= {value: time, by: row["system"]}
    every = [*lines.values()]
    gains = [line["adapted"] / line["ours"] - 1 for line in every if line["adapted"] is not None]
    rules = [line["published"] / line["ours"] - 1 for line in every if line["published"] is not None]
    return {
        "table": TABLE.of(every),
        "questions": str(len(every)),
        "proved": str(sum(line["ours"] == line["least"] for line in every)),
        "better": str(sum(gain > 0 for gain in gains)),
        "most": f"{max(gains):.0%}",
        "places": f"{max(line['ours'] / line['anywhere'] - 1 for line in every):.0%}",
        "rules": f"{min(rules):.0%} to {max(rules):.0%}",
    }
