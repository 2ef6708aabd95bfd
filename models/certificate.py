"""Certificates: data from which anyone can confirm a bound.

A certificate of `peak` claims: every order of the ops of this graph that obeys its precedence has a peak of
at least `bound` bytes. One of `placement` claims: every plan of this graph in its setting, with the ops in
reference order, takes at least `bound` ns. One of `parallel-memory` claims: no parallel schedule of this
graph in its setting needs more than `bound` bytes. What each kind of proof says, and why it proves the
claim, is in the module that checks it:

============  ========================  ==========================================
kind          proof                     checked by
============  ========================  ==========================================
working-set   `WorkingSetProof`         `lowtide.models.verifier.proofs.working_set`
cut           `CutProof`                `lowtide.models.verifier.proofs.cut`
states        `StatesProof`             `lowtide.models.verifier.proofs.states`
descents      `DescentsProof`           `lowtide.models.verifier.proofs.descents`
prices        `PricesProof`             `lowtide.models.verifier.proofs.prices`
release       `ReleaseProof`            `lowtide.models.verifier.proofs.release`
flow          `FlowProof`               `lowtide.models.verifier.flow`
============  ========================  ==========================================

Sets of ops are bit masks (bit v: op v); in files they are hexadecimal strings. *Forward* a walk executes
ops from nothing, *backward* it takes them back from everything.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from .flow_proof import FlowProof, ParallelSetting
from .machine import Machine


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkingSetProof:
    """The ops that must be looked at alone: one op, or every op that can be the first or the last one.

    Attributes
    ----------
    at
        "op", "first" or "last".
    op
        The op, of "op"; else None.
    """

    kind: ClassVar[str] = "working-set"
    at: str
    op: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object."""
        return {"kind": self.kind, "at": self.at, "op": self.op}


