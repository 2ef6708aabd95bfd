"""Which ops to merge: against every choice, and what IOS published."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

import lowtide as lt
from lowtide.instances import read_hint
from lowtide.models.derived.merging import merge_ops, sets_of, stated_merges, text_of
from lowtide.models.problems.stream_answers import Stages
from lowtide.solvers.streams.merging import best_merges
from tests.commands import answer, refused
from tests.effort import seeds
from tests.oracles.brute_streams import fastest_stages
from tests.solvers.streams.merges import question

SCHEDULES = Path(__file__).parents[2] / "data/ios/schedules"


def oracle(problem: lt.Streams) -> int:
    found = fastest_stages(problem.graph, problem.contention, 4, sync_ns=problem.sync_ns)
    assert found is not None
    return found


@pytest.mark.parametrize("seed", seeds(16))
def test_the_best_of_all_choices(seed: int) -> None:
    problem = question(seed)
    graph = problem.graph
    known = [merge.ops for merge in stated_merges(graph)]
    least = oracle(problem)
    for count in range(1, len(known) + 1):
        for sets in combinations(known, count):
            if sum(map(len, sets)) == len({i for some in sets for i in some}):
                least = min(least, oracle(replace(problem, graph=merge_ops(graph, sets))))
    chosen = replace(problem, graph=merge_ops(graph, best_merges(problem)))
    result = lt.solve(chosen, threads=1)
    assert (str(result.status), result.objective) == ("optimal", least)


def published(name: str) -> list[str]:
    data = json.loads(gzip.decompress((SCHEDULES / f"{name}.json.gz").read_bytes()))
    nodes: list[dict[str, Any]] = [x for b in data["blocks"] for x in (*b["inner_nodes"], b["exit_node"])]
    hints = [node["hint_name"].split() for node in nodes if " " in node["hint_name"]]
    return ["+".join(f"conv{x}" for x in sorted(some, key=int)) for some in hints]


@pytest.mark.slow
def test_a_roofline_merges_what_was_measured_on_a_v100_and_one_more() -> None:
    graph = lt.load("catalogue:ios/inception_v3")
    problem = lt.Streams(graph, contention="half-serial")
    ours = text_of(graph, best_merges(problem)).split(";")
    assert ours == [*published("v100"), "conv108+conv109+conv112"]
    assert best_merges(replace(problem, contention="fluid")) == ()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["v100", "k80", "16", "128"])
def test_a_published_schedule_with_its_merges(name: str) -> None:
    spec, merge = "catalogue:ios/inception_v3", ";".join(published(name))
    problem = lt.Streams(lt.load(spec, merge=merge), contention="half-serial")
    stages = read_hint(SCHEDULES / f"{name}.json.gz", problem)
    assert isinstance(stages, Stages)
    judgement = problem.judge(problem.read(stages))
    assert not judgement.violations
    best = lt.solve(problem, "ios", threads=1).objective
    assert best is not None
    assert judgement.objective is not None
    assert best <= judgement.objective


def test_the_catalogue_has_the_merges_of_the_importer() -> None:
    for name in ("inception_v3.json.gz", "squeezenet.json"):
        made = lt.load(f"ios:{SCHEDULES.parent / name}")
        kept = lt.load(f"catalogue:ios/{name.partition('.')[0]}")
        assert made == kept
        assert stated_merges(made) == stated_merges(kept) != ()


def test_the_command_chooses_and_the_plan_verifies(tmp_path: Path) -> None:
    words = ("solve", "streams", "catalogue:ios/squeezenet", "--contention", "half-serial", "--merge")
    found = answer(*words, "--plan", "plan.json", cwd=tmp_path)
    graph = lt.load("catalogue:ios/squeezenet")
    sets = best_merges(lt.Streams(graph, contention="half-serial"))
    assert sets_of(graph, text_of(graph, sets)) == list(map(list, sets))
    assert found["status"] == "optimal"
    plan = json.loads((tmp_path / "plan.json").read_text())
    assert plan["graph"]["source"] == f"catalogue:ios/squeezenet?merge={text_of(graph, sets)}"
    assert answer("verify", "plan.json", cwd=tmp_path)["valid"]
    line = refused("solve", "streams", "catalogue:ios/squeezenet", "--merge", cwd=tmp_path)
    assert "which price stages" in line
    line = refused(*words[:2], f"{words[2]}?merge=conv4+conv5", *words[3:], cwd=tmp_path)
    assert "found merge=" in line
    assert answer(*words, "--time-limit", "0.000001", cwd=tmp_path)["problem"] == "streams"  # not refused
