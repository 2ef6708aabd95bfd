"""`lowtide.verify` judges orders as it judges plans."""

from __future__ import annotations

import numpy as np
import pytest

import lowtide as lt

GRAPH = lt.load("catalogue:diamond")
NAMES = [op.name for op in GRAPH.ops]


def test_an_order_is_judged_as_its_plan() -> None:
    plan = lt.Plan.from_order(GRAPH, range(4))
    for order in (range(4), NAMES, np.arange(4), [0, NAMES[1], "2", 3]):
        assert lt.verify(GRAPH, order) == lt.verify(GRAPH, plan)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("order", "kind"),
    [
        ([3, 2, 1, 0], "precedence"),
        ([0, 1, 2], "missing-run"),
        ([0, 1, 2, 3, 3], "repeated-run"),
        ([], "missing-run"),
    ],
)
def test_wrong_orders_have_violations(order: list[int], kind: str) -> None:
    assert kind in {v.kind for v in lt.verify(GRAPH, order).violations}


@pytest.mark.parametrize(
    ("order", "message"),
    [
        ([0, 7], "verify, plan, place 1: found op 7, expected an index in [0, 4)"),
        ([-1], "verify, plan, place 0: found op -1, expected an index in [0, 4)"),
        ([NAMES[0] + "x"], f"verify, plan, place 0: found unknown op '{NAMES[0]}x', "),
        ([0.5], "verify, plan, place 0: found 0.5, expected the index or name of an op"),
        ("0", "verify, plan: found '0', expected a Plan, or a sequence of ops by index or unique name"),
    ],
)
def test_what_is_no_op_is_named(order: list[int], message: str) -> None:
    with pytest.raises(lt.InstanceError) as info:
        lt.verify(GRAPH, order)
    assert str(info.value).startswith(message)


def test_a_hint_may_name_ops() -> None:
    result = lt.solve(lt.Peak(GRAPH), "reference", hint=NAMES)
    assert result.order == (0, 1, 2, 3)
