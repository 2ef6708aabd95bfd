"""Native certificates: strict reading, exact round trips."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lowtide.instances import decode_certificate, encode_certificate, read_certificate
from lowtide.models.certificate import Certificate, Proof
from lowtide.models.errors import InstanceError
from lowtide.models.flow_proof import FlowCase, FlowProof, ParallelSetting
from lowtide.models.setting import ArenaSetting, Setting
from lowtide.models.verifier.proofs.claims import Block, Branch, Component, DescentsProof, Way
from lowtide.models.verifier.proofs.cut import CutProof, Multipliers
from lowtide.models.verifier.proofs.lags import LagsProof
from lowtide.models.verifier.proofs.price_claims import PricesProof, WindowsProof
from lowtide.models.verifier.proofs.release import ReleaseProof
from lowtide.models.verifier.proofs.stacks import PoolsProof, StacksProof
from lowtide.models.verifier.proofs.states import SetLevel, StatesProof
from lowtide.models.verifier.proofs.working_set import WorkingSetProof
from tests.oracles.price_certificates import SETTING

MULTIPLIERS = Multipliers(edges=((0, 1, 5),), shares=((2, 3, 4), (2, 4, 1)))
PROOFS: dict[str, Proof] = {
    "working-set": WorkingSetProof(at="op", op=3),
    "working-set, first": WorkingSetProof(at="first"),
    "cut": CutProof(op=2, multipliers=MULTIPLIERS),
    "states": StatesProof(
        backward=True,
        levels=(
            SetLevel(parents=(), ops=(), free=(None,)),
            SetLevel(parents=(0, 0), ops=(1, 2), free=(None, 3)),
        ),
    ),
    "descents": DescentsProof(
        blocks=(Block(backward=False, ops=(3, 1), outside=0, multipliers=MULTIPLIERS),),
        claims=(
            Component(
                backward=False,
                whole=False,
                ops=0x1F,
                outside=0x20,
                height=None,
                branches=(Branch(op=0, moves=(1, 9), claims=()),),
            ),
            Component(backward=True, whole=True, ops=3, outside=0, height=7, waist=1, inner=(0,), way=0),
            Component(
                backward=True,
                whole=True,
                ops=3,
                outside=0,
                height=-7,
                waist=1,
                beyond=Branch(op=1, moves=(), claims=(0, 1)),
            ),
            Way(ops=2**70, outside=0, height=2, head=(4,), tail=(), backward=True, claims=(0, 1)),
        ),
    ),
    "prices": PricesProof(
        denominator=6,
        least=3,
        samples=(-1, 0),
        memory=(0, 5),
        capacities=(("ssd", (1, 0)),),
        channels=((("host", "gpu"), (1000, 0)),),
        groups=(("in", (0, 1)),),
    ),
    "windows": WindowsProof(
        windows=(
            PricesProof(denominator=6, least=3, samples=(-1, 0), memory=(0, 5)),
            PricesProof(
                denominator=7, least=0, samples=(1,), memory=(0,), channels=((("host", "gpu"), (9,)),)
            ),
        )
    ),
    "release": ReleaseProof(op=1, tiers=("ssd",), groups=("in",)),
    "lags": LagsProof(
        inward=((0, 1), (1, 2)), outward=((-1, 0),), peak=8, least=WorkingSetProof(at="op", op=1)
    ),
    "stacks": StacksProof(threshold=3, peak=WorkingSetProof(at="op", op=1)),
    "pools": PoolsProof(
        bounds=(4, 8),
        stacks=(
            StacksProof(threshold=0, peak=WorkingSetProof(at="op", op=1)),
            StacksProof(threshold=3, peak=WorkingSetProof(at="first")),
        ),
    ),
    "flow": FlowProof(
        cases=(FlowCase(decisions=((0, True),), price=1, scale=2, arcs=((-1, 0, 4),)), FlowCase(arcs=()))
    ),
}


PARALLEL = ParallelSetting(processors=2, edges=((0, 1),))
SETTINGS: dict[str, Setting | ParallelSetting | ArenaSetting] = {
    "prices": SETTING,
    "windows": SETTING,
    "release": SETTING,
    "lags": replace(SETTING, order="free"),
    "flow": PARALLEL,
    "stacks": ArenaSetting(alignment=16),
    "pools": ArenaSetting(alignment=16, pools=("weight+state", "gradient")),
}


def certificate(proof: Proof) -> Certificate:
    return Certificate(
        bound=12,
        proof=proof,
        graph_name="g",
        graph_source="gen:chain?n=2",
        graph_sha256="0" * 64,
        setting=SETTINGS.get(proof.kind),
    )


@pytest.mark.parametrize("name", PROOFS)
def test_round_trip(name: str, tmp_path: Path) -> None:
    original = certificate(PROOFS[name])
    text = encode_certificate(original, tmp_path / "x.json")
    (tmp_path / "x.json").write_bytes(text)
    again = read_certificate(tmp_path / "x.json")
    assert again == original
    assert encode_certificate(again, tmp_path / "x.json") == text


def test_relative_source_counts_from_the_folder_of_the_file() -> None:
    original = Certificate(
        bound=1,
        proof=PROOFS["cut"],
        graph_name="g",
        graph_source="graphs/g.json",
        graph_sha256="0" * 64,
    )
    text = encode_certificate(original, "proofs/x.json")
    assert json.loads(text)["graph"]["source"] == "../graphs/g.json"
    moved = decode_certificate(text, "/elsewhere/proofs/x.json")
    assert moved.graph_source == "/elsewhere/proofs/../graphs/g.json"


BAD: dict[str, tuple[str, tuple[Any, ...], Any, str]] = {
    "format": ("cut", ("format",), "lowtide/plan", 'format: found "lowtide/plan", expected'),
    "version": ("cut", ("version",), 2, "version: found 2, expected 1"),
    "problem": ("cut", ("problem",), "offsets", 'problem: found "offsets", expected "peak"'),
    "unknown key": ("cut", ("bounds",), 3, "found unknown key 'bounds', did you mean bound?"),
    "bound": ("cut", ("bound",), -1, "bound: found -1, expected an integer >= 0"),
    "bound too long": (
        "cut",
        ("bound",),
        2**1000,
        "bound: found 107150860718626732094842504906000181056140481",
    ),
    "multipliers too long": (
        "cut",
        ("proof", "multipliers", "edges"),
        [[0, 1, 2**1000], [0, 2, 2**1000]],
        "multipliers: edges: found [[0, 1, 1071",
    ),
    "op too small": ("cut", ("proof", "op"), -(2**1000), "proof: op: found -10715086071862673209484250490"),
    "list too long": ("states", ("proof", "levels", 1, "parents"), [2**1000], "level 1: parents: found [1"),
    "bound true": ("cut", ("bound",), True, "bound: found true, expected an integer"),
    "sha": ("cut", ("graph", "sha256"), "12", 'graph: sha256: found "12", expected 64 hexadecimal digits'),
    "kind": ("cut", ("proof", "kind"), "cuts", 'proof, kind: found "cuts", did you mean cut or'),
    "kind number": ("cut", ("proof", "kind"), 3, "proof, kind: found 3, expected one of"),
    "op": ("cut", ("proof", "op"), None, "proof: op: found null, expected an integer"),
    "edges": ("cut", ("proof", "multipliers", "edges", 0), [1, 2], "multipliers: edges: found [[1, 2]], exp"),
    "shares": ("cut", ("proof", "multipliers", "shares", 0, 2), 1.5, "shares: found [[2, 3, 1.5]"),
    "at": ("working-set", ("proof", "at"), 3, "proof: at: found 3, expected a string"),
    "level": (
        "states",
        ("proof", "levels", 1, "ops"),
        [None, 1],
        "level 1: ops: found [null, 1], expected",
    ),
    "free": (
        "states",
        ("proof", "levels", 1, "free", 0),
        "x",
        'level 1: free: found ["x", 3], expected',
    ),
    "backward": ("states", ("proof", "backward"), 0, "proof: backward: found 0, expected true or false"),
    "mask": (
        "descents",
        ("proof", "blocks", 0, "outside"),
        "0x1",
        'block 0: outside: found "0x1", exp',
    ),
    "claim": (
        "descents",
        ("proof", "claims", 1),
        7,
        "claim 1, kind: found null, expected",
    ),
    "claim kind": ("descents", ("proof", "claims", 1, "kind"), "x", 'claim 1, kind: found "x", expected'),
    "waist": (
        "descents",
        ("proof", "claims", 1, "waist"),
        None,
        "claim 1: waist: found null, expected",
    ),
    "branch": (
        "descents",
        ("proof", "claims", 0, "branches", 0),
        1,
        "claim 0, branch 0: found 1, expected",
    ),
    "window": ("windows", ("proof", "windows", 1), 3, "window 1, kind: found null, expected"),
    "window's kind": (
        "windows",
        ("proof", "windows", 0, "kind"),
        "windows",
        'window 0, kind: found "windows", expected "prices"',
    ),
    "height": (
        "descents",
        ("proof", "claims", 3, "height"),
        "3",
        'claim 3: height: found "3", expected',
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_certificate_is_one_line(case: str) -> None:
    proof, steps, value, expected = BAD[case]
    data = json.loads(encode_certificate(certificate(PROOFS[proof]), "x.json"))
    element = data
    for step in steps[:-1]:
        element = element[step]
    element[steps[-1]] = value
    with pytest.raises(InstanceError) as error:
        decode_certificate(json.dumps(data).encode(), "x.json")
    text = str(error.value)
    assert text.startswith("x.json")
    assert expected in text
    assert "\n" not in text


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield what is within a JSON value, as holder and key."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in [*items]:
        yield value, key
        yield from places(item)


def refused(data: dict[str, Any]) -> bool:
    """Return whether a certificate is refused, in a line; if not, it is taken exactly as it is."""
    words, again = "x.json, proof", {**data}
    try:
        found = decode_certificate(json.dumps(data).encode(), "x.json")
        again = json.loads(encode_certificate(found, "x.json"))
    except InstanceError as error:
        words, again = str(error), {}
    assert words.startswith("x.json, proof")
    assert "\n" not in words
    assert not again or json.dumps(again, sort_keys=True) == json.dumps(data, sort_keys=True)
    return not again


JUNK: tuple[Any, ...] = (
    None,
    True,
    -1,
    2**1000,
    1.5,
    "x",
    "0x1",
    [],
    [[]],
    [None],
    [2**1000],
    {},
    {"kind": "way"},
)


@pytest.mark.parametrize("name", PROOFS)
def test_whatever_stands_in_a_proof_is_refused_or_kept(name: str) -> None:
    data = json.loads(encode_certificate(certificate(PROOFS[name]), "x.json"))
    for holder, key in places(data["proof"]):
        was = holder[key]
        for value in JUNK:
            holder[key] = value
            alike = type(value) is type(was) or None in (value, was)
            assert refused(data) or alike, (key, value)
        del holder[key]
        if isinstance(holder, list):
            refused(data)
            holder.insert(key, was)
            continue
        assert refused(data), key
        holder[key] = holder[f"{key}x"] = was
        assert refused(data), key
        del holder[f"{key}x"]


@pytest.mark.parametrize("key", ["problem", "graph", "bound", "proof"])
def test_missing_key(key: str) -> None:
    data = certificate(PROOFS["cut"]).to_dict()
    del data[key]
    with pytest.raises(InstanceError, match=f"x.json: found no key '{key}', expected"):
        decode_certificate(json.dumps(data).encode(), "x.json")
