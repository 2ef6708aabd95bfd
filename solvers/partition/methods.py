"""The room of problem `partition`."""

from __future__ import annotations

from ...models.problems.partition import Partition
from ..method import OPTIMUM, Method, Option
from ..room import Room

_KERNELS = (".partition.ideals_kernel",)
_MOST = Option("most", 100_000, "ideals at most")

ROOM = Room(
    problem=Partition,
    methods=(
        Method(
            "auto",
            ".partition.ideals:solve_ideals",
            "chain, then ideals",
            proves=OPTIMUM,
            options=(_MOST,),
            kernels=_KERNELS,
        ),
        Method(
            "ideals",
            ".partition.ideals:solve_ideals",
            "dynamic program over all beginnings of the graph",
            proves=OPTIMUM,
            source="Tarnawski and others, NeurIPS 2020",
            options=(_MOST,),
            kernels=_KERNELS,
        ),
        Method(
            "chain",
            ".partition.chain:solve_chain",
            "dynamic program over the cuts of the reference order, exact for chains",
            proves=OPTIMUM,
            kernels=_KERNELS,
        ),
    ),
)
