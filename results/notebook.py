"""What notebooks show: small HTML tables, and the picture that suits what is shown.

Tables, memory profiles and machines need no package; colours of their text and lines are the page's own
(``currentColor``), so that dark themes work too. Other pictures are those of `lowtide.plot`, where matplotlib
is installed. The classes are raw data that know nothing of this module: it gives them their ``_repr_html_``,
and to results `plot` and `to_frame`.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable
from html import escape
from typing import TYPE_CHECKING

from ..models.buffers import Buffers
from ..models.errors import BackendUnavailable, InstanceError, UsageError
from ..models.graph import Graph
from ..models.machine import Machine
from ..models.plan import Plan
from ..models.result import Result
from ..models.units import exact_bytes, exact_value, format_bytes, format_duration, format_gap
from .result_picture import picture_of, plot_result, rendered_picture

if TYPE_CHECKING:
    import pandas as pd

    from ..models.derived.profile import MemoryProfile

_WIDTH, _HEIGHT = 560, 150
"""Width and height of the picture in pixels; a notebook's cell is wider."""
_COLUMNS = _WIDTH  # steps that cannot be told apart are not drawn
_AREA = "#77AADD"
_REFERENCE = "#AA3377"


def graph_html(graph: Graph) -> str:
    """Return the counts and sizes of a graph."""
    summary = graph.summary()
    head = (
        f"<b>{escape(graph.name)}</b> &middot; {summary['ops']:,} ops &middot; "
        f"{summary['tensors']:,} tensors &middot; {escape(exact_bytes(summary['bytes']))} &middot; "
        f"{escape(summary['accounting'])}"
    )
    most = max(summary["bytes_by_kind"].values(), default=1)
    rows = [
        (
            escape(kind),
            f"{sum(t.kind == kind for t in graph.tensors):,}",
            escape(format_bytes(nbytes)),
            _bar(nbytes / most),
        )
        for kind, nbytes in summary["bytes_by_kind"].items()
    ]
    dropped = "".join(
        f"<div><small>{escape(kinds)}: 0 bytes counted of {escape(exact_bytes(lost))}</small></div>"
        for kinds, lost in graph.dropped_bytes.items()
    )
    table = _table(("kind", "tensors", "size", ""), rows, right=(1, 2)) if rows else ""
    return f"<div>{head}{table}{dropped}</div>"


def result_html(result: Result) -> str:
    """Return what was found and proved, and the picture of its problem if there is an answer."""
    rows = [
        ("method", escape(result.method) + (" with added rows" if result.constrained else "")),
        ("status", f"<b>{escape(str(result.status))}</b>" + _stopped(result)),
    ]
    if result.detail:
        rows.append(("detail", escape(result.detail)))
    if result.objective is not None:
        rows.append((escape(result.problem), escape(exact_value(result.objective, result.unit))))
    if result.bound is not None:
        rows.append(("bound", escape(exact_value(result.bound, result.unit))))
        rows.append(("gap", escape(format_gap(result.gap))))
    if result.durations is not None:
        rows.append(("durations", escape(result.durations)))
    rows.append(("seconds", ", ".join(f"{escape(k)} {v:.2f}" for k, v in result.seconds.items())))
    picture = ""
    if picture_of(result) not in ("", "profile"):
        picture = _image(result)
    elif result.plan is not None and result.graph is not None:
        picture = profile_svg(result.graph, result.plan, result.bound)
    return f"<div><b>{escape(result.instance)}</b>{_table((), rows)}{picture}</div>"


def plan_html(plan: Plan) -> str:
    """Return the counts of a plan's actions."""
    end = max([0, *(run.end for run in plan.runs), *(copy.end for copy in plan.copies)])
    rows = [
        ("machine", escape(", ".join(t.name for t in plan.machine.tiers))),
        ("runs", f"{len(plan.runs):,}"),
        ("copies", f"{len(plan.copies):,}"),
        ("frees", f"{len(plan.frees):,}"),
        ("makespan", escape(format_duration(end if plan.period is None else plan.period))),
    ]
    return f"<div><b>plan for {escape(plan.graph_name) or 'a graph'}</b>{_table((), rows)}</div>"


