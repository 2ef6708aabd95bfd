"""Packed tensors: which, when, how large; the rest of the graph as it was."""

import pytest

import lowtide as lt
from lowtide.instances import load_problem
from lowtide.instances.transforms.compress import compressed
from lowtide.solvers.placement.policies.loads import turn_of
from lowtide.solvers.placement.simulator.problem import simulated_problem
from tests.effort import seeds
from tests.problems.placement import machine, random_training


def test_what_the_backward_pass_reads_again_is_packed() -> None:
    graph = lt.load("gen:unet?train=1")
    found = lt.load("gen:unet?train=1&compress.activation=2.5")
    assert lt.load(found.source or "") == found == compressed(graph, {"activation": 2.5})
    tensors, names = found.tensors, [op.name for op in found.ops]
    packs = [op for op in found.ops if op.kind == "Compress"]
    assert len(packs) > 5
    for op in packs:
        (t,), (p,) = op.reads, op.writes
        assert tensors[t].kind == "activation"
        assert tensors[p].nbytes == -(-2 * tensors[t].nbytes // 5)
        assert op.duration_ns == max(1, -(-(tensors[t].nbytes + tensors[p].nbytes) // 1555))
        uses = [k for k, other in enumerate(found.ops) if t in other.reads or t in other.writes]
        assert uses[-1] == names.index(op.name)  # it dies packed
        assert p in found.ops[names.index(op.name.replace("/pack", "/unpack"))].reads


@pytest.mark.parametrize("seed", seeds(40))
def test_the_rest_is_as_it_was(seed: int) -> None:
    graph = random_training(seed, 3 + seed % 5)
    found = compressed(graph, {"activation": 2.0, "input": 3.0})
    old = len(graph.tensors)
    unpacked = {
        op.writes[0]: next(x.reads[0] for x in found.ops if x.writes == op.reads)
        for op in found.ops
        if op.kind == "Decompress"
    }
    kept = [op for op in found.ops if op.kind not in ("Compress", "Decompress")]
    for op, before in zip(kept, graph.ops, strict=True):
        assert (op.name, op.writes, op.duration_ns) == (before.name, before.writes, before.duration_ns)
        assert tuple(unpacked.get(t, t) for t in op.reads) == before.reads
    turn = turn_of(simulated_problem(lt.Placement(graph, machine(10**6, None))))
    again = {
        t
        for op in graph.ops[:turn]
        for t in (*op.reads, *op.writes)
        if any(t in x.reads for x in graph.ops[turn:]) and graph.tensors[t].kind in ("activation", "input")
    }
    assert {*unpacked.values()} == again
    assert all(not x.initial and not x.final for x in found.tensors[old:])


@pytest.mark.parametrize("method", ["flashneuron", "layrub"])
def test_channels_carry_packed_bytes(method: str) -> None:
    plain = lt.load("gen:unet?train=1")
    device = lt.Peak(plain).evaluate(tuple(range(len(plain.ops)))) * 7 // 10
    moved = []
    for factor in ("", "&compress.activation=4"):
        spec = f"gen:unet?train=1{factor}&machine=a100-40g-pcie3&device={device}B&start=anywhere"
        problem = load_problem(lt.Placement, spec)
        result = lt.solve(problem, method, threads=1)
        assert result.plan is not None
        left = [problem.graph.tensors[c.tensor] for c in result.plan.copies if c.src == "gpu"]
        assert not factor or all(t.name.endswith("/packed") for t in left if t.kind == "activation")
        moved.append(sum(t.nbytes for t in left))
    assert 4 * moved[1] <= moved[0] > 0


def test_refusals() -> None:
    for spec, words in (
        ("gen:unet?train=1&compress.activation=1", "found factor 1 of activation, expected one above 1"),
        ("gen:unet?train=1&compress.thing=2", "found kind 'thing', expected one of input"),
        ("gen:chain?n=4&compress.activation=2", "found no loss and no gradients"),
        ("gen:unet?train=1&compress.activation=x", "compress.activation"),
    ):
        with pytest.raises(lt.InstanceError, match=words):
            lt.load(spec)
