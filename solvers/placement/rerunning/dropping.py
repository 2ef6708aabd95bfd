"""Values that are dropped and made again, and the sequences of runs in which they are.

A value is absent between two ops that access it, or *dead*: no op reads it any more. What is absent is made
again where a run needs it, by its writer, and before that what the writer reads and is absent.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from ....formulations.recompute.data import RecomputeData


@dataclass(frozen=True, kw_only=True)
class Droppable:
    """A value that can be made again: the op that makes it, the op for which, and the price.

    Attributes
    ----------
    value, before, behind
        Its number; its absence is between these two ops, of which the second one reads it.
    price
        ns of the run for each byte.
    """

    value: int
    before: int
    behind: int
    price: float


def may_run_again(data: RecomputeData, w: int, now: int) -> bool:
    """Return whether a run of op w just before op `now` finds the versions that its first run found.

    What it leaves then has no other versions, and what it reads was not overwritten.
    """
    if any(data.values[v].rivals for v in data.writes[w]):
        return False
    rivals = (data.values[r].writer for v in data.reads[w] for r in data.values[v].rivals)
    return not any(i is not None and w <= i < now for i in rivals)


def droppable(data: RecomputeData) -> list[Droppable]:
    """Return what can be dropped in its longest absence and made again behind it, the cheapest first."""
    clock = list(accumulate(data.duration, initial=0))
    candidates = []
    for u, x in enumerate(data.values):
        w = x.writer
        if w is None or not x.nbytes:
            continue
        absences = [(clock[c] - clock[a + 1], a, c) for a, c in pairwise((w, *x.readers)) if c > a + 1]
        if not absences:
            continue
        _, a, c = max(absences)
        if may_run_again(data, w, c):
            price = data.ns(data.duration[w]) / (x.nbytes * data.unit)
            candidates.append(Droppable(value=u, before=a, behind=c, price=price))
    return sorted(candidates, key=lambda d: (d.price, d.value))


def is_dead(data: RecomputeData, u: int, now: int) -> bool:
    """Return whether a value has bytes, and neither op `now` nor one behind it reads it, nor the end."""
    x = data.values[u]
    return bool(x.nbytes) and not x.final and (not x.readers or x.readers[-1] < now)


def with_dropped(
    data: RecomputeData,
    dropped: Sequence[Droppable],
    *,
    again: Container[int] = (),
    kept: Container[int] | None = None,
) -> list[int]:
    """Return each op once, and before the op behind an absence the runs that make again what is dropped.

    Parameters
    ----------
    data, dropped
        Of the graph.
    again
        Ops that run again where what they have made is dead, too. What others have made stays instead.
    kept
        Values that stay where they were made for others before the op behind their absence; then they are
        there. The others are made once more. None: all stay.

    Examples
    --------
    >>> import lowtide as lt
    >>> from lowtide.formulations.recompute.data import recompute_data
    >>> data = recompute_data(lt.Recompute(lt.load("gen:backprop-chain?l=3")))
    >>> some = [d for d in droppable(data) if d.value in (1, 2)]
    >>> with_dropped(data, some)
    [0, 1, 2, 3, 0, 1, 4, 5, 6]
    >>> with_dropped(data, some, kept=())
    [0, 1, 2, 3, 0, 1, 4, 0, 5, 6]
    """
    runs: list[int] = []
    absent_from = {d.value: d.before for d in dropped}
    wanted: dict[int, list[int]] = {}
    for d in dropped:
        wanted.setdefault(d.behind, []).append(d.value)
    made = set[int]()

    def absent(u: int, now: int) -> bool:
        w = data.values[u].writer
        if absent_from.get(u, now) < now:
            return True
        return w is not None and w in again and is_dead(data, u, now) and may_run_again(data, w, now)

    for i in range(data.n):
        here = set[int]()  # made for this op
        todo = [(u, False) for u in reversed(wanted.get(i, ()))]
        while todo:
            v, ready = todo.pop()
            w = data.values[v].writer
            if v in made or v in here or w is None:
                continue
            if ready:
                runs.append(w)
                here.update(data.writes[w])
                continue
            todo.append((v, True))
            todo += [(x, False) for x in data.reads[w] if absent(x, i)]
        made.update(u for u in here if kept is None or u in kept)
        made.update(wanted.get(i, ()))
        runs.append(i)
    return runs
