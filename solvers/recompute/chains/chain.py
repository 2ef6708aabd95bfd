"""Recognizes chains: their ops and tensors by place, and the numbers that schedules need.

Two forms. A *plain* chain has l forwards and l + 1 backwards; F_i reads x_i and writes x_{i+1}, B_i reads x_i
and y_{i+1} and writes y_i (`lowtide.instances.generators.backprop_chain`). A *taped* chain has l forwards and
l backwards; the forward of stage i saves s_i in mode 0 and loses it in mode 1
(`lowtide.instances.generators.taped_chain`).
"""

from __future__ import annotations

from dataclasses import dataclass

from ....models.errors import UsageError
from ....models.graph import Accounting, Graph, Op
from ....models.problems.recompute import Recompute


@dataclass(frozen=True, kw_only=True)
class PlainChain:
    """A plain chain: sizes and times by index i.

    Attributes
    ----------
    x, y
        Tensors x_0 .. x_l and y_0 .. y_l.
    x_bytes, y_bytes
        Their sizes.
    forward_ns, backward_ns
        Of F_0 .. F_{l-1} and B_0 .. B_l.
    forward_space, backward_space
        Their workspaces in bytes.
    """

    x: tuple[int, ...]
    y: tuple[int, ...]
    x_bytes: tuple[int, ...]
    y_bytes: tuple[int, ...]
    forward_ns: tuple[int, ...]
    backward_ns: tuple[int, ...]
    forward_space: tuple[int, ...]
    backward_space: tuple[int, ...]

    @property
    def forwards(self) -> int:
        """The number l of forwards; F_i is op i, B_i is op 2 l - i."""
        return len(self.forward_ns)


@dataclass(frozen=True, kw_only=True)
class TapedChain:
    """A taped chain of stages 1 .. l, stage i at place i - 1: sizes and times.

    Attributes
    ----------
    a
        Tensors a_0 .. a_l.
    a_bytes, d_bytes
        Of a_0 .. a_l and d_0 .. d_l.
    saved_bytes
        Of s_1 .. s_l.
    forward_ns, backward_ns, forward_space, backward_space
        By stage.
    """

    a: tuple[int, ...]
    a_bytes: tuple[int, ...]
    d_bytes: tuple[int, ...]
    saved_bytes: tuple[int, ...]
    forward_ns: tuple[int, ...]
    backward_ns: tuple[int, ...]
    forward_space: tuple[int, ...]
    backward_space: tuple[int, ...]

    @property
    def stages(self) -> int:
        """The number l of stages; F_i is op i - 1, B_i is op 2 l - i."""
        return len(self.forward_ns)


def plain_chain(problem: Recompute, method: str) -> PlainChain:
    """Return the plain chain that the graph is.

    Raises
    ------
    UsageError
        If it is none.
    """
    graph = problem.graph
    l = len(graph.ops) // 2  # noqa: E741
    if len(graph.ops) % 2 == 0:
        _refuse(graph, method, "an even number of ops", "l forwards and l + 1 backwards")
    x, y = [0] * (l + 1), [0] * (l + 1)
    for i, op in enumerate(graph.ops):
        _one_mode(graph, op, method)
        if i < l:
            if len(op.reads) != 1 or len(op.writes) != 1 or (i and op.reads != (x[i],)):
                _refuse(graph, method, f"op {i} {op.name!r}", f"a forward from x_{i} to x_{i + 1}")
            x[i], x[i + 1] = op.reads[0], op.writes[0]
            continue
        j = 2 * l - i
        if i == l == 0 and len(op.reads) == 1:
            x[0] = op.reads[0]
        wanted = {x[j]} if j == l else {x[j], y[j + 1]}
        if set(op.reads) != wanted or len(op.writes) != 1:
            _refuse(graph, method, f"op {i} {op.name!r}", f"the backward that reads x_{j} and y_{j + 1}")
        y[j] = op.writes[0]
    _check_ends(graph, method, [*x, *y], initial={x[0]}, final={y[0]})
    modes = [op.all_modes[0] for op in graph.ops]
    backward = [modes[2 * l - j] for j in range(l + 1)]
    return PlainChain(
        x=tuple(x),
        y=tuple(y),
        x_bytes=tuple(graph.tensors[t].nbytes for t in x),
        y_bytes=tuple(graph.tensors[t].nbytes for t in y),
        forward_ns=tuple(m.duration_ns for m in modes[:l]),
        backward_ns=tuple(m.duration_ns for m in backward),
        forward_space=tuple(m.workspace for m in modes[:l]),
        backward_space=tuple(m.workspace for m in backward),
    )


