"""Judges strategies: one of each node, none forbidden, and the sum of usages at any time within the limit.

A node uses something from its start on, until before its end. The objective is the sum of the costs of all
nodes and edges, in exact integers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from ..cost_network import FORBIDDEN, CostNetwork
from .verdict import Profile, Violation, raise_violations, sorted_violations, verdict_words


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardingVerdict:
    """The verdict on strategies.

    Parameters
    ----------
    violations
        All of them, by time, then kind: ``shape``, ``strategy``, ``forbidden``, ``limit`` (at each time from
        which on more is used than before, and too much).
    cost
        Of all nodes and edges, forbidden ones left out; None if there is not one strategy of each node.
    profile
        What is used from each time on, where it changes.
    """

    violations: tuple[Violation, ...]
    cost: int | None = None
    profile: Profile = ()

    @property
    def valid(self) -> bool:
        """Whether no rule is broken."""
        return not self.violations

    @property
    def usage(self) -> int:
        """The most that is used at a time."""
        return max((used for _, used in self.profile), default=0)

    def __repr__(self) -> str:
        return f"ShardingVerdict({verdict_words(self.violations)}; cost {self.cost}, usage {self.usage})"

    def raise_if_invalid(self) -> None:
        """Raise an error that lists the first violations, if there are any.

        Raises
        ------
        VerificationError
            If the strategies break a rule.
        """
        raise_violations(self.violations, "strategies")


def verify_sharding(network: CostNetwork, choice: Sequence[int]) -> ShardingVerdict:
    """Return all violations of a choice of strategies, what it costs, and what it uses over time.

    Parameters
    ----------
    choice
        The index of a strategy by node.

    Examples
    --------
    >>> import lowtide as lt
    >>> from lowtide.models.verifier.sharding import verify_sharding
    >>> network = lt.load_network("catalogue:iopddl/example")
    >>> verify_sharding(network, [0, 0, 2, 1, 0])
    ShardingVerdict(valid; cost 445, usage 50)
    >>> print(verify_sharding(network, [0, 1, 1, 0, 0]).violations[0])
    limit: 55 are used from time 50, expected at most 50
    """
    n = len(network.costs)
    if len(choice) != n:
        message = f"found {len(choice)} strategies, expected one of each of {n} nodes"
        return ShardingVerdict(violations=(Violation(kind="shape", message=message),))
    faults = []
    for v, s in enumerate(choice):
        if type(s) is not int or not 0 <= s < len(network.costs[v]):
            many = len(network.costs[v])
            message = f"node {v}: found strategy {str(s)[:60]}, expected one of {many}"
            faults.append(Violation(kind="strategy", message=message, op=v))
    if faults:
        return ShardingVerdict(violations=sorted_violations(faults))
    cost = 0
    for v, s in enumerate(choice):
        if network.costs[v][s] >= FORBIDDEN:
            message = f"node {v}: found strategy {s} of infinite cost, expected a finite one"
            faults.append(Violation(kind="forbidden", message=message, op=v))
        else:
            cost += network.costs[v][s]
    for e, (u, v) in enumerate(network.edges):
        price = network.matrices[e][choice[u] * len(network.costs[v]) + choice[v]]
        if price >= FORBIDDEN:
            pair = f"strategies {choice[u]} of node {u} and {choice[v]} of node {v}"
            message = f"edge {e}: found {pair}, of infinite cost together, expected a finite one"
            faults.append(Violation(kind="forbidden", message=message, op=u, other=v))
        else:
            cost += price
    events = []
    for (start, end), row, s in zip(network.intervals, network.usages, choice, strict=True):
        if start < end:
            events += [(start, row[s]), (end, -row[s])]
    used, profile = 0, []
    for time, changes in groupby(sorted(events), key=lambda event: event[0]):
        before = used
        used += sum(change for _, change in changes)
        profile.append((time, used))
        if used > max(network.limit, before):
            message = f"{used:,} are used from time {time}, expected at most {network.limit:,}"
            faults.append(Violation(kind="limit", message=message, time=time))
    return ShardingVerdict(violations=sorted_violations(faults), cost=cost, profile=tuple(profile))
