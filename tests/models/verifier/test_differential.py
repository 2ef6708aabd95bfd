"""The verifier against a second simulator that was written from the definitions alone.

Three opinions meet: random plans are valid by construction (`tests.oracles.random_scheduler`), the naive
simulator keeps a state per byte and looks at everything again at every instant, and the verifier.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import islice
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowtide.models.graph import Graph
from lowtide.models.lowering.order import lower_order
from lowtide.models.verifier.verdict import PLAN_KINDS
from lowtide.models.verifier.verify import verify
from tests.effort import many, seeds
from tests.mutations import MUTATIONS, mutate
from tests.oracles.brute_force import order_peak, topological_orders
from tests.oracles.comparison import difference, disagreement, judged, simulated
from tests.oracles.corpus import SINGLE, broken_cases, corpus, valid_cases
from tests.random_plans import FLAVOURS, Case, overlapping_copies, random_case
from tests.strategies import graphs


def agree(case: Case) -> None:
    fault = disagreement(case)
    assert fault is None, f"{fault}\n{case}"


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_both_judges_accept_plans_valid_by_construction(flavour: str) -> None:
    for case in valid_cases(flavour, range(60)):
        assert simulated(case).valid, simulated(case).faults
        assert judged(case).valid, judged(case).violations
        agree(case)


def test_valid_plans_reach_every_structure() -> None:
    seen: Counter[str] = Counter()
    for flavour in FLAVOURS:
        for case in valid_cases(flavour, range(60)):
            plan = case.plan
            used = simulated(case)
            period = plan.period or 10**9
            seen["recomputed"] += used.recomputed > 0
            seen["stall"] += used.stall > 0
            seen["several tiers"] += len(plan.machine.tiers) > 1 and bool(used.traffic)
            seen["several processors"] += len({run.processor for run in plan.runs}) > 1
            seen["part of a tensor"] += any(copy.bytes for copy in plan.copies)
            seen["overlapping copies"] += overlapping_copies(plan)
            seen["straddling"] += any(copy.end > period for copy in plan.copies)
            seen["instant copy"] += any(copy.start == copy.end for copy in plan.copies)
            seen["stale start"] += any(not place.valid for place in plan.start)
            seen["group"] += bool(plan.machine.groups and used.traffic)
            seen["slow access"] += any(
                access.bytes_per_s is not None
                for processor in plan.machine.processors
                for access in processor.tiers
            )
            seen["late free"] += any(free.time > used.makespan for free in plan.frees)
    assert min(seen.values()) >= 5, seen


@pytest.mark.parametrize("name", SINGLE)
def test_both_judges_agree_on_broken_plans(name: str) -> None:
    for flavour in FLAVOURS:
        for case in broken_cases(flavour, range(5), name):
            agree(case)


@pytest.mark.slow
@pytest.mark.parametrize("first", [100 + 20 * block for block in seeds(5, least=2)])
def test_both_judges_agree_on_many_plans(first: int) -> None:
    for case in corpus(range(first, first + 20)):
        agree(case)


@pytest.mark.slow
@many(100)
@given(st.randoms(use_true_random=False), st.sampled_from(FLAVOURS), st.integers(0, 3))
def test_both_judges_agree_after_any_mutations(rng: Random, flavour: str, count: int) -> None:
    case: Case | None = random_case(rng, flavour, max_ops=4)
    for _ in range(count):
        assert case is not None
        mutated = mutate(rng, case, rng.choice([x for x in sorted(MUTATIONS) if "nonsense" not in x]))
        case = mutated or case
    assert case is not None
    agree(case)


@pytest.mark.slow
def test_every_kind_is_provoked_alone_with_its_witness() -> None:
    """Each rule has plans that break it and nothing else, and both judges name the same culprit."""
    missing = set(PLAN_KINDS)
    for case in corpus(range(30)):
        if not missing:
            break
        expected = simulated(case)
        if len(expected.kinds) != 1 or not expected.kinds & missing:
            continue
        (kind,) = expected.kinds
        found = judged(case)
        assert {v.kind for v in found.violations} == {kind}
        assert difference(found, expected) is None
        missing.remove(kind)
    assert not missing


WITNESS: Mapping[str, tuple[str, ...]] = {
    "graph": (),
    "shape": (),
    "start": ("tensor", "tier", "entry"),
    "missing-run": ("op",),
    "repeated-run": ("op", "run"),
    "duration": ("time", "op", "run"),
    "processor-kind": ("time", "op", "run", "resource"),
    "processor-overlap": ("time", "op", "run", "other", "other_run", "resource"),
    "precedence": ("time", "op", "run", "other"),
    "read": ("time", "op", "run", "tensor", "tier"),
    "write-conflict": ("time", "op", "run", "tensor", "tier"),
    "copy-source": ("time", "copy", "tensor", "tier"),
    "copy-target": ("time", "copy", "tensor", "tier"),
    "channel": ("time", "copy", "tensor", "resource"),
    "channel-rate": ("time", "copy", "resource"),
    "group-rate": ("time", "copy", "resource"),
    "free": ("time", "free", "tensor", "tier"),
    "capacity": ("time", "tier"),
    "final": ("time", "tensor"),
    "period": ("time", "tensor"),
}
"""What a violation of each kind must name, so that the fault can be found."""


def test_every_violation_names_its_witness() -> None:
    for case in corpus(range(20, 21)):
        found = judged(case)
        for violation in found.violations:
            for name in WITNESS[violation.kind]:
                assert getattr(violation, name) is not None, (name, violation)
            if violation.kind == "shape" and case.plan.period == judged(case).makespan:
                named = (violation.run, violation.copy, violation.free, violation.entry)
                assert any(x is not None for x in named) or "start_tiers" in violation.message, violation
            if violation.op is not None and violation.run is not None:
                assert case.plan.runs[violation.run].op == violation.op
            if violation.copy is not None and violation.tensor is not None:
                assert case.plan.copies[violation.copy].tensor == violation.tensor
            assert violation.message


def test_violations_are_sorted_and_repeatable() -> None:
    for case in islice(corpus(range(23, 24)), 200):
        found = judged(case).violations
        assert found == judged(case).violations
        assert len(set(found)) == len(found)
        keys = [(-1 if v.time is None else v.time, v.kind) for v in found]
        assert keys == sorted(keys)


@many(60)
@given(graphs(max_ops=5))
def test_lowered_orders_verify_with_the_peak_of_the_definition(graph: Graph) -> None:
    for order, _ in zip(topological_orders(graph), range(6), strict=False):
        plan = lower_order(graph, order)
        found = verify(graph, plan)
        found.raise_if_invalid()
        assert found.peaks == {plan.machine.tiers[0].name: order_peak(graph, order)}
        agree(Case(graph, plan))
