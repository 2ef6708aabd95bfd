"""`auto` says why it stopped: what was exhausted, and what to try; or it searches on until the limit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import lowtide as lt
from lowtide.formulations.parallel import edges_cpsat
from lowtide.instances import load_problem
from lowtide.models.problems.problem import Problem
from lowtide.solvers.context import Outcome
from lowtide.solvers.makespan import auto as makespan_auto
from lowtide.solvers.minio import auto as minio_auto
from lowtide.solvers.offsets import auto as offsets_auto
from lowtide.solvers.parallel import edges_auto
from lowtide.solvers.parts import Part
from lowtide.solvers.peak import auto as peak_auto
from lowtide.solvers.placement import auto as placement_auto
from lowtide.solvers.placement.bounds import cheap
from lowtide.solvers.recompute import auto as recompute_auto
from tests.solvers.stand_ins import stand_in


def nothing(*args: Any, **kwargs: Any) -> Outcome:
    """Stand for a step that ends by itself and finds nothing."""
    return Outcome()


def without_finds(parts: tuple[Part, ...], but: str) -> tuple[Part, ...]:
    """Return parts that find nothing, all but one."""
    return tuple(part if part.name == but else replace(part, run=nothing) for part in parts)


def solved(problem: Problem) -> lt.Result:
    return lt.solve(problem, threads=1, time_limit=None)


def assert_exhausted(result: lt.Result, word: str) -> None:
    assert (result.status, result.reason) == (lt.Status.FEASIBLE, "exhausted")
    assert word in result.detail


def test_cuts_of_a_tree_give_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(minio_auto, "solve_by_cuts", nothing)
    tree = lt.load("gen:intree?n=60&arity=2&largest=100&seed=1")
    assert_exhausted(solved(lt.MinIO(tree, memory=250)), "every part was run to its end")


def test_parts_of_placement_are_through(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, placement_auto, bounds_at_once=nothing, prices=nothing, slot_lp=nothing)
    monkeypatch.setattr(cheap, "raise_cheap_bounds", nothing)
    machine = "a100-40g-pcie3"
    problem = load_problem("placement", "catalogue:harpoon", machine=machine, device="14B", periodic=True)
    assert_exhausted(solved(problem), "every part was run to its end")


def test_searches_of_offsets_give_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offsets_auto, "PARTS", without_finds(offsets_auto.PARTS, "greedy"))
    problem = lt.Offsets(lt.load_buffers("catalogue:minimalloc/A"))
    assert_exhausted(solved(problem), "every part was run to its end")


def test_bounds_by_moments_are_through(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recompute_auto, "PARTS", without_finds(recompute_auto.PARTS, "rules"))
    problem = lt.Recompute(lt.load("gen:backprop-chain?l=7"), memory=6)
    assert_exhausted(solved(problem), "every part was run to its end")


def test_heuristics_that_add_edges_are_through(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edges_cpsat, "fits", lambda graph: False)
    monkeypatch.setattr(edges_auto, "raise_path_bound", nothing)
    problem = lt.MemoryEdges(lt.load("catalogue:harpoon"), bound=30)
    assert_exhausted(solved(problem), "every part was run to its end")


def test_what_says_nothing_is_told_where_to_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peak_auto, "PARTS", without_finds(peak_auto.PARTS, "greedy orders"))
    assert_exhausted(solved(lt.Peak(lt.load("catalogue:randwire-20-0"))), "every part was run to its end")


@pytest.mark.slow
def test_a_schedule_that_nothing_proves_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(makespan_auto, "_proofs", lambda data: ())
    problem = lt.Makespan(lt.load("catalogue:randwire-20-0"), processors=2, memory=140)
    assert_exhausted(solved(problem), "every part was run to its end")
