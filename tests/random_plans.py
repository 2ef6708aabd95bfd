"""Random cases for the verifier: a graph, a machine, and a plan that is valid by construction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations
from math import ceil
from random import Random

from lowtide.models.graph import Graph
from lowtide.models.machine import Access, Channel, ChannelGroup, Machine, Processor, Tier
from lowtide.models.plan import Copy, Plan
from tests.oracles.naive_rules import Rules
from tests.oracles.naive_simulator import simulate
from tests.oracles.random_period import close_period
from tests.oracles.random_scheduler import Scheduler, Stuck
from tests.strategies import random_graph

FLAVOURS = ("sequential", "parallel", "tiered", "recompute", "periodic")


@dataclass(frozen=True)
class Case:
    """What `verify` and the naive simulator are asked."""

    graph: Graph
    plan: Plan
    rerun: bool | None = None
    start_tiers: Mapping[str, tuple[str, ...]] | None = None


def random_machine(rng: Random, flavour: str) -> Machine:
    """Return a machine; several tiers are joined by channels both ways between each two."""
    count = 1 if flavour in ("sequential", "parallel") else rng.randint(1, 3)
    if flavour == "tiered":
        count = max(2, count)
    tiers = tuple(Tier(name=name) for name in ("fast", "middle", "slow")[:count])
    names = [tier.name for tier in tiers]
    processors = []
    for k in range(1 if flavour == "sequential" else rng.randint(1, 3)):
        home = rng.choice(names)
        near = [home, *(x for x in names if x != home and rng.random() < 0.4)]
        speeds = [rng.choice((None, None, 10**9, 1_500_000_000, 3 * 10**9)) for _ in near]
        accesses = tuple(Access(tier=x, bytes_per_s=s) for x, s in zip(near, speeds, strict=True))
        processors.append(Processor(name=f"p{k}", kind=rng.choice("ab"), tiers=accesses))
    pairs = [(a, b) for a in names for b in names if a != b]
    channels = tuple(
        Channel(src=a, dst=b, bytes_per_s=1, latency_ns=rng.choice((0, 0, 1, 2))) for a, b in pairs
    )
    groups = tuple(
        ChannelGroup(name=f"g{k}", channels=tuple(rng.sample(pairs, 2)), bytes_per_s=1)
        for k in range(rng.randint(0, 2) if pairs else 0)
    )
    return Machine(tiers=tiers, processors=tuple(processors), channels=channels, groups=groups)


def random_case(rng: Random, flavour: str | None = None, max_ops: int = 6) -> Case:
    """Return a random valid case of one of `FLAVOURS`."""
    flavour = rng.choice(FLAVOURS) if flavour is None else flavour
    while True:
        machine = random_machine(rng, flavour)
        names = [tier.name for tier in machine.tiers]
        graph = random_graph(
            rng,
            min_ops=0 if rng.random() < 0.05 else 1,
            max_ops=max_ops,
            max_tensors=5,
            mode_tiers=names if len(names) > 1 and rng.random() < 0.5 else (),
            mode_kinds="ab" if rng.random() < 0.3 else (),
            final_states=flavour == "periodic",
        )
        start_tiers = None
        inputs: tuple[str, ...] = (names[-1],)
        if rng.random() < 0.3:
            inputs = tuple(rng.sample(names, rng.randint(1, len(names))))
            start_tiers = {"input": inputs}
        walk = Scheduler(
            rng, graph, machine, recompute=flavour == "recompute", periodic=flavour == "periodic"
        )
        try:
            walk.place(inputs)
            walk.grow()
        except Stuck:
            continue
        period = close_period(walk) if flavour == "periodic" else None
        plan = Plan(
            machine=machine,
            accounting=graph.accounting,
            start=tuple(walk.start),
            runs=tuple(rng.sample(walk.runs, len(walk.runs))),
            copies=tuple(rng.sample(walk.copies, len(walk.copies))),
            frees=tuple(rng.sample(walk.frees, len(walk.frees))),
            period=period,
            graph_sha256=graph.sha256 if rng.random() < 0.5 else None,
        )
        rerun = None
        if flavour != "recompute" and rng.random() < 0.2:
            rerun = rng.random() < 0.5
        if any(
            c.dst not in (start_tiers or {}).get(graph.tensors[c.tensor].kind, names) for c in crossing(plan)
        ):
            continue
        plan = fit_machine(rng, graph, plan)
        if rng.random() < 0.3:
            plan = replace(plan, start_tiers=statement(rng, graph, plan, start_tiers))
        return Case(graph, plan, rerun, start_tiers)


def statement(
    rng: Random, graph: Graph, plan: Plan, question: Mapping[str, tuple[str, ...]] | None
) -> dict[str, tuple[str, ...]]:
    """Return what a plan may say of its question: no more than that one allows, else no less than it does."""
    names = [tier.name for tier in plan.machine.tiers]
    stated = {}
    for kind in sorted({tensor.kind for tensor in graph.tensors if tensor.initial}):
        if question is not None:
            some = [x for x in question.get(kind, names) if rng.random() < 0.7]
        else:
            used = {r.tier for r in plan.start if graph.tensors[r.tensor].kind == kind}
            used |= {c.dst for c in crossing(plan) if graph.tensors[c.tensor].kind == kind}
            some = [x for x in names if x in used or rng.random() < 0.3]
        if question is not None or rng.random() < 0.8:
            stated[kind] = tuple(some)
    return stated


def crossing(plan: Plan) -> list[Copy]:
    """Return the copies under way as a period begins: what they bring occupies its tier then."""
    return [c for c in plan.copies if plan.period is not None and c.end > plan.period]


def fit_machine(rng: Random, graph: Graph, plan: Plan) -> Plan:
    """Give channels, groups and tiers what the plan needs: exactly, or with some room."""
    machine = plan.machine
    rules = Rules(graph, plan, None)
    rated = [(c, ch) for c in rules.copies if (ch := rules.rated(c)) is not None]
    times = {c.start + ch.latency_ns for c, ch in rated}
    if plan.period is not None:
        times = {t % plan.period for t in times} | {0}

    def cap(pairs: set[tuple[str, str]]) -> int:
        most = max((rules.rate(rated, t, pairs) for t in times), default=Fraction(0))
        return max(1, ceil(most)) + rng.choice((0, 0, 1, 10**9))

    channels = tuple(replace(c, bytes_per_s=cap({(c.src, c.dst)})) for c in machine.channels)
    groups = tuple(replace(g, bytes_per_s=cap(set(g.channels))) for g in machine.groups)
    peaks = simulate(graph, plan).peaks
    tiers = tuple(
        replace(tier, capacity=rng.choice((None, peaks[tier.name], peaks[tier.name] + 1)))
        for tier in machine.tiers
    )
    return replace(plan, machine=replace(machine, tiers=tiers, channels=channels, groups=groups))


def overlapping_copies(plan: Plan) -> bool:
    """Do two copies of the plan share an instant?"""
    return any(max(a.start, b.start) < min(a.end, b.end) for a, b in combinations(plan.copies, 2))
