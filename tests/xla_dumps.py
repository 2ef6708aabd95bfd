"""XLA's dumps of ``tests/data/xla``, and the peak that their live ranges say."""

from __future__ import annotations

import re
from pathlib import Path

DATA = Path(__file__).resolve().parent / "data" / "xla"


def dump(name: str, end: str = "-buffer-assignment.txt") -> Path:
    """Return a file of a dump."""
    return DATA / f"{name}.cpu_after_optimizations{end}"


def peak_by_live_ranges(path: Path) -> int:
    """Return the most bytes of arrays that XLA has alive at one position, without constants.

    Both ends of a range count, as operands and results of an instruction do; nothing is shared with the
    reader.
    """
    ranges = re.findall(r"^    (\S+):(\d+)-(\d+)$", Path(f"{path}-live-range.txt").read_text(), re.MULTILINE)
    found = re.findall(
        r"value: <\d+ (\S+?)(?: \(phi\))? @\d+> \(size=(\d+),offset=\d+\): (.)",
        Path(f"{path}-buffer-assignment.txt").read_text(),
    )
    sizes = {
        name if name.endswith("}") else f"{name}{{}}": int(size)
        for name, size, first in found
        if first != "(" and not name.startswith("constant")
    }
    last = max(int(end) for _, _, end in ranges)
    return max(
        sum(sizes.get(name, 0) for name, first, end in ranges if int(first) <= t <= int(end))
        for t in range(last + 1)
    )
