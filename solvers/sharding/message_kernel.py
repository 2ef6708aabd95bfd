r"""Kernels on groups: messages along pairs, prices of usage, and answers that are read off them.

Groups v have labels ``first[v]`` to ``first[v + 1]``. The pairs of v are ``near[v]`` to ``near[v + 1]``, by
the other group: where the costs of the pair begin, by labels of v and then of the other, and the other way
round (`place`, `turned`); where the message to v and that to the other begin (`into`, `out`). The pieces of v
are ``part[v]`` to ``part[v + 1]``: sections ``begin`` to ``end``, usages by label from ``weights[at]`` on.
Costs are floating point, infinite ones inf: answers and bounds are computed in integers elsewhere.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..engines.kernels import inner, kernel

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


class FlatNetwork(NamedTuple):
    """Groups, pairs and pieces in arrays, as the module says.

    Attributes
    ----------
    first, costs
        By group, its first label; by label.
    near, other, place, turned, into, out
        By group, its first pair; by pair.
    pairs
        Costs of pairs of labels.
    part, begin, end, at, weights
        By group, its first piece; by piece; usages.
    room
        By section.
    """

    first: Integers
    costs: Floats
    near: Integers
    other: Integers
    place: Integers
    turned: Integers
    into: Integers
    out: Integers
    pairs: Floats
    part: Integers
    begin: Integers
    end: Integers
    at: Integers
    weights: Integers
    room: Integers


@kernel
def priced_costs(net: FlatNetwork, prices: Floats) -> Floats:
    """Return costs by label with what its usage costs at prices by section."""
    until = np.zeros(len(prices) + 1)
    for r in range(len(prices)):
        until[r + 1] = until[r] + prices[r]
    total = net.costs.copy()
    for v in range(len(net.first) - 1):
        for k in range(net.part[v], net.part[v + 1]):
            price = until[net.end[k]] - until[net.begin[k]]
            if price > 0:
                for s in range(net.first[v + 1] - net.first[v]):
                    total[net.first[v] + s] += price * net.weights[net.at[k] + s]
    return total


@kernel
def pass_messages(
    net: FlatNetwork, priced: Floats, messages: Floats, shares: Floats, left: Floats, forward: bool
) -> float:
    """Send messages from each group to later ones (or, backward, to earlier ones); return the bound.

    A pass of TRW-S. `left` receives by label the costs of the group with all messages, above their least;
    `shares` what the pair of a message is given by the labels of the group that the message is for.
    """
    n, most = len(net.first) - 1, 1
    for v in range(n):
        most = max(most, net.first[v + 1] - net.first[v])
    total, sent = np.empty(most), np.empty(most)
    bound = 0.0
    for i in range(n):
        v = i if forward else n - 1 - i
        begin, many = net.first[v], net.first[v + 1] - net.first[v]
        for s in range(many):
            total[s] = priced[begin + s]
        ahead = 0
        for a in range(net.near[v], net.near[v + 1]):
            ahead += (net.other[a] > v) == forward
            for s in range(many):
                total[s] += messages[net.into[a] + s]
        least = np.inf
        for s in range(many):
            least = min(least, total[s])
        bound += least
        for s in range(many):
            total[s] -= least
            left[begin + s] = total[s]
        share = 1.0 / max(1, ahead, net.near[v + 1] - net.near[v] - ahead)
        for a in range(net.near[v], net.near[v + 1]):
            u = net.other[a]
            if (u > v) != forward:
                continue
            width, row = net.first[u + 1] - net.first[u], net.place[a]
            for t in range(width):
                sent[t] = np.inf
            for s in range(many):
                given = share * total[s] - messages[net.into[a] + s]
                shares[net.into[a] + s] = given
                for t in range(width):
                    value = given + net.pairs[row + t]
                    sent[t] = value if value < sent[t] else sent[t]
                row += width
            least = np.inf
            for t in range(width):
                least = min(least, sent[t])
            bound += least
            for t in range(width):
                messages[net.out[a] + t] = sent[t] - least
                shares[net.out[a] + t] = least - sent[t]
    return bound


@kernel
def expected_usage(net: FlatNetwork, left: Floats, warmth: float) -> Floats:
    """Return by section what groups use whose labels have weights exp(-left / warmth)."""
    change = np.zeros(len(net.room) + 1)
    for v in range(len(net.first) - 1):
        begin, many = net.first[v], net.first[v + 1] - net.first[v]
        if net.part[v] == net.part[v + 1]:
            continue
        chances = np.exp(-left[begin : begin + many] / warmth)
        total = chances.sum()
        for k in range(net.part[v], net.part[v + 1]):
            used = 0.0
            for s in range(many):
                used += chances[s] * net.weights[net.at[k] + s]
            change[net.begin[k]] += used / total
            change[net.end[k]] -= used / total
    return np.cumsum(change)[: len(net.room)]


@kernel
def read_labels(net: FlatNetwork, priced: Floats, messages: Floats, chosen: Integers) -> None:
    """Choose each group's label in turn: best with the labels before it, and the messages of those after."""
    for v in range(len(net.first) - 1):
        begin, many = net.first[v], net.first[v + 1] - net.first[v]
        total = priced[begin : begin + many].copy()
        for a in range(net.near[v], net.near[v + 1]):
            u = net.other[a]
            row = net.turned[a] + chosen[u] * many if u < v else 0
            for s in range(many):
                total[s] += net.pairs[row + s] if u < v else messages[net.into[a] + s]
        chosen[v] = np.argmin(total)


