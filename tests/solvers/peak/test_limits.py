"""Methods of `peak` under small memory limits: an honest gap, no crash, little memory."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest

from lowtide.instances import load
from lowtide.solvers.peak.search.plain_pass import plain_pass
from lowtide.solvers.peak.search.state_space import state_space
from tests.commands import within


@pytest.mark.parametrize("method", ["auto", "downsets"])
def test_little_memory_leaves_an_order_a_bound_and_the_reason(method: str, tmp_path: Path) -> None:
    spec = "gen:randwire?n=150&seed=1"
    done = within(
        "solve",
        "peak",
        spec,
        "--method",
        method,
        "--memory-limit",
        "1MiB",
        "--time-limit",
        "1",
        cwd=tmp_path,
    )
    assert done.returncode == 0
    assert "Traceback" not in done.stderr
    assert "feasible, stopped by " in done.stdout
    assert "bound " in done.stdout
    assert "verified   yes" in done.stdout


def test_a_plain_pass_on_a_wide_graph_makes_no_sets_in_vain() -> None:
    """2,000 sets with 2,000 ops each that may be next would take 400 MB."""
    space = state_space(load("gen:intree?n=4000"))
    tracemalloc.start()
    found = plain_pass(space, 10**6, 10**6, lambda: False, exhaustive=False, most=40_000)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found.order is None
    assert found.gave_up is not None
    assert most < 40 * 2**20
