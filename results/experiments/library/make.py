"""The sets of the library, selected from the pool: ``pool.json.gz`` in, ``results/library/VERSION`` out.

The selection spreads a set: it takes the question that is farthest from those taken before (the largest least
distance between the points of `lowtide.results.library.features.vector`), real ones before generated ones, at
most `MOST_OF_FAMILY` of a family and `MOST` in all; the hash of version and question decides ties, and which
is first. So the same pool gives the same bytes. (T. F. Gonzalez, "Clustering to minimize the maximum
intercluster distance", Theoretical Computer Science 38, 1985; MIPLIB 2017 reduces groups of models likewise.)
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

from ....models.files import write_whole
from ...library.features import vector
from ...library.sets import FOLDER, VERSION, LibraryEntry, LibrarySet, set_text
from ..running import say
from .pool import DRAWN, EASY, complete_rows, drawn_by

MOST = 30
"""Largest number of questions in a set: at a minute each, one core takes thirty minutes."""
MOST_OF_FAMILY = 10
"""Largest number of questions of one family in a set, a third of it, so that no family rules a mean."""
CREATED = "2026-11-28"
RULE = {
    "easy": f"Closed, and a committed row of auto proves it in at most {EASY:.0f} s; where no row of auto "
    "has its seconds, no committed run of a method that proves optima ended without the proof, or auto "
    f"proves it again on one thread in {EASY:.0f} s.",
    "hard": f"Closed, but the committed rows of auto take more than {EASY:.0f} s, or none has its seconds "
    "and a committed run of a method that proves optima ended without the proof, as auto does on one thread "
    f"in {EASY:.0f} s.",
    "open": "The best bound known does not meet the best objective known.",
}
"""How the class of a question follows from ``results/best_known`` and the committed tables, in words."""
SPREAD = (
    f" Of the pool (at most {DRAWN} of a family, drawn by hash) those farthest from each other in the "
    f"logarithms of the features: real ones first, at most {MOST_OF_FAMILY} of a family, {MOST} in all."
)
"""How questions of a class are chosen, in words."""


def make() -> None:
    """Write the sets."""
    for name, content in files().items():
        path = FOLDER / VERSION / name
        path.parent.mkdir(exist_ok=True)
        write_whole(path, content)
        say(f"wrote {path}")


def files() -> dict[str, bytes]:
    """Return the files of the sets by name."""
    pools: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in complete_rows():
        pools.setdefault((row["problem"], row["class"]), []).append(row)
    return {
        f"{problem}-{level}.json": set_text(
            LibrarySet(
                name=f"{VERSION}/{problem}/{level}",
                problem=problem,
                rule=RULE[level] + SPREAD,
                created=CREATED,
                entries=tuple(
                    LibraryEntry(
                        id=f"{problem}-{level}-{number:03}",
                        **{key: row[key] for key in ("spec", "sha256", "question", "features", "origin")},
                        licence=row["licence"],
                    )
                    for number, row in enumerate(chosen(pool), start=1)
                ),
            )
        )
        for (problem, level), pool in pools.items()
    }


def chosen(pool: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the selection of a pool, smallest first."""
    points = {row["sha256"]: vector(row["features"]) for row in pool}
    taken: list[dict[str, Any]] = []
    families: Counter[str] = Counter()
    for origin in ("real", "generated"):
        left = {row["sha256"]: row for row in pool if row["origin"] == origin}
        near = {
            key: min((math.dist(points[key], points[t["sha256"]]) for t in taken), default=math.inf)
            for key in left
        }
        while left and len(taken) < MOST:
            key = max(left, key=lambda k: (near[k], drawn_by(k)))
            row = left.pop(key)
            if families[row["family"]] == MOST_OF_FAMILY:
                continue
            families[row["family"]] += 1
            taken.append(row)
            for other in left:
                near[other] = min(near[other], math.dist(points[other], points[key]))
    return sorted(taken, key=lambda row: (row["features"]["ops"], row["sha256"]))
