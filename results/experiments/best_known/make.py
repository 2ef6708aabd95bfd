"""Improve ``results/best_known/`` by the committed tables and records.

To be run after a table was made again: ``lowtide audit results`` finds what a table says and the files do
not.
"""

from __future__ import annotations

from ...audits.evidence import read_claims
from ...audits.improvements import update
from ..running import ROOT


def make() -> None:
    """Improve the files, and say how often and what was refused."""
    done = update(read_claims([ROOT / "results"]).claims)
    print(*done.refused, sep="\n")
    print(f"{len(done.changes)} improvements, {len(done.refused)} refused")
