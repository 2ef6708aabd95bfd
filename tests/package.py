"""The modules of the package by name."""

from __future__ import annotations

from pathlib import Path

import lowtide

ROOT = Path(lowtide.__file__).parent
FOLDERS = ("models", "formulations", "instances", "solvers", "results", "cli")


def modules() -> dict[str, Path]:
    """Return the files of the package by the names of their modules in it."""
    files = [*ROOT.glob("*.py"), *(p for folder in FOLDERS for p in (ROOT / folder).rglob("*.py"))]
    parts = {path: path.relative_to(ROOT).with_suffix("").parts for path in files}
    return {".".join(p[:-1] if p[-1] == "__init__" else p): path for path, p in parts.items()}
