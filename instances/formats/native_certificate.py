"""The native certificate format: JSON, also gzipped, read as strictly as graphs and plans are.

::

    {"format": "lowtide/certificate", "version": 1, "problem": "peak", "graph": {"name", "source", "sha256"},
     "bound": bytes, "proof": {"kind", …}}

    {…, "problem": "placement", "setting": {"machine", "periodic", "start"}, "bound": ns, …}

    {…, "problem": "parallel-memory", "setting": {"processors", "edges"}, "bound": bytes, …}

It is what `Certificate.to_dict` returns; the proofs are those of `lowtide.models.certificate`, with masks in
hexadecimal digits, least significant last. Sources count from the folder of the file, as in plans. Here
only the form is judged; whether the proof holds is the question of `lowtide.models.verifier.certificate`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

from ...models.certificate import Certificate, Proof
from ...models.errors import InstanceError
from ...models.flow_proof import FlowCase, FlowProof, ParallelSetting
from ...models.setting import Setting
from ...models.verifier.proofs.claims import Block, Branch, Claim, Component, DescentsProof, Way
from ...models.verifier.proofs.cut import CutProof, Multipliers
from ...models.verifier.proofs.prices import PricesProof
from ...models.verifier.proofs.release import ReleaseProof
from ...models.verifier.proofs.states import Level, StatesProof
from ...models.verifier.proofs.working_set import WorkingSetProof
from ..spec import relative_spec, resolved_spec
from .native_machine import machine_from_dict
from .strict_json import (
    FLAG,
    TEXT,
    Field,
    check_header,
    check_object,
    dump_json,
    is_int_list,
    is_list,
    is_object,
    is_pair_list,
    is_positive,
    is_size,
    is_text,
    is_text_list,
    nearest,
    optional,
    parse_json,
    read_bytes,
    required,
    show,
)


def _is_int(value: object) -> bool:
    return type(value) is int


def _is_mask(value: object) -> bool:
    return type(value) is str and re.fullmatch("[0-9a-f]+", value) is not None


def _is_sparse(value: object) -> bool:
    return isinstance(value, list) and {*map(type, value)} <= {int, type(None)}


def _is_triples(value: object) -> bool:
    return isinstance(value, list) and all(is_int_list(x) and len(x) == 3 for x in value)


_INT = required(Field(_is_int, "an integer"))
_NULLABLE = required(Field(optional(_is_int), "an integer or null"))
_INTS = required(Field(is_int_list, "a list of integers"))
_LIST = required(Field(is_list, "a list"))
_MASK = required(Field(_is_mask, "a set of ops in hexadecimal digits"))
_FLAG = required(FLAG)
_OBJECT = required(Field(is_object, "an object"))
_PAIRS = required(Field(is_pair_list, "a list of pairs of integers"))
_TRIPLES = required(Field(_is_triples, "a list of [index, index, bytes]"))
_CERTIFICATE = {
    "format": required(TEXT),
    "version": _INT,
    "problem": required(
        Field(
            lambda value: value in ("peak", "placement", "parallel-memory"),
            '"peak", "placement" or "parallel-memory"',
        )
    ),
    "graph": _OBJECT,
    "bound": required(Field(is_size, "an integer >= 0")),
    "proof": _OBJECT,
}
_WITH_SETTING = {**_CERTIFICATE, "setting": _OBJECT}
_SETTING = {
    "machine": _OBJECT,
    "periodic": required(FLAG),
    "start": required(Field(optional(is_object), "an object or null")),
}
_PARALLEL = {
    "processors": required(Field(optional(is_positive), "an integer >= 1 or null")),
    "edges": _PAIRS,
}
_GRAPH = {
    "name": required(TEXT),
    "source": required(Field(optional(is_text), "a string or null")),
    "sha256": required(
        Field(
            lambda value: is_text(value) and re.fullmatch("[0-9a-f]{64}", value) is not None,
            "64 hexadecimal digits",
        )
    ),
}
_KIND = {"kind": required(TEXT)}
_TEXTS = required(Field(is_text_list, "a list of strings"))
_RELEASE = {**_KIND, "op": _INT, "tiers": _TEXTS, "groups": _TEXTS}
_WORKING_SET = {**_KIND, "at": required(TEXT), "op": _NULLABLE}
_CUT = {**_KIND, "op": _INT, "multipliers": _OBJECT}
_MULTIPLIERS = {"edges": _TRIPLES, "shares": _TRIPLES}
_STATES = {**_KIND, "backward": _FLAG, "levels": _LIST}
_LEVEL = {
    "parents": _INTS,
    "ops": _INTS,
    "free": required(Field(_is_sparse, "a list of integers and nulls")),
}
_DESCENTS = {**_KIND, "blocks": _LIST, "claims": _LIST}
_PRICES = {
    **_KIND,
    **dict.fromkeys(("denominator", "least"), _INT),
    **dict.fromkeys(("samples", "memory"), _INTS),
    **dict.fromkeys(("capacities", "channels", "groups"), _LIST),
}
_FLOW = {**_KIND, "cases": _LIST}
_CASE = {"decisions": _PAIRS, "price": _INT, "scale": _INT, "arcs": _TRIPLES}
_BLOCK = {"backward": _FLAG, "ops": _INTS, "outside": _MASK, "multipliers": _OBJECT}
_BRANCH = {"op": _INT, "moves": _INTS, "claims": _INTS}
_ABOUT = {**_KIND, "backward": _FLAG, "ops": _MASK, "outside": _MASK, "height": _NULLABLE, "whole": _FLAG}
_BRANCHES = {**_ABOUT, "branches": _LIST}
_WAIST = {
    **_ABOUT,
    "waist": _INT,
    "inner": _INTS,
    "way": _NULLABLE,
    "beyond": required(Field(optional(is_object), "an object or null")),
}
_WAY = {
    **_KIND,
    "ops": _MASK,
    "outside": _MASK,
    "height": _NULLABLE,
    "head": _INTS,
    "tail": _INTS,
    "backward": _FLAG,
    "claims": _INTS,
}


def read_certificate(path: str | os.PathLike[str]) -> Certificate:
    """Return the certificate of a file, ``.json`` or ``.json.gz``.

    Raises
    ------
    InstanceError
        If the file cannot be read or is not exactly of the format.
    """
    where = os.fspath(path)
    return decode_certificate(read_bytes(path), where)


def decode_certificate(content: bytes, where: str) -> Certificate:
    """Return the certificate of a JSON text; relative sources count from the folder of `where`.

    Raises
    ------
    InstanceError
        If it is not exactly of the format.
    """
    data = parse_json(content, where)
    check_header(data, "certificate", where)
    problem = data.get("problem")
    with_setting = problem in ("placement", "parallel-memory")
    check_object(data, _WITH_SETTING if with_setting else _CERTIFICATE, where)
    graph, source = data["graph"], data["graph"].get("source")
    check_object(graph, _GRAPH, f"{where}, graph")
    return Certificate(
        bound=data["bound"],
        proof=_proof(data["proof"], f"{where}, proof"),
        graph_name=graph["name"],
        graph_source=None if source is None else resolved_spec(source, os.path.dirname(where)),
        graph_sha256=graph["sha256"],
        setting=_setting_of(problem, data["setting"], f"{where}, setting") if with_setting else None,
    )


def encode_certificate(certificate: Certificate, path: str | os.PathLike[str]) -> bytes:
    """Return the JSON text of a file at `path`; the same certificate always gives the same bytes."""
    data = certificate.to_dict()
    if certificate.graph_source is not None:
        source = relative_spec(certificate.graph_source, os.path.dirname(os.fspath(path)))
        data["graph"]["source"] = source
    return dump_json(data, ())


def _proof(data: Mapping[str, Any], where: str) -> Proof:
    kinds = {
        "working-set": _working_set,
        "cut": _cut,
        "states": _states,
        "descents": _descents,
        "prices": _prices,
        "release": _release,
        "flow": _flow,
    }
    kind = data.get("kind")
    if type(kind) is not str or kind not in kinds:
        expected = nearest(kind, kinds) if type(kind) is str else f"expected one of {', '.join(kinds)}"
        raise InstanceError(f"{where}, kind: found {show(kind)}, {expected}")
    return kinds[kind](data, where)


def _working_set(data: Mapping[str, Any], where: str) -> Proof:
    check_object(data, _WORKING_SET, where)
    return WorkingSetProof(at=data["at"], op=data["op"])


def _cut(data: Mapping[str, Any], where: str) -> Proof:
    check_object(data, _CUT, where)
    return CutProof(op=data["op"], multipliers=_multipliers(data["multipliers"], where))


def _multipliers(data: Mapping[str, Any], where: str) -> Multipliers:
    check_object(data, _MULTIPLIERS, f"{where}, multipliers")
    return Multipliers(edges=tuple(map(tuple, data["edges"])), shares=tuple(map(tuple, data["shares"])))


def _states(data: Mapping[str, Any], where: str) -> Proof:
    check_object(data, _STATES, where)
    levels = []
    for number, level in enumerate(data["levels"]):
        check_object(level, _LEVEL, f"{where}, level {number}")
        levels.append(
            Level(parents=tuple(level["parents"]), ops=tuple(level["ops"]), free=tuple(level["free"]))
        )
    return StatesProof(backward=data["backward"], levels=tuple(levels))


def _descents(data: Mapping[str, Any], where: str) -> Proof:
    check_object(data, _DESCENTS, where)
    return DescentsProof(
        blocks=tuple(_block(x, f"{where}, block {k}") for k, x in enumerate(data["blocks"])),
        claims=tuple(_claim(x, f"{where}, claim {k}") for k, x in enumerate(data["claims"])),
    )


def _setting_of(problem: str, data: Mapping[str, Any], where: str) -> Setting | ParallelSetting:
    return _setting(data, where) if problem == "placement" else _parallel(data, where)


def _setting(data: Mapping[str, Any], where: str) -> Setting:
    check_object(data, _SETTING, where)
    for kind, tiers in (data["start"] or {}).items():
        if not is_text_list(tiers):
            raise InstanceError(f"{where}, start, {kind}: found {show(tiers)}, expected a list of tiers")
    return Setting(
        machine=machine_from_dict(data["machine"], f"{where}, machine"),
        periodic=data["periodic"],
        start=None if data["start"] is None else {kind: tuple(x) for kind, x in data["start"].items()},
    )


def _prices(data: Mapping[str, Any], where: str) -> Proof:
    check_object(data, _PRICES, where)
    for key, names in (("capacities", ("tier",)), ("channels", ("src", "dst")), ("groups", ("name",))):
        for k, row in enumerate(data[key]):
            check_object(
                row, {**dict.fromkeys(names, required(TEXT)), "prices": _INTS}, f"{where}, {key} {k}"
            )
    return PricesProof(
        denominator=data["denominator"],
        least=data["least"],
        samples=tuple(data["samples"]),
        memory=tuple(data["memory"]),
        capacities=tuple((row["tier"], tuple(row["prices"])) for row in data["capacities"]),
        channels=tuple(((row["src"], row["dst"]), tuple(row["prices"])) for row in data["channels"]),
        groups=tuple((row["name"], tuple(row["prices"])) for row in data["groups"]),
    )


def _release(data: Mapping[str, Any], where: str) -> Proof:
    check_object(data, _RELEASE, where)
    return ReleaseProof(op=data["op"], tiers=tuple(data["tiers"]), groups=tuple(data["groups"]))


def _parallel(data: Mapping[str, Any], where: str) -> ParallelSetting:
    check_object(data, _PARALLEL, where)
    return ParallelSetting(
        processors=data["processors"], edges=tuple((int(i), int(j)) for i, j in data["edges"])
    )


def _flow(data: Mapping[str, Any], where: str) -> Proof:
    check_object(data, _FLOW, where)
    return FlowProof(cases=tuple(_case(x, f"{where}, case {k}") for k, x in enumerate(data["cases"])))


def _case(data: Any, where: str) -> FlowCase:
    check_object(data, _CASE, where)
    for event, happened in data["decisions"]:
        if happened not in (0, 1):
            raise InstanceError(f"{where}, decisions: found [{event}, {happened}], expected 0 or 1 second")
    return FlowCase(
        arcs=tuple((u, v, flow) for u, v, flow in data["arcs"]),
        decisions=tuple((event, happened == 1) for event, happened in data["decisions"]),
        price=data["price"],
        scale=data["scale"],
    )


def _block(data: Any, where: str) -> Block:
    check_object(data, _BLOCK, where)
    return Block(
        backward=data["backward"],
        ops=tuple(data["ops"]),
        outside=int(data["outside"], 16),
        multipliers=_multipliers(data["multipliers"], where),
    )


def _branch(data: Any, where: str) -> Branch:
    check_object(data, _BRANCH, where)
    return Branch(op=data["op"], moves=tuple(data["moves"]), claims=tuple(data["claims"]))


def _claim(data: Any, where: str) -> Claim:
    kind = data.get("kind") if isinstance(data, dict) else None
    if kind not in ("component", "way"):
        raise InstanceError(f'{where}, kind: found {show(kind)}, expected "component" or "way"')
    if kind == "way":
        check_object(data, _WAY, where)
        return Way(
            ops=int(data["ops"], 16),
            outside=int(data["outside"], 16),
            height=data["height"],
            head=tuple(data["head"]),
            tail=tuple(data["tail"]),
            backward=data["backward"],
            claims=tuple(data["claims"]),
        )
    waist = "waist" in data
    check_object(data, _WAIST if waist else _BRANCHES, where)
    return Component(
        backward=data["backward"],
        whole=data["whole"],
        ops=int(data["ops"], 16),
        outside=int(data["outside"], 16),
        height=data["height"],
        branches=tuple(_branch(x, f"{where}, branch {k}") for k, x in enumerate(data.get("branches", []))),
        waist=data.get("waist"),
        inner=tuple(data.get("inner", [])),
        way=data.get("way"),
        beyond=_branch(data["beyond"], f"{where}, beyond") if waist and data["beyond"] is not None else None,
    )