def machine_html(machine: Machine) -> str:
    """Return a picture of tiers, processors and channels, and the numbers of those."""
    from .machine_svg import machine_svg

    tiers = [
        (escape(t.name), "unlimited" if t.capacity is None else escape(exact_bytes(t.capacity)))
        for t in machine.tiers
    ]
    channels = [
        (escape(f"{c.src} → {c.dst}"), escape(f"{format_bytes(c.bytes_per_s)}/s"), _latency(c.latency_ns))
        for c in machine.channels
    ]
    table = _table(("channel", "rate", "latency"), channels, right=(1, 2)) if channels else ""
    return (
        f"<div><b>{escape(machine.name)}</b>{machine_svg(machine)}"
        f"{_table(('tier', 'capacity'), tiers, right=(1,))}{table}</div>"
    )


def buffers_html(buffers: Buffers) -> str:
    """Return counts and sizes, and a picture: of the load, or of the addresses where all buffers have one."""
    every = buffers.buffers
    rows = [
        ("buffers", f"{len(every):,}"),
        ("bytes", escape(exact_bytes(sum(b.size for b in every)))),
        ("in-place pairs", f"{len(buffers.inplace):,}"),
    ]
    for pool, capacity in sorted(buffers.pools.items()):
        text = "unlimited" if capacity is None else escape(exact_bytes(capacity))
        rows.append((f"capacity{f' of {escape(pool)}' if pool else ''}", text))
    placed = bool(every) and all(b.offset is not None for b in every)
    picture = (_image(buffers) if placed else "") or load_svg(buffers)
    return f"<div><b>{escape(buffers.name) or 'buffers'}</b>{_table((), rows)}{picture}</div>"


def load_svg(buffers: Buffers) -> str:
    """Return an inline SVG of the bytes that are alive at each time, of all pools together."""
    import numpy as np

    from ..models.derived.profile import MemoryProfile

    change: dict[int, int] = {}
    for b in buffers.buffers:
        for lower, upper, low, high in b.rectangles:
            change[lower] = change.get(lower, 0) + high - low
            change[upper] = change.get(upper, 0) - high + low
    times = np.array(sorted(change), dtype=np.int64)
    load = np.cumsum([change[t] for t in times.tolist()], dtype=np.int64)[:-1]
    if not load.any():
        return ""
    memory = MemoryProfile("", times, {"other": load}, load)
    top = int(load.max())
    path = f'<path d="{_path(memory, top, closed=True)}" fill="{_AREA}"/>'
    return _drawing([path, _level(top, top, "")], f"alive over time: at most {format_bytes(top)} at once")


def _latency(ns: int) -> str:
    return escape(format_duration(ns)) if ns else "none"


def _image(item: Result | Buffers) -> str:
    """Return the picture of `lowtide.plot`; nothing if there is none to draw or no package to draw it."""
    try:
        svg = rendered_picture(item)
    except (BackendUnavailable, InstanceError, UsageError):
        return ""
    data = b64encode(svg).decode()
    return f'<div><img alt="picture" style="max-width:100%" src="data:image/svg+xml;base64,{data}"/></div>'


