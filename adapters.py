"""Answers that take effect in other programs, a module for each: ``from lowtide.adapters import NAME``.

<<<<<<< HEAD
Each module imports its framework only where it needs it; its page on the site names the versions tried.
=======
Each module imports its framework only where it needs it; its page on the site names the versions that were
tried.
>>>>>>> c47b3bb9 (torch.compile: budgets for the true peak of forward and backward; tables inductor_order and torch_budget)
"""

from __future__ import annotations

<<<<<<< HEAD
from .results.adapters import (
    chrome_trace,
    cuda_snapshots,
    executorch,
    jax_names,
    onnx_order,
    tflite_arena,
    torch_budget,
    torch_compile,
    torch_pipelining,
)

__all__ = [
    "chrome_trace",
    "cuda_snapshots",
    "executorch",
    "jax_names",
    "onnx_order",
    "tflite_arena",
    "torch_budget",
    "torch_compile",
    "torch_pipelining",
]
=======
from .results.adapters import torch_budget, torch_compile

__all__ = ["torch_budget", "torch_compile"]
>>>>>>> 1cce4f9c (Adapters of torch: tests, pages)
