"""Answers that take effect in other programs, a module for each: ``from lowtide.adapters import NAME``.

Each module imports its framework only where it needs it; its page on the site names the versions tried.
"""

from __future__ import annotations

from .results.adapters import (
    chrome_trace,
    cuda_snapshots,
    executorch,
    jax_names,
    onnx_order,
    tflite_arena,
    torch_budget,
    torch_checkpoint,
    torch_compile,
    torch_offload,
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
    "torch_checkpoint",
    "torch_compile",
    "torch_offload",
    "torch_pipelining",
]
