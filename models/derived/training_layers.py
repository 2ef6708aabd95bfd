r"""From a training step to its layers: where it can be cut, and what each part takes and keeps.

*Forward* are the ops that write no gradient and no initial tensor and read nothing of ops that do; *updates*
those that write initial tensors. A layer ends behind each forward op where exactly one value is still read by
later forward ops, if that value has the size that most of these have (a transformer's hidden states); so in a
transformer attention and feed-forward part of each block are a layer each.

A backward op belongs to the first layer of which it reads something: what a forward op of the layer made (of
what goes from layer to layer: the layer behind), a weight that it alone reads, a gradient that an op of it
made. Ops that lead to the update of one weight of their layer alone are W, others are B; an op without
anything of a layer's forward pass belongs to that of the weight that it leads to. The first layer has no W:
nothing waits for its B. Updates are outside of the pipeline.

What backward ops read of forward values is kept, the layer's *stash*, and the value that enters the layer. Of
that, what W reads is kept until W, with gradients that ops of B make for it. Its *ways*:

- ``keep``: all of that;
- ``selective``: instead only results of products with weights (`PRODUCTS`), as far as they are needed to make
  the rest again; that runs again before B, without another such product (JAX's policy
  ``dots_with_no_batch_dims_saveable``; Megatron's selective recomputation is that of the core of attention
  alone, Korthikanti and others, MLSys 2023, section 5);
- ``full``: the input alone; all that makes the stash runs again (Chen and others, 2016).

Where something runs again W follows at once, in B. The buffer is the most that other values of the layer take
at a time in the order of the graph, in F, or in B and W; and all that runs again makes. A weight's states are
four times its gradient: itself, its gradient, two moments (16 bytes for a parameter of 4). A weight that
several layers read (a table of tokens) counts in each; their exchange of gradients does not.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from ..errors import InstanceError
from ..graph import Graph
from .layers import Layer, Retention
from .stages import pipeline_of
from .values import Value, values_of

PRODUCTS = frozenset({"mm", "addmm", "linear", "convolution", "Linear", "Gemm", "Conv"})
"""Kinds of ops whose results selective recomputation keeps."""

STATES = 4
"""Bytes of a weight, its gradient and Adam's two moments, over those of the gradient."""


@dataclass(frozen=True, kw_only=True)
class TrainingLayers:
    """The layers of a training step, and the bytes that go from each to the next, and back."""

    layers: tuple[Layer, ...]
    between: int


@dataclass
class _Step:
    """A training step; `layer` has the layer of each op that belongs to one."""

    graph: Graph
    values: list[Value]
    reads: list[list[Value]]
    forward: list[int]
    updates: set[int]
    ends: list[int] = field(default_factory=list)
    boundary: dict[int, int] = field(default_factory=dict)
    between: int = 0
    layer: dict[int, int] = field(default_factory=dict)
    late: set[int] = field(default_factory=set)

    def nbytes(self, value: Value) -> int:
        return self.graph.tensors[value.tensor].nbytes

    def time(self, ops: Iterable[int]) -> int:
        return sum(self.graph.ops[i].duration_ns for i in ops)


def training_layers(graph: Graph) -> TrainingLayers:
    """Return the layers of a training step.

    Raises
    ------
    InstanceError
        If it has no backward pass, cannot be cut, or is a pipeline of several micro-batches.

    Examples
    --------
    >>> import lowtide as lt
    >>> from lowtide.models.derived.training_layers import training_layers
    >>> found = training_layers(lt.load("catalogue:gpt2-small-train"))
    >>> len(found.layers), found.between
    (28, 3145728)
    """
    _check_one_step(graph)
    step = _step(graph)
    _cut(step)
    _assign(step)
    return TrainingLayers(layers=tuple(_layer(step, k) for k in range(len(step.ends))), between=step.between)


def _check_one_step(graph: Graph) -> None:
    try:
        micro = pipeline_of(graph).micro
    except InstanceError:  # no pipeline
        return
    if micro > 1:
        raise InstanceError(
            f"layers of {graph.name!r}: found a pipeline of {micro} micro-batches, expected a step of one"
        )


