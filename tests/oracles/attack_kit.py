"""What plans made by hand to slip through the verifier are made of.

The machine: tier `fast` (home of `p0` and `p1`) and tier `slow` (home of `cpu`; `both` reaches fast and, at
1 byte per ns, slow); channels of 1 byte per ns each way. All ops take 4 ns unless they say otherwise.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from lowtide.models.graph import Accounting, Graph, Op, Tensor
from lowtide.models.machine import Access, Channel, Machine, Processor, Tier
from lowtide.models.plan import Copy, Free, Plan, Resident, Run
from tests.random_plans import Case

Attack = tuple[Case, frozenset[str]]
ATTACKS: dict[str, Attack] = {}
"""Each with the kinds of violation that it must be given; none if it is valid after all."""
F, S = "fast", "slow"
PER_NS = 10**9

MACHINE = Machine(
    tiers=(Tier(name=F), Tier(name=S)),
    processors=(
        Processor(name="p0", tiers=(Access(tier=F),)),
        Processor(name="p1", tiers=(Access(tier=F),)),
        Processor(name="cpu", kind="cpu", tiers=(Access(tier=S),)),
        Processor(name="both", kind="both", tiers=(Access(tier=F), Access(tier=S, bytes_per_s=PER_NS))),
    ),
    channels=(
        Channel(src=F, dst=S, bytes_per_s=PER_NS),
        Channel(src=S, dst=F, bytes_per_s=PER_NS),
    ),
)


def tensor(nbytes: int = 4, *flags: str, kind: str = "weight") -> Tensor:
    return Tensor(name="t", nbytes=nbytes, kind=kind, initial="i" in flags, final="f" in flags)


def op(reads: tuple[int, ...] = (), writes: tuple[int, ...] = (), **more: Any) -> Op:
    return Op(name="op", duration_ns=more.pop("ns", 4), reads=reads, writes=writes, **more)


def run(i: int, start: int, where: str = "p0", ns: int = 4, mode: int = 0) -> Run:
    return Run(i, mode, start, start + ns, where)


def plan(*actions: Any, **more: Any) -> Plan:
    machine = more.pop("machine", MACHINE)
    return Plan(
        machine=machine,
        start=tuple(x for x in actions if isinstance(x, Resident)),
        runs=tuple(x for x in actions if isinstance(x, Run)),
        copies=tuple(x for x in actions if isinstance(x, Copy)),
        frees=tuple(x for x in actions if isinstance(x, Free)),
        **more,
    )


def attack(name: str, tensors: list[Tensor], ops: list[Op], made: Plan, *kinds: str, **more: Any) -> None:
    """Enter an attack; with ``replace=True`` the accounting is that of releases at the reader's start."""
    accounting = Accounting.REPLACE if more.pop("replace", False) else Accounting.COEXIST
    graph = Graph(name=name, tensors=tuple(tensors), ops=tuple(ops), accounting=accounting)
    assert name not in ATTACKS
    made = replace(made, accounting=accounting)
    ATTACKS[name] = (Case(graph, made, **more), frozenset(kinds))


def in_both_accountings(name: str, coexist: tuple[str, ...], replacing: tuple[str, ...], *rest: Any) -> None:
    attack(f"{name}, coexist", *rest, *coexist)
    attack(f"{name}, replace", *rest, *replacing, replace=True)


def with_machine(**changes: Any) -> Machine:
    return replace(MACHINE, **changes)
