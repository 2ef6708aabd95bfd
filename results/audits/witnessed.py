"""Which rows of committed tables have a witness: a plan that was verified again, and a proof of the bound.

A row that says OPTIMAL needs a plan of its objective, and a certificate of its bound; of problems without
certificates, and where a certificate would be too large, a witness that says OPTIMAL too, which the audit may
make again (`lowtide.results.audits.again`). Every other row with an objective needs a plan of just this
objective, or a method that is made again. What lacks one is counted, by table:

* ``optimal``: rows that say OPTIMAL, without a plan;
* ``bounds``: rows that say OPTIMAL, with a plan, but without anything for their bound;
* ``feasible``: other rows with an objective, without a plan.

The ledger says how many of each there may be.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ...models.result import Status
from .claims import Claim, best, is_beyond, is_maximized
from .findings import Audit, Contradiction, about
from .ledger import LEDGER

LACKING = ("optimal", "bounds", "feasible")


def count_unwitnessed(
    claims: Sequence[Claim], right: Sequence[Claim], certified: Sequence[Claim], audit: Audit
) -> None:
    """Count the rows about one question that have no witness.

    Parameters
    ----------
    right, certified
        Claims whose plan, and whose certificate, was verified again.
    """
    seen = {claim.objective for claim in right}
    made = {claim.objective for claim in claims if claim.witness and claim.made is not None}
    bounds = {claim.bound for claim in claims if claim.witness and claim.status is Status.OPTIMAL}
    for row in claims:
        if row.table is None or row.witness or row.objective is None:
            continue
        proved = row.bound in bounds or any(
            claim.bound is not None
            and row.bound is not None
            and not is_beyond(row.bound, claim.bound, row.problem)
            for claim in certified
        )
        optimal = row.status is Status.OPTIMAL
        if row.objective not in seen | made and (optimal or not row.again):
            lacking = "optimal" if optimal else "feasible"
        elif optimal and not proved:
            lacking = "bounds"
        else:
            continue
        audit.unwitnessed.setdefault(row.table, Counter())[lacking] += 1


def witnesses_without_row(claims: Sequence[Claim], audit: Audit) -> None:
    """Add the witnesses about one question that no row asks, or that are worse than its best row."""
    rows = [claim for claim in claims if claim.table is not None and not claim.witness]
    first = best(rows)
    for claim in claims:
        if not claim.witness or claim.objective is None:
            continue
        aim = None if first is None else first.objective
        if any(row.objective == claim.objective for row in rows):
            continue
        if aim is None or (claim.objective < aim if is_maximized(claim.problem) else claim.objective > aim):
            words = "no row of a table has this question" if aim is None else f"the best row has {aim}"
            message = f"a witness of objective {claim.objective}, but {words}"
            audit.contradictions.append(about("witness-without-row", message, [claim]))


def compare_with_ledger(ledger: Mapping[str, Mapping[str, Any]], audit: Audit) -> None:
    """Add the tables that have other numbers of rows without a witness than the ledger says."""
    for name, entry in ledger.items():
        counts, known = audit.unwitnessed.get(name, Counter()), entry.get("unwitnessed", {})
        for lacking in LACKING:
            if counts[lacking] != known.get(lacking, 0):
                message = (
                    f"found {counts[lacking]} rows without a witness ({lacking}), "
                    f"expected {known.get(lacking, 0)}, as {LEDGER} says"
                )
                audit.contradictions.append(
                    Contradiction(kind="unwitnessed", message=message, records=(name,))
                )
