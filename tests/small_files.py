"""Small valid files of the formats of other programs: what readers are tried on, as it is or damaged."""

from __future__ import annotations

from typing import Any


def layer(number: int, ms: float, size: float, colour: int | None, backward: bool = False) -> dict[str, Any]:
    times = {"fpgaLatency": ms, "cpuLatency": 10 * ms, "supportedOnFpga": number != 4}
    own = {} if colour is None else {"colorClass": colour}
    return {"id": number, "name": f"n{number}", **times, "size": size, "isBackwardNode": backward, **own}


LAYERS: dict[str, Any] = {
    "maxFPGAs": 2,
    "maxCPUs": 1,
    "maxSizePerFPGA": 100.0,
    # a weight and an input without time vanish into n2; n3 has another neighbour besides n2, and stays
    "nodes": [
        layer(0, 0, 7.0, 0),
        layer(1, 0, 0.0, None),
        layer(2, 0.0015, 5.0, 2),
        layer(3, 0, 0.0, 3),
        layer(4, 0.002, 0.0, 4),
        layer(5, 0.001, 3.0, 2, True),
    ],
    "edges": [
        {"sourceId": a, "destId": b, "cost": cost, "size": size}
        for a, b, cost, size in (
            (1, 0, 0.5, 50.0),
            (0, 2, 0.5, 50.0),
            (2, 3, 0.25, 25.0),
            (3, 4, 0.25, 999.0),
            (4, 5, 0.5, 50.0),
        )
    ],
}


PROFILE = """node1 -- Input0 -- forward_compute_time=9.5, backward_compute_time=0.000, activation_size=8.0, parameter_size=0.000
node2 -- Conv2d(3, 64, kernel_size=(3, 3)) -- forward_compute_time=0.0015, backward_compute_time=0.003, activation_size=16.0, parameter_size=4.000
node3 -- LSTM(1, 1) -- forward_compute_time=0.002, backward_compute_time=0.000, activation_size=[6.0; 2.0], parameter_size=0.000
\tnode1 -- node2
\tnode2 -- node3
"""  # noqa: E501


def mode(name: str, time: float, each: float, sync: dict[str, float], sent: dict[str, float]) -> Any:
    sizes = {"parameterSize": 6.0, "memoryUsageA": each, "memoryUsageB": 2.5}
    return {"id": name, "timePerSample": time, **sizes, "syncTimeFw": sync, "syncTimeBw": sent}


MODES: dict[str, Any] = {
    "maxDevices": 4,
    "maxMemoryPerDevice": 100.0,
    "bandwidth": 5.0,
    "mbsInBatch": 12,
    "nodes": [
        {"id": 7, "name": "b", "TMPCs": {"1": [mode("vanilla", 0.0, 3, {"9": 0}, {})]}},
        {
            "id": 9,
            "name": "a",
            "TMPCs": {
                "10": [mode("vanilla", 0.5, 2, {}, {"7": 3.5})],
                "2": [
                    mode("vanilla", 1.0, 2.25, {}, {"7": 0}),
                    mode("activation recomp", 1.5, 0, {}, {"7": 0}),
                ],
            },
        },
    ],
    "edges": [{"sourceId": 9, "destId": 7, "communicationCost": 4.5}],
}


def block_node(name: str, inputs: list[list[str]], out_bytes: int) -> dict[str, Any]:
    sizes = {"out_bytes": out_bytes, "in_bytes": 40, "weight_bytes": 4, "flops": 1000}
    return {"name": name, "type": "conv", "inputs": inputs, **sizes}


NETWORK: dict[str, Any] = {
    "name": "small",
    "source": "by hand",
    "input": {"name": "0", "shape": [3, 4, 4]},
    "blocks": [
        {
            "enter": "0",
            "exit": "2",
            "nodes": [block_node("1", [["0"]], 400), block_node("2", [["1", "0"], ["0"]], 200)],
        },
        {
            "enter": "2",
            "exit": "4",
            "parts": [["3"], ["4"]],
            "nodes": [block_node("3", [["2"]], 4), block_node("4", [["3"]], 4000)],
        },
    ],
}


