"""The bundled graphs of real networks: what they hold, and their peaks and bounds, without torch."""

from __future__ import annotations

from functools import cache

import pytest

import lowtide as lt
from lowtide.instances import parse_spec
from lowtide.instances.catalogue import Bounds, entries
from lowtide.instances.torch_import import ARCHITECTURES, parameters_of
from lowtide.instances.torch_import.updates import STATES
from lowtide.models.derived.memory import sequential_memory
from lowtide.models.result import Status
from lowtide.results.experiments.torch_graphs.make import GRAPHS

OPEN = ["swin-t-train"]
"""Where peak and bound have not met."""
SLOW = {"moe-train"}
"""Proofs that need search."""


@cache
def graph(name: str) -> lt.Graph:
    return lt.load(f"catalogue:{name}")


def spec(name: str) -> str:
    return f"torch:{GRAPHS[name][0]}"


def known(name: str) -> Bounds:
    return entries()[name].peak


def test_those_of_the_script_are_there() -> None:
    bundled = {name for name, e in entries().items() if e.file and e.file.endswith(".gz") and "/" not in name}
    assert bundled == set(GRAPHS)
    assert 12 <= len(bundled) <= 20
    families = {ARCHITECTURES[parse_spec(spec(name)).name].family for name in GRAPHS}
    assert families == {network.family for network in ARCHITECTURES.values()}
    assert [name for name in GRAPHS if known(name).optimum is None] == OPEN


@pytest.mark.parametrize("name", GRAPHS)
def test_the_graph_says_where_it_comes_from(name: str) -> None:
    source = parse_spec(spec(name))
    assert set(source.options) <= set(parameters_of(source.name))
    found = graph(name)
    assert found.name == name
    assert found.provenance["source"] == spec(name)
    assert str(found.provenance["importer"]).startswith("torch 2.")
    assert entries()[name].description.endswith(f", {len(found.ops)} ops; {spec(name)}")


@pytest.mark.parametrize("name", GRAPHS)
def test_a_training_step_updates_every_parameter_once(name: str) -> None:
    options = parse_spec(spec(name)).options
    found = graph(name)
    optimizer = options.get("optimizer", "sgd")
    updates = [op for op in found.ops if op.kind in STATES]
    if "train" not in options:
        assert not updates
        return
    assert {op.kind for op in updates} == {optimizer}
    weights = [op.writes[0] for op in updates]
    assert len(set(weights)) == len(weights)
    for op in updates:
        assert len(op.reads) == 2 + len(STATES[optimizer])
        assert found.tensors[op.reads[1]].kind == "gradient"
    resident = sum(t.nbytes for t in found.tensors if t.kind in ("weight", "state"))
    assert (resident > 0) == ("weights" in options)
    assert [t.kind for t in found.tensors if t.final and not t.initial] == ["output"]


@pytest.mark.parametrize("name", GRAPHS)
def test_the_reference_order_is_valid_and_no_better_than_the_best_known(name: str) -> None:
    result = lt.solve(lt.Peak(graph(name)), "reference")
    assert result.objective is not None
    assert result.plan is not None
    lt.verify(graph(name), result.plan).raise_if_invalid()
    assert result.objective == sequential_memory(graph(name)).peak(range(len(graph(name).ops)))
    bounds = known(name)
    assert bounds.lower is not None
    assert bounds.upper is not None
    assert bounds.lower <= bounds.upper <= result.objective


@pytest.mark.parametrize(
    "name",
    [pytest.param(x, marks=[pytest.mark.slow] if x in SLOW else []) for x in GRAPHS if x not in OPEN],
)
def test_the_optimum_is_proven_again(name: str) -> None:
    result = lt.solve(lt.Peak(graph(name)), time_limit=600, threads=1)  # for busy machines
    assert result.status is Status.OPTIMAL
    assert result.objective == result.bound == known(name).optimum


@pytest.mark.slow
@pytest.mark.parametrize("name", OPEN)
def test_the_bounds_of_open_ones_contain_what_is_found_now(name: str) -> None:
    result = lt.solve(lt.Peak(graph(name)), time_limit=3, threads=1)
    bounds = known(name)
    assert result.objective is not None
    assert bounds.lower is not None
    assert bounds.upper is not None
    assert result.objective >= bounds.lower
    assert (result.bound or 0) <= bounds.upper
