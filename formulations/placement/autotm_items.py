"""Items of AutoTM's program: tensors from one point of decision to the next, and the walks that they take."""

from __future__ import annotations

from dataclasses import dataclass

from .autotm_steps import Role


@dataclass(frozen=True, kw_only=True)
class Point:
    """A point of decision: the op (-1 at time 0, the number of ops at the end), and what it does."""

    op: int
    role: Role


@dataclass(frozen=True, kw_only=True)
class Lifetime:
    """A content in fixed bytes.

    Attributes
    ----------
    tensor, nbytes
        Which tensor it is a content of, and its size.
    points
        Where the model decides, ascending.
    last
        The last op of its life, the number of ops if it is kept.
    starts
        The tiers where it may be at time 0 (if it is there at all then).
    returns
        Whether it must end where it started.
    """

    tensor: int
    nbytes: int
    points: tuple[Point, ...]
    last: int
    starts: tuple[int, ...]
    returns: bool

    @property
    def initial(self) -> bool:
        """Whether it is there at time 0."""
        return self.points[0].role is Role.START


@dataclass(frozen=True, kw_only=True)
class Walk:
    """An item's way through its points, up to where it is at time 0.

    Attributes
    ----------
    item
        Its number.
    points
        Where steps are chosen: those of the item; of a pinned one without those that it passes.
    starts, end
        States in which it may be at time 0, if it is there; the state that it must at least have at the end.
    pinned, fixed
        Whether it stays in the first tier until its last point; whether it has no bytes, and is simply there.
    """

    item: int
    points: tuple[Point, ...]
    starts: tuple[int, ...]
    end: int
    pinned: bool
    fixed: bool = False
