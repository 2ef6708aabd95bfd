"""Pictures for papers and notebooks, drawn with matplotlib.

Of a plan: `profile` (memory over time), `gantt` (runs and copies), `residency` (memory of every tier).
Of experiments: `cactus`, `performance_profile`, `trace`, `scatter`. All of them take the axes to draw on,
return axes to go on with, and leave the file to `save`.
"""

from __future__ import annotations

from .figure import FILE_KINDS, file_kind, new_axes, new_figure, rendered, save
from .plot_profile import profile

__all__ = [
    "FILE_KINDS",
    "file_kind",
    "new_axes",
    "new_figure",
    "profile",
    "rendered",
    "save",
]
