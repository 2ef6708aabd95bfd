"""Names in pictures are text: dollars are no mathematics, control characters do not reach the file."""

from __future__ import annotations

from collections.abc import Callable
from xml.dom.minidom import parseString

import pytest
from matplotlib.cbook import is_math_text
from matplotlib.figure import Figure
from matplotlib.text import Text

import lowtide as lt

NAME = "_a $\\alpha_$ $x$ \x1b[31m\n\u202e"


def _case() -> tuple[lt.Graph, lt.Plan]:
    """Return a graph whose every name is hostile, and a plan on such a machine, with copies."""
    tensors = tuple(lt.Tensor(name=f"{i}{NAME}", nbytes=4) for i in range(4))
    ops = tuple(
        lt.Op(name=NAME, duration_ns=50, writes=(i,), reads=() if i == 0 else (0,), workspace=i)
        for i in range(4)
    )
    graph = lt.Graph(name=NAME, tensors=tensors, ops=ops)
    fast, slow = f"f{NAME}", f"s{NAME}"
    machine = lt.Machine(
        name=NAME,
        tiers=(lt.Tier(name=fast, capacity=64), lt.Tier(name=slow)),
        processors=(lt.Processor(name=NAME, kind="any", tiers=(lt.Access(tier=fast),)),),
        channels=(lt.Channel(src=fast, dst=slow, bytes_per_s=10**9),),
    )
    plan = lt.Plan(
        machine=machine,
        runs=tuple(lt.Run(i, 0, 50 * i, 50 * i + 50, NAME) for i in range(4)),
        copies=(lt.Copy(0, fast, slow, 60, 90),),
    )
    return graph, plan


GRAPH, PLAN = _case()
BUFFERS = lt.Buffers(
    buffers=tuple(lt.Buffer(id=f"{i}{NAME}", lower=0, upper=10**9, size=5, pool=NAME) for i in range(3)),
    name=NAME,
)
STAGES = lt.solve(lt.Hybrid(GRAPH, 2, micro=2), threads=1)

PICTURES: dict[str, Callable[[Figure], object]] = {
    "profile": lambda figure: lt.plot.profile(PLAN, GRAPH, figure.subplots()),
    "gantt": lambda figure: lt.plot.gantt(PLAN, GRAPH, figure),
    "residency": lambda figure: lt.plot.residency(PLAN, GRAPH, figure),
    "timeline": lambda figure: lt.plot.timeline(PLAN, GRAPH, figure),
    "cells": lambda figure: lt.plot.cells(PLAN, GRAPH, figure),
    "stages": lambda figure: lt.plot.stages(STAGES, figure=figure),
    "allocations": lambda figure: lt.plot.allocations(
        {b.id: 5 * i for i, b in enumerate(BUFFERS.buffers)}, BUFFERS, figure
    ),
    "allocation of a plan": lambda figure: lt.plot.allocations(
        lt.solve(lt.Offsets.from_plan(GRAPH, PLAN), "greedy", threads=1), figure=figure
    ),
    "trade-off": lambda figure: lt.plot.trade_off(
        lt.sweep_memory(lt.Makespan(GRAPH, 2), 2, threads=1), figure.subplots()
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", PICTURES)
def test_names_are_text(kind: str) -> None:
    figure = lt.plot.new_figure()
    PICTURES[kind](figure)
    shown = [text.get_text() for text in figure.findobj(Text)]
    assert any("$" in text for text in shown)
    for text in shown:
        assert not is_math_text(text)
        assert not {"\x1b", "\u202e"} & {*text}
    for ending in ("svg", "png", "pdf") if kind == "profile" else ("svg",):
        content = lt.plot.rendered(figure.axes[0], ending)
        if ending == "svg":
            parseString(content)
