"""The same step as torch itself runs it: modules, autograd and an optimizer, nothing recorded."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import torch

from ..recording import Step
from ..storages import storages
from ..updates import HYPERPARAMETERS, STATES


def eager_step(step: Step, *, seed: int = 0, iterations: int = 1) -> dict[str, Any]:
    """Return what training steps of a module end with, by the names that the tensors of the graph have.

    The loss and the gradients are those of the last iteration; parameters, buffers and the states of the
    optimizer are those behind it. Random numbers begin with the seed in each iteration. The module itself
    stays as it is.
    """
    assert step.loss is not None
    assert step.optimizer is not None
    module = deepcopy(step.module).train()
    optimizer = _optimizer(step.optimizer, module)
    for _ in range(iterations):
        torch.manual_seed(seed)
        optimizer.zero_grad(set_to_none=True)
        loss = step.loss(module(*step.inputs.values()), *step.targets.values())
        loss.backward()
        optimizer.step()
    trained = {name: p for name, p in module.named_parameters() if p.grad is not None}
    (output,) = (step.lowered.index[s] for node in step.trace.outputs for s in storages(node))
    return {
        step.graph.tensors[output].name: loss.detach(),
        **{name: value.detach() for name, value in (*module.named_parameters(), *module.named_buffers())},
        **{f"{name}.grad": p.grad for name, p in trained.items()},
        **{
            f"{name}.{state}": optimizer.state[p][key]
            for name, p in trained.items()
            for state, key in zip(STATES[step.optimizer], _KEYS[step.optimizer], strict=True)
        },
    }


_KEYS = {"sgd": (), "momentum": ("momentum_buffer",), "adamw": ("exp_avg", "exp_avg_sq")}
"""What torch calls the states of `STATES`."""


def _optimizer(name: str, module: Any) -> Any:
    numbers = dict(HYPERPARAMETERS[name])
    if name == "adamw":
        betas = (numbers.pop("beta1"), numbers.pop("beta2"))
        return torch.optim.AdamW(module.parameters(), betas=betas, fused=True, **numbers)
    return torch.optim.SGD(module.parameters(), fused=True, **numbers)
