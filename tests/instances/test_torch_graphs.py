"""Graphs traced with torch: published sizes, one update per parameter, sums, in-place ops, determinism."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from functools import cache
from itertools import pairwise
from typing import Any

import pytest

from lowtide.instances import load
from lowtide.instances.torch_import import ARCHITECTURES, trace
from lowtide.instances.torch_import.updates import STATES
from lowtide.models.errors import InstanceError
from lowtide.models.graph import Graph

torch = pytest.importorskip("torch", reason="the package torch is not installed")
nn = torch.nn

PARAMETERS = {
    # as published with the models, or by the implementations that everybody uses
    "resnet18": 11689512,
    "resnet50": 25557032,
    "densenet121": 7978856,
    "efficientnet_b0": 5288548,
    "unet": 31030658,
    "vit_b_16": 86567656,
    "swin_t": 28288354,
    "gpt2_small": 124439808,
    "gpt2_medium": 354823168,
    "bert_base": 109514298,  # with the head of its masked language model
    "llama_1b": 1235814400,
    "diffusion_unet": 35746307,
}

SMALL = {
    "resnet18": "image=32",
    "resnet50": "image=32",
    "densenet121": "image=32",
    "efficientnet_b0": "image=32",
    "unet": "image=188",
    "vit_b_16": "image=32&layers=2",
    "swin_t": "image=224",
    "gpt2_small": "seq=8&layers=2",
    "gpt2_medium": "seq=8&layers=2&flash=1",
    "bert_base": "seq=8&layers=2",
    "llama_1b": "seq=8&layers=2",
    "moe": "seq=8&layers=2",
    "diffusion_unet": "image=32",
}

LARGE = {"densenet121", "diffusion_unet", "efficientnet_b0", "resnet50", "swin_t", "unet"}
"""Networks that take seconds to trace."""

EACH = [pytest.param(name, marks=pytest.mark.slow if name in LARGE else ()) for name in SMALL]


@cache
def step(name: str, extra: str = "") -> Graph:
    return load(f"torch:{name}?{SMALL[name]}&batch=2&train=1&weights=1{extra}")


def test_every_network_is_tried() -> None:
    assert set(SMALL) == set(ARCHITECTURES) == {*PARAMETERS, "moe"}


def module_of(name: str, **options: int) -> Any:
    from torch._subclasses.fake_tensor import FakeTensorMode

    network = ARCHITECTURES[name]
    defaults = {key: parameter.default for key, parameter in network.parameters.items()}
    with FakeTensorMode():
        return network.build({**defaults, **options, "batch": 2}).module


@pytest.mark.parametrize("name", [network for network in EACH if network.values[0] in PARAMETERS])
def test_parameters_are_as_many_as_published(name: str) -> None:
    assert sum(p.numel() for p in module_of(name).parameters()) == PARAMETERS[name]


@pytest.mark.parametrize("name", EACH)
def test_weights_are_the_parameters_and_the_buffers_but_counters(name: str) -> None:
    options = {key: int(value) for key, value in (x.split("=") for x in SMALL[name].split("&"))}
    module = module_of(name, **options)
    kept = [*module.parameters(), *(b for b in module.buffers() if b.dim())]
    for graph in (step(name), load(f"torch:{name}?{SMALL[name]}", weights=True)):
        weights = [t for t in graph.tensors if t.kind == "weight"]
        assert sum(t.nbytes for t in weights) == sum(x.numel() * x.element_size() for x in kept)
        assert all(t.initial and t.final for t in weights)


@pytest.mark.parametrize("name", EACH)
def test_every_parameter_is_updated_once_and_its_gradient_dies_there(name: str) -> None:
    graph = step(name, "&optimizer=adamw")
    updates = [op for op in graph.ops if op.kind == "adamw"]
    trained = {op.writes[0] for op in updates}
    assert len(trained) == len(updates)
    buffers = {t for t, tensor in enumerate(graph.tensors) if tensor.kind == "weight"} - trained
    names = {graph.tensors[t].name.rsplit(".", 1)[-1] for t in buffers}
    assert names <= {"running_mean", "running_var", "offsets", "mask", "cosine", "sine"}
    for i, op in enumerate(graph.ops):
        if op.kind == "adamw":
            weight, gradient, *states = op.reads
            assert op.writes == (weight, *states)
            kinds = [graph.tensors[t].kind for t in (gradient, *states)]
            assert kinds == ["gradient", "state", "state"]
            assert graph.tensors[gradient].nbytes == graph.tensors[weight].nbytes
            later = {t for other in graph.ops[i + 1 :] for t in (*other.reads, *other.writes)}
            assert later.isdisjoint((weight, gradient))
            before = graph.ops[:i]
            assert sum(gradient in other.reads for other in before) == 0


@pytest.mark.parametrize("name", EACH)
def test_every_op_is_an_operator_of_torch_that_takes_memory_and_time(name: str) -> None:
    for graph in (step(name), load(f"torch:{name}?{SMALL[name]}")):
        for op in graph.ops:
            assert op.kind in STATES or hasattr(torch.ops.aten, op.kind)
            assert op.writes
            assert op.duration_ns >= 1
        read = {t for op in graph.ops for t in op.reads}
        assert {t for t, tensor in enumerate(graph.tensors) if tensor.initial} <= read
        assert any(t.final and not t.initial for t in graph.tensors)


@pytest.mark.slow
def test_optimizers_differ_in_their_states_only() -> None:
    graphs = {optimizer: step("resnet18", f"&optimizer={optimizer}") for optimizer in STATES}
    weights = sum(t.nbytes for t in graphs["sgd"].tensors if t.kind == "weight")
    statistics = 2 * 4 * 4800  # running mean and variance of each feature that is normalized
    for optimizer, graph in graphs.items():
        states = sum(t.nbytes for t in graph.tensors if t.kind == "state")
        assert states == len(STATES[optimizer]) * (weights - statistics)
        assert [op.name for op in graph.ops] == [op.name for op in graphs["sgd"].ops]
    dropped = load("torch:resnet18?image=32&batch=2&train=1&optimizer=adamw")
    assert dropped == graphs["adamw"].drop({"weight", "state"})


@pytest.mark.slow
def test_the_same_specification_gives_the_same_graph_in_every_process() -> None:
    spec = "torch:moe?seq=8&layers=2&train=1"
    code = f"import lowtide; print(lowtide.load({spec!r}).sha256)"
    found = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for seed in ("1", "2")
    }
    assert found == {load(spec).sha256}


def test_activations_grow_with_the_batch() -> None:
    one, two = load("torch:resnet18?image=32"), load("torch:resnet18?image=32&batch=2")
    assert [op.name for op in one.ops] == [op.name for op in two.ops]
    for a, b in zip(one.tensors, two.tensors, strict=True):
        assert b.nbytes == (1 if a.kind == "weight" else 2) * a.nbytes


class Fan(nn.Module):  # type: ignore[misc,name-defined]
    """A value with four consumers; one of them is a view."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(4, 6, bias=False), nn.Linear(6, 3, bias=False)

    def forward(self, x: Any) -> Any:
        y = self.first(x)
        return self.last(y.sin() + y.cos() + y.tanh() + y.view(3, 2, 4).transpose(0, 1).reshape(4, 6))


