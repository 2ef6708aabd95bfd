"""The data of a proof by descents; `descents` beside it says what it claims, and why that suffices.

Sets of ops are bit masks (bit v: op v); in files they are hexadecimal strings.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from .cut import Multipliers


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
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
    outside: int
    multipliers: Multipliers

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object."""
        return {
            "backward": self.backward,
            "ops": list(self.ops),
            "outside": f"{self.outside:x}",
            "multipliers": self.multipliers.to_dict(),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
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

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object."""
        return {"op": self.op, "moves": list(self.moves), "claims": list(self.claims)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Component:
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

    backward: bool
    whole: bool
    ops: int
    outside: int
    height: int | None
    branches: tuple[Branch, ...] = ()
    waist: int | None = None
    inner: tuple[int, ...] = ()
    way: int | None = None
    beyond: Branch | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object."""
        claim: dict[str, Any] = {
            "kind": "component",
            "backward": self.backward,
            "whole": self.whole,
            "ops": f"{self.ops:x}",
            "outside": f"{self.outside:x}",
            "height": self.height,
        }
        if self.waist is None:
            return {**claim, "branches": [x.to_dict() for x in self.branches]}
        beyond = None if self.beyond is None else self.beyond.to_dict()
        return {**claim, "waist": self.waist, "inner": list(self.inner), "way": self.way, "beyond": beyond}


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
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

    ops: int
    outside: int
    height: int | None
    head: tuple[int, ...]
    tail: tuple[int, ...]
    backward: bool
    claims: tuple[int, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object."""
        return {
            "kind": "way",
            "ops": f"{self.ops:x}",
            "outside": f"{self.outside:x}",
            "height": self.height,
            "head": list(self.head),
            "tail": list(self.tail),
            "backward": self.backward,
            "claims": list(self.claims),
        }


Claim = Component | Way


@dataclass(frozen=True, slots=True, kw_only=True)
class DescentsProof:
    """Claims, each resting on earlier ones; the last one is about all ops."""

    kind: ClassVar[str] = "descents"
    blocks: tuple[Block, ...]
    claims: tuple[Claim, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object."""
        return {
            "kind": self.kind,
            "blocks": [x.to_dict() for x in self.blocks],
            "claims": [x.to_dict() for x in self.claims],
        }
