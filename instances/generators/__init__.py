"""Generators of instances: families of graphs with seeds, each as inference or as training.

The same family, options and seed give the same graph on every machine. Families without a network
behind them have sizes in bytes as small integers; only their ratios matter.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ...models.errors import InstanceError
from ...models.graph import Accounting, Graph
from ..formats.strict_json import nearest
from ..options import Value, typed_options
from ..spec import Spec
from .backward import training_graph
from .data_type import in_dtype
from .extent import check_extent
from .families import DTYPE, FAMILIES, Family

__all__ = ["FAMILIES", "Family", "generate"]


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
    check_extent(family, values, where)
    own = {k: v for k, v in values.items() if k not in ("train", "accounting", "weights", "split", "dtype")}
    graph = entry.function(**own)
    dtype = str(values.get("dtype", DTYPE.default))
    if dtype != DTYPE.default:
        graph = in_dtype(graph, dtype)
    if values.get("train"):
        graph = training_graph(graph, split=bool(values.get("split")))
    if values.get("weights") is False:
        graph = graph.drop({"weight"})
    stated = {key: v for key, v in values.items() if key != "dtype" or v != DTYPE.default}
    full = Spec("gen", family, {key: _text(value) for key, value in stated.items()})
    changed = {k: _text(v) for k, v in values.items() if v != entry.parameters[k].default}
    graph = replace(
        graph,
        name=str(Spec("path", family, changed)),
        accounting=Accounting(str(values["accounting"])),
        provenance={**graph.provenance, "source": str(full)},
    )
    return graph


def _check_together(values: Mapping[str, Value], where: str) -> None:
    k, n = values.get("k"), values.get("n")
    if isinstance(k, int) and isinstance(n, int) and (k % 2 or k >= n):
        raise InstanceError(f"instance {where!r}, option k: found {k}, expected an even number below n = {n}")
    if values.get("split") and not values.get("train"):
        raise InstanceError(
            f"instance {where!r}, option split: found 1 without train, expected train=1 with it"
        )


def _text(value: object) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)
