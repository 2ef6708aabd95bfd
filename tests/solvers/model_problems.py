"""A small question of each problem, for models in one's hands."""

from __future__ import annotations

from dataclasses import replace

import lowtide as lt
from lowtide.instances import load_problem

SPECS = {
    "peak": "catalogue:harpoon",
    "offsets": "catalogue:minimalloc/example",
    "arena": "catalogue:diamond",
    "makespan": "catalogue:diamond?processors=2",
    "distributed": "catalogue:diamond?machine=v100x4-16g-nvlink&processors=2",
    "recompute": "gen:backprop-chain?l=3&memory=4",
    "minio": "catalogue:harpoon?memory=14",
    "parallel-memory": "catalogue:diamond?processors=2",
    "pipeline": "gen:stages?p=2&m=3&memory=2",
    "hybrid": "catalogue:diamond?processors=2&micro=2",
    "partition": "catalogue:diamond?processors=2",
    "streams": "catalogue:diamond?contention=half-serial&parts=2",
    "memory-edges": "catalogue:diamond?bound=1000",
    "sharding": "catalogue:iopddl/example",
    "tiles": "catalogue:mlsys2026/1",
    "placement": "gen:skipchain?n=4,machine=v100-16g-pcie3,device=400MB,start=gpu,whole=1",
}


IN_PARTS = ("slot-lp", "tmof", "autotm-static", "autotm-sync", "autotm-async")
"""Methods of placement whose plans cut tensors, or may."""

RELAXED = ("moments", "lp-bound")
"""Methods whose models have no answers: they only bound."""

PAGED = lt.Machine(
    tiers=(lt.Tier(name="memory"), lt.Tier(name="disk")),
    processors=(lt.Processor(name="p", tiers=(lt.Access(tier="memory"),)),),
    channels=(
        lt.Channel(src="memory", dst="disk", bytes_per_s=10**9),
        lt.Channel(src="disk", dst="memory", bytes_per_s=10**9),
    ),
)


def problem_of(name: str, method: str) -> lt.Problem:
    problem = load_problem(name, SPECS[name])
    if isinstance(problem, lt.Streams) and method == "rates-cpsat":
        return replace(problem, contention="proportional", devices=2)
    if isinstance(problem, lt.Streams) and method == "cpsat":
        return replace(problem, contention="none", sync_ns=0, devices=2)
    if isinstance(problem, lt.Placement) and method in IN_PARTS:
        return replace(problem, whole=False)
    if method != "poet":
        return problem
    assert isinstance(problem, lt.Recompute)
    return replace(problem, machine=PAGED, memory=4)
