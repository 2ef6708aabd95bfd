"""One component of a problem `offsets` as the parts of a method see it: a context of its own."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from ...models.buffers import Buffers
from ...models.verifier.allocation import verify_allocation
from ..context import Context, Known

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .components import BestOffsets, Components


@dataclass(kw_only=True)
class ComponentContext(Context):
    """Takes offsets and bounds of one component in its units, and passes them on.

    Attributes
    ----------
    components, component
        Where they go.
    unit
        Bytes in which turns count heights; 1 for a run of a solver, which has the component's own units.
    floor
        The least height that a model knows of: bounds up to it prove nothing about the component.
    """

    components: Components
    component: BestOffsets
    unit: int = 1
    floor: int = 0

    @property
    def target(self) -> int:
        """The height, in units, below which nothing is gained."""
        return self.components.target(self.component)

    @property
    def closed(self) -> bool:
        """Whether nothing is to be gained in this component."""
        return not self.components.is_open(self.component)

    @property
    def answer(self) -> Any:
        """The best offsets, in units."""
        return self.component.offsets

    @property
    def incumbent(self) -> int | None:
        """Their height in bytes."""
        return None if self.component.height is None else self.component.height * self.unit

    @property
    def bound(self) -> int:
        """The best proved bound on the height in bytes."""
        return self.component.bound * self.unit

    def offer(self, item: Any) -> int:
        """Take offsets of the component, if there are any; return the best height in units."""
        if len(item):
            self.components.offer(self.component, np.array(item, dtype=np.int64))
        return -1 if self.component.height is None else self.component.height

    def raise_bound(self, value: int, proof: str = "exact", *, kind: str | None = None, **_: Any) -> None:
        """Take a proved bound on the height of the component."""
        if value > self.floor:
            self.components.raise_bound(self.component, value, proof, kind=kind)

    def run(self, seconds: float, floor: int, seed: int) -> ComponentContext:
        """Return a context for one run of a solver, of at most so many seconds from now."""
        limit = min(seconds, self.remaining())
        own = component_context(self.components, self.component, self)
        own.time_limit = None if limit == float("inf") else limit
        own.unit, own.floor, own.seed = 1, floor, seed
        return own


def component_context(components: Components, component: BestOffsets, whole: Context) -> ComponentContext:
    """Return the context of a component, with all the time that a context of the whole has left."""
    inner = whole.inner(whole.problem)
    common = {field.name: getattr(inner, field.name) for field in fields(Context)}
    common |= {"world": whole.world, "known": Known(turns=whole.known.turns)}
    unit = component.data.unit
    return ComponentContext(**common, components=components, component=component, unit=unit)


def checked(context: ComponentContext, offsets: Sequence[int]) -> Sequence[int]:
    """Return offsets of a component if they break no rule but the capacity, else nothing."""
    whole, data = context.components.problem.buffers, context.component.data
    chosen = tuple(whole.buffers[i] for i in data.numbers.tolist())
    ids = {b.id for b in chosen}
    alone = Buffers(buffers=chosen, inplace=tuple(pair for pair in whole.inplace if ids.issuperset(pair)))
    placed = {b.id: offset * data.unit for b, offset in zip(chosen, offsets, strict=True)}
    return offsets if verify_allocation(alone, placed).valid else ()
