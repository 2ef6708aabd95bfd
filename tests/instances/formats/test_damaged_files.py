"""Every reader on files with one value replaced: an error of ours in one line, or what the file says.

No reader computes with a value before it knows its type: `little_memory` fails what a list in the place of a
number would make.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import lowtide as lt
from lowtide.instances import load_buffers, load_machine, load_network, read_plan
from lowtide.instances.answers import read_answer
from lowtide.instances.formats.native_trade_off import trade_off_from_dict
from lowtide.instances.formats.strict_json import read_json
from tests.damage import damaged_json, damaged_text, little_memory
from tests.effort import chosen
from tests.problems import tiles_examples
from tests.small_files import (
    INDUCTOR,
    KERNELS,
    LAYERS,
    MODES,
    NETWORK,
    NETWORK_OF_COSTS,
    PROFILE,
    TENSORS,
    WORKFLOW,
)

MACHINE = lt.Machine(
    tiers=(lt.Tier(name="gpu", capacity=40), lt.Tier(name="host")),
    processors=(lt.Processor(name="p", kind="gpu", tiers=(lt.Access(tier="gpu", bytes_per_s=9),)),),
    channels=(
        lt.Channel(src="gpu", dst="host", bytes_per_s=10**9, latency_ns=1, shared=True),
        lt.Channel(src="host", dst="gpu", bytes_per_s=10**9),
    ),
    groups=(lt.ChannelGroup(name="bus", channels=(("gpu", "host"), ("host", "gpu")), bytes_per_s=10**9),),
    contention=lt.Contention(model="fluid", parts=2, sync_ns=1),
)
GRAPH = lt.Graph(
    name="small",
    tensors=(
        lt.Tensor(name="x", nbytes=4, kind="input", initial=True),
        lt.Tensor(name="w", nbytes=3, kind="weight", initial=True, final=True),
        lt.Tensor(name="y", nbytes=4, kind="output", final=True),
    ),
    ops=(
        lt.Op(name="f", kind="k", reads=(0, 1), writes=(2,), inplace=((0, 2),), workspace=2, share=1),
        lt.Op(
            name="g",
            after=(0,),
            modes=(
                lt.Mode(duration_ns=2, processors=("gpu",), operands=()),
                lt.Mode(duration_ns=3, workspace=1),
            ),
        ),
    ),
    provenance={"measured": {"device": "d", "date": "2026-11-23", "versions": {"a": "1"}, "repetitions": 2}},
)
PLAN = lt.Plan(
    machine=MACHINE,
    start=(lt.Resident(0, "gpu"), lt.Resident(1, "host", (0, 3))),
    start_tiers={"input": ("gpu",)},
    runs=(lt.Run(0, 0, 5, 6, "p"), lt.Run(1, 0, 6, 8, "p")),
    copies=(lt.Copy(1, "host", "gpu", 0, 4, (0, 3)),),
    frees=(lt.Free(0, "gpu", 6),),
    period=10,
    graph_name="small",
    graph_source="catalogue:diamond",
    graph_sha256="0" * 64,
    allocation={"x": 0},
)
CONVOLUTIONS = deepcopy(NETWORK)
for block in CONVOLUTIONS["blocks"]:
    for row in block["nodes"]:
        row |= {"groups": 1, "padding": [1, 1], "kernel": [3, 3], "stride": [1, 1], "act": "relu", "cin": 3}
        row |= {"out_shape": [2, 4, 4], "inputs": row["inputs"][:1]}
POINT = {"memory": 8, "makespan": 5, "peak": 7, "bound": 5, "proof": "exact", "gap": 0, "status": "optimal"}
CURVE = {
    "format": "lowtide/trade-off",
    "version": 1,
    "instance": "g",
    "machine": "2",
    "least_memory": 6,
    "bound": 4,
    "seconds": 1.5,
    "points": [POINT],
}
BUFFERS = {
    "format": "lowtide/buffers",
    "version": 1,
    "name": "b",
    "pools": {"a": 100, "b": None},
    "buffers": [
        {"id": "x", "lower": 0, "upper": 3, "size": 4, "alignment": 2, "pool": "a", "gaps": [[1, 2]]},
        {"id": "y", "lower": 1, "upper": 3, "size": 4, "offset": 8, "pool": "b"},
    ],
}
ALLOCATION = {
    "format": "lowtide/allocation",
    "version": 1,
    "buffers": {"name": "b", "source": None, "sha256": "0" * 64},
    "offsets": {"x": 0, "y": 8},
}
STRATEGIES = {
    "format": "lowtide/strategies",
    "version": 1,
    "network": {"name": "n", "source": None, "sha256": "0" * 64},
    "strategies": [0, 1],
}
TOML = """\
name = "m"
[[tiers]]
name = "gpu"
capacity = "40GiB"
[[processors]]
name = "p"
tiers = ["gpu"]
[[channels]]
src = "gpu"
dst = "gpu2"
bytes_per_s = "1.5GB/s"
latency_ns = 3
[[tiers]]
name = "gpu2"
"""
CSV = "id,lower,upper,size,alignment,gaps,offset\nx,0,3,4,2,1-2,0\ny,1,3,4,1,,8\n"
STG = "3\n0 0 0\n1 5 1 0\n2 4 1 0\n3 3 2 1 2\n4 0 1 3\n"
HDAG = "% small\n2 3 4\n0 1 2\n1 3 4\n0 5 0\n1 6 1\n2 7 0\n0 0\n0 1\n1 1\n1 2\n"
TREE = "1 0 4 1.5 7\n2 1 3 2e1 5\n3 1 0 1 2\n"
DOT = 'digraph g { a [nbytes="4", duration_ns="3"]; b [memory="1MB" time="2us"]; a -> b [size="3"]; }\n'
GRAPHML = """<?xml version="1.0" encoding="UTF-8"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
<key id="d0" for="node" attr.name="nbytes" attr.type="long"/>
<key id="d1" for="edge" attr.name="size" attr.type="double"/>
<graph edgedefault="directed">
<node id="a"><data key="d0">4</data></node><node id="b"/>
<edge source="a" target="b"><data key="d1">3.0</data></edge>
</graph></graphml>
"""


class File(NamedTuple):
    """A valid file: its name, its content (JSON, or text), and what reads a file at a path."""

    name: str
    content: Any
    read: Callable[[Path], object]


def loading(scheme: str, problem: Any = None) -> Callable[[Path], object]:
    """Return what loads a graph and, as some formats state one, its problem."""

    def read(path: Path) -> object:
        graph = lt.load(f"{scheme}:{path}" if scheme else path)
        return graph.sha256, problem and problem.of(graph)

    return read


def read_g10(path: Path) -> object:
    """Load the folder with the damaged file in the place of its own."""
    folder = path.parent / "run" / "statistics"
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in (("tensors.config", TENSORS), ("kernels.config", KERNELS)):
        (folder / name).write_bytes(path.read_bytes() if path.name == name else text.encode())
    return lt.load(f"g10:{folder.parent}").sha256


FILES = {
    "graph": File("x.json", json.loads(json.dumps(GRAPH.to_dict())), loading("")),
    "buffers of a graph": File("x.json", json.loads(json.dumps(GRAPH.to_dict())), load_buffers),
    "plan": File("x.json", json.loads(json.dumps(PLAN.to_dict())), read_plan),
    "machine": File("x.json", json.loads(json.dumps(MACHINE.to_dict())), load_machine),
    "machine, toml": File("x.toml", TOML, load_machine),
    "buffers": File("x.json", BUFFERS, load_buffers),
    "buffers, csv": File("x.csv", CSV, load_buffers),
    "allocation": File("x.json", ALLOCATION, read_answer),
    "trade-off": File("x.json", CURVE, lambda path: trade_off_from_dict(read_json(path), "x.json")),
    "inductor": File("x.json", INDUCTOR, loading("inductor")),
    "ios": File("x.json", CONVOLUTIONS, loading("ios")),
    "dnn-partitioning": File(
        "x.json", {**LAYERS, "expert": [[0, 1, 2, 5], [3, 4]]}, loading("dnn-partitioning", lt.Partition)
    ),
    "piper": File("x.json", MODES, loading("piper", lt.Hybrid)),
    "mlsys": File(
        "x.json",
        tiles_examples.SPLIT,
        lambda path: (lt.load(f"mlsys:{path}").sha256, lt.Tiles(lt.load_tiles(path))),
    ),
    "pipedream": File("x.txt", PROFILE, loading("pipedream", lt.Partition)),
    "wfcommons": File("x.json", WORKFLOW, loading("wfcommons")),
    "g10, tensors": File("tensors.config", TENSORS, read_g10),
    "g10, kernels": File("kernels.config", KERNELS, read_g10),
    "iopddl": File("x.json", NETWORK_OF_COSTS, load_network),
    "strategies": File("x.json", STRATEGIES, read_answer),
    "stg": File("x.stg", STG, loading("")),
    "hyperdag": File("x.hdag", HDAG, loading("")),
    "tree": File("x.tree", TREE, loading("")),
    "dot": File("x.dot", DOT, loading("")),
    "graphml": File("x.graphml", GRAPHML, loading("")),
}


def cases(content: Any) -> Iterator[tuple[str, bytes]]:
    return damaged_text(content) if isinstance(content, str) else damaged_json(deepcopy(content))


@pytest.mark.parametrize("name", FILES)
def test_a_damaged_file_is_refused_in_a_line_or_read(name: str, tmp_path: Path) -> None:
    file = FILES[name]
    path = tmp_path / file.name
    whole = file.content if isinstance(file.content, str) else json.dumps(file.content)
    path.write_text(whole)
    file.read(path)
    some = chosen(list(cases(file.content)), least=100)
    with little_memory():
        messages = [error_of(file, path, what, content) for what, content in some]
    assert any(messages)
    assert not [text for text in messages if "\n" in text]


def error_of(file: File, path: Path, what: str, content: bytes) -> str:
    """Return the error of reading the damaged content; empty if it is read."""
    path.write_bytes(content)
    try:
        file.read(path)
    except lt.LowtideError as error:
        return str(error)
    except BaseException as error:
        raise AssertionError(f"{what}: {error!r}") from error
    return ""
