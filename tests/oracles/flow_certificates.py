"""Certificates by flows that are wrong in one thing each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import lowtide as lt
from lowtide.models.certificate import Certificate
from lowtide.models.flow_proof import FlowProof, ParallelSetting


def bad_flows() -> Iterator[tuple[lt.Graph, Certificate]]:
    """Yield certificates of the memory of parallel schedules that a rule refuses."""
    graph = lt.load("gen:randwire?n=8&seed=1")
    for processors in (None, 2):
        most = lt.solve(lt.ParallelMemory(graph, processors=processors), threads=1).objective
        assert most is not None
        good = lt.certify_parallel(graph, most, processors=processors)
        assert good is not None
        assert isinstance(good.proof, FlowProof)
        yield graph, replace(good, bound=most - 1)
        yield graph, replace(good, setting=ParallelSetting(processors=0))
        for k, case in enumerate(good.proof.cases):
            cases = list(good.proof.cases)
            cases[k] = replace(case, arcs=case.arcs[1:])
            yield graph, replace(good, proof=replace(good.proof, cases=tuple(cases)))
