"""Native graphs: every mistake is one line with file, element, found, expected; round trips are exact."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowtide.instances import graph_from_dict, read_graph, write_graph
from lowtide.instances.formats.native import find_cycle
from lowtide.models.errors import InstanceError
from lowtide.models.graph import Accounting, Graph, Mode, Op, Tensor
from tests.effort import many
from tests.strategies import graphs, random_graph

MANY = many(40)


def good() -> dict[str, Any]:
    return {
        "format": "lowtide/graph",
        "version": 1,
        "name": "g",
        "tensors": [
            {"name": "x", "nbytes": 4, "kind": "input", "initial": True},
            {"name": "y", "nbytes": 8},
            {"name": "z", "nbytes": 0, "final": True},
        ],
        "ops": [
            {"name": "conv", "reads": [0], "writes": [1]},
            {"name": "relu", "reads": [1], "writes": [2], "after": [0], "inplace": [[1, 2]]},
        ],
    }


def edited(*path: Any, **changes: Any) -> Callable[[dict[str, Any]], None]:
    """Return the edit that sets keys (``None_`` deletes) of the element at a path."""

    def edit(data: dict[str, Any]) -> None:
        element: Any = data
        for step in path:
            element = element[step]
        for key, value in changes.items():
            if value is DELETE:
                del element[key]
            else:
                element[key] = value

    return edit


DELETE = object()

BAD = {
    "format": (edited(format="lowtide/plan"), ": format: found", '"lowtide/graph"'),
    "no format": (edited(format=DELETE), "found no key 'format'", '"lowtide/graph"'),
    "version": (edited(version=2), ": version: found 2", "expected 1"),
    "version true": (edited(version=True), ": version: found true", "expected 1"),
    "unknown key": (edited(tensor=[]), "unknown key 'tensor'", "did you mean tensors?"),
    "unknown key of tensor": (
        edited("tensors", 1, nbyte=3),
        "tensor 1 'y', found unknown key 'nbyte'",
        "did you mean nbytes?",
    ),
    "unknown key of op": (
        edited("ops", 0, duration=3),
        "op 0 'conv', found unknown key 'duration'",
        "did you mean duration_ns?",
    ),
    "missing ops": (edited(ops=DELETE), "found no key 'ops'", "expected a list of ops"),
    "missing nbytes": (
        edited("tensors", 0, nbytes=DELETE),
        "tensor 0 'x', found no key 'nbytes'",
        "an integer >= 0",
    ),
    "missing op name": (edited("ops", 1, name=DELETE), "op 1, found no key 'name'", "a string"),
    "negative size": (edited("tensors", 1, nbytes=-1), "tensor 1 'y', nbytes: found -1", ">= 0"),
    "float size": (edited("tensors", 1, nbytes=8.0), "nbytes: found 8.0", "an integer >= 0"),
    "text size": (edited("tensors", 1, nbytes="8"), 'nbytes: found "8"', "an integer >= 0"),
    "true size": (edited("tensors", 1, nbytes=True), "nbytes: found true", "an integer >= 0"),
    "null size": (edited("tensors", 1, nbytes=None), "nbytes: found null", "an integer >= 0"),
    "flag 1": (edited("tensors", 1, final=1), "tensor 1 'y', final: found 1", "true or false"),
    "kind": (edited("tensors", 1, kind="weights"), 'kind: found "weights"', "one of input, weight"),
    "kind list": (edited("tensors", 1, kind=[]), "kind: found []", "one of input, weight"),
    "accounting": (edited(accounting="both"), ': accounting: found "both"', '"coexist" or "replace"'),
    "provenance": (edited(provenance="me"), ': provenance: found "me"', "an object"),
    "ops object": (edited(ops={}), ": ops: found {}", "a list of ops"),
    "name number": (edited(name=3), ": name: found 3", "a string"),
    "reads": (edited("ops", 0, reads=[3]), "op 0 'conv', reads: found 3", "index in [0, 3)"),
    "reads negative": (edited("ops", 0, reads=[-1]), "reads: found -1", "index in [0, 3)"),
    "reads twice": (edited("ops", 0, reads=[0, 0]), "reads: found 0 twice", "expected it once"),
    "reads true": (edited("ops", 0, reads=[True]), "reads: found [true]", "a list of indices"),
    "reads float": (edited("ops", 0, reads=[0.0]), "reads: found [0.0]", "a list of indices"),
    "reads number": (edited("ops", 0, reads=0), "reads: found 0", "a list of indices"),
    "writes": (edited("ops", 1, writes=[9]), "op 1 'relu', writes: found 9", "index in [0, 3)"),
    "after range": (edited("ops", 1, after=[-1]), "op 1 'relu', after: found -1", "index below 1"),
    "after itself": (
        edited("ops", 1, after=[1]),
        "after: found the cycle op 1 'relu' after op 1 'relu'",
        "expected none",
    ),
    "after cycle": (
        edited("ops", 0, after=[1]),
        "after: found the cycle op 0 'conv' after op 1 'relu' after op 0 'conv'",
        "expected none",
    ),
    "inplace": (edited("ops", 1, inplace=[[1]]), "inplace: found [[1]]", "pairs [read, write]"),
    "inplace operand": (edited("ops", 1, inplace=[[0, 2]]), "inplace: found [0, 2]", "it reads"),
    "duration": (edited("ops", 0, duration_ns=0), "duration_ns: found 0", "an integer >= 1"),
    "workspace": (edited("ops", 0, workspace=-5), "workspace: found -5", "an integer >= 0"),
    "modes": (edited("ops", 0, modes=[{"time": 1}]), "op 0 'conv', mode 0, found unknown", "'time'"),
    "mode workspace": (
        edited("ops", 0, modes=[{}, {"workspace": 1.5}]),
        "op 0 'conv', mode 1, workspace: found 1.5",
        "an integer >= 0",
    ),
    "operands": (
        edited("ops", 0, modes=[{"operands": {"01": "hbm"}}]),
        'operands: found {"01": "hbm"}',
        "from tensor indices to tier names",
    ),
    "operands of others": (
        edited("ops", 0, modes=[{"operands": {"2": "hbm"}}]),
        "modes, operands: found tensor 2",
        "one it reads or writes",
    ),
    "read before write": (
        edited("tensors", 0, initial=False),
        "op 0 'conv', reads: found tensor 0 'x' before its first write",
        "expected an initial tensor or one that an earlier op writes",
    ),
    "final never written": (
        edited("ops", 1, writes=[], inplace=[]),
        "tensor 2 'z', final: found true without content",
        "expected an initial tensor",
    ),
    "huge sum": (edited("tensors", 1, nbytes=2**62), "nbytes: found the sum", "less than 2**62"),
}


def one_line(error: pytest.ExceptionInfo[InstanceError]) -> str:
    text = str(error.value)
    assert "\n" not in text
    return text


@pytest.mark.parametrize("case", BAD)
def test_bad_graph_is_one_line_that_names_file_element_found_expected(case: str, tmp_path: Path) -> None:
    edit, found, expected = BAD[case]
    data = good()
    edit(data)
    path = tmp_path / "bad.json"
    path.write_text(json.dumps(data))
    with pytest.raises(InstanceError) as error:
        read_graph(path)
    text = one_line(error)
    assert text.startswith(str(path))
    assert found in text
    assert expected in text


FILES = {
    "empty": (b"", "line 1, column 1: found Expecting value"),
    "no json": (b'{"format": \n oops}', "line 2, column 2: found Expecting value"),
    "list": (b"[]", "found [], expected an object"),
    "key twice": (b'{"format": 1, "format": 2}', "found key 'format' twice in one object"),
    "nan": (b'{"format": NaN}', "found the number NaN"),
    "infinity": (b'{"format": -Infinity}', "found the number -Infinity"),
    "huge float": (b'{"format": 1e999}', "found the number 1e999"),
    "huge integer": (b"1" * 5000, "expected JSON"),
    "not utf-8": (b'{"a": "\xff"}', "found byte 0xff at offset 7, expected UTF-8 text"),
    "surrogate": (b'{"a": "\\ud800"}', "found a lone surrogate in a string"),
    "deep": (b"[" * 100_000, "nested too deeply"),
    "number": (b"3", "found 3, expected an object"),
}


@pytest.mark.parametrize("case", FILES)
def test_bad_text_is_one_line(case: str, tmp_path: Path) -> None:
    content, found = FILES[case]
    path = tmp_path / "bad.json"
    path.write_bytes(content)
    with pytest.raises(InstanceError) as error:
        read_graph(path)
    text = one_line(error)
    assert text.startswith(str(path))
    assert found in text
    assert len(text) < len(str(path)) + 200


def test_missing_file_and_folder(tmp_path: Path) -> None:
    with pytest.raises(InstanceError, match=r"nothing\.json: found no such file"):
        read_graph(tmp_path / "nothing.json")
    with pytest.raises(InstanceError, match="found a folder, expected a file"):
        read_graph(tmp_path)


@pytest.mark.parametrize("length", [0, 1, 5, 12, 40, -1])
def test_truncated_gzip(length: int, tmp_path: Path) -> None:
    path = tmp_path / "g.json.gz"
    write_graph(graph_from_dict(good()), path)
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(InstanceError, match=r"g\.json\.gz: found|g\.json\.gz, line 1") as error:
        read_graph(path)
    one_line(error)


def test_gzip_in_name_only_and_damaged_gzip(tmp_path: Path) -> None:
    path = tmp_path / "g.json.gz"
    path.write_text(json.dumps(good()))
    with pytest.raises(InstanceError, match="expected a gzip file"):
        read_graph(path)
    content = bytearray(gzip.compress(json.dumps(good()).encode()))
    content[20] ^= 255
    path.write_bytes(content)
    with pytest.raises(InstanceError, match=r"g\.json\.gz: found") as error:
        read_graph(path)
    one_line(error)


def test_omitted_fields_take_the_defaults_and_defaults_are_not_written(tmp_path: Path) -> None:
    graph = graph_from_dict(good())
    assert graph.accounting is Accounting.COEXIST
    assert graph.tensors[1] == Tensor(name="y", nbytes=8)
    assert graph.ops[0] == Op(name="conv", reads=(0,), writes=(1,))
    path = tmp_path / "g.json"
    write_graph(graph, path)
    assert json.loads(path.read_text()) == good()


def test_defaults_written_out_are_the_same_graph() -> None:
    graph = graph_from_dict(good())
    assert graph_from_dict(graph.to_dict()) == graph


def test_a_forward_reference_without_a_cycle_is_about_the_order() -> None:
    data = good()
    data["ops"] = [{"name": "late", "after": [1]}, {"name": "early"}]
    data["tensors"] = []
    with pytest.raises(InstanceError, match="op 0 'late', after: found 1, expected an index below 0"):
        graph_from_dict(data)


def test_modes_survive(tmp_path: Path) -> None:
    modes = (
        Mode(duration_ns=3, workspace=2, processors=("gpu", "cpu"), operands=((1, "hbm"), (0, "dram"))),
        Mode(),
    )
    tensors = (Tensor(name="a", nbytes=1, initial=True), Tensor(name="b", nbytes=1))
    graph = Graph(name="m", tensors=tensors, ops=(Op(name="o", reads=(0,), writes=(1,), modes=modes),))
    write_graph(graph, tmp_path / "m.json")
    assert read_graph(tmp_path / "m.json").ops == graph.ops


@MANY
@given(graph=graphs(), seed=st.integers(0, 10**6))
def test_round_trip_is_exact_and_rewriting_gives_the_same_bytes(
    graph: Graph, seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with_modes = random_graph(Random(seed), mode_tiers=("hbm", "dram"), mode_kinds=("gpu",))
    folder = tmp_path_factory.mktemp("round", numbered=True)
    for g in (graph, with_modes):
        for ending in (".json", ".json.gz"):
            path, again = folder / f"a{ending}", folder / f"b{ending}"
            write_graph(g, path)
            back = read_graph(path)
            write_graph(back, again)
            assert back == g
            assert back.name == g.name
            assert back.tensors == g.tensors
            assert path.read_bytes() == again.read_bytes()


@pytest.mark.slow
@MANY
@given(
    name=st.text(st.characters(exclude_categories=["Cs"])),
    provenance=st.dictionaries(
        st.text(max_size=3),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False),
            lambda inner: st.lists(inner, max_size=3),
            max_leaves=5,
        ),
        max_size=3,
    ),
)
def test_any_name_and_provenance_survive(
    name: str, provenance: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> None:
    graph = Graph(name=name, tensors=(Tensor(name=name, nbytes=1),), ops=(), provenance=provenance)
    path = tmp_path_factory.mktemp("name") / "g.json"
    write_graph(graph, path)
    back = read_graph(path)
    assert (back.name, back.provenance, back.tensors) == (name, provenance, graph.tensors)


def test_provenance_that_is_no_json_is_refused_and_nothing_written(tmp_path: Path) -> None:
    graph = Graph(name="g", tensors=(), ops=(), provenance={"a": float("nan")})
    with pytest.raises(InstanceError, match="provenance"):
        write_graph(graph, tmp_path / "g.json")
    assert not list(tmp_path.iterdir())


@MANY
@given(st.integers(0, 10**6))
def test_find_cycle_finds_one_exactly_when_there_is_one(seed: int) -> None:
    rng = Random(seed)
    n = rng.randint(1, 7)
    before = [{x for x in range(n) if rng.random() < 0.2} for _ in range(n)]
    cycle = find_cycle(before)
    for i, x in zip(cycle, [*cycle[1:], *cycle[:1]], strict=True):
        assert x in before[i]
    done: set[int] = set()
    while grown := {i for i in range(n) if i not in done and before[i] <= done}:
        done |= grown
    assert bool(cycle) == (len(done) < n)
