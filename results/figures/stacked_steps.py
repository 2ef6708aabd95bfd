"""Stacked step functions as few vertices as a page can show.

Every layer is one polygon from the base line up to the sum of the layers below it and itself; lower layers
lie in front of higher ones, so that no seam shows between them. A step is left out where the sum differs
from what is drawn already by less than can be seen, and a layer where it is thinner than that.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FloatArray = NDArray[np.float64]


def draw_stack(
    ax: Axes,
    edges: FloatArray,
    layers: Mapping[str, FloatArray],
    colours: Mapping[str, str],
    *,
    least: float,
    base: float = 0.0,
    unit: float = 1.0,
) -> None:
    """Draw the layers, from the bottom of the stack to its top.

    Parameters
    ----------
    edges
        Where steps begin and the last one ends, shape (n + 1,), in units of the horizontal axis.
    layers
        Heights of each label's steps, shape (n,).
    colours
        By label; a leading underscore (which keeps a label out of legends) does not count.
    least
        The smallest height that can be seen.
    base, unit
        Where on the vertical axis height 0 is, and how long height 1 is.
    """
    total = np.zeros(len(edges) - 1)
    for number, (label, heights) in enumerate(layers.items()):
        total = total + heights
        x, y = thinned(edges, np.where(heights > least, total, 0.0), least)
        ax.fill(
            np.repeat(x, 2),
            base + unit * np.concatenate(([0.0], np.repeat(y, 2), [0.0])),
            label=label,
            facecolor=colours[label.removeprefix("_")],
            linewidth=0,
            zorder=2 - number / 100,
        )


def thinned(edges: FloatArray, heights: FloatArray, least: float) -> tuple[FloatArray, FloatArray]:
    """Return edges and heights without the steps that change what is drawn by no more than `least`.

    The highest step is kept.

    Examples
    --------
    >>> import numpy as np
    >>> x, y = thinned(np.arange(5.0), np.array([1.0, 1.01, 3.0, 3.0]), least=0.1)
    >>> x.tolist(), y.tolist()
    ([0.0, 2.0, 4.0], [1.0, 3.0])
    """
    kept = [0]
    shown, highest = heights[0], int(heights.argmax())
    for k, height in enumerate(heights.tolist()):
        if abs(height - shown) > least or (k == highest and height != shown):
            kept.append(k)
            shown = height
    return np.append(edges[kept], edges[-1]), heights[kept]
