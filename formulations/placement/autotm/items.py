"""Items of AutoTM's program: tensors from one point of decision to the next, and the walks that they take."""

from __future__ import annotations

from dataclasses import dataclass

from ....models.problems.placement import Placement
from .steps import Role


@dataclass(frozen=True, kw_only=True)
class DecisionPoint:
    """A point of decision: the op (-1 at time 0, the number of ops at the end), and what it does."""

    op: int
    role: Role


@dataclass(frozen=True, kw_only=True)
class ItemLifetime:
    """A content in fixed bytes; of what must return and is overwritten, the first one and the last one.

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
    points: tuple[DecisionPoint, ...]
    last: int
    starts: tuple[int, ...]
    returns: bool

    @property
    def initial(self) -> bool:
        """Whether it is there at time 0."""
        return self.points[0].role is Role.START

    @property
    def unread(self) -> bool:
        """Whether it is there at time 0, where nobody needs it."""
        return self.initial and self.points[1].role in (Role.DROPPED, Role.MADE)


@dataclass(frozen=True, kw_only=True)
class TierPath:
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
        Whether its (first) content stays in the first tier; whether it has no bytes, and is simply there.
    """

    item: int
    points: tuple[DecisionPoint, ...]
    starts: tuple[int, ...]
    end: int
    pinned: bool
    fixed: bool = False

    @property
    def again(self) -> int:
        """The place of the point where the content behind the first one is made; else behind all points."""
        return next((i for i, x in enumerate(self.points) if i and x.role is Role.MADE), len(self.points))


def items_of(problem: Placement, window: int) -> tuple[ItemLifetime, ...]:
    """Return all items; they pass up to `window` ops on either side of those that access them."""
    graph, n = problem.graph, len(problem.graph.ops)
    names = [tier.name for tier in problem.machine.tiers]
    accesses: list[list[tuple[int, Role]]] = [[] for _ in graph.tensors]
    for k, op in enumerate(graph.ops):
        for t in sorted({*op.reads, *op.writes}):
            role = Role.USED if t not in op.writes else Role.UPDATED if t in op.reads else Role.MADE
            accesses[t].append((k, role))
    items = []
    for t, tensor in enumerate(graph.tensors):
        contents: list[list[tuple[int, Role]]] = [[(-1, Role.START)]] if tensor.initial else []
        for k, role in accesses[t]:
            if role is Role.MADE:
                contents.append([])
            contents[-1].append((k, role))
        allowed = problem.may_start(tensor.kind)
        if tensor.final and contents:
            contents[-1].append((n, Role.END))
        returns = problem.periodic and tensor.initial and tensor.final
        if returns and len(contents) > 1:
            first, last = contents[0], contents.pop()
            dropped = [(0, Role.DROPPED)] if len(first) == 1 and last[0][0] else []
            contents[0] = [*first, *dropped, *last]
        for number, points in enumerate(contents):
            if points == [(-1, Role.START)]:
                continue  # nobody needs that content
            items.append(
                ItemLifetime(
                    tensor=t,
                    nbytes=tensor.nbytes,
                    points=_points(points, window),
                    last=points[-1][0],
                    starts=tuple(i for i, name in enumerate(names) if name in allowed),
                    returns=returns and not number,
                )
            )
    return tuple(items)


def _points(users: list[tuple[int, Role]], window: int) -> tuple[DecisionPoint, ...]:
    """Return the points of decision: all users, and ops near these, each content by itself."""
    made = [i for i, (_, role) in enumerate(users) if role is Role.MADE and i]
    if made:
        return _points(users[: made[-1]], window) + _points(users[made[-1] :], window)
    taken = {k for k, _ in users}
    near = {
        k
        for user in taken
        for k in range(max(user - window, users[0][0] + 1), min(user + window, users[-1][0] - 1) + 1)
    }
    points = [DecisionPoint(op=k, role=role) for k, role in users]
    points += [DecisionPoint(op=k, role=Role.PASSED) for k in near - taken]
    return tuple(sorted(points, key=lambda point: point.op))
