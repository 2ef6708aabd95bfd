"""Where measured numbers come from: what machines and graphs say, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import lowtide as lt
from lowtide.instances import machine_from_dict
from lowtide.instances.formats.native import graph_from_dict
from lowtide.instances.machines import machine_names
from lowtide.instances.machines.written import write_machine
from lowtide.models.errors import InstanceError
from lowtide.models.measurement import Measurement, Transfer

FOUND = Measurement(
    device='a "GPU" \\ 1',
    date="2026-11-23",
    versions={"torch": "2.13.0", "python": "3.11"},
    repetitions=20,
    conditions="deterministic algorithms",
    transfers=(Transfer(src="gpu", dst="host", nbytes=1024, duration_ns=7000, beside="compute"),),
)


def measured() -> lt.Machine:
    return replace(lt.load_machine("v100-16g-pcie3"), provenance=FOUND)


@pytest.mark.parametrize("name", sorted(machine_names()))
def test_every_machine_is_written_and_read_back(name: str, tmp_path: Path) -> None:
    machine = lt.load_machine(name)
    write_machine(machine, tmp_path / "m.toml", 'about "it" ü')
    assert lt.load_machine(tmp_path / "m.toml") == machine
    assert lt.load_machine(tmp_path / "m.toml").provenance is None


def test_a_machine_keeps_where_its_rates_come_from(tmp_path: Path) -> None:
    machine = measured()
    write_machine(machine, tmp_path / "m.toml")
    assert lt.load_machine(tmp_path / "m.toml").provenance == FOUND
    assert machine_from_dict(json.loads(json.dumps(machine.to_dict()))).provenance == FOUND
    plan = lt.solve(lt.Placement(lt.load("gen:chain?n=4"), machine), "planner").plan
    assert plan is not None
    lt.save(plan, tmp_path / "plan.json")
    assert lt.load_plan(tmp_path / "plan.json")[0].machine.provenance == FOUND


def test_machines_are_the_same_wherever_they_were_measured() -> None:
    assert measured() == lt.load_machine("v100-16g-pcie3")
    assert hash(measured()) == hash(lt.load_machine("v100-16g-pcie3"))
    assert "provenance" not in lt.load_machine("v100-16g-pcie3").to_dict()


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"device": ""}, "device: found no text"),
    ({"date": "23.11.2026"}, "date: found '23.11.2026', expected a date such as 2026-11-23"),
    ({"repetitions": 0}, "repetitions: found 0, expected an integer >= 1"),
    ({"versions": {"torch": 2}}, "versions: found .*, expected an object from names to versions"),
    ({"devise": "x"}, "found unknown key 'devise', did you mean device"),
    (
        {"transfers": [{"src": "gpu", "dst": "host", "nbytes": 1}]},
        "transfer 0 'gpu', found no key 'duration_ns'",
    ),
    (
        {"transfers": [{"src": "gpu", "dst": "host", "nbytes": 1, "duration_ns": 1, "beside": "it"}]},
        'beside: found "it", expected one of nothing, compute, reverse',
    ),
    (
        {"transfers": [{"src": "gpu", "dst": "tape", "nbytes": 1, "duration_ns": 1}]},
        "expected two different tiers",
    ),
]


@pytest.mark.parametrize(("change", "words"), WRONG)
def test_what_is_wrong_is_named(change: dict[str, Any], words: str) -> None:
    data = measured().to_dict()
    with pytest.raises(InstanceError, match=words):
        machine_from_dict({**data, "provenance": {**data["provenance"], **change}})


def test_a_measured_graph_says_so_rightly() -> None:
    graph = replace(lt.load("catalogue:diamond"), provenance={"measured": FOUND.to_dict()})
    data = graph.to_dict()
    assert graph_from_dict(data).provenance["measured"] == FOUND.to_dict()
    data["provenance"]["measured"]["repetitions"] = -1
    with pytest.raises(InstanceError, match="provenance, measured: repetitions: found -1"):
        graph_from_dict(data)
