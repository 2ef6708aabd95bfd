"""``lowtide export`` without a method, and ``lowtide decode`` of MiniZinc's solutions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import lowtide as lt
from lowtide.__main__ import main

SPEC = "catalogue:diamond"


def test_export_and_decode_without_a_method(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, solution, plan = (tmp_path / name for name in ("model.mzn", "solution.txt", "plan.json"))
    assert main(["export", "peak", SPEC, "-o", str(model), "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record == {
        "instance": "diamond",
        "problem": "peak",
        "nbytes": model.stat().st_size,
        "written": str(model),
    }
    solution.write_text("position = [0, 2, 1, 3];\n----------\n==========\n")
    assert main(["decode", "peak", SPEC, str(solution), "--plan", str(plan)]) == 0
    assert "method     minizinc (solved elsewhere)" in capsys.readouterr().out
    assert lt.load_plan(plan)[0].order == (0, 2, 1, 3)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["export", "peak", SPEC, "-o", "x.mps"],
            "found no method, expected one that builds a model, or a file .mzn",
        ),
        (["export", "peak", SPEC, "-o", "x.mzn", "--method", "cpsat"], "x.mzn: found another suffix"),
        (
            ["export", "offsets", SPEC, "-o", "x.mzn", "--part", "0"],
            "export to .mzn: found part 0, expected none",
        ),
        (
            ["export", "peak", SPEC, "-o", "x.mzn", "--solver-option", "a=1"],
            "export to .mzn: found option a, expected none",
        ),
        (["decode", "offsets", SPEC, "x.txt", "--part", "0"], "decode: found no method, expected that of"),
        (["decode", "minio", SPEC, "x.txt", "--memory", "9"], "decode: found no method, expected that of"),
    ],
)
def test_wrong_words_are_usage_errors(
    words: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(words) == 2
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
