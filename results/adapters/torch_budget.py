"""What forward saves for backward under torch.compile, within a number of bytes that is the true peak.

A `Budget` plugs into torch in one of three places:

* ``torch._inductor.config.joint_custom_post_pass``: inductor's own place for passes over joint graphs;
* ``torch._functorch.config.joint_custom_pass``, its method `Budget.joint_pass`: any backend with torch's
  min-cut partitioner (``aot_eager_decomp_partition``);
* ``torch._functorch.config.activation_memory_budget_solver``, beside an ``activation_memory_budget`` below
  1: torch asks which of its own candidates to save, and solves its minimum cut once more with the answer.

In the first two it marks nodes with ``meta["recompute"]``, which the partitioner obeys. Before it does, it
runs torch's own partitioner on a copy of the joint graph for each set of marks that it considers, torch's
default among them, and takes the fastest whose *true peak* is within the memory: the verified peak of what
the two graphs run, op by op (`lowtide.results.adapters.joint_graph.executed_graph`). The sets come from a
search over saved sets (`lowtide.results.adapters.saved_sets`) and from a plan of `recompute`, whose bound
is proved for every partition: each is a schedule of the joint graph's ops that `recompute` also allows.

The peak counts what the graph allocates: no parameters, buffers and inputs, which its caller holds. It
takes every op for a kernel, as backend ``aot_eager`` does; inductor fuses ops and needs less.

Tried with torch 2.13.0. Source: ``pytorch/pytorch:torch/_functorch/partitioners.py``.
"""

from __future__ import annotations

import hashlib
import time
import warnings
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..._version import __version__
from ...instances.torch_import.storages import is_operator, storage_of, storages, tensors_of
from ...instances.torch_import.tracing import require_torch
from ...models.checks import as_bytes, check_integer, check_seconds
from ...models.errors import UsageError
from ...models.problems.peak import Peak
from ...models.problems.recompute import Recompute
from ...models.units import exact_bytes
from ...solvers.solve import solve
from .joint_graph import JointGraph, copied, executed_graph, forward_outputs, joint_graph
from .saved_sets import SavedSet, SavedSets
from .torch_compile import graph_name

Marks = Mapping[str, bool]
"""Name of a node that does not depend on tangents -> whether backward runs it. Others are left to torch."""


STARTS = (0.0, 0.25, 0.5, 0.75)
"""Values of ``activation_memory_budget`` whose saved sets the search starts from; a partition each."""


@dataclass(frozen=True, kw_only=True)
class Partitioned:
    """What a budget chose for one joint graph.

    Parameters
    ----------
    graph
        As torch calls it.
    memory
        Bytes that were asked for.
    peak
        True peak in bytes of what torch's partitioner makes of the marks; of a knapsack's answer, as planned.
    saved_bytes
        Bytes that forward makes and saves for backward.
    least_ns, time_ns
        Nanoseconds of all ops once, and of all that runs.
    bound_ns
        No schedule within the memory takes less; None if there is none within it.
    status
        Of the question that `recompute` solved, any schedule allowed; ``infeasible``: none is within the
        memory.
    again
        Names of the nodes of forward that run again.
    """

    graph: str
    memory: int
    peak: int
    saved_bytes: int
    least_ns: int
    time_ns: int
    bound_ns: int | None
    status: str
    again: tuple[str, ...]


