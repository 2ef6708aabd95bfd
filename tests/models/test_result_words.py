"""What a result prints of itself."""

from __future__ import annotations

import pytest

from lowtide.models.result import Result, Status


@pytest.mark.parametrize(("status", "whole"), [("infeasible", True), ("failed", False), ("unknown", False)])
def test_the_reason_of_infeasible_is_not_cut(status: str, whole: bool) -> None:
    reason = "op 3 needs " + "a lot of memory, " * 20 + "at least 12 bytes"
    result = Result(
        problem="peak", method="m", instance="i", unit="bytes", status=Status(status), detail=reason
    )
    assert (reason in repr(result)) is whole
    assert ("…" in repr(result)) is not whole
