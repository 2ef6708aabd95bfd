"""``lowtide solve placement … --largest NAME``: what it prints, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.commands import answer, refused, within

WORDS = ("solve", "placement", "onnx:squeezenet?train=1&blocks=3", "--machine", "v100-16g-pcie3")
LARGEST = (*WORDS, "--periodic", "--method", "belady", "--threads", "1", "--largest", "batch")


@pytest.mark.slow
def test_a_batch_fits_and_one_more_is_refuted(tmp_path: Path) -> None:
    found = answer(*LARGEST, "--plan", "plan.json", cwd=tmp_path)
    assert found["certified"]
    assert found["refuted"] == found["largest"] + 1
    assert found["result"]["verified"]
    assert answer("verify", "plan.json", cwd=tmp_path)["valid"]
    shown = within(*LARGEST, "--quiet", cwd=tmp_path).stdout
    assert f"batch={found['largest']}\n" in shown
    assert "one more   refuted" in shown
    refuted = within(*WORDS, "--quiet", cwd=tmp_path)
    assert refuted.returncode == 0


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        ((*WORDS, "--target", "2"), "found --target without --largest, expected both"),
        ((*LARGEST, "--hint", "p.json"), "found --hint with --largest, which has no use for it"),
        ((*LARGEST[:-1], "colour"), "colour"),
        ((*LARGEST, "--target", "0.5"), "found 0.5, expected at least 1"),
    ],
)
def test_what_it_refuses(words: tuple[str, ...], fault: str, tmp_path: Path) -> None:
    assert fault in refused(*words, cwd=tmp_path)
