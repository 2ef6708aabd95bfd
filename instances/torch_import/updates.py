"""Updates of parameters: one op each, right behind the gradient.

An optimizer's step on one parameter is one fused op, as torch's ``fused=True`` kernels are: it reads the
parameter, its gradient and the optimizer's state, and writes the parameter and the state. It stands as
early as it can: behind the last op that makes the gradient and the last one that reads the old parameter.
So each gradient dies as soon as it is there, which in torch takes a hook that runs after accumulation
(``Tensor.register_post_accumulate_grad_hook``); none is held until the end of the backward pass. The count
of steps is a number of the host.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

STATES: dict[str, tuple[str, ...]] = {
    "sgd": (),
    "momentum": ("momentum",),
    "adamw": ("exp_avg", "exp_avg_sq"),
}
"""Optimizer -> its states; each has the size of the parameter.

``sgd`` has none, ``momentum`` keeps a running sum of gradients, ``adamw`` (Loshchilov and Hutter, ICLR 2019)
running averages of the gradient and of its square.
"""

HYPERPARAMETERS: dict[str, dict[str, float]] = {
    "sgd": {"lr": 0.01, "momentum": 0.0, "weight_decay": 0.0},
    "momentum": {"lr": 0.01, "momentum": 0.9, "weight_decay": 0.0},
    "adamw": {"lr": 0.001, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "weight_decay": 0.01},
}
"""Optimizer -> the numbers with which its updates are carried out, where they are."""


def update(optimizer: str, parameter: Any, gradient: Any, states: Sequence[Any], count: int) -> None:
    """Carry out the update of one parameter in place, as torch's fused optimizers do.

    Parameters
    ----------
    states
        Tensors of the parameter's shape, in the order of `STATES`.
    count
        Of the updates of this parameter, this one included.
    """
    import torch

    numbers = HYPERPARAMETERS[optimizer]
    if gradient.stride() != parameter.stride():  # kernels walk both in one order
        gradient = torch.empty_like(parameter).copy_(gradient)
    if optimizer == "adamw":
        steps = [torch.full((), float(count), device=parameter.device)]
        torch._fused_adamw_(
            [parameter],
            [gradient],
            *([state] for state in states),
            [],
            steps,
            amsgrad=False,
            maximize=False,
            **numbers,
        )
    else:
        torch._fused_sgd_(
            [parameter],
            [gradient],
            [*states],
            dampening=0.0,
            nesterov=False,
            maximize=False,
            is_first_step=False,
            **numbers,
        )
