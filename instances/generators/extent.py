"""How large a generated graph becomes, from its options alone: what takes minutes to make is refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Any

from ...models.errors import InstanceError
from ...models.opt import OPT
from .llm.networks import MODELS, LanguageModel

MOST = 1_000_000
"""Largest number of ops and operands of a generated graph; half a minute: some 30 us each."""


def _extent_of_llm(x: Mapping[str, Any]) -> int:
    """Return the extent of `gen:llm`: at most 800 a layer, and for an expert 60 (inference: 16)."""
    model, micro = MODELS[x["model"]], int(x["micro"])
    experts = 0
    if isinstance(model, LanguageModel):
        layers = int(x["layers"]) or model.layers
        experts = model.experts // int(x["ep"]) if x["experts"] == "ops" else 0
    else:
        layers = int(x["layers"]) or model.plain + model.double + model.single
    layers = -(-layers // int(x["pp"]))
    return micro * ((layers + 2) * 800 + layers * experts * (60 if x["step"] == "train" else 16))


_EXTENTS: dict[str, tuple[tuple[str, ...], Callable[[Mapping[str, Any]], int]]] = {
    "chain": (("n",), lambda x: 2 * x["n"]),
    "intree": (("n",), lambda x: 2 * x["n"]),
    "outtree": (("n",), lambda x: 2 * x["n"]),
    "harpoon": (("levels", "branches"), lambda x: 8 * x["branches"] ** x["levels"]),
    "pumpkin": (("paths", "length"), lambda x: 2 * x["paths"] * x["length"] + 2 * x["paths"] + 2),
    "sp": (("n",), lambda x: 3 * x["n"]),
    "layered": (
        ("layers", "width", "degree"),
        lambda x: x["layers"] * x["width"] * (1 + min(x["degree"], x["width"])),
    ),
    "hios": (
        ("n", "layers", "degree"),
        lambda x: x["n"] * (1 + min(x["degree"], x["n"] // x["layers"] + 1)) + x["layers"],
    ),
    "llm": (("model", "layers", "micro", "experts", "ep", "pp"), _extent_of_llm),
    "stages": (("p", "m", "v"), lambda x: 12 * x["p"] * x["m"] * x["v"]),
    "flexgen": (
        ("layers", "new", "batches"),
        lambda x: (x["layers"] or OPT[x["model"]].layers) * x["new"] * x["batches"] * (4 + x["new"] // 2),
    ),
    "assembly": (("grid",), lambda x: 4 * (1 + prod(map(int, x["grid"].split("x"))) // x["leaf"])),
    "backprop-chain": (("l",), lambda x: 7 * x["l"] + 7),
    "taped-chain": (("l",), lambda x: 10 * x["l"] + 10),
    "randwire": (("n", "k", "stages"), lambda x: x["stages"] * (x["n"] * (2 + x["k"] // 2) + 2)),
    "fft": (("points",), lambda x: 4 * x["points"] * x["points"].bit_length()),
    "matmul": (("rows", "columns", "inner"), lambda x: 8 * x["rows"] * x["columns"] * x["inner"]),
    "stencil": (("cells", "steps", "radius"), lambda x: x["cells"] * x["steps"] * (3 + 2 * x["radius"])),
    "lu": (("tiles",), lambda x: 3 * x["tiles"] ** 3 + 3),
    "cholesky": (("tiles",), lambda x: 2 * x["tiles"] ** 3 + 3),
    "attention": (("tiles",), lambda x: 12 * x["tiles"] ** 2),
    "skipchain": (("n",), lambda x: 4 * x["n"]),
}
"""Of families that their options do not keep small: which ones count, and about how many ops and operands."""


def check_extent(family: str, values: Mapping[str, Any], where: str) -> None:
    """Raise `InstanceError` if the options make a graph of more than `MOST` ops and operands."""
    if family not in _EXTENTS:
        return
    names, extent = _EXTENTS[family]
    size = extent(values) * (4 if values.get("train") else 1)
    if size > MOST:
        options = ", ".join(f"{name}={values[name]}" for name in names)
        raise InstanceError(
            f"instance {where!r}: found {options}, some {size:,} ops and operands, expected at most {MOST:,}"
        )
