"""What methods declare to serve they serve: each trait alone, and mixtures."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import lowtide as lt
from lowtide.solvers.context import Context, Outcome
from lowtide.solvers.parts import capabilities, refusal
from lowtide.solvers.placement import traits as module
from lowtide.solvers.placement.parts import DECLARED
from lowtide.solvers.placement.serial import search
from lowtide.solvers.placement.traits import ONCE_ONLY, Trait, traits
from lowtide.solvers.registry import METHODS, capability_matrix
from tests.effort import seeds
from tests.problems.placement_questions import mixture, questions

SECONDS = 0.02
"""Of each method: what it refuses it says at once."""

QUICK = (
    "slowed by the first tier",
    "ops run again, one tier",
    "processors that differ",
    "a far tier, period",
)

QUESTIONS = questions()


def refused_late(problem: lt.Placement) -> list[tuple[str, str]]:
    """Return the methods that refuse what they declare to serve, and what they say."""
    found = []
    for name, part in DECLARED.items():
        if refusal(part, problem, traits(problem)):
            continue
        options = {"runs": "20"} if name == "local-search" else {}
        try:
            result = lt.solve(problem, name, time_limit=SECONDS, threads=1, options=options)
            assert result.status is not lt.Status.FAILED, (name, result.detail)
        except lt.UsageError as error:
            found.append((name, str(error)))
    return found


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in QUICK else pytest.mark.slow(reason="40 methods"))
        for name in QUESTIONS
    ],
)
def test_each_method_serves_what_it_declares(name: str) -> None:
    assert not refused_late(QUESTIONS[name])


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(40, least=10))
def test_each_method_serves_mixtures_of_what_it_declares(seed: int) -> None:
    name, problem = mixture(seed)
    assert not refused_late(problem), (name, traits(problem))


def test_what_is_never_served_is_not_declared() -> None:
    """Traits that no question has beside a trait that the method needs, or that its machines never have."""
    for name, part in DECLARED.items():
        needs = {*(part.needs or Trait(0))}
        never = ONCE_ONLY if Trait.RERUN in needs else Trait(0)
        never |= Trait.PARTS if Trait.WHOLE in needs else Trait(0)
        never |= Trait.ONE_TIER if name in ("pofo", "zero-offload", "zero-infinity") else Trait(0)
        assert part.supports is not None
        assert not {*never} & {*part.supports}, name


def test_every_method_has_a_declaration_and_every_trait_words() -> None:
    assert {*DECLARED} == {method.name for method in METHODS if method.problem == "placement"}
    assert {*Trait} == {*Trait.words()}
    assert all(part.supports is not None for part in DECLARED.values())


def test_models_are_refused_in_the_words_of_their_methods() -> None:
    with pytest.raises(lt.UsageError, match="model of cpsat: found several processors that differ"):
        lt.build(QUESTIONS["processors that differ"], "cpsat")


def test_the_matrix_has_each_method_once_and_says_what_it_declares() -> None:
    groups, matrix = capability_matrix("placement")
    assert sorted(name for group in groups for name in group) == sorted(DECLARED)
    for number, group in enumerate(groups):
        for name in group:
            said = {trait: answers[number] for trait, answers in matrix.items()}
            assert said == capabilities(DECLARED[name]), name


def test_a_new_trait_is_served_by_nobody_until_it_is_named() -> None:
    """The sets of traits that declarations are made of, in a copy of their module with one trait more."""
    source = inspect.getsource(module)
    longer = source.replace("    PAGES = auto()\n", "    PAGES = auto()\n    NEW = auto()\n")
    assert longer != source
    found: dict[str, Any] = {"__name__": module.__name__, "__package__": module.__package__}
    exec(compile(longer, str(module.__file__), "exec"), found)
    new = found["Trait"].NEW
    sets = {name: value for name, value in found.items() if isinstance(value, found["Trait"])}
    assert len(sets) > 8
    assert not [name for name, value in sets.items() if new & value]
    every = {*Trait}
    assert all({*part.supports} <= every for part in DECLARED.values() if part.supports is not None)


def test_what_a_method_refuses_late_is_an_error_of_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    def late(problem: lt.Placement, context: Context) -> Outcome:
        return Outcome(refused="found a drive, expected none")

    monkeypatch.setattr(search, "solve_serial", late)
    with pytest.raises(lt.UsageError, match="found a drive, expected none"):
        lt.solve(QUESTIONS["plain"], "serial")
