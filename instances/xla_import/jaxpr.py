"""Functions of JAX as graphs: equations of the jaxpr are ops, their results tensors.

Calls (``jit``, ``checkpoint``, custom derivatives) are inlined; reshapes, and ``checkpoint_name``, are no
ops. A tensor that ``checkpoint_name`` names has that name, and the provenance lists them
(``checkpoint_names``).

A ``scan``, ``while`` or ``cond`` is one op. While it runs it holds besides what it reads and writes the least
peak of its body over all orders, without what an iteration writes: as control flow of ONNX.

Source: jax 0.10.2, ``jax.make_jaxpr`` and ``jax.extend.core`` [tried].
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from math import prod
from typing import Any

from ...models.errors import BackendUnavailable, InstanceError, UsageError
from ...models.graph import Graph
from ...models.machine import Machine
from ...models.work import Work
from ..durations import at_peak_rates, with_durations
from ..machines import load_machine
from .board import Board, dtype_of

_VIEWS = frozenset({"reshape", "squeeze", "expand_dims", "stop_gradient", "name", "optimization_barrier"})
_INLINED = frozenset(
    {
        *("jit", "pjit", "closed_call", "core_call", "remat", "remat2", "checkpoint", "custom_lin"),
        *("custom_jvp_call", "custom_vjp_call", "custom_vjp_call_jaxpr"),
    }
)
_INNER = ("jaxpr", "call_jaxpr", "fun_jaxpr")


def from_jax(
    function: Callable[..., Any],
    *args: Any,
    donate: Iterable[int] = (),
    bodies: str = "least",
    durations: str | os.PathLike[str] | Machine | None = None,
    name: str | None = None,
) -> Graph:
    """Return the graph of a function of JAX, before XLA's optimizations; nothing is computed.

    Parameters
    ----------
    function
        What ``jax.make_jaxpr`` takes: for a training step what ``jax.grad`` returns, or one with an
        optimizer.
    *args
        What it is called with: trees of arrays, or of ``jax.ShapeDtypeStruct``.
    donate
        Positions of arguments whose memory may be freed; the others stay to the end, since the caller has
        them.
    bodies
        ``least``: bodies of control flow need the least peak of all orders; ``file``: that of their own one.
    durations
        Machine with rates, or its name or file: ops take as long as on its device. None: as on an A100 at its
        peak rates.
    name
        Of the graph; None: that of the function.

    Returns
    -------
    Graph
        One op for each equation. XLA fuses many of them, so its peak is another one: `lowtide.load` reads the
        HLO that XLA compiled. The provenance has the tensors of each name that ``checkpoint_name`` gave.

    Raises
    ------
    InstanceError
        If JAX cannot trace the function, a shape is symbolic, or a body has no proved least peak.
    BackendUnavailable
        If jax is not installed.

    Examples
    --------
    >>> import jax
    >>> import lowtide as lt
    >>> loss = lambda w, x: jax.numpy.tanh(x @ w).sum()
    >>> lt.from_jax(jax.grad(loss), jax.numpy.zeros((4, 4)), jax.numpy.zeros((2, 4)), name="step")
    Graph('step', 10 ops, 12 tensors)
    """
    try:
        import jax
    except ImportError:
        raise BackendUnavailable("from_jax: found no package jax, expected it: pip install jax") from None
    if not callable(function):
        raise UsageError(f"from_jax: found {type(function).__name__}, expected a function of JAX")
    if bodies not in ("least", "file"):
        raise UsageError(f"from_jax, bodies: found {bodies!r}, expected least or file")
    label = str(name or getattr(function, "__name__", "function"))
    try:
        closed = jax.make_jaxpr(function)(*args)
    except Exception as error:
        first = str(error).strip().partition("\n")[0][:200]
        raise InstanceError(
            f"from_jax, {label}: found {first}, expected a function that JAX can trace"
        ) from None
    board = _JaxBoard(reorder=bodies == "least")
    given = board.inputs(closed.jaxpr.invars)
    donated, begin = {*donate}, 0
    for position, argument in enumerate(args):
        end = begin + len(jax.tree.leaves(argument))
        if position not in donated:
            board.keep(given[begin:end])
        begin = end
    constants = board.inputs(closed.jaxpr.constvars, "weight")
    board.keep(constants)
    board.keep(board.place(closed.jaxpr, [*constants, *given]))
    names: dict[str, list[str]] = {}
    for text, t in board.named:
        names.setdefault(text, []).append(board.tensors[t].name)
    graph = Graph(
        name=label,
        tensors=tuple(board.tensors),
        ops=tuple(board.ops),
        provenance={"source": "jax", "checkpoint_names": names},
    )
    if durations is None:
        return at_peak_rates(graph)
    return with_durations(graph, durations if isinstance(durations, Machine) else load_machine(durations))


class _JaxBoard(Board):
    """A board on which equations are put."""

    def __init__(self, *, reorder: bool) -> None:
        super().__init__(reorder=reorder)
        self.named: list[tuple[str, int]] = []
        self.count = 0

    def inputs(self, variables: Sequence[Any], kind: str = "input", *, held: bool = False) -> list[int]:
        """Add tensors that are there before the first equation; `held`: their bytes count outside."""
        sizes = [0 if held else _nbytes(v) for v in variables]
        return [self.tensor(f"{kind}.{k}", size, kind, initial=True) for k, size in enumerate(sizes)]

    def place(self, jaxpr: Any, given: Sequence[int]) -> list[int]:
        """Put equations on the board; return the tensors of the results.

        Parameters
        ----------
        given
            The tensors of the constants and of the arguments.
        """
        values: dict[Any, int] = dict(zip([*jaxpr.constvars, *jaxpr.invars], given, strict=True))
        for equation in jaxpr.eqns:
            reads = [values[v] for v in equation.invars if not _is_literal(v)]
            kind = equation.primitive.name
            inner = next((equation.params[key] for key in _INNER if key in equation.params), None)
            if (kind in _VIEWS or _keeps_precision(equation, kind)) and len(reads) == len(equation.outvars):
                made = reads
                if kind == "name":
                    self._call(reads[0], str(equation.params["name"]))
            elif kind in _INLINED and inner is not None:
                made = self._inline(inner, equation.invars, values)
            else:
                made = self._equation(equation, kind, reads)
            values.update(zip(equation.outvars, made, strict=True))
        return [self._literal(v) if _is_literal(v) else values[v] for v in jaxpr.outvars]

    def _inline(self, inner: Any, variables: Sequence[Any], values: dict[Any, int]) -> list[int]:
        jaxpr = getattr(inner, "jaxpr", inner)
        constants = self.inputs(jaxpr.constvars, "weight")
        self.keep(constants)
        given = [self._literal(v) if _is_literal(v) else values[v] for v in variables]
        return self.place(jaxpr, [*constants, *given[: len(jaxpr.invars)]])

    def _literal(self, variable: Any) -> int:
        return self.tensor("literal", _nbytes(variable), "weight", initial=True)

    def _call(self, tensor: int, name: str) -> None:
        self.rename(tensor, name)
        self.named.append((name, tensor))

    def _equation(self, equation: Any, kind: str, reads: list[int]) -> list[int]:
        self.count += 1
        label = f"{kind}.{self.count}"
        writes = [self.tensor(label, _nbytes(v)) for v in equation.outvars]
        workspace, work = self._inside(equation, kind, label)
        element = next((str(getattr(v.aval, "dtype", "")) for v in equation.outvars), "")
        self.op(
            label,
            kind,
            reads,
            writes,
            workspace=workspace,
            multiply_adds=_multiply_adds(equation, kind),
            dtype=dtype_of(element),
            work=work,
        )
        return writes

    def _inside(self, equation: Any, kind: str, label: str) -> tuple[int, list[Work] | None]:
        """Return the bytes that bodies need besides what the op reads and writes, and their work."""
        p = equation.params
        if kind == "scan":
            return self._body(p["jaxpr"], label, p["num_consts"], times=p["length"])
        if kind == "while":
            workspace, work = self._body(p["body_jaxpr"], label, p["body_nconsts"])
            condition, _ = self._body(p["cond_jaxpr"], label, None, held_results=False)
            return max(workspace, condition), work
        if kind == "cond":
            branches = [self._body(branch, label, None) for branch in p["branches"]]
            return max(w for w, _ in branches), max((work for _, work in branches), key=_moved)
        return 0, None

    def _body(
        self, closed: Any, label: str, held: int | None, *, times: int = 1, held_results: bool = True
    ) -> tuple[int, list[Work]]:
        """Return what a body needs besides its results, and the work of all iterations.

        Parameters
        ----------
        held
            How many of its first arguments the op reads as they are; None: all.
        """
        board, jaxpr = _JaxBoard(reorder=self.reorder), closed.jaxpr
        constants = board.inputs(jaxpr.constvars, held=True)
        count = len(jaxpr.invars) if held is None else held
        given = board.inputs(jaxpr.invars[:count], held=True) + board.inputs(jaxpr.invars[count:])
        results = board.place(jaxpr, [*constants, *given])
        board.keep(results)
        peak = board.peak(f"from_jax, body of {label}")
        known = sum(_nbytes(v) for v in jaxpr.outvars) if held_results else 0
        work = [w for op in board.ops for w in op.work or ()]
        return max(0, peak - known), [w.repeated(max(1, times)) for w in work]


def _keeps_precision(equation: Any, kind: str) -> bool:
    """Return whether an equation rounds to the precision that values have; ``jax.checkpoint`` makes such."""
    if kind != "reduce_precision":
        return False
    from jax.numpy import finfo

    about = finfo(equation.outvars[0].aval.dtype)
    stated = (equation.params["exponent_bits"], equation.params["mantissa_bits"])
    return stated == (about.nexp, about.nmant)


def _moved(work: list[Work]) -> int:
    return sum(w.nbytes * w.times for w in work)


def _is_literal(variable: Any) -> bool:
    return hasattr(variable, "val")


def _nbytes(variable: Any) -> int:
    """Return the bytes of a value; 0 of a token."""
    aval = variable.aval
    shape, dtype = getattr(aval, "shape", ()), getattr(aval, "dtype", None)
    if not all(type(size) is int for size in shape):
        raise InstanceError(f"from_jax: found the symbolic shape {shape}, expected integers")
    return prod(shape) * int(getattr(dtype, "itemsize", 0))


def _multiply_adds(equation: Any, kind: str) -> int:
    """Return the multiply-adds of a product of matrices or a convolution."""
    out = prod(equation.outvars[0].aval.shape) if kind in ("dot_general", "conv_general_dilated") else 0
    if kind == "dot_general":
        (contracted, _), _ = equation.params["dimension_numbers"]
        return int(out * prod(equation.invars[0].aval.shape[k] for k in contracted))
    if kind == "conv_general_dilated":
        kernel = equation.invars[1].aval.shape
        return int(out * prod(kernel) // max(1, kernel[equation.params["dimension_numbers"].rhs_spec[0]]))
    return 0
