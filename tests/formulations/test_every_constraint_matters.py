"""Every numbered constraint of every formulation matters: without it, a small instance has another verdict.

A verdict is what the model alone leads to: objective, bound, whether there is no solution, and whether the
judge finds the answer valid. Where an oracle or the problem's other methods say what it must be, the complete
model is held to that as well. Constraints that change no verdict are listed with the reason.
"""

from __future__ import annotations

from functools import cache
from types import ModuleType
from typing import Any

import pytest

from lowtide.formulations.parallel import cut_milp, network
from tests.effort import chosen
from tests.formulations.cases import (
    arena,
    distributed,
    makespan,
    minio,
    offsets,
    parallel,
    partition,
    peak,
    pipeline,
    placement,
    recompute,
    sharding,
    streams,
    tiles,
)
from tests.formulations.cases.case import NO_ANSWER, Case, Part, Verdict
from tests.leaving_out import numbers_of_page, without

PROBLEMS = (
    peak,
    offsets,
    makespan,
    arena,
    distributed,
    partition,
    pipeline,
    minio,
    parallel,
    placement,
    recompute,
    sharding,
    streams,
    tiles,
)

CASES = [case for module in PROBLEMS for case in module.CASES]

SEARCHED = {
    "placement intervals",
    "placement autotm",
    "partition latency",
    "recompute paging",
    "recompute free stages",
}
"""Cases whose oracles or models take about a second."""


@cache
def verdicts(number: int) -> list[tuple[Any, Verdict | None, Verdict]]:
    """Return the instances of a case, the oracle's verdicts, and those of the complete model."""
    case = CASES[number]
    return [(x, must, case.verdict(case.formulation, x)) for x, must in case.battery()]


def notices(number: int, part: Part) -> bool:
    """Whether an instance has another verdict without a constraint."""
    case = CASES[number]
    changed = without(case.formulation, part)
    for problem, _, right in verdicts(number):
        try:
            if case.verdict(changed, problem) != right:
                return True
        except NO_ANSWER:
            return True
    return False


EVERY = [
    pytest.param(k, part, id=f"{case.name} {part}") for k, case in enumerate(CASES) for part in case.parts
]


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, id=case.name, marks=[pytest.mark.slow] * (case.name in SEARCHED)) for case in CASES],
)
def test_complete_models_have_the_verdicts_of_oracles(case: Case) -> None:
    judged = [(problem, must) for problem, must in case.battery() if must is not None]
    for problem, must in chosen(judged):
        assert case.verdict(case.formulation, problem) == must, problem
    if not judged:
        pytest.skip("no oracle")


@pytest.mark.slow
@pytest.mark.parametrize(("number", "part"), EVERY)
def test_without_a_constraint_a_verdict_changes(number: int, part: Part) -> None:
    assert notices(number, part) == (part not in CASES[number].implied)


@pytest.mark.parametrize("formulation", dict.fromkeys(case.formulation for case in CASES))
def test_every_constraint_is_on_the_page_and_in_a_case(formulation: ModuleType) -> None:
    cases = [case for case in CASES if case.formulation is formulation]
    tried = {part for case in cases for part in case.parts}
    if isinstance(part := next(iter(tried)), str):
        assert tried == set(formulation.CONSTRAINTS), part
        return
    page = numbers_of_page(formulation)
    page += numbers_of_page(network) if formulation is cut_milp else []
    assert tried <= set(page)
    if hasattr(formulation, "CONSTRAINTS"):
        assert page == sorted(tried)
        for number, constrain in enumerate(formulation.CONSTRAINTS, 1):
            assert (constrain.__doc__ or "").startswith(f"Constraint {number}")
