"""Confirms certificates: derives everything from the graph's raw fields, and trusts no search.

It shares no code with whatever made the certificate, nor with the arrays that methods use
(`lowtide.models.derived.precedence`, `lowtide.models.derived.memory`). What each kind of proof is, and why it
suffices, is in `lowtide.models.verifier.proofs`.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..certificate import Certificate
from ..checks import check_type
from ..errors import InstanceError, VerificationError
from ..flow_proof import FlowProof, ParallelSetting
from ..graph import Graph
from ..setting import ArenaSetting, Setting
from ..written import Written
from .proofs.cut import CutProof, check_cut
from .proofs.descents import check_descents
from .proofs.flow import check_flow
from .proofs.lags import LagsProof, ordered_time
from .proofs.price_claims import PricesProof, WindowsProof
from .proofs.prices import check_prices
from .proofs.refused import Refused
from .proofs.release import ReleaseProof, check_release
from .proofs.stacks import PeakProof, PoolsProof, StacksProof, each_pool, stacked
from .proofs.states import StatesProof, check_states
from .proofs.windows import check_windows
from .proofs.working_set import WorkingSetProof, check_working_set


@dataclass(frozen=True, kw_only=True)
class CertificateVerdict(Written):
    """What the checker says.

    Attributes
    ----------
    valid
        Whether the proof holds: no order of the graph has a peak, or no plan in the setting takes time, below
        `bound`; or no parallel schedule in the setting needs more.
    kind, bound
        Of the certificate; bytes or ns.
    checked
        How many states (of ``states``), claims (``descents``), multipliers (``cut``), byte paths
        (``prices``, ``windows``), pairs of ops (``lags``) or arcs (``flow``) were checked.
    witness
        The first thing that does not hold; empty if valid.
    """

    valid: bool
    kind: str
    bound: int
    checked: int
    witness: str = ""

    def raise_if_invalid(self) -> None:
        """Raise if the proof does not hold.

        Raises
        ------
        VerificationError
            With the witness.
        """
        if not self.valid:
            raise VerificationError(f"certificate: {self.witness}")


def verify_certificate(graph: Graph, certificate: Certificate) -> CertificateVerdict:
    """Return whether a certificate proves its bound on every order, or every plan, of a graph.

    Parameters
    ----------
    graph
        What the certificate is about; another one is refused by its sha256.
    certificate
        As `lowtide.certify`, `lowtide.certify_placement`, `lowtide.certify_parallel` or a file gives it; no
        wrong proof makes this function raise.

    Examples
    --------
    >>> import lowtide as lt
    >>> graph = lt.load("catalogue:diamond")
    >>> certificate = lt.certify(graph, lt.solve(lt.Peak(graph)).bound)
    >>> lt.verify_certificate(graph, certificate).valid
    True
    """
    check_type(graph, Graph, "verify_certificate, graph")
    check_type(certificate, Certificate, "verify_certificate, certificate")
    proof, bound, checked = certificate.proof, certificate.bound, 1
    try:
        if certificate.graph_sha256 != graph.sha256:
            raise Refused(
                f"graph {graph.name!r}: found sha256 {graph.sha256[:12]}…, "
                f"expected {certificate.graph_sha256[:12]}…, that of the certificate"
            )
        setting = certificate.setting
        settings = {
            PricesProof: Setting,
            WindowsProof: Setting,
            ReleaseProof: Setting,
            LagsProof: Setting,
            FlowProof: ParallelSetting,
            StacksProof: ArenaSetting,
            PoolsProof: ArenaSetting,
        }
        expected = settings.get(type(proof), type(None))
        if not isinstance(setting, expected):
            raise Refused(f"found proof {proof.kind} of problem {certificate.problem}, expected another kind")
        in_all = isinstance(proof, LagsProof | ReleaseProof)
        if isinstance(setting, Setting) and setting.order != "reference" and not in_all:
            raise Refused(
                f"found proof {proof.kind} of order {setting.order}, expected one that holds in all"
            )
        if isinstance(proof, PricesProof):
            assert isinstance(setting, Setting)
            checked = check_prices(graph, setting, bound, proof)
        elif isinstance(proof, WindowsProof):
            assert isinstance(setting, Setting)
            checked = check_windows(graph, setting, bound, proof)
        elif isinstance(proof, ReleaseProof):
            assert isinstance(setting, Setting)
            check_release(graph, setting, bound, proof)
        elif isinstance(proof, LagsProof):
            assert isinstance(setting, Setting)
            checked = _check_lags(graph, setting, bound, proof)
        elif isinstance(proof, FlowProof):
            assert isinstance(setting, ParallelSetting)
            checked = check_flow(graph, setting, bound, proof)
        elif isinstance(proof, StacksProof):
            assert isinstance(setting, ArenaSetting)
            checked = _check_peak(*stacked(graph, setting, bound, proof), proof.peak)
        elif isinstance(proof, PoolsProof):
            assert isinstance(setting, ArenaSetting)
            parts = each_pool(graph, setting, bound, proof)
            checked = sum(_check_peak(*stacked(*part), part[-1].peak) for part in parts)
        else:
            checked = _check_peak(graph, bound, proof)
    except (Refused, InstanceError) as fault:  # the latter: a proof leads to a graph that is none
        return CertificateVerdict(valid=False, kind=proof.kind, bound=bound, checked=0, witness=str(fault))
    return CertificateVerdict(valid=True, kind=proof.kind, bound=bound, checked=checked)


def _check_lags(graph: Graph, setting: Setting, bound: int, proof: LagsProof) -> int:
    """Raise `Refused` unless no plan in any order is faster than `bound`; return what was checked."""
    proven = ordered_time(graph, setting, proof)
    if bound > proven:
        raise Refused(f"bound: found {bound} ns, expected at most {proven} ns, which the lags prove")
    checked = len(proof.inward) + len(proof.outward)
    if proof.peak > 0:
        if proof.least is None:
            raise Refused(f"lags: found a peak of {proof.peak} bytes without a proof, expected one")
        checked += _check_peak(graph, proof.peak, proof.least)
    return checked


def _check_peak(graph: Graph, bound: int, proof: PeakProof) -> int:
    """Raise `Refused` unless every order has a peak of at least `bound`; return what was checked."""
    if isinstance(proof, WorkingSetProof):
        check_working_set(graph, bound, proof)
        return 1
    if isinstance(proof, CutProof):
        check_cut(graph, bound, proof)
        return len(proof.multipliers.edges) + len(proof.multipliers.shares)
    if isinstance(proof, StatesProof):
        return check_states(graph, bound, proof)
    return check_descents(graph, bound, proof)
