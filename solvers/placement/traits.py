"""What a question of `placement` has that not every method serves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Flag, auto
from functools import reduce
from operator import or_

from ...formulations.placement.lanes import lanes
from ...models.graph import Accounting
from ...models.problems.placement import Placement
from .reductions.replicas.share import replicas


class Trait(Flag):
    """A trait; `words` has each in words."""

    PROCESSORS = auto()
    LANES = auto()
    REPLICAS = auto()
    IN_PLACE = auto()
    SLOWED = auto()
    ONE_TIER = auto()
    FOUR_TIERS = auto()
    FIVE_TIERS = auto()
    FAR = auto()
    CROSS_CAP = auto()
    LATENCY = auto()
    MODES = auto()
    OPERANDS = auto()
    ELSEWHERE = auto()
    PERIOD = auto()
    STARTS = auto()
    WHOLE = auto()
    PARTS = auto()
    FREE_ORDER = auto()
    RERUN = auto()
    ONCE = auto()
    REPLACE = auto()
    ADDRESSES = auto()
    PAGES = auto()

    @classmethod
    def words(cls) -> Mapping[Flag, str]:
        """Return what each means."""
        return {
            cls.PROCESSORS: "several processors that share tiers or tensors",
            cls.LANES: "several processors that differ, each with a memory of its own",
            cls.REPLICAS: "several processors that are alike, each with a memory of its own",
            cls.IN_PLACE: "a processor that uses another tier than the first",
            cls.SLOWED: "a processor that its first tier slows down",
            cls.ONE_TIER: "one tier",
            cls.FOUR_TIERS: "more than three tiers",
            cls.FIVE_TIERS: "more than four tiers",
            cls.FAR: "a tier without channels from and to the first one",
            cls.CROSS_CAP: "a joint cap over both directions",
            cls.LATENCY: "channels with latency",
            cls.MODES: "ops with several modes",
            cls.OPERANDS: "modes that name tiers",
            cls.ELSEWHERE: "modes that name another tier than the first",
            cls.PERIOD: "a period",
            cls.STARTS: "what outlives a period and may not start everywhere",
            cls.WHOLE: "copies of whole tensors",
            cls.PARTS: "copies that may be cut",
            cls.FREE_ORDER: "a free order",
            cls.RERUN: "ops that may run again",
            cls.ONCE: "ops that run once",
            cls.REPLACE: "outputs that take the place of inputs",
            cls.ADDRESSES: "addresses",
            cls.PAGES: "pages",
        }


SEVERAL = Trait.PROCESSORS | Trait.LANES | Trait.REPLICAS
"""More processors than one."""

FREEDOMS = Trait.FREE_ORDER | Trait.RERUN
"""Of ops, which have no order or run again."""

DEMANDS = Trait.ADDRESSES | Trait.PAGES
"""On plans, which the room meets for every method (`Room.demanded`)."""

BASIC = Trait.PERIOD | Trait.WHOLE | Trait.PARTS | Trait.ONCE | Trait.REPLACE | Trait.LATENCY | DEMANDS
"""What each method of one processor serves."""

TIERS = Trait.FAR | Trait.FOUR_TIERS | Trait.FIVE_TIERS
"""More than three, or ones that the first does not see."""

SAMPLED = BASIC | TIERS | Trait.CROSS_CAP | Trait.STARTS | Trait.MODES
"""Of bounds by windows and prices."""

SIMULATED = SAMPLED
"""Of policies on the simulator; of more than three tiers some must be far."""

PLANNED = SAMPLED & ~Trait.CROSS_CAP | Trait.OPERANDS
"""Of the planner; the same holds of its tiers."""

STATES = SAMPLED | Trait.ONE_TIER | Trait.OPERANDS
"""Of models whose data are `lowtide.formulations.placement.states`."""

BRANCHED = STATES | Trait.ELSEWHERE
"""Of those that branch by modes: ones that others beat count for nothing."""

IN_ORDER = BRANCHED | SEVERAL | Trait.IN_PLACE | Trait.SLOWED
"""All but the freedoms of ops."""

LISTED = IN_ORDER & ~(SEVERAL | Trait.SLOWED | Trait.FIVE_TIERS)
"""Of AutoTM's models."""

ONCE_ONLY = Trait.ONCE | Trait.PERIOD | Trait.STARTS
"""What no question has in which ops may run again."""

AGAIN = PLANNED & ~(Trait.MODES | Trait.OPERANDS | ONCE_ONLY) | Trait.RERUN
"""Of searches for what runs again: the planner's, where ops have one mode."""


def traits(problem: Placement) -> Trait:
    """Return the traits of a problem, which are computed once.

    Examples
    --------
    >>> import lowtide as lt
    >>> problem = lt.Placement(lt.load("gen:chain?n=5&seed=1"), lt.load_machine("a100-40g-pcie3"))
    >>> [trait.name for trait in traits(problem)]
    ['PARTS', 'ONCE']
    """
    kept: Trait | None = problem.__dict__.get("_traits")
    if kept is None:
        kept = _traits(problem)
        problem.__dict__["_traits"] = kept
    return kept


def _is_at_both_ends(tier: str, channels: Iterable[tuple[str, str]]) -> bool:
    return tier in {src for src, _ in channels} & {dst for _, dst in channels}


def _traits(problem: Placement) -> Trait:
    machine, graph = problem.machine, problem.graph
    first, count = machine.tiers[0].name, len(machine.tiers)
    pairs = {(c.src, c.dst) for c in machine.channels}
    uses = [[a.tier for a in p.tiers] for p in machine.processors]
    several, lane = len(uses) > 1, len(uses) > 1 and bool(lanes(problem))
    alike = lane and replicas(problem) is not None
    named = {tier for op in graph.ops for mode in op.all_modes for _, tier in mode.operands}
    lasting = {str(t.kind) for t in graph.tensors if t.initial and t.final}
    has = {
        Trait.PROCESSORS: several and not lane,
        Trait.LANES: lane and not alike,
        Trait.REPLICAS: alike,
        Trait.IN_PLACE: any(len(u) > 1 for u in uses) or (not several and uses[0][0] != first),
        Trait.SLOWED: any(p.tiers[0].bytes_per_s is not None for p in machine.processors),
        Trait.ONE_TIER: count == 1,
        Trait.FOUR_TIERS: count > 3,
        Trait.FIVE_TIERS: count > 4,
        Trait.FAR: any(not {(first, t.name), (t.name, first)} <= pairs for t in machine.tiers[1:]),
        Trait.CROSS_CAP: any(_is_at_both_ends(first, g.channels) for g in machine.groups),
        Trait.LATENCY: any(c.latency_ns for c in machine.channels),
        Trait.MODES: any(len(op.all_modes) > 1 for op in graph.ops),
        Trait.OPERANDS: bool(named),
        Trait.ELSEWHERE: bool(named - {first}),
        Trait.PERIOD: problem.periodic,
        Trait.STARTS: problem.periodic and bool({*problem.starts} & lasting),
        Trait.WHOLE: problem.whole,
        Trait.PARTS: not problem.whole,
        Trait.FREE_ORDER: problem.order == "free",
        Trait.RERUN: problem.recompute,
        Trait.ONCE: not problem.recompute,
        Trait.REPLACE: graph.accounting is Accounting.REPLACE,
        Trait.ADDRESSES: problem.addresses,
        Trait.PAGES: problem.page is not None,
    }
    return reduce(or_, (trait for trait, holds in has.items() if holds), Trait(0))
