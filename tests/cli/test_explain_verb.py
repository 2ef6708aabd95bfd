"""``lowtide explain`` and ``lowtide export offsets``."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.commands import answer, refused, within

FOUR = """id,lower,upper,size
a,0,2,4
b,1,3,6
c,3,5,6
d,1,2,1
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "four.csv").write_text(FOUR)
    return tmp_path


@pytest.mark.parametrize("name", ["core.csv", "core.json"])
def test_set_is_named_and_written(folder: Path, name: str) -> None:
    found = answer("explain", "four.csv", "--capacity", "9", "--out", name, cwd=folder)
    assert (found["status"], found["members"], found["irreducible"]) == ("infeasible", ["a", "b"], True)
    assert found["witnesses"] == {"a": {"b": 0}, "b": {"a": 0}}
    assert found["written"] == name
    assert answer("show", name, cwd=folder)["buffers"] == 2
    again = answer("solve", "offsets", name, "--capacity", "9", cwd=folder, status=1)
    assert again["status"] == "infeasible"


def test_text_says_why(folder: Path) -> None:
    text = within("explain", "four.csv", "--capacity", "9", cwd=folder).stdout
    assert "at time 1 they need 10 bytes, more than the capacity 9" in text
    assert "2 buffers, irreducible" in text
    assert "there is an allocation" in within("explain", "four.csv", "--capacity", "11", cwd=folder).stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("explain", "four.csv"), "found no capacity, expected --capacity SIZE"),
        (("explain", "four.csv", "--capacity", "9", "--method", "greedy"), "expected an exact one"),
        (("export", "offsets", "four.csv", "--method", "milp", "-o", "m.mps"), "one of 2 independent parts"),
        (
            ("export", "peak", "catalogue:chain", "--method", "milp", "-o", "m.mps", "--capacity", "9"),
            "found --capacity with problem peak",
        ),
    ],
)
def test_refused(folder: Path, arguments: tuple[str, ...], message: str) -> None:
    assert message in refused(*arguments, cwd=folder)


def test_export_of_one_part_under_a_capacity(folder: Path) -> None:
    arguments = ("export", "offsets", "four.csv", "--method", "milp", "--part", "0", "--capacity", "12")
    found = answer(*arguments, "-o", "m.lp", cwd=folder)
    assert found["problem"] == "offsets"
    assert "<= height <= " in (folder / "m.lp").read_text()
