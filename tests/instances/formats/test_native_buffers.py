"""Native files of buffers and of allocations: what is refused, and round trips."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowtide.instances import (
    Allocation,
    allocation_from_dict,
    buffers_from_dict,
    read_allocation,
    read_buffers,
    write_allocation,
    write_buffers,
)
from lowtide.models.buffers import Buffer, Buffers, Gap
from lowtide.models.errors import InstanceError, UsageError
from tests.effort import many
from tests.oracles.naive_allocation import random_buffers

BUFFERS = Buffers(
    buffers=(
        Buffer(
            id="x",
            lower=0,
            upper=9,
            size=8,
            alignment=4,
            offset=4,
            hint=0,
            gaps=(Gap(1, 2), Gap(3, 5, 2, 6)),
            pool="gpu",
        ),
        Buffer(id="y", lower=3, upper=12, size=8),
    ),
    pools={"gpu": 64, "": None},
    inplace=(("x", "y"),),
    name="two",
)
ALLOCATION = Allocation.of(replace(BUFFERS, source="gen:chain?n=3"), {"x": 4, "y": 12})

BAD: dict[str, tuple[tuple[Any, ...], Any, str]] = {
    "format": (("format",), "lowtide/graph", 'format: found "lowtide/graph", expected "lowtide/buffers"'),
    "version": (("version",), 2, "version: found 2, expected 1"),
    "key": (("pool",), {}, "found unknown key 'pool', did you mean pools?"),
    "name": (("name",), 3, "name: found 3, expected a string"),
    "pools": (("pools", "gpu"), -1, "pools: found"),
    "pool true": (("pools", "gpu"), True, "pools: found"),
    "pair": (("inplace", 0), ["x"], 'inplace: found [["x"]], expected a list of pairs'),
    "dangling": (("inplace", 0), ["x", "z"], "buffers, inplace: found ('x', 'z'), expected the ids"),
    "buffers": (("buffers",), {}, "buffers: found {}, expected a list of buffers"),
    "row": (("buffers", 1), 3, "buffer 1, found 3, expected an object"),
    "unknown": (("buffers", 0, "align"), 3, "buffer 0 'x', found unknown key 'align', did you mean"),
    "lower": (("buffers", 0, "lower"), -1, "buffer 0 'x', lower: found -1, expected an integer >= 0"),
    "upper": (("buffers", 1, "upper"), 3, "buffer 'y', upper: found 3, expected an integer >= 4"),
    "size": (("buffers", 0, "size"), 8.0, "buffer 0 'x', size: found 8.0, expected an integer >= 0"),
    "alignment": (("buffers", 0, "alignment"), 0, "alignment: found 0, expected an integer >= 1"),
    "offset": (("buffers", 0, "offset"), -1, "offset: found -1, expected an integer >= 0 or null"),
    "hint": (("buffers", 0, "hint"), "1", 'hint: found "1", expected an integer >= 0 or null'),
    "gap of three": (("buffers", 0, "gaps"), [[1, 2, 3]], "gaps: found [[1, 2, 3]], expected a list"),
    "gap": (("buffers", 0, "gaps"), [[1, 10]], "buffer 'x', gaps: found [(1, 10, 0, 0)], expected intervals"),
    "window": (("buffers", 0, "gaps"), [[1, 2, 0, 9]], "window: found end 9, expected at most the size"),
    "pool of a buffer": (("buffers", 0, "pool"), None, "pool: found null, expected a string"),
    "id": (("buffers", 1, "id"), "x", "buffers: found id 'x' 2 times, expected once"),
    "huge": (("buffers", 1, "size"), 2**62, "buffer 'y', size: found 46"),
    "huge pool": (("pools", "gpu"), 2**62, "buffers, pool 'gpu', capacity: found 46"),
}  # fmt: skip


def changed(data: dict[str, Any], steps: tuple[Any, ...], value: Any) -> dict[str, Any]:
    copy = json.loads(json.dumps(data))
    element = copy
    for step in steps[:-1]:
        element = element[step]
    element[steps[-1]] = value
    return dict(copy)


@pytest.mark.parametrize("case", BAD)
def test_bad_buffers_are_one_line(case: str, tmp_path: Path) -> None:
    steps, value, expected = BAD[case]
    path = tmp_path / "b.json"
    path.write_text(json.dumps(changed(BUFFERS.to_dict(), steps, value)))
    with pytest.raises(InstanceError) as error:
        read_buffers(path)
    text = str(error.value)
    assert text.startswith(str(path))
    assert text.count(str(path)) == 1
    assert expected in text
    assert "\n" not in text


@pytest.mark.parametrize("key", ["format", "version", "buffers"])
def test_missing_key(key: str) -> None:
    data = BUFFERS.to_dict()
    del data[key]
    with pytest.raises(InstanceError, match=f"buffers: found no key '{key}', expected"):
        buffers_from_dict(data)


@pytest.mark.parametrize("key", ["id", "lower", "upper", "size"])
def test_missing_key_of_a_buffer(key: str) -> None:
    data = BUFFERS.to_dict()
    del data["buffers"][1][key]
    with pytest.raises(InstanceError, match=f"buffer 1.*, found no key '{key}', expected"):
        buffers_from_dict(data)


@pytest.mark.parametrize("ending", [".json", ".json.gz"])
def test_files_survive(ending: str, tmp_path: Path) -> None:
    path, again = tmp_path / f"a{ending}", tmp_path / f"b{ending}"
    write_buffers(BUFFERS, path)
    assert read_buffers(path) == BUFFERS
    assert read_buffers(path).sha256 == BUFFERS.sha256
    write_buffers(read_buffers(path), again)
    assert path.read_bytes() == again.read_bytes()


def test_nulls_and_omitted_keys_are_defaults() -> None:
    row = {"id": "x", "lower": 0, "upper": 3, "size": 4}
    least = {"format": "lowtide/buffers", "version": 1, "buffers": [row]}
    expected = Buffers(buffers=(Buffer(id="x", lower=0, upper=3, size=4),))
    assert buffers_from_dict(least) == expected
    assert buffers_from_dict({**least, "buffers": [{**row, "offset": None, "hint": None}]}) == expected


@many(60)
@given(st.integers(0, 10**6))
def test_any_buffers_survive(seed: int) -> None:
    buffers = random_buffers(Random(seed))
    found = buffers_from_dict(json.loads(json.dumps(buffers.to_dict())))
    assert found.sha256 == buffers.sha256
    assert (found.pools, found.inplace) == (buffers.pools, buffers.inplace)
    assert [b.rectangles for b in found.buffers] == [b.rectangles for b in buffers.buffers]


# -- allocations -----------------------------------------------------------------------------------------

BAD_ALLOCATION: dict[str, tuple[tuple[Any, ...], Any, str]] = {
    "format": (("format",), "lowtide/buffers", 'found "lowtide/buffers", expected "lowtide/allocation"'),
    "version": (("version",), True, "version: found true, expected 1"),
    "key": (("offset",), {}, "found unknown key 'offset', did you mean offsets?"),
    "offsets": (("offsets",), [], "offsets: found [], expected an object from buffer ids to offsets"),
    "offset": (("offsets", "y"), -1, "offsets, 'y': found -1, expected an integer >= 0"),
    "offset true": (("offsets", "y"), True, "offsets, 'y': found true, expected an integer >= 0"),
    "buffers": (("buffers",), None, "buffers: found null, expected an object"),
    "buffers key": (("buffers", "sha"), "1", "buffers: found unknown key 'sha', did you mean sha256?"),
    "sha": (("buffers", "sha256"), "12", 'sha256: found "12", expected 64 hexadecimal digits or null'),
    "source": (("buffers", "source"), 1, "source: found 1, expected a string or null"),
}


@pytest.mark.parametrize("case", BAD_ALLOCATION)
def test_bad_allocation_is_one_line(case: str, tmp_path: Path) -> None:
    steps, value, expected = BAD_ALLOCATION[case]
    path = tmp_path / "a.json"
    path.write_text(json.dumps(changed(ALLOCATION.to_dict(), steps, value)))
    with pytest.raises(InstanceError) as error:
        read_allocation(path)
    assert str(error.value).startswith(str(path))
    assert expected in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("key", ["format", "version", "buffers", "offsets"])
def test_missing_key_of_an_allocation(key: str) -> None:
    data = ALLOCATION.to_dict()
    del data[key]
    with pytest.raises(InstanceError, match=f"allocation: found no key '{key}', expected"):
        allocation_from_dict(data)


@pytest.mark.parametrize("ending", [".json", ".json.gz"])
def test_allocations_survive(ending: str, tmp_path: Path) -> None:
    path, again = tmp_path / f"a{ending}", tmp_path / f"b{ending}"
    write_allocation(ALLOCATION, path)
    assert read_allocation(path) == ALLOCATION
    write_allocation(read_allocation(path), again)
    assert path.read_bytes() == again.read_bytes()
    with pytest.raises(UsageError, match="found no folder"):
        write_allocation(ALLOCATION, tmp_path / "nowhere" / "a.json")


def test_an_allocation_knows_its_buffers() -> None:
    ALLOCATION.check(BUFFERS)
    Allocation(offsets={}).check(BUFFERS)
    with pytest.raises(InstanceError, match=r"a.json, buffers, sha256: found .*, expected .* \(other.csv\)"):
        ALLOCATION.check(replace(BUFFERS, pools={}, source="other.csv"), "a.json")


def test_a_relative_source_counts_from_the_folder_of_the_allocation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "out").mkdir()
    monkeypatch.chdir(tmp_path)
    Path("b.csv").write_text("id,lower,upper,size\n")
    write_allocation(replace(ALLOCATION, buffers_source="b.csv?capacity=64"), "out/a.json")
    stored = json.loads(Path("out/a.json").read_text())["buffers"]["source"]
    assert stored == os.path.join("..", "b.csv?capacity=64")
    read = read_allocation("out/a.json").buffers_source
    assert read is not None
    assert os.path.normpath(read) == "b.csv?capacity=64"
