"""Tutorials on side constraints: their cells run, and show what the text says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.docs.pages import PAGES


def carried_out(name: str) -> dict[str, Any]:
    """Run the cells of a tutorial; return what they define."""
    text = (PAGES / "tutorials" / f"{name}.md").read_text("utf-8")
    cells = re.findall(r"^```\{code-cell\} python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    found: dict[str, Any] = {}
    for cell in cells:
        exec(compile(cell, name, "exec"), found)
    return found


@pytest.mark.slow
def test_rows_of_one_s_own_in_autotm(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    found = carried_out("autotm")
    free, two, one, kept = (found[name] for name in ("free", "two", "one", "kept"))
    assert free.objective == two.objective < one.objective < kept.objective
    assert round(100 * (one.objective / free.objective - 1), 1) == 1.8
    assert [found["beside_one_op"](x.plan) for x in (free, two, one)] == [2, 2, 1]
    assert found["leaver"] not in found["names"]
    assert all(x.verification.valid for x in (free, two, one, kept))
    assert Path("autotm.mps").stat().st_size > 0


def test_rows_of_one_s_own_in_an_order() -> None:
    found = carried_out("constraint")
    assert found["rowed"].constrained
