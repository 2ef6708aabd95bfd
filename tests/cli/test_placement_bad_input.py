"""Machines that make no sense: exit 2 and one line; what cannot be: infeasible, with its witness."""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from lowtide.instances import write_graph
from tests.commands import answer, refused, within
from tests.problems.placement import machine, random_graph, working_set

METHODS = (
    *("auto", "planner", "lp-bound", "local-search", "demand-lru", "deepum", "belady", "vdnn"),
    *("flashneuron", "g10", "autoswap", "tmof-online", "first-touch"),
)
Change = Callable[[dict[str, Any]], object]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    graph = random_graph(1)
    write_graph(graph, tmp_path / "g.json")
    said = machine(working_set(graph) + 8, 30).to_dict()
    (tmp_path / "m.json").write_text(json.dumps(said))
    return tmp_path


def without(pair: list[str]) -> Change:
    def change(said: dict[str, Any]) -> None:
        said["channels"] = [c for c in said["channels"] if [c["src"], c["dst"]] != pair]
        said["groups"] = []

    return change


FAULTS: dict[str, tuple[Change, str]] = {
    "zero bandwidth": (
        lambda said: said["channels"][0].update(bytes_per_s=0),
        "channel 0, bytes_per_s: found 0, expected an integer >= 1",
    ),
    "zero bandwidth of a group": (
        lambda said: said["groups"][0].update(bytes_per_s="0GB"),
        "bytes_per_s: found '0GB'",
    ),
    "negative latency": (
        lambda said: said["channels"][0].update(latency_ns=-1),
        "channel 0, latency_ns: found -1, expected an integer >= 0",
    ),
    "negative capacity": (
        lambda said: said["tiers"][0].update(capacity=-1),
        "tier 0 'gpu', capacity: found -1, expected an integer >= 0",
    ),
    "huge capacity": (lambda said: said["tiers"][0].update(capacity=10**30), "expected less than 2**62"),
    "unknown key": (lambda said: said.update(colour="blue"), "found unknown key 'colour'"),
    "unknown key of a tier": (
        lambda said: said["tiers"][0].update(capcity=3),
        "tier 0 'gpu', found unknown key 'capcity', did you mean capacity?",
    ),
    "channel to nowhere": (
        lambda said: said["channels"][0].update(dst="disk"),
        "channel 'gpu' to 'disk': expected two different tiers",
    ),
    "no way to a tier": (
        without(["gpu", "ssd"]),
        "tier 'ssd': found no channel from the processors' tiers that leads there",
    ),
    "no way back": (without(["ssd", "gpu"]), "tier 'ssd': found no channel to the processors' tiers"),
    "no processors": (lambda said: said.update(processors=[]), "found no tier or no processor"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_machine_file(folder: Path, fault: str) -> None:
    change, words = FAULTS[fault]
    said = deepcopy(json.loads((folder / "m.json").read_text()))
    change(said)
    (folder / "bad.json").write_text(json.dumps(said))
    assert words in refused("solve", "placement", "g.json", "--machine", "bad.json", cwd=folder, run=within)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("g.json?start.wight=gpu", "start: found kind 'wight', expected one of input, weight"),
        ("g.json?start.input=disk", "found tier 'disk'"),
        ("g.json?capacity.disk=3", "found unknown tier 'disk'"),
        ("g.json?capacity.gpu=-3", 'option capacity.gpu: found "-3", expected bytes such as'),
        ("g.json?period=1", "found unknown option 'period'"),
        ("none.json", "graph 'none': found no ops, expected at least one"),
    ],
)
def test_question(folder: Path, spec: str, words: str) -> None:
    (folder / "none.json").write_text(
        '{"format": "lowtide/graph", "version": 1, "name": "none", "tensors": [], "ops": []}'
    )
    line = refused("solve", "placement", spec, "--machine", "m.json", cwd=folder, run=within)
    assert words in line


@pytest.mark.parametrize("method", METHODS)
def test_a_working_set_that_fits_nowhere_is_infeasible_for_every_method(folder: Path, method: str) -> None:
    device = working_set(random_graph(1)) - 1
    said = ("solve", "placement", "g.json", "--machine", "m.json", "--device", str(device), "--periodic")
    found = answer(*said, "--method", method, "--plan", "p.json", cwd=folder, status=1)
    assert (found["status"], found["objective"], found["plan"]) == ("infeasible", None, None)
    assert f"needs {device + 1} bytes at once, expected at most {device}" in found["detail"]
    assert not (folder / "p.json").exists()


@pytest.mark.parametrize("method", [m for m in METHODS if m not in ("auto", "planner", "lp-bound")])
def test_a_policy_that_does_not_fit_says_so(folder: Path, method: str) -> None:
    """No room beyond the largest op: plans are verified, and what was done by force is counted."""
    device = working_set(random_graph(1))
    said = ("solve", "placement", "g.json", "--machine", "m.json", "--device", str(device), "--periodic")
    limits = ("--time-limit", "1", "--threads", "1")
    found = answer(*said, *limits, "--method", method, cwd=folder)
    assert found["verified"] is (found["objective"] is not None)
    if found["objective"] is None:
        assert found["detail"]
    elif method in ("vdnn", "flashneuron"):
        assert "does not fit by itself: emergency evictions: " in found["detail"]
