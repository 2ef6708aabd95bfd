"""The native certificate format: JSON, also gzipped, read as strictly as graphs and plans are.

::

    {"format": "lowtide/certificate", "version": 1, "problem": "peak", "graph": {"name", "source", "sha256"},
     "bound": bytes, "proof": {"kind", …}}

    {…, "problem": "placement", "setting": {"machine", "periodic", "start", "order"}, "bound": ns, …}

    {…, "problem": "parallel-memory", "setting": {"processors", "edges"}, "bound": bytes, …}

    {…, "problem": "arena", "setting": {"alignment", "pools"}, "bound": bytes, …}

It is what `Certificate.to_dict` returns; the proofs are those of `lowtide.models.certificate`, with masks in
hexadecimal digits, least significant last. Sources count from the folder of the file, as in plans. Here
only the form is judged; whether the proof holds is the question of `lowtide.models.verifier.certificate`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import fields
from functools import partial
from typing import Any, get_args

from ...models.certificate import PLAIN, Certificate, Proof
from ...models.errors import InstanceError
from ...models.flow_proof import FlowCase, ParallelSetting
from ...models.setting import ArenaSetting, Setting
from ...models.verifier.proofs.claims import OF_BRANCHES, OF_WAIST, Block, Branch, Claim, Component, Way
from ...models.verifier.proofs.cut import Multipliers
from ...models.verifier.proofs.price_claims import PricesProof
from ...models.verifier.proofs.stacks import StacksProof
from ...models.verifier.proofs.states import SetLevel
from ..spec import relative_spec, resolved_spec
from .native_machine import machine_from_dict
from .strict_json import (
    FLAG,
    TEXT,
    Field,
    Fields,
    check_header,
    check_object,
    dump_json,
    is_int_list,
    is_list,
    is_object,
    is_text,
    is_text_list,
    nearest,
    optional,
    parse_json,
    read_bytes,
    required,
    show,
)

NONE: Fields = {}

Reader = Callable[[Any, str], Any]
"""What it is given, and where that stands."""

MOST = 2**1000
"""Beyond all numbers of proofs: of larger ones, sums and products might be too long to be written."""


def _is_int(value: object) -> bool:
    return type(value) is int and -MOST < value < MOST


def _is_ints(value: Any) -> bool:
    return is_int_list(value) and (not value or -MOST < min(value) <= max(value) < MOST)


def _is_rows(length: int) -> Callable[[Any], bool]:
    return lambda value: is_list(value) and all(_is_ints(x) and len(x) == length for x in value)


def _is_mask(value: object) -> bool:
    return type(value) is str and re.fullmatch("[0-9a-f]+", value) is not None


def _is_sparse(value: object) -> bool:
    return isinstance(value, list) and {*map(type, value)} <= {int, type(None)}


def _as_it_is(value: Any, where: str) -> Any:
    return value


def _as_tuple(value: Any, where: str) -> Any:
    return tuple(value)


def _as_tuples(value: Any, where: str) -> Any:
    return tuple(map(tuple, value))


_INT = required(Field(_is_int, "an integer below 2**1000"))
_INTS = required(Field(_is_ints, "a list of integers below 2**1000"))
_LIST = required(Field(is_list, "a list"))
_OBJECT = required(Field(is_object, "an object"))
_PAIRS = required(Field(_is_rows(2), "a list of pairs of integers"))
_TRIPLES = required(Field(_is_rows(3), "a list of [index, index, bytes]"))
_PROBLEMS = (PLAIN, Setting.problem, ParallelSetting.problem, ArenaSetting.problem)
_CERTIFICATE = {
    "format": required(TEXT),
    "version": _INT,
    "problem": required(
        Field(
            lambda value: value in _PROBLEMS,
            ", ".join(f'"{x}"' for x in _PROBLEMS[:-1]) + f' or "{_PROBLEMS[-1]}"',
        )
    ),
    "graph": _OBJECT,
    "bound": required(Field(lambda x: _is_int(x) and x >= 0, "an integer >= 0, below 2**1000")),
    "proof": _OBJECT,
}
_WITH_SETTING = {**_CERTIFICATE, "setting": _OBJECT}
_SETTING = {
    "machine": _OBJECT,
    "periodic": required(FLAG),
    "start": required(Field(optional(is_object), "an object or null")),
    "order": required(Field(lambda x: x in ("reference", "free"), '"reference" or "free"')),
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
    with_setting = problem != PLAIN
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
    kinds = {cls.kind: cls for cls in get_args(Proof)}
    kind = data.get("kind")
    if type(kind) is not str or kind not in kinds:
        expected = nearest(kind, kinds) if type(kind) is str else f"expected one of {', '.join(kinds)}"
        raise InstanceError(f"{where}, kind: found {show(kind)}, {expected}")
    cls = kinds[kind]
    proof: Proof = _prices(data, where) if cls is PricesProof else _read(cls, data, where)
    return proof


def _read(cls: Any, data: Any, where: str) -> Any:
    """Return the data of a `Written` class."""
    return cls(**_values(cls, data, where))


def _values(
    cls: Any, data: Any, where: str, own: Fields = NONE, absent: Collection[str] = ()
) -> dict[str, Any]:
    """Return the fields of a `Written` class by what they are annotated with.

    Those with a form of their `own` are checked, and left to the caller; those `absent` must not be there.
    """
    parts = {f.name: str(f.type) for f in fields(cls) if f.name not in absent}
    kind = {"kind": required(TEXT)} if hasattr(cls, "kind") else {}
    check_object(data, kind | {name: own.get(name) or _FORMS[form][0] for name, form in parts.items()}, where)
    return {name: _FORMS[form][1](data[name], where) for name, form in parts.items() if name not in own}


def _several(read: Reader, noun: str) -> tuple[Field, Reader]:
    """Return the form of a list of objects, which messages call `noun` and their number."""
    return _LIST, lambda rows, where: tuple(read(x, f"{where}, {noun} {k}") for k, x in enumerate(rows))


def _setting_of(
    problem: str, data: Mapping[str, Any], where: str
) -> Setting | ParallelSetting | ArenaSetting:
    readers: dict[str, Callable[[Any, str], Setting | ParallelSetting | ArenaSetting]] = {
        Setting.problem: _setting,
        ParallelSetting.problem: _parallel,
        ArenaSetting.problem: _arena,
    }
    return readers[problem](data, where)


def _arena(data: Mapping[str, Any], where: str) -> ArenaSetting:
    return ArenaSetting(**_values(ArenaSetting, {"pools": [], **data}, where))


def _setting(data: Mapping[str, Any], where: str) -> Setting:
    data = {"order": "reference", **data}
    check_object(data, _SETTING, where)
    for kind, tiers in (data["start"] or {}).items():
        if not is_text_list(tiers):
            raise InstanceError(f"{where}, start, {kind}: found {show(tiers)}, expected a list of tiers")
    return Setting(
        machine=machine_from_dict(data["machine"], f"{where}, machine"),
        periodic=data["periodic"],
        start=None if data["start"] is None else {kind: tuple(x) for kind, x in data["start"].items()},
        order=data["order"],
    )


def _parallel(data: Mapping[str, Any], where: str) -> ParallelSetting:
    own = {
        "processors": required(Field(optional(lambda x: _is_int(x) and x >= 1), "an integer >= 1 or null"))
    }
    values = _values(ParallelSetting, data, where, own)
    return ParallelSetting(**values, processors=data["processors"])


def _prices(data: Mapping[str, Any], where: str) -> Proof:
    rows = (("capacities", ("tier",)), ("channels", ("src", "dst")), ("groups", ("name",)))
    values = _values(PricesProof, data, where, {key: _LIST for key, _ in rows})
    for key, names in rows:
        for k, row in enumerate(data[key]):
            check_object(
                row, {**dict.fromkeys(names, required(TEXT)), "prices": _INTS}, f"{where}, {key} {k}"
            )
    return PricesProof(
        **values,
        capacities=tuple((row["tier"], tuple(row["prices"])) for row in data["capacities"]),
        channels=tuple(((row["src"], row["dst"]), tuple(row["prices"])) for row in data["channels"]),
        groups=tuple((row["name"], tuple(row["prices"])) for row in data["groups"]),
    )


def _case(data: Any, where: str) -> FlowCase:
    values = _values(FlowCase, data, where, {"decisions": _PAIRS})
    for event, happened in data["decisions"]:
        if happened not in (0, 1):
            raise InstanceError(f"{where}, decisions: found [{event}, {happened}], expected 0 or 1 second")
    return FlowCase(
        **values, decisions=tuple((event, happened == 1) for event, happened in data["decisions"])
    )


def _of_kind(expected: str, data: Any, where: str) -> Proof:
    kind = data.get("kind") if isinstance(data, dict) else None
    if kind != expected:
        raise InstanceError(f'{where}, kind: found {show(kind)}, expected "{expected}"')
    return _proof(data, where)


def _claim(data: Any, where: str) -> Claim:
    kind = data.get("kind") if isinstance(data, dict) else None
    if kind not in ("component", "way"):
        raise InstanceError(f'{where}, kind: found {show(kind)}, expected "component" or "way"')
    if kind == "way":
        return Way(**_values(Way, data, where))
    if "waist" not in data:
        return Component(**_values(Component, data, where, absent=OF_WAIST))
    values = _values(Component, data, where, {"waist": _INT}, OF_BRANCHES)
    return Component(**values, waist=data["waist"])


_FORMS: dict[str, tuple[Field, Reader]] = {
    "int": (_INT, _as_it_is),
    "int | None": (required(Field(optional(_is_int), "an integer or null")), _as_it_is),
    "bool": (required(FLAG), _as_it_is),
    "str": (required(TEXT), _as_it_is),
    "Mask": (
        required(Field(_is_mask, "a set of ops in hexadecimal digits")),
        lambda digits, where: int(digits, 16),
    ),
    "tuple[int, ...]": (_INTS, _as_tuple),
    "Prices": (_INTS, _as_tuple),
    "tuple[int | None, ...]": (required(Field(_is_sparse, "a list of integers and nulls")), _as_tuple),
    "tuple[str, ...]": (required(Field(is_text_list, "a list of strings")), _as_tuple),
    "tuple[tuple[int, int], ...]": (_PAIRS, _as_tuples),
    "tuple[tuple[int, int, int], ...]": (_TRIPLES, _as_tuples),
    "PeakProof | None": (
        required(Field(optional(is_object), "an object or null")),
        lambda data, where: None if data is None else _proof(data, f"{where}, least"),
    ),
    "PeakProof": (_OBJECT, lambda data, where: _proof(data, f"{where}, peak")),
    "Multipliers": (_OBJECT, lambda data, where: _read(Multipliers, data, f"{where}, multipliers")),
    "Branch | None": (
        required(Field(optional(is_object), "an object or null")),
        lambda data, where: None if data is None else _read(Branch, data, f"{where}, beyond"),
    ),
    "tuple[StacksProof, ...]": _several(partial(_of_kind, StacksProof.kind), "stacks"),
    "tuple[PricesProof, ...]": _several(partial(_of_kind, PricesProof.kind), "window"),
    "tuple[SetLevel, ...]": _several(partial(_read, SetLevel), "level"),
    "tuple[Block, ...]": _several(partial(_read, Block), "block"),
    "tuple[Branch, ...]": _several(partial(_read, Branch), "branch"),
    "tuple[Claim, ...]": _several(_claim, "claim"),
    "tuple[FlowCase, ...]": _several(_case, "case"),
}
"""By the annotation of a field: what the object must hold, and how that is read."""
