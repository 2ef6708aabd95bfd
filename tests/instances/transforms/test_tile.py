"""Tiles of large weights: the graph behind them, what an op has at once, what trains with them."""

from __future__ import annotations

from dataclasses import replace

import pytest

import lowtide as lt
from lowtide.instances.transforms.tile import tiled
from lowtide.instances.transforms.zero import on_zero
from tests.effort import seeds
from tests.problems.placement import random_training


def untiled(found: lt.Graph, graph: lt.Graph) -> lt.Graph:
    """Return the graph that tiles are of, by their names."""
    number = {t.name: i for i, t in enumerate(graph.tensors)}
    of = [number.get(t.name, number.get(t.name.rpartition("/")[0], -1)) for t in found.tensors]
    sizes = [sum(t.nbytes for t, i in zip(found.tensors, of, strict=True) if i == k) for k in number.values()]
    ops: list[lt.Op] = []
    for op in found.ops:
        name = op.name if any(op.name == x.name for x in graph.ops) else op.name.rpartition("/")[0]
        reads, writes = (tuple(of[t] for t in some) for some in (op.reads, op.writes))
        whole = replace(op, name=name, reads=reads, writes=writes, inplace=(), after=())
        if not ops or ops[-1].name != name:
            ops.append(whole)
            continue
        assert writes == ops[-1].writes
        assert {*reads} - {*writes} == {*ops[-1].reads} - {*writes}
        ops[-1] = replace(ops[-1], duration_ns=ops[-1].duration_ns + op.duration_ns)
    tensors = (replace(t, nbytes=size) for t, size in zip(graph.tensors, sizes, strict=True))
    return replace(graph, tensors=tuple(tensors), ops=tuple(ops))


@pytest.mark.parametrize("seed", seeds(60, least=20))
def test_tiles_are_the_graph_in_parts(seed: int) -> None:
    graph = random_training(seed, 3 + seed % 5)
    sizes = [t.nbytes * 7 if t.kind == "weight" else t.nbytes for t in graph.tensors]
    tensors = (replace(t, nbytes=size) for t, size in zip(graph.tensors, sizes, strict=True))
    graph = replace(graph, tensors=tuple(tensors))
    nbytes = 1 + seed % 9
    found = tiled(graph, nbytes)
    assert untiled(found, graph) == graph
    assert all(t.nbytes <= nbytes for t in found.tensors if t.kind == "weight")
    for op in found.ops:
        cut = [found.tensors[t] for t in (*op.reads, *op.writes) if "/" in found.tensors[t].name]
        assert len({t.name.rpartition("/")[2] for t in cut}) <= 1, op.name
    if all(size <= nbytes for t, size in zip(graph.tensors, sizes, strict=True) if t.kind == "weight"):
        assert (found.tensors, found.ops) == (graph.tensors, graph.ops)


@pytest.mark.slow
def test_gradients_and_states_are_cut_with_their_weight() -> None:
    found = lt.load("catalogue:llama-1b-train?tile=200MB")
    assert lt.load(found.source or "") == found
    names = {t.name: t for t in found.tensors}
    assert [names[f"tokens.weight/{i}"].nbytes for i in range(6)] == [1050673152 // 6] * 6
    updates = [op for op in found.ops if any(found.tensors[t].name == "tokens.weight/3" for t in op.writes)]
    (update,) = updates
    operands = [found.tensors[t] for t in {*update.reads, *update.writes}]
    assert {t.kind for t in operands} == {"weight", "gradient", "state"}
    assert all(t.name.endswith("/3") for t in operands)


@pytest.mark.parametrize("tile", ["", "&tile=1MB"])
def test_a_layer_that_exceeds_the_gpu_trains_in_tiles(tile: str) -> None:
    graph = lt.load(f"gen:transformer?layers=1&d_model=1024&seq=8&vocab=50&weights=1&train=1{tile}&node=zero")
    machine = lt.load_machine("v100-32g-cpu-nvme")
    gpu, *others = machine.tiers
    small = replace(machine, tiers=(replace(gpu, capacity=12 * 10**6), *others))
    start = dict.fromkeys(("input", "weight", "state"), tuple(tier.name for tier in small.tiers))
    problem = lt.Placement(graph, small, start=start)
    options = {"bucket": "1", "live": "1", "persistent": "0", "group": "1"}
    result = lt.solve(problem, "zero-infinity", options=options)
    assert (result.plan is not None) == bool(tile), result.detail
    assert tile or "parameters of 0 bytes, those of one op of 16777216" in result.detail


def test_what_the_next_tile_reads_is_not_overwritten() -> None:
    tensors = [lt.Tensor(name="w", nbytes=4, kind="weight", initial=True, final=True)]
    tensors += [lt.Tensor(name=name, nbytes=2, initial=name == "x") for name in ("x", "y")]
    tensors += [lt.Tensor(name="g", nbytes=4, kind="gradient", initial=True)]
    ops = [lt.Op(name="use", reads=(0, 1), writes=(2,), inplace=((1, 2),), duration_ns=5)]
    ops += [lt.Op(name="update", reads=(0, 3), writes=(0,), inplace=((3, 0),), duration_ns=4)]
    found = tiled(lt.Graph(name="two", tensors=tuple(tensors), ops=tuple(ops)), 2)
    assert [t.name for t in found.tensors] == ["w/0", "w/1", "x", "y", "g/0", "g/1"]
    assert [(op.reads, op.writes, op.inplace, op.duration_ns) for op in found.ops] == [
        ((0, 2), (3,), (), 2),
        ((1, 2, 3), (3,), (), 3),
        ((0, 4), (0,), ((4, 0),), 2),
        ((1, 5), (1,), ((5, 1),), 2),
    ]


def test_tiles_of_an_op_take_at_least_a_nanosecond_each() -> None:
    weight = lt.Tensor(name="w", nbytes=5, kind="weight", initial=True, final=True)
    for whole, parts in ((1, [1, 1, 1]), (2, [1, 1, 1]), (7, [2, 2, 3])):
        ops = (lt.Op(name="use", reads=(0,), duration_ns=whole),)
        found = tiled(lt.Graph(name="one", tensors=(weight,), ops=ops), 2)
        assert [op.duration_ns for op in found.ops] == parts


def test_refusals() -> None:
    graph = lt.load("gen:transformer?layers=1&weights=1&train=1")
    with pytest.raises(
        lt.InstanceError, match=r"found \d+ tiles of at most 1 bytes, expected at most 100000"
    ):
        tiled(graph, 1)
    with pytest.raises(lt.InstanceError, match=r"tile, op .*: found modes"):
        tiled(on_zero(graph), 10**5)
    with pytest.raises(lt.InstanceError, match="option tile"):
        lt.load("gen:transformer?layers=1&weights=1&train=1&tile=0")
