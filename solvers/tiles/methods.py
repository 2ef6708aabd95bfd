"""The room of problem `tiles`."""

from __future__ import annotations

from ...models.problems.tiles import Tiles
from ..method import BOUND, OPTIMUM, Export, Method, Option
from ..room import Room

_MOST = Option("most", 50_000, "groups of joined ops at most")

ROOM = Room(
    problem=Tiles,
    methods=(
        Method(
            "auto",
            ".tiles.auto:solve_auto",
            "greedy fusion, then the shortest path over all groups of joined ops",
            proves=OPTIMUM,
            options=(_MOST,),
        ),
        Method(
            "exact",
            ".tiles.exact:solve_exact",
            "shortest path over what is in slow and fast memory, groups in their best tiles",
            proves=OPTIMUM,
            options=(_MOST,),
        ),
        Method(
            "cpsat",
            ".tiles.models:solve_cpsat",
            "which groups run, none of which keeps a tensor in fast memory",
            proves=OPTIMUM,
            options=(_MOST,),
            engine="cpsat",
            model=Export(
                "tiles.groups_cpsat", ".tiles.models:stated", scope="answers that keep nothing in fast memory"
            ),
        ),
        Method(
            "greedy",
            ".tiles.fusion:solve_greedy",
            "merge the two groups that save most, each group in its best tiles and order",
            proves=BOUND,
        ),
        Method(
            "single",
            ".tiles.fusion:solve_single",
            "each op in a group of its own, in its best tiles and order",
            proves=BOUND,
        ),
    ),
    bound=".tiles.bounds:raise_bound",
)
