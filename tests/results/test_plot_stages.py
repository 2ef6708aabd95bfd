"""The picture of stages: what it says a device holds is what the verifier counts."""

from __future__ import annotations

from dataclasses import replace

import pytest

import lowtide as lt

PROBLEM = lt.Hybrid(lt.load("gen:chain?n=5&seed=1"), 3, memory=10**6, micro=4, replicate=1)


def widths(axes: object) -> list[float]:
    return [bar.get_width() for bar in axes.patches]  # type: ignore[attr-defined]


def test_bytes_of_each_stage_are_those_of_the_verifier() -> None:
    result = lt.solve(PROBLEM, threads=1)
    split = PROBLEM.read(result.plan)
    _, right = lt.plot.stages(result, figure=lt.plot.new_figure())
    count = len(split.kinds)
    assert count == 3
    once, kept = widths(right)[:count], widths(right)[count:]
    assert [a + b for a, b in zip(once, kept, strict=True)] == [*PROBLEM.verdict(split).memories]
    for s in range(count):
        here = [PROBLEM.all_needs[i][split.modes[i]] for i, x in enumerate(split.stage) if x == s]
        assert once[s] == sum(need.once for need in here)
        assert kept[s] == (count - s) * sum(need.each for need in here)


def test_the_limit_is_drawn_where_it_is_known() -> None:
    result = lt.solve(PROBLEM, threads=1)
    for problem, lines in ((None, 0), (PROBLEM, 1)):
        _, right = lt.plot.stages(result, figure=lt.plot.new_figure(), problem=problem)
        assert len(right.lines) == lines
    assert float(right.lines[0].get_xdata()[0]) * 1024 == 10**6  # type: ignore[index,arg-type]


@pytest.mark.parametrize("last", [False, True])
def test_stages_that_run_nothing_are_left_out(last: bool) -> None:
    plan = lt.solve(PROBLEM, threads=1).plan
    assert plan is not None
    some = plan.machine.processors
    idle = replace(some[0], name="idle")
    machine = replace(plan.machine, processors=(*some, idle) if last else (idle, *some))
    _, right = lt.plot.stages(replace(plan, machine=machine), PROBLEM.graph, lt.plot.new_figure())
    _, same = lt.plot.stages(plan, PROBLEM.graph, lt.plot.new_figure())
    assert widths(right) == widths(same)
