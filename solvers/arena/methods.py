"""The room of problem `arena`."""

from __future__ import annotations

from ...models.problems.arena import Arena
from ..method import OPTIMUM, Method
from ..offsets.methods import OFFSETS_KERNELS
from ..peak.methods import PEAK_KERNELS
from ..room import Room

ROOM = Room(
    problem=Arena,
    methods=(
        Method(
            "auto",
            ".arena.auto:solve_auto",
            "least peaks as bounds, the addresses of their orders, a walk over orders, CP-SAT",
            proves=OPTIMUM,
            engine="cpsat",
            kernels=(*PEAK_KERNELS, *OFFSETS_KERNELS),
        ),
        Method(
            "cpsat",
            ".arena.models:solve_joint",
            "CP-SAT: positions of ops, rectangles of positions and addresses, in one model",
            proves=OPTIMUM,
            engine="cpsat",
            kernels=OFFSETS_KERNELS,
        ),
    ),
    judging=16.0,
    shared=("offsets", "peak"),
)
