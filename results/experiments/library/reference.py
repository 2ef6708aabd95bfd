"""The reference runs of the library: `auto` on one thread, for 5 s on open questions, else for 10 s.

``reference_runs.jsonl.gz`` has the record of each run, the file of witnesses beside it the plans that are
small and verify alone. ::

    lowtide library run partition/open --method auto --time-limit 5 --out runs/partition/open
    python -m lowtide.results.experiments.library.reference runs/*/*   # adds the runs of these folders
    python -m lowtide.results.experiments best_known                    # what became better
    python -m lowtide.results.experiments.library.pool                  # classes by the new runs
    python -m lowtide.results.experiments library                       # the sets
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ....instances.formats.strict_json import read_json
from ....models.files import compress, write_whole
from ...audits.claims import claim_of
from ...audits.recheck import recheck
from ...audits.witnesses import (
    LARGEST_PLAN,
    WITNESSES,
    packed,
    read_witnesses,
    witness_of,
    write_witnesses,
)
from ...tables.store import read_records
from ..running import say

RUNS = Path(__file__).with_name("reference_runs.jsonl.gz")
PLANS = RUNS.with_name(WITNESSES)


def read_runs() -> list[dict[str, Any]]:
    """Return the records of the reference runs."""
    return read_records(RUNS) if RUNS.exists() else []


def keep(folders: Sequence[str]) -> None:
    """Add the runs of experiments; a run of a question takes the place of the one before."""
    kept = {(run["problem"], run["instance"]): run for run in read_runs()}
    plans = {
        (run["problem"], run["instance"]): run for run in (read_witnesses(PLANS) if PLANS.exists() else ())
    }
    for record in read_records(folders):
        if record["status"] == "failed":
            continue
        run = {**record, "instance": record["spec"]}
        key = (run["problem"], run["instance"])
        kept[key] = {"name": record["name"], **witness_of(run, {}, None), "plan": None}
        plans.pop(key, None)
        plan = None if record["plan"] is None else read_json(Path(record["folder"], record["plan"]))
        if plan is not None and len(json.dumps(packed(plan))) <= LARGEST_PLAN:
            witness = witness_of(run, plan, None)
            claim = claim_of(witness, str(PLANS), record["name"], PLANS.parent)
            if claim is not None and recheck(claim, {}).objective is not None:  # not: what a flow must show
                plans[key] = witness
    rows = [{k: v for k, v in kept[key].items() if k != "folder"} for key in sorted(kept)]
    write_whole(RUNS, compress(("".join(json.dumps(row) + "\n" for row in rows)).encode()))
    write_witnesses(PLANS, [plans[key] for key in sorted(plans)])
    say(
        f"{len(rows)} runs, {RUNS.stat().st_size:,} bytes; {len(plans)} plans, {PLANS.stat().st_size:,} bytes"
    )


if __name__ == "__main__":
    keep(sys.argv[1:])
