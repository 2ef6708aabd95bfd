"""What torch allocates: every storage that a training step makes, and the bytes alive after each op.

The oracle of the torch importer: it runs a real module on real tensors, with real autograd and updates that
run as soon as a gradient is accumulated, and shares nothing with the importer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest


def measure(
    module: Any,
    inputs: list[Any],
    targets: list[Any],
    loss: Callable[..., Any],
    autocast: Any = None,
    *,
    keep: bool = False,
) -> tuple[int, Counter[int]]:
    """Run a training step; return the largest sum of live bytes, and the sizes of all that was allocated.

    Parameters, buffers, inputs and targets are left out of both, as are empty storages. The forward pass and
    the loss run in a data type of torch, if `autocast` is one. Gradients stay, if `keep` says so.
    """
    torch = pytest.importorskip("torch")
    from torch.multiprocessing.reductions import StorageWeakRef
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_leaves

    given = [*module.parameters(), *module.buffers(), *inputs, *targets]
    before = {StorageWeakRef(x.untyped_storage()) for x in given}
    live: dict[Any, int] = {}
    sizes: Counter[int] = Counter()
    peaks = [0]

    class Recorder(TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = func(*args, **(kwargs or {}))
            for x in tree_leaves(result):
                if isinstance(x, torch.Tensor):
                    storage = StorageWeakRef(x.untyped_storage())
                    nbytes = x.untyped_storage().nbytes()
                    if nbytes and storage not in before and storage not in live:
                        live[storage] = nbytes
                        sizes[live[storage]] += 1
            for storage in [s for s in live if s.expired()]:
                del live[storage]
            peaks.append(sum(live.values()))
            return result

    def update(parameter: Any) -> None:
        parameter.grad = None

    module.train()
    hooks = [p.register_post_accumulate_grad_hook(update) for p in module.parameters() if not keep]
    with Recorder():
        with torch.autocast("cpu", autocast, enabled=autocast is not None):
            value = loss(module(*inputs), *targets)
        value.backward()
    for hook in hooks:
        hook.remove()
    return max(peaks), sizes
