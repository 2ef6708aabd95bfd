"""Random graphs, as a seeded generator and as a hypothesis strategy over the same code.

Test files import it as ``from tests.strategies import graphs, random_graph``: in importlib mode pytest
registers the ``tests`` folder as a namespace package.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

from hypothesis import strategies as st

from lowtide.models.graph import Accounting, Graph, Mode, Op, Tensor
from lowtide.models.work import DTYPES, Work

ACCOUNTINGS = (Accounting.COEXIST, Accounting.REPLACE)


def random_graph(
    rng: Random,
    *,
    min_ops: int = 1,
    max_ops: int = 8,
    max_tensors: int = 8,
    max_nbytes: int = 4,
    max_duration: int = 3,
    accountings: Sequence[Accounting] = ACCOUNTINGS,
    single_writer: bool | None = None,
    workspace: bool = True,
    after: bool = True,
    mode_tiers: Sequence[str] = (),
    mode_kinds: Sequence[str] = (),
    final_states: bool = False,
) -> Graph:
    """Return a random graph: any structure that `Graph` accepts, in small numbers.

    Parameters
    ----------
    rng
        Source of every choice: the same state gives the same graph.
    min_ops, max_ops, max_tensors, max_nbytes, max_duration
        Inclusive limits; about one tensor in six has 0 bytes.
    accountings
        One of them is chosen.
    single_writer
        True: at most one op writes a tensor, and no op writes an initial one (the textbook case);
        False: several writers, updates in place and dead writes; None: either.
    workspace, after
        Whether ops may have workspace, and control edges.
    mode_tiers, mode_kinds
        If not empty, some ops get several modes; they name these tiers for operands, and these
        processor kinds.
    final_states
        Make more tensors both initial and final (weights and states of a periodic plan).
    """
    single = rng.random() < 0.4 if single_writer is None else single_writer
    n_tensors = rng.randint(1, max_tensors)
    n_ops = rng.randint(min_ops, max_ops)
    initial = [rng.random() < (0.5 if final_states else 0.3) for _ in range(n_tensors)]
    content = list(initial)
    ops: list[Op] = []
    for i in range(n_ops):
        readable = [t for t in range(n_tensors) if content[t]]
        reads = _sample(rng, readable, 3)
        if single:
            writable = [t for t in range(n_tensors) if not content[t]]
            writes = _sample(rng, writable, 2)
        else:
            writes = _sample(rng, range(n_tensors), 2)
            if reads and rng.random() < 0.25:
                writes = sorted({*writes, rng.choice(reads)})
        for t in writes:
            content[t] = True
        control = _sample(rng, range(i), 2) if after and rng.random() < 0.2 else []
        extra = rng.randint(0, max_nbytes) if workspace and rng.random() < 0.3 else 0
        pairs = [(r, w) for r in reads for w in writes]
        ops.append(
            Op(
                name=f"op{i}",
                duration_ns=rng.randint(1, max_duration),
                workspace=extra,
                reads=tuple(reads),
                writes=tuple(writes),
                after=tuple(control),
                inplace=tuple(pairs[:1]) if pairs and rng.random() < 0.3 else (),
                modes=_modes(rng, [*reads, *writes], extra, max_duration, mode_tiers, mode_kinds),
            )
        )
    tensors = []
    for t in range(n_tensors):
        last = content[t] and rng.random() < (0.7 if final_states and initial[t] else 0.3)
        tensors.append(
            Tensor(
                name=f"t{t}",
                nbytes=0 if rng.random() < 1 / 6 else rng.randint(1, max(1, max_nbytes)),
                kind=_kind(rng, initial[t], last),
                initial=initial[t],
                final=last,
            )
        )
    return Graph(
        name="random",
        tensors=tuple(tensors),
        ops=tuple(ops),
        accounting=rng.choice(list(accountings)),
    )


def readers_graph(rng: Random, *, max_ops: int = 4) -> Graph:
    """Return a graph in which few tensors have many readers, so that several are the last to use one."""
    n = rng.randint(2, max_ops)
    reads: list[list[int]] = [[] for _ in range(n)]
    writes: list[list[int]] = [[] for _ in range(n)]
    tensors = []
    for t in range(rng.randint(1, 4)):
        writer = None if rng.random() < 0.5 else rng.randrange(n)
        if writer is not None:
            writes[writer].append(t)
        for i in range(0 if writer is None else writer + 1, n):
            if rng.random() < 0.5:
                reads[i].append(t)
        final = rng.random() < 0.15
        tensors.append(Tensor(name=str(t), nbytes=rng.randint(0, 4), initial=writer is None, final=final))
    ops = [
        Op(
            name=str(i),
            reads=tuple(reads[i]),
            writes=tuple(writes[i]),
            workspace=rng.choice((0, 0, 1, 2, 3)),
            duration_ns=rng.randint(1, 4),
        )
        for i in range(n)
    ]
    accounting = rng.choice((Accounting.COEXIST, Accounting.REPLACE, Accounting.REPLACE))
    return Graph(name="readers", tensors=tuple(tensors), ops=tuple(ops), accounting=accounting)


def random_tree(
    rng: Random, n: int, *, largest: int = 20, reaches: Sequence[int] = (1, 2, 4, 99), light: bool = False
) -> Graph:
    """Return an in-tree with an output, workspaces and durations.

    Parents come at most one of the reaches behind: 1 is a chain, and a long one nearly a star. If it is
    `light`, most workspaces are 0, and none is above 8.
    """
    reach = rng.choice(reaches)
    below: list[list[int]] = [[] for _ in range(n)]
    for i in range(n - 1):
        below[rng.randint(i + 1, min(n - 1, i + reach))].append(i)
    work = 8 if light else rng.choice((0, 5, largest))
    return Graph(
        name="tree",
        tensors=tuple(
            Tensor(name=f"t{i}", nbytes=rng.randint(0, largest), final=i == n - 1) for i in range(n)
        ),
        ops=tuple(
            Op(
                name=f"op{i}",
                duration_ns=rng.randint(1, 9),
                workspace=rng.choice((0, 0, rng.randint(0, work))) if light else rng.randint(0, work),
                reads=tuple(below[i]),
                writes=(i,),
            )
            for i in range(n)
        ),
    )


@st.composite
def graphs(
    draw: st.DrawFn,
    max_ops: int = 8,
    *,
    min_ops: int = 1,
    max_tensors: int = 8,
    max_nbytes: int = 4,
    accountings: Sequence[Accounting] = ACCOUNTINGS,
    single_writer: bool | None = None,
    workspace: bool = True,
    after: bool = True,
) -> Graph:
    """Draw a random graph with one mode per op; see `random_graph` for the parameters."""
    rng = draw(st.randoms(use_true_random=False))
    return random_graph(
        rng,
        min_ops=min_ops,
        max_ops=max_ops,
        max_tensors=max_tensors,
        max_nbytes=max_nbytes,
        accountings=accountings,
        single_writer=single_writer,
        workspace=workspace,
        after=after,
    )


def _sample(rng: Random, items: Sequence[int], most: int) -> list[int]:
    count = min(len(items), rng.choice((0, 1, 1, 2, most)))
    return sorted(rng.sample(list(items), min(count, most)))


def _kind(rng: Random, initial: bool, final: bool) -> str:
    if initial:
        return rng.choice(("input", "weight", "state"))
    return "output" if final else rng.choice(("activation", "gradient"))


def _modes(
    rng: Random,
    operands: Sequence[int],
    workspace: int,
    max_duration: int,
    tiers: Sequence[str],
    kinds: Sequence[str],
) -> tuple[Mode, ...]:
    if not (tiers or kinds) or rng.random() < 0.5:
        return ()
    modes = []
    for _ in range(rng.randint(1, 3)):
        named = sorted(set(operands)) if tiers else []
        named = [t for t in named if rng.random() < 0.3]
        modes.append(
            Mode(
                duration_ns=rng.randint(1, max_duration),
                workspace=rng.choice((0, workspace)),
                processors=(rng.choice(list(kinds)),) if kinds and rng.random() < 0.4 else (),
                operands=tuple((t, rng.choice(list(tiers))) for t in named),
            )
        )
    return tuple(modes)


works = st.builds(
    Work,
    nbytes=st.integers(0, 10**6),
    multiply_adds=st.integers(0, 10**6),
    dtype=st.sampled_from(sorted(DTYPES)),
    times=st.integers(1, 3),
)


def with_work(rng: Random, *, every: bool = False, **options: Any) -> Graph:
    """Return a random graph of which ops, or some of them, state random work."""
    graph = random_graph(rng, **options)

    def drawn() -> tuple[Work, ...]:
        return tuple(
            Work(
                nbytes=rng.randint(0, 99),
                multiply_adds=rng.randint(0, 99),
                dtype=rng.choice(sorted(DTYPES)),
                times=rng.randint(1, 3),
            )
            for _ in range(rng.randint(1 if every else 0, 2))
        )

    ops = (
        replace(op, work=drawn(), modes=tuple(replace(mode, work=drawn()) for mode in op.modes))
        for op in graph.ops
    )
    return replace(graph, ops=tuple(ops))
