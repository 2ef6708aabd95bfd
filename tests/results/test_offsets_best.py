"""The committed allocations of MiniMalloc's sets D and J, which no method reaches within a minute."""

from __future__ import annotations

from pathlib import Path

import pytest

from lowtide.instances import load_buffers, read_allocation
from lowtide.models.verifier.allocation import verify_allocation

BEST = Path(__file__).parents[2] / "results/experiments/offsets_heights/best"


@pytest.mark.parametrize(("name", "height"), [("D", 982 * 1024), ("J", 966 * 1024)])
def test_allocation_has_the_height_that_is_told(name: str, height: int) -> None:
    buffers = load_buffers(f"catalogue:minimalloc/{name}")
    allocation = read_allocation(BEST / f"{name}.json")
    allocation.check(buffers)
    verdict = verify_allocation(buffers, allocation.offsets)
    verdict.raise_if_invalid()
    assert verdict.heights == {"": height}
