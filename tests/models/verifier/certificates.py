"""Random questions for certificates by prices, and changes of a certificate's numbers."""

from __future__ import annotations

from random import Random
from typing import Any

from lowtide.models.problems.placement import Placement
from tests.problems.placement import machine, random_graph, working_set
from tests.solvers.placement.bounds.price_cases import overwritten


def ideal_of(problem: Placement) -> int:
    return sum(op.duration_ns for op in problem.graph.ops)


def random_placement(seed: int, *, periodic: bool) -> Placement:
    """Three tiers or two, a small host now and then, updates that do not read what they overwrite."""
    graph = random_graph(seed)
    if seed % 2:
        graph = overwritten(graph, seed)
    ssd = seed % 3 > 0
    bench = machine(working_set(graph) + 6, 20 if seed % 4 == 1 else None, shared=seed % 5 > 0, ssd=ssd)
    tiers = ("gpu", "host", "ssd") if ssd else ("gpu", "host")
    return Placement(graph, bench, periodic=periodic, start={"input": tiers} if seed % 7 else None)


def changed(rng: Random, value: Any) -> Any:
    """Return a JSON value with one number in it changed, a row left out, or a row twice."""
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return value
    if isinstance(value, int):
        return rng.choice([value + 1, value - 1, 2 * value, value // 2, -value, rng.randrange(2**40)])
    found = dict(value) if isinstance(value, dict) else list(value)
    keys = list(found) if isinstance(found, dict) else list(range(len(found)))
    if not keys:
        return found
    key = rng.choice(keys)
    if isinstance(found, list) and rng.random() < 0.1:
        found[key : key + 1] = [found[key]] * rng.choice([0, 2])
    else:
        found[key] = changed(rng, found[key])
    return found
