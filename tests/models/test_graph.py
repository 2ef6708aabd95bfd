"""Construction checks, hash, `drop`, and lowering of orders."""

from __future__ import annotations

import hashlib
import json
import pickle
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given

from lowtide.models.derived.precedence import precedence
from lowtide.models.errors import InstanceError
from lowtide.models.graph import Accounting, Graph, Mode, Op, Tensor
from lowtide.models.machine import Access, Channel, ChannelGroup, Machine, Processor, Tier
from lowtide.models.plan import Free, Plan, Resident, Run
from tests.effort import many
from tests.strategies import graphs


def make(tensors: list[Tensor], ops: list[Op], **more: Any) -> Graph:
    return Graph(name="test", tensors=tuple(tensors), ops=tuple(ops), **more)


X = Tensor(name="x", nbytes=4)
IN = Tensor(name="in", nbytes=4, initial=True)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Tensor(name="x", nbytes=-1), "tensor 'x', nbytes: found -1, expected an integer >= 0"),
        (lambda: Tensor(name="x", nbytes=True), "found True"),
        (lambda: Tensor(name="x", nbytes=1.5), "found 1.5"),  # type: ignore[arg-type]
        (lambda: Tensor(name="x", nbytes=1, kind="gas"), "kind: found 'gas', expected one of input"),
        (lambda: Op(name="a", duration_ns=0), "op 'a', duration_ns: found 0, expected an integer >= 1"),
        (lambda: Op(name="a", workspace=-2), "op 'a', workspace: found -2"),
        (lambda: Mode(duration_ns=0), "mode, duration_ns: found 0"),
        (lambda: Mode(processors="cpu"), "mode, processors: found 'cpu'"),  # type: ignore[arg-type]
        (lambda: Mode(operands=((0, "a"), (0, "b"))), "mode, operands: found tensor 0 twice"),
        (lambda: make([X], [Op(name="a", writes=(1,))]), r"op 0 'a', writes: found 1, expected a tensor ind"),
        (lambda: make([X], [Op(name="a", writes=(-1,))]), r"found -1, expected a tensor index in \[0, 1\)"),
        (lambda: make([IN], [Op(name="a", reads=(0, 0))]), "op 0 'a', reads: found 0 twice"),
        (lambda: make([], [Op(name="a"), Op(name="b", after=(1,))]), "op 1 'b', after: found 1, expected an"),
        (
            lambda: make([], [Op(name="a", after=(1,)), Op(name="b")]),
            "after: found 1, expected an index belo",
        ),
        (lambda: make([X], [Op(name="a", reads=(0,))]), "found tensor 0 'x' before its first write"),
        (lambda: make([X], [Op(name="a", reads=(0,), writes=(0,))]), "before its first write"),
        (lambda: make([replace(X, final=True)], []), "tensor 0 'x', final: found true without content"),
        (lambda: make([IN, X], [Op(name="a", writes=(1,), inplace=((0, 1),))]), r"inplace: found \[0, 1\]"),
        (lambda: make([IN], [Op(name="a", modes=(Mode(operands=((0, "hbm"),)),))]), "operands: found tensor"),
        (lambda: make([], [], accounting="both"), "accounting: found 'both', expected one of coexist"),
        (lambda: make([X], []).drop({"wieght"}), "drop: found kind 'wieght'"),
    ],
)
def test_what_is_wrong_is_named(build: Any, message: str) -> None:
    with pytest.raises(InstanceError, match=message):
        build()


def test_hash_ignores_name_and_provenance_only() -> None:
    graph = make([IN], [Op(name="a", reads=(0,))])
    assert replace(graph, name="other", provenance={"by": "me"}) == graph
    explicit = make([IN], [Op(name="a", reads=(0,), modes=(Mode(),))])
    assert explicit.sha256 == graph.sha256, "defaults are written out"
    for other in (
        replace(graph, accounting=Accounting.REPLACE),
        make([replace(IN, nbytes=5)], [Op(name="a", reads=(0,))]),
        make([replace(IN, final=True)], [Op(name="a", reads=(0,))]),
        make([IN], [Op(name="a", reads=(0,), workspace=1)]),
        make([IN], [Op(name="a", reads=(0,), duration_ns=2)]),
        make([IN], [Op(name="b", reads=(0,))]),
    ):
        assert other.sha256 != graph.sha256
        assert other != graph


