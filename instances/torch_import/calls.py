"""Arguments of a module or of a loss as users give them: one tensor, several, or some by name."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ...models.errors import InstanceError


@dataclass(frozen=True)
class Call:
    """Arguments of one call.

    Parameters
    ----------
    values
        Name -> value, in their order: a tensor, a tree of tensors (tuples, lists, mappings), or any constant.
    keywords
        Names of those that are passed by name.
    """

    values: Mapping[str, Any] = field(default_factory=dict)
    keywords: frozenset[str] = frozenset()

    def of(self, function: Callable[..., Any], *before: Any) -> Any:
        """Return what a function returns for these arguments, behind others."""
        positional = [value for name, value in self.values.items() if name not in self.keywords]
        named = {name: value for name, value in self.values.items() if name in self.keywords}
        return function(*before, *positional, **named)

    def tensors(self) -> dict[str, Any]:
        """Return the tensors by name; one within a tree has its path in it."""
        from torch import Tensor
        from torch.utils._pytree import keystr, tree_flatten_with_path

        leaves = tree_flatten_with_path(dict(self.values))[0]
        paths = ((re.sub(r"[\[\]'\".]+", ".", keystr(path)).strip("."), leaf) for path, leaf in leaves)
        return {path: leaf for path, leaf in paths if isinstance(leaf, Tensor)}

    def with_tensors(self, tensors: Iterable[Any]) -> Call:
        """Return the call with other tensors, in the order of `tensors`."""
        from torch import Tensor
        from torch.utils._pytree import tree_map

        rest = iter(tensors)
        values = tree_map(lambda leaf: next(rest) if isinstance(leaf, Tensor) else leaf, dict(self.values))
        return replace(self, values=values)


def call_of(given: Any, function: Callable[..., Any], where: str, behind: int = 0) -> Call:
    """Return the call of a function with arguments that a user gives.

    Parameters
    ----------
    given
        A tensor, a tuple or list of arguments, or a mapping: by name if the function has arguments of all
        these names, else in its order. None: no arguments.
    where
        What messages call the arguments.
    behind
        Number of further arguments that come before these.

    Raises
    ------
    InstanceError
        If the function does not take them.
    """
    from torch import Tensor

    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # written in C
        signature = inspect.Signature([inspect.Parameter("x", inspect.Parameter.VAR_POSITIONAL)])
    taken = [*signature.parameters.values()][behind:]
    given = () if given is None else (given,) if isinstance(given, Tensor) else given
    if isinstance(given, Mapping):
        named = {p.name for p in taken if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
        by_name = all(isinstance(name, str) and name in named for name in given)
        call = Call({str(name): value for name, value in given.items()}, frozenset(given if by_name else ()))
    elif isinstance(given, tuple | list):
        names = [p.name for p in taken if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        names += [f"x{k}" for k in range(len(names), len(given))]
        call = Call(dict(zip(names, given, strict=False)))
    else:
        raise InstanceError(
            f"{where}: found {type(given).__name__}, expected a tensor, a tuple of arguments, or a mapping"
        )
    try:
        call.of(signature.bind, *[None] * behind)
    except TypeError as error:
        raise InstanceError(f"{where}: {error}, expected arguments of {_shown(signature)}") from None
    return call


def _shown(signature: inspect.Signature) -> str:
    """Return the arguments of a function without their types."""
    plain = [p.replace(annotation=inspect.Parameter.empty) for p in signature.parameters.values()]
    return str(inspect.Signature(plain))
