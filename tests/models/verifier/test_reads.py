"""The verifier's rules on what runs read and write, for hand-made plans."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lowtide.models.graph import Accounting, Graph, Op, Tensor
from lowtide.models.plan import Copy, Free
from lowtide.models.verifier.verify import verify
from tests.drawings import (
    GRAPH,
    PLAN,
    VERSIONS,
    W,
    X,
    Z,
    chain,
    edited,
    one_tier,
    only,
    witness,
)


def test_read_of_bytes_that_are_elsewhere() -> None:
    verdict = verify(GRAPH, replace(PLAN, copies=PLAN.copies[1:], frees=PLAN.frees[1:]))
    violation = only(verdict)
    assert witness(violation) == {
        "kind": "read", "time": 10, "op": 0, "tensor": X, "tier": "gpu", "run": 0,
    }  # fmt: skip
    assert violation.message == (
        "op 0 'a', which starts at 10 ns, reads tensor 1 'x' in version 0, but tensor 1 'x' is not in "
        "tier 'gpu'"
    )


def test_read_before_the_copy_ends() -> None:
    violation = only(verify(GRAPH, edited(PLAN, "copies", 1, end=11)))
    assert witness(violation) == {
        "kind": "read", "time": 10, "op": 0, "tensor": W, "tier": "gpu", "run": 0,
    }  # fmt: skip
    assert "bytes [4, 8) of tensor 0 'w' is stale in tier 'gpu'" in violation.message


def test_read_of_bytes_that_are_released_meanwhile() -> None:
    violation = only(verify(GRAPH, edited(PLAN, "frees", 0, time=14)))
    assert witness(violation) == {
        "kind": "read", "time": 14, "op": 0, "tensor": X, "tier": "gpu", "run": 0,
    }  # fmt: skip
    assert violation.message.endswith("until 15 ns, but free 0 releases it at 14 ns")


def test_both_accountings_by_hand() -> None:
    """Coexist holds x, y and the workspace together (9), replace puts y in x's place (6, then 2)."""
    graph = chain(Accounting.COEXIST)
    plan = one_tier(graph, [(0, 0, 2), (1, 2, 4)], (Free(0, "memory", 2), Free(1, "memory", 4)))
    verdict = verify(graph, plan)
    assert verdict.valid
    assert verdict.profiles == {"memory": ((0, 9), (2, 7), (4, 2))}
    graph = chain(Accounting.REPLACE)
    plan = one_tier(graph, [(0, 0, 2), (1, 2, 4)], (Free(0, "memory", 0), Free(1, "memory", 2)))
    verdict = verify(graph, plan)
    assert verdict.valid
    assert verdict.profiles == {"memory": ((0, 6), (2, 2))}


def test_read_at_the_start_only_if_replaced() -> None:
    frees = (Free(0, "memory", 0), Free(1, "memory", 2))
    graph = chain(Accounting.COEXIST)
    verdict = verify(graph, one_tier(graph, [(0, 0, 2), (1, 2, 4)], frees))
    read = {"kind": "read", "tier": "memory"}
    assert [witness(v) for v in verdict.violations] == [
        {**read, "time": 0, "op": 0, "tensor": 0, "run": 0},
        {**read, "time": 2, "op": 1, "tensor": 1, "run": 1},
    ]
    graph = chain(Accounting.REPLACE)
    early = (Free(0, "memory", 0), Free(1, "memory", 2))
    late = one_tier(graph, [(0, 0, 2), (1, 3, 5)], early)
    assert [witness(v) for v in verify(graph, late).violations] == [
        {**read, "time": 3, "op": 1, "tensor": 1, "run": 1}
    ]


@pytest.mark.parametrize("accounting", list(Accounting))
def test_read_clashes_with_a_write_that_starts_together(accounting: Accounting) -> None:
    graph = Graph(
        name="reader and overwriter",
        accounting=accounting,
        tensors=(Tensor(name="t", nbytes=1, initial=True),),
        ops=(Op(name="reader", reads=(0,)), Op(name="overwriter", writes=(0,))),
    )
    assert verify(graph, one_tier(graph, [(0, 0, 1), (1, 1, 2)])).valid
    verdict = verify(graph, one_tier(graph, [(0, 0, 1), (1, 0, 1)]), rerun=True)
    violation = only(verdict)
    assert witness(violation) == {
        "kind": "read", "time": 0, "op": 0, "tensor": 0, "tier": "memory", "run": 0,
    }  # fmt: skip
    assert "op 1 'overwriter' starts to write it at 0 ns" in violation.message


def test_read_of_another_version() -> None:
    runs = [(0, 0, 1), (2, 1, 2), (1, 2, 3), (3, 3, 4), (4, 4, 5)]
    verdict = verify(VERSIONS, one_tier(VERSIONS, runs), rerun=True)
    violation = only(verdict)
    assert witness(violation) == {
        "kind": "read", "time": 2, "op": 1, "tensor": 0, "tier": "memory", "run": 2,
    }  # fmt: skip
    assert "in version 1, but tensor 0 't' is version 2 in tier 'memory'" in violation.message


def test_a_copy_that_lands_on_what_a_run_reads() -> None:
    plan = replace(PLAN, copies=(*PLAN.copies, Copy(W, "host", "gpu", 11, 14, (2, 3))))
    violation = only(verify(GRAPH, plan))
    assert witness(violation) == {
        "kind": "read", "time": 11, "op": 0, "tensor": W, "tier": "gpu", "run": 0,
    }  # fmt: skip
    assert "copy 3 lands on it from 11 ns" in violation.message


def test_write_conflict_with_a_release() -> None:
    verdict = verify(GRAPH, replace(PLAN, frees=(*PLAN.frees, Free(Z, "gpu", 17, (0, 2)))))
    assert [witness(v) for v in verdict.violations] == [
        {"kind": "write-conflict", "time": 17, "op": 1, "tensor": Z, "tier": "gpu", "run": 1, "free": 3},
        {"kind": "final", "time": 26, "tensor": Z},
    ]


def test_write_conflict_of_two_runs() -> None:
    runs = [(0, 0, 1), (1, 1, 2), (2, 2, 3), (3, 2, 3), (4, 2, 3)]
    verdict = verify(VERSIONS, one_tier(VERSIONS, runs), rerun=True)
    violation = only(verdict)
    assert witness(violation) == {
        "kind": "write-conflict", "time": 2, "op": 2, "tensor": 0, "tier": "memory", "run": 2,
        "other": 3, "other_run": 3,
    }  # fmt: skip


def test_write_conflict_with_a_copy_that_lands() -> None:
    plan = replace(PLAN, copies=(*PLAN.copies, Copy(W, "host", "gpu", 19, 21, (0, 1))))
    assert [witness(v) for v in verify(GRAPH, plan).violations] == [
        {"kind": "copy-source", "time": 19, "tensor": W, "tier": "host", "copy": 3},
        {"kind": "write-conflict", "time": 19, "op": 2, "tensor": W, "tier": "gpu", "run": 2, "copy": 3},
    ]
