"""``lowtide show`` of buffers: counts, sizes, parts, and what every allocation needs at least."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .output import emit_pairs, emit_table

if TYPE_CHECKING:
    from ..models.buffers import Buffers


def holds_buffers(spec: str) -> bool:
    """Return whether a specification names buffers: a file, or a set of the catalogue.

    Raises
    ------
    InstanceError
        If a JSON file cannot be read, or the catalogue has no such name.
    """
    from ..instances import parse_spec
    from ..instances.catalogue import is_buffers
    from ..instances.formats import BUFFER_SCHEMES, format_of
    from ..instances.formats.strict_json import parse_json, read_bytes

    parsed = parse_spec(spec)
    if parsed.scheme == "catalogue":
        return is_buffers(parsed.name)
    if parsed.scheme in BUFFER_SCHEMES:
        return True
    if parsed.scheme not in ("path", "native"):
        return False
    if parsed.scheme == "path" and format_of(parsed.name, buffers=True) is not None:
        return True
    if not parsed.name.lower().endswith((".json", ".json.gz")):
        return False
    data = parse_json(read_bytes(parsed.name), parsed.name)
    return isinstance(data, dict) and data.get("format") == "lowtide/buffers"


def describe(buffers: Buffers, source: str, largest: int) -> dict[str, Any]:
    """Return what ``show --json`` prints."""
    from ..formulations.offsets.data import offsets_data
    from ..solvers.offsets.bounds import lower_bound

    pools: dict[str, dict[str, Any]] = {}
    for pool, capacity in buffers.pools.items():
        members = [b for b in buffers.buffers if b.pool == pool]
        pools[pool] = {
            "buffers": len(members),
            "bytes": sum(b.size for b in members),
            "parts": 0,
            "sections": 0,
            "load": 0,
            "bound": 0,
            "capacity": capacity,
        }
    for data in offsets_data(buffers):
        of = pools[data.pool]
        of["parts"] += 1
        of["sections"] += data.sections
        of["load"] = max(of["load"], int(data.load.max()) * data.unit)
        of["bound"] = max(of["bound"], lower_bound(data) * data.unit)
    by_size = sorted(buffers.buffers, key=lambda b: (-b.size, b.id))
    return {
        "source": source,
        "name": buffers.name,
        "sha256": buffers.sha256,
        "buffers": len(buffers.buffers),
        "bytes": sum(b.size for b in buffers.buffers),
        "aligned": sum(b.alignment > 1 for b in buffers.buffers),
        "fixed": sum(b.offset is not None for b in buffers.buffers),
        "hinted": sum(b.hint is not None for b in buffers.buffers),
        "hinted_height": _hinted_height(buffers),
        "with_gaps": sum(bool(b.gaps) for b in buffers.buffers),
        "inplace": len(buffers.inplace),
        "pools": pools,
        "largest": [
            {"id": b.id, "pool": b.pool, "lower": b.lower, "upper": b.upper, "size": b.size}
            for b in by_size[:largest]
        ],
    }


def _hinted_height(buffers: Buffers) -> int | None:
    """Return the bytes that all hints together need; None if a buffer has none, or they are no allocation."""
    from ..models.verifier.allocation import verify_allocation

    hints = {b.id: b.hint for b in buffers.buffers if b.hint is not None}
    if len(hints) < len(buffers.buffers):
        return None
    verdict = verify_allocation(buffers, hints)
    return sum(verdict.heights.values()) if verdict.valid else None


def print_description(about: dict[str, Any]) -> None:
    """Print it for people."""
    from ..models.units import exact_bytes, format_bytes

    rows = [
        ("buffers", about["name"]),
        ("source", about["source"]),
        ("sha256", about["sha256"]),
        ("count", f"{about['buffers']:,}"),
        ("bytes", exact_bytes(about["bytes"])),
    ]
    for key, text in (
        ("aligned", "with an alignment"),
        ("fixed", "at a fixed offset"),
        ("hinted", "with a hint"),
        ("with_gaps", "with gaps"),
        ("inplace", "in-place pairs"),
    ):
        if about[key]:
            height = about["hinted_height"] if key == "hinted" else None
            need = "" if height is None else f"; the hints need {exact_bytes(height)}"
            rows.append((key.replace("_", " "), f"{about[key]:,} {text}{need}"))
    emit_pairs(rows)
    emit_table(
        ["pool", "buffers", "parts", "sections", "max load", "bound", "capacity"],
        [
            [
                pool or "-",
                f"{of['buffers']:,}",
                f"{of['parts']:,}",
                f"{of['sections']:,}",
                f"{of['load']:,}",
                f"{of['bound']:,}",
                "-" if of["capacity"] is None else f"{of['capacity']:,}",
            ]
            for pool, of in about["pools"].items()
        ],
        title="pools, in bytes",
        right=("buffers", "parts", "sections", "max load", "bound", "capacity"),
    )
    if about["largest"]:
        emit_table(
            ["buffer", "lower", "upper", "bytes", "size"],
            [
                [b["id"], f"{b['lower']:,}", f"{b['upper']:,}", f"{b['size']:,}", format_bytes(b["size"])]
                for b in about["largest"]
            ],
            title="largest buffers",
            right=("lower", "upper", "bytes", "size"),
        )
