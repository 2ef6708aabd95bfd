"""Certificates: data from which anyone can confirm a bound.

A certificate of `peak` claims: every order of the ops of this graph that obeys its precedence has a peak of
at least `bound` bytes. One of `placement` claims: every plan of this graph in its setting, with the ops in
reference order, or in any if that is free, takes at least `bound` ns. One of `parallel-memory` claims: no
parallel schedule of this graph in its setting needs more than `bound` bytes; one of `arena`: no order and
no addresses need less. What each kind of proof says, and why it proves the claim, is in the module that
checks it:

============  ========================  ==========================================
kind          proof                     checked by
============  ========================  ==========================================
working-set   `WorkingSetProof`         `lowtide.models.verifier.proofs.working_set`
cut           `CutProof`                `lowtide.models.verifier.proofs.cut`
states        `StatesProof`             `lowtide.models.verifier.proofs.states`
descents      `DescentsProof`           `lowtide.models.verifier.proofs.descents`
prices        `PricesProof`             `lowtide.models.verifier.proofs.prices`
windows       `WindowsProof`            `lowtide.models.verifier.proofs.windows`
release       `ReleaseProof`            `lowtide.models.verifier.proofs.release`
lags          `LagsProof`               `lowtide.models.verifier.proofs.lags`
flow          `FlowProof`               `lowtide.models.verifier.flow`
stacks        `StacksProof`             `lowtide.models.verifier.proofs.stacks`
pools         `PoolsProof`              `lowtide.models.verifier.proofs.stacks`
============  ========================  ==========================================

Sets of ops are bit masks (bit v: op v); in files they are hexadecimal strings. *Forward* a walk executes
ops from nothing, *backward* it takes them back from everything.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .flow_proof import FlowProof, ParallelSetting
from .graph import Graph
from .setting import ArenaSetting, Setting
from .verifier.proofs.claims import DescentsProof
from .verifier.proofs.cut import CutProof
from .verifier.proofs.lags import LagsProof
from .verifier.proofs.price_claims import PricesProof, WindowsProof
from .verifier.proofs.release import ReleaseProof
from .verifier.proofs.stacks import PoolsProof, StacksProof
from .verifier.proofs.states import StatesProof
from .verifier.proofs.working_set import WorkingSetProof

Proof = (
    WorkingSetProof
    | CutProof
    | StatesProof
    | DescentsProof
    | PricesProof
    | WindowsProof
    | ReleaseProof
    | LagsProof
    | FlowProof
    | StacksProof
    | PoolsProof
)


AnySetting = Setting | ParallelSetting | ArenaSetting | None

PLAIN = "peak"
"""The problem of certificates without a setting."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """A bound on the peak of every order of a graph, or as the setting says, with its proof.

    Attributes
    ----------
    bound
        In `unit`.
    setting
        That of `placement`, `parallel-memory` or `arena`; None: the certificate is about `peak`.
    proof
        What `lowtide.models.verifier.certificate.verify_certificate` confirms.
    graph_name, graph_source, graph_sha256
        The graph, as in plans.
    """

    bound: int
    proof: Proof = field(repr=False)
    graph_name: str
    graph_source: str | None
    graph_sha256: str
    setting: AnySetting = None

    @classmethod
    def of(cls, graph: Graph, bound: int, proof: Proof, setting: AnySetting = None) -> Certificate:
        """Return the certificate of a bound for a graph."""
        return cls(
            bound=bound,
            proof=proof,
            graph_name=graph.name,
            graph_source=graph.source,
            graph_sha256=graph.sha256,
            setting=setting,
        )

    @property
    def problem(self) -> str:
        """The problem that the bound is one of."""
        return PLAIN if self.setting is None else self.setting.problem

    @property
    def unit(self) -> str:
        """Bytes or ns."""
        return "bytes" if self.setting is None else self.setting.unit

    def to_dict(self) -> dict[str, Any]:
        """Return the native JSON object."""
        return {
            "format": "lowtide/certificate",
            "version": 1,
            "problem": self.problem,
            "graph": {
                "name": self.graph_name,
                "source": self.graph_source,
                "sha256": self.graph_sha256,
            },
            **({} if self.setting is None else {"setting": self.setting.to_dict()}),
            "bound": self.bound,
            "proof": self.proof.to_dict(),
        }