def profile_svg(graph: Graph, plan: Plan, bound: int | None = None) -> str:
    """Return an inline SVG: memory of the plan as an area, reference order as a line, peak and bound.

    Empty if the plan does not lead to a profile (a plan that does not verify).
    """
    from ..models.derived.profile import (
        memory_profile,
        reference_profile,
    )  # numpy, which `import lowtide` does without

    try:
        memory = memory_profile(graph, plan)
    except InstanceError:
        return ""
    if not memory.peak:
        return ""
    reference = reference_profile(graph, plan)
    top = max(memory.peak, bound or 0, reference.peak if reference is not None else 0)
    parts = [f'<path d="{_path(memory, top, closed=True)}" fill="{_AREA}"/>']
    words = [f"peak {format_bytes(memory.peak)}"]
    if reference is not None and reference.total.tolist() != memory.total.tolist():
        line = _path(reference, top, closed=False)
        parts.append(f'<path d="{line}" fill="none" stroke="{_REFERENCE}" stroke-width="0.8"/>')
        words.append(f"reference order {format_bytes(reference.peak)} (line)")
    parts.append(_level(memory.peak, top, ""))
    if bound is not None and bound != memory.peak:
        parts.append(_level(bound, top, ' stroke-dasharray="4 3"'))
        words.append(f"bound {format_bytes(bound)} (dashed)")
    elif bound is not None:
        words[0] = f"peak = bound {format_bytes(bound)}"
    return _drawing(parts, f"memory over time: {', '.join(words)}")


def _drawing(parts: list[str], words: str) -> str:
    """Return the SVG of paths over a base line, and what it shows in words below."""
    caption = escape(words)
    baseline = f'<path d="M0 {_HEIGHT}H{_WIDTH}" stroke="currentColor" stroke-width="0.8"/>'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 -4 {_WIDTH} {_HEIGHT + 26}" width="{_WIDTH}" '
        f'height="{_HEIGHT + 26}" role="img" style="max-width:100%"><title>{caption}</title>'
        f"{''.join(parts)}{baseline}"
        f'<text x="0" y="{_HEIGHT + 16}" font-size="11" font-family="sans-serif" fill="currentColor">'
        f"{caption}</text></svg>"
    )


def _path(memory: MemoryProfile, top: int, *, closed: bool) -> str:
    """Return the SVG path of a step function over the whole width."""
    thin = memory.thin(_COLUMNS)
    x = (thin.times - thin.times[0]) / max(int(thin.times[-1] - thin.times[0]), 1) * _WIDTH
    y = _HEIGHT - thin.total / top * _HEIGHT
    steps = "".join(f"V{b:.1f}H{c:.1f}" for b, c in zip(y, x[1:], strict=True))
    return f"M0 {_HEIGHT}{steps}V{_HEIGHT}" + ("Z" if closed else "")


def _level(nbytes: int, top: int, dashes: str) -> str:
    y = _HEIGHT - nbytes / top * _HEIGHT
    return f'<path d="M0 {y:.1f}H{_WIDTH}" stroke="currentColor" stroke-width="0.8"{dashes}/>'


def _stopped(result: Result) -> str:
    return f" ({escape(result.reason)})" if result.reason is not None else ""


def _bar(share: float) -> str:
    width = max(1, round(120 * share))
    return f'<div style="width:{width}px;height:9px;background:{_AREA}"></div>'


def _table(columns: Iterable[str], rows: Iterable[tuple[str, ...]], right: tuple[int, ...] = ()) -> str:
    """Return a table of cells that are HTML already."""

    def cells(values: Iterable[str], tag: str) -> str:
        return "".join(
            f'<{tag} style="text-align:{"right" if k in right else "left"};padding:0 .5em">{value}</{tag}>'
            for k, value in enumerate(values)
        )

    names = list(columns)
    head = f"<thead><tr>{cells(names, 'th')}</tr></thead>" if names else ""
    body = "".join(f"<tr>{cells(row, 'td')}</tr>" for row in rows)
    return f"<table>{head}<tbody>{body}</tbody></table>"


def to_frame(result: Result) -> pd.DataFrame:
    """Return the answer as a pandas frame; see `lowtide.results.frames.result_frame`.

    Examples
    --------
    >>> import lowtide as lt
    >>> frame = lt.solve(lt.Peak(lt.load("catalogue:diamond")), "greedy").to_frame()
    >>> len(frame[frame.action == "run"])
    4
    """
    from .frames import result_frame

    return result_frame(result)


Graph._repr_html_ = graph_html
Plan._repr_html_ = plan_html
Machine._repr_html_ = machine_html
Buffers._repr_html_ = buffers_html
Result._repr_html_ = result_html
Result.plot = plot_result
Result.to_frame = to_frame
