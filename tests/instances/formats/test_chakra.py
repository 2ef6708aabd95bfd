"""Chakra traces: by hand through the package protobuf, random ones, and damaged bytes."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

import lowtide as lt
from tests.chakra_files import trace
from tests.damage import little_memory
from tests.effort import chosen

pytest.importorskip("google.protobuf")


def read(folder: Path, *nodes: Any, **options: object) -> lt.Graph:
    path = folder / "x.et"
    path.write_bytes(nodes[0] if isinstance(nodes[0], bytes) else trace(*nodes))
    return lt.load(path, **options)


def tensors(*rows: tuple[int, int, int, str]) -> str:
    """Return the text of inputs or outputs: storage, offset and elements of 4 bytes, device."""
    return str([[100 + s, s, offset, n, 4, device] for s, offset, n, device in rows])


PYTORCH = [
    {"id": 7, "name": "[pytorch|profiler|execution_trace|thread]", "type": 1},
    {
        "id": 8,
        "name": "aten::linear",
        "type": 4,
        "ctrl_deps": [7],
        "inputs": {"values": tensors((1, 0, 9, "cuda:0"))},
        "outputs": {"values": tensors((99, 0, 9, "cuda:0"))},
    },
    {
        "id": 9,
        "name": "kernel",
        "type": 4,
        "ctrl_deps": [8],
        "duration_micros": 5,
        "inputs": {
            "values": str([[1, 1, 0, 10, 4, "cuda:0"], 0.5, [[2, 2, 2, 3, 8, "cpu"]], "<None>", True])
        },
        "outputs": {"values": tensors((3, 0, 6, "cuda:0"), (4, 0, 1, "cuda:0"))},
    },
    {
        "id": 20,
        "name": "all_reduce",
        "type": 7,
        "data_deps": [9],
        "duration_micros": 2,
        "inputs": {"values": tensors((3, 1, 5, "cuda:0"))},
        "outputs": {"values": tensors((5, 0, 2, "cuda:0"))},
        "attr": [{"name": "comm_size", "int64_val": 24}, {"name": "is_cpu_op", "bool_val": False}],
    },
]


def test_a_trace_of_pytorch(tmp_path: Path) -> None:
    graph = read(tmp_path, *PYTORCH)
    assert [(op.name, op.kind, op.duration_ns, op.after) for op in graph.ops] == [
        ("[pytorch|profiler|execution_trace|thread]", "metadata", 1, ()),
        ("aten::linear", "compute", 1, (0,)),
        ("kernel", "compute", 5000, (1,)),
        ("all_reduce", "collective", 2000, (2,)),
    ]
    assert [(t.name, t.nbytes, t.kind, t.initial, t.final) for t in graph.tensors] == [
        ("storage 1 on cuda:0", 40, "input", True, True),
        ("storage 2 on cpu", 40, "input", True, True),
        ("storage 3 on cuda:0", 24, "other", False, False),
        ("storage 4 on cuda:0", 4, "output", False, True),
        ("storage 5 on cuda:0", 8, "output", False, True),
    ]
    assert [(op.reads, op.writes) for op in graph.ops] == [((), ()), ((), ()), ((0, 1), (2, 3)), ((2,), (4,))]
    assert lt.verify(graph, range(4)).peaks == {"memory": 40 + 40 + 24 + 4 + 8}
    assert sum(t.nbytes for t in read(tmp_path, *PYTORCH, device="cuda:0").tensors) == 76


def test_a_trace_of_a_simulator(tmp_path: Path) -> None:
    graph = read(
        tmp_path,
        {"id": 3, "name": "c", "type": 4, "data_deps": [1, 2, 1], "duration_micros": 7},
        {"id": 1, "name": "a", "type": 4, "attr": [{"name": "tensor_size", "uint64_val": 6}, {"name": "x"}]},
        {"id": 2, "type": 7, "data_deps": [1], "attr": [{"name": "comm_size", "int64_val": 9}]},
        {"id": 4, "type": 2, "ctrl_deps": [2], "attr": [{"name": "tensor_size", "int64_val": -1}]},
        {"id": 5, "type": 3, "data_deps": [4]},
    )
    assert [(op.name, op.kind, op.duration_ns, op.reads, op.writes, op.after) for op in graph.ops] == [
        ("a", "compute", 1, (), (0,), ()),
        ("node 2", "collective", 1, (0,), (1,), (0,)),
        ("c", "compute", 7000, (0, 1), (), (0, 1)),
        ("node 4", "load", 1, (), (2,), (1,)),
        ("node 5", "store", 1, (2,), (), (3,)),
    ]
    assert [t.nbytes for t in graph.tensors] == [6, 9, 0]


def test_random_traces(tmp_path: Path) -> None:
    for seed in chosen(range(80), least=15):
        rng = Random(seed)
        ids = rng.sample(range(10**6), rng.randint(1, 300 if seed % 5 == 0 else 12))
        nodes: list[dict[str, Any]] = []
        for k, i in enumerate(ids):
            earlier = rng.sample(ids[:k], min(k, rng.randint(0, 3)))
            nodes.append(
                {
                    "id": i,
                    "name": "n" * rng.randint(0, 300),
                    "type": rng.randint(0, 10),
                    "ctrl_deps": earlier[:1],
                    "data_deps": earlier[1:],
                    "duration_micros": rng.choice((0, 1, 127, 128, 10**9)),
                    "attr": [{"name": "comm_size", "int64_val": rng.randint(0, 2**40)}],
                }
            )
        graph = read(tmp_path, *rng.sample(nodes, len(nodes)))
        assert len(graph.ops) == len(nodes)
        assert sorted(op.duration_ns for op in graph.ops) == sorted(
            max(1, 1000 * n["duration_micros"]) for n in nodes
        )
        assert sum(len(op.after) for op in graph.ops) == sum(
            len(n["ctrl_deps"]) + len(n["data_deps"]) for n in nodes
        )
        assert sum(len(op.reads) for op in graph.ops) == sum(len(n["data_deps"]) for n in nodes)
        needed = {x for n in nodes for x in n["data_deps"]}
        assert sorted(t.nbytes for t in graph.tensors) == sorted(
            n["attr"][0]["int64_val"] for n in nodes if n["id"] in needed
        )


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ((b"",), "found no end of the number at byte 0 of 0"),
        ((b"\x05abc",), "found 3 bytes, expected the 5 of byte 0"),
        ((b"\x00",), "found no node, expected metadata and nodes"),
        ((b"\x00" + b"\xff" * 11,), "expected 1 to 10 bytes"),
        ((b"\x00\x01\x08",), "node 0 of the file: found no end of the number"),
        ((b"\x00\x02\x0a\x00",), "field 1: found bytes, expected int"),
        ((b"\x00\x02\x10\x00",), "field 2: found int, expected bytes"),
        ((b"\x00\x01\x0b",), "found field 1 of wire type 3, expected a message of proto3"),
        ((b"\x00\x03\x0d\x00\x00",), "found field 1 of wire type 5"),
        (({"id": 1}, {"id": 1}), "node 1: found it twice, expected each id once"),
        (({"id": 1, "data_deps": [2]},), "node 1: found dependency 2, expected a node of the file"),
        (
            ({"id": 1, "ctrl_deps": [2]}, {"id": 2, "data_deps": [1]}),
            "found the cycle node 1 -> node 2 -> node 1",
        ),
        (({"id": 1, "type": 11},), "found type 11, expected a number below 11"),
        (({"id": 1, "duration_micros": 2**63},), "duration_ns"),
    ],
)
def test_what_is_no_trace_is_refused(nodes: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(lt.InstanceError, match=message):
        read(tmp_path, *nodes)


def test_damaged_bytes_are_refused_or_read(tmp_path: Path) -> None:
    whole, messages = trace(*PYTORCH), []
    with little_memory():
        for seed in chosen(range(3000), least=200):
            rng, content = Random(seed), bytearray(whole)
            for _ in range(rng.randint(1, 4)):
                content[rng.randrange(len(content))] = rng.choice((0, 1, 127, 128, 255, rng.randrange(256)))
            try:
                read(
                    tmp_path, bytes(content[: rng.randrange(len(content))] if rng.random() < 0.1 else content)
                )
            except lt.InstanceError as error:
                messages.append(str(error))
    assert len(messages) > 50
    assert not [text for text in messages if "\n" in text]
