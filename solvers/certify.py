"""Certificates of results: the room of the problem proves once more what a result claims."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ..models.problems.problem import Problem
from ..models.result import Result
from .context import Context
from .method import load
from .registry import room_of

if TYPE_CHECKING:
    from ..models.certificate import Certificate


class Certified(NamedTuple):
    """What became of a claim.

    Attributes
    ----------
    claim
        What the result claims; None if it claims nothing, and then `missing` says what it lacks.
    certificate
        Of the best bound up to the claim that was proved; None if none was.
    missing
        In words.
    """

    claim: int | None
    certificate: Certificate | None
    missing: str = ""


def certified(problem: Problem, result: Result, context: Context) -> Certified:
    """Prove the bound of a result once more, within the limits of a context of its own."""
    unspoken = [freedom for freedom in problem.freedoms if freedom != "order=free"]
    if unspoken:
        return Certified(None, None, f"certificates do not speak of {', '.join(unspoken)}")
    found: Certified = load(room_of(problem).certify)(problem, result, context)
    return found
