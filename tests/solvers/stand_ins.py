"""Stand-ins for parts of `auto`."""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType

import pytest

from lowtide.solvers.method import RunFunction


def stand_in(monkeypatch: pytest.MonkeyPatch, auto: ModuleType, **runs: RunFunction) -> None:
    """Replace what parts of `auto` run, by name with underscores; `others` stands for those not named.

    Raises
    ------
    KeyError
        If there is no such part.
    """
    names = {part.name for part in auto.PARTS}
    given = {name.replace("_", " "): run for name, run in runs.items() if name != "others"}
    if missing := sorted({*given} - {name.replace("-", " ") for name in names}):
        raise KeyError(*missing)
    others = runs.get("others")
    parts = []
    for part in auto.PARTS:
        run = given.get(part.name.replace("-", " "), others)
        parts.append(part if run is None else replace(part, run=run))
    monkeypatch.setattr(auto, "PARTS", tuple(parts))
