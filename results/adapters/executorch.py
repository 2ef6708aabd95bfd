"""ExecuTorch: the addresses of the tensors of a program, as an algorithm of its memory planning.

`algorithm` returns a function that ExecuTorch's ``MemoryPlanningAlgorithmSuite`` calls beside its own
``greedy``. The suite takes the plan with the least bytes, so a program never needs more than with ``greedy``.

What the planner gives and expects (executorch 1.5.1, read in ``exir/memory_planning.py``):

* a ``TensorSpec`` lives in the nodes ``lifetime[0]`` to ``lifetime[1]``, both included, and takes
  ``allocated_memory`` bytes: its bytes rounded up to the alignment;
* ``mem_id`` is the arena that an earlier pass chose, or None; arena 0 is for constants;
* a spec with a ``storage_base`` lies in the bytes of that spec, ``storage_base_offset`` behind its start;
* the memory of submodules (``cond``, ``while``, ``map``, ``scan``) is planned first, and the first
  ``input_mem_buffer_sizes[mem_id]`` bytes of an arena are theirs as long as the program runs: what a branch
  returns stays where the branch wrote it;
* specs that overlap in bytes have equal ``mem_obj_id``: here all of an arena have.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ...models.buffers import Buffer, Buffers
from ...models.errors import BackendUnavailable, InstanceError, UsageError
from ...models.problems.arena import Arena
from ...models.problems.offsets import Offsets
from ...models.problems.problem import Problem
from ...models.result import Result
from ...solvers.solve import solve
from .executorch_order import program_graph, rearrange

if TYPE_CHECKING:
    from executorch.exir.memory_planning import MemoryAlgoResult
    from executorch.exir.tensor import TensorSpec

Report = Callable[[Problem, Result], object]
"""What is called with each question and its answer."""

DEFAULT_ARENA = 1
"""Number of the arena of specs without a ``mem_id``; number 0 holds constants in ExecuTorch's programs."""


def algorithm(
    *,
    time_limit: float | None = 5,
    seed: int = 0,
    threads: int | None = None,
    banks: Any = None,
    report: Report | None = None,
) -> Callable[..., MemoryAlgoResult]:
    """Return an algorithm for the ``algo_list`` of ExecuTorch's ``MemoryPlanningAlgorithmSuite``.

    Its arenas have the least bytes that `lowtide.solve` found. It returns the result of ``greedy``, with a
    `UserWarning`, where a ``storage_base`` breaks the rules of ExecuTorch or no plan was found in time.

    Parameters
    ----------
    time_limit
        Seconds for each graph module; control flow has several. None for no limit.
    seed, threads
        As `lowtide.solve` takes them.
    banks
        ExecuTorch's ``TargetMemoryMap``, or None. The fewest bytes lie outside of its first bank; then each
        bank takes the fewest bytes for what lies in it. It must be the only algorithm of its suite, which
        compares sums over banks; what takes the place of ``greedy`` is ``BankedGreedy``. A spec with a
        ``mem_id`` stays in that bank. All offsets have the largest alignment of the banks.
    report
        Called with the questions and results of each graph module, with banks first of what lies where. Bytes
        of submodules and padding are in neither.

    Raises
    ------
    BackendUnavailable
        If executorch is not installed.

    Examples
    --------
    >>> from lowtide.adapters import executorch
    >>> executorch.algorithm(time_limit=2).__name__  # doctest: +SKIP
    'lowtide'
    """
    return _algorithm({}, banks, report, time_limit=time_limit, seed=seed, threads=threads)


