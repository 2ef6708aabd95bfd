"""Small modules, and what ExecuTorch makes of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from executorch.exir import ExecutorchBackendConfig, to_edge
from executorch.exir.memory_planning import MemoryPlanningAlgorithmSuite
from executorch.exir.passes import MemoryPlanningPass
from torch import nn

from lowtide.adapters import executorch

INPUT = torch.linspace(-1, 1, 8 * 64).reshape(8, 64)


class Branched(nn.Module):  # type: ignore[misc]
    """Two layers with a shortcut; greedy needs 83,968 bytes, 77,824 are enough."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.wide, self.narrow = nn.Linear(64, 256), nn.Linear(256, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.narrow(torch.relu(self.wide(x))) + x


class Choice(Branched):
    """One of two branches, each with memory of its own, then the layers."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        def scaled(x: torch.Tensor) -> torch.Tensor:
            return torch.relu(self.wide(x)).sum(1, keepdim=True) * x

        def shifted(x: torch.Tensor) -> torch.Tensor:
            return x * 2 + 1

        y = torch.cond(x.sum() > 0, scaled, shifted, (x,))
        return super().forward(y) + y


class Fan(nn.Module):  # type: ignore[misc]
    """Four wide tensors that the program computes before it reduces the first of them."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.wide = nn.ModuleList(nn.Linear(64, 256) for _ in range(4))
        self.narrow = nn.ModuleList(nn.Linear(256, 8) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = [torch.relu(layer(x)) for layer in self.wide]
        return torch.cat([layer(y) for layer, y in zip(self.narrow, wide, strict=True)], 1)


class Mixed(nn.Module):  # type: ignore[misc]
    """A buffer that changes, views, an operator with two results, an input returned, a write at the end."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.register_buffer("sum", torch.zeros(8, 64))
        self.register_buffer("rows", torch.tensor([0, 3]))
        self.register_buffer("ones", torch.ones(2, 64))
        self.layer = nn.Linear(64, 64)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        before = self.sum.amax()
        y = self.layer(x)
        halves = y.reshape(4, 128).split(64, 1)
        self.sum.add_(torch.relu(y))
        z = torch.sigmoid(self.sum) * before
        summed = (z + y).view(2, 256)
        return z.reshape(64, 8), halves[1].tanh(), x, summed, y.index_put((self.rows,), self.ones)


@cache
def ours(made: Any) -> Any:
    """Return the program of a module as the adapter plans it."""
    return program_of(made(), executorch.algorithm())


def program_of(module: nn.Module, *algorithms: Callable[..., Any], before: Any = None, **options: Any) -> Any:
    """Return the program of a module on `INPUT`, planned by these algorithms; `before` changes its graph."""
    suite = MemoryPlanningAlgorithmSuite(algo_list=list(algorithms))
    return passed(module, MemoryPlanningPass(memory_planning_algo=suite), before=before, **options)


def passed(module: nn.Module, planning: Any, *, before: Any = None, **options: Any) -> Any:
    """Return the program of a module on `INPUT`, planned by a pass."""
    edge = to_edge(torch.export.export(module.eval().requires_grad_(False), (INPUT,)))
    if before is not None:
        before(edge.exported_program().graph_module)
    return edge.to_executorch(ExecutorchBackendConfig(memory_planning_pass=planning, **options))


def sizes_of(program: Any) -> list[int]:
    """Return the bytes of each arena that the program asks its runtime for."""
    return list(program.executorch_program.execution_plan[0].non_const_buffer_sizes)


def addresses_of(program: Any) -> set[tuple[int, int]]:
    """Return arena and offset of every planned tensor in the emitted program."""
    values = (value.val for value in program.executorch_program.execution_plan[0].values)
    spots = (getattr(value, "allocation_info", None) for value in values)
    return {(s.memory_id, s.memory_offset_low) for s in spots if s is not None}
