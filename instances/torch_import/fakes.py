"""Fake tensors: shapes, data types and storages without bytes, as kernels of the CPU return them.

Imported where torch is needed. Torch states the results of its operators for fake tensors, but those of
normalizations with a type for their operand and another one for their weight, as autocast has them, otherwise
than its kernels of the CPU return them: these keep the statistics in the type of the weight, and the gradient
of the operand has the operand's type.
"""

from __future__ import annotations

from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

aten = torch.ops.aten

WEIGHTS = {
    aten.native_batch_norm.default: 1,
    aten.native_group_norm.default: 1,
    aten.native_layer_norm.default: 2,
}
"""Normalizations -> the place of the weight among their arguments."""


class FakeMode(FakeTensorMode):  # type: ignore[misc]
    """A mode of fake tensors, beside which the constants of a module stay what they are."""

    def __init__(self) -> None:
        super().__init__(allow_non_fake_inputs=True)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Return what an operator returns."""
        results = super().__torch_dispatch__(func, types, args, kwargs)
        place = WEIGHTS.get(func)
        if place is not None and args[place] is not None:
            first, *statistics = results
            return (first, *(x.to(args[place].dtype) for x in statistics))
        if func is aten.native_group_norm_backward.default and results[0] is not None:
            return (results[0].to(args[1].dtype), *results[1:])
        return results


def fakes_of(tensors: list[Any], own: int) -> list[Any]:
    """Return fake tensors like these, in the mode of those of the module if it has some: the first `own`."""
    modes = [x.fake_mode for x in tensors[:own] if isinstance(x, FakeTensor)]
    mode = modes[0] if modes else FakeMode()

    def fake(x: Any) -> Any:
        other = isinstance(x, FakeTensor) and x.fake_mode is not mode
        if not other and x.device.type != "meta":
            return x if isinstance(x, FakeTensor) else mode.from_tensor(x)
        device = "cpu" if x.device.type == "meta" else x.device
        with mode:
            like = torch.empty_strided(x.size(), x.stride(), dtype=x.dtype, device=device)
        return like.requires_grad_(x.requires_grad)

    return [fake(x) for x in tensors]
