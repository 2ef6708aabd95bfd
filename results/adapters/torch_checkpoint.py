"""Selective checkpoints of torch in eager mode: which ops of each region are kept, within a number of bytes.

A *region* is a call ``checkpoint(block, x, use_reentrant=False, context_fn=checkpoints.context_fn)``. Torch
keeps its inputs and the results of the ops that the policy saves. At the first gradient that needs something
of the region it runs *all* its other ops again, up to the last one that backward needs, and holds what
backward reads until it does. So a policy is a set of kept ops, and what a set costs is exact:

* torch rehearses the step without kept ops (`lowtide.results.adapters.eager_step`). Each result of a region
  then has two lives, the first and the one behind the second run;
* an op that is kept does not run again, and its results live in the gap between the two lives, too. No
  other life changes: the second run is the same, with the result in the place of the op.

So the best policy is a temporal knapsack (`lowtide.results.adapters.kept_sets`), which is solved exactly. Of
the ops of a region that draw random numbers all are kept or none, since torch draws from the same state
again. What changes in place is computed again. Always kept are ops that communicate, or that change a buffer:
running statistics count each batch once.

Source: ``pytorch/pytorch:torch/utils/checkpoint.py``, ``_CachingTorchDispatchMode``, ``_recomputation_hook``
(2.13.0); tried with torch 2.13.0.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from itertools import count
from typing import TYPE_CHECKING, Any

from ...instances.torch_import.storages import BATCH_NORMS
from ...instances.torch_import.tracing import require_torch
from ...models.checks import as_bytes, check_integer, check_seconds
from ...models.errors import InstanceError, UsageError
from ...models.graph import Graph
from ...models.machine import Machine
from ...models.plan import Plan
from ...models.result import Result
from ...models.units import exact_bytes
from ...models.verify import verify
from .kept_sets import KnapsackItem, kept_sets
from .orders import UNTRACED, plan_for

if TYPE_CHECKING:
    from .eager_step import Recorder, Rehearsal, Step

Place = tuple[int, int]
"""Number of a region in the step, and number of an op in the region."""


@dataclass(frozen=True, kw_only=True)
class Checkpointed:
    """A step with checkpoints as torch runs it.

    Parameters
    ----------
    peak
        Bytes that torch holds at most beside parameters, buffers and data; that of the plan.
    least_ns, time_ns
        Nanoseconds of all ops once, and of all that runs.
    bound_ns
        No choice of kept ops within the memory takes less; None if none is within it, or none was asked for.
    status
        ``optimal``, ``feasible`` or ``infeasible`` within the memory, or ``followed``: the ops were given.
    kept, again
        Names of the ops of regions that are kept, and of those that run again.
    graph, plan
        All that runs, each second run an op of its own, and when torch releases what.
    """

    peak: int
    least_ns: int
    time_ns: int
    bound_ns: int | None
    status: str
    kept: tuple[str, ...]
    again: tuple[str, ...]
    graph: Graph = field(repr=False)
    plan: Plan = field(repr=False)


@dataclass(eq=False)
class Checkpoints:
    """A policy for the checkpointed regions of a step; without a choice, all ops run again.

    A step calls the regions in the order of the traced one.

    Attributes
    ----------
    graph
        The traced step, each op once; None before `trace`.
    ops
        The ops of all regions: number of the region and of the op in it -> operator of torch, views too.

    Examples
    --------
    >>> import torch
    >>> from torch.utils.checkpoint import checkpoint
    >>> from lowtide.adapters import torch_checkpoint
    >>> checkpoints = torch_checkpoint.Checkpoints()
    >>> class Block(torch.nn.Sequential):
    ...     def forward(self, x):
    ...         return checkpoint(super().forward, x, use_reentrant=False, context_fn=checkpoints.context_fn)
    >>> block, x = Block(torch.nn.Linear(8, 64), torch.nn.GELU(), torch.nn.Linear(64, 8)), torch.ones(32, 8)
    >>> graph = checkpoints.trace(block, x, None, torch.sum)
    >>> checkpoints.choose("1MiB").again
    ()
    >>> block(x).sum().backward()
    """

    graph: Graph | None = field(default=None, init=False)
    _step: Step | None = field(default=None, init=False, repr=False)
    _base: Rehearsal | None = field(default=None, init=False, repr=False)
    ops: dict[Place, Any] = field(default_factory=dict, init=False, repr=False)
    _events: dict[Place, int] = field(default_factory=dict, init=False, repr=False)
    _kept: set[Place] = field(default_factory=set, init=False, repr=False)
    _fixed: set[Place] = field(default_factory=set, init=False, repr=False)
    _never: set[Place] = field(default_factory=set, init=False, repr=False)
    _region: int = field(default=0, init=False, repr=False)
    _regions: int = field(default=1, init=False, repr=False)
    _recorder: Recorder | None = field(default=None, init=False, repr=False)

    def context_fn(self) -> tuple[Any, Any]:
        """Return the contexts of the next region, for ``torch.utils.checkpoint.checkpoint``.

        Raises
        ------
        UsageError
            When the region runs: if its ops are not those of the traced step.
        """
        import torch
        from torch.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts

        if not torch.is_grad_enabled() or (self.graph is None and self._recorder is None):
            return nullcontext(), nullcontext()
        region, recorder, numbers = self._region, self._recorder, count()
        self._region = region + 1 if recorder else (region + 1) % self._regions

        def policy(context: Any, op: Any, *args: Any, **kwargs: Any) -> Any:
            place = region, next(numbers)
            if recorder is not None:
                self._note(place, op, args, recorder)
            elif self.ops.get(place) is not op:
                raise UsageError(
                    f"checkpoint, region {region}, op {place[1]}: found {op}, expected "
                    f"{self.ops.get(place)} as in the traced step; trace the module as it is now"
                )
            keeps = place in self._kept or place in self._fixed
            return CheckpointPolicy.MUST_SAVE if keeps else CheckpointPolicy.MUST_RECOMPUTE

        first, second = create_selective_checkpoint_contexts(policy, allow_cache_entry_mutation=True)
        return first, second if recorder is None else self._observed(region, second, recorder)

    def trace(self, module: Any, inputs: Any, targets: Any, loss: Callable[..., Any]) -> Graph:
        """Return the graph of a training step whose module calls `context_fn`; nothing is computed.

        Parameters
        ----------
        module, inputs, targets, loss
            As of `lowtide.trace`.

        Raises
        ------
        InstanceError
            If torch cannot run the step on fake tensors, there is no region, or one within another one, or a
            region changes a value from outside.
        BackendUnavailable
            If torch is not installed.
        """
        require_torch("checkpoints")
        from .eager_step import step_of

        self.graph, self._kept, self._never = None, set(), set()
        self._step = step_of(module, inputs, targets, loss, self._begin)
        self._base = self._rehearsed()
        if not self.ops:
            raise InstanceError(
                f"step of {type(module).__name__}: found no region, expected checkpoint(..., "
                "use_reentrant=False, context_fn=checkpoints.context_fn) in it"
            )
        self._leave_changes()
        self._regions = 1 + max(region for region, _ in self.ops)
        self.graph = self._base.graph(type(module).__name__, once=True)
        return self.graph

    def choose(self, memory: int | str, *, time_limit: float = 10.0, seed: int = 0) -> Checkpointed:
        """Keep the ops with which a step within a memory takes the least time, and return what torch runs.

        Warns if no choice is within the memory; then all ops run again.

        Parameters
        ----------
        memory
            Bytes, also as ``"12GiB"``, beside parameters, buffers and data; gradients and the loss count.
        time_limit
            Seconds of the search.
        seed
            Of the search.

        Raises
        ------
        InstanceError, UsageError
            If an option is out of range, or nothing was traced.
        """
        nbytes = as_bytes(memory, 0, "choose, memory")
        check_seconds(time_limit, "choose, time_limit")
        check_integer(seed, 0, "choose, seed")
        base, graph = self._base, self.graph
        if base is None or graph is None:
            raise UsageError(f"choose: {UNTRACED}")
        later = {s: again for again, s in base.again.items()}
        groups, items = self._groups(), []
        for places in groups:
            events = [self._events[place] for place in places]
            made = {s: later[s] for e in events for s in base.events[e].writes}
            items.append(KnapsackItem(sum(map(base.duration, events)), base.change_if_kept(made)))
        choice = kept_sets(base.profile(), items, nbytes, time_limit, seed)
        self._kept = {place for i in choice.items for place in groups[i]}
        free = {self._events[place] for places in groups for place in places}
        anyway = sum(base.duration(e) for e, first in base.repeated.items() if first not in free)
        bound = sum(op.duration_ns for op in graph.ops) + anyway + choice.bound
        answer = self._answer(choice.status, None if choice.status == "infeasible" else bound)
        if answer.status == "optimal" and (answer.peak > nbytes or answer.time_ns > bound):
            answer = replace(answer, status="feasible")  # torch runs something else than what was chosen
        if answer.peak > nbytes:
            warnings.warn(
                f"lowtide, graph {graph.name!r}: found no choice within {exact_bytes(nbytes)}, taken is one "
                f"of {exact_bytes(answer.peak)}; give at least that, or smaller regions",
                stacklevel=2,
            )
        return answer

    def follow(self, answer: Result | Plan) -> Checkpointed:
        """Keep the ops that a plan of `graph` runs once, and return what torch runs.

        Parameters
        ----------
        answer
            A result of `recompute` for `graph`, or its plan.

        Raises
        ------
        InstanceError, UsageError
            If it is something else, or nothing was traced.
        VerificationError
            If the plan does not verify.
        """
        plan, base = plan_for(answer, self.graph, "follow"), self._base
        assert base is not None
        runs = Counter(run.op for run in plan.runs)
        op_of = {e: i for i, e in enumerate(e for e in range(len(base.events)) if e not in base.repeated)}
        return self.keep(place for place, e in self._events.items() if runs[op_of[e]] == 1)

    def keep(self, places: Iterable[Place]) -> Checkpointed:
        """Keep ops of a choice of one's own as far as torch can, and return what torch runs.

        Parameters
        ----------
        places
            Keys of `ops`. Views are never kept, and ops that draw random numbers only all of a region.

        Raises
        ------
        UsageError
            If nothing was traced.
        """
        if self.graph is None:
            raise UsageError(f"keep: {UNTRACED}")
        kept = set(places)
        self._kept = {place for group in self._groups() if kept.issuperset(group) for place in group}
        return self._answer("followed", None)

    def _groups(self) -> list[list[Place]]:
        """Return the ops that may be kept or run again, together where they draw random numbers."""
        import torch

        assert self._base is not None
        twice = set(self._base.repeated.values())
        groups: dict[tuple[int, ...], list[Place]] = {}
        for place, e in self._events.items():
            if e in twice:
                drawn = torch.Tag.nondeterministic_seeded in self.ops[place].tags
                groups.setdefault(place[:1] if drawn else place, []).append(place)
        return [group for group in groups.values() if self._never.isdisjoint(group)]

    def _answer(self, status: str, bound_ns: int | None) -> Checkpointed:
        assert self.graph is not None
        seen = self._rehearsed()
        names = seen.names()
        executed = seen.graph(self.graph.name, once=False)
        plan = seen.plan(executed, Machine.single())
        verdict = verify(executed, plan)
        verdict.raise_if_invalid()
        twice = {names[e] for e in seen.repeated.values()}
        return Checkpointed(
            peak=max(verdict.peaks.values()),
            least_ns=sum(op.duration_ns for op in self.graph.ops),
            time_ns=sum(op.duration_ns for op in executed.ops),
            bound_ns=bound_ns,
            status=status,
            kept=tuple(names[e] for e in self._events.values() if names[e] not in twice),
            again=tuple(names[e] for e in self._events.values() if names[e] in twice),
            graph=executed,
            plan=plan,
        )

    def _rehearsed(self) -> Rehearsal:
        assert self._step is not None
        self.ops, self._events, self._fixed = {}, {}, set()
        try:
            return self._step()
        finally:
            self._recorder, self._region = None, 0

    def _begin(self, recorder: Recorder) -> AbstractContextManager[None]:
        self._recorder, self._region = recorder, 0
        return nullcontext()

    def _note(self, place: Place, op: Any, args: Any, recorder: Recorder) -> None:
        """Note an op of a region as it runs first."""
        where = f"checkpoint, region {place[0]}, op {op}"
        if recorder.observer is not None:
            raise InstanceError(f"{where}: found a checkpoint within another one, expected one at a time")
        self.ops[place] = op
        e, name = recorder.last, getattr(getattr(op, "overloadpacket", op), "__name__", "")
        writes = () if e is None else recorder.seen.events[e].writes
        counts = name in BATCH_NORMS and args[5]
        if counts or op.namespace == "_c10d_functional" or (op._schema.is_mutable and not writes):
            self._fixed.add(place)
        if e is not None:
            self._events[place] = e

    def _leave_changes(self) -> None:
        """Never keep what changes in place, in its region or behind it."""
        assert self._base is not None
        places = {e: place for place, e in self._events.items()}
        for e, event in enumerate(self._base.events):
            for s in event.writes:
                maker, changer = places.get(self._base.born[s]), places.get(e)
                if self._base.born[s] == e or (maker is None and changer is None):
                    continue
                if maker in self._fixed or (changer and (maker is None or maker[0] != changer[0])):
                    raise InstanceError(
                        f"checkpoint, op {event.kind}: found a change in place of a value from outside of "
                        "the region, or of one that is always kept; expected inplace=False"
                    )
                self._never |= {place for place in (maker, changer) if place is not None}

    @contextmanager
    def _observed(self, region: int, context: Any, recorder: Recorder) -> Iterator[None]:
        """Let the recorder know which op of a region runs again."""
        from torch.utils.checkpoint import SAC_IGNORED_OPS

        kept = self._kept
        places = iter([x for x in self.ops if x[0] == region and x not in kept and x not in self._fixed])

        def observe(op: Any) -> None:
            if op not in SAC_IGNORED_OPS:
                place = next(places)
                assert self.ops[place] is op, "torch runs the ops of a region again in their order"
                if recorder.last is not None:
                    recorder.seen.repeats(recorder.last, self._events[place])

        recorder.observer = observe
        try:
            with context:
                yield
        finally:
            recorder.observer = None
