"""Cases of `offsets`: an allocation."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from lowtide.formulations.offsets import orders_milp, rectangles_cpsat, sections_cpsat
from lowtide.models.buffers import Buffer, Buffers
from tests.formulations.cases.case import Case, Verdict
from tests.problems import offsets as offsets_solving

SKEWED = Buffers(
    buffers=(
        Buffer(id="a", lower=0, upper=2, size=3, offset=0),
        Buffer(id="b", lower=1, upper=3, size=3, offset=1),
    ),
    inplace=(("a", "b"),),
)
"""A pair that overlaps and does not share its address."""


def offsets(formulation: ModuleType, buffers: Buffers) -> Verdict:
    return (offsets_solving.least_height(formulation, buffers),)


def offsets_battery() -> list[tuple[Any, Verdict | None]]:
    return [(buffers, (least,)) for buffers, least in [*offsets_solving.battery(60), (SKEWED, None)]]


def offsets_by_places(formulation: ModuleType, buffers: Buffers) -> Verdict:
    """Of the offsets themselves: what `decode` makes of the positions alone is valid without them."""
    changed = ModuleType(formulation.__name__)
    vars(changed).update(vars(formulation))
    vars(changed)["decode"] = lambda built, value: tuple(
        round(value(built.model.offset[i])) for i in range(built.data.count)
    )
    return offsets(changed, buffers)


CASES = [
    Case("offsets rectangles", rectangles_cpsat, offsets_battery, offsets, implied=(5,)),
    Case("offsets sections", sections_cpsat, offsets_battery, offsets, implied=(5,)),
    Case("offsets orders", orders_milp, offsets_battery, offsets_by_places),
]
