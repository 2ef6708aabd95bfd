"""Generators of instances: families of graphs with seeds, each as inference or as training.

The same family, options and seed give the same graph on every machine. Families without a network
behind them have sizes in bytes as small integers; only their ratios matter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from ...models.errors import InstanceError
from ...models.graph import Accounting, Graph
from ..native import check_magnitude
from ..options import Parameter, Value, typed_options
from ..spec import Spec
from ..strict_json import nearest
from .layered import layered
from .randwire import randwire
from .sp import sp
from .trees import chain, intree, outtree


@dataclass(frozen=True, slots=True)
class Family:
    """A family of graphs: what makes one, what it is, and its parameters with their defaults."""

    function: Callable[..., Graph]
    description: str
    parameters: Mapping[str, Parameter]


_SEED = Parameter(0, "seed of everything random", least=0)
_MOST = 10**6
_N = Parameter(32, "number of ops", least=1, most=_MOST)
_SIZES = {
    "sizes": Parameter("random", "sizes of the tensors", choices=("random", "equal")),
    "largest": Parameter(20, "random sizes are 1 to this, in bytes", least=1),
}
_DATA = Parameter("op", "one tensor for each op, or one for each edge", choices=("op", "edge"))
_COMMON = {
    "accounting": Parameter("coexist", "how memory counts", choices=tuple(map(str, Accounting))),
    "train": Parameter(False, "forward and backward"),
}


def _family(function: Callable[..., Graph], description: str, **parameters: Parameter) -> Family:
    return Family(function, description, {**parameters, **_COMMON})


FAMILIES: dict[str, Family] = {
    "chain": _family(chain, "ops in a row", n=_N, seed=_SEED, **_SIZES),
    "intree": _family(
        intree,
        "random in-tree (reduction)",
        n=_N,
        seed=_SEED,
        arity=Parameter(3, "most operands of an op", least=1),
        **_SIZES,
    ),
    "outtree": _family(
        outtree,
        "random out-tree (distribution)",
        n=_N,
        seed=_SEED,
        arity=Parameter(3, "most children of an op", least=1),
        data=_DATA,
        keep=Parameter(False, "the leaves' tensors stay to the end"),
        **_SIZES,
    ),
    "sp": _family(
        sp,
        "random series-parallel graph",
        n=_N,
        seed=_SEED,
        branches=Parameter(4, "most branches of a fork", least=2),
        data=_DATA,
        **_SIZES,
    ),
    "layered": _family(
        layered,
        "layers of ops, each of which reads random ones of the layer before",
        layers=Parameter(6, "number of layers", least=1, most=_MOST),
        width=Parameter(4, "ops in a layer", least=1, most=_MOST),
        seed=_SEED,
        degree=Parameter(3, "most operands of an op", least=1),
        data=_DATA,
        keep=Parameter(True, "outputs stay to the end"),
        **_SIZES,
    ),
    "randwire": _family(
        randwire,
        "randomly wired network (Watts-Strogatz)",
        n=Parameter(32, "nodes of a stage", least=3, most=_MOST),
        seed=_SEED,
        k=Parameter(4, "neighbours on the ring, an even number below n", least=2),
        p=Parameter(0.75, "probability to rewire", most=1),
        stages=Parameter(1, "number of stages", least=1, most=16),
        **_SIZES,
    ),
}
"""The families by name."""


def generate(family: str, **options: object) -> Graph:
    """Return a graph of a family.

    Parameters
    ----------
    family
        A name in `FAMILIES`.
    **options
        Values of its parameters, as numbers or as text; the others take their defaults.

    Raises
    ------
    InstanceError
        If family or option is unknown, or a value out of range.

    Examples
    --------
    >>> from lowtide.instances.generators import generate
    >>> generate("layered", layers=3, width=2).summary()["ops"]
    6
    """
    if family not in FAMILIES:
        raise InstanceError(
            f"instance 'gen:{family}': found unknown family {family!r}, {nearest(family, FAMILIES)}"
        )
    entry = FAMILIES[family]
    given = {key: _text(value) for key, value in options.items()}
    where = str(Spec("gen", family, given))
    values = typed_options(options, entry.parameters, where)
    _check_together(values, where)
    own = {key: value for key, value in values.items() if key not in ("train", "accounting")}
    graph = entry.function(**own)
    full = Spec("gen", family, {key: _text(value) for key, value in values.items()})
    changed = {k: _text(v) for k, v in values.items() if v != entry.parameters[k].default}
    graph = replace(
        graph,
        name=str(Spec("path", family, changed)),
        accounting=Accounting(str(values["accounting"])),
        provenance={"source": str(full)},
    )
    check_magnitude(graph)
    return graph


def _check_together(values: Mapping[str, Value], where: str) -> None:
    k, n = values.get("k"), values.get("n")
    if isinstance(k, int) and isinstance(n, int) and (k % 2 or k >= n):
        raise InstanceError(f"instance {where!r}, option k: found {k}, expected an even number below n = {n}")


def _text(value: object) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)
