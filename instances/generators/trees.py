"""Chains and trees: the graphs on which least-memory orders are known in polynomial time.

In-trees are the multifrontal assembly trees of Liu, "An application of generalized tree pebbling to
sparse matrix factorization", SIAM J. Algebraic Discrete Methods 8 (1987).
"""

from __future__ import annotations

import random

from ...models.graph import Graph
from .builder import from_successors


def chain(*, n: int, seed: int, sizes: str, largest: int) -> Graph:
    """Return `n` ops in a row, each of which reads what the one before it writes."""
    successors = [[i + 1] for i in range(n - 1)] + [[]]
    return from_successors(successors, random.Random(seed), sizes=sizes, largest=largest)


def intree(*, n: int, seed: int, arity: int, sizes: str, largest: int) -> Graph:
    """Return a random in-tree: every op's tensor has one reader, except the root's, which is kept.

    The reference order is a postorder.
    """
    rng = random.Random(seed)
    return from_successors(intree_arcs(n, arity, rng), rng, sizes=sizes, largest=largest)


def intree_arcs(n: int, arity: int, rng: random.Random) -> list[list[int]]:
    """Return the successor of each node of a random in-tree, the nodes in postorder."""
    children = _random_tree(n, arity, rng)
    number = {node: i for i, node in enumerate(_postorder(children))}
    successors: list[list[int]] = [[] for _ in range(n)]
    for node, below in enumerate(children):
        for child in below:
            successors[number[child]].append(number[node])
    return successors


def outtree(*, n: int, seed: int, arity: int, data: str, sizes: str, largest: int, keep: bool) -> Graph:
    """Return a random out-tree; ``data=edge`` makes it the mirror image of an in-tree.

    The reference order is a preorder. The leaves' tensors leave at once unless `keep`.
    """
    rng = random.Random(seed)
    children = _random_tree(n, arity, rng)
    order = list(reversed(_postorder(children)))
    number = {node: i for i, node in enumerate(order)}
    successors = [sorted(number[child] for child in children[node]) for node in order]
    return from_successors(successors, rng, data=data, sizes=sizes, largest=largest, keep=keep)


def _random_tree(n: int, arity: int, rng: random.Random) -> list[list[int]]:
    """Return the children of each node: node i hangs below a random earlier one that has room."""
    children: list[list[int]] = [[] for _ in range(n)]
    room = [0]
    for node in range(1, n):
        k = rng.randrange(len(room))
        parent = room[k]
        children[parent].append(node)
        if len(children[parent]) == arity:
            room[k] = room[-1]
            room.pop()
        room.append(node)
    return children


def _postorder(children: list[list[int]]) -> list[int]:
    """Return the nodes, root 0 last, children before their parent."""
    preorder, stack = [], [0]
    while stack:
        node = stack.pop()
        preorder.append(node)
        stack.extend(children[node])
    return preorder[::-1]
