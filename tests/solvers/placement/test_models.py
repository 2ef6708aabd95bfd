"""Models of placement in one's hands: single runs, periods, several tiers with limits, replicas."""

from __future__ import annotations

from dataclasses import replace
from math import ceil
from pathlib import Path
from typing import Any

import pytest

import lowtide as lt
from lowtide.instances import load_problem
from lowtide.solvers.export import export_model
from lowtide.solvers.registry import ROOMS
from tests.problems.placement import machine, random_graph, working_set
from tests.solvers.other_solvers import solve_elsewhere

MILPS = [name for name, export in ROOMS["placement"].exports.items() if export.engine == "milp"]

NAMED = {
    "network": "onnx:squeezenet?train=1,blocks=6,machine=a100-40g-pcie3,device=60MiB",
    "replicas": "gen:skipchain?n=8,seed=1,machine=v100x4-16g-shared-pcie3,device=450MB,replicas=2,periodic=1,"
    "start=device",
}

SCALE = 1000
"""Of bytes and times: plans in bytes have something to round."""


def question(kind: str) -> lt.Placement:
    """Return a small question with several tiers, of which one may be limited, or of replicas."""
    if kind in NAMED:
        found = load_problem("placement", NAMED[kind])
        assert isinstance(found, lt.Placement)
        return found
    graph = random_graph(3, 7)
    room, host = SCALE * (working_set(graph) + 3), 14 * SCALE if kind == "host with a limit" else None
    tensors = tuple(replace(t, nbytes=SCALE * t.nbytes) for t in graph.tensors)
    ops = tuple(
        replace(op, duration_ns=SCALE * op.duration_ns, workspace=SCALE * op.workspace) for op in graph.ops
    )
    return lt.Placement(
        replace(graph, tensors=tensors, ops=ops), machine(room, host), periodic=kind == "period"
    )


KINDS = pytest.mark.parametrize("kind", ["single run", "period", "host with a limit", *NAMED])


@KINDS
@pytest.mark.parametrize("method", MILPS)
def test_the_optimum_of_a_model_is_what_its_method_proves(method: str, kind: str, tmp_path: Path) -> None:
    problem = replace(question(kind), whole=method == "slot-milp")
    model, solution = tmp_path / "model.mps", tmp_path / "solution.txt"
    if method.startswith("autotm") and kind == "replicas":
        with pytest.raises(lt.UsageError, match="found several processors"):
            export_model(problem, method, model)
        return
    export_model(problem, method, model)
    optimum = solve_elsewhere("highs", model, solution)
    own = lt.solve(problem, method, threads=1)
    if optimum is None:
        assert (method, own.objective) == ("autotm-static", None)  # which cannot move what does not fit
        return
    if method == "lp-bound":
        assert ceil(optimum - 1e-3) == own.bound
        return
    result = lt.build(problem, method, rows=False).read(solution)
    assert result.verification is not None
    assert result.verification.valid, result.detail
    assert result.objective is not None
    assert own.objective is not None
    assert own.bound is not None
    if method == "slot-milp":  # its first bound, which later rounds may raise
        assert optimum <= own.bound + 1 <= result.objective + 1
    elif method == "slot-lp":  # up to whole bytes and ns
        assert own.bound - 1 <= optimum
        assert result.objective - optimum <= 50 * len(problem.graph.ops)
    else:
        assert result.objective == own.objective == pytest.approx(optimum, abs=0.01)
        form: Any = own.facts.get("form_bound", own.objective)
        assert form <= own.objective


@KINDS
def test_intervals_have_the_optimum_of_method_cpsat(kind: str) -> None:
    problem = replace(question(kind), whole=True)
    if kind == "replicas":
        with pytest.raises(lt.UsageError, match="found several processors"):
            lt.build(problem, "cpsat")
        return
    own = lt.solve(problem, "cpsat", threads=1)
    result = lt.solve(problem, "cpsat", threads=1, constrain=lambda built: None)
    assert own.status is lt.Status.OPTIMAL
    assert result.objective == own.objective


def test_options_that_say_what_a_model_is_are_taken_and_others_refused() -> None:
    problem = question("single run")
    wide, narrow = (lt.build(problem, "autotm-async", options={"window": w}) for w in ("15", "1"))
    assert len(narrow.variables) < len(wide.variables)
    with pytest.raises(lt.UsageError, match="found option rounds, which it does not depend on"):
        lt.build(problem, "autotm-async", options={"rounds": "3"})


def test_ops_with_several_modes_are_refused_where_a_method_branches() -> None:
    problem = question("single run")
    op = problem.graph.ops[0]
    modes = (lt.Mode(duration_ns=5), lt.Mode(duration_ns=6))
    graph = replace(problem.graph, ops=(replace(op, modes=modes), *problem.graph.ops[1:]))
    for method in ("slot-lp", "tmof"):
        with pytest.raises(lt.UsageError, match="found ops with several modes"):
            lt.build(replace(problem, graph=graph), method)
    for method in ("lp-bound", "autotm-sync", "cpsat"):
        assert lt.build(replace(problem, graph=graph), method).variables
