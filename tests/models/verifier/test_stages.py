"""Stages of a split by hand: what replicas take, with and without the exchange of their gradients."""

from __future__ import annotations

import pytest

import lowtide as lt
from lowtide.models.split import Split, SplitRules
from lowtide.models.verifier.stages import judge_split


@pytest.mark.parametrize(("sync", "load"), [(10**9, 11), (2 * 10**9, 8), (None, 5)])
def test_replicas_share_the_work_and_exchange_gradients(sync: int | None, load: int) -> None:
    """Half of 10 ns; each of two sends and receives 6 bytes twice (ring), in 12 ns at 1 GB/s."""
    weight = lt.Tensor(name="w", nbytes=6, kind="weight", initial=True)
    graph = lt.Graph(name="one", tensors=(weight,), ops=(lt.Op(name="a", reads=(0,), duration_ns=10),))
    rules = SplitRules(counts={"gpu": 2}, sync=sync, replicate=2)
    judged = judge_split(graph, Split(stage=(0,), kinds=("gpu",), replicas=(2,)), [10], rules)
    assert (judged.violations, tuple(judged.loads)) == ((), (load,))
