"""Files of in-trees: one line ``id parent exec time out`` for each node.

The format of the trees in the public repository kulagins/tree-scheduler-refactored (assembly trees of sparse
matrices and random trees): ids are positive, the root's parent is 0, rows stand in any order; ``exec``
is what the node holds only while it runs, ``time`` (a decimal) how long that takes, ``out`` the size
of what it passes to its parent. ``#`` and ``%`` begin comments (ours; the files there have none).

What becomes of it:

1. A node is an op that reads the tensors of its children and writes one of ``out`` units, with a
   workspace of ``exec``: with the accounting ``coexist`` a node needs, while it runs, the sum of its
   children's, its own, and its workspace, as in Liu's and in Jacquelin, Marchal, Robert and Uçar's
   model of the multifrontal method.
2. The root's tensor is the final output.
3. Sizes are multiplied by `unit_bytes` (the files count entries of matrices), times by `unit_ns`,
   rounded half up, at least 1 ns: the files do not say what a unit is.
4. The reference order is the postorder that takes the children in the order of their lines.
"""

from __future__ import annotations

import os
import re
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

from ...models.errors import InstanceError
from ...models.graph import Graph, Op, Tensor
from ..options import Parameter
from .strict_json import located, read_bytes, show

UNIT_NS = 1_000_000
"""Six decimals of a time count."""

PARAMETERS = {
    "unit_bytes": Parameter(1, "bytes of a unit of size", least=1),
    "unit_ns": Parameter(UNIT_NS, "nanoseconds of a unit of time", least=1),
}

_INTEGER = re.compile(r"\d{1,15}", re.ASCII)
_DECIMAL = re.compile(r"\d{1,15}(\.\d*)?(e[+-]?\d{1,2})?", re.ASCII | re.IGNORECASE)


class _Node(NamedTuple):
    """A line."""

    at: int
    parent: int
    workspace: int
    time: Fraction
    out: int


def read_tree(path: str | os.PathLike[str], *, unit_bytes: int = 1, unit_ns: int = UNIT_NS) -> Graph:
    r"""Return the graph of a file.

    Parameters
    ----------
    unit_bytes
        Bytes of a unit of size.
    unit_ns
        Nanoseconds of a unit of time.

    Raises
    ------
    InstanceError
        If the file is missing, a line is not as the format has it, or the lines are no tree; the message
        has file and line.
    """
    where = str(path)
    nodes = _read(where, read_bytes(path))
    order = _postorder(where, nodes)
    number = {node: i for i, node in enumerate(order)}
    reads: list[list[int]] = [[] for _ in order]
    for i, node in enumerate(order[:-1]):
        reads[number[nodes[node].parent]].append(i)
    root = len(order) - 1
    with located(where):
        graph = Graph(
            name=Path(path).name,
            tensors=tuple(
                Tensor(
                    name=f"out {node}",
                    nbytes=nodes[node].out * unit_bytes,
                    kind="output" if i == root else "activation",
                    final=i == root,
                )
                for i, node in enumerate(order)
            ),
            ops=tuple(
                Op(
                    name=f"node {node}",
                    duration_ns=max(1, (2 * nodes[node].time * unit_ns + 1) // 2),
                    workspace=nodes[node].workspace * unit_bytes,
                    reads=tuple(reads[i]),
                    writes=(i,),
                )
                for i, node in enumerate(order)
            ),
            provenance={"source": "in-tree file", "unit_bytes": unit_bytes, "unit_ns": unit_ns},
        )
    return graph


def _read(where: str, content: bytes) -> dict[int, _Node]:
    """Return the nodes by id, in the order of their lines."""
    nodes: dict[int, _Node] = {}
    for at, line in enumerate(content.decode("utf-8", "replace").splitlines(), 1):
        words = re.split("[#%]", line, maxsplit=1)[0].split()
        if not words:
            continue
        if len(words) != 5:
            raise InstanceError(f"{where}:{at}: found {show(line)}, expected ID PARENT EXEC TIME OUT")
        for key, word in zip(("id", "parent", "exec", "time", "out"), words, strict=True):
            pattern, expected = (_DECIMAL, "a number") if key == "time" else (_INTEGER, "an integer")
            if not pattern.fullmatch(word):
                raise InstanceError(f"{where}:{at}, {key}: found {show(word)}, expected {expected} >= 0")
        node = int(words[0])
        if node == 0:
            raise InstanceError(f"{where}:{at}, id: found 0, expected an integer >= 1")
        if node in nodes:
            raise InstanceError(
                f"{where}:{at}: found node {node} as in line {nodes[node].at}, expected it once"
            )
        nodes[node] = _Node(at, int(words[1]), int(words[2]), Fraction(words[3]), int(words[4]))
    if not nodes:
        raise InstanceError(f"{where}: found no node, expected some")
    return nodes


def _postorder(where: str, nodes: dict[int, _Node]) -> list[int]:
    """Return the ids, children before their parent, the root last."""
    children: dict[int, list[int]] = {node: [] for node in (0, *nodes)}
    for node, row in nodes.items():
        if row.parent not in children:
            raise InstanceError(f"{where}:{row.at}, parent: found {row.parent}, expected a node, or 0")
        children[row.parent].append(node)
    if len(roots := children[0]) != 1:
        some = " (nodes " + ", ".join(map(str, roots[:3])) + ")" if roots else ""
        raise InstanceError(f"{where}: found {len(roots)} roots{some}, expected one node of parent 0")
    preorder, stack = [], [roots[0]]
    while stack:
        node = stack.pop()
        preorder.append(node)
        stack.extend(children[node])
    if len(preorder) < len(nodes):
        lost = min(nodes.keys() - set(preorder))
        raise InstanceError(f"{where}:{nodes[lost].at}: found node {lost} on a cycle, expected a tree")
    return preorder[::-1]