@pytest.mark.parametrize("accounting", list(Accounting))
def test_hash_is_that_of_the_canonical_json(accounting: Accounting) -> None:
    named = [replace(IN, name='quoted "\u00e4\n'), Tensor(name="y", nbytes=0, kind="weight", final=True)]
    mode = Mode(duration_ns=3, workspace=4, processors=("gpu",), operands=((0, "slow"), (1, "fast")))
    ops = [
        Op(name="a\\", kind="mat\tmul", reads=(0,), writes=(1,), duration_ns=7, workspace=9),
        Op(name="\ud800", reads=(0, 1), after=(0,), modes=(mode, Mode())),
        Op(name="in place", reads=(0,), writes=(1,), after=(0, 1), inplace=((0, 1),)),
    ]
    for graph in (replace(make(named, ops), accounting=accounting), make([], [])):
        data = graph.to_dict()
        del data["name"], data["provenance"]
        text = json.dumps(data, sort_keys=True, separators=(",", ":"))
        assert graph.sha256 == hashlib.sha256(text.encode()).hexdigest()


@many(50)
@given(graphs())
def test_dropping_bytes_keeps_the_precedence(graph: Graph) -> None:
    light = graph.drop({"weight", "activation"})
    assert precedence(light) == precedence(graph)
    for before, now in zip(graph.tensors, light.tensors, strict=True):
        gone = before.kind in {"weight", "activation"}
        assert now == replace(before, nbytes=0 if gone else before.nbytes)
    assert pickle.loads(pickle.dumps(graph)) == graph


def test_lowering_frees_at_the_last_access() -> None:
    graph = make(
        [IN, X, replace(X, name="out", final=True), replace(IN, name="unused"), replace(X, name="dead")],
        [
            Op(name="a", reads=(0,), writes=(1,), duration_ns=5),
            Op(name="b", reads=(1,), writes=(2, 4), duration_ns=7),
        ],
    )
    plan = Plan.from_order(graph, (0, 1))
    assert plan.start == (Resident(0, "memory"),)
    assert plan.runs == (Run(0, 0, 0, 5, "any0"), Run(1, 0, 5, 12, "any0"))
    assert plan.frees == (Free(0, "memory", 5), Free(1, "memory", 12), Free(4, "memory", 12))
    early = Plan.from_order(replace(graph, accounting=Accounting.REPLACE), (0, 1))
    assert early.frees == (Free(0, "memory", 0), Free(1, "memory", 5), Free(4, "memory", 12))
    assert plan.order == (0, 1)


def test_lowering_takes_the_mode_of_least_workspace() -> None:
    modes = (Mode(workspace=9), Mode(workspace=2, duration_ns=8, processors=("gpu",)), Mode(workspace=3))
    graph = make([], [Op(name="a", modes=modes), Op(name="b")])
    plan = Plan.from_order(graph, (0, 1))
    assert plan.runs == (Run(0, 1, 0, 8, "gpu0"), Run(1, 0, 8, 9, "gpu0"))
    with pytest.raises(
        InstanceError, match="found no processor on machine 'single', expected one of kind gpu"
    ):
        Plan.from_order(graph, (0, 1), Machine.single())


def test_lowering_refuses_what_an_order_does_not_say() -> None:
    bound = make([IN], [Op(name="a", reads=(0,), modes=(Mode(operands=((0, "hbm"),)),))])
    with pytest.raises(InstanceError, match="found operands bound to tiers in every mode"):
        Plan.from_order(bound, (0,))
    two = Machine(
        tiers=(Tier(name="hbm"), Tier(name="host")),
        processors=(Processor(name="p", tiers=(Access(tier="hbm"),)),),
    )
    with pytest.raises(InstanceError, match="found 2 tiers, expected 1"):
        Plan.from_order(make([IN], [Op(name="a", reads=(0,))]), (0,), two)


MEMORY = Tier(name="m")
PROCESSOR = Processor(name="p", tiers=(Access(tier="m"),))


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"tiers": ()}, "found no tier or no processor"),
        ({"processors": ()}, "found no tier or no processor"),
        ({"tiers": (MEMORY, MEMORY)}, "tiers: found 'm' twice"),
        ({"tiers": (Tier(name="m", capacity=-1),)}, "tier 'm', capacity: found -1"),
        ({"processors": (Processor(name="p", tiers=()),)}, "processor 'p': found no tier"),
        ({"processors": (Processor(name="p", tiers=(Access(tier="x"),)),)}, "found tier 'x'"),
        ({"processors": (Processor(name="p", tiers=(Access(tier="m", bytes_per_s=0),)),)}, "found 0"),
        ({"channels": (Channel(src="m", dst="m", bytes_per_s=1),)}, "expected two different tiers"),
        ({"groups": (ChannelGroup(name="g", channels=(("m", "x"),), bytes_per_s=1),)}, "found channel"),
    ],
)
def test_a_wrong_machine_is_named(parts: dict[str, Any], message: str) -> None:
    whole: dict[str, Any] = {"tiers": (MEMORY,), "processors": (PROCESSOR,), **parts}
    with pytest.raises(InstanceError, match=message):
        Machine(**whole)
