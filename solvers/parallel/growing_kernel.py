"""More flow on a network that got further arcs, compiled; without a compiler `py_func` runs it.

The network is that of `lowtide.solvers.parallel.closure`: order k, an arc (u, v), lets flow go
from v to u without limit, and back as much as has gone. Events of positive gain *supply* flow, those of
negative gain *take* it. Rounds of a breadth-first search from all events that can still supply, and of
blocking flow along its layers (Dinic, "Algorithm for solution of a problem of maximum flow in networks with
power estimation", Soviet Mathematics Doklady 11, 1970), until no event that can still take is reached. The
flow before stays: arcs that are added only let more flow through.
"""

from __future__ import annotations

from ...models.arrays import Integers
from ..engines.kernels import kernel


@kernel
def augment(
    first: Integers,
    following: Integers,
    target: Integers,
    carried: Integers,
    supply: Integers,
    take: Integers,
    layer: Integers,
    current: Integers,
    queue: Integers,
) -> None:
    """Make the flow one of largest value.

    Parameters
    ----------
    first, following
        First arc at each event or -1, and the arc after each arc or -1; arc 2k leads from v to u of order k,
        arc 2k + 1 back.
    target
        Event that each arc leads to.
    carried
        Flow on each order.
    supply, take
        What each event can still supply, and take.
    layer
        At the end: -1 for the events that no event with supply reaches.
    current, queue
        Room for one number per event.
    """
    events = len(first)
    while True:
        layer[:] = -1
        count = 0
        for x in range(events):
            if supply[x] > 0:
                layer[x] = 0
                queue[count] = x
                count += 1
        begin, taken = 0, False
        while begin < count:
            x = queue[begin]
            begin += 1
            taken = taken or take[x] > 0
            arc = first[x]
            while arc >= 0:
                y = target[arc]
                if layer[y] < 0 and (arc % 2 == 0 or carried[arc // 2] > 0):
                    layer[y] = layer[x] + 1
                    queue[count] = y
                    count += 1
                arc = following[arc]
        if not taken:
            return
        current[:] = first
        path = queue  # of arcs
        for source in range(events):
            if supply[source] <= 0 or layer[source] != 0:
                continue
            depth, x = 0, source
            while supply[source] > 0:
                if take[x] > 0:
                    amount = min(supply[source], take[x])
                    for k in range(depth):
                        if path[k] % 2 == 1:
                            amount = min(amount, carried[path[k] // 2])
                    supply[source] -= amount
                    take[x] -= amount
                    for k in range(depth):
                        carried[path[k] // 2] += amount if path[k] % 2 == 0 else -amount
                    depth, x = 0, source
                    continue
                arc = current[x]
                while arc >= 0:
                    y = target[arc]
                    if layer[y] == layer[x] + 1 and (arc % 2 == 0 or carried[arc // 2] > 0):
                        break
                    arc = following[arc]
                current[x] = arc
                if arc >= 0:
                    path[depth] = arc
                    depth += 1
                    x = target[arc]
                elif depth:
                    layer[x] = -2  # leads nowhere in these layers
                    depth -= 1
                    x = target[path[depth] ^ 1]
                    current[x] = following[current[x]]
                else:
                    break
