"""What the planner of `lowtide.solvers.placement.planner.method` is set to."""

from __future__ import annotations

from dataclasses import dataclass

from ....models.units import MIB


@dataclass(frozen=True, kw_only=True)
class PlannerSetting:
    """What the portfolio varies.

    Attributes
    ----------
    chunk
        Largest chunk in bytes.
    lead
        Of a return, in sixteenths of the time that the tensor takes on its channel.
    horizon
        ns before its use from which on a tensor comes back from the host.
    slots
        For staging; 0 for none.
    gate
        Whether the tail cap binds copies to the slow tier.
    displace
        Whether a fetch may drop chunks with a later use.
    eager
        Whether the channel to the host copies as soon as it can; else only what the slow tier's channel would
        be late with.
    modes
        Number of each op's mode; None: the reference modes (`lowtide.solvers.placement.reductions.modes`).
    """

    chunk: int = 16 * MIB
    lead: int = 16
    horizon: int = 8 * 10**9
    slots: int = 1
    gate: bool = True
    displace: bool = True
    eager: bool = True
    modes: tuple[int, ...] | None = None