def planning_pass(
    *,
    order: bool = True,
    time_limit: float | None = 5,
    seed: int = 0,
    threads: int | None = None,
    banks: Any = None,
    report: Report | None = None,
    **options: Any,
) -> Any:
    """Return a ``MemoryPlanningPass`` with ``greedy`` and `algorithm` that may first reorder the nodes.

    Lifetimes are counted in nodes, so another order of the nodes may need less memory than any addresses for
    the order of the program. The order changes only if the arena becomes smaller by it; what runs, and on
    what, stays the same. Graphs of control flow keep their order.

    Parameters
    ----------
    order
        Choose the order of the nodes of each method, together with the addresses.
    time_limit
        Seconds for each graph module, and as many again for the order of each method. None for no limit.
    seed, threads
        As `lowtide.solve` takes them.
    banks
        As `algorithm` takes them. The order is chosen for one memory without banks.
    report
        Called with the questions and results: `Arena` for an order, if one was asked for, then `Offsets`.
    **options
        Those of ``MemoryPlanningPass`` but for its algorithm.

    Raises
    ------
    BackendUnavailable
        If executorch is not installed.
    UsageError
        If mutable buffers are shared between methods and there are banks: ExecuTorch puts them into arena 2.

    Examples
    --------
    >>> from lowtide.adapters import executorch
    >>> executorch.planning_pass(alloc_graph_input=False)  # doctest: +SKIP
    <executorch.exir.passes.memory_planning_pass.MemoryPlanningPass object at ...>
    """
    planning = require_planning()
    from executorch.exir.passes import MemoryPlanningPass

    known: dict[TensorSpec, int] = {}
    limits = {"time_limit": time_limit, "seed": seed, "threads": threads}

    class Planning(MemoryPlanningPass):  # type: ignore[misc]
        def run(self, graph_module: Any, graph_signature: Any = None) -> Any:
            specs = planning.collect_specs_from_nodes(
                graph_module.graph.nodes,
                graph_signature,
                ignore_graph_input=not self.alloc_graph_input,
                ignore_graph_output=not self.alloc_graph_output,
                ignore_mutable_buffers=not self.alloc_mutable_buffers or self.share_mutable_buffers,
                ignore_out_var_node=False,
                do_assertion=False,
            )
            if order:
                known.update(
                    _ordered(graph_module, graph_signature, list(specs), self.alignment, report, limits)
                )
            return super().run(graph_module, graph_signature)

    if banks is not None and options.get("share_mutable_buffers"):
        raise UsageError("share_mutable_buffers: found it with banks, expected one of both")
    others = [] if banks is not None else [planning.greedy]
    suite = planning.MemoryPlanningAlgorithmSuite([*others, _algorithm(known, banks, report, **limits)])
    return Planning(memory_planning_algo=suite, **options)


def _algorithm(
    known: Mapping[TensorSpec, int], target: Any, report: Report | None, **options: Any
) -> Callable[..., MemoryAlgoResult]:
    """Return the algorithm; `known` has offsets of specs that it begins with, where they allow them."""
    planning = require_planning()
    if target is None:
        fallback = planning.greedy
    else:
        from executorch.exir.banked_memory_planning import BankedGreedy

        fallback = BankedGreedy(target)

    def solved(problem: Offsets, hint: Mapping[str, int] | None) -> Mapping[str, int]:
        result = solve(problem, hint=hint, **options)
        if report is not None:
            report(problem, result)
        if result.allocation is None:
            raise InstanceError(f"found no plan in time, status {result.status}")
        return result.allocation

    def lowtide(
        alignment: int,
        specs: Iterable[TensorSpec],
        graph_module: Any,
        graph_signature: Any = None,
        extra_padding: int = 0,
    ) -> MemoryAlgoResult:
        listed = list(specs)
        reserved = getattr(graph_module, "input_mem_buffer_sizes", None) or []

        try:
            if target is None:
                step, problem = alignment, Offsets(buffers_of(alignment, listed))
                offsets = solved(problem, _hint(problem, listed, known))
            else:
                step = max(alignment, *(bank.alignment or 1 for bank in target.banks))
                begins = dict(enumerate(_begins(reserved, step)))
                room = {b.mem_id: b.size - begins.get(b.mem_id, 0) - extra_padding for b in target.banks}
                problem, offsets = _divided(buffers_of(step, listed, ""), room, solved)
        except InstanceError as fault:
            warnings.warn(f"executorch: {fault}; the plan is that of {fallback.__name__}", stacklevel=2)
            return fallback(alignment, listed, graph_module, graph_signature, extra_padding)
        arenas = {b.id: int(b.pool) for b in problem.buffers.buffers}
        return _written(listed, arenas, offsets, step, reserved, extra_padding)

    return lowtide


