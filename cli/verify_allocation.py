"""``lowtide verify`` of an allocation: every pool's height, every fault, the gap to the bound."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from .output import emit_json, emit_pairs, emit_violations, invalid

if TYPE_CHECKING:
    from ..instances import Allocation
    from ..models.buffers import Buffers


def run(args: argparse.Namespace, allocation: Allocation, buffers: Buffers) -> int:
    """Judge the allocation and print the verdict."""
    from ..models.errors import UsageError
    from ..models.result import relative_gap
    from ..models.verifier.allocation import verify_allocation

    verdict = verify_allocation(buffers, allocation.offsets)
    height = sum(verdict.heights.values())
    bound, origin = (args.bound, "given") if args.bound is not None else (quick_bound(buffers), "load")
    if args.bound is not None and verdict.valid and bound > height:
        raise UsageError(f"given bound: found {bound}, expected at most the height, {height}")
    answer: dict[str, Any] = {
        "allocation": args.item,
        "buffers": {
            "name": buffers.name,
            "source": buffers.source,
            "sha256": buffers.sha256,
            "count": len(buffers.buffers),
        },
        "valid": verdict.valid,
        "violations": [v.to_dict() for v in verdict.violations],
        "complete": verdict.complete,
        "heights": dict(verdict.heights),
        "height": height,
        "bound": bound,
        "bound_from": origin,
        "gap": relative_gap(height, bound) if verdict.valid else None,
    }
    if args.json:
        emit_json(answer)
    else:
        _print(answer)
    return 0 if verdict.valid else 1


def quick_bound(buffers: Buffers) -> int:
    """Return a bound on the sum of the pools' heights that takes little time."""
    from ..formulations.offsets.data import offsets_data
    from ..solvers.offsets.bounds import lower_bound

    by_pool: dict[str, int] = {}
    for data in offsets_data(buffers):
        by_pool[data.pool] = max(by_pool.get(data.pool, 0), lower_bound(data) * data.unit)
    return sum(by_pool.values())


def _print(answer: dict[str, Any]) -> None:
    from ..models.units import exact_bytes, format_gap

    faults = answer["violations"]
    more = "" if answer["complete"] else ", and more overlaps"
    of = answer["buffers"]
    rows = [
        ("buffers", f"{of['name']} ({of['count']:,} buffers, sha256 {of['sha256'][:12]}…)"),
        ("allocation", answer["allocation"]),
        ("verdict", "valid" if answer["valid"] else invalid(faults, more)),
    ]
    for pool, height in answer["heights"].items():
        rows.append((f"height of {pool}" if pool else "height", exact_bytes(height)))
    rows.append(("bound", f"{exact_bytes(answer['bound'])}, {answer['bound_from']}"))
    if answer["valid"]:
        rows.append(("gap", format_gap(answer["gap"])))
    emit_pairs(rows)
    emit_violations(faults)