FILE_SIZES = {"raw": 100, "a": 7, "b": 9, "out": 3, "unused": 8}
WORKFLOW: dict[str, Any] = {
    "name": "small",
    "schemaVersion": "1.5",
    "workflow": {
        "specification": {
            # Listed children first: the reference order must not rely on it.
            "tasks": [
                {
                    "name": "join",
                    "id": "join_3",
                    "parents": ["left_1", "right_2"],
                    "children": ["check_4"],
                    "inputFiles": ["a", "b"],
                    "outputFiles": ["out"],
                },
                {
                    "name": "left",
                    "id": "left_1",
                    "parents": [],
                    "children": ["join_3"],
                    "inputFiles": ["raw"],
                    "outputFiles": ["a"],
                },
                {
                    "name": "right",
                    "id": "right_2",
                    "parents": [],
                    "children": ["join_3"],
                    "inputFiles": ["raw"],
                    "outputFiles": ["b"],
                },
                {"name": "check", "id": "check_4", "parents": ["join_3"], "children": []},
            ],
            "files": [{"id": name, "sizeInBytes": size} for name, size in FILE_SIZES.items()],
        },
        "execution": {
            "makespanInSeconds": 10,
            "executedAt": "now",
            "tasks": [
                {
                    "id": "left_1",
                    "runtimeInSeconds": 1.5,
                    "memoryInBytes": 50,
                    "command": {"program": "split"},
                },
                {"id": "right_2", "runtimeInSeconds": 2},
                {"id": "join_3", "runtimeInSeconds": 0.25, "coreCount": 4},
                {"id": "check_4", "runtimeInSeconds": 0},
            ],
        },
    },
}


# As the artifact prints them: a layer's kernel with its shape, a transformer's with its parent op.
TENSORS = """\
tensor0 Is weight (global)?: 0, Size in byte: 4000, Range:0--4096
tensor1 Is weight (global)?: 1, Size in byte: 36864, Range:16384--53248
tensor2 Is weight (global)?: 0, Size in byte: 8192, Range:4096--12288
tensor3 Is weight (global)?: 0, Size in byte: 0, Range:12288--12288
tensor4 Is weight (global)?: 0, Size in byte: 100, Range:12288--16384
"""
KERNELS = """\
____________________________________________________________________
Kernel ID: 0, Name: Conv2d_Forward
Parent Layer ID:3; Name:Conv2d
Execution Time: 16564224
(512,32,149,149)
Input Tensors:
tensor1 Is weight (global)?: 1, Size in byte: 36864, Range:16384--53248
tensor0 Is weight (global)?: 0, Size in byte: 4000, Range:0--4096
Output Tensors:
tensor4 Is weight (global)?: 0, Size in byte: 100, Range:12288--16384
tensor2 Is weight (global)?: 0, Size in byte: 8192, Range:4096--12288
____________________________________________________________________
____________________________________________________________________
Kernel ID: 1, Name: Apply_Grad
Parent OP ID:7; Name: Add
Execution Time: 6
Input Tensors:
tensor2 Is weight (global)?: 0, Size in byte: 8192, Range:4096--12288
tensor1 Is weight (global)?: 1, Size in byte: 36864, Range:16384--53248
Output Tensors:
tensor1 Is weight (global)?: 1, Size in byte: 36864, Range:16384--53248
____________________________________________________________________
"""


def buffer(
    name: str, alloc: int, free: int, *deps: str, is_input: bool = False, is_output: bool = False
) -> Any:
    sizes = {"size_alloc": alloc, "size_free": free, "size": free}
    return {
        "name": name,
        **sizes,
        "is_input": is_input,
        "is_output": is_output,
        "deps": list(deps),
        "unmet_deps": [x for x in deps if x != "tangent"],
    }


INDUCTOR: dict[str, Any] = {
    # op0 returns a tuple whose items op1 and op2 take out; op3 writes into one of them, op4 returns a sum
    "nodes": [
        {"name": "op0", "buffer_names": ["buf0"]},
        {"name": "op1", "buffer_names": ["buf1"]},
        {"name": "op2", "buffer_names": ["buf2"]},
        {"name": "op3", "buffer_names": ["buf3"]},
        {"name": "op4_op5", "buffer_names": ["buf4", "buf5"]},
    ],
    "buffers": [
        buffer("tangent", 40, 40, is_input=True),
        buffer("buf0", 30, 0, "tangent"),
        buffer("buf1", 0, 10, "buf0"),
        buffer("buf2", 0, 20, "buf0"),
        buffer("buf3", 0, 0, "buf1"),
        buffer("buf4", 5, 5, "buf1", "buf3", "buf2"),
        buffer("buf5", 7, 7, "buf1", "buf3", "buf2", is_output=True),
    ],
}

NETWORK_OF_COSTS: dict[str, Any] = {
    "problem": {
        "name": "n",
        "nodes": {"intervals": [[0, 2], [1, 3]], "costs": [[1, 2], [3, 10**18]], "usages": [[4, 5], [6, 7]]},
        "edges": {"nodes": [[0, 1]], "costs": [[1, 2, 3, 4]]},
        "usage_limit": 12,
    }
}