def _divided(
    buffers: Buffers,
    room: Mapping[int, int],
    solved: Callable[[Offsets, Mapping[str, int] | None], Mapping[str, int]],
) -> tuple[Offsets, Mapping[str, int]]:
    """Return the buffers with a bank each, as pools, and their offsets.

    Parameters
    ----------
    buffers
        With the arena that they must lie in as pool, which may be no bank, or none.
    room
        Bytes of each bank by its number, the fastest first.
    solved
        Returns offsets for a question, from known ones.
    """
    banks = {str(number): size for number, size in room.items() if size > 0}
    free = tuple(b for b in buffers.buffers if not b.pool or b.pool in banks)
    elsewhere = Buffers(buffers=tuple(b for b in buffers.buffers if b.pool and b.pool not in banks))
    if free and not banks:
        raise InstanceError("banks: found none with bytes left, expected one")
    if len(banks) > 1:
        text = "/".join(f"{name}={size}" for name, size in banks.items())
        question = Offsets(Buffers(buffers=free, name=buffers.name), banks=text)
        placed, known = question.in_banks(solved(question, None))
    else:
        chosen = tuple(replace(b, pool=name) for b in free for name in banks)
        placed, known = Buffers(buffers=chosen, pools=banks), None
    offsets = {**solved(Offsets(placed), known), **solved(Offsets(elsewhere), None)}
    return Offsets(Buffers(buffers=(*placed.buffers, *elsewhere.buffers))), offsets


def _hint(
    problem: Offsets, specs: Sequence[TensorSpec], known: Mapping[TensorSpec, int]
) -> dict[str, int] | None:
    """Return known offsets as an answer, None if they are none."""
    if not all(specs[int(b.id)] in known for b in problem.buffers.buffers):
        return None
    offsets = {b.id: known[specs[int(b.id)]] for b in problem.buffers.buffers}
    return offsets if problem.judge(offsets).verification.valid else None


def _ordered(
    graph_module: Any,
    graph_signature: Any,
    specs: Sequence[TensorSpec],
    alignment: int,
    report: Report | None,
    options: Mapping[str, Any],
) -> dict[TensorSpec, int]:
    """Put the nodes in the order with the least arena that was found; return the offsets that go with it."""
    for spec in specs:
        spec.realign(alignment)
    try:
        program = program_graph(graph_module, graph_signature, specs)
    except InstanceError as fault:
        warnings.warn(f"executorch: {fault}; the order stays", stacklevel=2)
        return {}
    problem = Arena(program.graph, alignment)
    two_step = {"order": "reference", "allocation": "auto"}
    stays = solve(problem, "two-step", options=two_step, **options)
    best = solve(problem, hint=stays.plan, **options)
    if report is not None:
        report(problem, best)
    if best.plan is None or best.objective is None or best.objective >= (stays.objective or 0):
        return {}
    rearrange(graph_module, program.groups, best.plan.order)
    addresses = problem.read(best.plan).addresses
    return {spec: x or 0 for spec, x in zip(program.specs, addresses, strict=False)}


def require_planning() -> Any:
    """Return the module ``executorch.exir.memory_planning``.

    Raises
    ------
    BackendUnavailable
        If it cannot be imported.
    """
    try:
        from executorch.exir import memory_planning
    except ImportError as fault:
        missing = f"the package executorch or one that it needs is not installed ({fault})"
        raise BackendUnavailable(f"executorch: {missing}; pip install 'lowtide[executorch]'") from None
    return memory_planning


