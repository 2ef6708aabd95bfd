"""What every formulation has in common: its parts, the size of a model, and an end to building in time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from ..models.errors import LowtideError

Tick = Callable[[], None]
"""Called once per row while a model is built; raises `BuildTimeout` when the time is up."""

CPSAT_BYTES, MILP_BYTES = 600, 1500
"""Measured bytes at the peak of building and solving, per nonzero coefficient, with CP-SAT and with HiGHS."""


class BuildTimeout(LowtideError):
    """The time was up before the model stood."""


@dataclass(frozen=True, slots=True)
class ModelSize:
    """What a model will have: counts of variables, constraints and nonzero coefficients."""

    variables: int
    constraints: int
    terms: int


class Formulation(Protocol):
    """A module with a page of mathematics, whose models an engine solves.

    It has functions ``build``, which returns a model with the engine's own as attribute ``model``, ``decode``
    from a solution to an answer, and mostly ``size`` and ``bound``. The numbered constraints of its page are
    functions or names of rows in ``CONSTRAINTS``, or their numbers stand beside the rows.

    Where ``build`` takes ``expired``, it calls it now and then, and raises `BuildTimeout` once it holds.
    ``decode`` takes the model and a function from its variables to values; those of a MILP may be off by a
    solver's tolerances.

    Attributes
    ----------
    ENGINE
        What its models are for: "cpsat" or "milp".
    BYTES_PER_TERM
        Measured bytes at the peak of building and solving, per nonzero coefficient.
    """

    @property
    def ENGINE(self) -> str: ...  # noqa: D102
    @property
    def BYTES_PER_TERM(self) -> int: ...  # noqa: D102


class Variant(Formulation, Protocol):
    """One of several formulations of the same question: the same data, answers and units."""

    @property
    def size(self) -> Callable[..., ModelSize]: ...  # noqa: D102
    @property
    def bound(self) -> Callable[..., int]: ...  # noqa: D102
    @property
    def build(self) -> Callable[..., Any]: ...  # noqa: D102
    @property
    def decode(self) -> Callable[..., Any]: ...  # noqa: D102


def ticker(expired: Callable[[], bool]) -> Tick:
    """Return a function that raises `BuildTimeout` once `expired()` holds; builders call it per row."""

    def tick() -> None:
        if expired():
            raise BuildTimeout("the time was up while the model was being built")

    return tick
