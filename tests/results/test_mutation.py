"""The runs behind the table of mutants: which tests reach a block, which fail, which hang."""

from __future__ import annotations

import ast
import os
from pathlib import Path

import pytest

from lowtide.results.experiments.mutation.mutants import mutants
from lowtide.results.experiments.mutation.runs import Server, blocks
from lowtide.results.experiments.mutation.table import _places, _reach

SUMS = """
def greater(x, y):
    if x > y:
        return x
    while x < y:
        x += 1
    return x
"""
TESTS = """
from lowtide.sums import greater

def test_first():
    assert greater(2, 1) == 2

def test_second():
    assert greater(1, 3) == 3

def test_wrong():
    assert greater(1, 1) == 2
"""


def test_blocks_are_those_of_functions_that_are_not_compiled() -> None:
    text = f"{SUMS}\n@kernel\ndef compiled():\n    return 1\n\nclass A:\n    def f(self):\n        '''T.'''\n"
    assert [block[0].lineno for block in blocks(ast.parse(text))] == [3, 4, 6, 15]


@pytest.mark.slow
def test_a_mutant_is_in_the_innermost_block_and_one_of_a_kernel_in_its_callers() -> None:
    file = "models/texts.py"
    lines = Path(__file__).parents[2].joinpath(file).read_text().splitlines()
    for mutant in mutants("\n".join(lines)):
        ((found, line),) = _places(file, mutant)
        assert found == file
        assert line is not None
        assert line <= mutant.line
        assert lines[line - 1].startswith("    ")
    (mutant, *_) = mutants(SUMS)
    callers = {name for name, line in _places("solvers/peak/orders/order_kernel.py", mutant) if line is None}
    assert "solvers/peak/orders/local_search.py" in callers
    assert not any("_kernel" in name for name in callers)


@pytest.mark.slow  # starts a process that imports all solvers
def test_runs_tell_what_is_reached_what_fails_and_what_hangs(tmp_path: Path) -> None:
    folder, name = tmp_path / "lowtide", "tests/test_sums.py"
    (folder / "tests").mkdir(parents=True)
    (folder / "__init__.py").touch()
    (folder / "sums.py").write_text(SUMS)
    (folder / name).write_text(TESTS)
    server = Server(folder, {**os.environ, "PYTHONPATH": str(tmp_path)})

    events, ended = server.run([name], [], 60)
    first, second = f"{name}::test_first", f"{name}::test_second"
    reach = _reach(events)
    assert ended == "exits"
    assert set(reach.seconds) == {first, second}
    assert reach.blocks == {"sums.py": {"3": [first, second], "4": [first], "6": [second]}}

    def judged(old: str, new: str, *tests: str) -> tuple[list[str], str]:
        (folder / "sums.py").write_text(SUMS.replace(old, new))
        os.utime(folder / "sums.py", (0, len(old + new)))
        events, ended = server.run([name], [], 60, dict.fromkeys(tests, 0.5))
        return [f"{event[0]} {event[1].partition('::')[2]}" for event in events[1:]], ended

    assert judged("x > y", "x >= y", second, first)[0] == [
        "begins test_second",
        "ends test_second",
        "begins test_first",
        "ends test_first",
    ]
    assert judged("x > y", "x < y", first, second)[0] == [
        "begins test_first",
        "ends test_first",
        "begins test_second",
        "fails test_second",
        "ends test_second",
    ]
    assert judged("+= 1", "-= 1", first, second) == (
        ["begins test_first", "ends test_first", "begins test_second"],
        "hangs",
    )
