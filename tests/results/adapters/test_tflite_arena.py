"""Addresses in TensorFlow Lite models: what TFLite Micro reads, and that all else stays as it was."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

import lowtide as lt
from lowtide.adapters import tflite_arena
from lowtide.instances.formats.flatbuffer import FlatBuffer
from lowtide.instances.formats.tflite import read_model
from tests.commands import answer, refused
from tests.effort import chosen
from tests.tflite_files import encode, model, operator, random_model, tensor


def solved(path: Path, **options: object) -> tuple[lt.Graph, lt.Plan]:
    result = lt.solve(lt.Arena(lt.load(path), alignment=16), "auto", time_limit=2)
    assert result.plan is not None
    assert result.graph is not None
    return result.graph, result.plan


def metadata(path: Path) -> dict[str, bytes]:
    """Return the content of the buffers that the metadata name."""
    file = FlatBuffer(path.read_bytes(), "x")
    root = file.ahead(0)
    buffers = list(file.tables(root, 4))
    contents = {}
    for entry in file.tables(root, 6):
        at, count = file.elements(buffers[file.integer(entry, 1, "I")], 0, 1)
        assert at % 16 == 0
        contents[file.text(entry, 0)] = file.content[at : at + count]
    return contents


@pytest.mark.slow
def test_addresses_and_order_of_random_models(tmp_path: Path) -> None:
    path, out = tmp_path / "x.tflite", tmp_path / "out.tflite"
    moved = 0
    for seed in chosen(range(80), least=16):
        path.write_bytes(encode(random_model(Random(seed))))
        graph, plan = solved(path)
        tflite_arena.write(graph, plan, out)
        before, after = read_model(path), read_model(out)
        order = list(plan.order)
        moved += order != sorted(order)
        assert [before.operators[i] for i in order] == list(after.operators)
        assert (before.tensors, before.inputs, before.outputs) == (after.tensors, after.inputs, after.outputs)
        found = metadata(out)
        integers = struct.unpack(
            f"<{len(found['OfflineMemoryAllocation']) // 4}i", found.pop("OfflineMemoryAllocation")
        )
        assert found == metadata(path)
        assert integers[:3] == (0, 0, len(before.tensors))
        # lifetimes and overlaps as TFLite Micro counts them, sizes rounded up to 16 bytes
        spans: dict[int, list[int]] = {t: [0] for t in after.inputs}
        for k, op in enumerate(after.operators, 1):
            for t in (*op.inputs, *op.outputs):
                spans.setdefault(t, []).append(k)
        for t in after.outputs:
            spans[t].append(len(after.operators))
        placed = {t: at for t, at in enumerate(integers[3:]) if at >= 0}
        assert set(placed) == {t for t in spans if not after.tensors[t].constant}
        size = {t: -(-after.tensors[t].nbytes // 16) * 16 for t in placed}
        for a in placed:
            for b in placed:
                together = max(spans[a][0], spans[b][0]) <= min(spans[a][-1], spans[b][-1])
                if a < b and together:
                    assert placed[a] + size[a] <= placed[b] or placed[b] + size[b] <= placed[a]
        again = tmp_path / "again.tflite"
        tflite_arena.write(lt.load(out), _in_file_order(out), again)
        assert [*metadata(again)] == ["note", "OfflineMemoryAllocation"]
    assert moved


def _in_file_order(path: Path) -> lt.Plan:
    from lowtide.instances import load_buffers_and_plan

    loaded = load_buffers_and_plan(path, alignment=16)
    result = lt.solve(lt.Offsets(loaded.buffers), "greedy")
    assert result.allocation is not None
    assert loaded.plan is not None
    return replace(loaded.plan, allocation=result.allocation)


def small(folder: Path, **more: Any) -> Path:
    path = folder / "small.tflite"
    tensors = [tensor("x", 2), tensor("a", 2), tensor("b", 2), tensor("y", 2)]
    operators = [operator(0, [0], [1]), operator(2, [0], [2]), operator(1, [1, 2], [3])]
    path.write_bytes(encode(model(tensors, operators, [0], [3], **more)))
    return path


def test_what_cannot_be_written_is_refused(tmp_path: Path) -> None:
    path, out = small(tmp_path), tmp_path / "out.tflite"
    graph, plan = solved(path)
    with pytest.raises(lt.UsageError, match="found no addresses, expected an order with addresses"):
        tflite_arena.write(graph, replace(plan, allocation=None), out)
    assert plan.allocation is not None
    odd = {key: offset + 8 for key, offset in plan.allocation.items()}
    with pytest.raises(
        lt.UsageError, match=r"found address .* of 'x', expected one a tensor, a multiple of 16"
    ):
        tflite_arena.write(graph, replace(plan, allocation=odd), out)
    with pytest.raises(lt.VerificationError, match="overlap"):
        tflite_arena.write(graph, replace(plan, allocation=dict.fromkeys(plan.allocation, 0)), out)
    plain = lt.load("catalogue:diamond")
    with pytest.raises(lt.InstanceError, match=r"found no \.tflite file that it was read from"):
        tflite_arena.write(plain, lt.Plan.from_order(plain, range(4)), out)
    small(tmp_path, _4=[{1: ("Q", 4096), 2: ("Q", 8)}, {}])
    with pytest.raises(
        lt.InstanceError, match="found content behind the flatbuffer, expected a model within one"
    ):
        tflite_arena.write(graph, plan, out)
    small(tmp_path, _12=("I", 7))
    with pytest.raises(lt.InstanceError, match="or unknown fields"):
        tflite_arena.write(graph, plan, out)
    path.write_bytes(encode(random_model(Random(0))))
    with pytest.raises(lt.InstanceError, match="found another model than that of the plan"):
        tflite_arena.write(graph, plan, out)
    assert not out.exists()


def test_convert_writes_the_addresses(tmp_path: Path) -> None:
    small(tmp_path)
    answer("solve", "offsets", "small.tflite?alignment=16", "--plan", "plan.json", cwd=tmp_path)
    said = answer("convert", "plan.json", "out.tflite", cwd=tmp_path)
    assert said["format"] == "TensorFlow Lite model with the addresses of the plan"
    (_, _, count, *offsets) = struct.unpack(
        "<7i", metadata(tmp_path / "out.tflite")["OfflineMemoryAllocation"]
    )
    assert count == len(offsets) == 4
    assert max(offsets) == 32
    answer("solve", "arena", "small.tflite", "--alignment", "16", "--plan", "arena.json", cwd=tmp_path)
    answer("convert", "arena.json", "out.tflite", cwd=tmp_path)
    answer("solve", "peak", "small.tflite", "--plan", "peak.json", cwd=tmp_path)
    assert "found no addresses" in refused("convert", "peak.json", "peak.tflite", cwd=tmp_path)
