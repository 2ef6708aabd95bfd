"""Whether works fit into intervals: one maximum flow in integers, by shortest augmenting paths in levels.

Dinic (1970): a search in breadth gives each node its distance from the source in what is left of the network;
a search in depth along falling distances fills paths until none is left; then the distances are found anew.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence


def unplaced(
    works: Sequence[int], room: Sequence[int], arcs: Sequence[tuple[int, int, int]]
) -> tuple[int, list[int]]:
    """Return how much of the works does not fit, and works that together are too much for what they reach.

    Parameters
    ----------
    works
        What is to be placed, each at least 0.
    room
        What each interval takes.
    arcs
        ``(work, interval, most)``: how much of a work an interval takes of it.

    Returns
    -------
    tuple of int and list of int
        0 and no works if all fit.
    """
    n, m = len(works), len(room)
    source, sink = n + m, n + m + 1
    out: list[list[int]] = [[] for _ in range(n + m + 2)]
    head: list[int] = []
    left: list[int] = []

    def connect(u: int, v: int, most: int) -> None:
        out[u].append(len(head))
        out[v].append(len(head) + 1)
        head.extend((v, u))
        left.extend((most, 0))

    for i, work in enumerate(works):
        connect(source, i, work)
    for i, k, most in arcs:
        connect(i, n + k, most)
    for k, most in enumerate(room):
        connect(n + k, sink, most)
    placed = 0
    while True:
        level = [-1] * (n + m + 2)
        level[source] = 0
        queue = deque([source])
        while queue:
            u = queue.popleft()
            for a in out[u]:
                if left[a] and level[head[a]] < 0:
                    level[head[a]] = level[u] + 1
                    queue.append(head[a])
        if level[sink] < 0:
            break
        placed += _fill(out, head, left, level, source, sink)
    near = [i for i in range(n) if level[i] >= 0]
    return sum(works) - placed, near


def _fill(
    out: list[list[int]], head: list[int], left: list[int], level: list[int], source: int, sink: int
) -> int:
    """Fill paths along rising levels until none is left; return what they carry."""
    following = [0] * len(out)
    carried = 0
    path: list[int] = []
    u = source
    while True:
        if u == sink:
            least = min(left[a] for a in path)
            carried += least
            for a in path:
                left[a] -= least
                left[a ^ 1] += least
            cut = next(k for k, a in enumerate(path) if not left[a])
            u = head[path[cut] ^ 1]
            del path[cut:]
            continue
        while following[u] < len(out[u]):
            a = out[u][following[u]]
            if left[a] and level[head[a]] == level[u] + 1:
                break
            following[u] += 1
        if following[u] < len(out[u]):
            path.append(out[u][following[u]])
            u = head[path[-1]]
        elif path:
            u = head[path.pop() ^ 1]
            following[u] += 1
        else:
            return carried
