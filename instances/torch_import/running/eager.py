"""The same step as torch itself runs it: modules, autograd and an optimizer, nothing recorded."""

from __future__ import annotations

import time
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint

from ..recording import Step
from ..storages import storages
from ..tracing import in_mode
from ..updates import HYPERPARAMETERS, STATES


def eager_step(step: Step, *, seed: int = 0, iterations: int = 1) -> dict[str, Any]:
    """Return what training steps of a module end with, by the names that the tensors of the graph have.

    The loss and the gradients are those of the last iteration; parameters, buffers and the states of the
    optimizer are those behind it. Random numbers begin with the seed in each iteration. The module itself
    stays as it is.
    """
    assert step.optimizer is not None
    module = deepcopy(step.module).to(step.device)
    optimizer = _optimizer(step.optimizer, module.parameters())
    with in_mode(module, train=True):
        for _ in range(iterations):
            torch.manual_seed(seed)
            optimizer.zero_grad(set_to_none=True)
            loss = step.loss_of(module)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Eager:
    """What torch's own step took: the median of its nanoseconds, and on a GPU bytes, those of weights too."""

    measured_ns: int
    allocated_peak: int | None


def eager_times(step: Step, *, iterations: int, first: int = 0, checkpointed: bool = False) -> Eager:
    """Return what training steps of a module take, each gradient released as soon as it is applied.

    Parameters
    ----------
    iterations, first
        How many steps count, and how many come before them.
    checkpointed
        Run each of the module's `blocks` under ``torch.utils.checkpoint``: it keeps what goes in, and runs
        forward again in the backward pass.
    """
    assert step.optimizer is not None
    on_gpu = step.device == "cuda"
    before = torch.cuda.memory_allocated() if on_gpu else 0
    module = deepcopy(step.module).to(step.device)
    for block in blocks(module) if checkpointed else ():
        block.forward = partial(checkpoint, block.forward, use_reentrant=False)
    for parameter in module.parameters():
        parameter.register_post_accumulate_grad_hook(
            partial(_applied, _optimizer(step.optimizer, [parameter]))
        )
    if on_gpu:
        torch.cuda.reset_peak_memory_stats()
    times = []
    with in_mode(module, train=True):
        for _ in range(first + iterations):
            begun = _now(on_gpu)
            step.loss_of(module).backward()
            times.append(_now(on_gpu) - begun)
    peak = int(torch.cuda.max_memory_allocated()) - before if on_gpu else None
    return Eager(measured_ns=int(median(times[first:])), allocated_peak=peak)


def blocks(module: Any) -> list[Any]:
    """Return the parts of a module, one after another or not, that consist of several layers.

    Lists of modules are looked into, and sequences whose elements have parts themselves.
    """
    found = []
    for child in module.children():
        nested = any(any(True for _ in part.children()) for part in child.children())
        if isinstance(child, torch.nn.ModuleList) or (isinstance(child, torch.nn.Sequential) and nested):
            found += blocks(child)
        elif any(True for _ in child.children()):
            found.append(child)
    return found


def _applied(optimizer: Any, parameter: Any) -> None:
    optimizer.step()
    parameter.grad = None


def _now(on_gpu: bool) -> int:
    """Return the clock, once the device has nothing left to do."""
    if on_gpu:
        torch.cuda.synchronize()
    return time.perf_counter_ns()


_KEYS = {"sgd": (), "momentum": ("momentum_buffer",), "adamw": ("exp_avg", "exp_avg_sq")}
"""What torch calls the states of `STATES`."""


def _optimizer(name: str, parameters: Any) -> Any:
    numbers = dict(HYPERPARAMETERS[name])
    if name == "adamw":
        betas = (numbers.pop("beta1"), numbers.pop("beta2"))
        return torch.optim.AdamW(parameters, betas=betas, fused=True, **numbers)
    return torch.optim.SGD(parameters, fused=True, **numbers)
