"""The data of a proof by descents; `descents` beside it says what it claims, and why that suffices.

Sets of ops are bit masks (bit v: op v); in files they are hexadecimal strings.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from ...written import Mask, Written
from .cut import Multipliers

OF_WAIST = ("waist", "inner", "way", "beyond")
OF_BRANCHES = ("branches",)
"""Fields that only a `Component` with a waist has, and only one without."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block(Written):
    """Ops that may be stepped over together, because no part of them leads to less memory.

    Attributes
    ----------
    backward
        The direction of the walk.
    ops
        In an order in which the walk may step over them.
    outside
        Mask of ops that decide which tensors count: a tensor with several last accessors counts if the
        block has one of them and `outside` has none.
    multipliers
        The proof that no part has less memory.
    """

    backward: bool
    ops: tuple[int, ...]
    outside: Mask
    multipliers: Multipliers


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch(Written):
    """What is left after a forced step: moves that may be made, then components without a descent.

    Attributes
    ----------
    op
        The step.
    moves
        In turn: below the number n of ops of the graph a single op that does not increase the memory; from
        n on the block of number move - n.
    claims
        One for each component of the ops that are left, by number.
    """

    op: int
    moves: tuple[int, ...]
    claims: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Component(Written):
    """Claim: no walk within some ops descends below a height.

    Attributes
    ----------
    backward
        The direction of the walk.
    whole
        Whether walking over all of `ops` counts as a descent, whatever the memory is then.
    ops
        Mask of the ops.
    outside
        Mask that decides which tensors count (see `Block`).
    height
        Bytes above the memory at the start; None for any height.
    branches
        One for each first step that is cheaper than `height`; empty if there is a waist.
    waist
        An op that is comparable with all others of `ops`, or None.
    inner
        With a waist: claims for the components of the ops before it.
    way
        With a waist: the claim that the ops before it cannot all be walked over, or None if they can.
    beyond
        With a waist and no `way`: what follows the step over it; None if that step is too costly.
    """

    kind: ClassVar[str] = "component"
    backward: bool
    whole: bool
    ops: Mask
    outside: Mask
    height: int | None
    branches: tuple[Branch, ...] = ()
    waist: int | None = None
    inner: tuple[int, ...] = ()
    way: int | None = None
    beyond: Branch | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object, with what belongs to the waist or with the branches."""
        absent = OF_WAIST if self.waist is None else OF_BRANCHES
        return {key: value for key, value in Written.to_dict(self).items() if key not in absent}


@dataclass(frozen=True, slots=True, kw_only=True)
class Way(Written):
    """Claim: some ops cannot all be walked over below a height.

    Attributes
    ----------
    ops, outside
        Masks, as in `Component`, read forward.
    height
        Bytes above the memory before the ops; None for any height.
    head, tail
        Moves (see `Branch`) forward from the beginning and backward from the end.
    backward
        In which direction the claims speak.
    claims
        One for each component of what lies between head and tail, or a single one that is `whole`.
    """

    kind: ClassVar[str] = "way"
    ops: Mask
    outside: Mask
    height: int | None
    head: tuple[int, ...]
    tail: tuple[int, ...]
    backward: bool
    claims: tuple[int, ...]


Claim = Component | Way


@dataclass(frozen=True, slots=True, kw_only=True)
class DescentsProof(Written):
    """Claims, each resting on earlier ones; the last one is about all ops."""

    kind: ClassVar[str] = "descents"
    blocks: tuple[Block, ...]
    claims: tuple[Claim, ...]
