r"""What every run of a graph on one device takes at least.

Let :math:`w_i` be the time of op i alone, :math:`u_i` its share of the device, C the longest path of times
(with `sync_ns` nowhere), :math:`W = \sum_i w_i` and :math:`A = \sum_i u_i w_i`.

- Each op takes at least :math:`w_i`, and ops on a path do not overlap: at least C. On k streams at most k ops
  run at a time: at least W / k.
- ``proportional``: at a time the rates of what runs, each at most 1, sum with their shares to at most 1; so
  the device does at most 1 of A in a ns: at least A.
- Stages: the ops of a path that stand in one stage stand in one group, so the longest groups sum to at least
  C, and of at most k groups the longest has at least a k-th of the stage. ``fluid`` stages take at least the
  longest group, and the stage's part of A: at least max(C, A, W / k). ``half-serial`` ones take half the sum
  of that and of their part of W: at least (W + max(C, A, W / k)) / 2.
"""

from __future__ import annotations

from ...models.derived.precedence import precedence
from ...models.problems.streams import Streams
from ..context import Context


def critical_path(problem: Streams) -> int:
    """Return the longest path, in ns."""
    ends = [0] * len(problem.durations)
    for i, before in enumerate(precedence(problem.graph).predecessors):
        ends[i] = problem.durations[i] + max((ends[j] for j in before), default=0)
    return max(ends, default=0)


def raise_first_bound(problem: Streams, context: Context) -> None:
    """Raise the bound to what the module's docstring proves."""
    path, work = critical_path(problem), sum(problem.durations)
    parts = problem.device.parts
    least = path if problem.streams is None else max(path, -(-work // problem.streams))
    if problem.contention != "none":
        least = max(least, -(-problem.area // parts))
    if problem.contention == "half-serial":
        least = -(-(work + least) // 2)
    kind = "critical path" if least == path else "work"
    context.raise_bound(least, "exact", kind=kind)