def _step(graph: Graph) -> _Step:
    """Return the step with its forward ops and updates."""
    values = [v for v in values_of(graph) if v.writer is not None]
    reads: list[list[Value]] = [[] for _ in graph.ops]
    for v in values:
        for i in v.readers:
            reads[i].append(v)
    forward, ahead = [], set()
    for i, op in enumerate(graph.ops):
        back = any(graph.tensors[t].initial or graph.tensors[t].kind == "gradient" for t in op.writes)
        if not back and all(v.writer in ahead for v in reads[i]):
            forward.append(i)
            ahead.add(i)
    if any(len(op.all_modes) > 1 for op in graph.ops):
        raise InstanceError(f"layers of {graph.name!r}: found ops with several modes, expected one of each")
    updates = {i for i, op in enumerate(graph.ops) if any(graph.tensors[t].initial for t in op.writes)}
    if len(forward) + len(updates) == len(graph.ops) or not forward:
        raise InstanceError(f"layers of {graph.name!r}: found no backward pass, expected a training step")
    return _Step(graph, values, reads, forward, updates)


def _cut(step: _Step) -> None:
    """Find where layers end, and the layer of each forward op."""
    place = {i: k for k, i in enumerate(step.forward)}
    count, which = [0] * len(place), [0] * len(place)
    for n, v in enumerate(step.values):
        later = [place[i] for i in v.readers if i in place]
        if v.writer in place and later:
            for k in range(place[v.writer], max(later)):
                count[k] += 1
                which[k] += n
    alone: dict[int, int] = {}
    for k, many in enumerate(count):
        if many == 1:
            alone.setdefault(which[k], k)
    sizes = Counter(step.nbytes(step.values[n]) for n in alone)
    step.between = max(sizes, key=lambda size: (sizes[size], size), default=0)
    cuts = sorted((k, n) for n, k in alone.items() if step.nbytes(step.values[n]) == step.between)
    if not cuts:
        raise InstanceError(f"layers of {step.graph.name!r}: found no place to cut, expected a row of layers")
    step.boundary = {n: layer for layer, (_, n) in enumerate(cuts)}
    step.ends = [*(k for k, _ in cuts), len(place) - 1]
    step.layer = {i: bisect_left(step.ends, k) for i, k in place.items()}


def _assign(step: _Step) -> None:
    """Find the layer of each backward op, and which of them are W."""
    graph, ahead = step.graph, set(step.forward)
    number = {(v.tensor, v.writer): n for n, v in enumerate(step.values)}
    users: dict[int, set[int]] = defaultdict(set)
    for i in step.forward:
        for t in graph.ops[i].reads:
            if graph.tensors[t].initial:
                users[t].add(step.layer[i])
    after: list[list[int]] = [[] for _ in graph.ops]
    for v in step.values:
        assert v.writer is not None
        if v.writer not in ahead:
            after[v.writer] += v.readers
    leads = [0] * len(graph.ops)  # to which updates, as bits
    weights: list[int] = []
    for i in reversed(range(len(graph.ops))):
        if i in step.updates:
            leads[i] = 1 << len(weights)
            weights.append(next(t for t in graph.ops[i].writes if graph.tensors[t].initial))
        else:
            for j in after[i]:
                leads[i] |= leads[j]
    for i, op in enumerate(graph.ops):
        if i in ahead or i in step.updates:
            continue
        own = [
            layer for t in op.reads if graph.tensors[t].initial and len(users[t]) == 1 for layer in users[t]
        ]
        before = []
        for v in step.reads[i]:
            assert v.writer is not None
            if v.writer in ahead:
                behind = step.boundary.get(number[v.tensor, v.writer])
                own.append(step.layer[v.writer] if behind is None else behind + 1)
            else:
                before.append(step.layer[v.writer])
        layer = min([*own, *before], default=len(step.ends) - 1)
        if leads[i] and leads[i] & (leads[i] - 1) == 0:
            homes = users[weights[leads[i].bit_length() - 1]]
            if not own and homes:
                layer = layer if layer in homes else max((k for k in homes if k <= layer), default=min(homes))
            if layer in homes and layer:
                step.late.add(i)
        step.layer[i] = layer


