"""Every rule of the certificate checker matters: without it a bad one passes, or breaks the checker."""

from __future__ import annotations

import traceback
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from itertools import chain
from random import Random

import pytest

import lowtide as lt
from lowtide.models.certificate import Certificate
from lowtide.models.graph import Graph, Op, Tensor
from lowtide.models.verifier.certificate import verify_certificate
from lowtide.models.verifier.proofs.claims import Block, Component, DescentsProof, Way
from lowtide.models.verifier.proofs.cut import Multipliers
from lowtide.models.verifier.proofs.executed import LARGEST
from lowtide.models.verifier.proofs.refused import Refused
from lowtide.models.verifier.proofs.states import SetLevel, StatesProof
from tests.oracles.arena_certificates import bad_stacks
from tests.oracles.brute_force import brute_force_peak
from tests.oracles.certificates import PROVERS, certificate, damaged, neighbour, signed
from tests.oracles.flow_certificates import bad_flows
from tests.oracles.lag_certificates import bad_lags
from tests.oracles.price_certificates import bad_prices
from tests.oracles.proof_rules import Rule, checker_without, rules
from tests.oracles.release_certificates import bad_releases
from tests.strategies import random_graph

RULES = rules()
SPECS = (
    "gen:intree?n=14&seed=1",
    "gen:sp?n=14&seed=4&data=edge",
    "gen:randwire?n=10&seed=6",
    "gen:sp?n=12&seed=5",
)


def bad_certificates() -> Iterator[tuple[Graph, Certificate]]:
    """Yield certificates that are wrong, most of them in one value."""
    for seed in range(250):
        rng = Random(seed)
        graph = random_graph(rng, min_ops=3, max_ops=7, max_tensors=9, max_nbytes=9)
        yield from _damaged(rng, graph, brute_force_peak(graph)[0], 6)
    for spec in SPECS:
        graph = lt.load(spec)
        bound = lt.solve(lt.Peak(graph), threads=1).bound
        assert bound is not None
        yield from _damaged(Random(spec), graph, bound, 150)


def by_hand() -> Iterator[tuple[Graph, Certificate]]:
    """Yield false certificates that only one rule refuses."""
    tensors = (Tensor(name="x", nbytes=5, initial=True), Tensor(name="y", nbytes=3, final=True))

    # after u, f costs 10 from nothing; the claim would have it cost 10 from 5
    ops = (Op(name="u", reads=(0,)), Op(name="f", workspace=10))
    graph = Graph(name="u and f", tensors=tensors[:1], ops=ops)
    beside = Component(ops=3, outside=0, height=10, backward=False, whole=False, waist=1)
    way = Way(ops=3, outside=0, height=10, backward=False, head=(), tail=(), claims=(0,))
    yield graph, signed(graph, 15, DescentsProof(blocks=(), claims=(beside, way)))

    # a head that crosses everything
    everything = Way(ops=3, outside=0, height=None, head=(0, 1), tail=(), backward=False, claims=())
    yield graph, signed(graph, 100, DescentsProof(blocks=(), claims=(everything,)))

    # x dies with both ops, not with a alone: after a as first move, b would cost 18 instead of 15
    ops = (Op(name="a", reads=(0,), writes=(1,)), Op(name="b", reads=(0,), workspace=10))
    graph = Graph(name="a and b", tensors=tensors, ops=ops)
    block = Block(backward=False, ops=(0,), outside=0, multipliers=Multipliers(shares=((0, 0, 3),)))
    rest = Component(backward=False, whole=False, ops=2, outside=0, height=10)
    way = Way(ops=3, outside=0, height=13, head=(2,), tail=(), backward=False, claims=(0,))
    yield graph, signed(graph, 18, DescentsProof(blocks=(block,), claims=(rest, way)))

    # a walk that gets to the end
    graph = Graph(name="one", tensors=(), ops=(Op(name="a"),))
    levels = SetLevel(parents=(), ops=(), free=(None,)), SetLevel(parents=(0,), ops=(0,), free=(None,))
    yield graph, signed(graph, 100, StatesProof(backward=False, levels=levels))

    # more ops than the checker takes on
    graph = Graph(name="many", tensors=(), ops=tuple(Op(name="a") for _ in range(LARGEST + 1)))
    level = SetLevel(parents=(), ops=(), free=(None,))
    yield graph, signed(graph, 0, StatesProof(backward=False, levels=(level,)))


def _damaged(rng: Random, graph: Graph, bound: int, times: int) -> Iterator[tuple[Graph, Certificate]]:
    for prover in PROVERS:
        found = certificate(graph, bound, prover)
        if found is None:
            continue
        for _ in range(times):
            if (other := damaged(rng, found)) is not None:
                yield graph, other
        if (changed := neighbour(rng, graph)) is not None:
            yield changed, found
            yield changed, signed(changed, bound, found.proof)


@cache
def refused_by() -> dict[Rule, list[tuple[Graph, Certificate]]]:
    """Return the bad certificates by the rule that refuses them."""
    found: dict[Rule, list[tuple[Graph, Certificate]]] = defaultdict(list)
    for graph, bad in chain(
        by_hand(), bad_prices(), bad_releases(), bad_lags(), bad_stacks(), bad_flows(), bad_certificates()
    ):
        rule = refusing(graph, bad)
        if rule is not None and len(found[rule]) < 60:
            found[rule].append((graph, bad))
    return dict(found)


def refusing(graph: Graph, bad: Certificate) -> Rule | None:
    """Return the rule that refuses a certificate, None if it is accepted."""
    places: list[tuple[str, int]] = []
    original = Refused.__init__

    # the place of the statement is where the exception is made
    def note(self: Refused, text: str) -> None:
        frame = traceback.extract_stack(limit=2)[0]
        places.append((frame.filename, frame.lineno or 0))
        original(self, text)

    Refused.__init__ = note  # type: ignore[method-assign,assignment]
    try:
        verdict = verify_certificate(graph, bad)
    finally:
        Refused.__init__ = original  # type: ignore[method-assign]
    if verdict.valid:
        return None
    name, line = places[-1]
    return next(
        rule
        for rule in RULES
        if rule.module.rpartition(".")[2] == name.rpartition("/")[2].removesuffix(".py")
        and rule.line <= line <= rule.end
    )


@pytest.mark.slow
@pytest.mark.parametrize("rule", RULES, ids=str)
def test_leaving_the_rule_out_is_noticed(rule: Rule) -> None:
    cases = refused_by().get(rule, [])
    assert cases, f"no bad certificate is refused by this:\n{rule.text}"
    verify = checker_without(rule).verify_certificate
    assert any(_noticed(verify, graph, bad) for graph, bad in cases), f"nobody misses this:\n{rule.text}"


@pytest.mark.slow
def test_certificates_made_by_hand_are_refused_and_false() -> None:
    for graph, bad in by_hand():
        assert not verify_certificate(graph, bad).valid
        if bad.bound:
            assert brute_force_peak(graph)[0] < bad.bound


def _noticed(verify: object, graph: Graph, bad: Certificate) -> bool:
    assert callable(verify)
    try:
        return bool(verify(graph, bad).valid)
    except Exception:
        return True
