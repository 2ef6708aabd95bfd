"""What a method of the suite, or of a user, says about itself, and its options."""

from __future__ import annotations

import difflib
import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import InitVar, dataclass, replace
from enum import StrEnum
from importlib import import_module
from typing import Any, NamedTuple

from ..models.checks import shown
from ..models.errors import UsageError
from .context import Context, Outcome

RunFunction = Callable[[Any, Context], Any]


def run_method(run: RunFunction, problem: Any, context: Context) -> Outcome:
    """Run a method; what it returns, if it is no `Outcome`, is its last answer."""
    outcome = run(problem, context)
    if isinstance(outcome, Outcome):
        return outcome
    if outcome is not None:
        context.offer(outcome)
    return Outcome()


class Proves(StrEnum):
    """What a method proves, given time: nothing, a bound (be it a simple one), or an optimum."""

    NOTHING = "nothing"
    BOUND = "bound"
    OPTIMUM = "optimum"


NOTHING, BOUND, OPTIMUM = Proves


class Basis(StrEnum):
    """What the rules of a method rest on that stands for a published system.

    ``CODE``: code that its authors released, or others who reproduced it. ``TEXT``: its paper, as far as the
    paper or notes on it were at hand. ``INFERRED``: rules that decide much are guesses. ``OURS``: rules of
    the suite in the place of the system's own.
    """

    CODE = "published code"
    TEXT = "published text"
    INFERRED = "inferred"
    OURS = "ours in its place"

    @property
    def is_published(self) -> bool:
        """Whether tables rank it among published systems."""
        return self in (Basis.CODE, Basis.TEXT)


@dataclass(frozen=True)
class Option:
    """An option of a method.

    Parameters
    ----------
    name
        As in ``--solver-option NAME=VALUE``.
    default
        What `Context.options` has of it where it is not given; its type is the option's. The type itself
        (``int``) where the method has a default of its own: then `Context.options` has the option only where
        it is given.
    help
        What it means, for people; without the default.
    choices
        The texts that are accepted, if not all.
    least, most
        The range of numbers that are accepted.
    """

    name: str
    default: bool | int | float | str | type
    help: str
    choices: tuple[str, ...] = ()
    least: float = 1
    most: float = math.inf

    @property
    def kind(self) -> type:
        """The type of its values."""
        return self.default if isinstance(self.default, type) else type(self.default)

    @property
    def meaning(self) -> str:
        """What it means, with its default."""
        if isinstance(self.default, type):
            return self.help
        return f"{self.help} (default {int(self.default) if self.kind is bool else self.default})"

    def value(self, text: object) -> Any:
        """Return the value of a text.

        Raises
        ------
        UsageError
            If it is of another type, out of range, or none of the choices.
        """
        value = self._read(text.strip()) if isinstance(text, str) else None
        if value is None or (self.choices and value not in self.choices):
            raise UsageError(f"option {self.name}: found {shown(text)}, expected {self._expected()}")
        return value

    def _read(self, text: str) -> bool | float | str | None:
        """Return the value of a text, None if it is of another type or out of range."""
        if self.kind is str:
            return text
        if self.kind is bool:
            return {"0": False, "1": True, "false": False, "true": True}.get(text.lower())
        try:
            number: float = self.kind("" if "_" in text else text)
        except ValueError:
            return None
        return number if self.least <= number <= self.most and number < math.inf else None

    def _expected(self) -> str:
        if self.choices:
            return f"one of {', '.join(self.choices)}"
        if self.kind is int and self.least == 1:
            return "a positive integer"
        numbers = {int: "an integer", float: "a number"}
        if self.kind in numbers:
            limit = "" if self.most == math.inf else f", at most {self.most}"
            return f"{numbers[self.kind]} of at least {self.least}{limit}"
        return "0 or 1" if self.kind is bool else "a text"


Stated = Mapping[str, Any]
"""The arguments of the ``build`` of a formulation, by name."""

Value = Callable[[Any], Any]
"""From a variable of a model to its value in a solution."""


class Export(NamedTuple):
    """How the model of a method is stated for other solvers.

    Parameters
    ----------
    formulation
        Module in `lowtide.formulations`; its name ends with the kind of the model, ``_milp``, ``_lp`` or
        ``_cpsat``.
    data
        ``module:function``, relative to this package: from the problem to a mapping of the arguments of
        ``build`` by name, or to the one that is called ``data``. It gets the options of the method that it
        has parameters for, and by keyword, if it takes them, ``part``, ``seconds`` and ``expired``. Empty:
        ``build`` takes the problem itself.
    given
        Further arguments of ``build``.
    unit
        The attribute of the data, or else of what ``build`` returns, with the bytes or ns of one unit of the
        objective; one if it is empty or neither has it.
    scope
        What the model is about, if its optimum is not the problem's, in words; else empty.
    for_rows
        As `data`, for a model to which rows may be added, where that is another one.
    decode
        ``module:function``: from the problem, the arguments of ``build``, the model and a function from
        variables to values to an answer; empty: the formulation's ``decode`` does that. Where it has none,
        solutions have no answers.
    """

    formulation: str
    data: str = ""
    given: Mapping[str, object] = {}
    unit: str = "unit"
    scope: str = ""
    for_rows: str = ""
    decode: str = ""

    @classmethod
    def stated(
        cls, room: str, formulation: str, data: str, decode: str, scope: str, unit: str = ""
    ) -> Export:
        """Return the same where module ``stated`` of a room has the functions; `decode` may be empty."""
        stated = f".{room}.stated:"
        decode = decode and f"{stated}{decode}"
        return cls(f"{room}.{formulation}", f"{stated}{data}", unit=unit, scope=scope, decode=decode)

    @property
    def engine(self) -> str:
        """The kind of model; a linear program is a MILP without integers."""
        kind = self.formulation.rpartition("_")[2]
        return "milp" if kind == "lp" else kind

    @property
    def options(self) -> Mapping[str, str]:
        """The parameters of `data` that are no problem and no keyword, by the options that they stand for."""
        given = [*inspect.signature(load(self.data)).parameters.values()][1:] if self.data else ()
        return {x.name.replace("_", "-"): x.name for x in given if x.kind is x.POSITIONAL_OR_KEYWORD}


