"""Small problems of recomputation in which something is to be decided, and models of them solved alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
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
    problem = lt.Recompute(graph, memory=(memory := rng.randrange(least, most)))
    return None if problem.start_bytes > memory else problem


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
        context.known.bound = None
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


def problems(seeds: tuple[int, ...], *, single_writer: bool | None = None) -> list[lt.Recompute]:
    """The tight problems of some seeds, which all have something to decide."""
    found = [tight_problem(seed, single_writer=single_writer) for seed in seeds]
    assert None not in found
    return [problem for problem in found if problem is not None]


def battery() -> list[lt.Recompute]:
    """Problems on one memory that notice every constraint of the models."""
    return [*problems((1, 14, 17, 72, 116)), *problems((227, 609, 631), single_writer=False)]


def with_little_room(
    sizes: tuple[int, ...], ops: tuple[lt.Op, ...], memory: int, disk: int | None = None, finals: int = 0
) -> lt.Recompute:
    """Initial tensors of so many bytes, of which the first few are final; runs one after another."""
    made = {t for op in ops for t in op.writes if t not in op.reads}
    tensors = tuple(
        lt.Tensor(name=f"t{k}", nbytes=size, initial=k not in made, final=k < finals)
        for k, size in enumerate(sizes)
    )
    one_by_one = tuple(replace(op, after=(i - 1,) if i else ()) for i, op in enumerate(ops))
    machine = lt.Machine(
        tiers=(lt.Tier(name="memory"), lt.Tier(name="disk", capacity=disk)),
        processors=(lt.Processor(name="p", tiers=(lt.Access(tier="memory"),)),),
        channels=(
            lt.Channel(src="memory", dst="disk", bytes_per_s=10**9, latency_ns=10),
            lt.Channel(src="disk", dst="memory", bytes_per_s=10**9),
        ),
    )
    return lt.Recompute(
        lt.Graph(name="little room", tensors=tensors, ops=one_by_one), memory=memory, machine=machine
    )


def full_disk() -> lt.Recompute:
    """One large value would go to the disk, if that had room for it; two small ones have to."""
    ops = (
        lt.Op(name="begin", reads=(0, 1, 2)),
        lt.Op(name="large", workspace=5),
        lt.Op(name="one", reads=(0, 1)),
        lt.Op(name="two", reads=(0, 2)),
    )
    return with_little_room((5, 2, 2), ops, 10, disk=4)


def crowded() -> lt.Recompute:
    """What comes back takes room while it is read, which another value has to leave."""
    ops = (
        lt.Op(name="begin", reads=(0, 1)),
        lt.Op(name="large", workspace=6),
        lt.Op(name="reads", reads=(0,), writes=(2,)),
        lt.Op(name="end", reads=(1, 2)),
    )
    return with_little_room((4, 2, 4), ops, 9)


def updated() -> lt.Recompute:
    """What comes back and is written in place takes its bytes once."""
    ops = (
        lt.Op(name="begin", reads=(0,)),
        lt.Op(name="large", workspace=6),
        lt.Op(name="update", reads=(0,), writes=(0,)),
    )
    return with_little_room((4,), ops, 7, finals=1)


def read_twice() -> lt.Recompute:
    """What came back for one op stays for the next one."""
    ops = (
        lt.Op(name="begin", reads=(0,)),
        lt.Op(name="large", workspace=6),
        lt.Op(name="one", reads=(0,)),
        lt.Op(name="two", reads=(0,)),
    )
    return with_little_room((4,), ops, 7)


def ends_on_the_disk() -> lt.Recompute:
    """What the first op leaves is final and has to make room; to run that op again takes too long."""
    ops = (lt.Op(name="a", writes=(0,), duration_ns=100), lt.Op(name="b", workspace=8))
    return with_little_room((5,), ops, 10, finals=1)


def paged_battery() -> list[lt.Recompute]:
    """Problems with a disk that notice every constraint of paging."""
    chains = [chain_with_disk(seed) for seed in (5, 18, 38)]
    little = [full_disk(), crowded(), updated(), read_twice()]
    return [*little, *(problem for problem in chains if problem is not None)]


def beside_the_path() -> lt.Recompute:
    """What the first op leaves cannot be there while an op beside the longest path runs."""
    ops = (
        lt.Op(name="first", writes=(0,), duration_ns=5),
        lt.Op(name="second", after=(0,)),
        lt.Op(name="third", after=(1,)),
        lt.Op(name="beside", after=(1,), workspace=3),
        lt.Op(name="last", reads=(0,), writes=(1,), after=(2, 3)),
    )
    tensors = (lt.Tensor(name="x", nbytes=2), lt.Tensor(name="y", nbytes=1, final=True))
    return lt.Recompute(lt.Graph(name="beside", tensors=tensors, ops=ops), memory=4)


def after_the_update() -> lt.Recompute:
    """What was computed from a weight is needed after its update, and does not fit beside an op between."""
    tensors = (
        lt.Tensor(name="w", nbytes=8, initial=True, final=True),
        lt.Tensor(name="x", nbytes=4),
        lt.Tensor(name="y", nbytes=1, final=True),
    )
    ops = (
        lt.Op(name="forward", reads=(0,), writes=(1,), duration_ns=5),
        lt.Op(name="update", reads=(0,), writes=(0,), after=(0,)),
        lt.Op(name="large", after=(1,), workspace=9),
        lt.Op(name="end", reads=(1,), writes=(2,), after=(2,)),
    )
    return lt.Recompute(lt.Graph(name="updated", tensors=tensors, ops=ops), memory=20)
