r"""Maximum topological cut: the largest memory over all parallel schedules as a problem on a network.

**Events.** Of each op i its start :math:`s_i` and its end :math:`e_i`, of each mortal tensor t (accessed, not
final) its death :math:`d_t`; a source, which every event follows, and a sink, which none precedes.
:math:`p_v \in \{0, 1\}` says whether event v has happened at a moment; 1 at the source, 0 at the sink.

**Data.** :math:`b_t` bytes of tensor t, :math:`n_i` workspace of op i; :math:`u_t` the birth of t: the
source if it is initial, else the start of its first writer; :math:`h_{t,a}` where access a lets go of t:
its end, or under ``replace``, if a only reads t, its start. An access of t is *last* if no other access of
t must follow it.

.. math::
    \max \sum_t b_t (p_{u_t} - p_{d_t}) + \sum_i n_i (p_{s_i} - p_{e_i})

1. An op ends after it starts: :math:`p_{s_i} \ge p_{e_i}`.
2. Precedence: :math:`p_{e_i} \ge p_{s_j}` if i must end before j.
3. A tensor with one last access a is dead once that lets go: :math:`p_{d_t} \ge p_{h_{t,a}}`.
4. One with several is dead once an op runs that must follow all of them: :math:`p_{d_t} \ge p_{s_c}` for the
   earliest such ops c.
5. (exact, not on the network) and once all of them let go: :math:`p_{d_t} \ge 1 + \sum_a (p_{h_{t,a}} - 1)`.

The death of a final tensor is the sink. (1) to (4) compare two events each, so the matrix is totally
unimodular: with :math:`0 \le p \le 1` alone the optimum is integral, and that of the dual, a flow of least
value from the source to the sink that puts at least the bytes of (t) on each arc birth to death and of (i)
on each arc start to end, and any amount on the arcs of (1) to (4), equals it.

**The optimum is the largest memory** if every tensor has one last access (so if there is one datum per
edge), and
**an upper bound** in general: a moment gives a feasible p, with :math:`p_{d_t} = 1` iff t is dead, whose
objective is its memory. With (5) and binaries it is exact: then :math:`p_{d_t}`, which the objective wants
small, is 1 in an optimum only if t is dead. The extremes of (3) suffice since every other access must let
go before the last one does: accesses that write a tensor are ordered with every other access, so several
last ones only read.

Sources: Marchal, Nagy, Simon and Vivien, "Parallel scheduling of DAGs under memory constraints", IPDPS
2018, for one datum per edge and accounting ``replace``; the events, hence ``coexist``, and (3) to (5) for
shared tensors are ours.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...models.derived.precedence import descendants_with, precedence, successors_with
from ...models.flow_proof import SINK, SOURCE
from ...models.graph import Accounting, Graph
from ...models.problems.parallel_memory import Moment, most_workspace
from ..model import ticker

Arc = tuple[int, int]


@dataclass(frozen=True, kw_only=True)
class Shared:
    """A tensor with several last accesses: its bytes, and where they let go of it, for (5)."""

    tensor: int
    nbytes: int
    lets_go: tuple[int, ...]
    accessors: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class CutNetwork:
    """The page of mathematics as arcs; event 2i is the start of op i, 2i + 1 its end, 2n + t the death of t.

    Attributes
    ----------
    n_ops, n_events
        Events are numbered from 0; `SOURCE` and `SINK` are beside them.
    demands
        Bytes by arc from birth to death, and from start to end.
    orders
        Arcs (u, v) of (1), (2) and (4): v happens only if u has happened.
    direct
        Of each tensor of (3): birth, death, the event where its last access lets go, bytes. In an optimum the
        death happens with that event, which stands for it in `demands`.
    shared
        The tensors of (4).
    """

    n_ops: int
    n_events: int
    demands: dict[Arc, int]
    orders: list[Arc]
    direct: list[tuple[int, int, int, int]]
    shared: list[Shared]

    def gains(self) -> tuple[list[int], int]:
        """Return the objective's coefficient of each event, and its constant."""
        gains, constant = [0] * self.n_events, 0
        for (u, v), nbytes in self.demands.items():
            if u == SOURCE:
                constant += nbytes
            else:
                gains[u] += nbytes
            if v != SINK:
                gains[v] -= nbytes
        return gains, constant

    def least_flow(self) -> dict[Arc, int]:
        """Return what each arc must carry, with the deaths of (3) again; more may flow on `orders`."""
        flow = dict(self.demands)
        for birth, death, lets_go, nbytes in self.direct:
            flow[birth, lets_go] -= nbytes
            flow[birth, death] = flow[death, lets_go] = nbytes
        return {arc: nbytes for arc, nbytes in flow.items() if nbytes}

    def moment(self, happened: Sequence[bool]) -> Moment:
        """Return the moment at which these events have happened."""
        finished = [i for i in range(self.n_ops) if happened[2 * i + 1]]
        running = [i for i in range(self.n_ops) if happened[2 * i] and not happened[2 * i + 1]]
        return Moment(finished=tuple(finished), running=tuple(running))


