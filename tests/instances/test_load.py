"""Specifications and `load`: schemes, options, endings, nearest names."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from lowtide.instances import Spec, list_instances, load, load_buffers, load_network, parse_spec, save
from lowtide.instances.catalogue import is_buffers
from lowtide.models.errors import InstanceError, UsageError
from lowtide.models.graph import Accounting

GOOD = {
    "gen:chain": Spec("gen", "chain"),
    "gen:chain?n=3": Spec("gen", "chain", {"n": "3"}),
    "gen:chain?n=3&seed=1": Spec("gen", "chain", {"n": "3", "seed": "1"}),
    "gen:chain?n=3,seed=1": Spec("gen", "chain", {"n": "3", "seed": "1"}),
    "onnx:resnet50?batch=32": Spec("onnx", "resnet50", {"batch": "32"}),
    "native:a:b.txt": Spec("native", "a:b.txt"),
    "some/model.onnx?batch=2": Spec("path", "some/model.onnx", {"batch": "2"}),
    "C:graph.json": Spec("path", "C:graph.json"),
    "graph.json": Spec("path", "graph.json"),
    "dir/a=b,c.json": Spec("path", "dir/a=b,c.json"),
}


@pytest.mark.parametrize("spec", GOOD)
def test_parse_spec(spec: str) -> None:
    assert parse_spec(spec) == GOOD[spec]
    assert parse_spec(str(parse_spec(spec))) == GOOD[spec]


def test_an_existing_file_is_a_path_whatever_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    graph = load("gen:chain?n=3")
    for name in ("gen:chain?n=9.json", "x:y.json", "a?b.json"):
        save(graph, name)
        assert parse_spec(name) == Spec("path", name)
        assert load(name) == graph
        assert load(Path(name)) == graph


BAD = {
    "gn:chain": "instance 'gn:chain': found unknown scheme 'gn', did you mean gen?",
    "catalog:diamond": "unknown scheme 'catalog', did you mean catalogue?",
    "ftp:x": "unknown scheme 'ftp', expected one of catalogue, chakra, dnn-partitioning, dot, g10, gen",
    "gen:": "instance 'gen:': found no name, expected one",
    "model.onnx&batch=8&train=1": "found no ? before the first option, expected 'model.onnx?batch=8&train=1'",
    "": "instance '': found no name, expected one",
    "gen:chian": "found unknown family 'chian', did you mean chain or skipchain or taped-chain?",
    "gen:chain?n": "found option 'n', expected KEY=VALUE",
    "gen:chain?=3": "found option '=3', expected KEY=VALUE",
    "gen:chain?n=": "found option 'n=', expected KEY=VALUE",
    "gen:chain?n=3,,seed=1": "found option '', expected KEY=VALUE",
    "gen:chain?n=3&n=3": "found option 'n' twice, expected it once",
    "gen:chain?sed=3": "found unknown option 'sed', did you mean seed or sizes?",
    "gen:chain?n=0": 'option n: found "0", expected an integer >= 1',
    "gen:chain?n=3.0": 'option n: found "3.0", expected an integer >= 1',
    "gen:chain?n=1e3": 'option n: found "1e3", expected an integer >= 1',
    "gen:chain?n=\u0663": "option n: found",
    "gen:chain?n=9999999999999999999999": "option n: found",
    "gen:chain?seed=-1": 'option seed: found "-1", expected an integer >= 0',
    "gen:chain?train=2": 'option train: found "2", expected 0 or 1',
    "gen:chain?sizes=equl": 'option sizes: found "equl", expected random or equal',
    "gen:chain?accounting=x": 'option accounting: found "x", expected coexist or replace',
    "gen:randwire?p=1.5": 'option p: found "1.5", expected a number >= 0 and <= 1',
    "gen:randwire?p=nan": 'option p: found "nan", expected a number',
    "gen:randwire?k=3": "option k: found 3, expected an even number below n = 32",
    "gen:randwire?n=4": "option k: found 4, expected an even number below n = 4",
    "gen:transformer?split=1": "option split: found 1 without train, expected train=1",
    "gen:transformer?form=both": "expected decoder or encoder or seq2seq",
    "gen:chain?largest=999999999999999999": "nbytes: found the sum",
    "catalogue:diamand": "found unknown name 'diamand', did you mean diamond?",
    "catalogue:diamond?n=3": "found unknown option 'n', expected one of dtype",
    "graph.json?n=3": "found unknown option 'n', expected none",
    "missing.json": "missing.json: found no such file, expected one to read",
    "missing": "missing: found no such file, expected a file or SCHEME:NAME",
    "missing.dot": "missing.dot: found no such file",
    "missing.graphml": "missing.graphml: found no such file",
    "missing.txt": "missing.txt: found no known ending, expected one of .json, .json.gz, .onnx",
    "a\0b.json": "expected a readable file",
    ".": ".: found a folder, expected a file",
}


@pytest.mark.parametrize("spec", BAD)
def test_bad_specification_is_one_line(spec: str) -> None:
    with pytest.raises(InstanceError) as error:
        load(spec)
    assert BAD[spec] in str(error.value)
    assert "\n" not in str(error.value)


def test_keywords_override_the_specification_and_are_checked_too() -> None:
    assert len(load("gen:chain?n=3", n=5).ops) == 5
    assert load("gen:chain", n=5) == load("gen:chain?n=5")
    assert load("gen:chain", train=True) == load("gen:chain?train=1")
    assert load("gen:randwire", p=1) == load("gen:randwire?p=1.0")
    assert load("gen:chain", accounting=Accounting.REPLACE).accounting is Accounting.REPLACE
    for options in ({"n": True}, {"n": 3.0}, {"n": None}, {"train": 2}, {"sizes": 1}, {"m": 1}):
        with pytest.raises(InstanceError, match="instance 'gen:chain"):
            load("gen:chain", **options)
    with pytest.raises(InstanceError, match="unknown option 'n', expected one of dtype"):
        load("catalogue:diamond", n=3)


@pytest.mark.slow
def test_every_listed_instance_is_known() -> None:
    rows = list_instances()
    assert len({spec for spec, _ in rows}) == len(rows)
    assert all(description for _, description in rows)
    for spec, _ in rows:
        if spec.startswith("catalogue:") and is_buffers(spec.removeprefix("catalogue:")):
            assert load_buffers(spec).buffers
        elif spec.startswith("catalogue:iopddl/"):
            assert load_network(spec).costs
        elif not spec.startswith(("onnx:", "torch:")):
            load(spec)


@pytest.mark.slow
def test_native_loading_and_generating_import_no_optional_package() -> None:
    code = (
        "import sys; from lowtide.instances import load;"
        "load('catalogue:diamond'); load('gen:nasnet?train=1');"
        "bad = {'onnx', 'networkx', 'pandas', 'ortools', 'pyomo', 'highspy', 'matplotlib', 'numba'};"
        "sys.exit(str(bad & set(sys.modules)) if bad & set(sys.modules) else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_save_refuses_unknown_endings(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="found no known ending, expected one of"):
        save(load("gen:chain"), tmp_path / "g.onnx")
    assert not list(tmp_path.iterdir())


class TestOnnx:
    @pytest.fixture(autouse=True)
    def _onnx(self) -> None:
        pytest.importorskip("onnx")

    @pytest.mark.parametrize(
        ("spec", "found"),
        [
            ("onnx:resnet5", "found unknown network 'resnet5', did you mean resnet50"),
            ("onnx:resnet50?batch=0", 'option batch: found "0", expected an integer >= 1'),
            ("onnx:resnet50?train=x", 'option train: found "x", expected 0 or 1'),
            ("onnx:resnet50?N=-1", 'option N: found "-1", expected an integer >= 1'),
            ("onnx:resnet50?btch=2", "btch"),
            ("missing.onnx", "missing.onnx: found no such file"),
        ],
    )
    def test_bad_specification(self, spec: str, found: str) -> None:
        with pytest.raises(InstanceError) as error:
            load(spec)
        assert found in str(error.value)
        assert "\n" not in str(error.value)

    def test_dims_must_be_a_mapping(self) -> None:
        with pytest.raises(InstanceError, match="option dims: found 3, expected a mapping"):
            load("onnx:squeezenet", dims=3)

    def test_options_reach_the_importer(self) -> None:
        one, two = load("onnx:squeezenet"), load("onnx:squeezenet?batch=2")
        assert load("onnx:squeezenet", batch=2) == two
        assert len(one.ops) == len(two.ops)
        assert one != two
