"""The verifier's rules on runs: how often, how long, where, in which order."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lowtide.models.graph import Graph, Mode, Op, Tensor
from lowtide.models.machine import Machine
from lowtide.models.plan import Plan, Resident, Run
from lowtide.models.verifier.verify import verify
from tests.drawings import (
    GRAPH,
    MACHINE,
    PLAN,
    VERSIONS,
    edited,
    kinds,
    of_kind,
    one_tier,
    only,
    witness,
)


def test_missing_run() -> None:
    verdict = verify(GRAPH, replace(PLAN, runs=PLAN.runs[1:]))
    assert of_kind(verdict, "missing-run") == [{"kind": "missing-run", "op": 0}]


def test_repeated_run() -> None:
    again = replace(PLAN, runs=(*PLAN.runs, Run(1, 0, 22, 25, "p")), frees=PLAN.frees[::2])
    assert verify(GRAPH, again).valid
    assert verify(GRAPH, again).recomputed == 1
    violation = only(verify(GRAPH, again, rerun=False))
    assert witness(violation) == {"kind": "repeated-run", "time": 22, "op": 1, "run": 3}


def test_duration() -> None:
    longer = edited(PLAN, "runs", 2, end=23)
    longer = edited(longer, "copies", 2, start=23, end=27)
    longer = edited(edited(longer, "frees", 1, time=23), "frees", 2, time=27)
    violation = only(verify(GRAPH, longer))
    assert witness(violation) == {"kind": "duration", "time": 18, "op": 2, "run": 2}
    assert violation.message == "op 2 'c' runs from 18 to 23 ns, 5 ns, expected 4 ns"


def modes_graph(*modes: Mode) -> Graph:
    return Graph(
        name="modes",
        tensors=(
            Tensor(name="s", nbytes=4, kind="state", initial=True, final=True),
            Tensor(name="t", nbytes=3, final=True),
        ),
        ops=(Op(name="f", reads=(0,), writes=(0, 1), modes=modes),),
    )


def test_processor_kind() -> None:
    graph = modes_graph(Mode(duration_ns=2, processors=("cpu", "gpu")), Mode(processors=("cpu",)))
    plan = Plan(machine=MACHINE, start=(Resident(0, "gpu"),), runs=(Run(0, 0, 0, 2, "p"),))
    assert verify(graph, plan).valid
    violation = only(verify(graph, replace(plan, runs=(Run(0, 1, 0, 1, "p"),))))
    assert witness(violation) == {
        "kind": "processor-kind", "time": 0, "op": 0, "run": 0, "resource": "p",
    }  # fmt: skip
    assert violation.message.endswith("found kind 'gpu', expected kind cpu")


def test_processor_kind_of_a_mode_with_a_tier_out_of_reach() -> None:
    graph = modes_graph(Mode(operands=((1, "host"),)))
    plan = Plan(machine=MACHINE, start=(Resident(0, "gpu"),), runs=(Run(0, 0, 0, 1, "p"),))
    verdict = verify(graph, plan)
    assert witness(only(verdict)) == {
        "kind": "processor-kind", "time": 0, "op": 0, "run": 0, "resource": "p",
    }  # fmt: skip
    assert verdict.peaks == {"gpu": 4, "host": 3}


def test_processor_overlap_names_every_pair() -> None:
    graph = Graph(name="three", tensors=(), ops=tuple(Op(name=n, duration_ns=4) for n in "abc"))
    plan = Plan(
        machine=Machine.single(),
        runs=(Run(0, 0, 0, 4, "any0"), Run(1, 0, 4, 8, "any0"), Run(2, 0, 8, 12, "any0")),
    )
    assert verify(graph, plan).valid
    closer = edited(edited(plan, "runs", 1, start=2, end=6), "runs", 2, start=3, end=7)
    overlap = {"kind": "processor-overlap", "resource": "any0"}
    assert [witness(v) for v in verify(graph, closer).violations] == [
        {**overlap, "time": 2, "op": 1, "run": 1, "other": 0, "other_run": 0},
        {**overlap, "time": 3, "op": 2, "run": 2, "other": 0, "other_run": 0},
        {**overlap, "time": 3, "op": 2, "run": 2, "other": 1, "other_run": 1},
    ]


@pytest.mark.parametrize(
    ("runs", "op", "other", "tensor", "reason"),
    [
        ([(0, 0, 1), (1, 0, 1), (2, 2, 3), (3, 3, 4), (4, 1, 2)], 1, 0, 0, "read-after-write"),
        ([(0, 0, 1), (1, 2, 3), (2, 2, 3), (3, 4, 5), (4, 5, 6)], 2, 1, 0, "write-after-read"),
        ([(0, 0, 1), (1, 1, 2), (2, 4, 5), (3, 4, 5), (4, 2, 3)], 3, 2, 0, "write-after-write"),
        ([(0, 0, 1), (1, 1, 2), (2, 2, 3), (3, 3, 4), (4, 1, 2)], 4, 1, None, "after"),
    ],
)
def test_precedence(
    runs: list[tuple[int, int, int]], op: int, other: int, tensor: int | None, reason: str
) -> None:
    verdict = verify(VERSIONS, one_tier(VERSIONS, runs))
    (violation,) = [v for v in verdict.violations if v.kind == "precedence"]
    start, end = runs[op][1], runs[other][2]
    expected: dict[str, Any] = {
        "kind": "precedence", "time": start, "op": op, "run": op, "other": other, "other_run": other,
    }  # fmt: skip
    if tensor is not None:
        expected["tensor"] = tensor
    assert witness(violation) == expected
    assert f"ends at {end} ns ({reason}" in violation.message


def test_precedence_is_kept_in_the_reference_order() -> None:
    runs = [(0, 0, 1), (1, 1, 2), (2, 2, 3), (3, 3, 4), (4, 2, 3)]
    assert verify(VERSIONS, one_tier(VERSIONS, runs)).valid


def test_precedence_with_reruns_is_that_of_after_only() -> None:
    graph = Graph(
        name="two pure writers",
        tensors=(Tensor(name="t", nbytes=1), Tensor(name="u", nbytes=1)),
        ops=(Op(name="a", writes=(0,)), Op(name="b", writes=(0,)), Op(name="c", after=(0,))),
    )
    swapped = one_tier(graph, [(1, 0, 1), (0, 1, 2), (2, 2, 3)])
    assert kinds(verify(graph, swapped)) == {"precedence"}
    assert verify(graph, swapped, rerun=True).valid
    early = one_tier(graph, [(0, 0, 1), (1, 1, 2), (2, 2, 3), (2, 0, 1)])
    violation = only(verify(graph, early))
    assert witness(violation) == {
        "kind": "precedence", "time": 0, "op": 2, "run": 3, "other": 0, "other_run": 0,
    }  # fmt: skip
    never = verify(graph, one_tier(graph, [(1, 0, 1), (2, 1, 2)]), rerun=True)
    assert [witness(v) for v in never.violations] == [
        {"kind": "missing-run", "op": 0},
        {"kind": "precedence", "time": 1, "op": 2, "run": 1, "other": 0},
    ]
