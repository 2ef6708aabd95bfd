"""Names for JAX's checkpoint policy: what of a plan to save, to move to the host, and to compute again.

``jax.checkpoint_policies.save_and_offload_only_these_names`` takes names that
``jax.ad_checkpoint.checkpoint_name`` gave to values; what has no name is computed again. `names_of` reads
them from a plan for the graph of `lowtide.from_jax`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ...instances.xla_import.jaxpr import from_jax
from ...models.checks import check_type
from ...models.errors import BackendUnavailable, InstanceError, UsageError
from ...models.graph import Graph
from ...models.plan import Plan
from ...models.result import Result


@dataclass(frozen=True, kw_only=True)
class CheckpointNames:
    """Each name of a graph, by what a plan does with its values.

    Attributes
    ----------
    saved
        Values that stay, or are not needed again.
    offloaded
        Values that are copied out of the innermost tier.
    recomputed
        Values that are computed more than once.
    mixed
        Names with values of several kinds: each is in the list of most of its bytes. Names of their own for
        these values let JAX follow the plan more closely.
    """

    saved: tuple[str, ...]
    offloaded: tuple[str, ...]
    recomputed: tuple[str, ...]
    mixed: tuple[str, ...] = ()

    def policy(self, *, source: str = "device", host: str = "pinned_host") -> Any:
        """Return JAX's policy for ``jax.checkpoint(f, policy=…)``.

        Parameters
        ----------
        source, host
            Kinds of memory, as JAX calls them.

        Raises
        ------
        BackendUnavailable
            If jax is not installed.
        """
        try:
            from jax import checkpoint_policies
        except ImportError:
            raise BackendUnavailable(
                "jax_names: found no package jax, expected it: pip install jax"
            ) from None
        if not self.offloaded:
            return checkpoint_policies.save_only_these_names(*self.saved)
        return checkpoint_policies.save_and_offload_only_these_names(
            names_which_can_be_saved=[*self.saved],
            names_which_can_be_offloaded=[*self.offloaded],
            offload_src=source,
            offload_dst=host,
        )


def names_of(answer: Result | Plan, graph: Graph | None = None) -> CheckpointNames:
    """Return the names of a graph of JAX by what a plan does with their values.

    Parameters
    ----------
    answer
        A result of ``recompute`` or ``placement``, or its plan.
    graph
        What `gradient_graph` or `lowtide.from_jax` returned; None: the graph of the result.

    Raises
    ------
    UsageError
        If there is no plan or no graph.
    InstanceError
        If the graph has no names: it was not made by `lowtide.from_jax`, or nothing in the function is named.

    Examples
    --------
    >>> import jax
    >>> from jax.ad_checkpoint import checkpoint_name
    >>> import lowtide as lt
    >>> from lowtide.adapters import jax_names
    >>> def loss(w, x):
    ...     for k in range(4):
    ...         x = checkpoint_name(jax.numpy.tanh(x @ w), f"h{k}")
    ...     return x.sum()
    >>> step = jax_names.gradient_graph(loss, jax.numpy.zeros((64, 64)), jax.numpy.zeros((256, 64)))
    >>> peak = lt.solve(lt.Peak(step)).objective
    >>> result = lt.solve(lt.Recompute(step, memory=peak * 8 // 10), time_limit=5)
    >>> names = jax_names.names_of(result)
    >>> sorted((*names.saved, *names.recomputed))
    ['h0', 'h1', 'h2', 'h3']
    """
    check_type(answer, (Result, Plan), "names_of", "a Result or a Plan")
    plan = answer.plan if isinstance(answer, Result) else answer
    subject = graph if graph is not None or isinstance(answer, Plan) else answer.graph
    if plan is None or subject is None:
        raise UsageError(f"names_of: found no {'plan' if plan is None else 'graph'}, expected one")
    named = subject.provenance.get("checkpoint_names")
    if not isinstance(named, dict) or not named:
        fault = "found no names, expected a graph of from_jax with checkpoint_name in it"
        raise InstanceError(f"names_of, {subject.name}: {fault}")
    index = {tensor.name: t for t, tensor in enumerate(subject.tensors)}
    kinds = _kinds(plan, subject)
    lists: dict[str, list[str]] = {"saved": [], "offloaded": [], "recomputed": []}
    mixed = []
    for name, tensors in named.items():
        held: defaultdict[str, int] = defaultdict(int)
        for t in (index[text] for text in tensors):
            held[kinds.get(t, "saved")] += subject.tensors[t].nbytes
        lists[max(lists, key=lambda kind: held.get(kind, -1))].append(name)
        mixed += [name] if len(held) > 1 else []
    return CheckpointNames(**{kind: tuple(names) for kind, names in lists.items()}, mixed=tuple(mixed))


def gradient_graph(function: Callable[..., Any], *args: Any, argnums: Any = 0, **options: Any) -> Graph:
    """Return the graph of a gradient in which only named values wait for the backward pass.

    All others are computed again there, as they are under JAX's policies by names: a plan for this graph
    decides about names alone.

    Parameters
    ----------
    function, args, argnums
        As of ``jax.grad``; the function names values by ``checkpoint_name``.
    **options
        As of `lowtide.from_jax`.

    Raises
    ------
    InstanceError
        As `lowtide.from_jax`, or if nothing in the function is named.
    BackendUnavailable
        If jax is not installed.

    Examples
    --------
    >>> import jax
    >>> from jax.ad_checkpoint import checkpoint_name
    >>> from lowtide.adapters import jax_names
    >>> loss = lambda w, x: checkpoint_name(jax.numpy.tanh(x @ w), "h").sum()
    >>> jax_names.gradient_graph(loss, jax.numpy.zeros((4, 4)), jax.numpy.zeros((2, 4)), name="step")
    Graph('step', 12 ops, 15 tensors)
    """
    named = from_jax(function, *args, bodies="file").provenance["checkpoint_names"]
    if not named:
        raise InstanceError("gradient_graph: found no names, expected checkpoint_name in the function")
    import jax

    policy = jax.checkpoint_policies.save_only_these_names(*named)
    step = jax.grad(jax.checkpoint(function, policy=policy), argnums)
    return from_jax(step, *args, **{"name": getattr(function, "__name__", "function"), **options})


def _kinds(plan: Plan, graph: Graph) -> dict[int, str]:
    """Return for each tensor that does not stay what the plan does with it."""
    innermost = plan.machine.tiers[0].name
    kinds = {copy.tensor: "offloaded" for copy in plan.copies if copy.src == innermost}
    runs = Counter(run.op for run in plan.runs)
    for i, count in runs.items():
        if count > 1:
            kinds |= dict.fromkeys(graph.ops[i].writes, "recomputed")
    return kinds
