"""The committed allocations of MiniMalloc's sets D and J, which no method reaches within a minute."""

from __future__ import annotations

from pathlib import Path

import pytest

from lowtide.instances import load_buffers, read_allocation
from lowtide.models.verify_allocation import verify_allocation
from lowtide.results.sweeps.job import data_folder

DATA = data_folder()
BEST = Path(__file__).parents[2] / "results/reproductions/offsets_best"


@pytest.mark.skipif(DATA is None, reason="no data folder")
@pytest.mark.parametrize(("name", "height"), [("D", 982 * 1024), ("J", 966 * 1024)])
def test_allocation_has_the_height_that_is_told(name: str, height: int) -> None:
    assert DATA is not None
    buffers = load_buffers(DATA / f"minimalloc/{name}.1048576.csv")
    allocation = read_allocation(BEST / f"{name}.json")
    allocation.check(buffers)
    verdict = verify_allocation(buffers, allocation.offsets)
    verdict.raise_if_invalid()
    assert verdict.heights == {"": height}
