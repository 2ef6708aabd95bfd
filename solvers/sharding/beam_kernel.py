r"""Kernels of `beam`: groups get labels in an order, the best of so many partial answers at a time.

A partial answer has labels of the first groups of an order; groups outside the order have theirs. Its value
is the sum of costs of what is decided and of the messages from what is not: an estimate of what the best of
its completions costs, exact at the end. What it uses in some sections is kept with it, and must be within
what is left there. Of partial answers with equal labels of all groups that still have neighbours ahead, and
about equal usage in the first one of these sections, the one of least value is kept; and of those the best
ones, as many as the width says.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..engines.kernels import inner, kernel
from .message_kernel import FlatNetwork, Floats, Integers

GRAINS = 32
"""Classes of usage in the first section: as few as keep partial answers that use less but cost more."""


class BeamGuide(NamedTuple):
    """What partial answers are valued by.

    Attributes
    ----------
    priced
        By label, its cost with what its usage costs.
    messages
        As `pass_messages` has them.
    keys
        Random bits, by label, then by usage in the first section (`GRAINS` and one).
    """

    priced: Floats
    messages: Floats
    keys: Integers


@inner
def slots_of(net: FlatNetwork, order: Integers, place: Integers) -> tuple[Integers, Integers, Integers]:
    """Return by place in the order its slot while it has neighbours ahead; and who leaves after it."""
    m = len(order)
    last = np.arange(m)
    for i in range(m):
        for a in range(net.near[order[i]], net.near[order[i] + 1]):
            last[i] = max(last[i], place[net.other[a]])
    first = np.zeros(m + 2, np.int64)
    for i in range(m):
        first[last[i] + 1] += 1
    first = np.cumsum(first)
    filled, leaving = first.copy(), np.empty(m, np.int64)
    for i in range(m):
        leaving[filled[last[i]]] = i
        filled[last[i]] += 1
    slot, free = np.full(m, -1), np.empty(m, np.int64)
    frees = many = 0
    for i in range(m):
        if last[i] > i:
            if frees > 0:
                frees -= 1
                slot[i] = free[frees]
            else:
                slot[i] = many
                many += 1
        for j in range(first[i], first[i + 1]):
            if slot[leaving[j]] >= 0:
                free[frees] = slot[leaving[j]]
                frees += 1
    return slot, first, leaving


@inner
def uses_at(net: FlatNetwork, v: int, sections: Integers, used: Integers) -> int:
    """Write what each label of v uses at the sections, a row each in which it uses any; return how many.

    `used` has rows of the section's place and of usages by label.
    """
    rows, many = 0, net.first[v + 1] - net.first[v]
    for k in range(net.part[v], net.part[v + 1]):
        for q in range(np.searchsorted(sections, net.begin[k]), np.searchsorted(sections, net.end[k])):
            at = rows * (many + 1)
            used[at] = q
            for s in range(many):
                used[at + 1 + s] = net.weights[net.at[k] + s]
            rows += 1
    return rows


@kernel
def beam(
    net: FlatNetwork,
    guide: BeamGuide,
    order: Integers,
    chosen: Integers,
    sections: Integers,
    left: Integers,
    width: int,
) -> float:
    """Give the groups of an order new labels, within what is left at the sections; return the value, or inf.

    With inf, no label has changed.
    """
    m, most = len(order), 1
    place = np.full(len(net.first) - 1, -1)
    for i in range(m):
        place[order[i]] = i
        most = max(most, net.first[order[i] + 1] - net.first[order[i]])
    slot, first, leaving = slots_of(net, order, place)
    slots = max(1, slot.max() + 1)
    labels, next_labels = np.zeros((width, slots), np.int16), np.zeros((width, slots), np.int16)
    room, next_room = np.zeros((width, len(left)), np.int64), np.zeros((width, len(left)), np.int64)
    for r in range(len(left)):
        room[0, r] = left[r]
    value, next_value = np.zeros(width), np.zeros(width)
    code, next_code = np.zeros(width, np.int64), np.zeros(width, np.int64)
    parent, label = np.zeros((m, width), np.int32), np.zeros((m, width), np.int16)
    size = 64
    while size < 2 * width * most:
        size *= 2
    table, home = np.full(size, -1, np.int32), np.empty(width * most, np.int64)
    values, codes = np.empty(width * most), np.empty(width * most, np.int64)
    parents, ends = np.empty(width * most, np.int32), np.empty(width * most, np.int16)
    common, row = np.empty(most), np.empty(most)
    used = np.empty(max(1, len(sections)) * (most + 1), np.int64)
    count = 1
    for i in range(m):
        v = order[i]
        begin, many = net.first[v], net.first[v + 1] - net.first[v]
        for s in range(many):
            common[s] = guide.priced[begin + s]
        for a in range(net.near[v], net.near[v + 1]):
            u = net.other[a]
            for s in range(many):
                if place[u] < 0:
                    common[s] += net.pairs[net.turned[a] + chosen[u] * many + s]
                elif place[u] > i:
                    common[s] += guide.messages[net.into[a] + s]
        rows = uses_at(net, v, sections, used)
        entries = 0
        for k in range(count):
            for s in range(many):
                row[s] = common[s] + value[k]
            for a in range(net.near[v], net.near[v + 1]):
                j = place[net.other[a]]
                if 0 <= j < i:
                    t = labels[k, slot[j]]
                    taken, at = guide.messages[net.out[a] + t], net.turned[a] + t * many
                    for s in range(many):
                        row[s] += net.pairs[at + s] - taken
            for r in range(rows):
                at, fits = r * (many + 1), room[k, used[r * (many + 1)]]
                for s in range(many):
                    if used[at + 1 + s] > fits:
                        row[s] = np.inf
            rest = code[k]
            for j in range(first[i], first[i + 1]):
                q = leaving[j]
                if q != i:
                    rest ^= guide.keys[net.first[order[q]] + labels[k, slot[q]]]
            for s in range(many):
                if row[s] == np.inf:
                    continue
                key = rest ^ guide.keys[begin + s] if slot[i] >= 0 else rest
                if len(left) > 0:
                    fits = room[k, 0] - (used[1 + s] if rows > 0 and used[0] == 0 else 0)
                    key ^= guide.keys[len(guide.priced) + int(GRAINS * fits / max(1, left[0]))]
                b = key & (size - 1)
                while table[b] >= 0 and codes[table[b]] != key:
                    b = (b + 1) & (size - 1)
                c = table[b]
                if c < 0:
                    c = entries
                    table[b], home[c], codes[c], values[c] = c, b, key, np.inf
                    entries += 1
                if row[s] < values[c]:
                    values[c], parents[c], ends[c] = row[s], k, s
        if entries == 0:
            return np.inf
        for c in range(entries):
            table[home[c]] = -1
        worst = np.partition(values[:entries], width - 1)[width - 1] if entries > width else np.inf
        count = 0
        for c in range(entries):
            if values[c] <= worst and count < width:
                k, s = parents[c], ends[c]
                for j in range(slots):
                    next_labels[count, j] = labels[k, j]
                for r in range(len(left)):
                    next_room[count, r] = room[k, r]
                if slot[i] >= 0:
                    next_labels[count, slot[i]] = s
                for r in range(rows):
                    next_room[count, used[r * (many + 1)]] -= used[r * (many + 1) + 1 + s]
                code_of = codes[c]
                if len(left) > 0:
                    grain = int(GRAINS * next_room[count, 0] / max(1, left[0]))
                    code_of ^= guide.keys[len(guide.priced) + grain]
                next_value[count], next_code[count] = values[c], code_of
                parent[i, count], label[i, count] = k, s
                count += 1
        labels, next_labels = next_labels, labels
        room, next_room = next_room, room
        value, next_value = next_value, value
        code, next_code = next_code, code
    k = 0
    for c in range(count):
        k = c if value[c] < value[k] else k
    total = value[k]
    for i in range(m - 1, -1, -1):
        chosen[order[i]] = label[i, k]
        k = parent[i, k]
    return float(total)


@kernel
def ball(net: FlatNetwork, root: int, size: int) -> Integers:
    """Return groups around one, in order: a random neighbour of those before is next."""
    n, count, waiting = len(net.first) - 1, 0, 1
    seen = np.zeros(n, np.bool_)
    queue, taken = np.empty(n, np.int64), np.empty(min(n, size), np.int64)
    queue[0], seen[root] = root, True
    while waiting > 0 and count < len(taken):
        i = np.random.randint(waiting)
        v = queue[i]
        waiting -= 1
        queue[i] = queue[waiting]
        taken[count] = v
        count += 1
        for a in range(net.near[v], net.near[v + 1]):
            u = net.other[a]
            if not seen[u]:
                seen[u] = True
                queue[waiting] = u
                waiting += 1
    return np.sort(taken[:count])


@kernel
def add_usage(net: FlatNetwork, groups: Integers, chosen: Integers, sign: int, over: Integers) -> None:
    """Add to `over` what the labels of some groups use, or take it away."""
    for v in groups:
        for k in range(net.part[v], net.part[v + 1]):
            more = sign * net.weights[net.at[k] + chosen[v]]
            if more != 0:
                over[net.begin[k] : net.end[k]] += more


@kernel
def reach(net: FlatNetwork, groups: Integers, over: Integers) -> Integers:
    """Return by section what is above the room if each group uses its most there, `over` without them."""
    change = np.zeros(len(over) + 1, np.int64)
    for v in groups:
        many = net.first[v + 1] - net.first[v]
        for k in range(net.part[v], net.part[v + 1]):
            most = 0
            for s in range(many):
                most = max(most, net.weights[net.at[k] + s])
            change[net.begin[k]] += most
            change[net.end[k]] -= most
    return over + np.cumsum(change)[: len(over)]


@kernel
def part_cost(net: FlatNetwork, costs: Floats, groups: Integers, chosen: Integers) -> float:
    """Return the costs of some groups' labels and pairs, each pair once."""
    inside = np.zeros(len(chosen), np.bool_)
    total = 0.0
    for v in groups:
        total += costs[net.first[v] + chosen[v]]
        inside[v] = True
        for a in range(net.near[v], net.near[v + 1]):
            u = net.other[a]
            if not inside[u]:
                total += net.pairs[net.place[a] + chosen[v] * (net.first[u + 1] - net.first[u]) + chosen[u]]
    return total


@kernel
def tops(over: Integers, most: int) -> Integers:
    """Return where each stretch above zero is highest; of more than `most` the highest ones, in order."""
    entries, count, open_at = np.empty(len(over), np.int64), 0, -1
    for r in range(len(over)):
        if over[r] <= 0:
            open_at = -1
        elif open_at < 0:
            open_at = count
            entries[count] = r
            count += 1
        elif over[r] > over[entries[open_at]]:
            entries[open_at] = r
    places = entries[:count]
    if count > most:
        places = np.sort(places[np.argsort(-over[places])[:most]])
    return places


@kernel
def seed_kernels(seed: int) -> None:
    """Set the seed of what kernels draw."""
    np.random.seed(seed)
