"""Certificates of `arena` that are wrong, each in one thing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import lowtide as lt
from lowtide.models.certificate import Certificate
from lowtide.models.setting import ArenaSetting
from lowtide.models.verifier.proofs.stacks import PoolsProof, StacksProof
from lowtide.models.verifier.proofs.working_set import WorkingSetProof

TENSORS = tuple(
    lt.Tensor(name=name, nbytes=size, kind=kind)
    for name, size, kind in (("x", 8, "weight"), ("y", 5, "activation"))
)
GRAPH = lt.Graph(
    name="8 and 5",
    tensors=TENSORS,
    ops=(lt.Op(name="a", writes=(0,)), lt.Op(name="b", reads=(0,), writes=(1,))),
)
RIGHT = StacksProof(threshold=0, peak=WorkingSetProof(at="op", op=1))
"""At multiples of 4, y on top of x: 13."""


EACH = PoolsProof(bounds=(5, 8), stacks=(RIGHT, replace(RIGHT, peak=WorkingSetProof(at="op", op=0))))
"""In two pools: y, and x."""


def stacked_at_least(
    bound: int, proof: StacksProof | PoolsProof = RIGHT, alignment: int = 4, pools: tuple[str, ...] = ()
) -> Certificate:
    """Return the certificate that says so."""
    return Certificate(
        bound=bound,
        proof=proof,
        graph_name=GRAPH.name,
        graph_source=None,
        graph_sha256=GRAPH.sha256,
        setting=ArenaSetting(alignment=alignment, pools=pools),
    )


def bad_stacks() -> Iterator[tuple[lt.Graph, Certificate]]:
    """Yield them."""
    for bound in (14, 17):
        yield GRAPH, stacked_at_least(bound)
    for threshold in (1, 3):  # y is 4 bytes
        yield GRAPH, stacked_at_least(13, replace(RIGHT, threshold=threshold))
    yield GRAPH, stacked_at_least(17, replace(RIGHT, threshold=-1))  # x would be 12 bytes
    yield GRAPH, stacked_at_least(13, alignment=0)
    yield GRAPH, replace(stacked_at_least(13), setting=None)
    yield GRAPH, stacked_at_least(13, pools=("weight",))  # 8 and 5 of two pools end with 4 and 1 bytes
    for pools in (("weights",), ("weight", "weight"), ("weight+weight",)):
        yield GRAPH, stacked_at_least(10, pools=pools)
    apart = ("weight",)
    yield GRAPH, stacked_at_least(14, EACH, pools=apart)
    yield GRAPH, stacked_at_least(14, replace(EACH, bounds=(6, 8)), pools=apart)
    yield GRAPH, stacked_at_least(13, replace(EACH, bounds=(8, 5)), pools=apart)
    yield (
        GRAPH,
        stacked_at_least(26, replace(EACH, bounds=(5, 8, 13), stacks=(*EACH.stacks, RIGHT)), pools=apart),
    )
    yield GRAPH, stacked_at_least(5, replace(EACH, bounds=(5,), stacks=(RIGHT,)), pools=apart)
    yield GRAPH, stacked_at_least(13, replace(EACH, bounds=(-1, 13), stacks=EACH.stacks), pools=apart)
