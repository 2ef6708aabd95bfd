"""Certificates of bounds over all orders that are wrong, each in one thing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import lowtide as lt
from lowtide.models.certificate import Certificate
from lowtide.models.graph import Accounting
from lowtide.models.setting import Setting
from lowtide.models.verifier.proofs.lags import LagsProof
from lowtide.models.verifier.proofs.price_claims import PricesProof
from tests.problems.placement import two_tiers

WEIGHT = lt.Tensor(name="w", nbytes=8, kind="weight", initial=True, final=True)
GRAPH = lt.Graph(
    name="read only",
    tensors=(WEIGHT,),
    ops=(lt.Op(name="a", reads=(0,)), lt.Op(name="b", workspace=8, duration_ns=10)),
)
SETTING = Setting(machine=two_tiers(8, 10**8, 10**9), periodic=True, start={}, order="free")
RIGHT = LagsProof(inward=((1, 1),))
"""The weight comes in behind b, in 8 ns, before the next b."""


def lagging(
    bound: int,
    proof: LagsProof | PricesProof = RIGHT,
    setting: Setting = SETTING,
    graph: lt.Graph = GRAPH,
) -> Certificate:
    """Return the certificate that says so."""
    return Certificate(
        bound=bound,
        proof=proof,
        graph_name=graph.name,
        graph_source=None,
        graph_sha256=graph.sha256,
        setting=setting,
    )


def overwritten() -> lt.Graph:
    """Return a graph whose peak counts a tensor between two contents, of which nobody needs the first."""
    tensors = [lt.Tensor(name=x, nbytes=size) for x, size in zip("wcase", (8, 1, 10, 1, 1), strict=True)]
    ends = [((), (0,)), ((0,), (1,)), ((1,), (2,)), ((2,), (3,)), ((3,), (0,)), ((0,), (4,))]
    ops = [lt.Op(name=str(k), reads=r, writes=w, duration_ns=10) for k, (r, w) in enumerate(ends)]
    return lt.Graph(name="overwritten", tensors=tuple(tensors), ops=tuple(ops))


def out_only() -> lt.Graph:
    """Return a graph whose peak has 8 bytes that go out while the second op runs, and need not come back."""
    tensors = [lt.Tensor(name="y", nbytes=8, final=True), lt.Tensor(name="s", nbytes=0)]
    ops = (
        lt.Op(name="a", writes=(0,), duration_ns=1),
        lt.Op(name="b", writes=(1,), duration_ns=20, after=(0,)),
        lt.Op(name="c", reads=(1,), duration_ns=10, workspace=8),
    )
    return lt.Graph(name="out only", tensors=tuple(tensors), ops=ops)


def too_high() -> Iterator[tuple[lt.Graph, Certificate]]:
    """Yield certificates of more ns than a plan takes, each near to one that is right."""
    quick = replace(SETTING, machine=two_tiers(8, 10**8, 8 * 10**9))
    yield GRAPH, lagging(13, LagsProof(outward=((1, 1),)), quick)  # the weight is never written
    a, b = GRAPH.ops
    modes = (lt.Mode(duration_ns=10, workspace=8), lt.Mode(duration_ns=12))
    either = replace(GRAPH, ops=(a, replace(b, workspace=0, duration_ns=1, modes=modes)))
    yield either, lagging(14, graph=either)
    pairs = (("gpu", "host"), ("host", "gpu"), ("gpu", "ssd"), ("ssd", "gpu"))
    machine = replace(
        SETTING.machine,
        tiers=(*SETTING.machine.tiers, lt.Tier(name="ssd")),
        channels=tuple(lt.Channel(src=x, dst=y, bytes_per_s=10**9) for x, y in pairs),
        groups=(lt.ChannelGroup(name="slow", channels=(("ssd", "gpu"),), bytes_per_s=10**8),),
    )
    yield GRAPH, lagging(20, setting=replace(SETTING, machine=machine))
    graph = out_only()
    proof = lt.certify(graph, 16)
    assert proof is not None
    peak = LagsProof(peak=16, least=proof.proof)  # type: ignore[arg-type]
    once = replace(SETTING, periodic=False, machine=two_tiers(8, 10**9, 10**9))
    yield graph, lagging(32, peak, once, graph)


def bad_lags() -> Iterator[tuple[lt.Graph, Certificate]]:
    """Yield them."""
    yield GRAPH, lagging(19)
    yield from too_high()
    for pair in ((1, 0), (0, 1), (1, 5), (2, 2), (-1, 1)):
        yield GRAPH, lagging(11, LagsProof(inward=(pair,)))
    yield GRAPH, lagging(11, LagsProof(outward=((2, 1),)))
    yield GRAPH, lagging(18, setting=replace(SETTING, periodic=False))
    other = replace(GRAPH, accounting=Accounting.REPLACE)
    yield other, lagging(18, graph=other)
    tiers = tuple(lt.Tier(name=f"t{k}") for k in range(5))
    wide = replace(SETTING.machine, tiers=(*SETTING.machine.tiers, *tiers))
    yield GRAPH, lagging(11, setting=replace(SETTING, machine=wide))
    yield GRAPH, lagging(11, PricesProof(denominator=1, least=0, samples=(), memory=()))
    yield GRAPH, replace(lagging(11), setting=None)
    once = replace(SETTING, periodic=False)
    yield GRAPH, lagging(50, LagsProof(peak=100), once)
    graph = overwritten()
    proof = lt.certify(graph, 19)
    assert proof is not None
    peak = LagsProof(peak=19, least=proof.proof)  # type: ignore[arg-type]
    yield graph, lagging(60, peak, replace(once, machine=two_tiers(11, 10**8, 10**8)), graph)
