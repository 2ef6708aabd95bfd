"""The map of packages in CONTRIBUTING.md: ``python docs/rooms.py`` writes it from their docstrings."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "CONTRIBUTING.md"
TOP = ("models", "formulations", "instances", "solvers", "results", "cli")
"""In the order of the imports: each uses those before it."""

_BLOCK = re.compile(r"(?<=<!-- rooms -->\n)```text\n.*?```\n(?=<!-- end -->)", re.DOTALL)


def rooms() -> Iterator[tuple[str, str]]:
    """Yield the packages and their rooms, with the first line of each docstring."""
    for top in TOP:
        yield f"{top}/", _first_line(ROOT / top)
        if top != "formulations":  # a folder for each problem, as in solvers
            for init in sorted((ROOT / top).glob("*/__init__.py")):
                yield f"  {init.parent.name}/", _first_line(init.parent)


def _first_line(folder: Path) -> str:
    docstring = ast.get_docstring(ast.parse((folder / "__init__.py").read_bytes())) or ""
    return docstring.partition("\n")[0]


def drawn() -> str:
    """Return the map as a block of text."""
    rows = list(rooms())
    width = max(len(name) for name, _ in rows)
    return "\n".join(["```text", *(f"{name:<{width}}  {line}".rstrip() for name, line in rows), "```\n"])


def written(text: str) -> str:
    """Return the text of the page with the map as it is now."""
    return _BLOCK.sub(lambda _: drawn(), text)


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text()))
