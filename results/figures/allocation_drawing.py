"""The parts of the picture of an allocation: rectangles in time and address, few or very many.

Up to `VECTOR` rectangles are shapes with a thin outline. More of them are painted into an image, where each
covers exactly its area: a pixel that ten buffers share has the mean of their colours, so that 60,000 buffers
are one small picture without false patterns.

Kinds of tensor have the colours of the memory profile. Sizes and lifetimes have six classes of a light
sequential scheme that stays distinct in grey and under every common kind of colour blindness ("YlGnBu" of
ColorBrewer, C. Brewer, without its darkest end). Neighbours of one class differ a little in lightness.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...models.arrays import Integers
from .figure import INK, plain
from .profile_drawing import shorten

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ...models.buffers import Buffers

VECTOR = 2000
"""Rectangles up to which each is a shape of its own."""

SCHEME = ("#FFF7C7", "#D5EEB3", "#97D6B9", "#54BDC1", "#2C96C1", "#2A62AC")
"""Of the classes, from small to large."""

_PIXELS = (1600, 800)
"""Width and height of the image at most; on a page 8 inches wide, 200 pixels to the inch."""
_SHADES = 8
"""Shades of a colour: more can hardly be told apart."""
_OUTLINES = (0.06, 0.2, 0.4)
"""Widths of outlines in points: of rectangles thinner than 1.5 points, than 3 points, and of others."""
_NAMED = 250
"""Names that are written at most, those of the largest rectangles first."""
_TEXT = 6.5
"""Size of the names in rectangles, in points."""
_CHARACTER = 0.56 * _TEXT  # width in points of a character, on average

Floats = NDArray[np.float64]


class Rectangles(NamedTuple):
    """Rectangles in time and address, one for each maximal stretch that a buffer occupies the same bytes.

    Attributes
    ----------
    owner
        Shape (n,): position of the buffer in ``Buffers.buffers``.
    begin, end, low, high
        Shape (n,): half-open times and half-open addresses in bytes.
    """

    owner: Integers
    begin: Integers
    end: Integers
    low: Integers
    high: Integers


class Timeline(NamedTuple):
    """How times become horizontal positions.

    Attributes
    ----------
    times
        Every time at which a buffer begins or ends, ascending.
    by_events
        Whether each of them is one step to the right of the one before, however long it takes.
    unit
        Times of one unit of a linear axis.
    """

    times: Integers
    by_events: bool
    unit: int

    def at(self, times: Integers) -> Floats:
        """Return the positions of times that are among those of the timeline."""
        if self.by_events:
            return np.searchsorted(self.times, times).astype(np.float64)
        return times / self.unit


def rectangles_of(buffers: Buffers, offsets: Mapping[str, int], pool: str) -> Rectangles:
    """Return what the buffers of a pool occupy at their addresses."""
    rows = [
        (i, begin, end, offsets[b.id] + low, offsets[b.id] + high)
        for i, b in enumerate(buffers.buffers)
        if b.pool == pool
        for begin, end, low, high in b.rectangles
    ]
    return Rectangles(*np.array(rows, dtype=np.int64).reshape(-1, 5).T)


def shared_rectangles(buffers: Buffers, offsets: Mapping[str, int], pool: str) -> Rectangles:
    """Return what in-place pairs occupy together, for their overlap counts once."""
    known = {b.id: b for b in buffers.buffers if b.pool == pool}
    rows = []
    for one, other in buffers.inplace:
        if one in known and other in known and offsets[one] == offsets[other]:
            for a in known[one].rectangles:
                for b in known[other].rectangles:
                    begin, end, low, high = max(a[0], b[0]), min(a[1], b[1]), max(a[2], b[2]), min(a[3], b[3])
                    if begin < end and low < high:
                        rows.append((-1, begin, end, low, high))
    return Rectangles(*np.array(rows, dtype=np.int64).reshape(-1, 5).T)


def load_of(rectangles: Rectangles, times: Integers) -> Integers:
    """Return the bytes that the rectangles sum to from each of the times on.

    Parameters
    ----------
    times
        Ascending, with every begin and end among them.
    """
    change = np.zeros(len(times), dtype=np.int64)
    sizes = rectangles.high - rectangles.low
    np.add.at(change, np.searchsorted(times, rectangles.begin), sizes)
    np.subtract.at(change, np.searchsorted(times, rectangles.end), sizes)
    return change.cumsum()


def classes(values: Sequence[int], base: int) -> tuple[Integers, list[int]]:
    """Return for each value its class, and the highest value of each class, a power of the base.

    There are as many as the scheme has colours at most, with equal ratios between all but the last.

    Examples
    --------
    >>> found, highest = classes([0, 5, 100, 1000], 2)
    >>> found.tolist(), highest
    ([0, 0, 2, 4], [8, 32, 128, 512, 1024])
    """
    positive = [v for v in values if v] or [1]
    first, last = _power(min(positive), base), _power(max(positive), base)
    step = max(1, -(-(last - first) // (len(SCHEME) - 1)))
    highest = [base**k for k in range(first, last, step)] + [base**last]
    return np.searchsorted(np.array(highest), np.array(values, dtype=np.int64)), highest


def _power(value: int, base: int) -> int:
    """Return the least power of the base that reaches the value."""
    power = 0
    while base**power < value:
        power += 1
    return power


def scheme(count: int) -> list[str]:
    """Return that many colours of the scheme, far apart; the palest only if all are needed.

    Examples
    --------
    >>> scheme(2)
    ['#D5EEB3', '#2A62AC']
    """
    last = len(SCHEME) - 1
    first = 0 if count > last else 1
    if count == 1:
        return [SCHEME[last // 2 + 1]]
    return [SCHEME[round(first + k * (last - first) / (count - 1))] for k in range(count)]


def shaded(colours: Sequence[str]) -> Floats:
    """Return red, green and blue in [0, 1] of each colour, a little lighter or darker by its position."""
    known = {c: [int(c[k : k + 2], 16) / 255 for k in (1, 3, 5)] for c in set(colours)}
    rgb = np.array([known[c] for c in colours]).reshape(-1, 3)
    # Multiples of the golden ratio are spread evenly however many there are, and neighbours lie far apart.
    shade = np.floor(np.arange(len(rgb)) * 0.618033988749895 % 1 * _SHADES)[:, None] / (_SHADES - 1)
    darker = rgb * (1 - 0.16 * np.maximum(shade - 0.5, 0) * 2)
    return np.asarray(darker + (1 - darker) * 0.28 * np.maximum(0.5 - shade, 0) * 2)


def draw_shapes(ax: Axes, corners: Floats, rgb: Floats) -> None:
    """Draw each rectangle as a shape: columns of `corners` are left, right, low and high.

    The outlines are as thin as the rectangles ask for: they tell neighbours apart, and hide none. Shapes of
    one look are one path, which makes a small file.
    """
    from matplotlib.collections import PathCollection
    from matplotlib.path import Path

    left, right, low, high = corners.T
    shapes = np.stack([left, low, right, low, right, high, left, high, left, low], axis=1).reshape(-1, 5, 2)
    thin = np.searchsorted(np.array([1.5, 3]), np.minimum(*_points(ax, corners)))
    looks, look_of = np.unique(np.column_stack([rgb, thin]), axis=0, return_inverse=True)
    codes = np.array([Path.MOVETO, Path.LINETO, Path.LINETO, Path.LINETO, Path.CLOSEPOLY], dtype=np.uint8)
    paths = []
    for k in range(len(looks)):
        chosen = shapes[look_of.reshape(-1) == k]
        paths.append(Path(chosen.reshape(-1, 2), np.tile(codes, len(chosen))))
    ax.add_collection(
        PathCollection(
            paths,
            facecolors=looks[:, :3],
            edgecolors=looks[:, :3] * 0.62,
            linewidths=[_OUTLINES[int(k)] for k in looks[:, 3]],
            joinstyle="miter",
            zorder=2,
        ),
        autolim=False,
    )


def _points(ax: Axes, corners: Floats) -> tuple[Floats, Floats]:
    """Return width and height of each rectangle in points (before a layout engine moves the axes: about)."""
    box, per_point = ax.get_window_extent(), ax.figure.dpi / 72
    (x0, x1), (y0, y1) = ax.get_xlim(), ax.get_ylim()
    across = (corners[:, 1] - corners[:, 0]) / (x1 - x0) * box.width / per_point
    up = (corners[:, 3] - corners[:, 2]) / (y1 - y0) * box.height / per_point
    return across, up


def draw_image(ax: Axes, corners: Floats, rgb: Floats) -> None:
    """Draw the rectangles as an image over the limits of the axes."""
    (x0, x1), (y0, y1) = ax.get_xlim(), ax.get_ylim()
    scale = np.array([(x0, x1), (x0, x1), (y0, y1), (y0, y1)])
    cells = np.array([_PIXELS[0], _PIXELS[0], _PIXELS[1], _PIXELS[1]])
    pixels = (corners - scale[:, 0]) / (scale[:, 1] - scale[:, 0]) * cells
    ax.imshow(
        painted(pixels, rgb, *_PIXELS),
        extent=(x0, x1, y0, y1),
        origin="lower",
        aspect="auto",
        interpolation="antialiased",
        interpolation_stage="rgba",
        zorder=2,
    )


def painted(corners: Floats, rgb: Floats, width: int, height: int) -> NDArray[np.uint8]:
    """Return an image with an alpha channel of rectangles, each covering exactly its area.

    Parameters
    ----------
    corners
        Shape (n, 4): left, right, low and high in pixels, within the image.
    rgb
        Shape (n, 3), in [0, 1].
    width, height
        Of the image. The first row is the lowest.

    Examples
    --------
    >>> import numpy as np
    >>> painted(np.array([[0, 1.5, 0, 1]]), np.array([[1.0, 0.0, 0.0]]), 2, 1).tolist()
    [[[255, 0, 0, 255], [255, 0, 0, 128]]]
    """
    colour = np.zeros((height, width, 3), dtype=np.float32)
    cover = np.zeros((height, width), dtype=np.float32)
    dark = rgb * 0.62
    for (left, right, low, high), face, edge in zip(corners.tolist(), rgb, dark, strict=True):
        rows, columns = shares(low, high, height), shares(left, right, width)
        area = rows[1][:, None] * columns[1][None, :]
        place = (slice(*rows[0]), slice(*columns[0]))
        cover[place] += area
        tint = area[:, :, None] * face
        if right - left >= 6 and high - low >= 5:
            # The left and the upper edge of what is large enough to have one.
            tint[-1] += (edge - face) * (0.7 * area[-1, :, None])
            tint[:, 0] += (edge - face) * (0.7 * area[:, 0, None])
        colour[place] += tint
    image = np.zeros((height, width, 4), dtype=np.uint8)
    filled = np.maximum(cover, 1e-9)[:, :, None]
    image[:, :, :3] = np.clip(colour / filled * 255 + 0.5, 0, 255)
    image[:, :, 3] = np.clip(cover * 255 + 0.5, 0, 255)
    image[cover < 1 / 512] = 0
    return image


def shares(first: float, last: float, count: int) -> tuple[tuple[int, int], Floats]:
    """Return the pixels, of so many, that an interval meets, and which part of each it covers.

    Examples
    --------
    >>> pixels, parts = shares(1.5, 3.25, 8)
    >>> pixels, parts.tolist()
    ((1, 4), [0.5, 1.0, 0.25])
    """
    begin, end = int(first), min(max(int(np.ceil(last)), int(first) + 1), count)
    begin = min(begin, count - 1)
    parts = np.ones(end - begin)
    parts[0] -= first - begin
    parts[-1] -= max(end - last, 0)
    return (begin, end), np.maximum(parts, 0)


def write_names(ax: Axes, corners: Floats, names: Sequence[str], rgb: Floats) -> None:
    """Write names into the rectangles that have room for them, across or upright, the largest first."""
    across, up = _points(ax, corners)
    across, up = across - 3, up - 2
    light = rgb @ (0.299, 0.587, 0.114)
    written = 0
    for i in np.argsort(-across * up, kind="stable").tolist():
        upright = across[i] < min(len(names[i]), 4) * _CHARACTER
        along, aside = (up[i], across[i]) if upright else (across[i], up[i])
        room = int(along / _CHARACTER)
        if aside < _TEXT or not names[i] or room < min(len(names[i]), 5):
            continue
        ax.text(
            (corners[i, 0] + corners[i, 1]) / 2,
            (corners[i, 2] + corners[i, 3]) / 2,
            plain(shorten(names[i], room)),
            ha="center",
            va="center",
            fontsize=_TEXT,
            rotation=90 if upright else 0,
            color=INK if light[i] > 0.5 else "white",
            zorder=3,
            clip_on=True,
        )
        written += 1
        if written == _NAMED:
            return


def short_name(name: str) -> str:
    """Return the id of a buffer without what a picture says anyhow: the index, the memory, the time.

    Examples
    --------
    >>> short_name("3:conv1.weight[0:64]@gpu@1200"), short_name("b12")
    ('conv1.weight[0:64]', 'b12')
    """
    match = re.fullmatch(r"\d+:(.+)@[^@]*@\d+(?:#\d+)?", name)
    return match[1] if match else name
