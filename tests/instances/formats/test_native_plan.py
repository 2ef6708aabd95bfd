"""Native plans: strict reading, exact round trips, sources that move with the plan."""

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

from lowtide.instances import load, machine_from_dict, plan_from_dict, read_plan, save, write_plan
from lowtide.models.errors import InstanceError, UsageError
from lowtide.models.machine import Access, Channel, ChannelGroup, Machine, Processor, Tier
from lowtide.models.plan import Copy, Free, Plan, Resident, Run
from tests.effort import many
from tests.random_plans import random_case

MACHINE = Machine(
    name="two tiers",
    tiers=(Tier(name="hbm", capacity=100), Tier(name="dram")),
    processors=(Processor(name="gpu", tiers=(Access(tier="hbm"), Access(tier="dram", bytes_per_s=5))),),
    channels=(Channel(src="hbm", dst="dram", bytes_per_s=10, latency_ns=3),),
    groups=(ChannelGroup(name="link", channels=(("hbm", "dram"),), bytes_per_s=7),),
)
PLAN = Plan(
    machine=MACHINE,
    start=(Resident(0, "dram"), Resident(1, "hbm", (0, 5), valid=False)),
    runs=(Run(0, 0, 0, 4, "gpu"), Run(1, 1, 4, 6, "gpu")),
    copies=(Copy(0, "hbm", "dram", 1, 9, (2, 4)), Copy(1, "hbm", "dram", 1, 9)),
    frees=(Free(0, "hbm", 9, (2, 4)), Free(1, "hbm", 9)),
    period=12,
    graph_name="g",
    graph_source="gen:chain?n=2",
    graph_sha256="0" * 64,
    allocation={"a": 0, "b": 8},
)

