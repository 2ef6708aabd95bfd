r"""The kind `prices`: no plan is faster, because every byte pays for memory and transfers.

**Setting.** One processor runs the ops :math:`k = 0..n-1` in the reference order, for :math:`d_k` each, with
operands in the first tier only; channels join that tier and outer tiers x. Instant :math:`2k` is the start of
op k, :math:`2k + 1` its end (just before it), -1 the time 0 of a single run; samples :math:`c_0 < \dots <
c_{K-1}` are some instants (-1 the first one of a single run), epoch e lasts from :math:`c_e` to the next
sample, cyclically in periodic plans: :math:`D_e` of ops and :math:`\sigma_e \ge 0` of stalls, none from the
start to the end of one op. Under ``replace`` op k stands for two of these: 2 k reads, in no time, and 2 k + 1
writes, for :math:`d_k`, with the workspace. Its instants are the moments just before and just behind what is
released and allocated when it starts, and its end: what it reads is there before, what it writes behind, and
no time passes in between. Outer tiers that channels join are one tier (`merged`).

**A byte** of a tensor that is accessed at all (in periodic plans: and is not an input that reappears in
every period) is, at a sample, *used* (the op of the sample accesses it), or else *needed* (the next op that
accesses it reads it; or no op does, and it is final in a single run), or *dead* (the next one writes it
without reading it, or nothing comes: what is there now, no one needs). A used byte is in the fast memory. A
needed one is *present* there, or *absent*: not there, or still before its channel on the way there. Outer
tier x *holds* it if its current version has passed the channel there (or was there at time 0, where the
setting allows it). A byte passes within an epoch

- a channel out to x, if x holds it at the end of the epoch and did not at its beginning, or a write of its
  tensor took effect in between (that of an op at its end, also if that is where the epoch begins);
- a channel in from one of the tiers that hold it at the beginning, if it is absent then and is accessed in
  the epoch or at its end, or is present at its end, or is held by a tier there that had it not.

For there is no other way into a tier, what passes inwards first was held at the beginning, and a byte that is
absent and needed is held somewhere. At samples where it is dead, or its op writes it, what tiers hold is not
counted: the next epochs begin with another version.

**Prices.** :math:`\lambda_e` per byte of fast memory at sample e, :math:`\kappa^x_e` per byte of tier x of
limited capacity, :math:`\rho_{re}` per byte that passes in epoch e a channel or a group r of channels, all at
least 0, in ns. With M, :math:`C_x` and rates :math:`B_r` a plan satisfies

.. math:: \sum_e \sigma_e \ge \sum_e \sigma_e + \sum_e \lambda_e (\text{resident}_e - M)
          + \sum_{x,e} \kappa^x_e (\text{held}^x_e - C_x)
          + \sum_{r,e} \rho_{re} (\text{passed}_{re} - B_r (D_e + \sigma_e)),

because each parenthesis is at most 0. On the right :math:`\sigma_e` has the coefficient :math:`1 - \sum_r
\rho_{re} B_r`, which must not be negative where there may be a stall; every byte pays on its own, so no less
than the cheapest way through the samples (a shortest path over states: present or absent, held by which
tiers); what is left out (small tensors, such inputs) pays memory where ops access it, workspace pays too. The
plan takes at least the sum of the durations and that much stall.

**Modes.** Of an op with several modes, :math:`d_k` and the workspace are the least of its modes'. If it runs
:math:`\delta` ns longer, with w bytes of workspace more, the sum of the durations grows by :math:`\delta`,
one :math:`D_e` by as much, which earns :math:`\delta \sum_r \rho_{re} B_r`, and the workspace pays
:math:`\lambda w` at samples of the op: no less than for its cheapest mode. Or the op counts as it is, for in
any plan it may end so much sooner, and all else stay; so what its cheapest mode adds counts if it is above 0.

This is Lagrangian relaxation (Geoffrion 1974) of a linear program over the states at samples; the prices are
its dual values, but any prices prove a bound, and nothing of the program is used here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, TypeAlias

from ...graph import Accounting, Graph
from ...machine import Machine
from ...setting import Setting
from ...units import SECOND
from .merged import merged_setting
from .paid import ROOM, USED, least_paid, way_through
from .price_claims import PricesProof
from .refused import Refused

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Integers: TypeAlias = NDArray[np.int64]

TIERS = 3
"""Outer tiers at most: states of a byte double with each."""


def check_prices(graph: Graph, setting: Setting, bound: int, proof: PricesProof) -> int:
    """Return how many byte paths were priced; raise `Refused` if the prices do not prove the bound."""
    proven, ways = proven_time(graph, setting, proof)
    if bound > proven:
        raise Refused(f"bound: found {bound} ns, expected at most {proven} ns, which the prices prove")
    return ways


def proven_time(graph: Graph, setting: Setting, proof: PricesProof) -> tuple[int, int]:
    """Return the ns that no plan undercuts, and how many byte paths were priced.

    Raises
    ------
    Refused
        If the setting is another one, or the proof is not one of this graph in it.
    """
    setting = setting_of_prices(graph, setting)
    ideal = sum(min(mode.duration_ns for mode in op.all_modes) for op in graph.ops)
    if not proof.samples:
        return ideal, 0
    steps = steps_of(graph)
    total, charges, ways = earned(graph, steps, setting, proof)
    total += _above_least(steps, proof, charges)
    return ideal + max(0, -(-total // (proof.denominator * SECOND))), ways


def setting_of_prices(graph: Graph, setting: Setting) -> Setting:
    """Return the setting with tiers merged; raise `Refused` if prices do not serve it."""
    check_machine(graph, setting.machine)
    setting = merged_setting(setting)
    machine = setting.machine
    if len(machine.tiers) > 1 + TIERS:
        raise Refused(f"prices, machine {machine.name!r}: found {len(machine.tiers)} tiers apart, expected 4")
    return setting


def earned(
    graph: Graph, steps: Sequence[PricedStep], setting: Setting, proof: PricesProof
) -> tuple[int, list[int], int]:
    """Return what stalls cost at least at their charges, these charges by epoch, and the byte paths.

    The first in ns / (denominator * SECOND), charges in 1 / (denominator * SECOND); ops in their least modes.
    """
    machine = setting.machine
    samples = _samples(steps, setting, proof)
    _check_prices(machine, proof, len(samples))
    used, ways = _paid_by_bytes(graph, steps, setting, proof, samples)
    total = SECOND * used  # ns / (denominator * SECOND)
    capacity_of = {tier.name: tier.capacity for tier in machine.tiers}
    for tier, rent in ((machine.tiers[0].name, proof.memory), *proof.capacities):
        capacity = capacity_of[tier]
        if any(rent):
            if capacity is None:
                raise Refused(f"tier {tier!r}: found a price, expected none for a tier without limit")
            total -= SECOND * capacity * sum(rent)
    rates = _rates(machine, proof)
    charges = []
    for e, (span, waits) in enumerate(_epochs(steps, setting, samples)):
        charge = sum(price[e] * rate for price, rate in rates)
        if waits and charge > proof.denominator * SECOND:
            raise Refused(f"epoch {e}: found prices of channels by which a stall earns more than it costs")
        total -= charge * span
        charges.append(charge)
    return total, charges, ways


def check_machine(graph: Graph, machine: Machine) -> None:
    """Raise `Refused` unless one processor runs all ops, in any of their modes, with operands in one tier."""
    device = machine.tiers[0].name
    fault = None
    if len(machine.processors) != 1 or [a.tier for a in machine.processors[0].tiers] != [device]:
        fault = "another use of tiers, expected one processor that uses the first tier only"
    elif machine.processors[0].tiers[0].bytes_per_s is not None:
        fault = "a processor slowed down by its tier, expected none"
    elif any(mode.operands for op in graph.ops for mode in op.all_modes):
        fault = "ops with fixed tiers, expected free modes"
    if fault:
        raise Refused(f"machine {machine.name!r}: found {fault}")


@dataclass(frozen=True, slots=True)
class PricedStep:
    """An op as the setting counts them: tensors that it reads and writes, ns, bytes of workspace.

    `modes`: ns and bytes that each of its modes has above these; none for an op with one.
    """

    reads: frozenset[int]
    writes: frozenset[int]
    duration: int
    workspace: int
    modes: tuple[tuple[int, int], ...] = ()


def steps_of(graph: Graph) -> list[PricedStep]:
    """Return the ops as they count, under ``replace`` two for each."""
    steps = []
    for op in graph.ops:
        reads, writes = frozenset(op.reads), frozenset(op.writes)
        if graph.accounting is Accounting.REPLACE:
            steps.append(PricedStep(reads, frozenset(), 0, 0))
            reads = frozenset()
        ns, nbytes = (min(x) for x in zip(*((m.duration_ns, m.workspace) for m in op.all_modes), strict=True))
        above = tuple((m.duration_ns - ns, m.workspace - nbytes) for m in op.modes)
        steps.append(PricedStep(reads, writes, ns, nbytes, above))
    return steps


def _samples(steps: Sequence[PricedStep], setting: Setting, proof: PricesProof) -> list[int]:
    samples, first = list(proof.samples), 0 if setting.periodic else -1
    if (
        not samples
        or samples != sorted(set(samples))
        or not first <= samples[0] <= samples[-1] < 2 * len(steps)
    ):
        raise Refused(f"samples: expected ascending instants in [{first}, {2 * len(steps)})")
    if not setting.periodic and samples[0] != -1:
        raise Refused("samples: expected -1 as the first one of a single run")
    return samples


def _check_prices(machine: Machine, proof: PricesProof, count: int) -> None:
    """Refuse prices that are negative, too many, too few, too large, or of nothing on the machine."""
    if proof.denominator < 1 or proof.least < 0:
        raise Refused("denominator, least: expected integers >= 1 and >= 0")
    outer = [tier.name for tier in machine.tiers[1:]]
    known = (
        ("capacities", [name for name, _ in proof.capacities], outer),
        ("channels", [pair for pair, _ in proof.channels], [(c.src, c.dst) for c in machine.channels]),
        ("groups", [name for name, _ in proof.groups], [g.name for g in machine.groups]),
    )
    for what, names, expected in known:
        if len(set(names)) < len(names) or not {*names} <= {*expected}:
            raise Refused(f"{what}: found {names}, expected some of {expected}, each once")
    lists = [proof.memory]
    for some in (proof.capacities, proof.channels, proof.groups):
        lists += [prices for _, prices in some]
    if any(len(prices) != count for prices in lists) or any(p < 0 for prices in lists for p in prices):
        raise Refused(f"prices: expected {count} integers >= 0 for each tier, channel and group")
    if max(1, len(outer)) * sum(map(sum, lists)) >= ROOM:  # a group is paid by what goes to each tier
        raise Refused("prices: found larger ones than fit, expected a smaller denominator")


def _epochs(steps: Sequence[PricedStep], setting: Setting, samples: Sequence[int]) -> list[tuple[int, bool]]:
    """Return per epoch the durations within it, and whether there may be a stall in it."""
    clock = [0]
    for step in steps:
        clock.append(clock[-1] + step.duration)
    times = [clock[(c + 1) // 2] for c in samples]
    epochs = [
        (y - x, b != a + 1 or a % 2 == 1) for (a, x), (b, y) in pairwise(zip(samples, times, strict=True))
    ]
    if setting.periodic:
        epochs.append((times[0] + clock[-1] - times[-1], True))
    return epochs


def _above_least(steps: Sequence[PricedStep], proof: PricesProof, charges: Sequence[int]) -> int:
    """Return what modes add to the least of each op, in ns / (denominator * SECOND)."""
    rent, samples = dict(zip(proof.samples, proof.memory, strict=True)), proof.samples
    total = 0
    for k, step in enumerate(steps):
        e = sum(c <= 2 * k for c in samples) - 1  # of -1, in a period, the last one
        charge = charges[e] if e < len(charges) else 0
        here = rent.get(2 * k, 0) + rent.get(2 * k + 1, 0)
        paid = [
            SECOND * nbytes * here + ns * (proof.denominator * SECOND - charge) for ns, nbytes in step.modes
        ]
        total += max(0, min(paid, default=0))
    return total


def _rates(machine: Machine, proof: PricesProof) -> list[tuple[tuple[int, ...], int]]:
    """Return the prices of channels and groups, each with its bytes per second."""
    rate_of = {(c.src, c.dst): c.bytes_per_s for c in machine.channels}
    group_rate = {g.name: g.bytes_per_s for g in machine.groups}
    found = [(prices, rate_of[pair]) for pair, prices in proof.channels]
    return found + [(prices, group_rate[name]) for name, prices in proof.groups]


def _paid_by_bytes(
    graph: Graph, steps: Sequence[PricedStep], setting: Setting, proof: PricesProof, samples: list[int]
) -> tuple[int, int]:
    """Return what all bytes and workspace pay at least, and how many kinds of ways were priced."""
    import numpy as np

    reads: list[list[int]] = [[] for _ in graph.tensors]
    writes: list[list[int]] = [[] for _ in graph.tensors]
    for k, step in enumerate(steps):
        for t in step.reads:
            reads[t].append(k)
        for t in step.writes:
            writes[t].append(k)
    total = sum(
        rent * steps[c // 2].workspace for rent, c in zip(proof.memory, samples, strict=True) if c >= 0
    )
    followed: dict[tuple[bytes, int], int] = {}  # bytes by way and tiers at time 0
    for t, tensor in enumerate(graph.tensors):
        if not tensor.nbytes or not (reads[t] or writes[t]):
            continue
        kept = tensor.final and not setting.periodic
        path = way_through(samples, reads[t], writes[t], cyclic=setting.periodic, kept=kept)
        if tensor.nbytes < proof.least or (setting.periodic and tensor.initial and not tensor.final):
            total += tensor.nbytes * sum(proof.memory[e] for e in np.flatnonzero(path[0] >= USED).tolist())
        else:
            key = path.tobytes(), _tiers_at_start(setting, tensor.kind)
            followed[key] = followed.get(key, 0) + tensor.nbytes
    if followed:
        ways = np.stack([np.frombuffer(path, dtype=np.int8).reshape(3, -1) for path, _ in followed])
        starts = np.array([start for _, start in followed])
        for paid, nbytes in zip(least_paid(setting, proof, ways, starts), followed.values(), strict=True):
            total += nbytes * paid
    return total, len(followed)


def _tiers_at_start(setting: Setting, kind: str) -> int:
    """Return the set of tiers (bit 0: the first one) where tensors of a kind may be at time 0."""
    tiers = [tier.name for tier in setting.machine.tiers]
    some: Sequence[str] = setting.starts.get(kind, tiers)
    return sum(1 << number for number, name in enumerate(tiers) if name in some)
