"""Small questions for label setting, and one pass over their labels."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np

import lowtide as lt
from lowtide.formulations.makespan.data import MakespanData, makespan_data
from lowtide.solvers.makespan.labels.ideals import Ideals, KnownIdeals, find_ideals
from lowtide.solvers.makespan.labels.search import Beam, Form, search
from lowtide.solvers.makespan.labels.shape import Shape, shape_of
from lowtide.solvers.makespan.labels.together import PriceVectors
from tests.oracles.brute_force import brute_force_peak
from tests.strategies import random_graph


def small_problem(seed: int, most_ops: int = 6) -> lt.Makespan:
    """Return a problem with memory from just too little to a few bytes more than the sequential peak."""
    rng = Random(seed)
    graph = replace(random_graph(rng, min_ops=4, max_ops=most_ops), accounting=lt.Accounting.COEXIST)
    peak = brute_force_peak(graph)[0]
    memory = rng.choice([max(0, peak - 1), peak, peak + 1, peak + 3, None])
    return lt.Makespan(graph, processors=rng.randint(1, 3), memory=memory)


def prepared(problem: lt.Makespan) -> tuple[MakespanData, Shape, Ideals]:
    data = makespan_data(problem)
    shape = shape_of(data)
    assert shape is not None
    ideals = find_ideals(shape, 10**6, lambda: False)
    assert ideals is not None
    return data, shape, ideals


def one_pass(shape: Shape, prices: PriceVectors, below: int, width: int, form: Form = "beam") -> Beam:
    beam = search(
        shape,
        KnownIdeals(),
        prices,
        below=below,
        width=width,
        stop=np.zeros(1, dtype=np.int64),
        expired=lambda: False,
        form=form,
    )
    assert beam is not None
    return beam


def makespan_of(beam: Beam, shape: Shape) -> int | None:
    if beam.starts is None:
        return None
    return max(s + int(d) for s, d in zip(beam.starts, shape.duration, strict=True))


def random_tree(rng: Random, count: int) -> lt.Graph:
    """Return an in-tree, or several, with initial and final tensors and workspace."""
    parent = [rng.choice([*range(i + 1, count), *[None] * (rng.random() < 0.1)]) for i in range(count - 1)]
    tensors = [
        lt.Tensor(name=f"t{i}", nbytes=rng.randint(0, 9), final=rng.random() < 0.1) for i in range(count)
    ]
    initial = [
        lt.Tensor(name=f"x{i}", nbytes=rng.randint(0, 9), initial=True) for i in range(rng.randint(0, 3))
    ]
    reads: list[list[int]] = [[] for _ in range(count)]
    for i, p in enumerate([*parent, None]):
        if p is not None:
            reads[p].append(i)
    for x in range(len(initial)):
        reads[rng.randrange(count)].append(count + x)
    ops = tuple(
        lt.Op(
            name=f"o{i}",
            duration_ns=rng.randint(1, 5),
            workspace=rng.choice([0, 0, rng.randint(0, 6)]),
            reads=tuple(reads[i]),
            writes=(i,),
        )
        for i in range(count)
    )
    graph = lt.Graph(name="tree", tensors=(*tensors, *initial), ops=ops)
    return replace(graph, accounting=lt.Accounting.COEXIST)
