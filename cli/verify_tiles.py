"""``lowtide verify`` of an answer in the format of the MLSys 2026 contest: latency and faults, by group."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, Any

from .output import emit_json, emit_pairs, emit_violations, invalid

if TYPE_CHECKING:
    from collections.abc import Mapping


def read_tiles_answer(path: str) -> Mapping[str, Any] | None:
    """Return the object of a file with groups of ops in tiles; None if it holds something else."""
    from ..instances.formats.strict_json import read_json

    if not path.lower().endswith(".json") or not os.path.isfile(path):
        return None
    data = read_json(path)
    return data if isinstance(data, dict) and "subgraphs" in data else None


def run(args: argparse.Namespace, data: Mapping[str, Any]) -> int:
    """Judge the answer and print the verdict; stated latencies are compared with those that are computed."""
    from ..instances import load_problem
    from ..models.errors import InstanceError, UsageError
    from ..models.problems.tiles import Tiles

    if args.graph is None:
        raise UsageError(f"{args.item}: found an answer of tiles, expected --graph SPEC for its instance")
    problem = load_problem(Tiles, args.graph)
    try:
        answer = problem.read(data)
    except InstanceError as error:
        raise InstanceError(f"{args.item}: {error}") from None
    judged, verdict = problem.judge(answer), problem.verdict(answer)
    faults = [v.to_dict() for v in judged.violations]
    computed = [float(x) for x in verdict.latencies]
    stated = data.get("subgraph_latencies", computed)
    if not isinstance(stated, list) or any(type(x) not in (int, float) for x in stated):
        raise InstanceError(f"{args.item}, subgraph_latencies: expected a list of numbers")
    if not faults and (
        len(stated) != len(computed)
        or any(abs(a - b) > 1e-9 * max(1.0, b) for a, b in zip(stated, computed, strict=True))
    ):
        message = f"found latencies {stated[:5]}, expected {computed[:5]}"
        faults.append({"kind": "latency", "message": message})
    facts = [] if judged.violations else problem.facts(judged)
    if args.json:
        values = {
            "answer": args.item,
            "instance": problem.instance.name,
            "valid": not faults,
            "violations": faults,
            "objective": judged.objective,
            "ticks_per_unit": problem.scale,
            "facts": {fact.name: fact.value for fact in facts},
        }
        emit_json(values)
    else:
        rows = [("instance", problem.instance.name), ("answer", args.item)]
        rows.append(("verdict", invalid(faults) if faults else "valid"))
        emit_pairs([*rows, *((fact.name, fact.text) for fact in facts)])
        emit_violations(faults)
    return 1 if faults else 0
