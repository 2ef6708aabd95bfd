"""Option ``--start``: where the tensors of each kind may be at time 0, and how that is said."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from .parser import key_value, unique

if TYPE_CHECKING:
    import argparse

    from ..models.plan import Plan

METAVAR = "KIND=TIER[,TIER]"


def add_start(parser: argparse._ActionsContainer, text: str) -> None:
    """Add the option, repeatable; absent it is None."""
    parser.add_argument("--start", type=key_value, action="append", metavar=METAVAR, help=text)


def start_tiers(pairs: Sequence[tuple[str, str]] | None, plan: Plan) -> dict[str, tuple[str, ...]] | None:
    """Return by kind of tensor the tiers that ``--start`` names; None if it is absent.

    Raises
    ------
    UsageError
        If a kind stands twice, or there is no such kind or tier.
    """
    from ..models.errors import UsageError
    from ..models.graph import KINDS

    tiers = [t.name for t in plan.machine.tiers]
    found = {}
    for kind, text in unique(pairs or (), "--start").items():
        names = tuple(tiers) if text == "anywhere" else tuple(text.split(","))
        for what, name, known in (("kind", kind, list(KINDS)), *(("tier", x, tiers) for x in names)):
            if name not in known:
                expected = ", ".join(known)
                raise UsageError(f"--start {kind}={text}: found {what} {name!r}, expected one of {expected}")
        found[kind] = names
    return found or None


def start_options(pairs: Sequence[tuple[str, str]] | None) -> dict[str, str]:
    """Return ``--start`` as options of a placement problem, which knows its kinds and tiers."""
    given = unique(pairs or (), "--start")
    return {f"start.{kind}": text.replace(",", "+") for kind, text in given.items()}


def start_words(starts: Mapping[str, Iterable[str]], plan: Plan) -> str:
    """Say where tensors may start: a rule for each kind that may not do so everywhere."""
    every = {tier.name for tier in plan.machine.tiers}
    rules = [(kind, list(some)) for kind, some in sorted(starts.items()) if set(some) != every]
    said = [f"{kind} in {' or '.join(some) or 'no tier'}" for kind, some in rules]
    return ", ".join([*said, "all else anywhere"]) if said else "everything anywhere"
