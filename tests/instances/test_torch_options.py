"""Networks to trace with torch: listed and checked without torch; one line says what is missing."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import lowtide as lt
from lowtide.instances import list_instances, load, parse_spec
from lowtide.instances.torch_import import ARCHITECTURES, parameters_of
from lowtide.instances.torch_import.measure import main as measure
from lowtide.instances.torch_import.running.__main__ import main as running
from lowtide.models.errors import BackendUnavailable, InstanceError
from lowtide.models.plan import Plan
from tests.commands import refused, within


@pytest.fixture
def _no_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)


@pytest.mark.usefixtures("_no_torch")
def test_every_network_is_listed_with_its_options() -> None:
    listed = {parse_spec(spec).name: text for spec, text in list_instances() if spec.startswith("torch:")}
    assert listed == {name: network.description for name, network in ARCHITECTURES.items()}
    for spec in (spec for spec, _ in list_instances() if spec.startswith("torch:")):
        parsed = parse_spec(spec)
        assert set(parsed.options) == set(parameters_of(parsed.name))
        with pytest.raises(BackendUnavailable):  # so the specification itself is right
            load(spec)


@pytest.mark.usefixtures("_no_torch")
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_without_torch_one_line_names_the_extra(name: str, tmp_path: Path) -> None:
    with pytest.raises(BackendUnavailable, match=rf"^torch:{name}: .* pip install 'lowtide\[torch\]'$"):
        load(f"torch:{name}")
    line = refused("convert", f"torch:{name}?train=1", "g.json", cwd=tmp_path, run=within)
    assert "lowtide[torch]" in line


@pytest.mark.usefixtures("_no_torch")
@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("torch:resnet", r"unknown network 'resnet', did you mean .*resnet18"),
        ("torch:resnet50?batches=2", r"unknown option 'batches', did you mean batch"),
        ("torch:resnet50?batch=0", r'option batch: found "0", expected an integer >= 1'),
        ("torch:resnet50?image=1", r'option image: found "1", expected an integer >= 32 and <= 4096'),
        ("torch:vit_b_16?layers=many", r'option layers: found "many", expected an integer'),
        ("torch:resnet50?train=2", r'option train: found "2", expected 0 or 1'),
        ("torch:resnet50?train=1&optimizer=adam", r'option optimizer: found "adam", expected sgd or'),
        ("torch:resnet50?optimizer=adamw", r"option optimizer: found adamw, expected train=1 beside it"),
    ],
)
def test_wrong_options_are_refused_before_torch_is_needed(spec: str, words: str) -> None:
    with pytest.raises(InstanceError, match=rf"^instance '{re.escape(spec)}'.*{words}"):
        load(spec)


@pytest.mark.usefixtures("_no_torch")
def test_measuring_and_running_say_what_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    graph = replace(load("catalogue:diamond"), provenance={"source": "torch:resnet18?train=1&weights=1"})
    lt.save(graph, tmp_path / "graph.json")
    lt.save(Plan.from_order(graph, range(len(graph.ops))), tmp_path / "plan.json")
    plan = [str(tmp_path / "plan.json"), "--graph", str(tmp_path / "graph.json")]
    for command, words in ((measure, ["resnet18"]), (running, plan), (running, [*plan, "--device", "cuda"])):
        assert command(words) == 2
        assert re.fullmatch(r"lowtide: .*the package torch .*lowtide\[torch\]'\n", capsys.readouterr().err)


def test_work_has_the_data_type_of_the_module() -> None:
    torch = pytest.importorskip("torch")
    from lowtide.instances.torch_import import trace

    for dtype, name in ((torch.float32, "fp32"), (torch.bfloat16, "bf16"), (torch.float16, "fp16")):
        module = torch.nn.Linear(8, 4, dtype=dtype)
        graph = trace(module, {"input": torch.ones(2, 8, dtype=dtype)})
        assert {part.dtype for op in graph.ops for part in op.work} == {name}
        assert sum(part.multiply_adds for op in graph.ops for part in op.work) == 2 * 8 * 4
