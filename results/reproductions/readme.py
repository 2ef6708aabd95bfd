"""The README's copies of committed tables."""

from __future__ import annotations

import re
from pathlib import Path

README = Path(__file__).resolve().parents[2] / "README.md"


def into_readme(name: str, text: str) -> None:
    """Replace what stands between ``<!-- table: NAME -->`` and ``<!-- end -->``."""
    block = re.compile(rf"(<!-- table: {re.escape(name)} -->\n).*?(<!-- end -->)", re.DOTALL)
    old = README.read_text()
    if not block.search(old):
        raise SystemExit(f"README.md: found no mark of table {name!r}, expected one")
    README.write_text(block.sub(lambda match: match[1] + text + match[2], old))