def add_edge(descendants: list[int], u: int, v: int) -> None:
    """Put u before v in the bit masks of followers, and whatever that implies."""
    new = descendants[v] | 1 << v
    if descendants[u] & new == new:
        return
    for i, mask in enumerate(descendants):
        if i == u or mask >> u & 1:
            descendants[i] = mask | new


def build(
    graph: Graph,
    edges: Sequence[Arc] = (),
    descendants: Sequence[int] | None = None,
    expired: Callable[[], bool] = lambda: False,
) -> CutNetwork:
    """Return the network of a graph, with further precedence edges between its ops.

    Parameters
    ----------
    graph
        One that `lowtide.models.problems.parallel_memory.check_modes` accepts.
    edges
        Pairs (i, j): i must end before j; no cycle.
    descendants
        What `descendants_with` returns, if it is known.

    Raises
    ------
    BuildTimeout
        If `expired` says so.
    """
    n, tick = len(graph.ops), ticker(expired)
    known = descendants
    follows = successors_with(graph, edges)

    def after() -> Sequence[int]:
        """Return the sets of all followers, made when something asks what direct ones do not tell."""
        nonlocal known
        if known is None:
            known = descendants_with(graph, edges, tick)
        return known

    def last_of(some: list[int]) -> list[int]:
        among = set(some)
        last = [a for a in some if follows[a].isdisjoint(among)]
        if len(last) > 1:
            users = sum(1 << a for a in some)
            last = [a for a in last if not after()[a] & users]
        return last

    demands: dict[Arc, int] = {}
    orders: list[Arc] = []
    direct: list[tuple[int, int, int, int]] = []
    shared: list[Shared] = []

    def demand(u: int, v: int, nbytes: int) -> None:
        if nbytes:
            demands[u, v] = demands.get((u, v), 0) + nbytes

    for i in range(n):
        tick()
        orders.append((2 * i, 2 * i + 1))  # (1)
        demand(2 * i, 2 * i + 1, most_workspace(graph, i)[0])
    orders += [(2 * i + 1, 2 * j) for i, some in enumerate(precedence(graph).successors) for j in some]  # (2)
    orders += [(2 * i + 1, 2 * j) for i, j in edges]
    accessors, writers = accesses(graph)
    for t, tensor in enumerate(graph.tensors):
        tick()
        if not tensor.nbytes or not (accessors[t] or (tensor.initial and tensor.final)):
            continue
        birth = SOURCE if tensor.initial else 2 * writers[t][0]
        if tensor.final:
            demand(birth, SINK, tensor.nbytes)
            continue
        death = 2 * n + t
        last = last_of(accessors[t])
        held = graph.accounting is Accounting.COEXIST
        lets_go = [2 * a + (held or a in writers[t]) for a in last]
        if len(last) == 1:
            demand(birth, lets_go[0], tensor.nbytes)  # (3)
            direct.append((birth, death, lets_go[0], tensor.nbytes))
        else:
            demand(birth, death, tensor.nbytes)
            orders += [(death, 2 * c) for c in earliest_common(after(), last)]  # (4)
            shared.append(
                Shared(tensor=t, nbytes=tensor.nbytes, lets_go=tuple(lets_go), accessors=tuple(last))
            )
    return CutNetwork(
        n_ops=n,
        n_events=2 * n + len(graph.tensors),
        demands=demands,
        orders=orders,
        direct=direct,
        shared=shared,
    )


def accesses(graph: Graph) -> tuple[list[list[int]], list[list[int]]]:
    """Return the ops that access each tensor, and those that write it, ascending."""
    accessors: list[list[int]] = [[] for _ in graph.tensors]
    writers: list[list[int]] = [[] for _ in graph.tensors]
    for i, op in enumerate(graph.ops):
        for t in {*op.reads, *op.writes}:
            accessors[t].append(i)
        for t in op.writes:
            writers[t].append(i)
    return accessors, writers


def earliest_common(descendants: Sequence[int], ops: Sequence[int]) -> list[int]:
    """Return the ops that must follow all of the given ones, less those that must follow another such op."""
    common = descendants[ops[0]]
    for a in ops[1:]:
        common &= descendants[a]
    found = []
    while common:
        c = (common & -common).bit_length() - 1
        found.append(c)
        common &= ~(descendants[c] | 1 << c)
    beyond = 0
    for c in found:
        beyond |= descendants[c]
    return [c for c in found if not beyond >> c & 1]
