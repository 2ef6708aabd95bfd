"""Flows that were forged or changed: none is accepted for less than some parallel schedule needs."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random
from typing import Any

import pytest

import lowtide as lt
from lowtide.models.certificate import Certificate
from lowtide.models.flow_proof import FlowProof, ParallelSetting
from lowtide.models.graph import Accounting
from tests.effort import share
from tests.forged_flows import changed_proof
from tests.oracles.brute_parallel import most_memory
from tests.strategies import random_graph


def setting_of(rng: Random, graph: lt.Graph) -> ParallelSetting:
    n = len(graph.ops)
    pairs = [(i, j) for i in range(n) for j in range(i + 1, n) if rng.random() < 0.15]
    return ParallelSetting(processors=rng.choice((None, None, 1, 2, 3)), edges=tuple(pairs))


def most(graph: lt.Graph, setting: ParallelSetting) -> int:
    return most_memory(graph, set(setting.edges), setting.processors)


def other_graph(rng: Random, graph: lt.Graph) -> lt.Graph:
    """Return the graph with one thing less or more; a proof of one may be none of the other."""
    kind = rng.choice(
        ("bytes", "final", "initial", "after", "no after", "reads", "writes", "workspace", "rule")
    )
    if kind == "rule":
        other = Accounting.REPLACE if graph.accounting is Accounting.COEXIST else Accounting.COEXIST
        return replace(graph, accounting=other)
    if kind in ("bytes", "final", "initial"):
        k = rng.randrange(len(graph.tensors))
        tensor = graph.tensors[k]
        changed = (
            {"nbytes": max(0, tensor.nbytes - 1)} if kind == "bytes" else {kind: not getattr(tensor, kind)}
        )
        tensors = (*graph.tensors[:k], replace(tensor, **changed), *graph.tensors[k + 1 :])
        return replace(graph, tensors=tensors)
    k = rng.randrange(len(graph.ops))
    op = graph.ops[k]
    if kind == "workspace":
        op = replace(op, workspace=max(0, op.workspace - 1), modes=())
    elif kind == "after" and k:
        op = replace(op, after=tuple({*op.after, rng.randrange(k)}))
    elif kind in ("reads", "writes"):
        t = rng.randrange(len(graph.tensors))
        changed_rows: dict[str, Any] = {kind: tuple({*getattr(op, kind)} ^ {t})}
        op = replace(op, inplace=(), **changed_rows)
    else:
        op = replace(op, after=())
    return replace(graph, ops=(*graph.ops[:k], op, *graph.ops[k + 1 :]))


def attack(seed: int, changes: int = 12) -> Counter[str]:
    """Hold changed and foreign proofs of a graph against the most of all its states; count verdicts."""
    rng, seen = Random(seed), Counter[str]()
    graph = random_graph(rng, max_ops=4, max_tensors=5)
    setting = setting_of(rng, graph)
    needed = most(graph, setting)
    good = lt.certify_parallel(graph, needed, processors=setting.processors, edges=setting.edges)
    assert good is not None
    assert good.bound >= needed
    assert lt.verify_certificate(graph, good).valid
    if needed:
        less = lt.certify_parallel(graph, needed - 1, processors=setting.processors, edges=setting.edges)
        assert less is None
    for _ in range(changes):
        asked, forged = setting, good
        if rng.random() < 0.4:
            foreign = other_or_none(rng, graph)
            if foreign is None:
                continue
            theirs = setting_of(rng, foreign) if rng.random() < 0.3 else setting
            found = lt.certify_parallel(
                foreign, most(foreign, theirs), processors=theirs.processors, edges=theirs.edges
            )
            assert found is not None
            forged = replace(found, setting=asked, graph_sha256=graph.sha256)
        if rng.random() < 0.6:
            assert isinstance(forged.proof, FlowProof)
            forged = replace(forged, proof=changed_proof(rng, graph, forged.proof))
        if rng.random() < 0.2:
            asked = setting_of(rng, graph)
            forged = replace(forged, setting=asked)
        assert isinstance(forged.proof, FlowProof)
        claimed = forged.proof.value(asked.processors) - (rng.random() < 0.1)
        forged = replace(forged, bound=max(0, claimed))
        seen[verdict(graph, asked, forged)] += 1
    return seen


def other_or_none(rng: Random, graph: lt.Graph) -> lt.Graph | None:
    """Return another graph, None where the change makes it none."""
    try:
        return other_graph(rng, graph)
    except lt.InstanceError:
        return None


def verdict(graph: lt.Graph, setting: ParallelSetting, certificate: Certificate) -> str:
    """Return what is said of a certificate, and hold it against the most of all states."""
    needed = most(graph, setting)
    valid = lt.verify_certificate(graph, certificate).valid
    assert not valid or certificate.bound >= needed, (setting, certificate, needed)
    return "proof" if valid else "too little" if certificate.bound < needed else "refused"


def attacks(seeds: range) -> None:
    seen: Counter[str] = sum((attack(seed) for seed in seeds), Counter())
    assert min(seen[x] for x in ("proof", "too little", "refused")) > len(seeds) // 4, seen


@pytest.mark.slow
def test_no_flow_proves_less_than_a_schedule_needs() -> None:
    attacks(range(share(600)))


@pytest.mark.slow
def test_no_flow_proves_less_than_a_schedule_needs_of_more_graphs() -> None:
    attacks(range(1000, 1000 + share(1500)))
