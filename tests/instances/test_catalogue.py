"""The catalogue: every entry loads with its hash; the tiny ones have the optimum that they claim."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from importlib import resources
from pathlib import Path

import pytest

from lowtide.instances import load, load_buffers, load_network
from lowtide.instances.catalogue import Bounds, entries
from lowtide.instances.formats.strict_json import parse_json
from lowtide.models.errors import InstanceError
from lowtide.models.graph import Accounting, Graph
from tests.oracles.brute_force import memory_profile, must_precede

TINY = [
    name
    for name, entry in entries().items()
    if str(entry.file).endswith(".json") and entry.format == "native"
]


def least_peak(graph: Graph) -> int:
    """Return the optimum under `coexist`, by dynamic programming over executed sets."""
    pairs = must_precede(graph)
    everything = frozenset(range(len(graph.ops)))

    def during(op: int, done: frozenset[int]) -> int:
        total = graph.ops[op].workspace
        for t, tensor in enumerate(graph.tensors):
            users = {i for i, o in enumerate(graph.ops) if t in o.reads or t in o.writes}
            begun = tensor.initial or any(t in graph.ops[i].writes for i in done | {op})
            if begun and (tensor.final or users - done):
                total += tensor.nbytes
        return total

    @cache
    def best(done: frozenset[int]) -> int:
        ready = [i for i in everything - done if all(a in done for a, b in pairs if b == i)]
        return min((max(during(i, done), best(done | {i})) for i in ready), default=0)

    return best(frozenset())


@pytest.mark.parametrize("name", entries())
def test_entry_loads_with_its_hash_and_consistent_bounds(name: str) -> None:
    entry = entries()[name]
    assert (entry.spec is None) != (entry.file is None)
    assert entry.description
    if entry.is_buffers:
        assert load_buffers(f"catalogue:{name}").sha256 == entry.sha256
        assert entry.peak == Bounds()
        return
    if entry.is_network:
        assert load_network(f"catalogue:{name}").sha256 == entry.sha256
        with pytest.raises(InstanceError, match="found a network, expected a graph"):
            load(f"catalogue:{name}")
        return
    graph = load(f"catalogue:{name}")
    assert graph.sha256 == entry.sha256
    known = entry.peak
    assert (known.source is None) == (known.lower is None and known.upper is None)
    if known.optimum is not None:
        assert known.lower == known.optimum == known.upper
    if known.lower is not None and known.upper is not None:
        assert known.lower <= known.upper
    if known.upper is not None and len(graph.ops) < 100:
        assert max(memory_profile(graph, range(len(graph.ops)))) >= known.upper


@pytest.mark.parametrize("name", TINY)
def test_the_claimed_optimum_is_the_optimum(name: str) -> None:
    graph = load(f"catalogue:{name}")
    claimed = entries()[name].peak.optimum
    if graph.accounting is Accounting.REPLACE:
        assert name == "chain-replace"  # One order only.
        assert max(memory_profile(graph, range(len(graph.ops)))) == claimed
    else:
        assert least_peak(graph) == claimed


def test_what_the_descriptions_say_about_other_orders() -> None:
    def peak(name: str, order: list[str]) -> int:
        graph = load(f"catalogue:{name}")
        number = {op.name: i for i, op in enumerate(graph.ops)}
        return max(memory_profile(graph, [number[op] for op in order]))

    right_first = ["source", "right1", "right2", "left1", "left2", "join"]
    assert peak("two-branches", right_first) == 16
    branches = [[f"load_{i}", f"shrink_{i}", f"grow_{i}"] for i in "abc"]
    assert peak("harpoon", [*branches[0], *branches[1], *branches[2], "root"]) == 21
    tree = load("catalogue:binary-tree")
    assert max(memory_profile(tree, range(len(tree.ops)))) == 9
    assert peak("kept-output", ["source", "keep", "heavy", "last"]) == 15
    assert peak("kept-output", ["source", "heavy", "keep", "last"]) == 15
    parts = [f"part{k}" for k in range(3)]
    assert peak("accumulate", ["zero", *parts, "add0", "add1", "add2"]) == 16


def test_a_changed_graph_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from lowtide.instances import catalogue

    entry = catalogue.Entry(name="x", description="x", sha256="0" * 64, spec="gen:chain")
    monkeypatch.setattr(catalogue, "entries", lambda: {"x": entry})
    with pytest.raises(InstanceError, match=r"instance 'catalogue:x': found sha256 .* expected 0000"):
        load("catalogue:x")


def test_changed_buffers_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from lowtide.instances import catalogue

    entry = replace(catalogue.entries()["minimalloc/example"], sha256="0" * 64)
    monkeypatch.setattr(catalogue, "entries", lambda: {entry.name: entry})
    with pytest.raises(InstanceError, match=r"'catalogue:minimalloc/example': found sha256 .* expected 0000"):
        load_buffers("catalogue:minimalloc/example")


def test_buffers_of_the_catalogue_are_those_of_the_file() -> None:
    found = load_buffers("catalogue:minimalloc/D?capacity=1MiB")
    assert (len(found.buffers), found.pools) == (213, {"": 2**20})
    assert found.source == "catalogue:minimalloc/D?capacity=1MiB"
    path = Path(str(resources.files("lowtide.instances.catalogue"))) / "minimalloc/D.1048576.csv"
    assert replace(load_buffers(path, capacity="1MiB"), source=found.source) == found
    assert load_buffers("catalogue:minimalloc/D").sha256.startswith("468eb85d31e2540c")


@pytest.mark.parametrize(
    ("read", "name", "words"),
    [
        (load, "minimalloc/D", "found a set of buffers, expected a graph"),
        (
            load,
            "gpt2-small-train?dtype=fp8",
            "'torch:gpt2_small?train=1&dtype=bf16' records",
        ),
        (load, "swin-t?dtype=fp16", "found fp16, expected fp32 or tf32, in which its tensors were"),
        (load, "diamond?dtype=bf16", "found bf16, expected none, for its ops state no data type; load a"),
        (load, "randwire-20-0?dtype=bf16", "found bf16, expected none"),
        (load, "minimalloc/D?dtype=bf16", "found a set of buffers"),
        (load, "g10/vit-1281", "did you mean g10/vit-1280"),
        (load_buffers, "minimalloc/L", "found unknown name 'minimalloc/L'"),
        (load_buffers, "minimalloc/A?iterations=3", "found buffers, expected a plan or a graph"),
        (load_buffers, "minimalloc/A?capcity=3", "found unknown option 'capcity'"),
    ],
)
def test_wrong_names_and_options(read: Callable[[str], object], name: str, words: str) -> None:
    with pytest.raises(InstanceError, match=re.escape(words)):
        read(f"catalogue:{name}")


def test_generated_graphs_take_a_data_type_and_recorded_ones_another_arithmetic() -> None:
    graph = load("catalogue:unet-4-train?dtype=bf16&durations=h100-80g")
    assert graph == load("gen:unet?train=1&dtype=bf16&durations=h100-80g")
    assert graph.durations == "roofline of h100-80g, bf16"
    assert load(str(graph.source)) == graph
    kept = load("catalogue:llama-block-train")
    assert load("catalogue:llama-block-train?dtype=fp32") == kept
    other = load("catalogue:llama-block-train?dtype=tf32")
    assert other.tensors == kept.tensors
    assert other.durations == "roofline of a100-40g at its peak rates, tf32, fp32"
    kinds = {op.kind for op in other.ops for part in op.work if part.dtype == "fp32"}
    assert kinds == {"adamw"}


def test_the_notice_names_every_folder_of_others() -> None:
    folder = Path(str(resources.files("lowtide.instances.catalogue")))
    notice = (folder / "NOTICE").read_text()
    folders = sorted(p.name for p in folder.iterdir() if p.is_dir() and p.name != "__pycache__")
    assert folders == ["aten", "g10", "iopddl", "ios", "layers", "minimalloc", "mlsys2026"]
    assert all(f"{name}/" in notice for name in folders)
    assert notice.count("Apache License, Version 2.0") == 5


def test_the_catalogue_is_strict_json_and_small() -> None:
    folder = Path(str(resources.files("lowtide.instances.catalogue")))
    files = {
        f.relative_to(folder).as_posix(): f.read_bytes()
        for f in folder.rglob("*")
        if f.name.endswith((".json", ".gz", ".csv"))
    }
    assert max(map(len, files.values())) < 128 * 1024
    assert sum(map(len, files.values())) < 1300 * 1024
    rows = parse_json(files.pop("catalogue.json"), "catalogue.json")["instances"]
    assert len({row["name"] for row in rows}) == len(rows)
    assert {row["file"] for row in rows if "file" in row} == set(files)
