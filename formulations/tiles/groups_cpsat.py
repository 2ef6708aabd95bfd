r"""Groups of ops that keep nothing in fast memory, with the least latency, in CP-SAT.

Data. Groups :math:`g \in G` of n; group g takes :math:`c_g` ticks in its best tiles, reads the tensors
:math:`I_g` that an op makes, and writes :math:`O_g`. F: the tensors that must be written.

Variables. 0 or 1: :math:`x_g`, group g runs; :math:`s_{gt}`, it is the first that writes tensor t. Integer:
:math:`u_g \in [0, m]`, the place of group g, with m the number of tensors that an op makes;
:math:`l_t \in [0, m]`, the place from which on tensor t is there.

Objective. Minimize :math:`\sum_g c_g x_g` subject to

1. :math:`\sum_g s_{gt} = 1` for :math:`t \in F`;
2. :math:`\sum_h s_{ht} \ge x_g` for :math:`t \in I_g`;
3. :math:`s_{gt} \le x_g` for :math:`t \in O_g`;
4. :math:`l_t \ge u_g + 1` if :math:`s_{gt}`;
5. :math:`u_g \ge l_t` if :math:`x_g`, for :math:`t \in I_g`.

An answer that keeps nothing is a sequence of groups; its first writers satisfy 1 to 5 with places that count
tensors written so far. Conversely groups by their place find what they read (1 to 5). 4 and 5 exclude
groups of which each reads what the other writes.

Source: this suite.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ...models.tile_rules import TileGroup, Tiling
from ..model import CPSAT_BYTES, ModelSize, ticker

ENGINE = "cpsat"
BYTES_PER_TERM = CPSAT_BYTES


class Candidate(NamedTuple):
    """A group in its best tiles: its ticks, the tensors of ops that it reads, and those that it writes."""

    ticks: int
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    group: TileGroup


@dataclass(kw_only=True)
class GroupsModel:
    """The CP-SAT model and what its variables mean: by candidate, then by tensor."""

    model: Any
    candidates: Sequence[Candidate]
    finals: Sequence[int]
    runs: list[Any] = field(default_factory=list)
    place: list[Any] = field(default_factory=list)
    first: list[dict[int, Any]] = field(default_factory=list)
    there: dict[int, Any] = field(default_factory=dict)

    def writers(self, t: int) -> list[Any]:
        """Return s of a tensor."""
        return [row[t] for row in self.first if t in row]


def size(candidates: Sequence[Candidate]) -> ModelSize:
    """Return about the counts of the model."""
    written = sum(len(x.writes) for x in candidates)
    read = sum(len(x.reads) for x in candidates)
    return ModelSize(
        variables=2 * len(candidates) + written, constraints=2 * (written + read), terms=6 * (written + read)
    )


def build(
    candidates: Sequence[Candidate], finals: Sequence[int], *, expired: Callable[[], bool] = lambda: False
) -> GroupsModel:
    """Return the model; its objective is in ticks.

    Parameters
    ----------
    finals
        The tensors that must be written.
    """
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    built = GroupsModel(model=model, candidates=candidates, finals=finals)
    tensors = sorted({t for x in candidates for t in (*x.reads, *x.writes)} | {*finals})
    built.there = {t: model.new_int_var(0, len(tensors), f"l{t}") for t in tensors}
    for g, x in enumerate(candidates):
        name = f"{g}: {'+'.join(map(str, x.group.ops))}"
        built.runs.append(model.new_bool_var(f"x{name}"))
        built.place.append(model.new_int_var(0, len(tensors), f"u{name}"))
        built.first.append({t: model.new_bool_var(f"s{name}, {t}") for t in x.writes})
    model.minimize(sum(x.ticks * runs for x, runs in zip(candidates, built.runs, strict=True)))
    tick = ticker(expired)
    for add in CONSTRAINTS:
        tick()
        add(built)
    return built


def _finals(built: GroupsModel) -> None:
    """Constraint 1."""
    for t in built.finals:
        built.model.add(sum(built.writers(t)) == 1)


def _inputs(built: GroupsModel) -> None:
    """Constraint 2."""
    for x, runs in zip(built.candidates, built.runs, strict=True):
        for t in x.reads:
            built.model.add(sum(built.writers(t)) >= runs)


def _writers(built: GroupsModel) -> None:
    """Constraint 3."""
    for row, runs in zip(built.first, built.runs, strict=True):
        for first in row.values():
            built.model.add(first <= runs)


def _written(built: GroupsModel) -> None:
    """Constraint 4."""
    for row, place in zip(built.first, built.place, strict=True):
        for t, first in row.items():
            built.model.add(built.there[t] >= place + 1).only_enforce_if(first)


def _read(built: GroupsModel) -> None:
    """Constraint 5."""
    for x, runs, place in zip(built.candidates, built.runs, built.place, strict=True):
        for t in x.reads:
            built.model.add(place >= built.there[t]).only_enforce_if(runs)


CONSTRAINTS = (_finals, _inputs, _writers, _written, _read)


def decode(built: GroupsModel, value: Callable[[Any], int]) -> Tiling:
    """Return the groups that run, by their places."""
    running = [g for g, runs in enumerate(built.runs) if value(runs)]
    running.sort(key=lambda g: (value(built.place[g]), g))
    return Tiling(groups=tuple(built.candidates[g].group for g in running))