def _layer(step: _Step, k: int) -> Layer:
    """Return a layer with its ways."""
    graph, ahead = step.graph, set(step.forward)
    mine = [i for i, layer in step.layer.items() if layer == k]
    forward = [i for i in mine if i in ahead]
    back = sorted(i for i in mine if i not in ahead)
    entering = [step.values[n] for n, layer in step.boundary.items() if layer == k - 1]
    leaving = {n for n, layer in step.boundary.items() if layer == k}
    stash: list[Value] = []
    temporary: list[Value] = []
    for n, v in enumerate(step.values):
        if v.writer in forward and n not in leaving:
            (temporary if ahead.issuperset(v.readers) else stash).append(v)
    gradients = [v for v in step.values if v.writer not in ahead and not step.updates & {*v.readers}]
    through = _most(step, forward, [*temporary, *(step.values[n] for n in leaving)])
    buffer = max(through, _most(step, back, gradients))
    held = entering + stash
    ways, again = _recomputing(step, forward, back, held, stash, buffer)
    read = {t for i in forward for t in graph.ops[i].reads if graph.tensors[t].initial}
    updates = [i for i in step.updates if read.intersection(graph.ops[i].writes)]
    return Layer(
        name=graph.ops[forward[-1]].name,
        forward=step.time(forward),
        states=sum(STATES * step.nbytes(v) for i in updates for v in step.reads[i]),
        input=sum(map(step.nbytes, entering)),
        again=again,
        stash=sum(map(step.nbytes, stash)),
        ways=(_keep(step, back, held, buffer), *ways),
    )


def _keep(step: _Step, back: list[int], held: list[Value], buffer: int) -> Retention:
    """Return the way that keeps all values that a layer holds for its backward ops."""
    ahead, late = set(step.forward), step.late.intersection(back)
    nbytes, b, w = sum(map(step.nbytes, held)), step.time(i for i in back if i not in late), step.time(late)
    until = [v for v in held if late.intersection(v.readers)]
    until += [
        v for v in step.values if v.writer not in ahead and v.writer not in step.late and late & {*v.readers}
    ]
    needed = sum(map(step.nbytes, until))
    return Retention(
        name="keep",
        backward=max(b, 1),
        weight=w,
        activation=max(nbytes, needed) if w else nbytes,
        kept=needed if w else 0,
        buffer=buffer,
    )


def _recomputing(
    step: _Step, forward: list[int], back: list[int], held: list[Value], stash: list[Value], buffer: int
) -> tuple[list[Retention], int]:
    """Return the ways in which something runs again, and the ns of all that makes the stash again."""
    ops = step.graph.ops
    products = [v for v in step.values if v.writer in forward and ops[v.writer or 0].kind in PRODUCTS]
    ways, again = list[Retention](), 0
    for name, saved in (("selective", products), ("full", [])):
        dropped = [v for v in stash if v not in saved]
        makers = _makers(step, dropped, saved, forward)
        again = step.time(makers)
        made = sum(map(step.nbytes, dropped))
        less = made - sum(step.nbytes(v) for v in saved if v not in stash and makers.intersection(v.readers))
        if less > 0 and (less < sum(map(step.nbytes, stash)) or name == "full"):
            ways.append(
                Retention(
                    name=name,
                    backward=max(step.time(back), 1) + again,
                    weight=0,
                    activation=sum(map(step.nbytes, held)) - less,
                    kept=0,
                    buffer=buffer + made,
                )
            )
    return ways, again


def _makers(step: _Step, values: list[Value], kept: list[Value], forward: list[int]) -> set[int]:
    """Return the layer's ops that make some values out of its input and what is kept."""
    there = {(v.tensor, v.writer) for v in kept}
    left, makers = [v.writer for v in values], set[int]()
    while left:
        i = left.pop()
        if i in forward and i not in makers and i is not None:
            makers.add(i)
            left += [v.writer for v in step.reads[i] if (v.tensor, v.writer) not in there]
    return makers


def _most(step: _Step, ops: list[int], values: list[Value]) -> int:
    """Return the most bytes of values at a time, from their first to their last use in a row of ops."""
    place = {i: k for k, i in enumerate(ops)}
    change = [0] * (len(ops) + 1)
    for v in values:
        used = [place[i] for i in (v.writer, *v.readers) if i in place]
        if used:
            outside = any(i not in place for i in v.readers)
            first = min(used) if v.writer in place else 0
            change[first] += step.nbytes(v)
            change[len(ops) if outside else max(used) + 1] -= step.nbytes(v)
    most = held = 0
    for more in change:
        held += more
        most = max(most, held)
    return most
