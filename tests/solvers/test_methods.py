"""What methods say about themselves: options of every type, what is proved, methods of users."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import lowtide as lt
from lowtide.solvers.context import Context
from lowtide.solvers.method import BOUND, NOTHING, OPTIMUM, Method, Option
from lowtide.solvers.registry import METHODS, ROOMS

OPTIONS = (
    Option("width", 64, "states"),
    Option("plain", False, "1: plainly"),
    Option("part", 0.5, "of the time", least=0.1),
    Option("start", "lists", "lists or none", choices=("lists", "none")),
    Option("shape", "tree", "tree, chain or any", choices=("tree", "chain", "any")),
    Option("tick", int, "ns (default: loses nothing)"),
)
OWN = Method("own", "own:run", "of no engine", problem="peak", options=OPTIONS)
PASSED = Method("passed", "own:run", "of CP-SAT", problem="peak", options=OPTIONS, engine="cpsat")
DEFAULTS = {"width": 64, "plain": False, "part": 0.5, "start": "lists", "shape": "tree"}


def test_options_have_the_type_of_their_default() -> None:
    assert OWN.typed({}) == (DEFAULTS, {})
    given = {"width": " 8", "plain": "true", "part": "0.25", "start": "none", "tick": "3"}
    expected = {"width": 8, "plain": True, "part": 0.25, "start": "none", "shape": "tree", "tick": 3}
    assert OWN.typed(given) == (expected, {})
    assert [type(value) for value in OWN.typed(given)[0].values()] == [int, bool, float, str, str, int]
    assert PASSED.typed({"width": "8", "cp_model_presolve": "off"}) == (
        {**DEFAULTS, "width": 8},
        {"cp_model_presolve": "off"},
    )
    assert [option.meaning for option in OPTIONS[:2]] == ["states (default 64)", "1: plainly (default 0)"]
    assert OPTIONS[-1].meaning == "ns (default: loses nothing)"


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("width", "many", "option width: found 'many', expected a positive integer"),
        ("width", "0", "option width: found '0', expected a positive integer"),
        ("width", "1_0", "option width: found '1_0', expected a positive integer"),
        ("width", "1.5", "option width: found '1.5', expected a positive integer"),
        ("width", 8, "option width: found 8, expected a positive integer"),
        ("plain", "maybe", "option plain: found 'maybe', expected 0 or 1"),
        ("part", "0.01", "option part: found '0.01', expected a number of at least 0.1"),
        ("part", "nan", "option part: found 'nan', expected a number of at least 0.1"),
        ("start", "late", "option start: found 'late', expected one of lists, none"),
        ("widht", "8", "option of method own: found 'widht', did you mean width?"),
        ("zzz", "8", "option of method own: found 'zzz', expected one of width, plain, part, start"),
    ],
)
def test_wrong_options_say_what_is_expected(name: str, text: str, message: str) -> None:
    with pytest.raises(lt.UsageError) as caught:
        OWN.typed({name: text})
    assert str(caught.value).startswith(message)


def test_a_mistyped_option_of_a_method_with_an_engine_may_mean_its_own() -> None:
    problem = lt.Peak(lt.load("catalogue:harpoon"))
    with pytest.raises(lt.UsageError, match="found 'strt', did you mean start"):
        lt.solve(problem, "cpsat", options={"strt": "bounds"})
    with pytest.raises(lt.UsageError, match="found 'solvr', did you mean solver"):
        lt.solve(problem, "milp", options={"solvr": "scip"})
    with pytest.raises(lt.UsageError, match="solver option num_workers: found 3, expected a text"):
        lt.solve(problem, "cpsat", options={"num_workers": 3})  # type: ignore[dict-item]


def test_a_method_of_a_users_keeps_its_fields() -> None:
    old = Method(
        name="mine",
        problem="peak",
        run=lambda problem, context: None,
        summary="",
        exact=True,
        options=(("depth", "of the search"),),  # type: ignore[arg-type]
    )
    assert old.proves is OPTIMUM
    assert old.typed({}) == ({}, {})
    assert old.typed({"depth": "3"}) == ({"depth": "3"}, {})


def test_options_reach_the_method(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Context] = []
    monkeypatch.setattr("lowtide.solvers.method.Method.load", lambda self: lambda p, c: seen.append(c))
    problem = lt.Peak(lt.load("catalogue:harpoon"))
    lt.solve(problem, "beam", options={"width": "3"})
    lt.solve(problem, "cpsat", options={"start": "bounds", "log_search_progress": "0"})
    assert [dict(c.options) for c in seen] == [{"width": 3}, {"start": "bounds", "plain": False}]
    assert [dict(c.engine_options) for c in seen] == [{}, {"log_search_progress": "0"}]


def test_every_room_has_its_problem_and_an_auto() -> None:
    for name, room in ROOMS.items():
        assert room.problem.name == name
        assert {method.problem for method in room.methods} == {name}
        assert [method.name for method in room.methods].count("auto") == 1


def test_what_methods_prove_is_on_record() -> None:
    """No method without proofs has left a bound on any question of the battery."""
    record = json.loads((Path(__file__).parents[1] / "battery.json").read_text())
    bounded: set[tuple[str, str]] = set()
    for name, (_, _, bound, _) in record.items():
        question, _, method = name.rpartition(" | ")
        if bound is not None:
            bounded.add((question.split()[0], method.split()[0]))
    nothing = {(m.problem, m.name) for m in METHODS if m.proves is NOTHING}
    assert nothing
    assert not nothing & bounded
    assert {(m.problem, m.name) for m in METHODS if m.proves is BOUND and m.engine is None} & bounded
