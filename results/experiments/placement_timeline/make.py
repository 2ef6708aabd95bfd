"""The timeline of a training iteration of a vision transformer on a device of 24 GiB.

The kernels are those of G10's artifact (MICRO 2023).
"""

from __future__ import annotations

import tempfile

from ..running import HERE, lowtide

SPEC = "catalogue:g10/vit-1280"
SETTING = ("--machine", "a100-40g-pcie3", "--device", "24GiB", "--periodic")


def make() -> None:
    """Make a plan, then its picture."""
    with tempfile.TemporaryDirectory() as scratch:
        plan = f"{scratch}/plan.json.gz"
        lowtide("solve", "placement", SPEC, *SETTING, "--method", "planner", "--plan", plan)
        title = "ViT, batch 1,280: a training iteration on 24 GiB, steady state"
        lowtide("plot", plan, "--title", title, "-o", HERE / "placement_timeline/placement_timeline.svg")
