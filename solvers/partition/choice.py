r"""Cuts of the reference order, and with them which forward ops run again (``recompute=choose``).

With u the devices of each kind that are used behind class i, and :math:`q = \sum u` the stages,

.. math:: f(i, u + e_k) = \min_{j > i} \max(f(j, u), W_k(i, j) + R_k(i, j, q)),

where :math:`W_k` is the load of classes :math:`i + 1 \dots j` on kind k and :math:`R_k` the least time of ops
that run again so that they fit. Of a stage with h bytes of initial tensors, e bytes that enter it and
:math:`a_r` that op r makes for backward ops there, with :math:`\phi` micro-batches under way,

.. math:: h + \phi \Big(e + \sum_{r \notin A} a_r\Big) + \max_{r \in A} a_r \le M.

For each threshold on the last term a knapsack: the least time of ops below it with enough bytes. For the time
of a batch there is no such program here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...formulations.partition.data import PartitionData
from ...models.problems.partition import Partition
from ...models.split import HOST
from ..context import Context, Outcome

Choice = tuple[int, tuple[int, ...]]
"""Time of ops that run again, and these ops."""


def least_time(
    ops: Sequence[tuple[int, int, int]],
    copies: int,
    room: int,
    expired: Callable[[], bool] = lambda: False,
) -> Choice | None:
    """Return the least time of ops to run again, None if no choice fits or the time is up.

    Parameters
    ----------
    ops
        Op, bytes that it makes for the backward pass, time in ns.
    copies
        Micro-batches whose bytes are kept, at least 1.
    room
        Bytes for what is kept, and the most that an op makes again.
    expired
        Whether the time is up; asked before each op.

    Examples
    --------
    >>> from lowtide.solvers.partition.choice import least_time
    >>> least_time([(0, 5, 10), (1, 3, 2), (2, 4, 3)], 2, 24), least_time([(0, 5, 10), (1, 3, 2)], 2, 15)
    ((0, ()), (2, (1,)))
    """
    total = copies * sum(nbytes for _, nbytes, _ in ops)
    if total <= room:
        return 0, ()
    best: Choice | None = None
    for most in sorted({nbytes for _, nbytes, _ in ops if nbytes}):
        needed = total + most - room
        front: dict[int, Choice] = {0: (0, ())}  # by bytes that are no longer kept, up to what is needed
        for op, nbytes, time in ops:
            if not 0 < nbytes <= most:
                continue
            if expired():
                return None
            more = dict(front)
            for freed, (spent, some) in front.items():
                to = min(freed + copies * nbytes, needed)
                if to not in more or more[to][0] > spent + time:
                    more[to] = spent + time, (*some, op)
            front, least = {}, None
            for freed, choice in sorted(more.items(), reverse=True):
                if least is None or choice[0] < least:
                    front[freed], least = choice, choice[0]
        if needed in front and (best is None or front[needed][0] < best[0]):
            best = front[needed]
    return best


def solve_choice(problem: Partition, data: PartitionData, context: Context, *, exact: bool) -> Outcome:
    """Offer the best cuts; `exact` says that there are no others."""
    if problem.objective != "load" or problem.replicate > 1:
        return Outcome(detail="what runs again is chosen for the largest load of stages without replicas")
    count, kinds = data.n, range(len(data.kinds))
    best: list[dict[tuple[int, ...], tuple[int, int, int, Choice]]] = [{} for _ in range(count + 1)]
    best[count][(0,) * len(data.kinds)] = (0, count, 0, (0, ()))
    for i in range(count - 1, -1, -1):
        for j in range(i + 1, count + 1):
            if context.expired:
                return Outcome(reason="time")
            stage = _stage(problem, data, i, j)
            known: dict[tuple[int, int], Choice | None] = {}
            for used, (behind, *_) in best[j].items():
                for k in kinds:
                    work = stage.work[k]
                    if work is None or used[k] == data.kinds[k][1]:
                        continue
                    copies = (
                        problem.micro if problem.schedule == "gpipe" else min(problem.micro, sum(used) + 1)
                    )
                    if (k, copies) not in known:
                        known[k, copies] = stage.choice(problem, data, k, copies, context)
                    again = known[k, copies]
                    to = (*used[:k], used[k] + 1, *used[k + 1 :])
                    if again is not None:
                        value = max(behind, work + again[0])
                        if to not in best[i] or value < best[i][to][0]:
                            best[i][to] = value, j, k, again
    if context.expired:
        return Outcome(reason="time")
    if not best[0]:
        words = "no stages on these devices are valid" if exact else "no cuts of the reference order are"
        return Outcome(infeasible=exact, detail=words)
    used = min(best[0], key=lambda some: best[0][some][0])
    stage_of, i = [0] * count, 0
    names: list[str] = []
    chosen: list[int] = []
    while i < count:
        _, j, k, (_, some) = best[i][used]
        stage_of[i:j] = [len(names)] * (j - i)
        names.append(data.kinds[k][0])
        chosen += some
        used = (*used[:k], used[k] - 1, *used[k + 1 :])
        i = j
    context.offer(data.split(stage_of, names, again=tuple(sorted(chosen))))
    if exact and context.incumbent is not None:
        context.raise_bound(context.incumbent, kind="chain")
    return Outcome()


@dataclass(frozen=True)
class _Stage:
    """A stage of classes that follow each other.

    Attributes
    ----------
    work
        By kind: its time in ns, None if it cannot run there.
    fixed, entering, made
        Bytes of initial tensors; that enter; by forward op, for backward ops here.
    """

    work: tuple[int | None, ...]
    fixed: int
    entering: int
    made: dict[int, int]

    def choice(
        self, problem: Partition, data: PartitionData, k: int, copies: int, context: Context
    ) -> Choice | None:
        """Return what runs again on kind k with so many micro-batches under way."""
        kind = data.kinds[k][0]
        if problem.memory is None or kind == HOST:
            return 0, ()
        if problem.schedule == "none":
            return (0, ()) if self.fixed <= problem.memory else None
        ops = [(i, nbytes, problem.modes[i][kind][0]) for i, nbytes in sorted(self.made.items())]
        room = problem.memory - self.fixed - copies * self.entering
        return least_time(ops, copies, room, lambda: context.expired)


def _stage(problem: Partition, data: PartitionData, i: int, j: int) -> _Stage:
    """Return the stage of classes i to j - 1."""
    here = range(i, j)
    entering = transfers = 0
    made: dict[int, int] = {}
    for v in data.passed:
        inside = [r in here for r in v.readers]
        if v.writer in here:
            transfers += 0 if all(inside) else v.time
            if any(r in here for r in v.kept):
                made[v.maker] = made.get(v.maker, 0) + v.nbytes
        elif any(inside):
            transfers += v.time
            entering += v.nbytes if v.forward else 0
    work = []
    for k, (kind, _) in enumerate(data.kinds):
        times = [data.times[c][k] for c in here]
        able = None not in times
        work.append(sum(t or 0 for t in times) + (0 if kind == HOST else transfers) if able else None)
    held = {t for c in here for t in data.held[c]}
    return _Stage(tuple(work), sum(data.sizes[t] for t in held), entering, made)
