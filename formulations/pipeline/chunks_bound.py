r"""A lower bound of a batch's makespan over all partitions into any number of stages on each device.

Data and letters are those of `lowtide.formulations.pipeline.joint_bound`, layers :math:`l = 0, …, L - 1`.
Here each of the p devices has one stage or more, in any places: one each, in rounds (interleaved 1F1B), there
and back (V-Min, V-Half, V-ZB), or others; all recomputation, all schedules. With :math:`\phi_l = \sum_{k < l}
f_k`, :math:`\beta_l = \sum_{k < l} \min b_k`, :math:`R_l = \sum_{k \ge l} (f_k + \min b_k)` and
:math:`S = p M - \sum \sigma`, for each schedule of makespan T:

1. :math:`\phi_l + m (f_l + \min_k (b_{lk} + w_{lk})) \le T` and
   :math:`\phi_l + m (f_l + \min_k b_{lk}) + \beta_l \le T` for each layer;
2. for all rational :math:`\lambda \ge 0`, over the ways of each layer and the one more of a stage that runs
   again in one go, with :math:`a = 0` and with :math:`\min(f_l, g_l)` besides :math:`b + w` of the first way,
   :math:`g_l` the time in which a stash is made again:

.. math:: (p + \lambda S)\, T \ge m \sum_l \Big(f_l + \min_k (b_{lk} + w_{lk} + \lambda R_l a_{lk})\Big)
   + \sum_{i < p} (\phi_i + i c),

   and the same without w (but in the further way) with :math:`\phi_i + \beta_i + 2 i c` in the last sum.

*Proof.* Think of the ops of a stage as made of those of its layers in a row, B in reverse.

1. A layer is on one device, which runs one op at a time. None of its m F begins before all layers before it
   have run F of that micro-batch. The last of its B is followed by B of all layers before it.
2. Let the devices stand in the order of their first layers. That of device i, from 0 on, is layer i or a
   later one, and before it a micro-batch has been on the i devices before: so no op of device i begins before
   :math:`\phi_i + i c`, and its last B has :math:`\beta_i + i c` behind it. The times of all ops on p
   devices, and these, in which they do nothing, add up to at most p T. What a stage keeps of a micro-batch
   for layer l is there for :math:`R_l` at least: F and B of that layer and of all behind it. So
   :math:`m \sum_l R_l a_l \le S T`: bytes times ns of all devices without the states. In a stage that runs
   again in one go all layers but the last take F once more, that one what its stash takes, and all but the
   first keep nothing. So :math:`\lambda` times this row and the former one sum up to no less than is said.

A micro-batch alone takes :math:`\sum (f_l + \min_k b_{lk}) + 2 (p - 1) c`. Weights :math:`\lambda` at which
two ways of a layer cost the same are enough: between them the bound is a ratio of linear functions, so the
greatest is at one of them, 0, or without end.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import accumulate, permutations

from ...models.derived.layers import Joint, Layer


def chunks_bound(asked: Joint) -> int | None:
    """Return the bound in ns; None: all states exceed all memory, or devices are more than layers.

    Examples
    --------
    >>> from lowtide.models.derived.layers import Layer, Retention
    >>> keep = Retention(name="keep", backward=2, weight=0, activation=1, kept=0, buffer=0)
    >>> layer = Layer(name="", forward=1, states=0, input=0, again=1, stash=1, ways=(keep,))
    >>> chunks_bound(Joint(layers=(layer,) * 4, devices=2, micro=2, memory=None, latency_ns=0))
    15
    """
    layers, p, m, c = asked.layers, asked.devices, asked.micro, asked.latency_ns
    if p > len(layers):
        return None
    back = [min(way.backward for way in x.ways) for x in layers]
    ahead = [*accumulate((x.forward for x in layers), initial=0)]
    behind = [*accumulate(back, initial=0)]
    whole = ahead[-1] + behind[-1]
    bounds = [whole + 2 * (p - 1) * c]
    for i, x in enumerate(layers):
        least = min(way.backward + way.weight for way in x.ways)
        bounds += [ahead[i] + m * (x.forward + least), ahead[i] + m * (x.forward + back[i]) + behind[i]]
    free = None if asked.memory is None else p * asked.memory - sum(x.states for x in layers)
    if free is not None and free < 0:
        return None
    for split in (False, True):
        idle = sum(ahead[i] + i * c + split * (behind[i] + i * c) for i in range(p))
        options = [[*_options(x, split)] for x in layers]
        stays = [whole - ahead[i] - behind[i] for i in range(len(layers))]
        for rate in _rates(options, stays) if free is not None else {Fraction(0)}:
            up, down = rate.as_integer_ratio()
            work = sum(
                down * x.forward + min(down * time + up * stay * nbytes for time, nbytes in some)
                for x, some, stay in zip(layers, options, stays, strict=True)
            )
            bounds.append(-(-(m * work + down * idle) // (p * down + up * (free or 0))))
    return max(bounds)


def _options(x: Layer, split: bool) -> Iterator[tuple[int, int]]:
    """Yield time, with W unless `split`, and bytes of a layer in each of its ways, and in one go."""
    yield from ((way.backward + (not split) * way.weight, way.activation) for way in x.ways)
    first = x.ways[0]
    yield first.backward + first.weight + min(x.forward, x.again), 0


def _rates(options: list[list[tuple[int, int]]], stays: list[int]) -> set[Fraction]:
    """Return 0 and the weights at which two ways of a layer cost the same."""
    rates = {Fraction(0)}
    for some, stay in zip(options, stays, strict=True):
        for (time, nbytes), (later, fewer) in permutations(some, 2):
            if nbytes > fewer and later > time and stay:
                rates.add(Fraction(later - time, stay * (nbytes - fewer)))
    return rates
