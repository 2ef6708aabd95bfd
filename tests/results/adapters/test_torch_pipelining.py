"""Schedules of torch.distributed.pipelining: there and back, and torch's own as plans."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from random import Random

import pytest

import lowtide as lt
from lowtide.adapters import torch_pipelining
from tests.commands import answer, refused
from tests.effort import chosen

METHODS = ("gpipe", "1f1b", "zb-h1", "list", "interleaved", "v-min", "v-zb")


def pipeline(**options: object) -> lt.Pipeline:
    return lt.Pipeline(lt.load("gen:stages", **{key: str(value) for key, value in options.items()}))


def solved(method: str, **options: object) -> tuple[lt.Pipeline, lt.Plan]:
    """Return a question that suits the method, and its plan."""
    stages = {"v": 2} if method in ("interleaved", "v-min", "v-zb") else {}
    shape = {"placement": "v"} if method.startswith("v-") else {}
    problem = pipeline(p=3, m=6, **stages, **shape, **options)
    plan = lt.solve(problem, method).plan
    assert plan is not None
    return problem, plan


def orders(plan: lt.Plan) -> list[list[int]]:
    """Return the ops of each device in the plan's order."""
    names = [p.name for p in plan.machine.processors]
    return [[r.op for r in sorted(plan.runs, key=lambda r: r.start) if r.processor == name] for name in names]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("w", [0, 1])
def test_a_schedule_comes_back(method: str, w: int, tmp_path: Path) -> None:
    if not w and method in ("zb-h1", "v-min", "v-zb"):
        pytest.skip("needs W")
    problem, plan = solved(method, w=w)
    path = tmp_path / "schedule.csv"
    torch_pipelining.write(problem.graph, plan, path)
    table = [[cell for cell in row if cell] for row in csv.reader(io.StringIO(path.read_text(), newline=""))]
    names = {i: op.name for i, op in enumerate(problem.graph.ops)}
    for row, order in zip(table, orders(plan), strict=True):
        spelled = [names[i] for i in order]  # "F0.3": stage 0, micro-batch 3
        ours = [f"{'B' if not w and c == 'B' else 'I' if c == 'B' else c}" for c in (x[0] for x in spelled)]
        assert row == [
            f"{x[1:].split('.')[0]}{kind}{x.split('.')[1]}" for x, kind in zip(spelled, ours, strict=True)
        ]
    again = torch_pipelining.read(path, problem)
    assert orders(again) == orders(plan)
    verdict = lt.verify(problem.graph, again)
    assert verdict.valid
    assert verdict.makespan <= lt.verify(problem.graph, plan).makespan


def test_what_torch_adds_does_not_count(tmp_path: Path) -> None:
    problem = pipeline(p=2, m=2, w=1)
    path = tmp_path / "x.csv"
    path.write_text(
        "0UNSHARD,0F0,0SEND_F0,0F1, 0RECV_B0 ,0I0,,(0W0;0B1)OVERLAP_F_B,0REDUCE_GRAD,0RESHARD\n"
        "1RECV_F0,1F0,1B0,1SEND_B0,1F1,1I1,1W1\n"
    )
    plan = torch_pipelining.read(path, problem)
    names = [[problem.graph.ops[i].name for i in order] for order in orders(plan)]
    assert names == [
        ["F0.0", "F0.1", "B0.0", "W0.0", "B0.1", "W0.1"],
        ["F1.0", "B1.0", "W1.0", "F1.1", "B1.1", "W1.1"],
    ]
    assert lt.verify(problem.graph, plan).valid


def test_memory_of_a_question_counts(tmp_path: Path) -> None:
    path = tmp_path / "gpipe.csv"
    problem, plan = solved("gpipe", w=0)
    torch_pipelining.write(problem.graph, plan, path)
    tight = lt.Pipeline(problem.graph, memory=3)
    verdict = lt.verify(problem.graph, torch_pipelining.read(path, tight))
    assert {v.kind for v in verdict.violations} == {"capacity"}


