"""Write ``ledger.json``: the number of rows, a hash of each column, the rows without a witness.

To be run once a table was made again and read through: from then on ``lowtide audit results`` finds what
changes in it.
"""

from __future__ import annotations

from ...audits.audit import audit
from ...audits.ledger import ledger_of, write_ledger
from ..running import HERE, ROOT


def make() -> None:
    """Count, write, and say what is wrong besides and how many rows lack a witness."""
    found = audit([ROOT / "results"], jobs=2)
    write_ledger(HERE, ledger_of(HERE, found.unwitnessed))
    for fault in found.contradictions:
        if fault.kind not in ("ledger-differs", "unwitnessed"):
            print(f"{fault.kind}: {fault.message} ({', '.join(fault.records[:2])})")
    for table, counts in sorted(found.unwitnessed.items()):
        print(table, *(f"{n} {lacking}" for lacking, n in sorted(counts.items())))
