"""Orders of nodes in ExecuTorch: smaller arenas, the same results, and peaks that are the planner's loads."""

from __future__ import annotations

import random
from copy import deepcopy
from typing import Any

import pytest

import lowtide as lt
from lowtide.models.derived.memory import sequential_memory
from lowtide.models.derived.precedence import precedence

torch = pytest.importorskip("torch")
pytest.importorskip("executorch.exir", reason="the package executorch is not installed")

from executorch.exir.memory_planning import Verifier  # noqa: E402

from lowtide.adapters import executorch  # noqa: E402
from lowtide.results.adapters import executorch as adapter  # noqa: E402
from lowtide.results.adapters.executorch_order import program_graph, rearrange  # noqa: E402
from tests.results.adapters.exported import INPUT, Branched, Choice, Fan, Mixed, passed, sizes_of  # noqa: E402


def load_of(problem: lt.Offsets) -> int:
    buffers = problem.buffers.buffers
    return max(sum(b.size for b in buffers if b.lower <= a.lower < b.upper) for a in buffers)


def random_order(graph: lt.Graph, draw: random.Random) -> list[int]:
    waiting = [len(before) for before in precedence(graph).predecessors]
    ready, order = [i for i, n in enumerate(waiting) if not n], []
    while ready:
        order.append(ready.pop(draw.randrange(len(ready))))
        for j in precedence(graph).successors[order[-1]]:
            waiting[j] -= 1
            ready += [] if waiting[j] else [j]
    return order


def assert_same_results(program: Any, module: Any, *inputs: Any) -> None:
    runtime = pytest.importorskip("executorch.extension.pybindings.portable_lib")
    content = program.buffer  # the runtime keeps no copy
    loaded, module = runtime._load_for_executorch_from_buffer(content), deepcopy(module)
    for x in inputs:
        expected = module(x)
        for a, b in zip(
            loaded.forward([x]), expected if isinstance(expected, tuple) else (expected,), strict=True
        ):
            torch.testing.assert_close(a, b)


def test_an_order_makes_the_arena_smaller_and_keeps_the_results() -> None:
    asked: list[Any] = []
    kept = passed(Fan(), executorch.planning_pass(order=False))
    planning = executorch.planning_pass(report=lambda *both: asked.append(both))
    chosen = passed(Fan(), planning)
    (_, arena), (_, offsets) = asked
    assert arena.status == "optimal"
    assert sizes_of(chosen) == [0, arena.objective] == [0, offsets.objective]
    assert sizes_of(chosen)[1] < sizes_of(kept)[1]
    assert_same_results(chosen, Fan(), INPUT, -INPUT)


def test_an_order_that_saves_nothing_stays() -> None:
    names = [
        [node.name for node in passed(Branched(), planning).exported_program().graph.nodes]
        for planning in (executorch.planning_pass(order=False), executorch.planning_pass())
    ]
    assert names[0] == names[1]


@pytest.mark.slow
@pytest.mark.parametrize(("made", "in_place"), [(Fan, 0), (Mixed, 0), (Mixed, 1), (Choice, 0)])
def test_peaks_of_random_orders_are_the_loads_of_the_planner(
    made: Any, in_place: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    peaks: list[int] = []
    asked: list[Any] = []
    draw = random.Random(1)

    def shuffled(graph_module: Any, signature: Any, specs: Any, alignment: int, *_: Any) -> dict[Any, int]:
        for spec in specs:
            spec.realign(alignment)
        program = program_graph(graph_module, signature, specs)
        order = random_order(program.graph, draw)
        rearrange(graph_module, program.groups, order)
        peaks.append(sequential_memory(program.graph).peak(order))
        return {}

    monkeypatch.setattr(adapter, "_ordered", shuffled)
    for _ in range(4):
        planning = executorch.planning_pass(report=lambda problem, _: asked.append(problem))
        program = passed(made(), planning, run_reinplace_pass=bool(in_place))
        assert load_of(asked[-1]) == peaks[-1]
        held = program.exported_program()
        Verifier(held.graph_module, True, True, True, held.graph_signature).verify_storage_reuse()
        assert_same_results(program, made(), INPUT + 1, INPUT - 1, INPUT + 1)
        assert ("index_put_" in str([node.target for node in held.graph.nodes])) == in_place
    assert len(set(peaks)) > 1 or made is not Fan


def test_several_arenas_keep_their_order() -> None:
    class TwoArenas(type(executorch.planning_pass())):  # type: ignore[misc]
        def run(self, graph_module: Any, graph_signature: Any = None) -> Any:
            for node in graph_module.graph.nodes:
                if "relu" in node.name:
                    node.meta["spec"].mem_id = 2
            return super().run(graph_module, graph_signature)

    planning = executorch.planning_pass()
    planning.__class__ = TwoArenas
    with pytest.warns(UserWarning, match="found tensors in 2 arenas, expected one; the order stays"):
        program = passed(Fan(), planning)
    zero, first, second = sizes_of(program)
    assert (zero, second) == (0, 4 * 8 * 256 * 4)
    assert first > 0
