"""A small network that is recorded, and what its copies and ops cost on a model of a GPU."""

from __future__ import annotations

from functools import cache

import pytest

from lowtide.instances.torch_import.recording import Step, record

torch = pytest.importorskip("torch", reason="the package torch is not installed")
nn = torch.nn

from lowtide.instances.torch_import.running.streams import HEAD_START  # noqa: E402  (needs torch)
from tests.fake_cuda import FakeCuda  # noqa: E402

COPY_NS, BYTES_PER_S = 3_000, 2 * 10**10
"""Of the model: what a copy takes by itself, and then per byte."""

SLOWER = {"nothing": 1.0, "compute": 1.25, "reverse": 1.6}
"""What a copy takes beside something."""


def cost(what: str, nbytes: int, fake: FakeCuda) -> int:
    """Return nanoseconds: copies by bytes, slower beside others; ops by bytes; cycles of 2 GHz."""
    if what == "sleep":
        return HEAD_START // 2
    if what not in ("h2d", "d2h"):
        return 10**9 if what == "mm" and nbytes > 10**6 else 1_000 + nbytes
    now = fake.current.time
    others = {kind for begun, ended, kind in fake.busy if begun <= now < ended and kind != "sleep"} - {what}
    beside = "reverse" if others & {"h2d", "d2h"} else "compute" if others else "nothing"
    return int((COPY_NS + nbytes * 10**9 // BYTES_PER_S) * SLOWER[beside])


@cache
def perceptron() -> Step:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(24, 40), nn.ReLU(), nn.Linear(40, 40), nn.Tanh(), nn.Linear(40, 10))
    targets = {"y": torch.arange(128) % 10}
    loss = nn.functional.cross_entropy
    return record(module, {"x": torch.randn(128, 24)}, targets, loss, optimizer="momentum", name="mlp")
