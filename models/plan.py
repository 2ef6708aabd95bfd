"""The plan: what is executed, in integer nanoseconds and half-open intervals.

Everything that any method produces is lowered to a plan, and the verifier judges plans only. Tensors,
ops and modes are referred to by index, tiers and processors by name. A byte range ``(lo, hi)`` is
half-open; None stands for the whole tensor.

Semantics (the verifier's reading; design sections 2 and 3):

* A *run* takes its operands in the tiers of its processor. Its writes go to the tier that its mode
  names, else to the processor's home tier, and are allocated there, where they are not yet, at its
  start. It invalidates every copy of what it writes at its start, and installs the new version at its
  end. Workspace is held in the home tier for the whole run.
* A *copy* allocates its destination bytes at its start, where they are not yet; they are valid at its
  end. Its source stays allocated and unwritten meanwhile. After the channel's latency ``L`` it takes
  the constant rate ``nbytes / (end - start - L)``.
* A *free* releases bytes; nothing else does. At one instant ends come first, then frees, then starts.
* With a *period*, times are modulo the period and copies may straddle its end, to where their tensor may be
  at time 0; runs may not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from .graph import Accounting
from .units import format_duration

if TYPE_CHECKING:
    from .graph import Graph
    from .machine import Machine

ByteRange = tuple[int, int]


class LowerOrder(Protocol):
    """`lowtide.models.lowering.order.lower_order`, which gives `Plan.from_order` its body."""

    def __call__(self, graph: Graph, order: Sequence[int], machine: Machine | None = None) -> Plan:
        """Return the plan that runs the ops one after another in the given order."""


@dataclass(frozen=True, slots=True)
class Resident:
    """Bytes ``[low, high)`` of an initial tensor (None: all) in a tier at time 0; not `valid`: stale."""

    tensor: int
    tier: str
    bytes: ByteRange | None = None
    valid: bool = True


@dataclass(frozen=True, slots=True)
class Run:
    """Op `op` runs in mode number `mode` on `processor` over ``[start, end)``, in ns."""

    op: int
    mode: int
    start: int
    end: int
    processor: str


@dataclass(frozen=True, slots=True)
class Copy:
    """Bytes ``[low, high)`` of `tensor` (None: all) go from tier to tier over ``[start, end)``, in ns."""

    tensor: int
    src: str
    dst: str
    start: int
    end: int
    bytes: ByteRange | None = None


@dataclass(frozen=True, slots=True)
class Free:
    """Bytes ``[low, high)`` of `tensor` (None: all) are released from `tier` at `time`, in ns."""

    tensor: int
    tier: str
    time: int
    bytes: ByteRange | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanClaim:
    """What the result that a plan was written from says of it; the verifier of plans does not look at it.

    `objective` and `bound` are in the unit of the problem.
    """

    problem: str
    method: str
    status: str
    objective: int | None = None
    bound: int | None = None


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is executed on which machine.

    Parameters
    ----------
    machine
        Tiers, processors and channels that the plan uses.
    accounting
        That of the graph it was made for.
    start
        What is resident where at time 0 (initial tensors only).
    start_tiers
        By kind of tensor, the tiers where the question that the plan answers lets it be at time 0; kinds
        that are not named may be anywhere. None: the plan does not say, and inputs start in the last tier.
    runs, copies, frees
        The actions; their order in the tuples carries no meaning.
    period
        Nanoseconds of one steady-state iteration; None for a plan that runs once.
    stages
        Where the machine's contention prices stages: the nanosecond at which each begins.
    graph_name, graph_source, graph_sha256
        Which graph it belongs to: its name, what ``load`` was given, its hash.
    allocation
        ``{buffer id: offset}`` of the buffers that the plan lowers to, or None.
    claim
        Status and bound of the result that it was written from, or None.
    """

    machine: Machine
    accounting: Accounting = Accounting.COEXIST
    start: tuple[Resident, ...] = ()
    start_tiers: Mapping[str, tuple[str, ...]] | None = None
    runs: tuple[Run, ...] = ()
    copies: tuple[Copy, ...] = ()
    frees: tuple[Free, ...] = ()
    period: int | None = None
    stages: tuple[int, ...] | None = None
    graph_name: str = ""
    graph_source: str | None = None
    graph_sha256: str | None = None
    allocation: Mapping[str, int] | None = field(default=None)
    claim: PlanClaim | None = field(default=None, compare=False)
    from_order: ClassVar[LowerOrder]
    _repr_html_: ClassVar[Callable[[Any], str]]

    def __post_init__(self) -> None:
        object.__setattr__(self, "accounting", Accounting(self.accounting))
        for key in ("start", "runs", "copies", "frees"):
            object.__setattr__(self, key, tuple(getattr(self, key)))

    @property
    def order(self) -> tuple[int, ...]:
        """The ops by start time (recomputed ops appear again)."""
        return tuple(run.op for run in sorted(self.runs, key=lambda r: (r.start, r.end, r.op)))

    def __repr__(self) -> str:
        counts = [(len(self.runs), "runs"), (len(self.copies), "copies"), (len(self.frees), "frees")]
        counted = ", ".join(f"{count:,} {what}" for count, what in counts if count)
        period = "" if self.period is None else f", period {format_duration(self.period)}"
        where = f"{self.graph_name or 'a graph'!r} on {self.machine.name!r}"
        return f"Plan(for {where}: {counted or 'empty'}{period})"

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object of the native plan format."""
        data: dict[str, Any] = {
            "format": "lowtide/plan",
            "version": 1,
            "graph": {
                "name": self.graph_name,
                "source": self.graph_source,
                "sha256": self.graph_sha256,
            },
            "machine": self.machine.to_dict(),
            "accounting": str(self.accounting),
            "start": [_action(r, ("tensor", "tier"), valid=r.valid) for r in self.start],
            "period": self.period,
            "runs": [
                {
                    "op": r.op,
                    "mode": r.mode,
                    "start": r.start,
                    "end": r.end,
                    "processor": r.processor,
                }
                for r in self.runs
            ],
            "copies": [_action(c, ("tensor", "src", "dst", "start", "end")) for c in self.copies],
            "frees": [_action(f, ("tensor", "tier", "time")) for f in self.frees],
        }
        if self.start_tiers is not None:
            data["start_tiers"] = {kind: list(some) for kind, some in sorted(self.start_tiers.items())}
        if self.stages is not None:
            data["stages"] = list(self.stages)
        if self.allocation is not None:
            data["allocation"] = dict(self.allocation)
        if self.claim is not None:
            data["claim"] = asdict(self.claim)
        return data


def _action(item: Resident | Copy | Free, keys: tuple[str, ...], *, valid: bool = True) -> dict[str, Any]:
    """Return the JSON object of an action; the whole tensor and validity are defaults, left out."""
    data = {key: getattr(item, key) for key in keys}
    if item.bytes is not None:
        data["bytes"] = list(item.bytes)
    if not valid:
        data["valid"] = False
    return data
