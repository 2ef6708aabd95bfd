"""Parts of methods: what each serves, and what it costs.

A **trait** is what a question has that not every part serves, such as an order that is free; each room has an
enumeration of its own (`enum.Flag`), and `Room.traits` returns those of a question. A part declares the
traits that it serves and those that it needs. A trait that is new is served by nobody until a declaration
names it. Why a part does not serve a question is data (`refusal`), not an exception: whoever asks can go on.

`lowtide.solvers.portfolio` runs parts in turns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Flag
from typing import Any

from .context import Context, Outcome
from .method import RunFunction, load


def never(problem: Any) -> str:
    """Refuse nothing."""
    return ""


def at_once(problem: Any) -> float:
    """Return no time at all."""
    return 0.0


def per_op(rate: float, power: float = 1.0) -> Callable[[Any], float]:
    """Return an estimate: so many ops of the graph, to the power, take a second.

    Examples
    --------
    >>> import lowtide as lt
    >>> pairs = per_op(1_000, 2)
    >>> pairs(lt.Peak(lt.load("gen:chain?n=100")))
    10.0
    """
    return lambda problem: float(len(problem.graph.ops)) ** power / rate


@dataclass(frozen=True, kw_only=True)
class Part:
    """A piece of work on a question.

    Parameters
    ----------
    name
        For people; that of the method, where it is one.
    run
        ``module:function`` relative to this package (loaded when first used), or the function: offers what it
        finds to the context, and returns how it ended; None stands for ``Outcome()``.
    supports, needs
        Traits that the question may have, None for all; traits that it must have.
    refuses
        Why it does not serve a question whose traits it serves: numbers, shapes; empty if it does.
    seconds
        Estimate of what it takes until it has something to show: a formula of sizes.
    first
        Whether it takes next to nothing, and is run to its end before all others.
    pauses
        Whether it looks at the clock every few milliseconds, and so can be paused. What cannot, such as one
        run of a solver, gets its time in one piece.
    share
        Of the time that is left when it begins, what it is told to have. Less than all of it is for parts
        that divide their time by it.
    options
        Those of the method, typed; what is not given here has the context's value.
    kernels
        Modules of those that it calls, as in `Method.kernels`: compiled before its first turn.
    """

    name: str
    run: str | RunFunction
    supports: Flag | None = None
    needs: Flag | None = None
    refuses: Callable[[Any], str] = never
    seconds: Callable[[Any], float] = at_once
    first: bool = False
    pauses: bool = True
    share: float = 1.0
    options: Mapping[str, Any] = field(default_factory=dict)
    kernels: tuple[str, ...] = ()

    def load(self) -> RunFunction:
        """Return the function, importing its module now."""
        return load(self.run) if isinstance(self.run, str) else self.run

    def __call__(self, problem: Any, context: Context) -> Outcome:
        """Run it; what it returns, if it is no `Outcome`, is its last answer."""
        found = self.load()(problem, context)
        if isinstance(found, Outcome):
            return found
        if found is not None:
            context.offer(found)
        return Outcome()


def refusal(part: Part, problem: Any, traits: Flag | None = None) -> str:
    """Return why the part does not serve a question that has these traits; empty if it does."""
    if traits is not None:
        if part.needs is not None and (lacking := part.needs & ~traits):
            return f"found no {described(lacking).removeprefix('a ')}, expected it"
        if part.supports is not None and (odd := traits & ~part.supports):
            return f"found {described(odd)}, expected none"
    return part.refuses(problem)


def described(traits: Flag) -> str:
    """Return traits in words, each as its enumeration says it (``words``), or by its name."""
    words: Mapping[Flag, str] = getattr(type(traits), "words", dict)()
    return ", ".join(words.get(one, str(one.name).lower().replace("_", " ")) for one in traits)


def capabilities(part: Part) -> dict[str, str]:
    """Return of each trait, in words, whether a part serves it: "yes", "no", or "needed".

    Examples
    --------
    >>> from lowtide.solvers.placement.parts import DECLARED
    >>> capabilities(DECLARED["pofo"])["ops that may run again"]
    'needed'
    """
    if part.supports is None:
        return {}
    needs = part.needs or type(part.supports)(0)
    return {
        described(trait): "needed" if trait in needs else "yes" if trait in part.supports else "no"
        for trait in type(part.supports)
    }
