r"""Lower bounds of a pipeline's makespan and span in closed form.

Data. Stage s takes :math:`f_s, b_s, w_s` ns on device :math:`d_s`, and has :math:`a_s` bytes there, of which
:math:`\omega_s` until W; m micro-batches; :math:`c_s` the latency between stages s and s+1, 0 on one device.
:math:`Q_s = \sum_{k<s} (f_k + c_k)` is how long a micro-batch takes until F of stage s can start,
:math:`R_s = \sum_{k \ge s} (f_k + b_k) + 2 \sum_{k \ge s} c_k` from there until B of stage s has ended.
:math:`I_i` is the time from the first start to the last end on device i, :math:`M_i` its memory without what
is there all the time.

1. Busy: :math:`I_i \ge m \sum_{d_s = i} (f_s + b_s + w_s)`, as a device runs one op at a time.
2. Memory: :math:`M_i I_i \ge m \sum_{d_s = i} ((a_s - \omega_s) R_s + \omega_s (R_s + w_s))`. *Proof.* The
   activations of a micro-batch are on the device from the start of F, :math:`a_s - \omega_s` of them until B
   and :math:`\omega_s` until W has ended; the ops in between follow one another, so the one takes at least
   :math:`R_s`, the other :math:`R_s + w_s`. All that lies within the device's first start and last end, and
   there are at most :math:`M_i` bytes of them at any time.
3. Head and tail: the first op on device i is an F of one of its stages, so that it does not start before
   :math:`\min_{d_s = i} Q_s`. The last one is a B or W; after a B without W the micro-batch still has all B
   of the stages before, :math:`\sum_{k<s} (b_k + c_k)`, and the W of stage 0 if it has one. So the makespan
   is at least head + :math:`I_i` + tail, with tail 0 if some stage of the device has a W.
4. One micro-batch: :math:`I_i \ge R_s + w_s` for each stage s on device i, and the makespan is at least
   :math:`Q_s + R_s + w_s`.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

from ...models.problems.pipeline import Pipeline


class Bound(NamedTuple):
    """A lower bound in ns, and what proves it."""

    value: int
    kind: str


def lower_bound(problem: Pipeline) -> Bound:
    """Return the best of the bounds of the page."""
    stages, m = problem.line.stages, problem.line.micro
    n = len(stages)
    c = [problem.latency_ns * (a.device != b.device) for a, b in pairwise(stages)]
    ahead, back, around = [0] * n, [0] * n, [0] * n
    for s in range(1, n):
        ahead[s] = ahead[s - 1] + stages[s - 1].forward + c[s - 1]
        back[s] = back[s - 1] + stages[s - 1].backward + c[s - 1]
    for s in reversed(range(n)):
        later = around[s + 1] + 2 * c[s] if s + 1 < n else 0
        around[s] = stages[s].forward + stages[s].backward + later
    makespan = problem.objective == "makespan"
    bounds = [
        Bound(makespan * ahead[s] + around[s] + x.weight, "one micro-batch") for s, x in enumerate(stages)
    ]
    for chunk, room in zip(problem.line.chunks, problem.room, strict=True):
        mine = [(s, stages[s]) for s in chunk]
        head = tail = 0
        if makespan:
            head = min(ahead[s] for s in chunk)
            if not any(x.weight for _, x in mine):
                tail = min(back[s] + (stages[0].weight if s else 0) for s in chunk)
        busy = m * sum(x.forward + x.backward + x.weight for _, x in mine)
        bounds.append(Bound(head + busy + tail, "busiest device"))
        if room is not None and room > 0:
            held = sum(x.activation * around[s] + x.kept * x.weight for s, x in mine)
            bounds.append(Bound(head - (-m * held // room) + tail, "memory of a device"))
    return max(bounds)
