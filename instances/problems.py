"""One entry for every problem: its CLI name and the specification of its instance."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeVar, overload

from ..models.derived.memory import sequential_memory
from ..models.errors import InstanceError, UsageError
from ..models.graph import Graph
from ..models.machine import Machine, part_of
from ..models.parameter import Parameter
from ..models.problems import PROBLEMS
from ..models.problems.problem import Problem
from ..models.problems.processors import parse_processors, processors_text
from .durations import OfQuestion
from .formats.strict_json import nearest
from .load import load
from .load_buffers import load_buffers_and_plan
from .load_network import load_network
from .load_tiles import load_tiles
from .machines import load_machine
from .options import typed_option
from .spec import Spec, parse_spec

P = TypeVar("P", bound=Problem)


@overload
def load_problem(name: type[P], spec: str | os.PathLike[str], **options: object) -> P: ...


@overload
def load_problem(name: str, spec: str | os.PathLike[str], **options: object) -> Problem: ...


def load_problem(name: str | type[Problem], spec: str | os.PathLike[str], **options: object) -> Problem:
    """Return a problem of the suite about the instance that a specification names.

    Parameters
    ----------
    name
        Of the problem, as ``lowtide list problems`` shows it, or its class.
    spec, options
        What `load` takes (of `offsets`, `load_buffers`; of `sharding`, `load_network`; of `tiles`,
        `load_tiles`), and besides it the parameters of the problem (`Problem.parameters`), in the
        specification or as keywords. What is in bytes may be a share of the peak of the graph's reference
        order, as in ``memory="50%"``.

    Raises
    ------
    UsageError
        If there is no problem of that name.
    InstanceError
        If the instance cannot be loaded, or an option is unknown, missing or wrong.

    Examples
    --------
    >>> load_problem("peak", "gen:chain?n=4").graph
    Graph('chain?n=4', 4 ops, 4 tensors)
    >>> problem = load_problem("makespan", "gen:chain?n=5&processors=2", memory="1GiB")
    >>> problem.processors, problem.memory
    (2, 1073741824)
    >>> spec = "gen:chain?n=5&machine=a100-40g-pcie3&device=24GiB&periodic=1"
    >>> load_problem("placement", spec).machine.tiers[0].capacity
    25769803776
    """
    kind = PROBLEMS.get(name) if isinstance(name, str) else name
    if kind is None:
        raise UsageError(f"problem: found {name!r}, {nearest(str(name), PROBLEMS)}")
    if kind.about == "buffers":
        return _of_buffers(kind, spec, options)
    if kind.about == "network":
        return kind.of(load_network(spec, **options))
    parsed = parse_spec(spec)
    given: dict[str, object] = {**parsed.options, **options}
    for key, parameter in kind.parameters.items():  # a limit of None is none; else None is nothing
        if parameter.kind != "limit" and given.get(key, "") is None:
            del given[key]
    where = str(Spec(parsed.scheme, parsed.name, {key: _text(value) for key, value in given.items()}))
    own = {key: p for key in given if (p := parameter_of(kind.parameters, key)) is not None}
    for key, parameter in kind.parameters.items():
        if parameter.required and key not in given:
            raise InstanceError(
                f"instance {where!r}: found no option {key} ({parameter.text}; of a command --{key}), "
                f"expected {parameter.expected}"
            )
    device = str(given.get("machine"))
    shares = {key: given.pop(key) for key, parameter in own.items() if is_share(given[key], parameter)}
    values = {key: _value(key, given.pop(key), own[key], where) for key in own if key not in shares}
    if "replicas" in values:
        values["machine"] = _first(values["machine"], values.pop("replicas"), where)
        given["copies"] = "+".join(p.kind for p in values["machine"].processors)
    bare = Path(parsed.name) if parsed.scheme == "path" else str(Spec(parsed.scheme, parsed.name))
    machine = values.get("machine")
    if isinstance(machine, Machine) and machine.compute is not None:
        given = {"durations": OfQuestion(device), **given}
    if kind.about == "shapes":
        return kind.of(load_tiles(bare, **given), **values)
    graph = load(bare, **given)
    for key, text in shares.items():
        values[key] = share_of(graph, str(text), f"instance {where!r}, option {key}")
    return kind.of(graph, source=where, **values)


def _of_buffers(kind: type[Problem], spec: str | os.PathLike[str], options: dict[str, object]) -> Problem:
    """Return a problem about buffers; all options but these two are those of the buffers."""
    satisfy, banks = options.pop("satisfy", False), options.pop("banks", "")
    parsed = parse_spec(spec)
    if "banks" in parsed.options:
        banks = parsed.options.pop("banks")
        spec = str(parsed)
    buffers, plan, graph = load_buffers_and_plan(spec, **options)
    return kind.of(buffers, graph=graph, plan=plan, satisfy=satisfy, banks=banks)


def is_share(value: object, parameter: Parameter) -> bool:
    """Return whether an option that is a number of bytes is given as a share such as ``50%``."""
    return parameter.kind in ("size", "limit") and isinstance(value, str) and value.endswith("%")


def share_of(graph: Graph, text: str, where: str) -> int:
    """Return a share of the peak of the graph's reference order in bytes, rounded down, at least 1.

    Raises
    ------
    InstanceError
        If the text is no percentage above 0.
    """
    found = re.fullmatch(r"\s*(\d{1,6}(?:\.\d{1,6})?)\s*%", text, re.ASCII)
    if found is None or not (share := Fraction(found[1])):
        raise InstanceError(
            f"{where}: found {text!r}, expected a share of the reference order's peak as in 50%"
        )
    peak = sequential_memory(graph).peak(range(len(graph.ops)))
    return max(1, int(peak * share / 100))


def parameter_of(parameters: Mapping[str, Parameter], key: str) -> Parameter | None:
    """Return what an option is; a parameter whose name ends in a dot stands for all that begin so."""
    return parameters.get(key) or parameters.get(key[: key.find(".") + 1])


def _value(key: str, given: object, parameter: Parameter, where: str) -> Any:
    """Return what an option stands for."""
    text = processors_text(given) if parameter.kind == "processors" else given
    value = typed_option(key, text, parameter, where)
    if parameter.kind == "machine":
        return load_machine(str(value))
    if parameter.kind != "processors":
        return value
    try:
        return parse_processors(str(value))
    except InstanceError as error:
        raise InstanceError(f"instance {where!r}, {error}") from None


def _first(machine: Machine, many: int, where: str) -> Machine:
    """Return the machine of the first processors, one for each copy of the graph, without others' tiers."""
    if not 1 <= many <= len(machine.processors):
        raise InstanceError(
            f"instance {where!r}, replicas: found {many}, expected 1 to {len(machine.processors)}, the "
            f"processors of machine {machine.name!r}"
        )
    return part_of(machine, [p.name for p in machine.processors[:many]])


def _text(value: object) -> str:
    """Return a value as specifications spell it."""
    if value is None:
        return "none"
    return str(int(value)) if isinstance(value, bool) else processors_text(value)
