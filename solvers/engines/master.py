"""The question of one round of a method that goes back and forth between an engine and something else.

An engine solves it like a problem; the method makes an answer to the real problem of what comes back, and
that one is judged. What the engine proves holds for the round's question: what it says of the real problem
is the method's to prove.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...models.graph import Graph
from ...models.problems.problem import Judgement, Problem


@dataclass(frozen=True)
class Master(Problem):
    """What `Context` and engines ask of a problem; a method's own adds `name`, `unit` and `evaluate`.

    Parameters
    ----------
    graph
        What the real problem is about.
    """

    graph: Graph

    def name_and_source(self) -> tuple[str, str | None]:
        """Return name and source of the graph."""
        return self.graph.name, self.graph.source

    def payload(self) -> str:
        """Return the hash of the graph."""
        return self.graph.sha256

    def read(self, item: Any) -> Any:
        """Return the answer as it is."""
        return item

    def judge(self, answer: Any) -> Judgement:
        """Refuse: no answer of a round is a result.

        Raises
        ------
        TypeError
            Always: a method that hands one over as its own is at fault.
        """
        raise TypeError(
            f"{type(self).__name__}: found an answer of a round, expected one to the real problem"
        )
