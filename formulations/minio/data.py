r"""In-trees whose outputs pass through one memory, as numbers: what the models of `minio` share.

Node v needs :math:`c_v` bytes while it runs: its children's files, its own memory, its own file. File k, of
:math:`f_k` bytes, is written by node :math:`u_k` and read by its parent :math:`p_k`. The memory has M bytes.
Between the two the file is *waiting*; only then are any of its bytes in the storage.

*Early is as good as late.* The number of bytes of a file that are written in the end might as well be written
right after its node: they are read back for the parent anyway, and the memory is lower in between. So
:math:`w_k \in [0, f_k]`, or :math:`\{0, f_k\}` for whole files, says it all about file k. Let an order of
the nodes be given, :math:`W_v` the files that wait while v runs. The order can be executed iff

.. math:: \sum_{k \in W_v} (f_k - w_k) + c_v \le M \text{ for each node } v.

All numbers are multiples of `unit`; whole files only fill multiples of their common divisor, so that M may
be rounded down to one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from math import gcd

from ...models.problems.minio import Eviction, Traversal


@dataclass(frozen=True, kw_only=True)
class MinIOData:
    """The numbers of the module's page; children have smaller indices than their parent.

    Attributes
    ----------
    memory
        M, in bytes.
    whole
        Whether files are moved whole.
    parent
        By node; -1 for the root.
    need
        By node: c, in bytes.
    maker, size
        By file: u, and f in bytes, at least 1; sorted by maker.
    tensor
        By file: which tensor of the graph it is.
    """

    memory: int
    whole: bool
    parent: tuple[int, ...]
    need: tuple[int, ...]
    maker: tuple[int, ...]
    size: tuple[int, ...]
    tensor: tuple[int, ...]

    @property
    def n(self) -> int:
        """The number of nodes."""
        return len(self.parent)

    @cached_property
    def user(self) -> tuple[int, ...]:
        """By file: p."""
        return tuple(self.parent[u] for u in self.maker)

    @cached_property
    def files_of(self) -> tuple[tuple[int, ...], ...]:
        """By node: its files."""
        files: list[list[int]] = [[] for _ in self.parent]
        for k, u in enumerate(self.maker):
            files[u].append(k)
        return tuple(map(tuple, files))

    @cached_property
    def out(self) -> tuple[int, ...]:
        """By node: bytes of its files together."""
        return tuple(sum(self.size[k] for k in some) for some in self.files_of)

    @cached_property
    def children(self) -> tuple[tuple[int, ...], ...]:
        """By node, ascending."""
        children: list[list[int]] = [[] for _ in self.parent]
        for v, above in enumerate(self.parent[:-1]):
            children[above].append(v)
        return tuple(map(tuple, children))

    @cached_property
    def unit(self) -> int:
        """The common divisor of sizes and needs, and of the memory where files are divisible."""
        return reduce(gcd, (*self.size, *self.need, *(() if self.whole else (self.memory,)))) or 1


def written_at_once(data: MinIOData, order: Sequence[int], written: Sequence[int]) -> Traversal:
    """Return the traversal that writes w bytes of each file right after its node, where it waits at all."""
    place = {v: step for step, v in enumerate(order)}
    evictions = [
        Eviction(place[data.maker[k]] + 1, data.tensor[k], w)
        for k, w in enumerate(written)
        if w and place[data.user[k]] > place[data.maker[k]] + 1
    ]
    return Traversal(tuple(order), tuple(evictions))
