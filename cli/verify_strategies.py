"""``lowtide verify`` of strategies: what they cost, what they use at most, every fault."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from .output import emit_json, emit_pairs, emit_violations, invalid

if TYPE_CHECKING:
    from ..models.cost_network import CostNetwork, Strategies


def run(args: argparse.Namespace, strategies: Strategies, network: CostNetwork) -> int:
    """Judge the strategies and print the verdict."""
    from ..models.verifier.sharding import verify_sharding

    verdict = verify_sharding(network, strategies.choice)
    answer: dict[str, Any] = {
        "strategies": args.item,
        "network": {"name": network.name, "source": network.source, "sha256": network.sha256},
        "valid": verdict.valid,
        "violations": [v.to_dict() for v in verdict.violations],
        "cost": verdict.cost,
        "usage": verdict.usage,
        "limit": network.limit,
    }
    if args.json:
        emit_json(answer)
        return 0 if verdict.valid else 1
    rows = [
        ("network", f"{network.name} ({len(network.costs):,} nodes, sha256 {network.sha256[:12]}…)"),
        ("strategies", args.item),
        ("verdict", "valid" if verdict.valid else invalid(answer["violations"])),
    ]
    if verdict.cost is not None:
        rows.append(("cost", f"{verdict.cost:,}"))
        rows.append(("usage", f"{verdict.usage:,}"))
    rows.append(("limit", f"{network.limit:,}"))
    emit_pairs(rows)
    emit_violations(answer["violations"])
    return 0 if verdict.valid else 1
