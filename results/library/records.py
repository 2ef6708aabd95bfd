"""What is known of a question of the library: its features and its record, with who, how and when."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..audits.best_known import BestKnown, entry_dict
from ..audits.claims import Question
from ..tables.metrics import primal_gap
from .sets import LibraryEntry, LibrarySet


def record_of(
    one_set: LibrarySet, entry: LibraryEntry, known: Mapping[Question, BestKnown]
) -> dict[str, Any]:
    """Return features and record of a question as JSON values.

    Returns
    -------
    dict
        ``best`` in the unit of the problem, ``who`` submitted it, ``how`` (the method), ``when`` (the day),
        ``table`` that has it; ``bound``, ``bound by`` in words; ``gap`` as a share of the objective (each
        None where nothing is known); ``status``, one of `lowtide.results.audits.best_known.STATUSES`;
        ``history`` and ``tried`` as the best-known files have them.
    """
    nothing = BestKnown(instance=entry.spec, sha256=entry.sha256, problem=one_set.problem, unit="")
    record = known.get((entry.sha256, one_set.problem), nothing)
    written = entry_dict(record)
    objective, proved = written["objective"] or {}, written["bound"] or {}
    best, bound = objective.get("value"), proved.get("value")
    return {
        "id": entry.id,
        "set": one_set.name,
        "spec": entry.spec,
        "sha256": entry.sha256,
        "best": best,
        "who": objective.get("by", "lowtide") if objective else None,
        "how": objective.get("method"),
        "when": objective.get("date"),
        "table": objective.get("table"),
        "bound": bound,
        "bound by": ", ".join(proved[k] for k in ("method", "by", "date", "table") if k in proved) or None,
        "gap": None if best is None or bound is None else primal_gap(best, bound),
        "status": record.status,
        "origin": entry.origin,
        "licence": entry.licence,
        "command": f"lowtide solve {one_set.problem} '{entry.spec}'",
        "features": dict(entry.features),
        "history": written.get("history", []),
        "tried": written.get("tried", {}),
    }
