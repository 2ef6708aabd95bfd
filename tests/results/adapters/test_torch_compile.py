"""The order of kernels in torch.compile: what inductor generates, estimates, caches and leaves alone."""

from __future__ import annotations

import json
import pickle
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import lowtide as lt
from lowtide.adapters import torch_compile

torch = pytest.importorskip("torch", reason="the package torch is not installed")


def step() -> tuple[Callable[..., Any], Any, Any]:
    """Return a small training step, its module and its input; two branches of different sizes meet."""
    torch.manual_seed(0)

    class Branches(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.wide = torch.nn.Sequential(
                torch.nn.Linear(32, 512), torch.nn.GELU(), torch.nn.Linear(512, 8)
            )
            self.narrow = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.LayerNorm(64))
            self.join = torch.nn.Linear(64, 8)

        def forward(self, x: Any) -> Any:
            first = self.narrow[0](x)
            return (self.wide(x) * self.join(self.narrow[1](first))).softmax(1)

    module, x = Branches(), torch.randn(64, 32)
    return (lambda run: run(x).square().sum()), module, x


@dataclass
class Seen:
    """What was seen while a step was compiled."""

    given: list[tuple[str, ...]] = field(default_factory=list)
    estimates: list[tuple[int, int]] = field(default_factory=list)
    from_file: list[tuple[int, int]] = field(default_factory=list)
    left: list[str] = field(default_factory=list)


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Compile a step with the pass; other orders, inductor's file and refusals are seen on the way."""
    from torch._inductor import config, utils
    from torch._inductor.virtualized import V

    folder: Path = tmp_path_factory.mktemp("debug")
    orders, seen, payloads = torch_compile.order_pass(time_limit=20), Seen(), []
    loss, module, _ = step()

    def watched(nodes: list[Any]) -> list[Any]:
        seen.given.append(tuple(node.get_name() for node in nodes))
        planning = torch_compile.planned(nodes)
        problem = lt.Peak(torch_compile.scheduled_graph(nodes))
        for order in random_orders(nodes, random.Random(0)):
            place = {node: k for k, node in enumerate(nodes)}
            peak = problem.evaluate(tuple(place[node] for node in order))
            seen.estimates.append((peak, planning.estimate(order)))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(V.graph.scheduler, "_multi_stream_nodes", True)
            assert orders(nodes) == nodes
            patch.undo()
            patch.setattr(utils, "contains_collective", lambda node: True)
            assert orders(nodes) == nodes
        seen.left += [report.status for report in orders.reports[-2:]]
        del orders.reports[-2:]
        return orders(nodes)

    def keep(name: str, metadata_fn: Any = dict, payload_fn: Any = None, **_: Any) -> None:
        if name == "artifact" and str(metadata_fn().get("name")).endswith("_fused"):
            payloads.append(payload_fn())

    options = {"_post_fusion_custom_pass": watched, "reorder_for_peak_memory_debug": True}
    with pytest.MonkeyPatch.context() as patch, config.patch(force_disable_caches=True, **options):
        original = torch._logging.trace_structured

        def both(*arguments: Any, **more: Any) -> Any:
            keep(*arguments, **more)
            return original(*arguments, **more)

        patch.setattr(torch._logging, "trace_structured", both)

        def run() -> Any:
            value = loss(torch.compile(module))
            value.backward()
            return value

        value, codes = utils.run_and_get_code(run)
    for payload, report in zip(payloads, orders.reports, strict=True):
        path = folder / "fused.json"
        path.write_text(payload)
        assert {"nodes", "buffers"} == json.loads(payload).keys()
        graph = lt.load(path)
        seen.from_file.append((lt.Peak(graph).evaluate(range(len(graph.ops))), report.peak))
    return orders, seen, codes, value, module


def random_orders(nodes: list[Any], rng: random.Random) -> Iterator[list[Any]]:
    """Yield orders in which nodes run after all buffers that their unmet dependencies name."""
    maker = {buffer.get_name(): node for node in nodes for buffer in node.get_outputs()}
    before = {
        node: {maker[x.name] for x in node.unmet_dependencies if x.name in maker} - {node} for node in nodes
    }
    for _ in range(20):
        left, order = list(nodes), []
        while left:
            node = rng.choice([x for x in left if before[x].isdisjoint(left)])
            left.remove(node)
            order.append(node)
        yield order


