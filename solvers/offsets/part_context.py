"""One part of a problem `offsets` as a solver engine sees it: a context of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ...models.buffers import Buffers
from ...models.verifier.allocation import verify_allocation
from ..context import Context, Known

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .parts import Part, Parts


@dataclass(kw_only=True)
class PartContext(Context):
    """Takes offsets and bounds of one part in its units, and passes them on.

    Attributes
    ----------
    parts, part
        Where they go.
    floor
        The least height that the model knows of: bounds up to it prove nothing about the part.
    """

    parts: Parts
    part: Part
    floor: int

    @property
    def closed(self) -> bool:
        """Whether nothing is to be gained in this part."""
        return self.part.height is not None and self.part.height <= self.parts.target(self.part)

    def offer(self, item: Any) -> int:
        """Take offsets of the part, if there are any; return the best height."""
        if len(item):
            self.parts.offer(self.part, np.array(item, dtype=np.int64))
        self.known.incumbent = self.part.height
        return -1 if self.incumbent is None else self.incumbent

    def raise_bound(
        self,
        value: int,
        proof: str = "exact",
        *,
        kind: str | None = None,
        evidence: Any = None,
        averages: bool = False,
    ) -> None:
        """Take a proved bound on the height of the part."""
        if value > self.floor:
            self.parts.raise_bound(self.part, value, proof, kind=kind)


def part_context(parts: Parts, part: Part, *, seconds: float, floor: int, seed: int) -> PartContext:
    """Return a context for one run of a solver on a part, of at most so many seconds from now."""
    whole = parts.context
    left = whole.remaining()
    limit = min(seconds, left)
    return PartContext(
        problem=whole.problem,
        time_limit=None if limit == float("inf") else limit,
        seed=seed,
        threads=whole.threads,
        memory_limit=whole.memory_limit,
        options=whole.options,
        engine_options=whole.engine_options,
        log=whole.log,
        models=whole.models,
        clock=whole.clock,
        known=Known(incumbent=part.height),
        parts=parts,
        part=part,
        floor=floor,
    )


def checked(parts: Parts, part: Part, offsets: Sequence[int]) -> Sequence[int]:
    """Return offsets of a part if they break no rule but the capacity, else nothing."""
    whole = parts.problem.buffers
    chosen = tuple(whole.buffers[i] for i in part.data.numbers.tolist())
    ids = {b.id for b in chosen}
    alone = Buffers(buffers=chosen, inplace=tuple(pair for pair in whole.inplace if ids.issuperset(pair)))
    placed = {b.id: offset * part.data.unit for b, offset in zip(chosen, offsets, strict=True)}
    return offsets if verify_allocation(alone, placed).valid else ()
