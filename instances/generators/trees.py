"""Chains and trees: the graphs on which least-memory orders are known in polynomial time.

In-trees are the multifrontal assembly trees of Liu, "An application of generalized tree pebbling to
sparse matrix factorization", SIAM J. Algebraic Discrete Methods 8 (1987).
"""

from __future__ import annotations

import random

from ...models.errors import InstanceError
from ...models.graph import Graph
from .builder import Builder, from_successors

MOST_NODES = 10**6
"""Nodes of a tree at most: more do not fit into memory."""


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


def harpoon(*, levels: int, branches: int, memory: int, eps: int) -> Graph:
    """Return the tree of Jacquelin et al. on which post-orders are arbitrarily bad.

    Of one level: a root without output and so many branches, each a chain of a leaf that writes `memory`
    bytes, an op that writes `eps` and one that writes `memory` / `branches`. Of more levels: in place of the
    leaf and the op after it stand trees of one level less, whose roots write `eps`.

    With `memory` at least `branches` times `eps`, the best post-order needs
    ``memory + eps + levels * (branches - 1) * memory / branches`` bytes, the best order
    ``memory + eps + levels * (branches - 1) * eps`` (M. Jacquelin, L. Marchal, Y. Robert, B. Uçar, "On
    optimal tree traversals for sparse matrix factorization", IPDPS 2011).

    Raises
    ------
    InstanceError
        If `memory` is no multiple of `branches`, or there would be more than a million ops.
    """
    if memory % branches:
        raise InstanceError(
            f"instance 'gen:harpoon', memory: found {memory}, expected a multiple of branches = {branches}"
        )
    nodes = 1
    for _ in range(levels):
        nodes = 1 + branches * (1 + max(2, nodes))
    if nodes > MOST_NODES:
        raise InstanceError(
            f"instance 'gen:harpoon', levels: found {levels}, a tree of {nodes} ops, "
            f"expected at most {MOST_NODES}"
        )
    builder = Builder()

    def node(reads: list[int], nbytes: int) -> int:
        name = f"op{len(builder.ops)}"
        builder.op(name, "", reads, [out := builder.tensor(name, nbytes)])
        return out

    def tree(level: int) -> list[int]:
        """Append a tree without its root; return the tensors that the root reads."""
        below = []
        for _ in range(branches):
            inner = tree(level - 1) if level > 1 else [node([], memory)]
            below.append(node([node(inner, eps)], memory // branches))
        return below

    builder.op("root", "", tree(levels), ())
    return builder.graph()


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
