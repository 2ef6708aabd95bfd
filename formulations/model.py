"""What every formulation has in common: its parts, the size of a model, and an end to building in time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from ..models.errors import LowtideError

Tick = Callable[[], None]
"""Called once per row while a model is built; raises `BuildTimeout` when the time is up."""


class BuildTimeout(LowtideError):
    """The time was up before the model stood."""


@dataclass(frozen=True, slots=True)
class ModelSize:
    """What a model will have: counts of variables, constraints and nonzero coefficients."""

    variables: int
    constraints: int
    terms: int


class Formulation(Protocol):
    """A module with a page of mathematics.

    Attributes
    ----------
    ENGINE
        What its models are for.
    BYTES_PER_TERM
        Measured bytes at the peak of building and solving, per nonzero coefficient.
    size
        Returns the `ModelSize` for some data, without building anything.
    build
        Returns a model, with the solver's as its attribute ``model``.
    decode
        Returns the answer of a solution, given a model and what gives the value of a variable.
    CONSTRAINTS
        The numbered constraints of the page, in order: functions of a model.
    """

    @property
    def ENGINE(self) -> Literal["cpsat", "milp"]: ...  # noqa: D102
    @property
    def BYTES_PER_TERM(self) -> int: ...  # noqa: D102
    @property
    def CONSTRAINTS(self) -> tuple[Callable[..., None], ...]: ...  # noqa: D102
    @property
    def size(self) -> Callable[..., ModelSize]: ...  # noqa: D102
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
