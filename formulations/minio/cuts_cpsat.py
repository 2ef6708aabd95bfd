r"""Least I/O over all orders without places: bytes to write, and cuts that rule out what no order can do.

Data: see `data`, in units. A *part* j of node :math:`v_j` has :math:`f_j` units: all files of the node
together where they are divisible, else each file. A *cut* c says of a subtree that its least peak is
:math:`g_c > 0` units above M even if of the files of node v only :math:`s_{cv}` units wait
(`lowtide.solvers.minio.waiting`); they are shared out among the parts of v, :math:`s_{cj}` each.

Variables. Divisible files: :math:`w_j \in [0, f_j]`, the units that are written;
:math:`t_{js} \in [0, s]` and :math:`b_{js} \in \{0, 1\}` for each s with :math:`0 < s < f_j` that a cut has
for part j. Whole files: :math:`w_j = f_j z_j` with :math:`z_j \in \{0, 1\}`.

Objective. Minimize :math:`\sum_j w_j` subject to

1. :math:`\sum_j t_{cj} \ge g_c` for each cut, where :math:`t_{cj}` is :math:`w_j` if :math:`s_{cj} = f_j`,
   :math:`s_{cj} z_j` for whole files, and :math:`t_{js}` with :math:`s = s_{cj}` else;
2. :math:`t_{js} \le s\, b_{js}` and :math:`t_{js} + (f_j - s)\, b_{js} \le w_j`, so that
   :math:`t_{js} \le \max(0, w_j - (f_j - s))`; without integrality, :math:`t_{js} \le w_j s / f_j`, which is
   the concave hull;
3. (a cutoff) :math:`\sum_j w_j \le U - 1` where a traversal that writes U units is known.

All w that some order can write meet all cuts; a w that none can is ruled out by a cut with
:math:`s \le f - w`. Each solution is tested by Liu's algorithm, so the loop of `solve` and test is a
*logic-based Benders decomposition*: J. N. Hooker, G. Ottosson, "Logic-based Benders decomposition",
Mathematical Programming 96 (2003). The cuts are this project's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..model import CPSAT_BYTES
from .data import MinIOData

ENGINE = "cpsat"
BYTES_PER_TERM = CPSAT_BYTES

Waiting = Mapping[int, int]
"""By node: bytes of its files that wait."""


@dataclass(kw_only=True)
class CutMaster:
    """The CP-SAT model, which grows by cuts, and what its variables mean.

    Attributes
    ----------
    parts
        By node: its parts.
    size
        By part, in units.
    written
        By part: w, or z of whole files.
    terms
        By part and s: t.
    """

    model: Any
    data: MinIOData
    parts: list[list[int]] = field(default_factory=list)
    size: list[int] = field(default_factory=list)
    written: list[Any] = field(default_factory=list)
    terms: dict[tuple[int, int], Any] = field(default_factory=dict)

    @property
    def total(self) -> Any:
        """The objective."""
        return sum(self.size[j] * w if self.data.whole else w for j, w in enumerate(self.written))


Cut = tuple[tuple[tuple[int, int], ...], int]
"""Parts with their s in units, and the gain in bytes."""


def build(data: MinIOData, cuts: Iterable[Cut] = ()) -> CutMaster:
    """Return the model of some cuts; its objective is in units."""
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    model.name = "minio by cuts"
    built = CutMaster(model=model, data=data)
    for v in range(data.n):
        sizes = [data.size[k] for k in data.files_of[v]] if data.whole else [data.out[v]]
        first = len(built.size)
        built.size += [size // data.unit for size in sizes if size and data.parent[v] >= 0]
        built.parts.append(list(range(first, len(built.size))))
    for j, size in enumerate(built.size):
        built.written.append(model.new_int_var(0, 1 if data.whole else size, f"w{j}"))
    model.minimize(built.total)
    for cut in cuts:
        add_cut(built, *cut)
    return built


def shares(built: CutMaster, waiting: Waiting, written: Mapping[int, int]) -> tuple[tuple[int, int], ...]:
    """Return the parts of a cut with their s, in units.

    Parameters
    ----------
    waiting
        s of the cut, in bytes.
    written
        By part: units that are written of it in the solution that the cut rules out; only the rest waits.
    """
    parts = []
    for v, nbytes in waiting.items():
        left = nbytes // built.data.unit
        for j in built.parts[v]:
            s = min(left, built.size[j] - written.get(j, 0))
            if s:
                parts.append((j, s))
                left -= s
        if left:
            raise ValueError(f"cut: found {left} units of node {v} beyond what waits")
    return tuple(parts)


def add_cut(built: CutMaster, parts: Sequence[tuple[int, int]], gain: int) -> None:
    """Add a cut (1) of some parts with their s in units, and a gain in bytes."""
    built.model.add(sum(_term(built, j, s) for j, s in parts) >= gain // built.data.unit)


def part_bytes(built: CutMaster, written: Sequence[int]) -> list[int]:
    """Return the bytes that are written of each part, from those of each file; no more than the file has."""
    data, of_parts = built.data, [0] * len(built.size)
    for v, parts in enumerate(built.parts):
        nbytes = [min(written[k], data.size[k]) for k in data.files_of[v]]
        for j, some in zip(parts, nbytes if data.whole else [sum(nbytes)], strict=False):
            of_parts[j] = some
    return of_parts


def is_met(built: CutMaster, parts: Sequence[tuple[int, int]], gain: int, by_part: Sequence[int]) -> bool:
    """Return whether bytes that are written of each part meet a cut of `add_cut`, by its formula."""
    return sum(max(0, by_part[j] - (built.size[j] - s) * built.data.unit) for j, s in parts) >= gain


def _term(built: CutMaster, j: int, s: int) -> Any:
    """Return what part j counts in a cut that has s units of it wait (2)."""
    w, size, model = built.written[j], built.size[j], built.model
    if built.data.whole:
        return s * w
    if s == size:
        return w
    if (j, s) not in built.terms:
        t, b = model.new_int_var(0, s, f"t{j},{s}"), model.new_bool_var(f"b{j},{s}")
        model.add(t <= s * b)
        model.add(t + (size - s) * b <= w)
        built.terms[j, s] = t
    return built.terms[j, s]


def add_cutoff(built: CutMaster, nbytes: int) -> None:
    """Add that fewer bytes are written (3)."""
    built.model.add(built.total <= -(-nbytes // built.data.unit) - 1)


def decode(built: CutMaster, value: Callable[[Any], int]) -> dict[int, int]:
    """Return the units that are written of each part, where there are any."""
    found = {j: value(w) * (built.size[j] if built.data.whole else 1) for j, w in enumerate(built.written)}
    return {j: units for j, units in found.items() if units}


def file_bytes(built: CutMaster, written: Mapping[int, int]) -> list[int]:
    """Return the bytes that are written of each file."""
    data, nbytes = built.data, [0] * len(built.data.size)
    for v, parts in enumerate(built.parts):
        if data.whole:
            for k, j in zip(data.files_of[v] if parts else (), parts, strict=True):
                nbytes[k] = written.get(j, 0) * data.unit
            continue
        left = sum(written.get(j, 0) for j in parts) * data.unit
        for k in data.files_of[v]:
            nbytes[k] = min(left, data.size[k])
            left -= nbytes[k]
    return nbytes
