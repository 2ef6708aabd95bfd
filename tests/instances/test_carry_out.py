"""Plans carried out on plain Python values: the measured memory, the results, and what is refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lowtide as lt
from lowtide.instances.torch_import.running.carry_out import CarriedOut, carry_out
from lowtide.models.errors import InstanceError, VerificationError
from lowtide.models.graph import Graph
from lowtide.models.machine import Channel
from lowtide.models.op import Op, Tensor
from lowtide.models.plan import Copy, Free, Plan, Resident, Run
from tests.effort import many
from tests.mutations import ACTIONS, MUTATIONS, mutate
from tests.random_plans import FLAVOURS, Case, random_case


class Values:
    """Tensors are texts that say how they were computed; whoever reads garbage computes another text."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.held: dict[tuple[int, str], str] = {}
        self.workspace: list[tuple[Run, str, int]] = []
        self.results: dict[int, str] = {}
        self.homes: dict[str, str] = {}
        self.turns = 0

    def place(self, tensor: int, tier: str, *, valid: bool) -> None:
        self.held[tensor, tier] = f"{tensor}" if valid else "garbage"

    def run(self, run: Run, tiers: Mapping[int, str]) -> None:
        op = self.graph.ops[run.op]
        home = self.homes[run.processor]
        self.workspace.append((run, home, op.all_modes[run.mode].workspace))
        found = [self.held[t, tiers[t]] for t in op.reads]
        for t in op.writes:
            self.held[t, tiers[t]] = computed(run.op, t, found)

    def copy(self, copy: Copy) -> None:
        self.held[copy.tensor, copy.dst] = self.held[copy.tensor, copy.src]

    def ended(self, action: Run | Copy) -> None:
        if isinstance(action, Run):
            del self.workspace[[run for run, _, _ in self.workspace].index(action)]

    def free(self, tensor: int, tier: str) -> None:
        del self.held[tensor, tier]

    def live(self) -> Mapping[str, int]:
        found: dict[str, int] = {}
        for t, tier in self.held:
            found[tier] = found.get(tier, 0) + self.graph.tensors[t].nbytes
        for _, tier, nbytes in self.workspace:
            found[tier] = found.get(tier, 0) + nbytes
        return found

    def turn_over(self) -> None:
        self.turns += 1

    def result(self, tensor: int, tier: str) -> None:
        self.results[tensor] = self.held[tensor, tier]


def computed(op: int, t: int, reads: list[str]) -> str:
    return f"{op}.{t}.{hash((op, t, *reads))}"


def reference(graph: Graph, start: Mapping[int, str] | None = None) -> dict[int, str]:
    """Return the content of the final tensors after the reference order."""
    content = {t: f"{t}" for t in range(len(graph.tensors))} | dict(start or {})
    for i, op in enumerate(graph.ops):
        found = [content[t] for t in op.reads]
        for t in op.writes:
            content[t] = computed(i, t, found)
    return {t: content[t] for t, tensor in enumerate(graph.tensors) if tensor.final}


def measured(graph: Graph, plan: Plan, iterations: int = 1) -> tuple[Values, CarriedOut]:
    backend = Values(graph)
    backend.homes = {p.name: p.tiers[0].tier for p in plan.machine.processors}
    return backend, carry_out(graph, plan, backend, iterations)


def carried_out(graph: Graph, plan: Plan, iterations: int = 1) -> tuple[Values, dict[str, object]]:
    backend, found = measured(graph, plan, iterations)
    return backend, dict(found.profiles)


def supported(case: Case) -> bool:
    """Whether `carry_out` takes it: tensors move whole, and no run changes one from tier to tier."""
    try:
        carried_out(case.graph, case.plan)
    except InstanceError:
        return False
    except VerificationError:
        pass
    return True


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_most_of_the_random_cases_that_move_whole_tensors_are_taken(flavour: str) -> None:
    assert sum(supported(random_case(Random(seed), flavour)) for seed in range(100)) > 15


@pytest.mark.parametrize("flavour", FLAVOURS)
@given(seed=st.integers(0, 10**6))
@many(60)
def test_what_is_measured_is_what_the_verifier_computes(flavour: str, seed: int) -> None:
    case = random_case(Random(seed), flavour)
    if not supported(case):
        return
    verdict = lt.verify(case.graph, case.plan, rerun=case.rerun, start_tiers=case.start_tiers)
    assert verdict.valid
    backend, found = measured(case.graph, case.plan)
    assert (found.profiles, found.peaks) == (verdict.profiles, verdict.peaks)
    assert backend.results == reference(case.graph)


NONSENSE = {*(f"nonsense {x}" for x in ACTIONS), "identity", "accounting", "period", "statement"}
"""Mutations that make no plan of the same graph."""


@pytest.mark.parametrize("flavour", FLAVOURS)
@given(seed=st.integers(0, 10**6), name=st.sampled_from(sorted(set(MUTATIONS) - NONSENSE)))
@many(200)
def test_a_changed_plan_is_refused_or_computes_the_same(flavour: str, seed: int, name: str) -> None:
    """Garbage is never computed with; what the verifier finds valid passes; what loses content does not."""
    rng = Random(seed)
    case = random_case(rng, flavour)
    changed = mutate(rng, case, name) if supported(case) else None
    if changed is None:
        return
    verdict = lt.verify(changed.graph, changed.plan, rerun=changed.rerun, start_tiers=changed.start_tiers)
    kinds = {x.kind for x in verdict.violations}
    if "shape" in kinds or not supported(changed):
        return
    try:
        backend, profiles = carried_out(changed.graph, changed.plan)
    except VerificationError:
        assert kinds
    else:
        assert backend.results == reference(changed.graph)
        assert not kinds & {"read", "write-conflict", "copy-source", "copy-target", "free", "final"}
        if not kinds:
            assert profiles == dict(verdict.profiles)


def test_copies_that_take_no_time_are_made_in_every_period() -> None:
    """Bytes that weigh nothing, from tier to tier to tier at once, listed the wrong way round."""
    graph = Graph(
        name="nothing",
        tensors=(Tensor(name="w", nbytes=0, initial=True, final=True),),
        ops=(Op(name="read", reads=(0,)),),
    )
    machine = lt.load_machine("a100-40g-pcie3")
    link = Channel(src="ssd", dst="host", bytes_per_s=1)
    plan = Plan(
        machine=replace(machine, channels=(*machine.channels, link)),
        start=(Resident(0, "ssd"),),
        start_tiers={},
        copies=(Copy(0, "host", "gpu", 1, 1), Copy(0, "ssd", "host", 1, 1)),
        runs=(Run(0, 0, 1, 2, "gpu0"),),
        frees=(Free(0, "host", 2), Free(0, "gpu", 2)),
        period=3,
    )
    assert lt.verify(graph, plan).valid
    backend, _ = carried_out(graph, plan, iterations=3)
    assert backend.results == {0: "0"}


@given(seed=st.integers(0, 10**6))
@many(60)
def test_a_period_goes_on_with_what_the_one_before_left(seed: int) -> None:
    case = random_case(Random(seed), "periodic")
    if not supported(case):
        return
    backend, profiles = carried_out(case.graph, case.plan, iterations=3)
    content = {t: f"{t}" for t, x in enumerate(case.graph.tensors) if x.initial}
    for _ in range(3):
        found = reference(case.graph, content)
        content.update({t: text for t, text in found.items() if case.graph.tensors[t].initial})
    assert backend.results == found
    assert backend.turns == 2
    assert profiles == dict(lt.verify(case.graph, case.plan, start_tiers=case.start_tiers).profiles)
