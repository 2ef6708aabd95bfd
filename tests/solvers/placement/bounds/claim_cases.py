"""Tiny questions for claims of placement, the same ones in bytes, and all bounds of a question."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from random import Random

import pytest

import lowtide as lt
from lowtide.formulations.placement.bounds.releases import ideal_time, release_bound
from lowtide.formulations.placement.bounds.windows import disjoint, windows
from lowtide.models.graph import Accounting
from lowtide.models.problems.placement import Placement
from lowtide.models.verifier.proofs.refused import Refused
from lowtide.models.verifier.proofs.release import ReleaseProof, released_time
from lowtide.solvers.context import Context
from lowtide.solvers.placement.bounds.cheap import raise_cheap_bounds
from lowtide.solvers.placement.bounds.prices import sample_data, unsampled
from tests.oracles import brute_tiers
from tests.oracles.random_placement import random_placement
from tests.problems.placement import working_set

MOST = 4000
"""States that a search looks at."""


BOTH = pytest.mark.parametrize("accounting", list(Accounting))


def small(seed: int, accounting: Accounting) -> Placement:
    """Return a random problem of at most three ops and three bytes per tensor, with hardly any room."""
    rng = Random(f"claims {seed}")
    problem = random_placement(seed, ops=3, accounting=accounting)
    sizes = tuple(replace(t, nbytes=min(t.nbytes, rng.choice((1, 2, 2, 3)))) for t in problem.graph.tensors)
    graph, bench = replace(problem.graph, tensors=sizes), problem.machine
    room = max(0, working_set(graph) + rng.choice((-1, 0, 0, 0, 0, 1, 1, 2, 3)))
    tiers = (replace(bench.tiers[0], capacity=room), *bench.tiers[1:])
    return replace(problem, graph=graph, machine=replace(bench, tiers=tiers))


def in_bytes(problem: Placement) -> Placement:
    """Return the problem with a tensor for each byte: whole tensors there are bytes here."""
    if problem.whole:
        return problem
    parts: list[list[int]] = []
    tensors: list[lt.Tensor] = []
    for x in problem.graph.tensors:
        parts.append(list(range(len(tensors), len(tensors) + max(1, x.nbytes))))
        tensors += [replace(x, name=f"{x.name} {b}", nbytes=min(1, x.nbytes)) for b in parts[-1]]
    ops = tuple(
        replace(
            op,
            reads=tuple(b for t in op.reads for b in parts[t]),
            writes=tuple(b for t in op.writes for b in parts[t]),
        )
        for op in problem.graph.ops
    )
    return replace(problem, graph=replace(problem.graph, tensors=tuple(tensors), ops=ops))


def never_faster(problem: Placement, bound: int) -> None:
    """Fail if exhaustive search finds a plan below a bound."""
    if bound > ideal_time(problem):
        with suppress(brute_tiers.TooLarge):
            assert brute_tiers.faster(in_bytes(problem), bound, MOST) is None


def bounds(problem: Placement) -> Iterator[int]:
    """Yield all bounds in closed form, and what any choice of op, tiers and groups proves of releases."""
    yield release_bound(problem)
    context = Context(problem=problem)
    raise_cheap_bounds(problem, context)
    yield context.bound or 0
    if not unsampled(problem):
        data = sample_data(problem)
        found = windows(data)
        yield ideal_time(problem) + max((w.stall for w in found), default=0)
        yield ideal_time(problem) + sum(w.stall for w in disjoint(found, data))
        if problem.graph.accounting is Accounting.COEXIST:
            yield release_bound(problem, found)
    names = tuple(tier.name for tier in problem.machine.tiers)
    groups = tuple(group.name for group in problem.machine.groups)
    for op in range(len(problem.graph.ops)):
        for tiers in (names[1:], names[1:2], names[2:]):
            for some in ((), groups, groups[:1]):
                with suppress(Refused):
                    proof = ReleaseProof(op=op, tiers=tiers, groups=some)
                    yield released_time(problem.graph, problem.setting(), proof)
