"""Figures: empty ones, and files of them that are the same whenever the picture is."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...models.errors import BackendUnavailable, UsageError
from ...models.files import write_whole
from ...models.texts import printable
from .svg_paths import compact_paths

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FILE_KINDS = ("svg", "png", "pdf")
"""The endings that `save` knows."""

INK, GREY, FAINT = "#222222", "#777777", "#E6E6E6"
TEXT = 8.5
"""Size of text in points, on a page as in a paper."""

INCHES = (8.0, 4.4)
"""Width and height of a figure, unless it needs another."""


def name_axes(ax: Axes, x_name: str, y_name: str, grid: str = "both") -> None:
    """Name the axes, and set their ticks, grid and spines."""
    ax.set_xlabel(plain(x_name), color=INK, fontsize=9)
    ax.set_ylabel(plain(y_name), color=INK, fontsize=9)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        ax.spines[side].set_color(GREY)
    ax.tick_params(which="both", colors=GREY, labelcolor=INK, labelsize=TEXT)
    ax.grid(axis=grid, color=FAINT, linewidth=0.6, zorder=0)  # type: ignore[arg-type]
    ax.set_axisbelow(True)


def save(ax: Axes, path: str | os.PathLike[str]) -> None:
    """Write the figure of the axes as SVG, PNG or PDF, by the ending of the path.

    The same picture always gives the same bytes; the file is written whole or not at all.

    Raises
    ------
    UsageError
        If the ending is another one, or the path cannot be written.
    """
    write_whole(path, rendered(ax, file_kind(path)))


def rendered(ax: Axes, kind: str) -> bytes:
    """Return the figure of the axes as one of `FILE_KINDS`; the same picture gives the same bytes."""
    import matplotlib

    metadata: dict[str, dict[str, Any]] = {
        "svg": {"Date": None},
        "pdf": {"CreationDate": None},
        "png": {"Software": None},
    }
    figure = ax.get_figure(root=True)
    assert figure is not None
    buffer = io.BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": "lowtide", "pdf.fonttype": 42}):
        figure.savefig(buffer, format=kind, dpi=200, metadata=metadata[kind])
    if kind == "svg":
        return compact_paths(buffer.getvalue().decode()).encode()
    return buffer.getvalue()


def plain(text: str) -> str:
    r"""Return a text that matplotlib shows as it is: no mathematics, nothing that steers, no hidden label.

    Examples
    --------
    >>> from lowtide.results.figures.figure import plain
    >>> print(plain("cost $x_1$"))
    cost \$x_1\$
    """
    text = printable(text).replace("$", r"\$")
    return f" {text}" if text.startswith("_") else text  # legends leave out labels that begin with _


def new_axes(inches: tuple[float, float] = INCHES) -> Axes:
    """Return empty axes of a figure that belongs to no window.

    Raises
    ------
    BackendUnavailable
        If matplotlib is not installed.
    """
    return new_figure(inches).subplots()


def new_figure(inches: tuple[float, float] = INCHES) -> Figure:
    """Return an empty figure that belongs to no window.

    Raises
    ------
    BackendUnavailable
        If matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise _no_matplotlib() from None
    return Figure(figsize=inches, layout="constrained")


def pyplot_figure(inches: tuple[float, float] = INCHES) -> Figure:
    """Return an empty figure of pyplot, which notebooks and windows show.

    Raises
    ------
    BackendUnavailable
        If matplotlib is not installed.
    """
    try:
        from matplotlib import pyplot
    except ImportError:
        raise _no_matplotlib() from None
    return pyplot.figure(figsize=inches, layout="constrained")


def file_kind(path: str | os.PathLike[str]) -> str:
    """Return the kind of picture that the ending of a path names; raise `UsageError` if none does."""
    ending = Path(path).suffix
    kind = ending.lower().removeprefix(".")
    if kind not in FILE_KINDS:
        expected = ", ".join(f".{k}" for k in FILE_KINDS)
        raise UsageError(f"{os.fspath(path)}: found ending {ending!r}, expected one of {expected}")
    return kind


def _no_matplotlib() -> BackendUnavailable:
    return BackendUnavailable(
        "matplotlib: found no such package, expected it for pictures (pip install 'lowtide[plot]')"
    )
