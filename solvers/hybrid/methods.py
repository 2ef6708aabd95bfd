"""The room of problem `hybrid`."""

from __future__ import annotations

from ...models.problems.hybrid import Hybrid
from ..method import BOUND, OPTIMUM, PYOMO_SOLVER, Export, Method, Option
from ..room import Room

_MOST = Option("most", 40_000, "ideals at most")

ROOM = Room(
    problem=Hybrid,
    methods=(
        Method(
            "auto",
            ".hybrid.auto:solve_auto",
            "program over all beginnings of the graph, modes by exact knapsacks; piper and equal",
            proves=OPTIMUM,
            options=(_MOST,),
        ),
        Method(
            "piper",
            ".hybrid.piper:solve_piper",
            "the same program, modes by the published heuristic",
            proves=BOUND,
            source="Tarnawski, Narayanan and Phanishayee, Piper, NeurIPS 2021",
            options=(_MOST,),
        ),
        Method(
            "milp",
            ".hybrid.models:solve_milp",
            "MILP in Pyomo: stages, degrees and modes at once, for few layers and devices",
            proves=OPTIMUM,
            options=(PYOMO_SOLVER,),
            engine="highs",
            model=Export("hybrid.stages_milp"),
        ),
        Method(
            "equal",
            ".hybrid.equal:solve_equal",
            "stages of the same degrees and equal numbers of layers",
            proves=BOUND,
            source="Narayanan and others, PipeDream-2BW, ICML 2021, as Piper compares it",
        ),
    ),
    trivial=".hybrid.trivial:one_stage",
    bound=".hybrid.bounds:raise_bound",
)
