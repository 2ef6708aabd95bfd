"""Changes of proofs by flows, most of which keep what arrives and leaves at each event."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

from lowtide.models.flow_proof import FlowCase, FlowProof
from lowtide.models.graph import Graph

Change = Callable[[Random, Graph, FlowCase], FlowCase]


def event(rng: Random, graph: Graph) -> int:
    return rng.randrange(-2, 2 * len(graph.ops) + len(graph.tensors))


def arc_changed(rng: Random, graph: Graph, case: FlowCase) -> FlowCase:
    if not case.arcs:
        return case
    k = rng.randrange(len(case.arcs))
    u, v, flow = case.arcs[k]
    new = rng.choice(
        (
            [],
            [(u, v, flow - 1)],
            [(u, event(rng, graph), flow)],
            [(event(rng, graph), v, flow)],
            [(v, u, flow)],
        )
    )
    return replace(case, arcs=(*case.arcs[:k], *new, *case.arcs[k + 1 :]))


def path_less(rng: Random, graph: Graph, case: FlowCase) -> FlowCase:
    """Take a unit from a path of the flow, from the source on: conservation stays."""
    left, now = {(u, v): flow for u, v, flow in case.arcs}, -1
    for _ in range(20):
        ways = sorted(v for (u, v), flow in left.items() if u == now and flow > 0)
        if not ways or now == -2:
            break
        to = rng.choice(ways)
        left[now, to] -= 1
        now = to
    return replace(case, arcs=tuple((u, v, flow) for (u, v), flow in left.items()))


def turned_back(rng: Random, graph: Graph, case: FlowCase) -> FlowCase:
    """Join two paths: what goes to the sink begins another one instead, by an arc that may be unsound."""
    ends = [(u, flow) for u, v, flow in case.arcs if v == -2 and flow > 0]
    begins = [(v, flow) for u, v, flow in case.arcs if u == -1 and flow > 0]
    if not ends or not begins:
        return case
    (u, a), (v, b) = rng.choice(ends), rng.choice(begins)
    flows = {(x, y): flow for x, y, flow in case.arcs}
    amount = rng.randint(1, min(a, b))
    flows[u, -2] -= amount
    flows[-1, v] -= amount
    flows[u, v] = flows.get((u, v), 0) + amount
    return replace(case, arcs=tuple((x, y, flow) for (x, y), flow in flows.items() if flow))


def priced(rng: Random, graph: Graph, case: FlowCase) -> FlowCase:
    return replace(
        case,
        price=max(0, case.price + rng.choice((-1, 1))),
        scale=max(1, case.scale + rng.choice((0, 1, -1))),
    )


def decided(rng: Random, graph: Graph, case: FlowCase) -> FlowCase:
    decisions = list(case.decisions)
    if decisions and rng.random() < 0.6:
        k = rng.randrange(len(decisions))
        v, yes = decisions[k]
        decisions[k : k + 1] = rng.choice(([], [(v, not yes)], [(v ^ 1, yes)]))
    else:
        decisions.append((rng.randrange(2 * len(graph.ops)), rng.random() < 0.5))
    return replace(case, decisions=tuple(decisions))


CHANGES: tuple[Change, ...] = (arc_changed, path_less, path_less, turned_back, turned_back, priced, decided)


def changed_proof(rng: Random, graph: Graph, proof: FlowProof) -> FlowProof:
    """Change a case, or leave one out."""
    cases = list(proof.cases)
    k = rng.randrange(len(cases))
    if len(cases) > 1 and rng.random() < 0.2:
        del cases[k]
    else:
        for _ in range(rng.choice((1, 1, 2, 3))):
            cases[k] = rng.choice(CHANGES)(rng, graph, cases[k])
    return replace(proof, cases=tuple(cases))