def taped_chain(problem: Recompute, method: str) -> TapedChain:
    """Return the taped chain that the graph is.

    Raises
    ------
    UsageError
        If it is none, or its accounting is not ``coexist``.
    """
    graph = problem.graph
    l = len(graph.ops) // 2  # noqa: E741
    if graph.accounting is not Accounting.COEXIST:
        _refuse(graph, method, f"accounting {graph.accounting}", "coexist")
    if len(graph.ops) % 2:
        _refuse(graph, method, "an odd number of ops", "l forwards and l backwards")
    a, s, d = [0] * (l + 1), [0] * l, [0] * (l + 1)
    for i, op in enumerate(graph.ops[:l]):
        modes = op.all_modes
        lost = dict(modes[-1].operands)
        right = len(op.reads) == 1 and len(op.writes) == 2 and len(modes) == 2 and len(lost) == 1
        right = right and set(lost) < set(op.writes) and modes[0].duration_ns == modes[1].duration_ns
        right = right and dict(modes[0].operands) in ({}, dict.fromkeys(lost, problem.fast))
        right = right and modes[0].workspace == modes[1].workspace and (not i or op.reads == (a[i],))
        if not right:
            _refuse(
                graph,
                method,
                f"op {i} {op.name!r}",
                f"the forward of stage {i + 1}, with modes to save or lose",
            )
        a[i], s[i] = op.reads[0], next(iter(lost))
        a[i + 1] = next(t for t in op.writes if t != s[i])
    for i in reversed(range(l)):
        op = graph.ops[2 * l - 1 - i]
        known = {a[i], a[i + 1], s[i], *((d[i + 1],) if i + 1 < l else ())}
        other = set(op.reads) - known
        right = known <= set(op.reads) and len(op.writes) == 1 and len(other) == (i + 1 == l)
        if not right or len(op.all_modes) != 1:
            _refuse(graph, method, f"op {2 * l - 1 - i} {op.name!r}", f"the backward of stage {i + 1}")
        d[i + 1] = next(iter(other), d[i + 1])
        d[i] = op.writes[0]
    _check_ends(graph, method, [*a, *s, *d], initial={a[0], d[l]}, final={d[0]})
    forward = [op.all_modes[0] for op in graph.ops[:l]]
    backward = [op.all_modes[0] for op in reversed(graph.ops[l:])]
    return TapedChain(
        a=tuple(a),
        a_bytes=tuple(graph.tensors[t].nbytes for t in a),
        d_bytes=tuple(graph.tensors[t].nbytes for t in d),
        saved_bytes=tuple(graph.tensors[t].nbytes for t in s),
        forward_ns=tuple(m.duration_ns for m in forward),
        backward_ns=tuple(m.duration_ns for m in backward),
        forward_space=tuple(m.workspace for m in forward),
        backward_space=tuple(m.workspace for m in backward),
    )


def is_taped(graph: Graph) -> bool:
    """Return whether the graph can only be a taped chain: forwards with several modes."""
    return len(graph.ops[0].all_modes) > 1


def why_no_chain(problem: Recompute) -> str:
    """Return why the graph is no chain of either form; empty if it is one."""
    try:
        if is_taped(problem.graph):
            taped_chain(problem, "auto")
        else:
            plain_chain(problem, "auto")
    except UsageError as error:
        return str(error).removeprefix("method auto: ")
    return ""


def _one_mode(graph: Graph, op: Op, method: str) -> None:
    if len(op.all_modes) > 1 or op.all_modes[0].operands or op.after:
        _refuse(graph, method, f"op {op.name!r}", "ops of one mode that names no tier, without `after`")


def _check_ends(graph: Graph, method: str, tensors: list[int], *, initial: set[int], final: set[int]) -> None:
    """Raise unless these are all tensors, each once, and only those are initial or final."""
    if sorted(tensors) != list(range(len(graph.tensors))):
        _refuse(graph, method, f"{len(graph.tensors)} tensors", f"{len(tensors)} different ones in the chain")
    for t, tensor in enumerate(graph.tensors):
        if tensor.initial != (t in initial) or tensor.final != (t in final):
            _refuse(graph, method, f"tensor {tensor.name!r}", "the first initial, the last final, no other")


def _refuse(graph: Graph, method: str, found: str, expected: str) -> None:
    raise UsageError(
        f"method {method}: graph {graph.name!r} is no such chain: found {found}, expected {expected}"
    )
