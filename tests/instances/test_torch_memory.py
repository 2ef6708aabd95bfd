"""Traced graphs against what torch allocates when it runs the same step."""

from __future__ import annotations

from collections import Counter
from importlib import import_module
from typing import Any

import pytest

from lowtide.instances.torch_import import ARCHITECTURES, trace
from lowtide.models.derived.memory import sequential_memory
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
    return parts(found)


def parts(found: Any) -> tuple[Any, list[Any], list[Any], Any]:
    """Return the parts of an example; the kernel of mse_loss keeps more than its result in that storage."""
    loss = found.loss
    if loss is nn.functional.mse_loss:
        loss = lambda output, wanted: (output - wanted).square().mean()  # noqa: E731
    return found.module, [*found.inputs.values()], [*found.targets.values()], loss


def family(name: str, **options: Any) -> tuple[Any, list[Any], list[Any], Any]:
    """Return a network of a family that is smaller than any that has a name."""
    found = import_module(f"lowtide.instances.torch_import.architectures.{name}").build(batch=2, **options)
    return parts(found)


class Checkpointed(nn.Module):  # type: ignore[misc,name-defined]
    """Blocks of which torch keeps the inputs only, one within the other; one draws random numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(7, 13), nn.Linear(13, 10)
        self.inner = nn.Sequential(nn.Linear(13, 29), nn.Tanh(), nn.Linear(29, 13), nn.Sigmoid())
        self.outer = nn.Sequential(nn.Linear(13, 31), nn.SiLU(), nn.Linear(31, 13))

    def forward(self, x: Any) -> Any:
        x = torch.utils.checkpoint.checkpoint(self._block, self.first(x), use_reentrant=False)
        return self.last(x)

    def _block(self, x: Any) -> Any:
        x = torch.native_dropout(self.outer(x), 0.2, True)[0]
        return torch.utils.checkpoint.checkpoint(self.inner, x, use_reentrant=False)


CASES = {
    "normalized": lambda: example(
        nn.Sequential(nn.Linear(7, 13), nn.LayerNorm(13), nn.GELU(), nn.LayerNorm(13), nn.Linear(13, 10)),
        torch.zeros(2, 7),
    ),
    "checkpoints": lambda: example(Checkpointed(), torch.zeros(2, 7)),
    "bf16": lambda: example(convolutional().bfloat16(), torch.zeros(2, 3, 8, 8, dtype=torch.bfloat16)),
    "perceptron": lambda: example(
        nn.Sequential(nn.Linear(7, 13), nn.ReLU(), nn.Linear(13, 29), nn.Tanh(), nn.Linear(29, 10)),
        torch.zeros(2, 7),
    ),
    "convolutional": lambda: example(convolutional(), torch.zeros(2, 3, 8, 8)),
    "branches": lambda: example(Branches(), torch.zeros(2, 5, dtype=torch.int64)),
    "resnet18": lambda: architecture("resnet18", image=32),
    "vit_b_16": lambda: architecture("vit_b_16", image=32, layers=2),
    "vit_b_16 with fused attention": lambda: architecture("vit_b_16", image=32, layers=2, flash=1),
    "efficientnet_b0": lambda: architecture("efficientnet_b0", image=32),
    "unet": lambda: architecture("unet", image=188),
    "diffusion_unet": lambda: architecture("diffusion_unet", image=16),
    "densenet": lambda: family("densenet", image=32, blocks=(4, 3), growth=8),
    "swin": lambda: family("swin", image=56, blocks=(2, 2), width=8, heads=(2, 4)),
    "gpt2": lambda: family("gpt2", seq=8, layers=2, flash=False, width=16, heads=2),
    "bert": lambda: family("bert", seq=8, layers=2, width=16, heads=2),
    "llama": lambda: family("llama", seq=8, layers=2, flash=False, width=16, heads=4, groups=2, hidden=24),
    "moe": lambda: family("moe", seq=8, layers=2, experts=4, width=16, heads=2),
}


LARGE = {"diffusion_unet", "efficientnet_b0", "unet"}
"""Networks that take seconds to trace."""


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=pytest.mark.slow if case in LARGE else ()) for case in CASES]
)
def test_the_graph_holds_what_torch_allocates(case: str) -> None:
    """Same storages, but for the partial sums of gradients that the graph folds; and without those the same
    peak, except that torch runs the backward of a layer as a whole: its parameters' gradients wait for the
    layer's other products, and the gradient of the loss (4 bytes) waits for the end.
    """
    check(case)


@pytest.mark.parametrize(
    "case", ["perceptron", "convolutional", "normalized", "branches", "checkpoints", "gpt2"]
)
def test_casts_of_autocast_are_as_torch_makes_them(case: str) -> None:
    """Each weight once, although two checkpoints or layers read it; what runs again casts again."""
    assert check(case, "bf16")["_to_copy"] > 2


def check(case: str, autocast: str | None = None) -> Counter[str]:
    torch.manual_seed(0)
    module, inputs, targets, loss = CASES[case]()
    graph = trace(
        module,
        {f"x{i}": x for i, x in enumerate(inputs)},
        {f"y{i}": x for i, x in enumerate(targets)},
        loss,
        autocast=autocast,
    )
    peak, sizes = measure(module, inputs, targets, loss, autocast and torch.bfloat16)
    made = Counter(t.nbytes for t in graph.tensors if not t.initial and t.nbytes)
    partial_sums = sizes - made
    assert not made - sizes
    assert sum(partial_sums.values()) == graph.provenance["sums_folded"]
    if not partial_sums:
        computed = graph.drop({"weight", "state", "input"})
        ours = sequential_memory(computed).peak(range(len(graph.ops)))
        layers = [sum(4 * p.numel() for p in m.parameters(recurse=False)) for m in module.modules()]
        assert 0 <= peak - ours <= max(layers) + 4
    return Counter(op.kind for op in graph.ops)
