"""Certificates from the search by descents: its reasons, as claims that each rest on smaller ones.

The search (`lowtide.solvers.peak.search.descents`) runs under the limit one byte below the bound and
records why each component has no descent below a height. From the failure of the whole, the reasons are
followed to all the claims needed; sorted by size, each comes after those that it rests on. What the
claims say, and the rules that confirm them, is in `lowtide.models.verifier.proofs.descents`.

A descent taken on the way becomes moves: single ops while they do not increase the memory, and one block
for what is left. Its memory is least at its end, and so it is from any state on the way. In the formulas
of the search, what matters of the executed set in which a component begins is which groups count; the
numbers are taken from a set that differs from it only by ops that no such group has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from ....models.graph import Graph
from ....models.verifier.proofs.claims import Block, Branch, Claim, Component, DescentsProof, Way
from ..search.descent_records import UNREACHED, Hill, Key, Stuck, StuckAtWaist, StuckBetween
from ..search.descents import DescentSearch
from ..search.executed_sets import mask_of, members
from .ends import OutOfMemory, TooHigh
from .multipliers import multipliers

Node = tuple[bool, bool, int, int] | tuple[int, int]
"""A claim: of a component backward, whole, ops, outside; of a way ops, outside. All masks."""


class DescentProver:
    """Searches under one limit, in turns, until the reasons are complete."""

    def __init__(self, graph: Graph, bound: int) -> None:
        self._search, self._bound = DescentSearch(graph, record=True), bound

    def prove(
        self, *, whole: bool, most: int, expired: Callable[[], bool], nbytes: int
    ) -> DescentsProof | None:
        """Return the proof, or None if there is none within that effort.

        Parameters are those of `DescentSearch.decide`.

        Raises
        ------
        OutOfMemory
            If it would hold more.
        TooHigh
            If an order stays below the bound.
        """
        limit = self._bound - 1
        found = self._search.decide(limit, whole=whole, most=most, expired=expired, nbytes=nbytes)
        if isinstance(found, tuple):
            raise TooHigh
        if found is None and self._search.nbytes > nbytes:
            raise OutOfMemory
        if found is None:
            return None
        return _Writer(self._search).write(found, whole=whole)


class _Writer:
    """Turns the reasons of one search into claims."""

    def __init__(self, search: DescentSearch) -> None:
        self.search, self.sets = search, search.sets
        self.hills: dict[Node, Hill] = {}
        self.blocks: dict[tuple[bool, int, int], int] = {}
        self.written: list[Block] = []
        self.number: dict[Node, int] = {}

    def write(self, found: int, *, whole: bool) -> DescentsProof:
        """Return the proof that no order has a peak below `found`."""
        sets, top = self.sets, (self.sets.everything, 0)
        if whole:
            self.hills[top] = Hill(low=found - sets.space.start, why=self.search.whole)
        else:
            self.hills[top] = self.search.ways[top]
        self._collect(top)
        nodes = sorted(self.hills, key=lambda node: (_ops(node).bit_count(), len(node) == 2, node))
        nodes = [node for node in nodes if node != top] + [top]
        self.number = {node: k for k, node in enumerate(nodes)}
        claims = tuple(self._claim(node, self.hills[node]) for node in nodes)
        return DescentsProof(blocks=tuple(self.written), claims=claims)

    # Which claims are needed

    def _collect(self, top: Node) -> None:
        """Find every claim that the one at the top rests on."""
        pending = [top]
        while pending:
            for node, hill in self._needed(self.hills[pending.pop()]):
                known = self.hills.get(node)
                if known is None or known.low < hill.low:  # the same claim from two places
                    self.hills[node] = hill
                    pending.append(node)

    def _needed(self, hill: Hill) -> Iterable[tuple[Node, Hill]]:
        """Yield the claims that one rests on."""
        why, parts = hill.why, list[Key]()
        if isinstance(why, StuckBetween):
            parts += why.parts
        elif isinstance(why, StuckAtWaist):
            parts += why.parts
            if why.way is not None:
                yield why.way, self.search.ways[why.way]
            if why.beyond is not None:
                parts += why.beyond.parts
        else:
            assert why is not None
            parts += (key for stuck in why for key in stuck.parts)
        for key in parts:
            yield self._node(key), self.search.hills[key]

    def _node(self, key: Key) -> Node:
        back, whole, frame, ops = key
        mates = self.sets.mates(ops)
        return back, whole, ops, mates & ~ops & ~frame if back else mates & frame

    # What they say

    def _claim(self, node: Node, hill: Hill) -> Claim:
        height, why = (None if hill.low > UNREACHED // 2 else hill.low), hill.why
        if isinstance(why, StuckBetween):
            ops, outside = _ops(node), node[-1]
            forward, backward = _ClaimWalk(self, False, ops, outside), _ClaimWalk(self, True, ops, outside)
            return Way(
                ops=ops,
                outside=outside,
                height=height,
                head=forward.moves(why.head),
                tail=backward.moves(why.tail),
                backward=why.back,
                claims=self._numbers(why.parts),
            )
        assert len(node) == 4
        back, whole, ops, outside = node
        claim = Component(backward=back, whole=whole, ops=ops, outside=outside, height=height)
        if not isinstance(why, StuckAtWaist):
            assert why is not None
            branches = sorted((self._branch(claim, 0, stuck) for stuck in why), key=lambda x: x.op)
            return replace(claim, branches=tuple(branches))
        behind = self.sets.descendants if back else self.sets.ancestors
        return replace(
            claim,
            waist=why.waist,
            inner=self._numbers(why.parts),
            way=None if why.way is None else self.number[why.way],
            beyond=self._branch(claim, ops & behind[why.waist], why.beyond) if why.beyond else None,
        )

    def _branch(self, claim: Component, before: int, stuck: Stuck) -> Branch:
        """Return what follows the step over an op, after those over `before`."""
        walk = _ClaimWalk(self, claim.backward, claim.ops, claim.outside)
        walk.step_over(before | 1 << stuck.op)
        return Branch(op=stuck.op, moves=walk.moves(stuck.paths), claims=self._numbers(stuck.parts))

    def _numbers(self, parts: Iterable[Key]) -> tuple[int, ...]:
        return tuple(sorted(self.number[self._node(key)] for key in parts))

    def block(self, back: bool, path: Sequence[int], outside: int) -> int:
        """Return the number of a block."""
        ops = mask_of(path)
        key = (back, ops, outside)
        if key not in self.blocks:
            groups = enumerate(self.sets.groups)
            counting = {
                g: list(members(some & ops)) for g, some in groups if some & ops and not some & outside
            }
            self.blocks[key] = len(self.written)
            proof = multipliers(self.sets.space, back, path, counting)
            self.written.append(Block(backward=back, ops=tuple(path), outside=outside, multipliers=proof))
        return self.blocks[key]


class _ClaimWalk:
    """A walk over the ops of a claim, in one direction."""

    def __init__(self, writer: _Writer, back: bool, ops: int, outside: int) -> None:
        self.writer, self.sets, self.back = writer, writer.sets, back
        self.rest, self.outside = ops, outside
        # of the executed set only the groups that count matter
        self.done = self.sets.everything & ~outside & ~(0 if back else ops)

    def step_over(self, ops: int) -> None:
        """Walk over some ops."""
        self.rest &= ~ops
        self.done ^= ops

    def moves(self, paths: Iterable[Sequence[int]]) -> tuple[int, ...]:
        """Walk along descents; return them as moves."""
        moves = list[int]()
        for path in paths:
            left = list(path)
            while left and self.sets.increase(self.back, left[0], self.done) <= 0:
                moves.append(left[0])
                self.step_over(1 << left.pop(0))
            if left:
                ops = mask_of(left)
                mates = self.sets.mates(ops)
                outside = mates & ~self.done if self.back else mates & (self.outside | self.rest & ~ops)
                moves.append(self.sets.n + self.writer.block(self.back, left, outside))
                self.step_over(ops)
        return tuple(moves)


def _ops(node: Node) -> int:
    return node[0] if len(node) == 2 else node[2]
