"""Cases of `offsets`: an allocation."""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType
from typing import Any

import lowtide as lt
from lowtide.formulations.offsets import banks_cpsat, orders_milp, rectangles_cpsat, sections_cpsat
from lowtide.models.buffers import Buffer, Buffers
from tests.formulations.cases.case import Case, Verdict, proved, solved, verdict_of
from tests.oracles.brute_offsets import least_outside
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


def banks(formulation: ModuleType, question: tuple[Buffers, str]) -> Verdict:
    problem = lt.Offsets(question[0], banks=question[1])
    data = banks_cpsat.banks_data(problem.buffers, problem.bank_list)
    built = formulation.build(data)

    def read(value: Any) -> dict[str, int]:
        chosen = formulation.decode(built, value)
        return {
            b.id: data.banks[chosen[i][0]].begin + data.unit * chosen[i][1]
            for i, b in enumerate(data.buffers)
        }

    return verdict_of(solved(formulation, problem, built, read, int))


def banks_battery() -> list[tuple[Any, Verdict | None]]:
    x, y = (Buffer(id=name, lower=0, upper=2, size=4) for name in "xy")
    odd = Buffer(id="z", lower=0, upper=2, size=3, alignment=2)
    sets = [(Buffers(buffers=(x, y)), "a=4/b=4"), (Buffers(buffers=(x, y)), "a=4/b=3")]
    sets += [(Buffers(buffers=(odd, replace(odd, id="w"))), f"a={size}/b=3") for size in (6, 7)]
    return [(question, proved(least_outside(*question))) for question in sets]


CASES = [
    Case("offsets banks", banks_cpsat, banks_battery, banks, implied=(4,)),
    Case("offsets rectangles", rectangles_cpsat, offsets_battery, offsets, implied=(5,)),
    Case("offsets sections", sections_cpsat, offsets_battery, offsets, implied=(5,)),
    Case("offsets orders", orders_milp, offsets_battery, offsets_by_places),
]
