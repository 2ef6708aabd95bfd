"""Addresses in the interpreters of TFLite Micro and LiteRT: what they report about a file with a plan."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

import lowtide as lt
from lowtide.adapters import tflite_arena
from tests.tflite_files import encode, random_model

INVOKE = """
import sys
import numpy as np
from tflite_micro import runtime
interpreter = runtime.Interpreter.from_file(sys.argv[1], arena_size=10**6)
interpreter.set_input(np.array([1.5, -2], np.float32), 0)
interpreter.invoke()
print([interpreter.get_output(k).tolist() for k in range(int(sys.argv[2]))])
sys.stdout.flush()
interpreter.print_allocations()
"""


def stacked(graph: lt.Graph) -> lt.Plan:
    """Return the reference order with a place of its own for each tensor: no planner would do that."""
    from dataclasses import replace

    from lowtide.models.lowering.buffers import buffers_from_plan

    plan = lt.Plan.from_order(graph, range(len(graph.ops)))
    buffers = buffers_from_plan(graph, plan).buffers
    return replace(plan, allocation={b.id: 16 * (2 * k + 1) for k, b in enumerate(buffers)})


def invoked(path: Path, outputs: int) -> tuple[str, int]:
    """Return the outputs in TFLite Micro, and the bytes of the planned part of its arena."""
    done = subprocess.run(
        [sys.executable, "-c", INVOKE, str(path), str(outputs)],
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    )
    (head,) = re.findall(r"Arena allocation head (\d+) bytes", done.stdout + done.stderr)
    return done.stdout.splitlines()[0], int(head)


@pytest.mark.parametrize("seed", range(4))
def test_tflite_micro_takes_the_addresses(seed: int, tmp_path: Path) -> None:
    pytest.importorskip("tflite_micro", reason="the package tflite-micro is not installed")
    path, out = tmp_path / "x.tflite", tmp_path / "out.tflite"
    path.write_bytes(encode(random_model(Random(seed))))
    graph = lt.load(path)
    count = sum(t.final and not t.initial for t in graph.tensors)
    expected, own = invoked(path, count)
    plan = stacked(graph)
    assert plan.allocation is not None
    tflite_arena.write(graph, plan, out)
    top = max(plan.allocation.values()) + 16  # a tensor has 8 bytes, rounded up
    assert invoked(out, count) == (expected, top)
    assert own < top
    result = lt.solve(lt.Arena(graph, alignment=16), time_limit=5)
    assert result.plan is not None
    assert result.plan.allocation is not None
    tflite_arena.write(graph, result.plan, out)
    assert invoked(out, count) == (expected, max(result.plan.allocation.values()) + 16)


def test_a_file_of_tensorflow_keeps_its_outputs(tmp_path: Path) -> None:
    micro = pytest.importorskip("tflite_micro", reason="the package tflite-micro is not installed")
    path = next(Path(micro.__file__).parent.rglob("sine_float.tflite"), None)
    path = path or next(
        p for root in map(Path, sys.path) for p in root.glob("tflite_micro/**/sine_float.tflite")
    )
    out = tmp_path / "out.tflite"
    graph = lt.load(path)
    result = lt.solve(lt.Arena(graph, alignment=16))
    assert result.plan is not None
    tflite_arena.write(graph, result.plan, out)

    runtime = micro.runtime

    def sine(file: Path) -> Any:
        interpreter = runtime.Interpreter.from_file(str(file))
        interpreter.set_input(np.array([[0.5]], np.float32), 0)
        interpreter.invoke()
        return interpreter.get_output(0)

    assert sine(out) == sine(path)
    assert abs(float(sine(out)[0, 0]) - np.sin(0.5)) < 0.1


def test_litert_lists_the_operators_in_the_order_of_the_plan(tmp_path: Path) -> None:
    interpreter = pytest.importorskip("ai_edge_litert.interpreter", reason="ai-edge-litert is not installed")
    path, out = tmp_path / "x.tflite", tmp_path / "out.tflite"
    moved = 0
    for seed in range(12):
        path.write_bytes(encode(random_model(Random(seed))))
        graph = lt.load(path)
        result = lt.solve(lt.Arena(graph, alignment=16), time_limit=5)
        assert result.plan is not None
        tflite_arena.write(graph, result.plan, out)

        def ran(file: Path) -> tuple[list[int], list[Any]]:
            found = interpreter.Interpreter(
                str(file),
                experimental_op_resolver_type=interpreter.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
            )
            found.allocate_tensors()
            found.set_tensor(0, np.array([1.5, -2], np.float32))
            found.invoke()
            details = found._get_ops_details()
            outputs = [found.get_tensor(x["index"]).tolist() for x in found.get_output_details()]
            return [int(op["outputs"][0]) for op in details], outputs

        written, outputs = ran(out)
        assert written == [graph.ops[i].writes[0] for i in result.plan.order]
        assert outputs == ran(path)[1]
        moved += list(result.plan.order) != list(range(len(graph.ops)))
    assert moved
