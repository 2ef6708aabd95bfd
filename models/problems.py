"""Every problem of the suite by its CLI name."""

from __future__ import annotations

from .placement import Placement
from .problem import Offsets, Peak

PROBLEMS: dict[str, type[Peak] | type[Offsets] | type[Placement]] = {
    Peak.name: Peak,
    Offsets.name: Offsets,
    Placement.name: Placement,
}
"""CLI name of each problem."""
