"""What `lowtide solve` tells people it tells programs: each row of the text stands in the record."""

from __future__ import annotations

import json

import pytest

import lowtide as lt
from lowtide.cli.solve import run_record, summary
from lowtide.solvers.registry import ROOMS
from tests.question_of_each import problem_of

TREE = lt.load("gen:intree?n=12&seed=3")

PLAIN = (
    "instance",
    "problem",
    "method",
    "status",
    "detail",
    "objective",
    "bound",
    "gap",
    "verified",
    "seconds",
    "durations",
    "plan",
    "certificate",
)

QUESTIONS = {
    **{name: problem_of(name, TREE) for name in ROOMS},
    "stages of streams": lt.Streams(TREE, contention="half-serial"),
    "streams within a memory": lt.Streams(TREE, 2, memory=10**9),
    "pools": lt.Arena(TREE, pools="activation"),
    "periods": lt.Placement(TREE, lt.load_machine("a100-40g-pcie3"), periodic=True),
    "runs again": lt.Placement(TREE, lt.load_machine("a100-40g-pcie3"), recompute=True),
    "layers that run again": lt.Partition(TREE, 3, link=10**9),
}


def integers(value: object) -> list[int]:
    if isinstance(value, dict):
        return [n for some in value.values() for n in integers(some)]
    return [value] if type(value) is int else []


@pytest.mark.parametrize("name", QUESTIONS)
def test_every_row_of_the_text_is_in_the_record(name: str) -> None:
    result = lt.solve(QUESTIONS[name], threads=1, time_limit=10)
    assert result.objective is not None
    record = json.loads(json.dumps(run_record(result, 0.5, "plan.json")))
    texts = dict(summary(result, 0.5, "plan.json"))
    assert record["plan"] == texts["plan"]
    for key, text in texts.items():
        if key in PLAIN:
            assert key in record, key
            assert key != "durations" or record[key] == text
            continue
        value = record["facts"][key]
        # Bytes and counts are written out in words; times are rounded there.
        exact = {n for n in integers(value) if n < 100} if isinstance(value, dict) else set(integers(value))
        assert isinstance(value, (int, list, dict)), key
        assert (
            key == "stall" or isinstance(value, dict) or all(str(n) in text.replace(",", "") for n in exact)
        )
        assert not isinstance(value, list) or str(len(value)) in text
    about = {fact.name for fact in result.about}
    assert about == set(texts) - set(PLAIN)
    assert bool(about) != (name == "offsets")


def test_the_record_of_streams_counts_streams_and_synchronisations() -> None:
    result = lt.solve(lt.Streams(lt.load("catalogue:ios/inception_v3")), "nimble")
    assert {"streams", "synchronisations", "peak"} <= set(result.record()["facts"])
