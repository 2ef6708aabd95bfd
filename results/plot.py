"""Pictures for papers and notebooks, drawn with matplotlib.

Of a plan: `profile` (memory over time), `gantt` (runs and copies), `residency` (memory of every tier),
`timeline` (both, and stalls), `cells` (runs and runs again, and what memory cells hold), `stages` (those of
`hybrid`, and what a device of each holds), `tiling` (groups of `tiles`, and what stays).
Of an allocation: `allocation` (time x address, one pool), `allocations` (every pool).
Of a sweep of memories: `trade_off` (makespan over memory, with bounds).
Of experiments (`lowtide.results.tables.measured.measured`): `cactus`, `performance_profile`, `trace`,
`incumbents`, `scatter`. All of them take the axes or figure to draw on, return axes to go on with, and
leave the file to `save`.
"""

from __future__ import annotations

from .figures.figure import FILE_KINDS, file_kind, new_axes, new_figure, rendered, save
from .figures.plot_allocation import allocation, allocations
from .figures.plot_cells import cells, cells_inches
from .figures.plot_plan import gantt, gantt_inches, residency, residency_inches
from .figures.plot_profile import profile
from .figures.plot_runs import SCATTER_INCHES, cactus, performance_profile, scatter
from .figures.plot_stages import stages, stages_inches
from .figures.plot_tiles import tiling, tiling_inches
from .figures.plot_timeline import timeline, timeline_inches
from .figures.plot_trace import incumbents, trace
from .figures.plot_trade_off import trade_off

__all__ = [
    "FILE_KINDS",
    "SCATTER_INCHES",
    "allocation",
    "allocations",
    "cactus",
    "cells",
    "cells_inches",
    "file_kind",
    "gantt",
    "gantt_inches",
    "incumbents",
    "new_axes",
    "new_figure",
    "performance_profile",
    "profile",
    "rendered",
    "residency",
    "residency_inches",
    "save",
    "scatter",
    "stages",
    "stages_inches",
    "tiling",
    "tiling_inches",
    "timeline",
    "timeline_inches",
    "trace",
    "trade_off",
]
