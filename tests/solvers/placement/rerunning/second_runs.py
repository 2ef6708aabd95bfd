"""Questions whose ops may run again beside copies."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import lowtide as lt
from lowtide.formulations.recompute.data import RecomputeData, recompute_data
from lowtide.models.graph import Accounting
from lowtide.solvers.placement.simulator.problem import SimulatedProblem, simulated_problem
from tests.oracles.brute_jointly import COPY, DEVICE
from tests.problems.placement import machine, training_problem, working_set
from tests.random_decisions import random_problem
from tests.solvers.placement.graphs import chain, random_network
from tests.solvers.placement.machines import two_tiers
from tests.strategies import random_graph


def tiny(seed: int) -> lt.Placement:
    """Return a problem of at most five ops: a chain, or anything with one writer for each tensor."""
    rng = Random(seed)
    graph = random_graph(
        rng, min_ops=3, max_ops=5, max_tensors=6, single_writer=True, accountings=(Accounting.COEXIST,),
        after=False, max_duration=5,
    ) if seed % 3 == 0 else chain(rng, 2)  # fmt: skip
    machine = two_tiers(working_set(graph) + rng.randint(0, 2), 10**9 // rng.choice((1, 2, 4)))
    return lt.Placement(graph, machine, whole=True, start={"input": ("host",)}, recompute=True)


def start_of(problem: lt.Placement) -> dict[int, int]:
    """Return where exhaustive search may have initial tensors: as far in as they may be, and outside."""
    return {
        t: (DEVICE if "gpu" in problem.may_start(x.kind) else 0) | COPY
        for t, x in enumerate(problem.graph.tensors)
        if x.initial
    }


def data_of(graph: lt.Graph) -> RecomputeData:
    return recompute_data(lt.Recompute(graph), bundled=False)


def again(graph: lt.Graph, memory: int, rate: int = 10**9) -> lt.Placement:
    """Return the question on two tiers, everything on the device at first."""
    return lt.Placement(graph, two_tiers(memory, rate), start={}, recompute=True)


def first_case(problem: lt.Placement) -> SimulatedProblem:
    return simulated_problem(replace(problem, recompute=False))


def random_again(seed: int) -> lt.Placement:
    """Return layers, a training iteration, or any ops, in little memory, on one, two or three tiers."""
    rng, accounting = Random(seed), list(Accounting)[seed % len(Accounting)]
    kinds = (training_problem, lambda x, y: random_problem(x, 5 + x % 9, y))
    graph = kinds[seed % 2](seed, accounting).graph if seed % 3 else random_network(seed)
    room = working_set(graph) + rng.randint(0, 20)
    some = machine(room, None, ssd=seed % 4 == 0) if seed % 5 else lt.Machine.single(capacity=2 * room)
    starts = ({}, {"input": ("gpu",)}, {"input": ("host",)}) if seed % 5 else ({},)
    return lt.Placement(graph, some, start=rng.choice(starts), recompute=True)
