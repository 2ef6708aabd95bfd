r"""Maximum closures by preflow-push: the steps, plain here, compiled in `closure_kernel`.

**Network.** Nodes x have profits p_x and needs N(x), other nodes; a set is *closed* if it holds all that its
nodes need. Some nodes are fixed, in or out; among the others, a closed set of largest profit is wanted.
With arcs source -> x of capacity p_x where p_x > 0, x -> sink of capacity -p_x where p_x < 0, and unlimited
arcs x -> y for y in N(x), it is the source side of a minimum cut (Picard, 1976).

**Preflow-push** (Goldberg and Tarjan, 1988), first phase only. Every x with p_x > 0 starts with its capacity
as *excess*; a label d_x never exceeds the number of arcs from x to the sink on which more can flow; a node
with excess *pays* to the sink what the capacity allows, then pushes along arcs to labels one below its own,
on to what it needs or back to who pushed to it; if none is left its label rises. Now and then labels are
made exact by a breadth-first search from the sink; a node that it does not reach keeps its excess for good.
When no node that reaches the sink has excess, the nodes that do not reach it are the largest source side
of a minimum cut.

**A proof at any time.** What the sink has received is the value of a flow (the excess that remains may go
back where it came from), so

    profit of any closed set <= sum of the positive profits - what the sink has received,

whether the work is done or not. Work is counted in arcs looked at; `advance` returns when its budget is used
up and goes on when called again.

**From one set of fixed nodes to another.** `fix` starts from a kept preflow on the whole network: the excess
that went to nodes that are now in returns to who sent it; what came from nodes that are now out is taken
back from who received it: from its excess, from what it paid, from what it pushed on, in this order, needs
after those who need them. The rest stays, and most of the work with it.

The functions here take a `Flow` of lists, those of `closure_kernel` one of arrays.

Sources: Picard, "Maximal closure of a graph and applications to combinatorial problems", Management Science
22, 1976; Goldberg and Tarjan, "A new approach to the maximum-flow problem", Journal of the ACM 35, 1988.
"""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

FREE, IN, OUT = range(3)
"""Status of a node: to be chosen, fixed in the closed set, fixed outside."""

HEAD, COUNT, PAID, SINCE, SUPPLY, FIXED, WORK = range(7)
"""Places in `Flow.now`: first and number of the nodes that wait, what the sink has received, work since
labels were exact, positive profits of the free nodes, profit of the nodes that are in, work in all."""


Numbers = Annotated[Any, NDArray[np.int64]]
"""A list of integers; compiled, an array."""


class Flow(NamedTuple):
    """Nodes, arcs and the preflow; lists or arrays of integers.

    Attributes
    ----------
    need_at, need
        Node x needs ``need[need_at[x]:need_at[x + 1]]``, nodes before x; arc e leads to ``need[e]``.
    by_at, by, by_arc
        The same arcs by the node that they lead to: who needs it, and the number of the arc.
    profit
        Of each node.
    kept_capacity, kept_excess, kept_flow
        The preflow that `fix` starts from; at first, that of nothing done.
    status
        `FREE`, `IN` or `OUT` for each node.
    capacity, excess, label, flow
        The preflow: what a node can still pay, what it holds, d_x; what flows on each arc.
    queue
        Nodes that wait, as a ring.
    now
        Counters.
    """

    need_at: Numbers
    need: Numbers
    by_at: Numbers
    by: Numbers
    by_arc: Numbers
    profit: Numbers
    kept_capacity: Numbers
    kept_excess: Numbers
    kept_flow: Numbers
    status: Numbers
    capacity: Numbers
    excess: Numbers
    label: Numbers
    flow: Numbers
    queue: Numbers
    now: Numbers


