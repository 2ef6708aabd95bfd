"""The command that compares: its stages, its rows, what is gone on with, and what does not fit."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import lowtide as lt
from lowtide.instances.torch_import.measure import WAYS, two_tiers
from lowtide.models.graph import Graph
from lowtide.models.machine import Channel, ChannelGroup, Machine
from lowtide.results import predicted_measured
from lowtide.results.predicted_measured import COLUMNS, batch_for, main, peak_of, questions, uncoupled

torch = pytest.importorskip("torch", reason="the package torch is not installed")

from lowtide.instances.torch_import.running.eager import blocks, eager_times  # noqa: E402  (needs torch)
from tests.fake_cuda import FakeCuda  # noqa: E402
from tests.instances.torch_on_model import cost, perceptron  # noqa: E402

nn = torch.nn
SOURCE = "torch:resnet18?batch=8&train=1&weights=1"


@cache
def step(device: str) -> Any:
    """Return a step that says it is of `SOURCE`, and is smaller."""
    found = perceptron()
    graph = replace(found.graph, provenance={**found.graph.provenance, "source": SOURCE})
    return replace(found, graph=graph, device=device)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the network be `step`, and its plans few."""
    monkeypatch.setattr(
        "lowtide.instances.torch_import.record_torch", lambda *_, device, **options: step(device)
    )
    monkeypatch.setattr("lowtide.instances.torch_import.measure.SIZES", (2**10, 2**14))
    monkeypatch.setattr(predicted_measured, "batch_for", lambda *_: 8)
    every = predicted_measured.questions
    kept = ("copies, `planner`", "copies in a period, `planner`", "second runs, `auto`")
    monkeypatch.setattr(
        predicted_measured, "questions", lambda *q: {kind: x for kind, x in every(*q).items() if kind in kept}
    )


def rows_of(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]


def words(folder: Path, memory: int, *more: str) -> list[str]:
    return [
        "resnet18",
        "--memory",
        f"{memory}B",
        "--times",
        "1.5",
        "--iterations",
        "2",
        "--out",
        str(folder),
        *more,
    ]


@pytest.mark.slow  # steps of a network, and plans
def test_stages_on_the_cpu(tmp_path: Path, small: None) -> None:
    """One after the other; what is there is not made again, and the rows go on where they end."""
    memory = int(0.95 * peak_of(step("cpu").graph) / predicted_measured.SHARE)
    for stage in ("measure", "plan", "run", "run"):
        assert main(words(tmp_path, memory, "--stage", stage)) == 0
    rows = rows_of(tmp_path)
    assert [row["plan"] for row in rows] == [
        "reference order",
        "copies, `planner`",
        "copies in a period, `planner`",
        "second runs, `auto`",
        "torch",
        "torch, `checkpoint`",
    ]
    graph = lt.load(str(tmp_path / "resnet18-1.5" / "graph.json.gz"))
    for row in rows:
        assert set(row) == {"step", *COLUMNS}
        assert row["needs"] == peak_of(graph)
        assert row["measured_ns"] > 0
    for row in rows[:4]:
        assert row["predicted_peak"] == row["measured_peak"]
        assert row["every_instant"] == row["same_bits"] == "yes"
        assert row["predicted_stall_ns"] == row["predicted_ns"] - row["predicted_busy_ns"]
        assert row["measured_stall_ns"] == row["measured_ns"] - row["operators_ns"]
        assert row["allocated_peak"] is None
        assert row["fits"] == "yes"
    assert rows[0]["predicted_busy_ns"] == sum(op.duration_ns for op in graph.ops) == rows[0]["predicted_ns"]
    assert rows[1]["copies"] > 0
    assert rows[3]["recomputed"] > 0
    kept = (tmp_path / "rows.jsonl").read_text().splitlines()
    (tmp_path / "rows.jsonl").write_text("\n".join(kept[1:-2]) + "\n")
    assert main(words(tmp_path, peak_of(graph) - 1)) == 0
    again = {row["plan"]: row["fits"] for row in rows_of(tmp_path)}
    assert again == {row["plan"]: row["fits"] for row in rows} | {"reference order": "no"}


