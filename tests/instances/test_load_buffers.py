"""`load_buffers`: files, plans, graphs, options; and plans with their graphs."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lowtide.instances import (
    graph_of_plan,
    load,
    load_buffers,
    load_buffers_and_plan,
    load_plan,
    save,
    write_buffers,
    write_csv,
    write_plan,
)
from lowtide.models.buffers import Buffer, Buffers
from lowtide.models.errors import InstanceError
from lowtide.models.lowering.buffers import buffers_from_plan
from lowtide.models.plan import Free, Plan
from tests.drawings import GRAPH, PLAN

TWO = Buffers(
    buffers=(
        Buffer(id="x", lower=0, upper=3, size=4, alignment=6, pool="gpu"),
        Buffer(id="y", lower=2, upper=5, size=8, pool="host"),
    ),
    pools={"gpu": 64, "host": None, "disk": 9},
)


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_csv(TWO, "two.csv.gz")
    write_buffers(TWO, "two.json")
    save(GRAPH, "g.json")
    swaps = replace(PLAN, graph_source="g.json", graph_sha256=GRAPH.sha256, allocation={"odd": 3})
    write_plan(swaps, "plan.json")


def reference(spec: str) -> Buffers:
    graph = load(spec)
    return buffers_from_plan(graph, Plan.from_order(graph, range(len(graph.ops))))


def test_csv() -> None:
    found = load_buffers("two.csv.gz")
    assert found == replace(TWO, pools={}, name="two", source="two.csv.gz")


def test_native_file_takes_its_name_if_it_has_none() -> None:
    assert load_buffers("two.json") == replace(TWO, name="two", source="two.json")
    assert load_buffers(Path("two.json")) == load_buffers("two.json")
    write_buffers(replace(TWO, name="mine"), "two.json")
    assert load_buffers("two.json").name == "mine"
    Path("two.json").rename("two.txt")
    assert load_buffers("native:two.txt").source == "native:two.txt"


def test_plan() -> None:
    """Its own allocation is left aside."""
    found = load_buffers_and_plan("plan.json")
    expected = buffers_from_plan(GRAPH, PLAN)
    assert found.buffers == replace(expected, source="plan.json")
    assert found.graph == GRAPH
    assert found.plan is not None
    assert found.plan.allocation == {"odd": 3}
    assert found.buffers.pools == {"gpu": 18, "host": None}


@pytest.mark.parametrize("spec", ["gen:chain?n=5", "catalogue:diamond", "gen:randwire?n=8,seed=2,train=1"])
def test_graphs_give_the_residencies_of_their_reference_order(spec: str) -> None:
    found = load_buffers_and_plan(spec)
    assert found.buffers.sha256 == reference(spec).sha256
    assert found.graph == load(spec)
    assert load_buffers(found.buffers.source or "") == found.buffers


def test_graph_file() -> None:
    expected = replace(reference("g.json"), source="g.json?capacity=64", pools={"memory": 64})
    assert load_buffers("g.json?capacity=64") == expected
    assert load_buffers("native:g.json").sha256 == reference("g.json").sha256
    save(GRAPH, "g.dot")
    assert load_buffers("g.dot").name == load("g.dot").name


@pytest.mark.parametrize(
    ("options", "pools"),
    [
        ("capacity=1KiB", {"gpu": 1024, "host": 1024, "disk": 1024}),
        ("capacity=none", {"gpu": None, "host": None, "disk": None}),
        ("pool.gpu=3", {"gpu": 3, "host": None, "disk": 9}),
        ("pool.gpu=none,capacity=12", {"gpu": None, "host": 12, "disk": 12}),
    ],
)
def test_capacities(options: str, pools: dict[str, int | None]) -> None:
    found = load_buffers(f"two.json?{options}")
    assert found.pools == pools
    assert found.buffers == TWO.buffers
    assert load_buffers(found.source or "") == found
    keywords: dict[str, Any] = dict(part.split("=") for part in options.split(","))
    assert load_buffers("two.json", **keywords) == found


def test_alignment_is_a_common_multiple() -> None:
    found = load_buffers("two.json?alignment=4")
    assert [b.alignment for b in found.buffers] == [12, 4]
    assert [b.alignment for b in load_buffers("plan.json", alignment=256).buffers] == [256] * 8


def test_keywords_override_and_reach_the_graph() -> None:
    found = load_buffers("gen:chain?n=3&capacity=5", n=6, capacity=1 << 20, alignment=2)
    assert found.sha256 == load_buffers("gen:chain?n=6&alignment=2,capacity=1MiB").sha256
    assert found.source == "gen:chain?n=6&capacity=1048576&alignment=2"
    assert load_buffers(found.source) == found
    assert load_buffers("two.json?capacity=5", capacity=None).source == "two.json?capacity=none"


def test_options_reach_the_importer() -> None:
    pytest.importorskip("onnx")
    found = load_buffers("onnx:squeezenet?batch=2&alignment=64", train=True)
    assert found.source == "onnx:squeezenet?batch=2&train=1&alignment=64"
    assert load_buffers(found.source) == found
    assert {b.alignment for b in found.buffers} == {64}


BAD = {
    "missing.csv": "missing.csv: found no such file, expected one to read",
    "missing.json": "missing.json: found no such file",
    "missing": "missing: found no such file, expected a file or SCHEME:NAME",
    "missing.txt": "missing.txt: found no known ending, expected one of .csv, .csv.gz, .pickle, .pkl,",
    ".": ".: found a folder, expected a file",
    "gn:chain": "instance 'gn:chain': found unknown scheme 'gn', did you mean gen?",
    "gen:chian": "found unknown family 'chian', did you mean chain or skipchain or taped-chain?",
    "gen:chain?m=3": "found unknown option 'm'",
    "two.json?capcity=3": "instance 'two.json': found unknown option 'capcity', did you mean capacity?",
    "two.csv.gz?n=3": "found unknown option 'n', expected one of alignment, capacity, iterations, pool.NAME",
    "plan.json?batch=3": "instance 'plan.json': found unknown option 'batch'",
    "g.json?batch=3": "instance 'g.json': found unknown option 'batch'",
    "two.json?capacity=0": "option capacity: found \"0\", expected bytes such as 4096, 512MiB or 4GiB",
    "two.json?capacity=x": 'instance \'two.json?capacity=x\', option capacity: found "x"',
    "two.json?alignment=none": 'option alignment: found "none", expected bytes such as 4096, 512MiB or 4GiB',
    "two.json?alignment=0": 'option alignment: found "0"',
    "two.json?pool.gpus=4": "instance 'two.json?pool.gpus=4': found unknown pool 'gpus', did you mean gpu?",
    "two.json?pool.gpu=4x": 'option pool.gpu: found "4x"',
    "two.json?alignment=999999999999999999PiB": "PiB': buffer 'x', alignment: found 11",
    "two.json?capacity=999999999999999999PiB": "pool 'gpu', capacity: found 11",
}  # fmt: skip


@pytest.mark.parametrize("spec", BAD)
def test_bad_specification_is_one_line(spec: str) -> None:
    with pytest.raises(InstanceError) as error:
        load_buffers(spec)
    assert BAD[spec] in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("value", [True, 1.5, 0, -1, ["4"]])
def test_bad_keyword(value: object) -> None:
    with pytest.raises(InstanceError, match=r"instance 'two.json', option capacity: found"):
        load_buffers("two.json", capacity=value)


@pytest.mark.parametrize("data", [[], {}, {"format": "lowtide/allocation", "version": 1}, {"format": 3}])
def test_other_json(data: object) -> None:
    Path("odd.json").write_text(json.dumps(data))
    with pytest.raises(
        InstanceError, match=r'odd.json: format: found .*, expected "lowtide/buffers", "lowti'
    ):
        load_buffers("odd.json")


def test_a_plan_must_be_valid_and_name_its_graph() -> None:
    write_plan(replace(PLAN, graph_source="g.json", frees=(*PLAN.frees, Free(0, "gpu", 30))), "bad.json")
    with pytest.raises(InstanceError, match=r"bad.json: found an invalid plan, free "):
        load_buffers("bad.json")
    write_plan(PLAN, "lost.json")
    lost = replace(PLAN, graph_source=None)
    write_plan(lost, "lost.json")
    with pytest.raises(InstanceError, match=r"lost.json: found a plan without the source of its graph"):
        load_buffers("lost.json")
    assert load_plan("lost.json", "g.json") == (lost, GRAPH)
    with pytest.raises(InstanceError, match=r"plan.json, graph, sha256: found .*, expected .* \(gen:chain\)"):
        load_plan("plan.json", "gen:chain")
    assert graph_of_plan(replace(lost, graph_source="g.json")) == GRAPH


def test_a_plan_finds_its_graph_from_its_own_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert len(load_buffers("../plan.json").buffers) == 8


@pytest.mark.slow
def test_loading_imports_no_optional_package() -> None:
    code = (
        "import sys; from lowtide.instances import load_buffers;"
        "load_buffers('two.json'); load_buffers('two.csv.gz'); load_buffers('catalogue:diamond');"
        "bad = {'onnx', 'networkx', 'pandas', 'ortools', 'pyomo', 'highspy', 'matplotlib', 'numba'};"
        "sys.exit(str(bad & set(sys.modules)) if bad & set(sys.modules) else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_iterations_repeat_what_does_not_live_on() -> None:
    once, thrice = load_buffers("gen:chain?n=5"), load_buffers("gen:chain?n=5&iterations=3")
    assert len(thrice.buffers) == 3 * len(once.buffers)
    assert load_buffers(str(thrice.source)) == thrice
    assert thrice.source == "gen:chain?n=5&iterations=3"
    for value in ("0", "x"):
        with pytest.raises(InstanceError, match=f'option iterations: found "{value}", expected'):
            load_buffers("gen:chain?n=5", iterations=value)


def test_iterations_need_a_plan(tmp_path: Path) -> None:
    (tmp_path / "b.csv").write_text("id,lower,upper,size\nx,0,3,4\n")
    with pytest.raises(InstanceError, match="found buffers, expected a plan or a graph"):
        load_buffers(tmp_path / "b.csv", iterations=2)