def fix(net: Flow, inside: Numbers, outside: Numbers) -> None:
    """Fix nodes in, with all that they need, and out, with all who need them; start from the kept preflow."""
    need_at, need, by_at, by = net.need_at, net.need, net.by_at, net.by
    profit, status, capacity, excess, flow = net.profit, net.status, net.capacity, net.excess, net.flow
    queue, now = net.queue, net.now
    n = len(profit)
    for x in range(n):
        status[x] = FREE
        capacity[x] = net.kept_capacity[x]
        excess[x] = net.kept_excess[x]
    for e in range(len(need)):
        flow[e] = net.kept_flow[e]
    count = 0
    for x in inside:
        if status[x] == FREE:
            status[x] = IN
            queue[count] = x
            count += 1
    i = 0
    while i < count:
        x = queue[i]
        i += 1
        for e in range(need_at[x], need_at[x + 1]):
            if status[need[e]] == FREE:
                status[need[e]] = IN
                queue[count] = need[e]
                count += 1
    i = count
    for x in outside:
        if status[x] == FREE:
            status[x] = OUT
            queue[count] = x
            count += 1
    while i < count:
        x = queue[i]
        i += 1
        for k in range(by_at[x], by_at[x + 1]):
            if status[by[k]] == FREE:
                status[by[k]] = OUT
                queue[count] = by[k]
                count += 1
    lost = net.label  # of each node, what it received and must give back; labels are made anew later
    for x in range(n):
        lost[x] = 0
    fixed = 0
    supply = 0
    paid = 0
    for x in range(n - 1, -1, -1):
        if status[x] == IN:
            fixed += profit[x]
        if status[x] == FREE:
            for e in range(need_at[x], need_at[x + 1]):
                if status[need[e]] == IN:
                    excess[x] += flow[e]
                    flow[e] = 0
            back = min(lost[x], excess[x])
            excess[x] -= back
            rest = lost[x] - back
            if profit[x] > 0:
                supply += profit[x]
            else:
                back = min(rest, -profit[x] - capacity[x])
                capacity[x] += back
                rest -= back
                paid += -profit[x] - capacity[x]
            e = need_at[x]
            while rest > 0:
                back = min(rest, flow[e])
                flow[e] -= back
                lost[need[e]] += back
                rest -= back
                e += 1
        else:
            capacity[x] = 0
            excess[x] = 0
            for e in range(need_at[x], need_at[x + 1]):
                if status[need[e]] == FREE:
                    lost[need[e]] += flow[e]
                flow[e] = 0
    now[HEAD] = 0
    now[COUNT] = 0
    now[PAID] = paid
    now[SINCE] = 0
    now[SUPPLY] = supply
    now[FIXED] = fixed


def advance(net: Flow, budget: int) -> bool:
    """Go on with the preflow for about `budget` arcs; return whether it is done."""
    need_at, need, by_at, by, by_arc = net.need_at, net.need, net.by_at, net.by, net.by_arc
    status, capacity, excess, label, flow = net.status, net.capacity, net.excess, net.label, net.flow
    queue, now = net.queue, net.now
    n = len(status)
    most = n + 1
    patience = 4 * n + len(need)
    head, count, paid, since = now[HEAD], now[COUNT], now[PAID], now[SINCE]
    work = 0
    done = False
    while work < budget and not done:
        if count == 0 or since > patience:
            # labels by breadth-first search from the nodes that can pay; the queue starts anew
            for x in range(n):
                label[x] = most
            count = 0
            for x in range(n):
                if status[x] == FREE and capacity[x] > 0:
                    label[x] = 1
                    queue[count] = x
                    count += 1
            i = 0
            while i < count:
                y = queue[i]
                i += 1
                for k in range(by_at[y], by_at[y + 1]):
                    x = by[k]
                    if label[x] == most and status[x] == FREE:
                        label[x] = label[y] + 1
                        queue[count] = x
                        count += 1
                for e in range(need_at[y], need_at[y + 1]):
                    if flow[e] > 0 and label[need[e]] == most:
                        label[need[e]] = label[y] + 1
                        queue[count] = need[e]
                        count += 1
            work += n + len(need)
            head = 0
            count = 0
            since = 0
            for x in range(n):
                if excess[x] > 0 and label[x] < most:
                    queue[count] = x
                    count += 1
            done = count == 0
            continue
        x = queue[head]
        head = head + 1 if head + 1 < n else 0
        count -= 1
        used = 1
        if capacity[x] > 0:
            amount = min(capacity[x], excess[x])
            capacity[x] -= amount
            excess[x] -= amount
            paid += amount
        while excess[x] > 0 and label[x] < most:
            lowest = most
            below = label[x] - 1
            for e in range(need_at[x], need_at[x + 1]):
                y = need[e]
                if status[y] != FREE:
                    continue
                if label[y] == below:
                    if excess[y] == 0:
                        place = head + count
                        queue[place if place < n else place - n] = y
                        count += 1
                    flow[e] += excess[x]
                    excess[y] += excess[x]
                    excess[x] = 0
                    break
                if label[y] < lowest:
                    lowest = label[y]
            used += need_at[x + 1] - need_at[x] + by_at[x + 1] - by_at[x]
            if excess[x] == 0:
                break
            for k in range(by_at[x], by_at[x + 1]):
                e = by_arc[k]
                if flow[e] > 0:
                    y = by[k]
                    if label[y] == below:
                        if excess[y] == 0:
                            place = head + count
                            queue[place if place < n else place - n] = y
                            count += 1
                        amount = min(flow[e], excess[x])
                        flow[e] -= amount
                        excess[y] += amount
                        excess[x] -= amount
                        if excess[x] == 0:
                            break
                    elif label[y] < lowest:
                        lowest = label[y]
            if excess[x] > 0:
                label[x] = lowest + 1 if lowest < most else most
        work += used
        since += used
    now[HEAD], now[COUNT], now[PAID], now[SINCE] = head, count, paid, since
    now[WORK] += work
    return done
