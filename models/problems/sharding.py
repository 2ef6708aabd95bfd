"""The sharding problem: a strategy for each op, so that computation and communication cost least."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import index
from typing import Any, ClassVar

from ..checks import check_type
from ..cost_network import CostNetwork, Strategies
from ..errors import InstanceError
from ..fact import Fact
from ..parameter import Parameter
from ..verifier.sharding import ShardingVerdict, verify_sharding
from .problem import Judgement, Problem


@dataclass(frozen=True)
class Sharding(Problem):
    """Least cost within a memory: how each op is split over the devices, costs of ops and of pairs of them.

    The question of the contest at ASPLOS 2025: each node of a network chooses a strategy. The objective is
    the sum of the costs of nodes and edges; the usages of the nodes that are alive at a time add up to at
    most the limit. An answer is the list of strategies, by node.

    Parameters
    ----------
    network
        Nodes, edges, and the limit.

    Raises
    ------
    InstanceError
        If it is no network.

    Examples
    --------
    >>> import lowtide as lt
    >>> result = lt.solve(lt.Sharding(lt.load_network("catalogue:iopddl/example")), threads=1)
    >>> result.status, result.objective, result.strategies.choice
    (<Status.OPTIMAL: 'optimal'>, 445, (0, 0, 2, 1, 0))
    """

    network: CostNetwork
    name: ClassVar[str] = "sharding"
    unit: ClassVar[str] = "units"
    about: ClassVar[str] = "network"
    answers: ClassVar[str] = "strategies"
    picture: ClassVar[str] = ""
    parameters: ClassVar[Mapping[str, Parameter]] = {}

    def __post_init__(self) -> None:
        check_type(self.network, CostNetwork, "sharding, network", "a CostNetwork")

    @classmethod
    def of(cls, subject: Any, *, source: str | None = None, **values: Any) -> Sharding:
        """Return the problem about a network."""
        return cls(subject)

    def name_and_source(self) -> tuple[str, str | None]:
        """Return name and source of the network."""
        return self.network.name, self.network.source

    def payload(self) -> str:
        """Return the hash of the network."""
        return self.network.sha256

    def read(self, item: object) -> tuple[int, ...]:
        """Return the strategies of a sequence, or of `Strategies`; the verifier looks at what is forbidden.

        Raises
        ------
        InstanceError
            If it is neither, made for another network, or has not a strategy of each node.
        """
        if isinstance(item, Strategies):
            if item.network_sha256 not in (None, self.network.sha256):
                raise InstanceError(f"found strategies for another network than {self.network.name!r}")
            item = item.choice
        if not isinstance(item, Sequence) or isinstance(item, str | bytes):
            raise InstanceError(f"found {type(item).__name__}, expected a strategy by node")
        try:
            choice = tuple(map(index, item))
        except TypeError:
            raise InstanceError("found strategies that are no integers, expected indices") from None
        costs = self.network.costs
        if len(choice) != len(costs):
            raise InstanceError(f"found {len(choice)} strategies, expected {len(costs)}, one of each node")
        for v, s in enumerate(choice):
            if not 0 <= s < len(costs[v]):
                raise InstanceError(f"node {v}: found strategy {s}, expected one of {len(costs[v])}")
        return choice

    def evaluate(self, answer: Sequence[int]) -> int:
        """Return the sum of the costs of nodes and edges."""
        network = self.network
        nodes = sum(row[s] for row, s in zip(network.costs, answer, strict=True))
        return nodes + sum(
            matrix[answer[u] * len(network.costs[v]) + answer[v]]
            for (u, v), matrix in zip(network.edges, network.matrices, strict=True)
        )

    def judge(self, answer: Sequence[int]) -> Judgement:
        """Have the verifier recompute cost and usage."""
        verdict = verify_sharding(self.network, answer)
        return Judgement(
            objective=verdict.cost if verdict.valid else None,
            verification=verdict,
            strategies=Strategies.of(self.network, answer),
        )

    def facts(self, judgement: Judgement) -> list[Fact]:
        """Return the most that is used at a time, and the limit."""
        verdict = judgement.verification
        assert isinstance(verdict, ShardingVerdict)
        return [
            Fact("usage", verdict.usage, f"{verdict.usage:,}"),
            Fact("limit", self.network.limit, f"{self.network.limit:,}"),
        ]
