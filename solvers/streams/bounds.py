r"""What every run of a graph on one device, or on D equal ones, takes at least.

Let :math:`w_i` be the time of op i alone, :math:`u_i` its share of the device, C the longest path of times
(with `sync_ns` nowhere), :math:`W = \sum_i w_i` and :math:`A = \sum_i u_i w_i`.

- Each op takes at least :math:`w_i`, and ops on a path do not overlap: at least C. On k streams at most k ops
  run at a time: at least W / k. Of several devices, k counts the streams of all.
- ``proportional``: at a time the rates of what runs, each at most 1, sum with their shares to at most 1; so
  a device does at most 1 of A in a ns, and D of them D: at least A / D.
- Without stages, work before ops: let :math:`h_i` be a time before which op i does not start. What precedes
  op v and starts at x or later is done between x and the start of v. So this start is not before x and the
  sum of :math:`u_i w_i` over D, nor before x and the sum of :math:`w_i` over k, both over the ops i that
  precede v with :math:`h_i \ge x`; nor is it before :math:`h_i + w_i` of an op i that precedes it. The latest
  of these, rounded up as starts are whole ns, is :math:`h_v`, one op after another; :math:`t_v` is the same
  from the end backwards. So all takes at least :math:`h_v + w_v + t_v`, and h of an op that would follow all
  others. Runs may be stretched: nothing is said of how fast they go on at a time.
- Stages: the ops of a path that stand in one stage stand in one group, so the longest groups sum to at least
  C, and of at most k groups the longest has at least a k-th of the stage. ``fluid`` stages take at least the
  longest group, and the stage's part of A: at least max(C, A, W / k). ``half-serial`` ones take half the sum
  of that and of their part of W: at least (W + max(C, A, W / k)) / 2.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ...models.derived.precedence import precedence
from ...models.lowering.streams import share_of
from ...models.problems.streams import Streams
from ..context import Context

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MOST_OPS = 3000
"""Ops up to which the work before each is looked at: it takes time and memory quadratic in them."""


def critical_path(problem: Streams, ops: Iterable[int] | None = None) -> int:
    """Return the longest path, in ns; if some ops are given, in their order, that of these alone."""
    before, ends = precedence(problem.graph).predecessors, dict[int, int]()
    for i in range(len(problem.durations)) if ops is None else ops:
        ends[i] = problem.durations[i] + max((ends.get(j, 0) for j in before[i]), default=0)
    return max(ends.values(), default=0)


def least_time(problem: Streams, ops: Sequence[int]) -> int:
    """Return what ops, in their order, take at least by paths, work and area, in ns."""
    work, count = sum(problem.durations[i] for i in ops), problem.devices
    least = critical_path(problem, ops)
    if problem.streams is not None:
        least = max(least, -(-work // (problem.streams * count)))
    if problem.contention != "none":
        parts = problem.device.parts
        area = sum(problem.durations[i] * share_of(problem.graph, i, parts) for i in ops)
        least = max(least, -(-area // (parts * count)))
    return -(-(work + least) // 2) if problem.contention == "half-serial" else least


def work_before(problem: Streams) -> int:
    """Return the bound by the work before ops, in ns; 0 for stages, and where no work is bounded.

    Examples
    --------
    Two ops in the middle that fill the device, one after another, between two that do not:

    >>> import lowtide as lt
    >>> after = ((), (0,), (0,), (1, 2))
    >>> ops = [lt.Op(name=str(i), after=a, duration_ns=4, share=1 + i % 3) for i, a in enumerate(after)]
    >>> work_before(lt.Streams(lt.Graph(name="g", tensors=(), ops=ops), contention="proportional", parts=3))
    15
    """
    import numpy as np

    times, parts, n = problem.durations, problem.device.parts, len(problem.durations)
    rates: list[tuple[list[int], int]] = []
    if problem.contention == "proportional":
        work = [ns * share_of(problem.graph, i, parts) for i, ns in enumerate(times)]
        rates.append((work, parts * problem.devices))
    if problem.streams is not None:
        rates.append((list(times), problem.streams * problem.devices))
    if problem.device.staged or n > MOST_OPS or any(sum(some) >= 2**62 for some, _ in rates):
        return 0
    if not rates or not n:
        return 0
    order, own = precedence(problem.graph), np.array(times, dtype=np.int64)
    efforts = [(np.array(some, dtype=np.int64), most) for some, most in rates]
    head = _earliest(range(n), order.predecessors, order.ancestors, own, efforts)
    tail = _earliest(range(n)[::-1], order.successors, order.descendants, own, efforts)
    return max(int((head[:n] + own + tail[:n]).max()), int(head[n]))


def _earliest(
    ops: Sequence[int],
    direct: Sequence[Sequence[int]],
    all_before: Sequence[int],
    times: NDArray[np.int64],
    efforts: Sequence[tuple[NDArray[np.int64], int]],
) -> NDArray[np.int64]:
    """Return h of each op, and last that of what would follow all of them.

    Parameters
    ----------
    ops
        In an order that obeys the precedence `direct`, whose closure is `all_before` as bits.
    efforts
        What ops do of something, and how much of it can be done in a ns.
    """
    import numpy as np

    n = len(ops)
    earliest = np.zeros(n + 1, dtype=np.int64)
    for v in (*ops, n):
        mask = (1 << n) - 1 if v == n else all_before[v]
        bytes_of = np.frombuffer(mask.to_bytes((n + 7) // 8, "little"), dtype=np.uint8)
        before = np.flatnonzero(np.unpackbits(bytes_of, count=n, bitorder="little"))
        before = before[np.argsort(-earliest[before], kind="stable")]
        latest = max((int(earliest[i] + times[i]) for i in (ops if v == n else direct[v])), default=0)
        for effort, most in efforts if len(before) else ():
            latest = max(latest, int((earliest[before] - (-np.cumsum(effort[before]) // most)).max()))
        earliest[v] = latest
    return earliest


def raise_first_bound(problem: Streams, context: Context) -> None:
    """Raise the bound to what the module's docstring proves, once."""
    if not context.once("first bound"):
        return
    least = least_time(problem, range(len(problem.durations)))
    kind = "critical path" if least == critical_path(problem) else "work"
    context.raise_bound(least, "exact", kind=kind)
    if not context.expired:
        context.raise_bound(work_before(problem), "exact", kind="work before ops")
