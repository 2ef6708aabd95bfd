"""What parts of `auto` and methods of `placement` serve, in traits (`traits`)."""

from __future__ import annotations

from functools import wraps
from typing import Any

from ...models.errors import UsageError
from ...models.problems.placement import Placement
from ..context import Context, Outcome
from ..method import RunFunction
from .traits import Trait

ANY = ~Trait(0)
"""Each trait that there is."""

SEVERAL = Trait.PROCESSORS | Trait.LANES | Trait.REPLICAS
"""More processors than one."""

BASIC = Trait.PERIOD | Trait.WHOLE | Trait.PARTS | Trait.ONCE | Trait.REPLACE | Trait.LATENCY
"""What each method of one processor serves."""

SIMULATED = BASIC | Trait.CROSS_CAP | Trait.STARTS | Trait.MODES | Trait.FAR
"""Of policies on the simulator."""

PLANNED = BASIC | Trait.OPERANDS | Trait.MODES | Trait.FAR | Trait.STARTS
"""Of the planner."""

SAMPLED = SIMULATED | Trait.FOUR_TIERS | Trait.FIVE_TIERS
"""Of bounds by windows and prices."""

STATES = SAMPLED & ~Trait.MODES | Trait.ONE_TIER | Trait.OPERANDS
"""Of models whose data are `lowtide.formulations.placement.states`."""


def refusing(run: RunFunction) -> RunFunction:
    """Return the function for which what it refuses late is an outcome, too."""

    @wraps(run)
    def own(problem: Placement, context: Context) -> Any:
        try:
            return run(problem, context)
        except UsageError as error:
            return Outcome(refused=str(error))

    return own
