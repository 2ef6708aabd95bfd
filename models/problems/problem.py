"""What every problem is: an instance and a question, frozen.

Each problem says what an **answer** to it is (of `peak` an order of the ops, of `offsets` an address for
each buffer), reads one from what methods and users give, and has the verifier judge it.
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, ClassVar, Self

from ..cost_network import Strategies
from ..fact import Fact
from ..flow_proof import ParallelSetting
from ..graph import Graph
from ..parameter import Parameter
from ..plan import Plan
from ..setting import ArenaSetting, Setting
from ..units import exact_bytes
from ..verifier.allocation import AllocationVerdict
from ..verifier.sharding import ShardingVerdict
from ..verifier.verdict import Verification, Violation


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """What the verifier says of an answer, lowered to a plan or an allocation or both.

    Attributes
    ----------
    objective
        Recomputed by the verifier; None if the answer is wrong.
    verification
        The verdict on the plan or, without a plan, on the allocation.
    """

    objective: int | None
    verification: Verification | AllocationVerdict | ShardingVerdict
    plan: Plan | None = None
    allocation: Mapping[str, int] | None = None
    edges: tuple[tuple[int, int], ...] | None = None
    strategies: Strategies | None = None

    @property
    def violations(self) -> tuple[Violation, ...]:
        """What is wrong with the answer."""
        return self.verification.violations


@dataclass(frozen=True, kw_only=True)
class Question:
    """What a problem is known by: a name, what it was loaded from, and the hash of all that it asks."""

    name: str
    source: str | None
    sha256: str


class Problem(ABC):
    """A question about an instance: what an answer is, what it costs, and who judges it.

    Attributes
    ----------
    name, unit
        As the command line has it; of the objective, "bytes" or "ns".
    maximize
        Whether more is better; bounds then lie above.
    about, answers
        What `of` takes: a "graph", "buffers", a "network" or "shapes"; what is kept of an answer: a "plan",
        an "allocation", "edges" or "strategies".
    picture
        The function of `lowtide.plot` that draws its answers; empty: there is none.
    measure, optimum
        What the objective is called where a certificate is confirmed, and what it then says of an answer that
        meets it.
    becomes
        The problem that is meant where one of these parameters of it is given; empty: none.
    parameters
        What is asked besides: what specifications, the command line and sweeps read. A name that ends in a
        dot stands for all that begin so.
    """

    name: ClassVar[str]
    unit: ClassVar[str]
    maximize: ClassVar[bool] = False
    about: ClassVar[str] = "graph"
    answers: ClassVar[str] = "plan"
    picture: ClassVar[str] = "profile"
    measure: ClassVar[str] = "time"
    optimum: ClassVar[str] = "no plan takes less time"
    becomes: ClassVar[tuple[str, tuple[str, ...]]] = ("", ())
    parameters: ClassVar[Mapping[str, Parameter]] = {}

    @classmethod
    def of(cls, subject: Any, *, source: str | None = None, **values: Any) -> Self:
        """Return the problem about what was loaded, with values of its `parameters`.

        Raises
        ------
        InstanceError
            If they do not go with each other or with the instance.
        """
        make: Any = cls
        told = {"source": source} if any(f.name == "source" for f in fields(make)) else {}
        return make(subject, **told, **values)  # type: ignore[no-any-return]

    @cached_property
    def instance(self) -> Question:
        """What the question is about and what is asked: name, source and hash of all that is asked."""
        name, source, payload = *self.name_and_source(), self.payload()
        if isinstance(payload, str):
            return Question(name=name, source=source, sha256=payload)
        text = json.dumps(payload, sort_keys=True, separators=(",", ":"))
        return Question(name=name, source=source, sha256=hashlib.sha256(text.encode()).hexdigest())

    @abstractmethod
    def name_and_source(self) -> tuple[str, str | None]:
        """Return what people call the question, and what it was loaded from."""

    @abstractmethod
    def payload(self) -> dict[str, Any] | str:
        """Return all that is asked as JSON values, which are hashed; of an instance alone, its own hash."""

    @abstractmethod
    def read(self, item: object) -> Any:
        """Return the answer that a method or a user gives; `InstanceError` if it is none."""

    @abstractmethod
    def evaluate(self, answer: Any) -> int:
        """Return the objective of an answer (fast; the verifier has the last word)."""

    @abstractmethod
    def judge(self, answer: Any) -> Judgement:
        """Have the verifier recompute the objective of an answer."""

    def satisfied(self, objective: int) -> bool:
        """Return whether an answer of this objective is all that was asked for; else better is welcome."""
        return False

    def impossible(self) -> str | None:
        """Return a witness that there is no answer at all, if a look at the instance shows one."""
        return None

    def proposition(self, bound: int | None) -> tuple[int | None, bool]:
        """Return what a certificate must prove for a bound to hold, and whether it lies above, not below."""
        return bound, self.maximize

    @property
    def freedoms(self) -> tuple[str, ...]:
        """Settings such as ``order=free`` by which more answers are valid: who proves bounds must know them.

        A method that does not (`Method.freedoms`) is refused, and certificates do not speak of them.
        """
        return ()

    @property
    def demands(self) -> tuple[str, ...]:
        """Settings such as ``addresses`` by which fewer answers are valid, and which methods need not know.

        Bounds hold all the same. The problem's room makes such answers of those that methods find
        (`lowtide.solvers.room.Room.demanded`).
        """
        return ()

    def setting(
        self, edges: tuple[tuple[int, int], ...] = ()
    ) -> Setting | ParallelSetting | ArenaSetting | None:
        """Return what a certificate states besides the graph; `edges` are those that an answer added."""
        return None

    @property
    def plan_graph(self) -> Graph | None:
        """The graph that plans of answers are for, if there is one."""
        return getattr(self, "graph", None)

    def facts(self, judgement: Judgement) -> list[Fact]:
        """Return what people want to know of a valid answer besides its objective."""
        return []


def peak_facts(verdict: Verification | AllocationVerdict | ShardingVerdict) -> list[Fact]:
    """Return a fact for each tier: the most bytes in it at a time, and where its addresses end, if any."""
    if not isinstance(verdict, Verification):
        return []
    return [
        *(Fact(f"peak in {tier}", peak, exact_bytes(peak)) for tier, peak in verdict.peaks.items()),
        *(Fact(f"height in {tier}", top, exact_bytes(top)) for tier, top in verdict.heights.items()),
    ]


def traffic_facts(verdict: Verification) -> list[Fact]:
    """Return a fact for each channel that was used: the bytes over it."""
    return [Fact(f"traffic {a}->{b}", moved, exact_bytes(moved)) for (a, b), moved in verdict.traffic.items()]
