"""Schedules that IOS published: valid stagings of its network, and hints."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

import lowtide as lt
from lowtide.instances import read_hint
from lowtide.models.problems.stream_answers import Stages
from tests.commands import answer

FOLDER = Path(__file__).parents[1] / "data/ios/schedules"
STAGES = {"v100": 55, "1": 55, "k80": 46, "16": 43, "32": 45, "64": 44, "128": 40}


def problem() -> lt.Streams:
    return lt.Streams(lt.load("catalogue:ios/inception_v3"), contention="half-serial")


def data_of(name: str) -> Any:
    return json.loads(gzip.decompress((FOLDER / f"{name}.json.gz").read_bytes()))


@pytest.mark.parametrize(("name", "count"), STAGES.items())
def test_published_schedules_are_stagings(name: str, count: int) -> None:
    asked = problem()
    stages = read_hint(FOLDER / f"{name}.json.gz", asked)
    assert isinstance(stages, Stages)
    assert len(stages.stages) == count
    judgement = asked.judge(asked.read(stages))
    assert not judgement.violations
    best = lt.solve(asked, "ios", threads=1).objective
    assert best is not None
    assert judgement.objective is not None
    assert best <= judgement.objective <= sum(asked.durations)


def test_what_the_published_schedules_look_like() -> None:
    v100 = data_of("v100")
    assert [len(block["stages"]) for block in v100["blocks"]] == [6, 4, 4, 4, 3, 5, 4, 6, 6, 5, 4, 3, 1]
    nodes = [x for block in v100["blocks"] for x in (*block["inner_nodes"], block["exit_node"])]
    assert len(problem().graph.ops) - len(nodes) == 17
    for name in STAGES:
        stages = [stage for block in data_of(name)["blocks"] for stage in block["stages"]]
        assert max(map(len, stages)) <= 5
        assert max(len(group) for stage in stages for group in stage) <= 3


def test_a_schedule_is_a_hint_of_the_command(tmp_path: Path) -> None:
    graph, hint = "catalogue:ios/inception_v3", str(FOLDER / "v100.json.gz")
    words = ("solve", "streams", graph, "--contention", "fluid", "--method", "ios-cpsat", "--hint", hint)
    found = answer(*words, "--time-limit", "0.01", cwd=tmp_path)
    asked = lt.Streams(lt.load(graph), contention="fluid")
    stages = read_hint(hint, asked)
    assert isinstance(stages, Stages)
    assert found["objective"] == asked.evaluate(stages)


def test_a_schedule_of_another_network_is_refused(tmp_path: Path) -> None:
    asked = lt.Streams(lt.load("catalogue:ios/squeezenet"), contention="fluid")
    with pytest.raises(lt.InstanceError, match="expected a schedule of network 'squeezenet'"):
        read_hint(FOLDER / "v100.json.gz", asked)
    path = tmp_path / "schedule.json"
    path.write_text('{"blocks": [{"stages": 3}]}')
    with pytest.raises(lt.InstanceError, match="found KeyError 'inner_nodes'"):
        read_hint(path, asked)
    inception = problem().graph
    stages = read_hint(FOLDER / "v100.json.gz", lt.Peak(inception))
    with pytest.raises(lt.InstanceError, match="found Stages"):
        lt.solve(lt.Peak(inception), hint=stages)
