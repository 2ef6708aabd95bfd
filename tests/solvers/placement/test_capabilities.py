"""What methods declare that they serve is what they do: on each trait alone, and on mixtures."""

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
from lowtide.solvers.placement.traits import Trait, traits
from lowtide.solvers.registry import METHODS, capability_matrix
from tests.effort import seeds
from tests.placement_questions import mixture, questions

SECONDS = 0.02
"""Of each method: what it refuses it says at once."""

QUICK = (
    "slowed by the first tier",
    "ops run again, one tier",
    "processors that differ",
    "a far tier, period",
)

QUESTIONS = questions()


def differences(problem: lt.Placement) -> list[tuple[str, str, str]]:
    """Return the methods that refuse what they declare to serve, or the other way, and what both say."""
    found = []
    for name, part in DECLARED.items():
        said, does = refusal(part, problem, traits(problem)), ""
        options = {"runs": "20"} if name == "local-search" else {}
        try:
            result = lt.solve(problem, name, time_limit=SECONDS, threads=1, options=options)
            assert result.status is not lt.Status.FAILED, (name, result.detail)
        except lt.UsageError as error:
            does = str(error)
        if bool(said) != bool(does):
            found.append((name, said, does))
    return found


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in QUICK else pytest.mark.slow(reason="40 methods"))
        for name in QUESTIONS
    ],
)
def test_each_trait_is_refused_where_it_is_declared(name: str) -> None:
    assert not differences(QUESTIONS[name])


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(40, least=10))
def test_mixtures_are_refused_where_it_is_declared(seed: int) -> None:
    name, problem = mixture(seed)
    assert not differences(problem), (name, traits(problem))


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
