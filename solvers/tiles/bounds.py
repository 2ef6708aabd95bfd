r"""What no answer of `tiles` is below.

1. *Compute.* Op i is in a group, and costs its base cost :math:`b_i` for each native tile that a tile covers,
   begun ones too. With W / w times H / h tiles these are at least :math:`\lceil W / W_0 \rceil
   \lceil H / H_0 \rceil`, as :math:`\sum \lceil x \rceil \ge \lceil \sum x \rceil`. The output of the group
   is what i makes or is made of that, so op i takes at least :math:`b_i` times the least such number over
   these tensors, and a step takes at least its compute.
2. *Traffic.* A tensor that no op makes and one reads enters at least once, whole: tiles and reduction steps
   together cover what an op reads. What no op reads leaves once. A step takes at least its traffic over the
   bandwidth.

Both hold for the sum of all steps, so their maximum does.
"""

from __future__ import annotations

from collections.abc import Set
from functools import cache

from ...models.problems.tiles import Tiles
from ...models.tile_rules import TileInstance
from ..context import Context


def raise_bound(problem: Tiles, context: Context) -> None:
    """Raise the bound to the least compute and the least traffic."""
    given = problem.shapes
    bound = least_ticks(given, {*range(len(given.outputs))}, given.finals, frozenset())
    context.raise_bound(bound, kind="compute and traffic")


def least_ticks(given: TileInstance, ops: Set[int], leaving: Set[int], present: Set[int]) -> int:
    """Return ticks that these ops take at least.

    Parameters
    ----------
    leaving
        Tensors that must be written.
    present
        Tensors in the fast memory.
    """
    compute = sum(least_costs(given)[i] for i in ops)
    entering = {t for i in ops for t in given.inputs[i]} & given.started - present
    moved = sum(map(given.area, entering)) + sum(map(given.area, leaving))
    return max(compute * given.scale, moved * (given.scale // given.bandwidth))


@cache
def least_costs(given: TileInstance) -> tuple[int, ...]:
    """Return by op the least compute in time units (statement 1)."""
    least: dict[int, int] = {}
    for i in reversed(range(len(given.outputs))):
        t = given.outputs[i]
        own = -(-given.widths[t] // given.native[0]) * -(-given.heights[t] // given.native[1])
        readers = [j for j, reads in enumerate(given.inputs) if t in reads]
        least[i] = min([own, *(least[j] for j in readers)])
    return tuple(given.base_costs[i] * least[i] for i in range(len(given.outputs)))
