"""A machine as a small inline SVG: tiers from the fastest to the last, processors above, channels between."""

from __future__ import annotations

from html import escape

from ..models.machine import Channel, Machine
from ..models.units import format_bytes

_BOX, _GAP, _HIGH = 110, 96, 44
"""Width of a tier's box, the gap between two, and the box's height, in pixels."""
_PROCESSOR, _ROW = 30, 26
"""Heights of a processor and of its row in pixels."""
_MOST = 12
"""Processors that a picture shows one by one."""
_FILL, _LINE = "#77AADD", "#EE8866"


def machine_svg(machine: Machine) -> str:
    """Return the picture; colours of text and lines are the page's own.

    A processor stands above its home tier. A channel between neighbours is an arrow between their boxes;
    others are arcs below, one for both directions, with the rates there / back.
    """
    place = {tier.name: k for k, tier in enumerate(machine.tiers)}
    homes: dict[int, list[str]] = {}
    for p in machine.processors[:_MOST]:
        homes.setdefault(place[p.tiers[0].tier], []).append(p.name)
    if len(machine.processors) > _MOST:
        homes.setdefault(0, []).append(f"… {len(machine.processors) - _MOST} more")
    top = _ROW * max((len(some) for some in homes.values()), default=0) + 14
    pairs: dict[tuple[int, int], list[Channel]] = {}
    for c in machine.channels:
        a, b = sorted((place[c.src], place[c.dst]))
        pairs.setdefault((a, b), []).append(c)
    far = sorted((pair for pair in pairs if pair[1] - pair[0] > 1), key=lambda pair: pair[1] - pair[0])
    width = len(machine.tiers) * (_BOX + _GAP) - _GAP + 4
    height = top + _HIGH + 8 + 30 * len(far)
    parts = []
    for k, tier in enumerate(machine.tiers):
        x = 2 + k * (_BOX + _GAP)
        size = "unlimited" if tier.capacity is None else format_bytes(tier.capacity)
        for row, name in enumerate(reversed(homes.get(k, []))):
            y = top - _ROW * (row + 1) - 10
            parts.append(_box(x + 12, y, _BOX - 24, _ROW - 6, _LINE) + _text(x + _BOX / 2, y + 14, name))
        if k in homes:
            parts.append(_line(x + _BOX / 2, top - 16, x + _BOX / 2, top))
        parts.append(_box(x, top, _BOX, _HIGH, _FILL))
        parts.append(
            _text(x + _BOX / 2, top + 18, tier.name, bold=True) + _text(x + _BOX / 2, top + 34, size)
        )
    for (a, b), some in sorted(pairs.items()):
        ahead = [c for c in some if place[c.src] == a]
        back = [c for c in some if place[c.src] == b]
        x, end = 2 + a * (_BOX + _GAP) + _BOX, 2 + b * (_BOX + _GAP)
        if b - a == 1:
            for found, y, flip in ((ahead, top + 14, False), (back, top + 32, True)):
                for c in found:
                    parts.append(_arrow(end - 3, y, x + 3) if flip else _arrow(x + 3, y, end - 3))
                    parts.append(_text((x + end) / 2, y - 4, _rate(c)))
            continue
        row = far.index((a, b))
        y, left, right = top + _HIGH + 26 + 30 * row, x - 18 - 14 * row, end + 18 + 14 * row
        parts.append(
            f'<path d="M{left} {top + _HIGH}V{y}H{right}V{top + _HIGH}" fill="none" stroke="currentColor"/>'
        )
        rates = [_rate(c) for c in (*ahead, *back)]
        words = f"{rates[0]} each way" if len(rates) == 2 and rates[0] == rates[1] else " / ".join(rates)
        parts.append(_text((left + right) / 2, y - 5, words, most=40))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" role="img" style="max-width:100%;display:block">'
        f"<title>{escape(machine.name)}</title>{''.join(parts)}</svg>"
    )


def _rate(channel: Channel) -> str:
    return f"{format_bytes(channel.bytes_per_s)}/s"


def _box(x: float, y: float, width: float, height: float, colour: str) -> str:
    return (
        f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="4" fill="{colour}" '
        f'fill-opacity="0.35" stroke="{colour}"/>'
    )


def _text(x: float, y: float, words: str, *, bold: bool = False, most: int = 18) -> str:
    weight = ' font-weight="bold"' if bold else ""
    shown = words if len(words) <= most else f"{words[: most - 1]}…"
    return (
        f'<text x="{x:g}" y="{y:g}" text-anchor="middle" font-size="11" font-family="sans-serif" '
        f'fill="currentColor"{weight}>{escape(shown)}</text>'
    )


def _line(x: float, y: float, end: float, low: float) -> str:
    return f'<path d="M{x:g} {y:g}L{end:g} {low:g}" stroke="currentColor"/>'


def _arrow(x: float, y: float, end: float) -> str:
    back = 6 if end < x else -6
    head = f"M{end + back:g} {y - 3:g}L{end:g} {y:g}L{end + back:g} {y + 3:g}"
    return f'<path d="M{x:g} {y:g}H{end:g}{head}" fill="none" stroke="currentColor"/>'