@dataclass(kw_only=True)
class Budget:
    """A number of bytes that forward and backward may need, as passes and a solver of torch.

    Parameters
    ----------
    memory
        Bytes.
    time_limit
        Seconds of search for each joint graph.
    seed
        Of the search.
    reports
        One for each joint graph that was compiled since.
    """

    memory: int
    time_limit: float
    seed: int
    reports: list[Partitioned] = field(default_factory=list)

    def __call__(self, *arguments: Any) -> Any:
        """Mark the nodes of a joint graph (inductor's one argument), or answer a knapsack (five)."""
        if len(arguments) == 1:
            return self._mark(arguments[0].owning_module)
        return self._knapsack(*arguments)

    def joint_pass(self, module: Any, joint_inputs: Any) -> Any:
        """Mark the nodes of a joint graph, and return its module: torch's ``joint_custom_pass``."""
        self._mark(module)
        return module

    def _mark(self, module: Any) -> None:
        joint = joint_graph(module.graph, graph_name())
        theirs = torch_partitions(module, joint)
        planned, bound, status = self._planned(joint, [saved for _, saved in theirs])
        again = min((taken for taken, _ in theirs), key=self._rank).again
        tried: list[tuple[Marks, TruePeak]] = []
        for marks in (
            {},
            marks_like(joint, again),
            *(marks_of(joint, x, wide) for wide, x in planned.items()),
        ):
            tried.append((marks, true_peak(module, marks)))
        marks, taken = min(tried, key=lambda row: self._rank(row[1]))
        apply_marks(module, marks)
        self._report(joint, taken, bound, status)

    def _rank(self, taken: TruePeak) -> tuple[int, int, int]:
        """Return what makes one partition better than another: the memory first, then time, then peak."""
        return max(0, taken.peak - self.memory), taken.time_ns, taken.peak

    def _planned(
        self, joint: JointGraph, starts: list[frozenset[int]]
    ) -> tuple[dict[bool, SavedSet], int | None, str]:
        """Return partitions to try, `wide` or not, the bound on the time, the status of the question."""
        deadline = time.monotonic() + self.time_limit
        problem = Recompute(joint.graph, memory=self.memory)
        result = solve(problem, time_limit=self.time_limit / 3, seed=self.seed, threads=1)
        fixed = frozenset(
            i for i, node in enumerate(joint.sources) if node is not None and must_run_once(node)
        )
        planned = {}
        for k, wide in enumerate((True, False)):
            sets = SavedSets(joint.graph, self.memory, fixed, wide, joint.views)
            own = [] if result.plan is None else [sets.of_plan(result.plan)]
            left = max(0.0, deadline - time.monotonic())
            planned[wide] = sets.best([*starts, *own], time.monotonic() + left / (2 - k), self.seed)
        return planned, result.bound, str(result.status)

    def _report(self, joint: JointGraph, taken: TruePeak, bound: int | None, status: str) -> None:
        least = sum(op.duration_ns for op in joint.graph.ops)
        self.reports.append(
            Partitioned(
                graph=joint.graph.name,
                memory=self.memory,
                peak=taken.peak,
                saved_bytes=taken.saved_bytes,
                least_ns=least,
                time_ns=taken.time_ns,
                bound_ns=bound,
                status=status,
                again=taken.again,
            )
        )
        if taken.peak > self.memory:
            warnings.warn(
                f"lowtide, graph {joint.graph.name!r}: found no partition within {exact_bytes(self.memory)}, "
                f"taken is one of {exact_bytes(taken.peak)}; give at least that, or a smaller batch",
                stacklevel=2,
            )

    def _knapsack(
        self, memory: list[float], graph: Any, max_memory: float, node_info: Any, candidates: list[Any]
    ) -> tuple[list[int], list[int]]:
        """Return the candidates to save and those to compute again, as the best partition has them."""
        joint = joint_graph(graph, graph_name())
        planned, bound, status = self._planned(
            joint, [saved for _, saved in torch_partitions(graph.owning_module, joint)]
        )
        best = min(planned.values(), key=lambda x: x.rank)
        names = {joint.sources[i].name for i in best.again}
        nbytes = sum(joint.graph.tensors[t].nbytes for t in best.saved)
        self._report(joint, TruePeak(best.peak, best.time, nbytes, tuple(sorted(names))), bound, status)
        again = [k for k, node in enumerate(candidates) if node.name in names]
        return [k for k in range(len(candidates)) if k not in again], again

    def uuid(self) -> bytes:
        """Return what tells this budget from others in torch's caches: version and options."""
        words = f"lowtide {__version__} {self.memory} {self.time_limit} {self.seed}"
        return hashlib.sha256(words.encode()).digest()


def budget(memory: int | str, *, time_limit: float = 10.0, seed: int = 0) -> Budget:
    """Return a budget for the true peak of forward and backward.

    Parameters
    ----------
    memory
        Bytes, also as ``"12GiB"``, of what each compiled graph allocates in forward and backward together;
        parameters, buffers and inputs do not count.
    time_limit
        Seconds of search for each joint graph.
    seed
        Of the search.

    Raises
    ------
    InstanceError, UsageError
        If an option is out of range.
    BackendUnavailable
        If torch is not installed.

    Examples
    --------
    >>> import torch
    >>> from lowtide.adapters import torch_budget
    >>> limit = torch_budget.budget("1MiB", time_limit=2)
    >>> module = torch.nn.Sequential(torch.nn.Linear(8, 64), torch.nn.GELU(), torch.nn.Linear(64, 1))
    >>> from torch._functorch import config
    >>> with config.patch(joint_custom_pass=limit.joint_pass):
    ...     step = torch.compile(module, backend="aot_eager_decomp_partition", dynamic=False)
    ...     step(torch.zeros(32, 8)).sum().backward()
    >>> limit.reports[0].peak <= 2**20
    True
    """
    nbytes = as_bytes(memory, 0, "budget, memory")
    if time_limit is None:
        raise UsageError("budget, time_limit: found None, expected seconds > 0")
    check_seconds(time_limit, "budget, time_limit")
    check_integer(seed, 0, "budget, seed")
    require_torch("budget")
    from torch._inductor.custom_graph_pass import CustomGraphPass, CustomKnapsackSolver

    CustomGraphPass.register(Budget)
    CustomKnapsackSolver.register(Budget)
    return Budget(memory=nbytes, time_limit=time_limit, seed=seed)


class TruePeak(NamedTuple):
    """What the graphs of a partition need.

    Attributes
    ----------
    peak
        Verified bytes.
    time_ns
        Nanoseconds of all runs.
    saved_bytes
        Bytes that forward makes and saves for backward.
    again
        Names of the nodes that run in both graphs.
    """

    peak: int
    time_ns: int
    saved_bytes: int
    again: tuple[str, ...]