GOOD = "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (GOOD, "0F0,0F1,0B0,0B1\n", "found 1 rows, expected 2, one for each device"),
        (GOOD, "", "found 0 rows"),
        ("0F1", "0X1", r":1, action 2: found \"0X1\", expected STAGE, F, B, I or W, MICROBATCH, such as 2F0"),
        ("0F1", "0F", "expected STAGE"),
        ("0F1", "0F1x", "expected STAGE"),
        ("0F1", "-1F1", "expected STAGE"),
        ("0F1", "0F99999999", "expected STAGE"),
        ("0F1", "1F1", "expected one of the stages 0 and a micro-batch below 2"),
        ("0F1", "7F1", "expected one of the stages 0"),
        ("0F1", "0F2", "a micro-batch below 2"),
        (
            "0F1",
            "0F0",
            "found 4 actions, 3 of them different, expected the 4 of the graph's device 0, each once",
        ),
        ("0F1", "", "found 3 actions"),
        ("0B0", "0I0", "expected B for a stage whose backward pass is one op"),
        ("0F0,0F1,0B0", "0B0,0F1,0F0", "cycle"),
        ("0F0", "0F0\x00", "expected STAGE|expected a CSV"),
        ("0F0", '"0F0', "expected a CSV file of actions"),
    ],
)
def test_a_wrong_schedule_is_refused(old: str, new: str, message: str, tmp_path: Path) -> None:
    problem, path = pipeline(p=2, m=2, w=0), tmp_path / "x.csv"
    path.write_text(GOOD)
    assert lt.verify(problem.graph, torch_pipelining.read(path, problem)).valid
    assert old in GOOD
    path.write_text(GOOD.replace(old, new, 1))
    with pytest.raises(lt.InstanceError, match=message):
        torch_pipelining.read(path, problem)


def test_damaged_bytes_are_refused_or_read(tmp_path: Path) -> None:
    problem, path = pipeline(p=2, m=2, w=0), tmp_path / "x.csv"
    messages = []
    for seed in chosen(range(2000), least=200):
        rng, content = Random(seed), bytearray(GOOD.encode())
        for _ in range(rng.randint(1, 3)):
            content[rng.randrange(len(content))] = rng.choice((*b'0123FBIW,;()\n"', rng.randrange(256)))
        path.write_bytes(bytes(content))
        try:
            plan = torch_pipelining.read(path, problem)
        except lt.InstanceError as error:
            messages.append(str(error))
        else:
            assert lt.verify(problem.graph, plan).valid
    assert len(messages) > 100
    assert not [text for text in messages if "\n" in text]


def test_convert_writes_and_reads_schedules(tmp_path: Path) -> None:
    answer(
        "solve", "pipeline", "gen:stages?p=2&m=3&w=0", "--method", "1f1b", "--plan", "plan.json", cwd=tmp_path
    )
    said = answer("convert", "plan.json", "schedule.csv", cwd=tmp_path)
    assert said["format"] == "schedule of torch.distributed.pipelining"
    assert (tmp_path / "schedule.csv").read_text().split() == [
        "0F0,0F1,0B0,0F2,0B1,0B2",
        "1F0,1B0,1F1,1B1,1F2,1B2",
    ]
    answer("convert", "schedule.csv", "again.json", "--graph", "gen:stages?p=2&m=3&w=0", cwd=tmp_path)
    verdict = answer("verify", "again.json", cwd=tmp_path)
    assert (verdict["valid"], verdict["makespan"]) == (True, 8)
    assert ".json.gz for a plan" in refused(
        "convert", "schedule.csv", "x.onnx", "--graph", "gen:stages", cwd=tmp_path
    )
    assert "found 2 rows" in refused(
        "convert", "schedule.csv", "x.json", "--graph", "gen:stages", cwd=tmp_path
    )
    assert "pipeline" in refused("convert", "schedule.csv", "x.json", "--graph", "gen:chain", cwd=tmp_path)
    answer("solve", "peak", "gen:chain", "--method", "greedy", "--plan", "peak.json", cwd=tmp_path)
    assert "expected ops F, B and W" in refused("convert", "peak.json", "x.csv", cwd=tmp_path)
