"""What the verbs that read experiments share: their records, a selection of them, what else is known."""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING

from .output import note
from .parser import key_value

if TYPE_CHECKING:
    import pandas as pd


def add_options(parser: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    """Add the options that choose runs."""
    parser.add_argument(
        "--where",
        type=key_value,
        action="append",
        default=[],
        metavar="COLUMN=VALUE",
        help="only runs with this value (* and ? match anything); repeatable",
    )
    parser.add_argument(
        "--virtual-best", action="store_true", help="add the oracle that picks the best run of each case"
    )
    parser.add_argument("--best-known", metavar="FILE", help="what else is known (default: the package's)")


def read_runs(paths: Sequence[str], args: argparse.Namespace) -> pd.DataFrame:
    """Return the measured frame of the runs that are chosen; say what is missing or damaged.

    Raises
    ------
    UsageError
        If a path holds no records, or nothing is chosen.
    InstanceError
        If the file of what is known is bad input.
    """
    import pandas as pd

    from ..models.errors import UsageError
    from ..results.audits.best_known import read_best_known
    from ..results.tables.measured import measured, select, virtual_best
    from ..results.tables.store import frame, missing_runs

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        table = frame(paths)
    for warning in caught:
        note(str(warning.message))
    if table.empty:
        raise UsageError(f"{', '.join(paths)}: found no records, expected at least one")
    for path in paths:
        missing = missing_runs(path)
        if missing:
            note(f"{path}: {missing} runs have no record yet")
    # What is best known of a case comes from all runs, also from those that are not chosen.
    runs = select(measured(table, read_best_known(args.best_known)), args.where)
    return pd.concat([runs, virtual_best(runs)], ignore_index=True) if args.virtual_best else runs
