r"""Checks proofs by descents: claims about parts of a graph, each confirmed from smaller ones.

**Words.** M is memory after an executed set (`lowtide.models.verifier.proofs.executed`), submodular. A walk
goes forward, executing ops, or backward, taking them back; what follows is said forward and holds backward
with unions and intersections exchanged. A walk is *below* a limit if every step costs less. A step costs a
constant of its op plus M before or after it, so **a walk whose states have at most the M of another's,
step by step, is below the same limits**.

For executed sets X in B, the *components* of B - X are the smallest parts such that ops joined by an
edge, or by a group with all its ops in B, are in one part. Groups with an op beyond B never complete; so on
[X, B] M - M(X) is a sum over the components. A *descent* within a part K from X is a walk over some ops of K,
at least one, to a T with M(T) <= M(X).

**Claims.** Which groups count for a part is part of a claim: those that touch `ops` but not `outside`.

* `Component` (K, h): from an X where the ops of K are the rest of its counting groups, no walk over ops
  of K whose steps all cost less than M(X) + h is a descent. It is about any such X, because only the ops of
  K matter. If `whole`: nor does any such walk step over all of K.
* `Way` (C, h): from X, no walk with steps below M(X) + h steps over all of C.
* `Block` (T): M is least at the end: M(X + T) <= M(X + S) for every part S of T that a walk can step over.

**Rules.**

1. *Moves.* If M(T) is least on [X, T], and a walk below a limit leads from X to some Z that contains T, then
   one leads from T to Z: along S | T for the states S, as M(S | T) <= M(S) + M(T) - M(S & T) <= M(S). If Z
   does not contain T, it leads to Z | T, and M(Z | T) <= M(Z). A single op that does not increase M is such a
   T, and so is a block; and after T another one is, by M(S) >= M(S | T) + M(S & T) - M(T) >= M(S | T).
2. *One component descends.* If a walk below a limit leads from X to a T != X in [X, B] with M(T) <= M(X),
   then some component of B - X has a descent below that limit by itself. M - M(X) is a sum over
   components, at T it is <= 0; let K be the first that has moved and has a term <= 0. Until then the terms
   of the others are > 0, or 0 where they have not moved, so the steps of K cost no more by themselves.
3. *Component.* Let a walk below M(X) + h start with v, a first op of K. Either v costs h or more, or there is
   a branch for it. After v and the moves of the branch, M must be above M(X), by d say, and the claims must
   be about all components of the rest of K, each with a height of at least h - d. Then there is no descent
   through v: by (1) it would give a walk from there to a state with no more than M(X), and by (2) a
   descent of a component. (So v itself must increase M.) A `whole` claim has one `whole` claim for the
   rest, not empty: as if one more op after all others belonged to K and took M down.
4. *Waist.* If f in K is comparable with all others of K, let L be the ops of K before f. A descent either
   stays in L: the claims `inner`, about all components of L, with heights of at least h, exclude that by (2).
   Or it steps over all of L and then over f. Either there is a `Way` claim that the first is too costly;
   or the step over f costs h or more; or, as in (3), d above M(X) after f and moves, claims
   about all components of the rest of K exclude it.
5. *Way.* After moves from the beginning to A and from the end to B, by (1) and its mirror image, the rest is
   to be crossed. If M(B) <= M(A), crossing it forward is a walk as in (2), so claims forward about all
   components exclude it, their heights counted from A; if M(A) <= M(B), claims backward, their heights
   counted from B. One `whole` claim excludes it in its direction, wherever M is lower.

The last claim is a `Way` over all ops; with M(nothing) + h at least the bound, no order is below the bound.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ...graph import Graph
from .claims import Block, Branch, Component, DescentsProof, Way
from .cut import least_change
from .executed import Executed, Masks, executed_sets, masks, members
from .refused import Refused, op_and_name


def check_descents(graph: Graph, bound: int, proof: DescentsProof) -> int:
    """Return the number of claims, if they prove that no order stays below `bound` bytes.

    Raises
    ------
    Refused
        With the claim and what does not hold in it.
    """
    sets = executed_sets(graph)
    checker = _Checker(graph, sets, masks(sets), proof)
    for number, block in enumerate(proof.blocks):
        checker.check_block(f"block {number}", block)
    for number, claim in enumerate(proof.claims):
        where = f"claim {number}"
        if isinstance(claim, Way):
            checker.check_way(where, claim)
        else:
            checker.check_component(where, claim)
        checker.confirmed += 1
    last = proof.claims[-1] if proof.claims else None
    if not isinstance(last, Way) or last.ops != checker.masks.everything:
        raise Refused("last claim: expected one that all ops cannot be walked over")
    if last.height is not None and sets.start + last.height < bound:
        raise Refused(
            f"last claim: found {sets.start + last.height} bytes proved, expected at least the bound {bound}"
        )
    return len(proof.claims)


@dataclass(slots=True)
class _Place:
    """Where a walk stands: what is left, the groups that count (a mask of numbers), and M above its start."""

    backward: bool
    rest: int
    counting: int
    change: int = 0


class _Checker:
    """Confirms claims in turn; only confirmed ones count."""

    def __init__(self, graph: Graph, sets: Executed, some: Masks, proof: DescentsProof) -> None:
        self.graph, self.sets, self.masks, self.proof = graph, sets, some, proof
        self.confirmed = 0
        self.groups_at = [sum(1 << g for g in some) for some in self.masks.groups_of]
        self._around: dict[int, tuple[int, int]] = {}

    # Sets of ops

    def touched(self, ops: int) -> int:
        """Return the groups with an op of `ops`."""
        return self.about(ops)[1]

    def about(self, ops: int) -> tuple[int, int]:
        """Return the neighbours of some ops along edges, and the groups that they touch."""
        known = self._around.get(ops)
        if known is None:
            near = groups = 0
            before, after, groups_at = self.masks.before, self.masks.after, self.groups_at
            for v in members(ops):
                near |= before[v] | after[v]
                groups |= groups_at[v]
            known = near, groups
            if ops & ops - 1:
                self._around[ops] = known
        return known

    def require_mask(self, mask: int, where: str) -> int:
        """Return a mask, if it is one of ops of the graph."""
        if mask < 0 or mask & ~self.masks.everything:
            raise Refused(f"{where}: found ops beyond the graph's {self.sets.n}")
        return mask

    # Steps and moves

    def needs(self, v: int, backward: bool) -> int:
        """Return the ops that a walk must step over directly before v."""
        return self.masks.after[v] if backward else self.masks.before[v]

    def increase(self, v: int, place: _Place) -> int:
        """Return the change of M by the step over v; groups without v do not matter."""
        sets, change = self.sets, 0
        for g in self.masks.groups_of[v]:
            if not place.counting >> g & 1:
                continue
            if place.backward:
                change += sets.group_bytes[g]
            elif self.masks.groups[g] & place.rest == 1 << v:
                change -= sets.group_bytes[g]
        return change + (-sets.gain[v] if place.backward else sets.gain[v])

    def rise(self, v: int, place: _Place, increase: int) -> int:
        """Return the cost of the step over v above M before the walk."""
        before = self.sets.adds_extra_before(place.backward)
        return place.change + self.sets.extra[v] + (0 if before else increase)

    def step(self, v: int, place: _Place, where: str) -> int:
        """Walk over v; return the increase."""
        if not 0 <= v < self.sets.n or not place.rest >> v & 1:
            raise Refused(f"{where}: found a step over op {v}, expected one of the ops that are left")
        if self.needs(v, place.backward) & place.rest:
            raise Refused(f"{where}: found a step over {op_and_name(self.graph, v)} before one that it needs")
        increase = self.increase(v, place)
        place.rest ^= 1 << v
        place.change += increase
        if place.backward:  # a group that has lost an op has been paid for
            place.counting &= ~self.groups_at[v]
        return increase

    def walk(self, moves: Iterable[int], place: _Place, where: str) -> None:
        """(1)."""
        for move in moves:
            if move < self.sets.n:
                if (increase := self.step(move, place, where)) > 0:
                    raise Refused(
                        f"{where}: found the move {op_and_name(self.graph, move)} with increase {increase}, "
                        "expected at most 0"
                    )
                continue
            number = move - self.sets.n
            if number >= len(self.proof.blocks):
                raise Refused(f"{where}: found block {number}, expected one below {len(self.proof.blocks)}")
            block = self.proof.blocks[number]
            ops = sum(1 << v for v in block.ops)
            groups = place.counting & self.touched(ops)
            if not place.backward:  # only groups that the block can complete
                groups &= ~self.touched(place.rest & ~ops)
            if block.backward != place.backward or self.counting(ops, block.outside) != groups:
                raise Refused(f"{where}: found block {number} where other groups count, or backward")
            for v in block.ops:
                self.step(v, place, f"{where}, block {number}")

    def counting(self, ops: int, outside: int) -> int:
        """Return the groups that count for a claim or a block."""
        return self.touched(ops) & ~self.touched(outside)

    def check_block(self, where: str, block: Block) -> None:
        """M is least at the end of the block: no part leads to less."""
        self.require_mask(block.outside, where)
        ops = 0
        for v in block.ops:
            if not 0 <= v < self.sets.n or ops >> v & 1:
                raise Refused(f"{where}: found op {v} twice or beyond the graph, expected each op once")
            ops |= 1 << v
        place = _Place(block.backward, ops, self.counting(ops, block.outside))
        counting = {g: set(members(self.masks.groups[g] & ops)) for g in members(place.counting)}
        for v in block.ops:
            self.step(v, place, where)
        try:
            least = least_change(self.sets, block.backward, block.ops, counting, block.multipliers)
        except Refused as fault:
            raise Refused(f"{where}: {fault}") from None
        if least < place.change:
            raise Refused(
                f"{where}: found that parts of it change the memory by {least} bytes or more, "
                f"expected at least its own {place.change}"
            )

    # Claims

    def confirmed_claim(self, number: int, where: str) -> Component | Way:
        """Return an earlier claim."""
        if not 0 <= number < self.confirmed:
            raise Refused(f"{where}: found claim {number}, expected an earlier one")
        return self.proof.claims[number]

    def require_components(
        self, numbers: tuple[int, ...], place: _Place, height: int | None, where: str, *, whole: bool = False
    ) -> None:
        """Check that claims are about all components of the rest, with heights from the walk's start."""
        left = place.rest
        for number in numbers:
            claim = self.confirmed_claim(number, where)
            if not isinstance(claim, Component):
                raise Refused(f"{where}: found claim {number} about a way, expected one about a component")
            near, touched = self.about(claim.ops)
            touched &= place.counting
            if not claim.ops or claim.ops & ~left:
                raise Refused(f"{where}: found claim {number} about other ops than those that are left")
            for g in members(touched):
                near |= self.masks.groups[g]
            if near & place.rest & ~claim.ops:
                v = next(members(near & place.rest & ~claim.ops))
                raise Refused(
                    f"{where}: found claim {number} without {op_and_name(self.graph, v)}, joined to it"
                )
            if (
                claim.backward != place.backward
                or claim.whole != whole
                or self.counting(claim.ops, claim.outside) != touched
            ):
                raise Refused(
                    f"{where}: found claim {number} where other groups count or in another direction"
                )
            if claim.height is not None and (height is None or claim.height + place.change < height):
                raise Refused(
                    f"{where}: found claim {number} up to {claim.height + place.change} bytes, "
                    f"expected at least {'any height' if height is None else height}"
                )
            left &= ~claim.ops
        if left or (whole and not numbers):
            some = next(members(left), None)
            lost = "nothing left" if some is None else f"{op_and_name(self.graph, some)} in no claim"
            raise Refused(f"{where}: found {lost}, expected claims about all ops that are left")

    def check_component(self, where: str, claim: Component) -> None:
        """(3) and (4)."""
        ops = self.require_mask(claim.ops, where)
        self.require_mask(claim.outside, where)
        if ops & claim.outside:
            raise Refused(f"{where}: found ops that are outside too, expected either")
        counting = self.counting(ops, claim.outside)
        if claim.waist is not None:
            self._check_waist(where, claim, counting)
            return
        branches = {branch.op: branch for branch in claim.branches}
        for v in members(ops):
            if self.needs(v, claim.backward) & ops:
                continue
            place = _Place(claim.backward, ops, counting)
            rise = self.rise(v, place, self.increase(v, place))
            if claim.height is not None and rise >= claim.height:
                continue
            if v not in branches:
                raise Refused(
                    f"{where}: found no branch for {op_and_name(self.graph, v)}, which costs {rise} bytes, "
                    f"expected one below {'any height' if claim.height is None else claim.height}"
                )
            self._check_branch(f"{where}, {op_and_name(self.graph, v)}", claim, branches[v], place)

    def _check_branch(self, where: str, claim: Component, branch: Branch, place: _Place) -> None:
        """Step over the branch's op and its moves; then nothing may descend to where the walk began."""
        self.step(branch.op, place, where)
        self.walk(branch.moves, place, where)
        if place.change <= 0:
            raise Refused(f"{where}: found a descent to {place.change} bytes, expected more than 0")
        self.require_components(branch.claims, place, claim.height, where, whole=claim.whole)

    def _check_waist(self, where: str, claim: Component, counting: int) -> None:
        sets, ops, height = self.sets, claim.ops, claim.height
        f = claim.waist
        if f is None or not 0 <= f < sets.n or not ops >> f & 1:
            raise Refused(f"{where}: found the waist {f}, expected one of the ops")
        sides = (self.masks.ancestors[f], self.masks.descendants[f])
        if ops & ~(sides[0] | sides[1] | 1 << f):
            raise Refused(
                f"{where}: found the waist {op_and_name(self.graph, f)}, not comparable with all others"
            )
        neck = ops & sides[claim.backward]
        inner = counting & self.touched(neck)
        if not claim.backward:  # groups with ops behind the neck do not complete in it
            inner &= ~self.touched(ops & ~neck)
        self.require_components(claim.inner, _Place(claim.backward, neck, inner), height, f"{where}, inner")
        change = self._change(claim.backward, neck, inner)
        if claim.way is not None:
            way = self.confirmed_claim(claim.way, where)
            if not isinstance(way, Way) or way.ops != neck or self.counting(neck, way.outside) != inner:
                raise Refused(f"{where}: found way {claim.way}, expected one over the ops before the waist")
            start = change if claim.backward else 0  # where M is least counted from: before the ops
            if way.height is not None and (height is None or way.height + start < height):
                raise Refused(f"{where}: found way {claim.way} up to {way.height + start}, expected {height}")
            return
        place = _Place(
            claim.backward, ops & ~neck, counting & ~(self.touched(neck) if claim.backward else 0), change
        )
        rise = self.rise(f, place, self.increase(f, place))
        if height is not None and rise >= height:
            return
        if claim.beyond is None or claim.beyond.op != f:
            raise Refused(f"{where}: found nothing beyond the waist, which costs {rise} bytes")
        self._check_branch(f"{where}, waist", claim, claim.beyond, place)

    def _change(self, backward: bool, ops: int, counting: int) -> int:
        """Return the change of M by walking over all of some ops, all of whose counting groups are given."""
        gain = sum(self.sets.gain[v] for v in members(ops))
        freed = sum(self.sets.group_bytes[g] for g in members(counting))
        return freed - gain if backward else gain - freed

    def check_way(self, where: str, claim: Way) -> None:
        """(5)."""
        ops = self.require_mask(claim.ops, where)
        self.require_mask(claim.outside, where)
        if ops & claim.outside:
            raise Refused(f"{where}: found ops that are outside too, expected either")
        counting = self.counting(ops, claim.outside)
        across = self._change(False, ops, counting)
        head, tail = _Place(False, ops, counting), _Place(True, ops, counting, across)
        self.walk(claim.head, head, f"{where}, head")
        self.walk(claim.tail, tail, f"{where}, tail")
        rest = head.rest & tail.rest
        if head.rest | tail.rest != ops:
            raise Refused(f"{where}: found head and tail that overlap, expected ops between them")
        if not rest:
            raise Refused(f"{where}: found nothing between head and tail, expected ops not to be crossed")
        claims = [self.confirmed_claim(number, where) for number in claim.claims]
        whole = len(claims) == 1 and isinstance(claims[0], Component) and claims[0].whole
        origin, target = (tail, head) if claim.backward else (head, tail)
        if not whole and target.change > origin.change:
            raise Refused(
                f"{where}: found claims from the end with {origin.change} bytes towards {target.change}, "
                "expected them towards the one with less"
            )
        place = _Place(claim.backward, rest, counting & self.touched(rest), origin.change)
        # groups that lost an op at the end never complete
        place.counting &= ~self.touched(ops & ~tail.rest)
        self.require_components(claim.claims, place, claim.height, where, whole=whole)