def traced(module: Any, *inputs: Any, train: bool = True) -> Graph:
    loss = (lambda output, wanted: nn.functional.cross_entropy(output, wanted)) if train else None
    labels = {"y": torch.zeros(len(inputs[0]), dtype=torch.int64)}
    return trace(module, {f"x{i}": x for i, x in enumerate(inputs)}, labels, loss)


def test_a_sum_of_four_gradients_is_one_op() -> None:
    graph = traced(Fan(), torch.zeros(4, 4))
    assert graph.provenance["sums_folded"] == 2
    (total,) = (op for op in graph.ops if op.kind == "add" and len(op.reads) == 4)
    kinds = [op.kind for op in graph.ops if set(op.writes) & set(total.reads)]
    assert sorted(kinds) == ["clone", "mul", "mul", "tanh_backward"]
    (product,) = (op for op in graph.ops if set(op.reads) & set(total.writes))
    assert graph.tensors[product.writes[0]].name == "first.weight.grad"
    # the sums of the forward pass are the network's own
    assert [len(op.reads) for op in graph.ops if op.kind == "add"] == [2, 2, 2, 4]


def test_only_plain_additions_of_one_shape_that_nobody_else_reads_are_folded() -> None:
    from torch.fx.experimental.proxy_tensor import make_fx

    from lowtide.instances.torch_import.sums import absorbed, sums_in_a_row

    row, table = torch.zeros(3), torch.zeros(2, 3)

    def terms(function: Any, *arguments: Any) -> list[int]:
        graph = make_fx(function, tracing_mode="fake")(*(x.clone() for x in arguments)).graph
        nodes = [node for node in graph.nodes if node.op == "call_function"]
        sums = sums_in_a_row(nodes)
        assert len(absorbed(sums)) == sum(len(found) - 2 for found in sums.values())
        return [len(found) for found in sums.values()]

    assert terms(lambda a, b, c: (a + b) + c, row, row, row) == [3]
    assert terms(lambda a, b, c: (a + b) + (c + a), row, row, row) == [4]
    assert terms(lambda a, b, c: (a + b) + c, row, row, table) == []
    assert terms(lambda a, b, c: torch.add(a + b, c, alpha=2), row, row, row) == []
    assert terms(lambda a, b: (a + b) + 1.0, row, row) == []
    assert terms(lambda a, b: (s := a + b) + s, row, row) == []
    assert terms(lambda a, b, c: ((s := a + b) + c, s.sin()), row, row, row) == []
    assert terms(lambda a, b, c: (a + b.half()) + c, row.double(), row, row.double()) == []


