"""Traced graphs against what torch allocates when it runs the same step."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from lowtide.instances.torch_import import ARCHITECTURES, trace
from lowtide.models.memory import sequential_memory
from tests.torch_allocations import measure

torch = pytest.importorskip("torch", reason="the package torch is not installed")
nn = torch.nn


class Branches(nn.Module):  # type: ignore[misc,name-defined]
    """Two consumers of a value, an in-place op, a slice, dropout and a table."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(11, 6)
        self.left, self.right, self.last = nn.Linear(6, 7), nn.Linear(6, 7), nn.Linear(7, 10)

    def forward(self, tokens: Any) -> Any:
        x = self.table(tokens)
        y = (torch.sigmoid(self.left(x)) * self.right(x)).relu_()
        y = torch.native_dropout(y, 0.2, True)[0]
        return self.last(y[:, 1:].mean(1))


def convolutional() -> Any:
    return nn.Sequential(
        *(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(8, 5, 3), nn.GroupNorm(1, 5), nn.SiLU(), nn.Flatten(), nn.Linear(20, 10)),
    )


def built(name: str, **options: int) -> Any:
    defaults = {key: p.default for key, p in ARCHITECTURES[name].parameters.items()}
    return ARCHITECTURES[name].build({**defaults, **options, "batch": 2})


def example(module: Any, *inputs: Any) -> tuple[Any, list[Any], list[Any], Any]:
    return module, [*inputs], [torch.tensor([1, 2])], nn.functional.cross_entropy


def architecture(name: str, **options: int) -> tuple[Any, list[Any], list[Any], Any]:
    found = built(name, **options)
    return found.module, [*found.inputs.values()], [*found.targets.values()], found.loss


CASES = {
    "perceptron": lambda: example(
        nn.Sequential(nn.Linear(7, 13), nn.ReLU(), nn.Linear(13, 29), nn.Tanh(), nn.Linear(29, 10)),
        torch.zeros(2, 7),
    ),
    "convolutional": lambda: example(convolutional(), torch.zeros(2, 3, 8, 8)),
    "branches": lambda: example(Branches(), torch.zeros(2, 5, dtype=torch.int64)),
    "resnet18": lambda: architecture("resnet18", image=32),
    "vit_b_16": lambda: architecture("vit_b_16", image=32, layers=2),
    "vit_b_16 with fused attention": lambda: architecture("vit_b_16", image=32, layers=2, flash=1),
}


@pytest.mark.parametrize("case", CASES)
def test_the_graph_holds_what_torch_allocates(case: str) -> None:
    """Same storages; and the same peak, but that torch runs the backward of a layer as a whole.

    So the gradient of its bias waits for the other products of the layer, and the gradient of the loss
    (4 bytes) to the end.
    """
    torch.manual_seed(0)
    module, inputs, targets, loss = CASES[case]()
    graph = trace(
        module,
        {f"x{i}": x for i, x in enumerate(inputs)},
        {f"y{i}": x for i, x in enumerate(targets)},
        loss,
    )
    peak, sizes = measure(module, inputs, targets, loss)
    made = Counter(t.nbytes for t in graph.tensors if not t.initial)
    assert made == sizes
    computed = graph.drop({"weight", "state", "input"})
    ours = sequential_memory(computed).peak(range(len(graph.ops)))
    bias = max(4 * p.numel() for name, p in module.named_parameters() if name.endswith("bias"))
    assert 0 <= peak - ours <= bias + 4
