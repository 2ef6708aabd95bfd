"""Sizes that take minutes to make are refused at once; what is estimated is not less than what is made."""

from __future__ import annotations

from typing import Any

import pytest

from lowtide.instances.generators import FAMILIES, generate
from lowtide.instances.generators.extent import _EXTENTS
from lowtide.instances.options import typed_options
from lowtide.models.errors import InstanceError

LARGE: dict[str, dict[str, Any]] = {
    "chain": {"n": 10**6},
    "intree": {"n": 10**6},
    "outtree": {"n": 10**6},
    "harpoon": {"levels": 18, "branches": 10, "memory": 10**6},
    "pumpkin": {"paths": 10**6, "length": 10**6},
    "sp": {"n": 10**6},
    "layered": {"layers": 10**6, "width": 10**6},
    "hios": {"n": 10**6, "layers": 2, "degree": 10**6},
    "llm": {"model": "deepseek-v3", "experts": "ops", "micro": 2},
    "stages": {"p": 1000, "m": 10**4, "v": 1000},
    "flexgen": {"new": 10**4, "batches": 10**6},
    "assembly": {"grid": "9999999x9999999"},
    "backprop-chain": {"l": 10**6},
    "taped-chain": {"l": 10**6},
    "randwire": {"n": 10**6},
    "skipchain": {"n": 10**6},
    "fft": {"points": 2**16},
    "matmul": {"rows": 1000, "columns": 1000, "inner": 1000},
    "stencil": {"cells": 10**6, "steps": 10**6},
    "lu": {"tiles": 200},
    "cholesky": {"tiles": 200},
    "attention": {"tiles": 500},
}


@pytest.mark.parametrize("family", _EXTENTS)
def test_what_takes_minutes_is_refused(family: str) -> None:
    with pytest.raises(InstanceError, match=r"ops and operands, expected at most 1,000,000"):
        generate(family, **LARGE[family])


def test_many_edges_are_refused_too() -> None:
    with pytest.raises(InstanceError, match=r"found n=100000, k=1000, stages=1, some 50,200,002 ops"):
        generate("randwire", n=100_000, k=1000)


@pytest.mark.parametrize(
    ("family", "train"),
    [
        (family, train)
        for family in _EXTENTS
        for train in (False, True)
        if not train or "train" in FAMILIES[family].parameters
    ],
)
def test_estimates_are_no_less_than_what_is_made(family: str, train: bool) -> None:
    parameters = FAMILIES[family].parameters
    more: dict[str, dict[str, Any]] = {
        "harpoon": {"levels": 3, "branches": 5},
        "fft": {"points": 64},
        "assembly": {"grid": "20x20x5", "leaf": 1},
        "llm": {"model": "deepseek-v2-lite", "experts": "ops", "layers": 4, "dp": 4, "zero": 3, "tp": 2},
    }
    names, extent = _EXTENTS[family]
    larger = more.get(family) or {name: 3 * (parameters[name].default or 1) for name in names if name != "k"}
    every: list[dict[str, Any]] = [{}, larger, *([{"data": "edge"}] if "data" in parameters else [])]
    for options in every:
        given = {**options, **({"train": True} if train else {})}
        graph = generate(family, **given)
        made = len(graph.ops) + sum(len(op.reads) for op in graph.ops)
        assert made <= extent(typed_options(given, parameters, "")) * (4 if train else 1)
