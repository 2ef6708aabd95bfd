"""What a method of the suite, or of a user, says about itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from .context import Context

RunFunction = Callable[[Any, Context], Any]


@dataclass(frozen=True, kw_only=True)
class Method:
    """A named way to solve a problem.

    Parameters
    ----------
    name, problem
        Unique together; `problem` is a CLI name such as "peak".
    run
        ``module:function`` relative to this package (loaded when first used), or the function.
    summary
        One line for people.
    exact
        Whether it proves optimality, given time.
    source
        Paper, equation; empty if it is the suite's own.
    options
        Names and meanings of its own options.
    kernels
        Modules whose kernels it calls, named as in `run`: `solve` compiles what of them does not lie on disk
        before the clock starts.
    engine
        "cpsat" or "highs" if further options pass through to that solver.
    """

    name: str
    problem: str
    run: str | RunFunction
    summary: str
    exact: bool = False
    source: str = ""
    options: tuple[tuple[str, str], ...] = ()
    kernels: tuple[str, ...] = ()
    engine: str | None = None

    def load(self) -> RunFunction:
        """Return the function, importing its module now."""
        if not isinstance(self.run, str):
            return self.run
        module, function = self.run.split(":")
        loaded: RunFunction = getattr(import_module(module, __package__), function)
        return loaded


PYOMO_SOLVER = ("solver", "any solver that Pyomo finds (default highs)")
"""Option of the methods that solve a MILP in Pyomo."""
