"""What tables can show of a run: a number, or the words that say why there is none."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from ...models.errors import UsageError
from .measured import primal_integrals, wins

if TYPE_CHECKING:
    import pandas as pd

Kind = Literal["share", "seconds", "amount", "plain", "count", "part", "words"]
"""How a number is written: as a percentage, with two decimals, as a whole number of bytes or ns, as it
comes, as a count, as a count out of all runs; or words instead of a number."""


class ShownValue(NamedTuple):
    """What is shown of each run.

    Attributes
    ----------
    heading
        What it is.
    kind
        How it is written.
    aggregate
        What becomes of several runs in one cell, unless something else is asked for.
    better
        1 if less is better, -1 if more is, 0 if neither.
    """

    heading: str
    kind: Kind
    aggregate: str = "mean"
    better: int = 1


VALUES = {
    "gap": ShownValue("gap to the own bound", "share"),
    "gap-best-bound": ShownValue("gap to the best bound known", "share"),
    "gap-best-known": ShownValue("gap to the best objective known", "share"),
    "objective": ShownValue("objective", "amount"),
    "bound": ShownValue("bound", "amount", better=-1),
    "seconds": ShownValue("time to solve [s]", "seconds", "sgm"),
    "par2": ShownValue("PAR2 [s]", "seconds"),
    "par10": ShownValue("PAR10 [s]", "seconds"),
    "primal-integral": ShownValue("primal integral / time limit", "share"),
    "cpu-seconds": ShownValue("CPU time [s]", "seconds"),
    "peak-rss": ShownValue("peak resident memory [bytes]", "amount"),
    "stall": ShownValue("time in which nothing runs [ns]", "amount"),
    "traffic": ShownValue("bytes copied between tiers", "amount"),
    "recomputed": ShownValue("runs beyond the first of each op", "amount"),
    "solved": ShownValue("solved", "part", "sum", better=-1),
    "wins": ShownValue("cases with the best objective", "part", "sum", better=-1),
    "fastest": ShownValue("cases solved first", "part", "sum", better=-1),
    "runs": ShownValue("runs", "count", "sum", better=0),
    "status": ShownValue("status", "words", "sum", better=0),
}
"""The values by name; any other column of numbers can be shown too."""

_OF_PLANS = ("stall", "traffic", "recomputed")


def value_of(runs: pd.DataFrame, name: str) -> tuple[ShownValue, pd.Series[Any]]:
    """Return a value and its number for each run of a measured frame, absent where it has none.

    Raises
    ------
    UsageError
        If there is neither such a value nor such a column of numbers.
    """
    import pandas as pd

    column = name if name in runs else name.replace("-", "_")
    moved = [key for key in runs if str(key).startswith("traffic_")]
    if name == "traffic" and moved:
        runs = runs.assign(traffic=runs[moved].sum(axis=1).where(runs["answered"]))
    if name == "primal-integral":
        return VALUES[name], primal_integrals(runs)
    if name in ("wins", "fastest"):
        least = wins(runs, "objective" if name == "wins" else "seconds")
        return VALUES[name], least.astype("int64")
    if name == "solved":
        return VALUES[name], runs["solved"].astype("int64")
    if name in ("runs", "status"):
        return VALUES[name], pd.Series(1, runs.index)
    numeric = [str(c) for c in runs if pd.api.types.is_numeric_dtype(runs[c])]
    if column not in numeric and name in _OF_PLANS:  # no run has a plan of which it is told
        return VALUES[name], pd.Series(math.nan, runs.index)
    if column not in numeric:
        others = [c for c in numeric if c.replace("_", "-") not in VALUES]
        raise UsageError(f"value: found {name!r}, expected one of {', '.join([*VALUES, *others])}")
    value = VALUES.get(name, ShownValue(name, "plain", better=0))
    units = (
        sorted(runs["unit"].dropna().unique()) if "unit" in runs and name in ("objective", "bound") else []
    )
    if len(units) == 1:
        value = value._replace(heading=f"{value.heading} [{units[0]}]")
    return value, runs[column]


def why_absent(runs: pd.DataFrame) -> pd.Series[Any]:
    """Return for each run the words that stand for a number that it does not have.

    Why it stopped ("time", "memory", "crash" ...), else its status; ``-`` if it has a plan and stopped by
    itself, as a heuristic that proves nothing.
    """
    why = runs["reason"].where(runs["reason"].notna(), runs["status"])
    why = why.mask(runs["answered"] & runs["reason"].isna(), "-")
    return why.mask(runs["status"].isin(("infeasible", "failed")), runs["status"])