@kernel
def usage_of(net: FlatNetwork, chosen: Integers) -> Integers:
    """Return by section what is used above the least."""
    change = np.zeros(len(net.room) + 1, np.int64)
    for v in range(len(chosen)):
        for k in range(net.part[v], net.part[v + 1]):
            used = net.weights[net.at[k] + chosen[v]]
            change[net.begin[k]] += used
            change[net.end[k]] -= used
    return np.cumsum(change)[: len(net.room)]


@kernel
def cost_of(net: FlatNetwork, chosen: Integers) -> float:
    """Return what is chosen costs, each pair counted once."""
    total = 0.0
    for v in range(len(chosen)):
        total += net.costs[net.first[v] + chosen[v]]
        for a in range(net.near[v], net.near[v + 1]):
            u = net.other[a]
            if u > v:
                total += net.pairs[net.place[a] + chosen[v] * (net.first[u + 1] - net.first[u]) + chosen[u]]
    return total


@inner
def excess_with(net: FlatNetwork, used: Integers, chosen: Integers, v: int, s: int) -> float:
    """Return by how much more the room is exceeded, over all sections, if v has label s."""
    total = 0.0
    for k in range(net.part[v], net.part[v + 1]):
        more = net.weights[net.at[k] + s] - net.weights[net.at[k] + chosen[v]]
        if more != 0:
            for r in range(net.begin[k], net.end[k]):
                over = used[r] - net.room[r]
                total += max(over + more, 0) - max(over, 0)
    return total


@inner
def take(net: FlatNetwork, used: Integers, chosen: Integers, v: int, s: int) -> None:
    """Give v label s; `used` is kept up to date."""
    for k in range(net.part[v], net.part[v + 1]):
        more = net.weights[net.at[k] + s] - net.weights[net.at[k] + chosen[v]]
        if more != 0:
            for r in range(net.begin[k], net.end[k]):
                used[r] += more
    chosen[v] = s


@kernel
def step_groups(net: FlatNetwork, order: Integers, chosen: Integers, used: Integers, weight: float) -> int:
    """Give each group in turn the label that is best for all others' as they are; return how many changed.

    What exceeds the room, summed over the sections, costs `weight` for each unit.
    """
    most = 1
    for v in range(len(net.first) - 1):
        most = max(most, net.first[v + 1] - net.first[v])
    row = np.empty(most)
    changed = 0
    for v in order:
        begin, many = net.first[v], net.first[v + 1] - net.first[v]
        for s in range(many):
            row[s] = net.costs[begin + s]
        for a in range(net.near[v], net.near[v + 1]):
            place = net.turned[a] + chosen[net.other[a]] * many
            for s in range(many):
                row[s] += net.pairs[place + s]
        over = False
        for k in range(net.part[v], net.part[v + 1]):
            for r in range(net.begin[k], net.end[k]):
                over |= used[r] > net.room[r]
        least, where = row[chosen[v]], chosen[v]
        for s in range(many):
            if s == chosen[v] or row[s] == np.inf or (row[s] >= least and not over):
                continue
            total = row[s] + excess_with(net, used, chosen, v, s) * weight
            if total < least:
                least, where = total, s
        if where != chosen[v]:
            take(net, used, chosen, v, where)
            changed += 1
    return changed