BAD: dict[str, tuple[tuple[Any, ...], Any, str]] = {
    "format": (("format",), "lowtide/graph", 'format: found "lowtide/graph", expected "lowtide/plan"'),
    "version": (("version",), 2, "version: found 2, expected 1"),
    "unknown key": (("copys",), [], "found unknown key 'copys', did you mean copies?"),
    "runs": (("runs",), None, "runs: found null, expected a list of runs"),
    "op": (("runs", 0, "op"), -1, "run 0, op: found -1, expected an index"),
    "mode true": (("runs", 1, "mode"), True, "run 1, mode: found true, expected an index"),
    "time": (("runs", 1, "end"), 1.5, "run 1, end: found 1.5, expected an integer >= 0"),
    "processor": (("runs", 1, "processor"), 0, "run 1, processor: found 0, expected a string"),
    "key of run": (("runs", 0, "stop"), 3, "run 0, found unknown key 'stop'"),
    "range": (("copies", 0, "bytes"), [4, 2], "copy 0, bytes: found [4, 2], expected a byte range"),
    "range negative": (("frees", 0, "bytes"), [-1, 2], "free 0, bytes: found [-1, 2]"),
    "range of three": (("frees", 0, "bytes"), [0, 1, 2], "free 0, bytes: found [0, 1, 2]"),
    "valid": (("start", 1, "valid"), 0, "start 1, valid: found 0, expected true or false"),
    "period": (("period",), 0, "period: found 0, expected an integer >= 1"),
    "accounting": (("accounting",), "x", 'accounting: found "x"'),
    "sha": (("graph", "sha256"), "12", 'graph: sha256: found "12", expected 64 hexadecimal digits'),
    "graph key": (("graph", "sha"), "1", "graph: found unknown key 'sha', did you mean sha256?"),
    "allocation": (("allocation",), {"a": -1}, 'allocation: found {"a": -1}'),
    "tier": (("machine", "tiers", 0, "capacity"), -1, "machine: tier 0 'hbm', capacity: found -1"),
    "no tier": (("machine", "tiers"), [], "found no tier or no processor"),
    "access": (
        ("machine", "processors", 0, "tiers", 0, "tier"),
        "l2",
        "processor 'gpu': found tier 'l2'",
    ),
    "access key": (
        ("machine", "processors", 0, "tiers", 0, "speed"),
        1,
        "processor 'gpu': tier 0, found unknown key 'speed'",
    ),
    "channel": (("machine", "channels", 0, "dst"), "hbm", "expected two different tiers"),
    "speed": (("machine", "channels", 0, "bytes_per_s"), 0, "channel 0, bytes_per_s: found 0"),
    "group": (("machine", "groups", 0, "channels"), [["hbm"]], "group 0 'link', channels: found"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_plan_is_one_line(case: str, tmp_path: Path) -> None:
    steps, value, expected = BAD[case]
    data = json.loads(json.dumps(PLAN.to_dict()))
    element = data
    for step in steps[:-1]:
        element = element[step]
    element[steps[-1]] = value
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(data))
    with pytest.raises(InstanceError) as error:
        read_plan(path)
    text = str(error.value)
    assert text.startswith(str(path))
    assert text.count(str(path)) == 1
    assert expected in text
    assert "\n" not in text


@pytest.mark.parametrize("key", ["format", "version", "graph", "machine", "runs"])
def test_missing_key(key: str) -> None:
    data = PLAN.to_dict()
    del data[key]
    with pytest.raises(InstanceError, match=f"plan: found no key '{key}', expected"):
        plan_from_dict(data)


@pytest.mark.parametrize("ending", [".json", ".json.gz"])
def test_plan_with_everything_survives(ending: str, tmp_path: Path) -> None:
    path, again = tmp_path / f"a{ending}", tmp_path / f"b{ending}"
    write_plan(PLAN, path)
    write_plan(read_plan(path), again)
    assert read_plan(path) == PLAN
    assert path.read_bytes() == again.read_bytes()


def test_omitted_parts_take_defaults() -> None:
    data = {"format": "lowtide/plan", "version": 1, "graph": {}, "runs": []}
    plan = plan_from_dict({**data, "machine": Machine.single().to_dict()})
    assert plan == Plan(machine=Machine.single())


@many(60)
@given(st.integers(0, 10**6))
def test_any_plan_survives(seed: int) -> None:
    plan = random_case(Random(seed)).plan
    assert plan_from_dict(json.loads(json.dumps(plan.to_dict()))) == plan
    assert machine_from_dict(plan.machine.to_dict()) == plan.machine


def test_a_relative_source_counts_from_the_folder_of_the_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "plans").mkdir()
    (tmp_path / "moved").mkdir()
    monkeypatch.chdir(tmp_path)
    save(load("gen:chain?n=2"), "g.json")
    for source in ("g.json", "native:g.json"):
        write_plan(replace(PLAN, graph_source=source), "plans/p.json")
        stored = json.loads(Path("plans/p.json").read_text())["graph"]["source"]
        assert stored == source.replace("g.json", os.path.join("..", "g.json"))
        read = read_plan("plans/p.json")
        assert read.graph_source is not None
        assert load(read.graph_source) == load("g.json")
        write_plan(read, "plans/q.json")
        assert Path("plans/p.json").read_bytes() == Path("plans/q.json").read_bytes()
    monkeypatch.chdir(tmp_path / "moved")
    moved = read_plan("../plans/p.json").graph_source
    assert moved is not None
    assert load(moved).name == "chain?n=2"


@pytest.mark.parametrize("source", ["gen:chain?n=2", "catalogue:diamond", "odd:thing", "/root/g.json"])
def test_other_sources_stay_as_they_are(source: str, tmp_path: Path) -> None:
    write_plan(replace(PLAN, graph_source=source), tmp_path / "p.json")
    assert read_plan(tmp_path / "p.json").graph_source == source


def test_plan_is_not_written_into_a_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="found no folder"):
        write_plan(PLAN, tmp_path / "nowhere" / "p.json")
