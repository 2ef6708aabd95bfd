"""Make the bundled graphs of real networks: trace them with torch, then bound their least peaks.

Writes ``instances/catalogue/NAME.json.gz`` and the rows of ``catalogue.json``. Needs torch (2.13.0 was used;
another version may trace other ops, and so make graphs with another hash). ``--keep-graphs`` traces nothing
and only tries to close the gaps that are left, which needs no torch. A bound that was better is kept.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..running import ROOT

CATALOGUE = ROOT / "instances" / "catalogue"

GRAPHS = {
    "resnet50-train": ("resnet50?batch=32&train=1", "ResNet-50, training step"),
    "densenet121": ("densenet121", "DenseNet-121, inference"),
    "densenet121-train": ("densenet121?train=1", "DenseNet-121, training step"),
    "efficientnet-b0-train": ("efficientnet_b0?batch=16&train=1", "EfficientNet-B0, training step"),
    "original-unet-train": ("unet?train=1", "U-Net of the paper, training step"),
    "vit-b-16-train": ("vit_b_16?train=1", "ViT-B/16, training step"),
    "swin-t": ("swin_t", "Swin-T, inference"),
    "swin-t-train": ("swin_t?train=1", "Swin-T, training step"),
    "gpt2-small-train": ("gpt2_small?train=1", "GPT-2 small, training step"),
    "gpt2-small-flash-train": (
        "gpt2_small?flash=1&train=1",
        "GPT-2 small with fused attention, training step",
    ),
    "gpt2-medium-train": ("gpt2_medium?train=1", "GPT-2 medium, training step"),
    "bert-base-train": (
        "bert_base?seq=128&batch=8&train=1&optimizer=adamw",
        "BERT-base with its masked language model, training step",
    ),
    "llama-1b": ("llama_1b?seq=512", "decoder in the sizes of Llama 3.2 1B, inference"),
    "llama-1b-train": (
        "llama_1b?train=1&optimizer=adamw&weights=1",
        "decoder in the sizes of Llama 3.2 1B, training step, with weights and Adam's states",
    ),
    "llama-block-train": (
        "llama_1b?layers=1&train=1&optimizer=adamw&weights=1",
        "decoder of one block of Llama 3.2 1B, training step, with weights and Adam's states",
    ),
    "moe-train": (
        "moe?train=1&optimizer=adamw&weights=1",
        "decoder of four blocks, two with eight experts, training step, with weights and Adam's states",
    ),
    "diffusion-unet": ("diffusion_unet", "U-Net of DDPM for CIFAR-10, inference"),
    "diffusion-unet-train": ("diffusion_unet?batch=16&train=1", "U-Net of DDPM for CIFAR-10, training step"),
}
"""Name in the catalogue -> specification after ``torch:``, and description."""


def make(*, only: str = "", time_limit: float = 60, method: str = "auto", keep_graphs: bool = False) -> None:
    """Make the graphs whose name contains a text; the limit is that of each peak."""
    for name in (name for name in GRAPHS if only in name):
        path = CATALOGUE / f"{name}.json.gz"
        if not keep_graphs:
            trace(name, path)
        row = bounded(described(name, path), path, method, time_limit)
        write_row(row)
        size, known = path.stat().st_size, row["peak"]
        print(f"{name}: {size:,} bytes, peak {known['upper']:,}, bound {known['lower']:,}", flush=True)


def trace(name: str, path: Path) -> None:
    """Write the graph of a network under its name in the catalogue."""
    from ....instances import load, save

    save(replace(load(f"torch:{GRAPHS[name][0]}"), name=name), path)


def described(name: str, path: Path) -> dict[str, Any]:
    """Return the row of a graph; bounds are those that the catalogue has for the same graph."""
    from ....instances.formats.native import read_graph

    graph = read_graph(path)
    spec, title = GRAPHS[name]
    old = next((row for row in rows() if row["name"] == name), None)
    unknown = {"optimum": None, "lower": None, "upper": None, "source": None}
    return {
        "name": name,
        "file": path.name,
        "sha256": graph.sha256,
        "description": f"{title}, {len(graph.ops)} ops; torch:{spec}",
        "peak": old["peak"] if old is not None and old["sha256"] == graph.sha256 else unknown,
    }


def bounded(row: dict[str, Any], path: Path, method: str, seconds: float) -> dict[str, Any]:
    """Return the row with what a method finds, unless its optimum is known."""
    known = row["peak"]
    if known["optimum"] is not None:
        return row
    command = [sys.executable, "-m", "lowtide", "solve", "peak", str(path), "--json", "--quiet"]
    options = ["--method", method, "--time-limit", str(seconds), "--threads", "1"]
    done = subprocess.run([*command, *options], capture_output=True, text=True, check=True)
    record = json.loads(done.stdout)
    assert record["verified"], record
    lower = max(x for x in (known["lower"], record["bound"]) if x is not None)
    upper = min(x for x in (known["upper"], record["objective"]) if x is not None)
    if (lower, upper) == (known["lower"], known["upper"]):
        return row
    found = f"lowtide {record['versions']['lowtide']}, solve peak, {method}"
    source = "; ".join(dict.fromkeys(x for x in (known["source"], found) if x))
    optimum = upper if lower == upper else None
    return {**row, "peak": {"optimum": optimum, "lower": lower, "upper": upper, "source": source}}


def rows() -> list[dict[str, Any]]:
    """Return the rows of the catalogue."""
    found: list[dict[str, Any]] = json.loads((CATALOGUE / "catalogue.json").read_text("utf-8"))["instances"]
    return found


def write_row(row: dict[str, Any]) -> None:
    """Put a row in the place of the one of its name, or behind all."""
    table = {old["name"]: old for old in rows()} | {row["name"]: row}
    lines = ",\n".join(json.dumps(row) for row in table.values())
    (CATALOGUE / "catalogue.json").write_text(f'{{"instances": [\n{lines}\n]}}\n', "utf-8")
