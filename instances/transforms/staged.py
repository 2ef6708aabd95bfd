"""A training step as the pipeline that some stages of its layers are."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby, pairwise

from ...models.derived.layers import Choice, Layer, stage_of
from ...models.derived.stages import pipeline_graph
from ...models.derived.training_layers import training_layers
from ...models.errors import InstanceError
from ...models.graph import Graph

GO = "go"
"""The ways of a stage that runs again in one go."""


def staged(graph: Graph, ends: str, ways: str = "", devices: str = "", micro: int = 1) -> Graph:
    """Return the pipeline of stages of a training step's layers.

    Parameters
    ----------
    ends
        Of each stage the number of the layer behind it, as in ``13-26-39-52``.
    ways
        Of each stage its layers' ways (`training_layers`), runs of first letters and counts, as in
        ``k3s10-go-k13-k13``; empty: all keep everything. ``go``: a stage that runs again in one go.
    devices
        Of each stage the number of its device, as in ``0-1-1-0``; empty: stage s on device s.
    micro
        Micro-batches; the graph is a step of one of them.

    Raises
    ------
    InstanceError
        If the graph is no training step that can be cut, or the stages do not fit its layers.
    """
    layers = training_layers(graph).layers
    where, count = f"stages of {graph.name!r}", len(layers)
    if re.fullmatch(r"\d{1,6}(-\d{1,6})*", ends, re.ASCII) is None:
        raise InstanceError(f"{where}: found {ends!r}, expected ends as in 3-6-{count}")
    cuts = [0, *map(int, ends.split("-"))]
    if cuts[-1] != count or any(i >= j for i, j in pairwise(cuts)):
        raise InstanceError(f"{where}: found ends {ends}, expected ascending ones, the last {count}")
    parts = [layers[i:j] for i, j in pairwise(cuts)]
    texts = ways.split("-") if ways else [f"k{len(part)}" for part in parts]
    if len(texts) != len(parts):
        raise InstanceError(f"{where}, ways: found those of {len(texts)} stages, expected {len(parts)}")
    if re.fullmatch(r"(\d{1,6}(-\d{1,6})*)?", devices, re.ASCII) is None:
        raise InstanceError(f"{where}, devices: found {devices!r}, expected numbers as in 0-1-1-0")
    home = [*map(int, devices.split("-"))] if devices else [*range(len(parts))]
    if len(home) != len(parts):
        raise InstanceError(f"{where}, devices: found those of {len(home)} stages, expected {len(parts)}")
    stages = [
        stage_of(part, _choice(part, text, where), device)
        for part, text, device in zip(parts, texts, home, strict=True)
    ]
    pipeline = pipeline_graph(stages, micro, f"{graph.name} in {len(stages)} stages")
    roofline = {"durations": "roofline"} if graph.device is not None else {}
    stated = {key: value for key, value in graph.provenance.items() if key in ("durations", "measured")}
    return replace(pipeline, provenance={**roofline, **stated})


def words_of(layers: Sequence[Layer], ends: Sequence[int], choices: Sequence[Choice]) -> tuple[str, str]:
    """Return the texts of `staged` for stages and their choices."""
    texts = []
    for i, j, choice in zip([0, *ends], ends, choices, strict=False):
        names = (
            [] if choice is None else [x.ways[k].name[0] for x, k in zip(layers[i:j], choice, strict=True)]
        )
        texts.append("".join(f"{name}{len([*some])}" for name, some in groupby(names)) or GO)
    return "-".join(map(str, ends)), "-".join(texts)


def _choice(layers: Sequence[Layer], text: str, where: str) -> Choice:
    """Return what the text of a stage says."""
    if text == GO:
        return None
    runs = re.findall(r"([ksf])(\d{1,6})", text, re.ASCII)
    letters = [letter for letter, many in runs for _ in range(int(many))]
    if "".join(a + b for a, b in runs) != text or len(letters) != len(layers):
        raise InstanceError(f"{where}, ways: found {text!r}, expected {len(layers)} of k, s, f, as in k2s1")
    choice = []
    for layer, letter in zip(layers, letters, strict=True):
        names = [way.name[0] for way in layer.ways]
        if letter not in names:
            raise InstanceError(
                f"{where}, ways: found {letter} for layer {layer.name!r}, expected {' or '.join(names)}"
            )
        choice.append(names.index(letter))
    return tuple(choice)