class InPlace(nn.Module):  # type: ignore[misc,name-defined]
    """A running total that every call changes, a slice that is written, and a parameter nobody uses."""

    def __init__(self) -> None:
        super().__init__()
        self.scale, self.unused = nn.Parameter(torch.ones(3)), nn.Parameter(torch.ones(5))
        self.register_buffer("total", torch.zeros(3))
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def forward(self, x: Any) -> Any:
        self.calls.add_(1)
        self.total.add_(x.detach().sum(0))
        y = x * self.scale + self.total
        z = torch.zeros(4, 3)
        z[:2] = y
        return z


def test_what_takes_only_a_shape_reads_nothing() -> None:
    graph = step("moe")
    (seed,) = (op for op in graph.ops if op.kind == "ones_like")
    assert seed.reads == ()
    zeros = [op for op in graph.ops if op.kind in ("new_zeros", "zeros_like", "zeros")]
    assert all(op.reads == () for op in zeros)
    assert graph.ops[0].reads  # the others do read


def test_running_statistics_change_in_training_only() -> None:
    """The schema of native_batch_norm does not say that it writes them."""
    layer = nn.Sequential(nn.BatchNorm1d(3), nn.Linear(3, 3))
    for train in (True, False):
        graph = traced(layer, torch.zeros(2, 3), train=train)
        names = [tensor.name for tensor in graph.tensors]
        (op,) = (op for op in graph.ops if op.kind == "native_batch_norm")
        statistics = {names.index("0.running_mean"), names.index("0.running_var")}
        assert statistics <= set(op.reads)
        assert set(op.writes) & statistics == (statistics if train else set())
        assert "0.num_batches_tracked" not in names


def test_ops_that_write_in_place_keep_their_tensor() -> None:
    graph = traced(InPlace(), torch.zeros(2, 3), train=False)
    names = [tensor.name for tensor in graph.tensors]
    assert names == ["scale", "total", "x0", "sum_1", "mul", "add", "zeros"]
    ops = {op.name: op for op in graph.ops}
    assert list(ops) == ["sum_1", "add__1", "mul", "add", "zeros", "copy_"]  # the count of calls is dead
    total, zeros = names.index("total"), names.index("zeros")
    assert ops["add__1"].reads == (total, names.index("sum_1"))
    assert ops["add__1"].writes == (total,)
    assert total in ops["add"].reads
    assert ops["copy_"].reads == (zeros, names.index("add"))
    assert ops["copy_"].writes == (zeros,)
    assert graph.tensors[zeros].final
    assert graph.tensors[zeros].kind == "output"


def test_elementwise_results_may_take_the_place_of_an_operand_of_the_same_layout() -> None:
    class Net(nn.Module):  # type: ignore[misc,name-defined]
        def forward(self, x: Any, scale: Any) -> Any:
            y = x.exp()
            z = y.relu() * scale
            return torch.softmax(z + z.t().contiguous().t(), 1)

    graph = traced(Net(), torch.zeros(3, 3), torch.zeros(3), train=False)
    names = [tensor.name for tensor in graph.tensors]
    pairs = {op.name: [(names[r], names[w]) for r, w in op.inplace] for op in graph.ops}
    # not over an input (exp), a smaller operand (scale), a transposed one (clone), nor by softmax
    assert pairs == {
        "exp": [],
        "relu": [("exp", "relu")],
        "mul": [("relu", "mul")],
        "clone": [],
        "add": [("mul", "add")],
        "_softmax": [],
    }


