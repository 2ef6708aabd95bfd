r"""Largest cut of a network by one maximum flow, with a price on running ops, and some events settled.

The network problem of `lowtide.formulations.parallel.network` selects events, each with those before it, of
the largest total gain: a maximum-weight closure (Picard, "Maximal closure of a graph and applications to
combinatorial problems", Management Science 1976), found by a maximum flow from a source through the events
of positive gain to those of negative gain and a sink. The minimum cut is the moment. The flow, turned round
and put on top of the bytes that each arc must carry, is a flow of least value under those lower bounds:
`lowtide.models.verifier.flow` checks it and so proves the bound in integers, whatever the library that found
it.

A *price* q on running ops takes q from the gain of every start and gives it to that of the end. *Settled*
events are in or out beforehand, with all that they imply; the flow is one on the others.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import numpy.typing as npt

from ...formulations.parallel.network import CutNetwork, Shared
from ...models.arrays import Booleans, Integers
from ...models.flow_proof import SINK, SOURCE, FlowCase

Settled = npt.NDArray[np.uint8]

FREE, IN, OUT = range(3)
"""Whether an event is settled, and how."""

_LIMIT = 2**62
"""Of the sum of all gains, and of all losses, as OR-tools counts in 64 bits."""


@dataclass(frozen=True, kw_only=True)
class CutArrays:
    """A network as arrays: gain of each event and their constant, arcs (u, v): v happens only if u has."""

    network: CutNetwork
    gains: Integers
    constant: int
    orders: Integers


@dataclass(frozen=True, kw_only=True)
class Closure:
    """A closed set of largest gain.

    Attributes
    ----------
    happened
        Per event: whether it is in the set.
    gain
        Bytes at the moment of the set, as the network counts them, without the price.
    running
        How many ops run at that moment.
    carried
        Flow on each of the orders.
    price, scale
        Of the running ops, in bytes over the scale.
    """

    happened: Booleans
    gain: int
    running: int
    carried: Integers
    price: int
    scale: int

    def value(self, processors: int | None) -> int:
        """Return the bound that it proves for so many processors, in bytes, rounded down."""
        free = (processors or 0) - self.running
        return (self.scale * self.gain + self.price * free) // self.scale


def cut_arrays(network: CutNetwork) -> CutArrays:
    """Return a network as arrays.

    Gains add up to less than 2**62, and so do losses, since all bytes of a graph do.
    """
    gains, constant = network.gains()
    return CutArrays(
        network=network,
        gains=np.array(gains, dtype=np.int64),
        constant=constant,
        orders=_pairs(network.orders),
    )


def largest_closure(
    cut: CutArrays, price: int = 0, scale: int = 1, settled: Settled | None = None
) -> Closure:
    """Return a closed set of largest gain, by the maximum flow of OR-tools.

    Parameters
    ----------
    price, scale
        What a running op pays, in bytes over the scale.
    settled
        Per event `FREE`, `IN` or `OUT`; what is settled has what it implies settled too.

    Raises
    ------
    OverflowError
        If the gains, or the losses, and prices together leave 62 bits.
    RuntimeError
        If the library fails.
    """
    from ortools.graph.python import max_flow

    n, events = cut.network.n_ops, cut.network.n_events
    up, down = (int(side.sum()) for side in (np.maximum(cut.gains, 0), np.maximum(-cut.gains, 0)))
    total = scale * max(up, down) + n * price
    if total >= _LIMIT:
        raise OverflowError(f"parallel memory: found {total} bytes over {scale}, expected fewer than 2**62")
    gain = priced_gains(cut, price, scale)
    if settled is not None:
        gain[settled != FREE] = 0
    total = int(gain[gain > 0].sum())
    carried = np.zeros(len(cut.orders), np.int64)
    happened = np.zeros(events, np.bool_)
    if total:
        sink, source = events, events + 1  # OR-tools fails if no arc names the last node
        positive, negative = np.flatnonzero(gain > 0), np.flatnonzero(gain < 0)
        orders, kept = cut.orders, None
        if settled is not None:
            kept = (settled[orders[:, 0]] == FREE) & (settled[orders[:, 1]] == FREE)
            orders = orders[kept]
        solver = max_flow.SimpleMaxFlow()
        solver.add_arcs_with_capacity(
            np.concatenate([orders[:, 1], np.full(len(positive), source), negative]),
            np.concatenate([orders[:, 0], positive, np.full(len(negative), sink)]),
            np.concatenate([np.full(len(orders), total), gain[positive], -gain[negative]]),
        )
        status = solver.solve(source, sink)
        if status != solver.OPTIMAL:
            raise RuntimeError(f"OR-tools: found maximum flow status {status}, expected optimal")
        reached = np.array(solver.get_source_side_min_cut(), dtype=np.int64)
        happened[reached[reached < events]] = True
        flows = np.asarray(solver.flows(np.arange(len(orders))), dtype=np.int64)
        if kept is None:
            carried = flows
        else:
            carried[kept] = flows
    if settled is not None:
        happened[settled == IN] = True
    return Closure(
        happened=happened,
        gain=cut.constant + int(cut.gains[happened].sum()),
        running=int((happened[: 2 * n : 2] & ~happened[1 : 2 * n : 2]).sum()),
        carried=carried,
        price=price,
        scale=scale,
    )


def priced_gains(cut: CutArrays, price: int, scale: int) -> Integers:
    """Return the gain of each event with the price on running ops, in bytes over the scale."""
    gain = cut.gains * scale
    gain[: 2 * cut.network.n_ops : 2] -= price
    gain[1 : 2 * cut.network.n_ops : 2] += price
    return gain


def flow_case(
    cut: CutArrays,
    closure: Closure,
    decisions: Sequence[tuple[int, bool]] = (),
    settled: Settled | None = None,
) -> FlowCase:
    """Return the flow that proves the value of a largest closed set.

    Parameters
    ----------
    cut, closure, settled
        What `largest_closure` was given, and what it returned.
    decisions
        What settles the events, for the verifier.
    """
    n, events = cut.network.n_ops, cut.network.n_events
    price, scale = closure.price, closure.scale
    least = cut.network.least_flow()
    demanded = np.fromiter(least.values(), np.int64, len(least)) * scale
    starts = np.arange(0, 2 * n if price else 0, 2)
    busy = np.flatnonzero(closure.carried)
    orders, carried = cut.orders[busy], closure.carried[busy]
    surplus = priced_gains(cut, price, scale)
    np.subtract.at(surplus, orders[:, 1], carried)
    np.add.at(surplus, orders[:, 0], carried)
    more, less = np.flatnonzero(surplus > 0), np.flatnonzero(surplus < 0)
    state = np.zeros(events, np.uint8) if settled is None else settled
    arcs = np.concatenate(
        [
            _pairs(least),
            np.stack([starts, starts + 1], axis=1),
            orders,
            np.stack([np.where(state[more] == OUT, SINK, SOURCE), more], axis=1),
            np.stack([less, np.where(state[less] == IN, SOURCE, SINK)], axis=1),
        ]
    )
    flows = np.concatenate([demanded, np.full(len(starts), -price), carried, surplus[more], -surplus[less]])
    codes, place = np.unique((arcs[:, 0] + 2) * (events + 2) + arcs[:, 1] + 2, return_inverse=True)
    total = np.zeros(len(codes), np.int64)
    np.add.at(total, place, flows)
    codes, total = codes[total != 0], total[total != 0]
    tails, heads = codes // (events + 2) - 2, codes % (events + 2) - 2
    return FlowCase(
        arcs=tuple(zip(tails.tolist(), heads.tolist(), total.tolist(), strict=True)),
        decisions=tuple(decisions),
        price=price,
        scale=scale,
    )


def _pairs(arcs: Collection[tuple[int, int]]) -> Integers:
    return np.fromiter(chain.from_iterable(arcs), np.int64, 2 * len(arcs)).reshape(-1, 2)


def overrated(network: CutNetwork, happened: Booleans) -> list[Shared]:
    """Return the tensors that are dead though their death is not in a closed set, largest first."""
    first, flags = 2 * network.n_ops, happened.tobytes()
    found = [
        one for one in network.shared if not flags[first + one.tensor] and all(flags[v] for v in one.lets_go)
    ]
    return sorted(found, key=lambda one: (-one.nbytes, one.tensor))
