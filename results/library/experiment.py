"""The experiment of a set: the text that ``lowtide bench`` reads, with the hash of every question."""

from __future__ import annotations

import json
from collections.abc import Iterable

from ..sweeps.runspec import Limits
from .sets import LibraryEntry, LibrarySet


def experiment_text(
    one_set: LibrarySet, entries: Iterable[LibraryEntry], method: str, limits: Limits, seeds: Iterable[int]
) -> str:
    """Return the TOML text of an experiment: a method on questions of a set, plans kept.

    Parameters
    ----------
    one_set, entries
        The set, and those of its questions that are run.

    Examples
    --------
    >>> from lowtide.results.library.sets import find_set
    >>> one_set = find_set("hybrid/open")
    >>> text = experiment_text(one_set, one_set.entries, "auto", Limits(seconds=60), [0])
    >>> text.splitlines()[5]
    'seconds = 60'
    """
    seconds = "none" if limits.seconds is None else limits.seconds
    lines = [
        "[experiment]",
        f"name = {json.dumps(one_set.name)}",
        "save_plans = true",
        "",
        "[limits]",
        f"seconds = {json.dumps(seconds)}",
        f"threads = {limits.threads}",
        "",
        "[[runs]]",
        f"problem = {json.dumps(one_set.problem)}",
        f"methods = [{json.dumps(method)}]",
        f"seeds = {json.dumps([*seeds])}",
        "instances = [",
    ]
    for entry in entries:
        cells = (f"{key} = {json.dumps(getattr(entry, key))}" for key in ("spec", "sha256"))
        lines.append(f"    {{ name = {json.dumps(entry.spec)}, {', '.join(cells)} }},")
    return "\n".join([*lines, "]", ""])
