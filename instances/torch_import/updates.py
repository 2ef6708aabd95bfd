"""Updates of parameters: one op each, right behind the gradient.

An optimizer's step on one parameter is one fused op, as torch's ``fused=True`` kernels are: it reads the
parameter, its gradient and the optimizer's state, and writes the parameter and the state. It stands as
early as it can: behind the last op that makes the gradient and the last one that reads the old parameter.
So each gradient dies as soon as it is there, which in torch takes a hook that runs after accumulation
(``Tensor.register_post_accumulate_grad_hook``); none is held until the end of the backward pass. The count
of steps is a number of the host.
"""

from __future__ import annotations

STATES: dict[str, tuple[str, ...]] = {
    "sgd": (),
    "momentum": ("momentum",),
    "adamw": ("exp_avg", "exp_avg_sq"),
}
"""Optimizer -> its states; each has the size of the parameter.

``sgd`` has none, ``momentum`` keeps a running sum of gradients, ``adamw`` (Loshchilov and Hutter, ICLR 2019)
running averages of the gradient and of its square.
"""
