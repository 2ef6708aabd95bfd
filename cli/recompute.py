"""What ``lowtide solve recompute`` says about a plan: runs, peaks, traffic."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..models.result import Result
    from ..models.verifier.verdict import Verification


def recompute_rows(result: Result, verdict: Verification) -> list[tuple[str, str]]:
    """Return names and values for people."""
    from ..models.units import exact_bytes, format_duration

    assert result.plan is not None
    assert result.graph is not None
    once = sum(min(mode.duration_ns for mode in op.all_modes) for op in result.graph.ops)
    extra = f", {format_duration(verdict.makespan - once)} more than each op once"
    rows = [("runs", f"{len(result.plan.runs)}, of them {verdict.recomputed} again{extra}")]
    tiers = verdict.peaks if len(verdict.peaks) > 1 else {"": sum(verdict.peaks.values())}
    rows += [(f"peak in {tier}" if tier else "peak", exact_bytes(peak)) for tier, peak in tiers.items()]
    rows += [(f"traffic {a}->{b}", exact_bytes(moved)) for (a, b), moved in verdict.traffic.items()]
    return rows