def test_durations_follow_the_roofline() -> None:
    width = 2048
    graph = traced(
        nn.Sequential(nn.Linear(width, width, bias=False), nn.ReLU()), torch.zeros(width, width), train=False
    )
    product, relu = (op.duration_ns for op in graph.ops)
    assert product == -(-(width**3) // 9750)
    assert relu == -(-(2 * 4 * width**2) // 1555)


def test_forward_and_backward_of_convolutions_and_attention_count_their_products() -> None:
    plain, fused = (step("vit_b_16", extra) for extra in ("", "&flash=1"))
    assert {op.kind for op in fused.ops} - {op.kind for op in plain.ops} == {
        "_scaled_dot_product_flash_attention_for_cpu",
        "_scaled_dot_product_flash_attention_for_cpu_backward",
    }
    conv = nn.Conv2d(64, 64, 3, padding=1, bias=False)
    graph = traced(nn.Sequential(nn.Conv2d(3, 64, 1), conv), torch.zeros(8, 3, 64, 64), train=False)
    assert graph.ops[-1].duration_ns == -(-(8 * 64 * 64 * 64 * 64 * 9) // 9750)


def test_times_of_backward_products_are_twice_those_of_forward() -> None:
    graph = load("torch:resnet18?batch=32&train=1")
    forward = sum(op.duration_ns for op in graph.ops if op.kind == "convolution")
    backward = sum(op.duration_ns for op in graph.ops if op.kind == "convolution_backward")
    assert 1.8 < backward / forward < 2.2


def test_a_module_without_parameters_cannot_be_trained() -> None:
    class Net(nn.Module):  # type: ignore[misc,name-defined]
        def forward(self, x: Any) -> Any:
            return x.sin().requires_grad_()

    with pytest.raises(InstanceError, match="no parameter that gets a gradient"):
        traced(Net(), torch.zeros(2, 3))
    with pytest.raises(InstanceError, match="optimizer: found 'adam', expected sgd or momentum or adamw"):
        trace(Fan(), {"x": torch.zeros(4, 4)}, {}, nn.functional.mse_loss, optimizer="adam")


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("torch:vit_b_16?image=100", "option image: found 100, expected a multiple of 16"),
        ("torch:swin_t?image=256", "option image: found 256, expected a multiple of 224"),
        ("torch:unet?image=512", "option image: found 512, expected 16 k [+] 12 with k >= 11, such as 572"),
        ("torch:diffusion_unet?image=36", "option image: found 36, expected a multiple of 8"),
    ],
)
def test_sizes_that_a_network_cannot_have_are_refused(spec: str, words: str) -> None:
    with pytest.raises(InstanceError, match=f"^instance .{spec.replace('?', '[?]')}., {words}"):
        load(spec)


def test_unet_takes_exactly_the_sides_of_its_rule() -> None:
    from lowtide.instances.torch_import.architectures.unet import _side_of_output

    fine = []
    for side in range(32, 700):
        try:
            fine.append((side, _side_of_output(side)))
        except InstanceError:
            continue
    assert fine[0] == (188, 4)
    assert (572, 388) in fine
    assert all(b == (a[0] + 16, a[1] + 16) for a, b in pairwise(fine))


@pytest.mark.parametrize(
    ("file", "spec"),
    [
        pytest.param("densenet121_in", "torch:densenet121", marks=pytest.mark.slow),
        pytest.param("efficientnet_b0_in", "torch:efficientnet_b0", marks=pytest.mark.slow),
        ("resnet18_tr", "torch:resnet18?train=1"),
        pytest.param("resnet50_tr", "torch:resnet50?train=1", marks=pytest.mark.slow),
    ],
)
def test_tensors_agree_with_an_independent_trace(file: str, spec: str) -> None:
    """Another program traced torchvision's networks: its loss is another, and it keeps counters (4 bytes)."""
    around_the_loss = {0, 4, 8, 4000} if file.endswith("_tr") else {0}
    theirs, ours = (
        Counter(t.nbytes for t in graph.tensors if t.nbytes not in around_the_loss)
        for graph in (load(f"catalogue:aten/{file}"), load(spec))
    )
    assert theirs == ours
