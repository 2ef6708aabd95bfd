"""Small problems of recomputation in which something is to be decided, and models of them solved alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import lowtide as lt
from lowtide.formulations.recompute import moccasin_cpsat as recompute_moccasin
from lowtide.formulations.recompute.data import recompute_data
from lowtide.solvers.context import Context
from lowtide.solvers.engines.cpsat import solve_cpsat
from lowtide.solvers.engines.highs import solve_highs
from tests.strategies import random_graph


def needed(graph: lt.Graph) -> int:
    """Bytes of the reference order, each op once, as the verifier has them."""
    verification: Any = lt.solve(lt.Recompute(graph), "store-all").verification
    return int(verification.peaks["memory"])


def tight_problem(seed: int, *, single_writer: bool | None = None) -> lt.Recompute | None:
    """A random graph in less memory than the reference order needs; None where nothing is to be decided."""
    rng = Random(seed)
    graph = random_graph(
        rng, min_ops=3, max_ops=6, max_tensors=7, max_duration=5, single_writer=single_writer
    )
    least = max(lt.Recompute(graph).least_bytes(i) for i in range(len(graph.ops)))
    most = needed(graph)
    if most <= least:
        return None
    problem = lt.Recompute(graph, memory=rng.randrange(least, most))
    return None if problem.impossible() else problem


def chained(sizes: Sequence[int], reads: Sequence[tuple[int, ...]]) -> lt.Graph:
    """Ops that must run first in this sequence; op i writes a tensor of so many bytes."""
    last = len(sizes) - 1
    tensors = [lt.Tensor(name=f"t{i}", nbytes=size, final=i == last) for i, size in enumerate(sizes)]
    ops = [
        lt.Op(name=f"o{i}", reads=read, writes=(i,), after=(i - 1,) if i else ())
        for i, read in enumerate(reads)
    ]
    return lt.Graph(name="chained", tensors=tuple(tensors), ops=tuple(ops))


def with_disk(problem: lt.Recompute, rng: Random) -> lt.Recompute:
    """The problem with a slower tier behind its memory."""
    rate = 10**9 // rng.choice((1, 2, 4))
    machine = lt.Machine(
        tiers=(lt.Tier(name="memory"), lt.Tier(name="disk", capacity=rng.choice((None, 4)))),
        processors=(lt.Processor(name="p", tiers=(lt.Access(tier="memory"),)),),
        channels=(
            lt.Channel(src="memory", dst="disk", bytes_per_s=rate),
            lt.Channel(src="disk", dst="memory", bytes_per_s=rate, latency_ns=1),
        ),
    )
    return lt.Recompute(problem.graph, memory=problem.memory, machine=machine)


def chain_with_disk(seed: int) -> lt.Recompute | None:
    """A short chain in less memory than it needs; None where nothing is to be decided."""
    rng = Random(seed)
    options = f"l={rng.randint(2, 3)}&largest=3&forward=9&backward=9&spread=2&seed={seed}"
    graph = lt.load(f"gen:backprop-chain?{options}&accounting={rng.choice(('coexist', 'replace'))}")
    least = max(lt.Recompute(graph).least_bytes(i) for i in range(len(graph.ops)))
    if needed(graph) <= least:
        return None
    problem = with_disk(lt.Recompute(graph, memory=rng.randrange(least, needed(graph))), rng)
    return None if problem.impossible() else problem


def milp(problem: lt.Recompute, model: Any, read: Callable[[Any], Any]) -> Context:
    """Solve a model and return what it found, and its bound; no bound if there is no solution."""
    data = recompute_data(problem)
    context = Context(problem=problem)
    outcome = solve_highs(model, context, decode=read, to_objective=data.ns)
    assert outcome.reason is None
    if outcome.infeasible:
        context.bound = None
    return context


def with_copies(problem: lt.Recompute, copies: int, hint: list[int] | None = None) -> Context:
    """Return what the model of so many copies finds; all variables with hints are fixed to these."""
    data = recompute_data(problem)
    built = recompute_moccasin.build(data, copies=copies, hint=hint)
    fixed = {} if hint is None else {"fix_variables_to_their_hinted_value": "true"}
    context = Context(problem=problem, engine_options=fixed)
    outcome = solve_cpsat(
        built.model,
        context,
        decode=lambda value: recompute_moccasin.decode(built, value),
        to_objective=data.ns,
    )
    assert outcome.reason is None
    assert built.complete == all(copies >= len(recompute_moccasin.slots_of(data, i)) for i in range(data.n))
    return context


def check_values(model: Any) -> None:
    """The values of all variables satisfy the model."""
    import pyomo.environ as pyo

    for variable in model.component_data_objects(pyo.Var):
        assert variable.lb is None or variable.value >= variable.lb
        assert variable.ub is None or variable.value <= variable.ub
    for row in model.component_data_objects(pyo.Constraint):
        assert pyo.value(row.body) <= pyo.value(row.upper) + 1e-9
