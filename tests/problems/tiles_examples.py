"""The worked examples of the MLSys 2026 contest's statement, with their latencies (PROBLEM.md)."""

from __future__ import annotations

from typing import Any


def example(
    tensors: int, side: int, ops: list[tuple[str, list[int], int, int]], capacity: int
) -> dict[str, Any]:
    """Return square tensors, and ops by kind, inputs, output and base cost."""
    return {
        "widths": [side] * tensors,
        "heights": [side] * tensors,
        "inputs": [reads for _, reads, _, _ in ops],
        "outputs": [[t] for _, _, t, _ in ops],
        "base_costs": [cost for _, _, _, cost in ops],
        "op_types": [kind for kind, _, _, _ in ops],
        "fast_memory_capacity": capacity,
        "slow_memory_bandwidth": 10,
        "native_granularity": [128, 128],
    }


P, M = "Pointwise", "MatMul"
CHAIN = [(P, [0], 1, 1000), (P, [1], 2, 100)]
BASELINE = example(3, 128, CHAIN, 35_000)
CAPACITY = example(3, 256, CHAIN, 25_000)
DIAMOND = example(4, 128, [(P, [0], 1, 1500), (P, [1], 2, 1500), (P, [1, 2], 3, 1500)], 50_000)
REVISIT = example(3, 128, [(M, [0, 1], 2, 1500)], 25_000)
SPLIT = example(5, 128, [(M, [0, 1], 3, 2000), (M, [3, 2], 4, 2000)], 45_000)
FULL = [128, 128, 1]

EXAMPLES: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "baseline, apart": (BASELINE, {"subgraphs": [[0], [1]], "granularities": [FULL, FULL]}, "6,553.6"),
    "baseline, fused": (BASELINE, {"subgraphs": [[0, 1]], "granularities": [FULL]}, "3,276.8"),
    "baseline, small tiles": (BASELINE, {"subgraphs": [[0, 1]], "granularities": [[64, 64, 1]]}, "4,400"),
    "capacity, apart": (CAPACITY, {"subgraphs": [[0], [1]], "granularities": [FULL, FULL]}, "26,214.4"),
    "capacity, fused": (CAPACITY, {"subgraphs": [[0, 1]], "granularities": [FULL]}, "13,107.2"),
    "diamond, spilled": (DIAMOND, {"subgraphs": [[0], [1], [2]], "granularities": [FULL] * 3}, "11,468.8"),
    "diamond, again": (
        DIAMOND,
        {"subgraphs": [[0, 1], [0, 2]], "granularities": [FULL] * 2, "tensors_to_retain": [[2], []]},
        "6,276.8",
    ),
    "diamond, kept": (
        DIAMOND,
        {"subgraphs": [[0], [1, 2]], "granularities": [FULL] * 2, "tensors_to_retain": [[1], []]},
        "4,638.4",
    ),
    "revisit, raster": (REVISIT, {"subgraphs": [[0]], "granularities": [[64, 64, 128]]}, "8,192"),
    "revisit, snake": (
        REVISIT,
        {"subgraphs": [[0]], "granularities": [[64, 64, 128]], "traversal_orders": [[0, 1, 3, 2]]},
        "6,548",
    ),
    "split": (SPLIT, {"subgraphs": [[0, 1]], "granularities": [[128, 128, 32]]}, "6,915.2"),
}
"""Instance, answer and latency by name."""