STATING_SECONDS = 60.0
"""Seconds in which the `Export.data` of a model searches at most, for schedules, cuts or conflicts."""

PYOMO_SOLVER = Option(
    "solver", "highs", "highs, or a MILP solver that Pyomo finds, such as cbc, glpk or scip"
)
"""Option of the methods that solve a MILP in Pyomo."""


@dataclass(frozen=True)
class Method:
    """A named way to solve a problem.

    Parameters
    ----------
    name, problem
        Unique together; `problem` is a CLI name such as "peak". A room fills it in for its methods.
    run
        ``module:function`` relative to this package (loaded when first used), or the function.
    summary
        One line for people.
    proves
        What it proves, given time.
    source
        Paper, equation; empty if it is the suite's own.
    basis
        What its rules rest on, if it stands for a published system; else None.
    abstracted
        What of that system is missing, replaced or inferred: one sentence.
    options
        Its own options. A pair of name and meaning stands for an option that is passed on as text.
    kernels
        Modules whose kernels it calls, named as in `run`: `solve` compiles what of them does not lie on disk
        before the clock starts.
    late
        Whether it has them compiled itself (`Context.prepare`): small questions end before it needs them.
    engine
        "cpsat" or "highs" if further options pass through to that solver.
    freedoms
        Those of `Problem.freedoms` with which what it proves still holds; with others it is refused.
    model
        How the model that it solves is stated: `lowtide.build` and ``lowtide export`` give it, and rows may
        be added to it.
    package
        Name and version of the distribution that brings it, which `methods` fills in; empty: the suite.
    exact
        True stands for ``proves=Proves.OPTIMUM``.
    """

    name: str
    run: str | RunFunction
    summary: str
    problem: str = ""
    proves: Proves = Proves.NOTHING
    source: str = ""
    basis: Basis | None = None
    abstracted: str = ""
    options: tuple[Option, ...] = ()
    kernels: tuple[str, ...] = ()
    late: bool = False
    engine: str | None = None
    freedoms: tuple[str, ...] = ()
    model: Export | None = None
    package: tuple[str, str] | tuple[()] = ()
    exact: InitVar[bool] = False

    def __post_init__(self, exact: bool) -> None:
        pairs = tuple(x if isinstance(x, Option) else Option(x[0], str, x[1]) for x in self.options)
        object.__setattr__(self, "options", pairs)
        if exact:
            object.__setattr__(self, "proves", Proves.OPTIMUM)

    def load(self) -> RunFunction:
        """Return the function, importing its module now."""
        return load(self.run) if isinstance(self.run, str) else self.run

    def with_engine_of_model(self) -> Method:
        """Return it with the options of what solves its model, where it only has a model solved."""
        if self.model is None:
            return self
        if self.model.engine == "cpsat":
            return replace(self, engine="cpsat")
        others = [option for option in self.options if option.name != PYOMO_SOLVER.name]
        return replace(self, engine="highs", options=(*others, PYOMO_SOLVER))

    def typed(self, given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
        """Return the values of its own options, defaults too, and the texts that are left for its engine.

        Raises
        ------
        UsageError
            An option that it does not have, where no engine takes it; or a wrong value.
        """
        own = {option.name: option for option in self.options}
        values = {o.name: o.default for o in self.options if not callable(o.default)}
        rest = {}
        for name, text in given.items():
            if name in own:
                values[name] = own[name].value(text)
            elif self.engine is None:
                near = difflib.get_close_matches(name, own, n=1, cutoff=0.4)
                known = f"expected one of {', '.join(own)}" if own else "it has none"
                expected = f"did you mean {near[0]}?" if near else known
                raise UsageError(f"option of method {self.name}: found {name!r}, {expected}")
            elif not isinstance(text, str):
                raise UsageError(f"solver option {name}: found {shown(text)}, expected a text")
            else:
                rest[name] = text
        return values, rest


def family(run: str, *rows: tuple[str, str], **common: Any) -> tuple[Method, ...]:
    """Return methods that share a function and more, by name and summary.

    `run` is a function, which tells them apart by `Context.method`, or a module with ``solve_a_b`` for `a-b`.
    """
    return tuple(
        Method(name, run if ":" in run else f"{run}:solve_{name.replace('-', '_')}", summary, **common)
        for name, summary in rows
    )


def load(name: str) -> Any:
    """Return what ``module:name`` stands for, the module relative to this package; it is imported now."""
    module, attribute = name.split(":")
    return getattr(import_module(module, __package__), attribute)
