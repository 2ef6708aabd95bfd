"""The verifier's figures, and its rules on the form and the beginning of a plan, kept and broken."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lowtide.models.errors import VerificationError
from lowtide.models.graph import Accounting, Graph, Mode
from lowtide.models.machine import Machine
from lowtide.models.plan import Free, Plan, Resident
from lowtide.models.verifier.verify import verify
from tests.drawings import (
    GRAPH,
    MACHINE,
    PLAN,
    W,
    X,
    Y,
    Z,
    edited,
    kinds,
    of_kind,
    only,
    witness,
)


def test_swap_by_hand() -> None:
    verdict = verify(GRAPH, PLAN)
    verdict.raise_if_invalid()
    assert verdict.valid
    assert verdict.profiles == {
        "gpu": ((0, 8), (5, 12), (10, 18), (22, 14), (26, 6)),
        "host": ((0, 12),),
    }
    assert verdict.peaks == {"gpu": 18, "host": 12}
    assert verdict.makespan == 26
    assert verdict.stall == 14
    assert verdict.traffic == {("host", "gpu"): 8, ("gpu", "host"): 8}
    assert verdict.recomputed == 0


def test_empty_plan_of_an_empty_graph() -> None:
    verdict = verify(Graph(name="", tensors=(), ops=()), Plan(machine=Machine.single()))
    assert verdict.valid
    assert verdict.profiles == {"memory": ((0, 0),)}
    assert (verdict.makespan, verdict.stall, verdict.traffic) == (0, 0, {})


def test_the_order_of_actions_carries_no_meaning() -> None:
    turned = replace(PLAN, **{k: getattr(PLAN, k)[::-1] for k in ("start", "runs", "copies", "frees")})
    assert verify(GRAPH, turned) == verify(GRAPH, PLAN)


def test_raise_if_invalid_lists_the_first_and_counts_all() -> None:
    verdict = verify(GRAPH, Plan(machine=MACHINE, frees=(Free(Y, "gpu", 1),) * 12))
    assert len(verdict.violations) == 12 + 3 + 2
    with pytest.raises(VerificationError, match="plan: found 17 violations, expected none") as info:
        verdict.raise_if_invalid()
    assert len(str(info.value).splitlines()) == 12
    assert str(info.value).endswith("… and 7 more")


def test_graph_hash() -> None:
    assert verify(GRAPH, replace(PLAN, graph_sha256=GRAPH.sha256)).valid
    violation = only(verify(GRAPH, replace(PLAN, graph_sha256="0" * 64)))
    assert witness(violation) == {"kind": "graph"}
    assert "its sha256 is another" in violation.message


def test_graph_accounting() -> None:
    violation = only(verify(GRAPH, replace(PLAN, accounting=Accounting.REPLACE)))
    assert witness(violation) == {"kind": "graph"}
    assert violation.message == "plan, accounting: found replace, expected the graph's, coexist"


NONSENSE = [
    ("runs", {"op": 3}, "found op 3, expected an index in [0, 3)"),
    ("runs", {"op": True}, "found op True, expected an index in [0, 3)"),
    ("runs", {"mode": 1}, "found mode 1, expected an index in [0, 1)"),
    ("runs", {"start": 10.0}, f"found start 10.0, expected an integer in [0, {2**63 - 1}]"),
    ("runs", {"start": -1}, f"found start -1, expected an integer in [0, {2**63 - 1}]"),
    ("runs", {"end": 10}, "found end 10, expected it after the start 10"),
    ("runs", {"processor": "q"}, "found processor 'q', expected one of ['p']"),
    ("runs", {"processor": []}, "found processor [], expected one of ['p']"),
    ("copies", {"tensor": 4}, "found tensor 4, expected an index in [0, 4)"),
    ("copies", {"src": None}, "found source tier None, expected one of ['gpu', 'host']"),
    ("copies", {"dst": "disk"}, "found destination tier 'disk', expected one of ['gpu', 'host']"),
    ("copies", {"start": 6}, "found end 5, expected it not before the start 6"),
    ("copies", {"bytes": (0, 5)}, "found bytes (0, 5), expected low < high within [0, 4)"),
    ("copies", {"bytes": (2, 2)}, "found bytes (2, 2), expected low < high within [0, 4)"),
    ("copies", {"bytes": (-1, 2)}, "found bytes (-1, 2), expected low < high within [0, 4)"),
    ("copies", {"bytes": "ab"}, "found bytes 'ab', expected low < high within [0, 4)"),
    ("frees", {"tensor": None}, "found tensor None, expected an index in [0, 4)"),
    ("frees", {"tier": {}}, "found tier {}, expected one of ['gpu', 'host']"),
    ("frees", {"time": 2**63}, f"found time {2**63}, expected an integer in [0, {2**63 - 1}]"),
    ("frees", {"bytes": (1,)}, "found bytes (1,), expected low < high within [0, 4)"),
    ("start", {"tensor": -1}, "found tensor -1, expected an index in [0, 4)"),
    ("start", {"valid": 1}, "found valid 1, expected true or false"),
]
POSITION = {"runs": "run", "copies": "copy", "frees": "free", "start": "entry"}


@pytest.mark.parametrize(("name", "change", "fault"), NONSENSE)
def test_shape(name: str, change: dict[str, Any], fault: str) -> None:
    verdict = verify(GRAPH, edited(PLAN, name, 0, **change))
    (violation,) = [v for v in verdict.violations if v.kind == "shape"]
    assert witness(violation) == {"kind": "shape", POSITION[name]: 0}
    assert violation.message.endswith(fault)


def test_shape_of_a_whole_action() -> None:
    nonsense: Any = (None, 7, "x", ())
    plan = replace(
        PLAN,
        start=(*PLAN.start, nonsense[0]),
        runs=(*PLAN.runs, nonsense[1]),
        copies=(*PLAN.copies, nonsense[2]),
        frees=(*PLAN.frees, nonsense[3]),
    )
    verdict = verify(GRAPH, plan)
    assert [witness(v) for v in verdict.violations] == [
        {"kind": "shape", "entry": 3},
        {"kind": "shape", "free": 3},
        {"kind": "shape", "copy": 3},
        {"kind": "shape", "run": 3},
    ]


def test_shape_shortens_what_it_shows() -> None:
    violation = only(verify(GRAPH, replace(PLAN, frees=(*PLAN.frees, Free(W, "x" * 500, 1)))))
    assert len(violation.message) < 150

    class Silent:
        def __repr__(self) -> str:
            raise RuntimeError

    broken = replace(PLAN, frees=(*PLAN.frees, Free(Silent(), "gpu", 1)))  # type: ignore[arg-type]
    assert "found tensor a Silent" in only(verify(GRAPH, broken)).message
    huge = replace(PLAN, frees=(*PLAN.frees, Free(W, "gpu", 10**5000)))
    assert "found time a int" in only(verify(GRAPH, huge)).message


def test_a_malformed_action_is_left_out() -> None:
    verdict = verify(GRAPH, edited(PLAN, "runs", 1, mode=7))
    assert of_kind(verdict, "missing-run") == [{"kind": "missing-run", "op": 1}]
    assert of_kind(verdict, "final") == [{"kind": "final", "time": 26, "tensor": Z}]
    assert verdict.profiles["gpu"] == ((0, 8), (5, 12), (10, 18), (15, 12), (22, 8), (26, 0))
    assert verdict.stall == 17


@pytest.mark.parametrize("period", [0, -1, 1.0, True, 2**63, "1"])
def test_shape_of_the_period(period: Any) -> None:
    violation = only(verify(GRAPH, replace(PLAN, period=period)))
    assert witness(violation) == {"kind": "shape"}
    assert violation.message.startswith("plan, period: found ")


def test_shape_of_the_machine_and_the_allocation() -> None:
    violation = only(verify(GRAPH, replace(PLAN, machine=None)))  # type: ignore[arg-type]
    assert violation.message == "plan, machine: found a NoneType, expected a Machine"
    violation = only(verify(GRAPH, replace(PLAN, allocation=[1])))  # type: ignore[arg-type]
    assert violation.message.startswith("plan, allocation: expected null or a mapping")


def test_shape_of_a_mode_that_names_an_unknown_tier() -> None:
    ops = (replace(GRAPH.ops[0], modes=(Mode(duration_ns=5, operands=((W, "disk"),)),)),)
    graph = replace(GRAPH, ops=(*ops, *GRAPH.ops[1:]))
    (violation,) = [v for v in verify(graph, PLAN).violations if v.kind == "shape"]
    assert violation.message.startswith("run 0: found a mode that names tier 'disk'")


def test_start_of_a_tensor_that_is_not_initial() -> None:
    verdict = verify(GRAPH, replace(PLAN, start=(*PLAN.start, Resident(Y, "host"))))
    violation = only(verdict)
    assert witness(violation) == {
        "kind": "start", "time": 0, "tensor": Y, "tier": "host", "entry": 3,
    }  # fmt: skip
    assert verdict.peaks["host"] == 12


def test_start_of_an_input_inside() -> None:
    plan = replace(PLAN, start=(*PLAN.start, Resident(X, "gpu", (0, 1))))
    violation = only(verify(GRAPH, plan))
    assert witness(violation) == {
        "kind": "start", "time": 0, "tensor": X, "tier": "gpu", "entry": 3,
    }  # fmt: skip
    assert violation.message.endswith("starts in tier 'gpu', expected ['host'] for kind 'input'")
    assert verify(GRAPH, plan, start_tiers={}).valid
    assert verify(GRAPH, plan, start_tiers={"input": ("host", "gpu")}).valid
    assert verify(GRAPH, PLAN, start_tiers={"weight": ("gpu", "host")}).valid
    found = of_kind(verify(GRAPH, PLAN, start_tiers={"weight": ("host",)}), "start")
    assert found == [{"kind": "start", "time": 0, "tensor": W, "tier": "gpu", "entry": 1}]


def test_start_entries_that_overlap() -> None:
    touching = (Resident(W, "host", (0, 3)), Resident(W, "host", (3, 8)), *PLAN.start[1:])
    assert verify(GRAPH, replace(PLAN, start=touching)).valid
    twice = (Resident(W, "host", (0, 4), valid=False), Resident(W, "host", (3, 8)))
    violation = only(verify(GRAPH, replace(PLAN, start=(*PLAN.start, twice[0]))))
    assert witness(violation) == {
        "kind": "start", "time": 0, "tensor": W, "tier": "host", "entry": 0,
    }  # fmt: skip
    assert "overlaps another entry" in violation.message
    verdict = verify(GRAPH, replace(PLAN, start=(*twice, *PLAN.start[1:])))
    assert kinds(verdict) == {"start"}
    assert verdict.peaks["host"] == 12


def test_start_stale_bytes_are_allocated_but_cannot_be_read() -> None:
    verdict = verify(GRAPH, edited(PLAN, "start", 1, valid=False))
    read = {"kind": "read", "tensor": W, "tier": "gpu"}
    assert [witness(v) for v in verdict.violations] == [
        {**read, "time": 10, "op": 0, "run": 0},
        {**read, "time": 18, "op": 2, "run": 2},
    ]
    assert "bytes [0, 4) of tensor 0 'w' is stale in tier 'gpu'" in verdict.violations[0].message
    assert verdict.profiles == verify(GRAPH, PLAN).profiles
