r"""A lower bound of a batch's makespan over all partitions, all recomputation and all schedules.

Data. Layers :math:`1, …, L` in a row, :math:`f_l` ns forward, :math:`\sigma_l` bytes of states; of each way k
what B and W take, :math:`b_{lk}, w_{lk}`, the bytes :math:`a_{lk}` from the start of F until B has ended and
:math:`u_{lk}` of its buffer. p devices of M bytes, one stage on each, at least one layer in each; m
micro-batches; c ns of latency between devices. A stage may also run again in one go: it keeps the input of
its first layer alone, and B takes the time of F of all its layers, too, of the last one that of its stash.

Of stage s = 0, …, p - 1 with layers :math:`i + 1, …, j`: :math:`H = \sum_{l \le i} f_l + s c` is how long a
micro-batch takes at least until its F can start; D how long from the end of its B to that of B of the first
stage: B of all layers before, and messages; R from the start of its F to the end of its B: F and B of all
layers from it on, and messages. :math:`N = M - \sum \sigma_l - \max_l \min_k u_{lk}` bytes are left for
activations. For any schedule of makespan T, with sums over the stage's layers in their ways,

1. :math:`H + m \sum (f + b + w) \le T`;
2. :math:`H + m \sum (f + b) + D \le T`;
3. with :math:`q = \lfloor (T - H - D) / R \rfloor`: :math:`q \ge 1`, and
   :math:`\sum a \le A = \lfloor N / \lceil m / q \rceil \rfloor`.

*Proof.* No F of the stage starts before H. Its last B ends by T - D: behind it that micro-batch has B of
all earlier layers and s messages. Its device runs one op at a time: all of them in [H, T], F and B in [H,
T - D]. Each micro-batch has its activations there for R or longer, inside [H, T - D]. If at most k have
them at a time, these intervals go into k rows without overlaps, of at most q each: so :math:`m \le k q`, and
k times :math:`\sum a` fit N.

For all of some weights :math:`\alpha, \beta, \gamma \ge 0` a stage in ways therefore has

.. math:: \sum_l \min_k \big(\alpha a_{lk} + \beta (b_{lk} + w_{lk}) + \gamma b_{lk}\big) \le
   \alpha A + \beta \big(\lfloor \tfrac{T - H}{m} \rfloor - F\big) + \gamma \sum b,

with :math:`F = \sum f`, and :math:`\sum b \le \lfloor (T - H - D) / m \rfloor - F` (the rows weighted and
summed up, which bounds all ways at once: a Lagrangian of their linear relaxation). So :math:`\sum b` is at
least a number, or the stage is impossible; a stage in one go has one :math:`\sum b`, and either satisfies 1
to 3 or does not. The weights are those at which some layer's ways cost the same.

The bound is the least T for which cuts are possible. From the last stage on, with :math:`D = \sum_{l \le i}
\min_k b_{lk} + s c`, the least :math:`\sum b` of all later stages is summed up over cuts; from the first
one on, with R of these, the least D. All rows are the weaker the less D and R are, and the larger T is: so
sums of least numbers are right, and bisection finds T. A micro-batch alone takes :math:`\sum (f_l + \min_k
b_{lk}) + 2 (p - 1) c`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate, permutations

from ...models.derived.layers import Joint, Layer
from ..model import BuildTimeout

UNIT = 1024
"""The weight of a byte; those of ns are integers beside it."""


def joint_bound(asked: Joint, upper: int, tick: Callable[[], object] = lambda: None) -> int | None:
    """Return the bound in ns, at most `upper`; None: no stages fit the memory.

    Parameters
    ----------
    upper
        A makespan that is reached or that nobody asks beyond; what comes out is no larger.
    tick
        Is called again and again; where it raises `BuildTimeout`, the bound is what is proved by then.
    """
    low, high = min(_alone(asked), upper), upper
    try:
        data = _Data(asked, tick)
        if not data.possible(1 << 200):
            return None
        if low >= high or not data.possible(high - 1):
            return high
        while low < high:
            middle = (low + high) // 2
            if data.possible(middle):
                high = middle
            else:
                low = middle + 1
    except BuildTimeout:  # no makespan below `low` is possible
        pass
    return low


def _alone(asked: Joint) -> int:
    """Return how long a micro-batch alone takes at least."""
    work = sum(x.forward + min(y.backward for y in x.ways) for x in asked.layers)
    return work + 2 * (asked.devices - 1) * asked.latency_ns


def _prefix(values: Sequence[int]) -> list[int]:
    return list(accumulate(values, initial=0))


class _Data:
    """The sums of the page, from the first layer on."""

    def __init__(self, asked: Joint, tick: Callable[[], object]) -> None:
        layers, self.tick = asked.layers, tick
        self.asked, self.count = asked, len(layers)
        self.forward = _prefix([x.forward for x in layers])
        self.back = _prefix([min(y.backward for y in x.ways) for x in layers])
        self.states = _prefix([x.states for x in layers])
        self.buffer = [min(y.buffer for y in x.ways) for x in layers]
        self.at_once = _prefix([x.ways[0].backward + x.ways[0].weight + x.forward for x in layers])
        self.least = _prefix([min(y.backward + y.weight for y in x.ways) for x in layers])
        weights = {(0, 1, 0), (0, 0, 1), (0, 1, 1)}
        if asked.memory is not None:
            weights |= {(1, 0, 0)}
            for y, z in (pair for x in layers for pair in permutations(x.ways, 2)):
                nbytes, late = y.activation - z.activation, z.backward - y.backward
                both = late + z.weight - y.weight
                for beta, gamma in ((both, 0), (0, late), (both + late, both + late)):
                    if nbytes > 0 and beta + gamma > 0:
                        rate = UNIT * nbytes // max(beta, gamma)
                        weights.add((UNIT, rate * (beta > 0), rate * (gamma > 0)))
        self.weighted: list[tuple[int, int, int, list[int]]] = []
        for weight in sorted(weights):
            tick()
            self.weighted.append((*weight, _prefix([_least(x, *weight) for x in layers])))

    def possible(self, most: int) -> bool:
        """Return whether some cuts satisfy the page's rows for T = `most`."""
        p, count, c = self.asked.devices, self.count, self.asked.latency_ns
        behind: dict[int, int] = {count: 0}
        later = [behind]  # by stage: by its first layer, the least time of B from there on
        for s in reversed(range(p)):
            possible: dict[int, int] = {}
            for i in range(s, count):
                for j, rest in behind.items():
                    if i < j and (i == 0) == (s == 0):
                        back = self._back(s, i, j, most, self.back[i] + s * c, rest)
                        if back is not None:
                            possible[i] = min(possible.get(i, back + rest), back + rest)
            behind = possible
            later.append(behind)
        ahead = {0: 0}
        for s in range(p):
            after: dict[int, int] = {}
            rests = later[p - 1 - s]
            for i, before in ahead.items():
                for j, rest in rests.items():
                    if i < j:
                        back = self._back(s, i, j, most, before + s * c, rest)
                        if back is not None:
                            after[j] = min(after.get(j, before + back), before + back)
            ahead = after
        return count in ahead

    def _back(self, s: int, i: int, j: int, most: int, tail: int, rest: int) -> int | None:
        """Return the least time of B of stage s with layers i to j - 1; None if it cannot have them.

        Parameters
        ----------
        tail, rest
            D, and the least time of B behind the stage.
        """
        self.tick()
        asked, m = self.asked, self.asked.micro
        window = most - self.forward[i] - s * asked.latency_ns
        work = self.forward[j] - self.forward[i]
        whole, until = window // m - work, (window - tail) // m - work
        least = self.back[j] - self.back[i]
        if least > until or self.least[j] - self.least[i] > whole:
            return None
        free = None
        if asked.memory is not None:
            free = asked.memory - (self.states[j] - self.states[i]) - max(self.buffer[i:j])
        around = self.forward[-1] - self.forward[i] + rest + 2 * (asked.devices - 1 - s) * asked.latency_ns

        def room(back: int) -> int:
            """Return A if B takes so long; -1 if even one micro-batch takes too long."""
            times = (window - tail) // (around + back)
            return -1 if free is None or times < 1 else free // -(-m // times)

        last = asked.layers[j - 1]
        back = self.at_once[j] - self.at_once[i] - last.forward + last.again
        once = back <= min(whole, until) and (free is None or asked.layers[i].input <= room(back))
        found = least
        for _ in range(2):  # a longer B leaves less room, and so makes B longer
            space = 0 if free is None else room(found)
            if free is not None and space < 0:
                found = until + 1
            for alpha, beta, gamma, sums in self.weighted:
                short = sums[j] - sums[i] - alpha * space - beta * whole
                if gamma:
                    found = max(found, -(-short // gamma))
                elif short > 0:
                    found = until + 1
            if found > until:
                return back if once else None
        return min(found, back) if once else found


def _least(layer: Layer, alpha: int, beta: int, gamma: int) -> int:
    """Return the least weighted sum of a layer's bytes, its time of B and W, and of B."""
    return min(alpha * y.activation + (beta + gamma) * y.backward + beta * y.weight for y in layer.ways)
