"""Tensor parallelism: where layers that ranks share begin and end (f and g of Megatron-LM).

Source: Shoeybi and others, "Megatron-LM", 2019, section 3. With sequence parallelism ranks share what is
between layers by tokens (Korthikanti and others, MLSys 2023).
"""

from __future__ import annotations

from .micro_batch import Pass
from .rank import Variable


def enter(run: Pass, x: Variable) -> Variable:
    """Return a value before layers that ranks share by columns: its gradient is summed over them."""
    rank, tp = run.rank, run.options.tp
    if tp == 1:
        return x
    y = Variable(f"{x.name}.shared", x.tensor, x.nbytes, True, [])
    if rank.options.sp:
        y = rank.gather(x, f"{x.name}.gather", rank.tensor_group)

    def reverse() -> None:
        (d,) = run.gradients([y])
        name = f"{x.name}.reduce.back"
        if rank.options.sp:
            rank.scatter(name, d, run.part(x, name), rank.tensor_group)
        else:
            rank.all_reduce(name, [d], tp, rank.options.nvlink)
            x.parts.append(d)

    run.record(reverse)
    return y


def leave(run: Pass, x: Variable) -> Variable:
    """Return the sum over the ranks that share a layer by rows."""
    rank, tp = run.rank, run.options.tp
    if tp == 1:
        return x
    name = f"{x.name}.reduce"
    if not rank.options.sp:
        rank.all_reduce(name, [x.tensor], tp, rank.options.nvlink)
        return x
    y = rank.variable(f"{x.name}.part", x.nbytes // tp)
    rank.scatter(name, x.tensor, y.tensor, rank.tensor_group)

    def reverse() -> None:
        (d,) = run.gradients([y])
        part = Variable(name, d, y.nbytes, True, [])
        x.parts.append(rank.gather(part, f"{name}.back", rank.tensor_group).tensor)

    run.record(reverse)
    return y
