"""Option ``--start``: where the tensors of each kind may be at time 0."""

from __future__ import annotations

from collections.abc import Sequence
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
    tiers_of = {}
    for kind, text in unique(pairs or (), "--start").items():
        names = tuple(tiers) if text == "anywhere" else tuple(text.split(","))
        for what, name, known in (("kind", kind, list(KINDS)), *(("tier", x, tiers) for x in names)):
            if name not in known:
                expected = ", ".join(known)
                raise UsageError(f"--start {kind}={text}: found {what} {name!r}, expected one of {expected}")
        tiers_of[kind] = names
    return tiers_of or None
