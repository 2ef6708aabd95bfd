"""The room of problem `distributed`."""

from __future__ import annotations

from ...models.problems.distributed import Distributed
from ..makespan.methods import ALL, LISTS
from ..method import BOUND, OPTIMUM, Export, Method
from ..room import Room

ROOM = Room(
    problem=Distributed,
    trivial=".distributed.trivial:one_processor",
    methods=(
        Method(
            "auto",
            ".distributed.auto:solve_auto",
            "list schedules, on some memories too, bounds of all memories together, and CP-SAT, in turns",
            proves=OPTIMUM,
            engine="cpsat",
            kernels=ALL,
            late=True,
        ),
        Method(
            "cpsat",
            ".distributed.models:solve_cpsat",
            "CP-SAT, intervals: processors, links and memories, from heft's schedule and the bounds",
            proves=OPTIMUM,
            engine="cpsat",
            kernels=LISTS,
            model=Export("distributed.intervals_cpsat", ".distributed.models:stated", unit="tick"),
        ),
        Method(
            "heft",
            ".distributed.lists:solve_heft",
            "list schedule by upward rank, each op where it ends first, what comes to a memory fits for good",
            proves=BOUND,
            source="Topcuoglu, Hariri and Wu 2002; with memories Herrmann, Marchal and Robert 2014",
            kernels=LISTS,
        ),
    ),
    largest=True,
    judging=6.0,
    shared=("makespan", "peak"),
)
