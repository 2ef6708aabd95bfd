"""The checker of certificates never raises: whatever a file says it refuses, with little memory."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from itertools import islice
from random import Random
from typing import Any

import pytest

import lowtide as lt
from lowtide.instances import decode_certificate, encode_certificate
from lowtide.models.certificate import Certificate
from lowtide.models.graph import Graph
from lowtide.models.verifier.certificate import verify_certificate
from tests.damage import damaged_json, little_memory
from tests.effort import chosen
from tests.oracles.arena_certificates import GRAPH as STACKED
from tests.oracles.arena_certificates import bad_stacks, stacked_at_least
from tests.oracles.brute_force import brute_force_peak
from tests.oracles.certificates import PROVERS, certificate
from tests.oracles.flow_certificates import bad_flows
from tests.oracles.lag_certificates import bad_lags
from tests.oracles.price_certificates import bad_prices
from tests.oracles.release_certificates import bad_releases
from tests.strategies import random_graph

OTHERS = {
    "prices": bad_prices,
    "release": bad_releases,
    "lags": bad_lags,
    "arena": bad_stacks,
    "flow": bad_flows,
}


def samples(name: str) -> Iterator[tuple[Graph, Certificate]]:
    """Yield certificates of a prover or a problem, right or wrong ones, one of each form."""
    if name in OTHERS:
        forms = set()
        for graph, found in islice(OTHERS[name](), 60):
            form = json.dumps(shape(found.to_dict()["proof"]))
            if form not in forms:
                forms.add(form)
                yield graph, found
        return
    for seed in range(40):
        graph = random_graph(Random(seed), min_ops=4, max_ops=6, max_tensors=7, max_nbytes=9)
        proved = certificate(graph, brute_force_peak(graph)[0], name)
        if proved is not None:
            yield graph, proved
            return


def shape(value: Any) -> Any:
    """Return the keys of a JSON value, without what stands there."""
    if isinstance(value, dict):
        return {key: shape(item) for key, item in value.items()}
    return [shape(value[0])] if isinstance(value, list) and value else type(value).__name__


@cache
def cases(name: str) -> list[tuple[Graph, str, bytes]]:
    """Return damaged certificates, each with its graph and with what was done."""
    found = []
    for graph, good in islice(samples(name), 6):
        data = json.loads(encode_certificate(good, "x.json"))
        found += [(graph, what, content) for what, content in damaged_json(data)]
    return found


@pytest.mark.parametrize("name", [*PROVERS, *OTHERS])
def test_whatever_a_file_says_the_checker_does_not_raise(name: str) -> None:
    taken = 0
    with little_memory():
        for graph, what, content in chosen(cases(name), least=100):
            try:
                damaged = decode_certificate(content, "x.json")
            except lt.InstanceError:
                continue
            taken += 1
            try:
                verify_certificate(graph, damaged)
            except BaseException as error:
                raise AssertionError(f"{what}: {error!r}") from error
    assert taken > 0


@pytest.mark.parametrize("alignment", [2**62, 2**63, 2**70, 10**300])
def test_an_alignment_beyond_all_sizes_is_refused(alignment: int) -> None:
    verdict = verify_certificate(STACKED, stacked_at_least(13, alignment=alignment))
    assert not verdict.valid
    assert "\n" not in verdict.witness