def true_peak(module: Any, marks: Marks) -> TruePeak:
    """Return what torch's partitioner makes of the marks, on a copy of a joint module.

    Parameters
    ----------
    marks
        Added to those that the module has.
    """
    return _taken(*partitioned(module, marks))


def _taken(forward: Any, backward: Any, returned: int) -> TruePeak:
    graph = executed_graph(forward, backward, returned)
    both = {op.name for op in graph.ops}
    return TruePeak(
        peak=Peak(graph).evaluate(tuple(range(len(graph.ops)))),
        time_ns=sum(op.duration_ns for op in graph.ops),
        saved_bytes=saved_bytes(forward, returned),
        again=tuple(name for name in sorted(both) if f"{name} again" in both),
    )


def partitioned(module: Any, marks: Marks) -> tuple[Any, Any, int]:
    """Return the forward and backward ``torch.fx.Graph`` of a marked copy, and the count of its outputs."""
    from torch._functorch._aot_autograd.descriptors import BufferAOTInput, ParamAOTInput
    from torch._functorch.partitioners import min_cut_rematerialization_partition

    trial = copied(module)
    apply_marks(trial, marks)
    (end,) = trial.graph.find_nodes(op="output")
    returned = forward_outputs(end)
    given = [node for node in trial.graph.find_nodes(op="placeholder") if "primals" in str(node.target)]
    own = (ParamAOTInput, BufferAOTInput)
    kept = [k for k, node in enumerate(given) if isinstance(node.meta.get("desc"), own)]
    forward, backward = min_cut_rematerialization_partition(
        trial, None, num_fwd_outputs=returned, static_lifetime_input_indices=kept
    )
    return forward.graph, backward.graph, returned


def torch_partitions(module: Any, joint: JointGraph) -> list[tuple[TruePeak, frozenset[int]]]:
    """Return what torch makes with budgets of its own (`STARTS`), and the tensors that forward saves."""
    from torch._functorch import config

    partitions = []
    for share in STARTS:
        with config.patch(activation_memory_budget=share, activation_memory_budget_solver="greedy"):
            forward, backward, returned = partitioned(module, {})
        (end,) = forward.find_nodes(op="output")
        names = {node.name for node in end.args[0][returned:]}
        saved = [t for t, nodes in enumerate(joint.nodes) if any(node.name in names for node in nodes)]
        partitions.append((_taken(forward, backward, returned), frozenset(saved)))
    return partitions


def saved_bytes(forward: Any, returned: int) -> int:
    """Return the bytes of what a forward graph makes and returns behind its first outputs."""
    given = {s for node in forward.find_nodes(op="placeholder") for s in storages(node)}
    (end,) = forward.find_nodes(op="output")
    saved = {
        storage_of(x): int(x.untyped_storage().nbytes())
        for node in end.args[0][returned:]
        for x in tensors_of(node)
    }
    return sum(nbytes for s, nbytes in saved.items() if s not in given)


def marks_of(joint: JointGraph, chosen: SavedSet, wide: bool) -> Marks:
    """Return the marks that make torch run in backward what a partition does, and nothing else of forward.

    Parameters
    ----------
    wide
        Torch may also choose where ops run that only backward needs; otherwise backward runs them.
    """
    sets = SavedSets(joint.graph, 0)
    if wide:
        return _marks(joint, chosen.again, sets.forward)
    return _marks(joint, chosen.again | (sets.early - sets.forward), sets.early)


def marks_like(joint: JointGraph, again: Collection[str]) -> Marks:
    """Return the marks that make torch run these nodes of forward again, and no others."""
    chosen = frozenset(i for i, node in enumerate(joint.sources) if node is not None and node.name in again)
    return _marks(joint, chosen, SavedSets(joint.graph, 0).forward)


def _marks(joint: JointGraph, backward: Collection[int], ops: Iterable[int]) -> Marks:
    return {
        joint.sources[i].name: i in backward and not must_run_once(joint.sources[i])
        for i in sorted(ops)
        if is_operator(joint.sources[i]) and "recompute" not in joint.sources[i].meta
    }


def apply_marks(module: Any, marks: Marks) -> None:
    """Write marks into the nodes of a joint module."""
    from torch.utils.checkpoint import CheckpointPolicy

    for node in module.graph.nodes:
        if node.name in marks:
            again = marks[node.name]
            node.meta["recompute"] = CheckpointPolicy.MUST_RECOMPUTE if again else CheckpointPolicy.MUST_SAVE


def must_run_once(node: Any) -> bool:
    """Return whether an op must not run again: it draws random numbers, changes something or communicates."""
    import torch
    from torch.utils.checkpoint import CheckpointPolicy

    if node.meta.get("recompute") is CheckpointPolicy.MUST_SAVE or not is_operator(node):
        return True
    drawn = torch.Tag.nondeterministic_seeded in node.target.tags
    return bool(drawn or node.target._schema.is_mutable or node.target.namespace == "_c10d_functional")