def buffers_of(alignment: int, specs: Sequence[TensorSpec], default: str = str(DEFAULT_ARENA)) -> Buffers:
    """Return the buffers that specs with lifetimes ask for, one for each storage; its pool is the arena.

    Parameters
    ----------
    alignment
        In bytes; sizes are rounded up to it.
    specs
        With lifetimes. Those with a ``storage_base`` lengthen the life of that storage.
    default
        The pool of specs without a ``mem_id``.

    Raises
    ------
    InstanceError
        If a ``storage_base`` is not among the specs or does not hold the bytes of the spec.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> from lowtide.results.adapters.executorch import buffers_of
    >>> spec = SimpleNamespace(
    ...     lifetime=[2, 4], realign=lambda a: 32, mem_id=None, storage_base=None
    ... )
    >>> buffers_of(16, [spec]).buffers[0].upper
    5
    """
    index = {id(spec): k for k, spec in enumerate(specs)}
    lives: dict[int, list[int]] = {}
    for spec in specs:
        _check_storage(spec, index, alignment)
        lives.setdefault(index[id(_root(spec)[0])], []).extend(spec.lifetime)
    buffers = (
        Buffer(
            id=str(k),
            lower=min(life),
            upper=max(life) + 1,
            size=specs[k].realign(alignment),
            alignment=alignment,
            pool=default if specs[k].mem_id is None else str(specs[k].mem_id),
        )
        for k, life in sorted(lives.items())
    )
    return Buffers(buffers=tuple(buffers), name="executorch")


def _root(spec: TensorSpec) -> tuple[TensorSpec, int]:
    """Return the spec whose storage a spec lies in, and how many bytes behind its start."""
    start = 0
    while spec.storage_base is not None:
        start += spec.storage_base_offset
        spec = spec.storage_base
    return spec, start


def _begins(reserved: Sequence[int], alignment: int) -> list[int]:
    """Return the first address of each arena that is free and aligned."""
    return [-(-size // alignment) * alignment for size in reserved]


def _check_storage(spec: TensorSpec, planned: Mapping[int, int], alignment: int) -> None:
    """Raise `InstanceError` if a spec does not lie, aligned, inside of storages that are planned."""
    seen = {id(spec)}
    while (base := spec.storage_base) is not None:
        start, end = spec.storage_base_offset, spec.storage_base_offset + spec.realign(alignment)
        if id(base) not in planned or id(base) in seen:
            wrong = "a circle" if id(base) in seen else "one that is not planned"
            raise InstanceError(f"storage_base: found {wrong}, expected a chain of planned specs")
        if start < 0 or start % alignment or end > base.realign(alignment):
            room = f"multiples of {alignment} in 0 to {base.realign(alignment)}"
            raise InstanceError(f"storage_base_offset: found bytes {start} to {end}, expected {room}")
        seen.add(id(base))
        spec = base


def _written(
    specs: Sequence[TensorSpec],
    arenas: Mapping[str, int],
    offsets: Mapping[str, int],
    alignment: int,
    reserved: Sequence[int],
    extra_padding: int,
) -> MemoryAlgoResult:
    """Return arenas and offsets of storages as ExecuTorch's result.

    Parameters
    ----------
    reserved
        Bytes at the start of each arena that are taken.
    extra_padding
        Bytes at the end of each arena that has specs.
    """
    planning = require_planning()
    sizes = [*reserved, *[0] * (max({DEFAULT_ARENA, *arenas.values()}) + 1 - len(reserved))]
    begins = _begins(sizes, alignment)
    index = {id(spec): str(k) for k, spec in enumerate(specs)}
    allocations = {}
    for spec in specs:
        root, start = _root(spec)
        arena = arenas[index[id(root)]]
        offset = begins[arena] + offsets[index[id(root)]] + start
        allocations[spec] = planning.SpecAllocResult(arena, 0, offset)
        sizes[arena] = max(sizes[arena], offset + spec.realign(alignment))
    for arena in {*arenas.values()}:
        sizes[arena] += extra_padding
    return planning.MemoryAlgoResult(allocations, sizes)
