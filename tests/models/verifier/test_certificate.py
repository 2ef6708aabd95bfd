"""Certificates by hand, and what the checker says of those that do not hold."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

import lowtide as lt
from lowtide.models.certificate import Certificate, Proof
from lowtide.models.errors import VerificationError
from lowtide.models.graph import Accounting, Graph, Op, Tensor
from lowtide.models.verifier.certificate import CertificateVerdict, verify_certificate
from lowtide.models.verifier.proofs.claims import Block, Branch, Component, DescentsProof, Way
from lowtide.models.verifier.proofs.cut import CutProof, Multipliers
from lowtide.models.verifier.proofs.states import SetLevel, StatesProof
from lowtide.models.verifier.proofs.working_set import WorkingSetProof
from lowtide.solvers.peak.search.beam import beam_pass
from lowtide.solvers.peak.search.state_space import state_space
from tests.oracles.certificates import certificate, neighbour, signed

# x (2 bytes) is read by b and c, which write y and z (5 each), which d reads: 2, then 7, then 12 or 12
TENSORS = tuple(Tensor(name=name, nbytes=n) for name, n in (("x", 2), ("y", 5), ("z", 5)))
OPS = (
    Op(name="a", writes=(0,)),
    Op(name="b", reads=(0,), writes=(1,)),
    Op(name="c", reads=(0,), writes=(2,)),
    Op(name="d", reads=(1, 2)),
)
FORK = Graph(name="fork", tensors=TENSORS, ops=OPS)
PEAK = 12

# after a, either of b and c costs 7, the other one then 12: x + y + z
STATES = StatesProof(
    backward=False,
    levels=(
        SetLevel(parents=(), ops=(), free=(None,)),
        SetLevel(parents=(0,), ops=(0,), free=(None,)),
        SetLevel(parents=(0, 0), ops=(1, 2), free=(None, None)),
    ),
)
# from the end: taking back d costs 10, y + z; then taking back b or c costs 12
BACKWARD = StatesProof(
    backward=True,
    levels=(SetLevel(parents=(), ops=(), free=(None,)), SetLevel(parents=(0,), ops=(3,), free=(None,))),
)


def judged(proof: Proof, bound: int = PEAK, graph: Graph = FORK) -> CertificateVerdict:
    return verify_certificate(graph, signed(graph, bound, proof))


def test_a_working_set_proves_10_and_no_more() -> None:
    assert judged(WorkingSetProof(at="op", op=3), 10).valid
    assert judged(WorkingSetProof(at="op", op=3), 11).witness == (
        "op 3 'd', alone: found 10 bytes, expected at least the bound 11"
    )
    assert judged(WorkingSetProof(at="last"), 10).valid
    assert judged(WorkingSetProof(at="first"), 2).valid
    assert "as the first op: found 2 bytes" in judged(WorkingSetProof(at="first"), 3).witness


def test_a_cut_proves_what_its_multipliers_say() -> None:
    assert judged(CutProof(op=3, multipliers=Multipliers()), 10).valid
    assert "found 10 bytes proved" in judged(CutProof(op=3, multipliers=Multipliers()), 11).witness
    wrong = CutProof(op=1, multipliers=Multipliers(edges=((3, 1, 2),)))
    assert judged(wrong, 1).witness == "multiplier of edge 3 -> 1: found 2, expected one >= 0 of an edge"


def test_states_prove_12_in_both_directions() -> None:
    assert judged(STATES) == CertificateVerdict(valid=True, kind="states", bound=12, checked=4)
    assert judged(BACKWARD) == CertificateVerdict(valid=True, kind="states", bound=12, checked=2)


def test_a_state_that_is_left_out_is_named() -> None:
    short = replace(STATES, levels=STATES.levels[:2])
    assert judged(short).witness == (
        "level 1, state 0: found a step over op 1 'b' that costs 7 bytes to a state that is not listed, "
        "expected at least 12"
    )
    assert judged(STATES, 13).witness == (
        "level 2, state 0: found a step over op 2 'c' that costs 12 bytes to a state that is not listed, "
        "expected at least 13"
    )


@pytest.mark.parametrize(
    ("level", "change", "witness"),
    [
        (2, {"parents": (0, 1)}, "level 2, state 1: found parent 1, expected an index in [0, 1)"),
        (2, {"ops": (1, 3)}, "level 2, state 1: found a step over op 3 'd', expected one that may be next"),
        (2, {"ops": (1, 9)}, "level 2, state 1: found op 9, expected an index in [0, 4)"),
        (1, {"free": (1,)}, "level 1, state 0: found the free op 1 'b' with increase 5, expected at most 0"),
        (0, {"free": (3,)}, "level 0, state 0: found the free op 3 'd', expected one that leads to a listed"),
        (2, {"free": (None,)}, "level 2: expected as many parents as ops and free ops"),
        (0, {"ops": (0,)}, "level 0: expected one state, where walks of a graph with ops begin"),
    ],
)
def test_each_change_of_a_level_is_named(level: int, change: dict[str, object], witness: str) -> None:
    levels = list(STATES.levels)
    levels[level] = replace(levels[level], **change)  # type: ignore[arg-type]
    verdict = judged(replace(STATES, levels=tuple(levels)))
    assert not verdict.valid
    assert verdict.witness.startswith(witness)


def test_descents_by_hand() -> None:
    """After a and b, c costs 12; b or c first is the same by symmetry; the last step frees everything."""
    after_b = Component(backward=False, whole=False, ops=0b1100, outside=0, height=5)
    after_c = Component(backward=False, whole=False, ops=0b1010, outside=0, height=5)
    rest = Component(
        backward=False,
        whole=False,
        ops=0b1110,
        outside=0,
        height=10,
        branches=(Branch(op=1, moves=(), claims=(0,)), Branch(op=2, moves=(), claims=(1,))),
    )
    everything = Component(
        backward=False,
        whole=False,
        ops=15,
        outside=0,
        height=12,
        branches=(Branch(op=0, moves=(), claims=(2,)),),
    )
    way = Way(ops=15, outside=0, height=12, head=(), tail=(), backward=False, claims=(3,))
    claims = (after_b, after_c, rest, everything, way)
    assert judged(DescentsProof(blocks=(), claims=claims)).valid
    for number in range(4):
        fewer = claims[:number] + claims[number + 1 :]
        assert not judged(DescentsProof(blocks=(), claims=fewer)).valid
    higher = (*claims[:4], replace(way, height=13))
    assert judged(DescentsProof(blocks=(), claims=higher), 13).witness == (
        "claim 4: found claim 3 up to 12 bytes, expected at least 13"
    )
    higher = (replace(after_b, height=6), *claims[1:])
    assert judged(DescentsProof(blocks=(), claims=higher)).witness.startswith(
        "claim 0: found no branch for op 2 'c', which costs 5 bytes"
    )
    assert (
        "last claim: expected one that all ops" in judged(DescentsProof(blocks=(), claims=claims[:4])).witness
    )
    block = Block(backward=False, ops=(0, 1), outside=0, multipliers=Multipliers())
    assert (
        "block 0: found that parts of it change"
        in judged(DescentsProof(blocks=(block,), claims=claims)).witness
    )


def test_another_graph_is_refused() -> None:
    other = replace(FORK, accounting=Accounting.REPLACE)
    verdict = verify_certificate(other, signed(FORK, PEAK, STATES))
    assert verdict.witness.startswith("graph 'fork': found sha256")
    with pytest.raises(VerificationError, match="certificate: graph 'fork': found sha256"):
        verdict.raise_if_invalid()


def optimum(graph: Graph) -> int:
    """Return the least limit within which an exhaustive pass finds an order."""
    limit = 0
    while (found := beam_pass(state_space(graph), limit, 10**6, exhaustive=True)).order is None:
        assert found.bound is not None
        limit = found.bound
    return limit


STRUCTURES = (
    "gen:intree?n={n}&seed={seed}",
    "gen:sp?n={n}&seed={seed}&data=edge",
    "gen:sp?n={n}&seed={seed}&accounting=replace",
    "gen:outtree?n={n}&seed={seed}&data=edge&keep=1",
    "gen:randwire?n={n}&seed={seed}",
)


@pytest.mark.parametrize("prover", ["cut", "descents", "descents, whole", "states"])
@pytest.mark.parametrize("structure", STRUCTURES)
def test_neighbours_and_raised_heights_are_refused(structure: str, prover: str) -> None:
    """What is proved of one graph, told of one that needs less; and every height raised alike."""
    tried = 0
    for seed in range(12):
        rng = Random(seed)
        graph = lt.load(structure.format(n=rng.randint(8, 14), seed=seed))
        found = certificate(graph, optimum(graph), prover)
        if found is None:
            continue
        for delta in (1, 2):
            assert not verify_certificate(graph, raised(found, delta)).valid
        for other in (neighbour(rng, graph) for _ in range(4)):
            if other is not None and optimum(other) < found.bound:
                tried += 1
                assert not verify_certificate(other, replace(found, graph_sha256=other.sha256)).valid
    assert tried or prover == "cut"


def raised(found: Certificate, delta: int) -> Certificate:
    """Return a certificate of more, with all heights raised as much."""
    proof = found.proof
    if isinstance(proof, DescentsProof):
        claims = tuple(x if x.height is None else replace(x, height=x.height + delta) for x in proof.claims)
        proof = replace(proof, claims=claims)
    return replace(found, bound=found.bound + delta, proof=proof)