@pytest.mark.slow(reason="torch.compile builds kernels")
def test_the_generated_code_has_our_order(compiled: Any) -> None:
    orders, seen, codes, _, _ = compiled
    assert len(orders.reports) == len(codes) == 2
    moved = 0
    for report, given, code in zip(orders.reports, seen.given, codes, strict=True):
        assert sorted(report.order) == sorted(given)
        made = list(dict.fromkeys(re.findall(r"^\s+(buf\d+) = ", code, re.M)))
        number = {buffer: k for k, buffer in enumerate(made)}
        first = [
            min(
                (number[f"buf{op}"] for op in re.findall(r"op(\d+)", kernel) if f"buf{op}" in number),
                default=-1,
            )
            for kernel in report.order
        ]
        shown = [k for k in first if k >= 0]
        assert len(shown) > len(first) / 2
        assert shown == sorted(shown)
        moved += report.order != given and report.peak < report.given
    assert moved, "the pass changed no order, so the test shows nothing"


@pytest.mark.slow(reason="torch.compile builds kernels")
def test_results_stay(compiled: Any) -> None:
    _, _, _, value, module = compiled
    loss, eager, _ = step()
    expected = loss(eager)
    expected.backward()
    torch.testing.assert_close(value, expected)
    for one, other in zip(module.parameters(), eager.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad)


@pytest.mark.slow(reason="torch.compile builds kernels")
def test_peaks_are_inductors_estimates(compiled: Any) -> None:
    orders, seen, *_ = compiled
    assert len(seen.estimates) == 40
    assert len(set(seen.estimates)) > 4
    assert all(ours == theirs for ours, theirs in seen.estimates)
    assert [report.status for report in orders.reports] == ["optimal"] * 2
    assert all(report.bound == report.peak <= report.given for report in orders.reports)
    assert min(ours for ours, _ in seen.estimates) >= min(report.bound for report in orders.reports)


@pytest.mark.slow(reason="torch.compile builds kernels")
def test_inductors_file_has_the_same_peak(compiled: Any) -> None:
    assert len(compiled[1].from_file) == 2
    assert all(ours == theirs for ours, theirs in compiled[1].from_file)


@pytest.mark.slow(reason="torch.compile builds kernels")
def test_streams_and_collectives_are_left_alone(compiled: Any) -> None:
    assert compiled[1].left == ["streams", "collectives"] * 2


@pytest.mark.slow(reason="torch.compile builds kernels")
def test_inductors_cache_knows_the_pass() -> None:
    from torch._dynamo.utils import counters
    from torch._inductor import config, utils

    loss, module, _ = step()
    module.requires_grad_(False)
    found = []
    with utils.fresh_cache(), config.patch(fx_graph_cache=True):
        for orders in (
            torch_compile.order_pass(),
            torch_compile.order_pass(),
            torch_compile.order_pass(seed=1),
        ):
            torch._dynamo.reset()
            counters.clear()
            with config.patch(_post_fusion_custom_pass=orders), torch.no_grad():
                loss(torch.compile(module))
            found.append((counters["inductor"]["fxgraph_cache_hit"], len(orders.reports)))
    assert found == [(0, 1), (1, 0), (0, 1)]


def test_reports_are_no_part_of_the_cache_key() -> None:
    orders = torch_compile.order_pass(time_limit=2, seed=3)
    before = pickle.dumps(orders), orders.uuid()
    orders.reports.append(
        torch_compile.KernelOrder(
            graph="g", kernels=1, given=2, peak=2, bound=2, status="optimal", order=("op0",)
        )
    )
    assert (pickle.dumps(orders), orders.uuid()) == before
    copy = pickle.loads(before[0])
    assert (copy.time_limit, copy.seed, copy.reports) == (2, 3, [])
    others = [torch_compile.order_pass(time_limit=3, seed=3), torch_compile.order_pass(time_limit=2)]
    assert len({before[1], *(other.uuid() for other in others)}) == 3


def test_inductor_takes_the_pass_for_one_of_its_own() -> None:
    from torch._inductor.custom_graph_pass import CustomSchedulerPass

    assert isinstance(torch_compile.order_pass(), CustomSchedulerPass)


@pytest.mark.parametrize("options", [{"time_limit": 0}, {"time_limit": "1"}, {"seed": -1}, {"seed": True}])
def test_options_out_of_range(options: dict[str, Any]) -> None:
    with pytest.raises(lt.LowtideError, match=f"order_pass, {next(iter(options))}: found"):
        torch_compile.order_pass(**options)
