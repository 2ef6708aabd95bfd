"""What a problem brings to the solvers: its methods."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..models.problems.problem import Problem
from .method import Method


@dataclass(frozen=True, kw_only=True)
class Room:
    """A problem's room in this package; each problem's table `methods` has one.

    Parameters
    ----------
    problem
        The problem.
    methods
        Its methods, in the order in which they are listed; the room fills in their problem.
    """

    problem: type[Problem]
    methods: tuple[Method, ...]

    def __post_init__(self) -> None:
        own = tuple(replace(method, problem=self.problem.name) for method in self.methods)
        object.__setattr__(self, "methods", own)