@pytest.mark.slow  # a model of a device
def test_what_does_not_fit_is_said_on_a_model_of_a_gpu(tmp_path: Path, small: None) -> None:
    """The reference order needs more than the cap; plans keep to it, with some room for workspaces."""
    memory = int(0.95 * peak_of(step("cpu").graph))
    total = 2**28
    with FakeCuda(cost=cost, total=total, pool=2**22) as fake:
        given = fake.held()
        assert main(words(tmp_path, memory, "--device", "cuda")) == 0
        assert fake.fraction == 1.0
        assert fake.held() == given
    rows = {row["plan"]: row for row in rows_of(tmp_path)}
    assert rows["reference order"]["fits"] == "no"
    assert rows["copies, `planner`"]["fits"] == "yes"
    for kind, row in rows.items():
        assert row["device"] == "Model of a GPU"
        if kind.startswith("torch"):
            continue
        assert row["every_instant"] == row["same_bits"] == "yes"
        assert row["allocated_peak"] <= memory or row["fits"] == "no"
        assert row["measured_ns"] > row["operators_ns"]


def test_batch_is_that_whose_step_needs_the_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = lt.load("catalogue:diamond")

    def loaded(spec: str) -> Graph:
        batch = int(spec.rpartition("batch=")[2])
        tensors = (replace(graph.tensors[0], nbytes=1000 + 50 * batch), *graph.tensors[1:])
        return replace(graph, tensors=tensors)

    monkeypatch.setattr(predicted_measured, "load", loaded)
    assert batch_for("resnet18", {}, peak_of(loaded("batch=37"))) == 37
    assert batch_for("resnet18", {}, 1) == 2


def joint(capacity: int, both: int) -> Machine:
    channels = [Channel(src=a, dst=b, bytes_per_s=10**9) for a, b in WAYS]
    return two_tiers(capacity, channels, [ChannelGroup(name="both", channels=WAYS, bytes_per_s=both)])


def test_channels_share_what_both_directions_may_take() -> None:
    found = uncoupled(joint(100, 18 * 10**8))
    assert [channel.bytes_per_s for channel in found.channels] == [9 * 10**8] * 2
    assert found.groups == ()
    assert [channel.bytes_per_s for channel in uncoupled(joint(100, 2 * 10**9)).channels] == [10**9] * 2


def test_every_question_has_a_method_that_takes_it() -> None:
    graph = lt.load("catalogue:diamond")
    machine = joint(10**6, 18 * 10**8)
    found = questions(graph, machine, 10**6)
    assert len(found) == 11
    for problem, method in found.values():
        assert lt.solve(problem, method, time_limit=20).plan is not None


@pytest.mark.slow  # steps of a network, and plans
def test_checkpoint_keeps_blocks_and_runs_them_again() -> None:
    calls = []

    class Block(nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.Sequential(nn.Linear(24, 24), nn.ReLU())

        def forward(self, x: Any) -> Any:
            calls.append(1)
            return self.layers(x)

    module = nn.Sequential(nn.Sequential(Block(), Block()), nn.ModuleList([Block()])[0], nn.Linear(24, 10))
    found = replace(step("cpu"), module=module)
    assert [type(block) for block in blocks(module)] == [Block, Block, Block]
    assert eager_times(found, iterations=2, first=1).measured_ns > 0
    assert len(calls) == 3 * 3
    calls.clear()
    assert eager_times(found, iterations=2, first=1, checkpointed=True).measured_ns > 0
    assert len(calls) == 2 * 3 * 3


@pytest.mark.parametrize("more", [("--iterations", "0"), ("--memory", "much"), ("--device", "cuda")])
def test_refusals(more: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if "cuda" in more and torch.cuda.is_available():
        pytest.skip("there is a device")
    assert main([*words(tmp_path / "out", 10**6), *more]) == 2
    assert f"found {more[1]}" in capsys.readouterr().err.replace("'", "")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("stage", ["plan", "run"])
def test_a_stage_says_which_one_is_missing(
    stage: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words(tmp_path / "out", 10**6), "--stage", stage]) == 2
    assert f"--stage: found {stage}, expected measure first" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
