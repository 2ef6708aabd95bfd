"""Certificates for tests: one for each kind of proof, and random damage to them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import replace
from random import Random
from typing import Any

from lowtide.instances.formats.native_certificate import decode_certificate, encode_certificate
from lowtide.models.certificate import Certificate, Proof
from lowtide.models.errors import InstanceError
from lowtide.models.graph import Graph
from lowtide.solvers.peak.certify.descents import DescentProver
from lowtide.solvers.peak.certify.ends import TooHigh
from lowtide.solvers.peak.certify.simple import prove_by_cut, prove_by_working_set
from lowtide.solvers.peak.certify.states import prove_by_states
from lowtide.solvers.peak.search.beam import PLAIN_STEPS
from lowtide.solvers.peak.search.state_space import state_space

WITHOUT_END = 10**9


def never() -> bool:
    return False


def by_descents(graph: Graph, bound: int, *, whole: bool) -> Proof | None:
    prover = DescentProver(graph, bound)
    try:
        return prover.prove(whole=whole, most=WITHOUT_END, expired=never, nbytes=WITHOUT_END)
    except TooHigh:
        return None


def by_states(graph: Graph, bound: int, *, backward: bool, most: int = PLAIN_STEPS) -> Proof | None:
    space = state_space(graph, backward=backward)
    try:
        return prove_by_states(space, bound, most, never, WITHOUT_END)
    except TooHigh:
        return None


PROVERS: dict[str, Callable[[Graph, int], Proof | None]] = {
    "working-set": prove_by_working_set,
    "cut": lambda graph, bound: prove_by_cut(graph, bound, [], never),
    "descents": lambda graph, bound: by_descents(graph, bound, whole=False),
    "descents, whole": lambda graph, bound: by_descents(graph, bound, whole=True),
    "states": lambda graph, bound: by_states(graph, bound, backward=False),
    "states, backward": lambda graph, bound: by_states(graph, bound, backward=True),
    "states, compiled": lambda graph, bound: by_states(graph, bound, backward=False, most=WITHOUT_END),
}
"""Every kind of proof, in every direction."""

EXACT = [name for name in PROVERS if name.startswith(("descents", "states"))]
"""Those that prove every optimum."""


def certificate(graph: Graph, bound: int, prover: str) -> Certificate | None:
    """Return a certificate of one kind, if there is one."""
    proof = PROVERS[prover](graph, bound) if graph.ops or prover == "working-set" else None
    return None if proof is None else signed(graph, bound, proof)


def signed(graph: Graph, bound: int, proof: Proof) -> Certificate:
    """Return a certificate that says it is for the graph."""
    return Certificate(
        bound=bound,
        proof=proof,
        graph_name=graph.name,
        graph_source=graph.source,
        graph_sha256=graph.sha256,
    )


def damaged(rng: Random, original: Certificate) -> Certificate | None:
    """Return the certificate with one value of its proof changed; None if it is no certificate then."""
    data = copy.deepcopy(original.to_dict())
    places = list(_places(data["proof"]))
    holder, key = rng.choice(places)
    holder[key] = _other(rng, holder[key])
    try:
        return decode_certificate(_text(data), "damaged")
    except InstanceError:
        return None


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every element of a JSON value but the kinds, with what holds it."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        if key != "kind":
            yield value, key
            yield from _places(item)


def _other(rng: Random, value: Any) -> Any:
    """Return another value of about the same type."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return rng.choice((value + 1, value - 1, value + rng.randint(2, 9), 0, None))
    if value is None:
        return rng.randint(0, 3)
    if isinstance(value, str) and value not in ("op", "first", "last"):
        return f"{int(value, 16) ^ 1 << rng.randint(0, 6):x}"
    if isinstance(value, str):
        return rng.choice(("op", "first", "last", "middle"))
    if isinstance(value, list) and value:
        place = rng.randrange(len(value))
        kept = value[:place] + value[place + 1 :]
        return rng.choice((kept, [*value, rng.choice(value)], [*kept, value[place]], []))
    if isinstance(value, list):
        return [rng.randint(0, 5)]
    return None if rng.random() < 0.5 else value


def _text(data: dict[str, Any]) -> bytes:
    import json

    return json.dumps(data).encode()


def round_trip(original: Certificate) -> Certificate:
    """Return the certificate written and read."""
    return decode_certificate(encode_certificate(original, "x.json"), "x.json")


def neighbour(rng: Random, graph: Graph) -> Graph | None:
    """Return a graph of the same ops that differs in one thing; None if that is no graph."""
    tensors, ops = list(graph.tensors), list(graph.ops)
    t, i = rng.randrange(len(tensors)), rng.randrange(len(ops))
    tensor, op = tensors[t], ops[i]
    choice = rng.randrange(7)
    try:
        if choice == 0:
            tensors[t] = replace(tensor, nbytes=max(0, tensor.nbytes + rng.choice((-3, -1, 1, 2, 5))))
        elif choice == 1:
            tensors[t] = replace(tensor, initial=not tensor.initial)
        elif choice == 2:
            tensors[t] = replace(tensor, final=not tensor.final)
        elif choice == 3:
            ops[i] = replace(op, workspace=max(0, op.workspace + rng.choice((-2, 1, 3))))
        elif choice == 4:
            ops[i] = replace(
                op, reads=tuple(x for x in op.reads if x != t) + ((t,) if t not in op.reads else ())
            )
        elif choice == 5:
            ops[i] = replace(
                op,
                writes=tuple(x for x in op.writes if x != t) + ((t,) if t not in op.writes else ()),
                inplace=(),
            )
        else:
            j = rng.randrange(len(ops))
            ops[i] = replace(op, after=() if op.after else (j,))
        ops[i] = replace(ops[i], inplace=())
        return replace(graph, tensors=tuple(tensors), ops=tuple(ops))
    except InstanceError:
        return None