@dataclass(frozen=True, slots=True, kw_only=True)
class Multipliers:
    """Nonnegative integers that bound a least memory from below, by weak duality.

    Attributes
    ----------
    edges
        (op needed, op that needs it, bytes): the first one stands before the second one in the walk.
    shares
        (tensor, op that accesses it, bytes); of tensors with the same last accessors the first one stands
        for all.
    """

    edges: tuple[tuple[int, int, int], ...] = ()
    shares: tuple[tuple[int, int, int], ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object."""
        return {"edges": list(map(list, self.edges)), "shares": list(map(list, self.shares))}


@dataclass(frozen=True, slots=True, kw_only=True)
class CutProof:
    """The op whose moment is bounded, and the multipliers."""

    kind: ClassVar[str] = "cut"
    op: int
    multipliers: Multipliers

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object."""
        return {"kind": self.kind, "op": self.op, "multipliers": self.multipliers.to_dict()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """The states after the same number of steps.

    Attributes
    ----------
    parents, ops
        Per state: the state of the level before (by its place there) and the op stepped over. Both are
        empty for the first level, which has the one state where walks begin.
    free
        Per state: the op that is the only one followed, or None if all within the limit are.
    """

    parents: tuple[int, ...]
    ops: tuple[int, ...]
    free: tuple[int | None, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object."""
        return {"parents": list(self.parents), "ops": list(self.ops), "free": list(self.free)}


@dataclass(frozen=True, slots=True, kw_only=True)
class StatesProof:
    """Executed sets, level by level, that no walk within the limit leaves."""

    kind: ClassVar[str] = "states"
    backward: bool
    levels: tuple[Level, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object."""
        return {"kind": self.kind, "backward": self.backward, "levels": [x.to_dict() for x in self.levels]}


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Ops that may be stepped over together, because no part of them leads to less memory.

    Attributes
    ----------
    backward
        The direction of the walk.
    ops
        In an order in which the walk may step over them.
    outside
        Mask of ops that decide which tensors count: a tensor with several last accessors counts if the
        block has one of them and `outside` has none.
    multipliers
        The proof that no part has less memory.
    """

    backward: bool
    ops: tuple[int, ...]
    outside: int
    multipliers: Multipliers

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object."""
        return {
            "backward": self.backward,
            "ops": list(self.ops),
            "outside": f"{self.outside:x}",
            "multipliers": self.multipliers.to_dict(),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """What is left after a forced step: moves that may be made, then components without a descent.

    Attributes
    ----------
    op
        The step.
    moves
        In turn: below the number n of ops of the graph a single op that does not increase the memory; from
        n on the block of number move - n.
    claims
        One for each component of the ops that are left, by number.
    """

    op: int
    moves: tuple[int, ...]
    claims: tuple[int, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object."""
        return {"op": self.op, "moves": list(self.moves), "claims": list(self.claims)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Component:
    """Claim: no walk within some ops descends below a height.

    Attributes
    ----------
    backward
        The direction of the walk.
    whole
        Whether walking over all of `ops` counts as a descent, whatever the memory is then.
    ops
        Mask of the ops.
    outside
        Mask that decides which tensors count (see `Block`).
    height
        Bytes above the memory at the start; None for any height.
    branches
        One for each first step that is cheaper than `height`; empty if there is a waist.
    waist
        An op that is comparable with all others of `ops`, or None.
    inner
        With a waist: claims for the components of the ops before it.
    way
        With a waist: the claim that the ops before it cannot all be walked over, or None if they can.
    beyond
        With a waist and no `way`: what follows the step over it; None if that step is too costly.
    """

    backward: bool
    whole: bool
    ops: int
    outside: int
    height: int | None
    branches: tuple[Branch, ...] = ()
    waist: int | None = None
    inner: tuple[int, ...] = ()
    way: int | None = None
    beyond: Branch | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object."""
        claim: dict[str, Any] = {
            "kind": "component",
            "backward": self.backward,
            "whole": self.whole,
            "ops": f"{self.ops:x}",
            "outside": f"{self.outside:x}",
            "height": self.height,
        }
        if self.waist is None:
            return {**claim, "branches": [x.to_dict() for x in self.branches]}
        beyond = None if self.beyond is None else self.beyond.to_dict()
        return {**claim, "waist": self.waist, "inner": list(self.inner), "way": self.way, "beyond": beyond}


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """Claim: some ops cannot all be walked over below a height.

    Attributes
    ----------
    ops, outside
        Masks, as in `Component`, read forward.
    height
        Bytes above the memory before the ops; None for any height.
    head, tail
        Moves (see `Branch`) forward from the beginning and backward from the end.
    backward
        In which direction the claims speak.
    claims
        One for each component of what lies between head and tail, or a single one that is `whole`.
    """

    ops: int
    outside: int
    height: int | None
    head: tuple[int, ...]
    tail: tuple[int, ...]
    backward: bool
    claims: tuple[int, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object."""
        return {
            "kind": "way",
            "ops": f"{self.ops:x}",
            "outside": f"{self.outside:x}",
            "height": self.height,
            "head": list(self.head),
            "tail": list(self.tail),
            "backward": self.backward,
            "claims": list(self.claims),
        }


Claim = Component | Way


@dataclass(frozen=True, slots=True, kw_only=True)
class DescentsProof:
    """Claims, each resting on earlier ones; the last one is about all ops."""

    kind: ClassVar[str] = "descents"
    blocks: tuple[Block, ...]
    claims: tuple[Claim, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object."""
        return {
            "kind": self.kind,
            "blocks": [x.to_dict() for x in self.blocks],
            "claims": [x.to_dict() for x in self.claims],
        }


Prices = tuple[int, ...]
"""For each sample, or for the epoch that it begins: at least 0, in ns per byte over the denominator."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PricesProof:
    """What a byte pays for memory and transfers.

    Attributes
    ----------
    denominator
        Of all prices.
    least
        Bytes; smaller tensors pay only where ops access them.
    samples
        Ascending: 2k is the start of op k, 2k + 1 its end; those of a single run begin with -1, time 0.
    memory
        Prices of the first tier.
    capacities, channels, groups
        Prices of outer tiers by name, of channels by (src, dst), of groups of channels by name.
    """

    kind: ClassVar[str] = "prices"
    denominator: int
    least: int
    samples: tuple[int, ...]
    memory: Prices
    capacities: tuple[tuple[str, Prices], ...] = ()
    channels: tuple[tuple[tuple[str, str], Prices], ...] = ()
    groups: tuple[tuple[str, Prices], ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object."""
        return {
            "kind": self.kind,
            "denominator": self.denominator,
            "least": self.least,
            "samples": list(self.samples),
            "memory": list(self.memory),
            "capacities": [{"tier": name, "prices": list(x)} for name, x in self.capacities],
            "channels": [{"src": a, "dst": b, "prices": list(x)} for (a, b), x in self.channels],
            "groups": [{"name": name, "prices": list(x)} for name, x in self.groups],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseProof:
    """What op `op` waits for must come out of some tiers, through channels with joint caps.

    Attributes
    ----------
    op
        Index.
    tiers, groups
        Names; the groups have no channel out of the tiers in common.
    """

    kind: ClassVar[str] = "release"
    op: int
    tiers: tuple[str, ...]
    groups: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object."""
        return {"kind": self.kind, "op": self.op, "tiers": list(self.tiers), "groups": list(self.groups)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """The question of `placement` beside its graph: machine, whether periodic, tiers at time 0 by kind.

    Where `start` is None inputs start in the outermost tier, and kinds that it does not name anywhere.
    """

    problem: ClassVar[str] = "placement"
    unit: ClassVar[str] = "ns"
    machine: Machine
    periodic: bool
    start: Mapping[str, tuple[str, ...]] | None

    @property
    def starts(self) -> Mapping[str, tuple[str, ...]]:
        """By kind of tensor, the tiers where it may be at time 0; kinds that it does not name: anywhere."""
        return {"input": (self.machine.tiers[-1].name,)} if self.start is None else self.start

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object."""
        start = None if self.start is None else {k: list(v) for k, v in sorted(self.start.items())}
        return {"machine": self.machine.to_dict(), "periodic": self.periodic, "start": start}


Proof = WorkingSetProof | CutProof | StatesProof | DescentsProof | PricesProof | ReleaseProof | FlowProof


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """A bound on the peak of every order of a graph, or as the setting says, with its proof.

    Attributes
    ----------
    bound
        In `unit`.
    setting
        That of `placement` or `parallel-memory`; None: the certificate is about `peak`.
    proof
        What `lowtide.models.verifier.certificate.verify_certificate` confirms.
    graph_name, graph_source, graph_sha256
        The graph, as in plans.
    """

    bound: int
    proof: Proof = field(repr=False)
    graph_name: str
    graph_source: str | None
    graph_sha256: str
    setting: Setting | ParallelSetting | None = None

    @property
    def problem(self) -> str:
        """The problem that the bound is one of."""
        return "peak" if self.setting is None else self.setting.problem

    @property
    def unit(self) -> str:
        """Bytes or ns."""
        return "bytes" if self.setting is None else self.setting.unit

    def to_dict(self) -> dict[str, Any]:
        """Return the native JSON object."""
        return {
            "format": "lowtide/certificate",
            "version": 1,
            "problem": self.problem,
            "graph": {
                "name": self.graph_name,
                "source": self.graph_source,
                "sha256": self.graph_sha256,
            },
            **({} if self.setting is None else {"setting": self.setting.to_dict()}),
            "bound": self.bound,
            "proof": self.proof.to_dict(),
        }
