"""`certify_placement`: prove a bound on the time of a placement once more, and write its proof down.

Where inputs must come from afar, a release time may prove it at once. Else the prices are those of
`lp-bound` (`lowtide.solvers.placement.bounds.prices`): windows in closed form, then dual values of linear
programs. Windows that prove more one by one, each rounded up to whole ns, have prices of their own. The
checker is told them, not what they prove: that it works out itself.

Where the order is free, it is told between which ops to look for lags
(`lowtide.formulations.placement.bounds.lags`), and the proof of a least peak.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from ....models.certificate import Certificate
from ....models.checks import check_integer, check_seconds, check_type
from ....models.errors import UsageError
from ....models.graph import Accounting
from ....models.problems.peak import Peak
from ....models.problems.placement import Placement
from ....models.result import Result
from ....models.verifier.proofs.price_claims import PricesProof, WindowsProof
from ....models.verifier.proofs.refused import Refused
from ....models.verifier.proofs.release import ReleaseProof
from ...certify import Certified
from ...context import Context

if TYPE_CHECKING:
    from ....formulations.placement.bounds.prices import MemoryPrices
    from ....formulations.placement.bounds.windows import Window
    from ....models.graph import Graph
    from ....models.setting import Setting

TRIVIAL = PricesProof(denominator=1, least=0, samples=(), memory=())
"""Proves the sum of the durations."""


def certify_placement(
    problem: Placement,
    bound: int,
    *,
    prices: MemoryPrices | Sequence[Window] | None = None,
    time_limit: float | None = 60.0,
    threads: int = 1,
    seed: int = 0,
    progress: Callable[[str], None] = lambda line: None,
) -> Certificate | None:
    """Return a certificate of the best bound up to `bound` that releases or prices prove; None: none is new.

    A bound that something else proved (the slot model) may be out of reach; then the certificate has the best
    one above the sum of the durations, and None is returned if there is none.

    Parameters
    ----------
    problem
        For prices, on a machine with one processor, which uses the first tier only.
    bound
        ns, such as `Result.bound`.
    prices
        Those that proved the bound, or windows (`Result.evidence`), if known; else they are computed.
    time_limit
        Seconds; None for no limit.
    threads, seed
        For the solver of linear programs.
    progress
        Called with a line of text now and then.

    Raises
    ------
    UsageError
        If ops may run again.

    Examples
    --------
    >>> from lowtide.instances import load_problem
    >>> problem = load_problem("placement", "gen:chain?n=5&seed=1&machine=a100-40g-pcie3&periodic=1")
    >>> certify_placement(problem, sum(op.duration_ns for op in problem.graph.ops)).proof.kind
    'prices'
    """
    from ....formulations.placement.bounds.prices import window_prices
    from ....formulations.placement.bounds.releases import best_release, ideal_time
    from ....models.verifier.proofs.release import released_time

    check_type(problem, Placement, "certify_placement, problem")
    if problem.recompute:
        raise UsageError("certify_placement: found recompute, expected each op once")
    check_integer(bound, 0, "certify_placement, bound")
    check_seconds(time_limit, "certify_placement, time limit", zero=True)
    check_integer(threads, 1, "certify_placement, threads")
    from .prices import price_rounds, sample_data, unsampled

    context = Context(problem=problem, time_limit=time_limit, threads=threads, seed=seed, progress=progress)
    graph = problem.graph
    setting = problem.setting()
    if problem.order == "free":
        return _of_every_order(problem, bound, context)
    best: PricesProof | WindowsProof | ReleaseProof = TRIVIAL
    ideal, proven = ideal_time(problem), 0
    released = best_release(problem)
    if released is not None:
        release = ReleaseProof(op=released.op, tiers=released.tiers, groups=released.groups)
        best, proven = release, released_time(graph, setting, release)

    def reached() -> bool:
        return proven >= bound

    try:
        ideal, _ = price_time(graph, setting, TRIVIAL)
        if ideal >= proven:
            best, proven = TRIVIAL, ideal
        rounds = (best_prices for best_prices, _, _ in price_rounds(problem, context, reached))
        known: list[MemoryPrices | Sequence[Window]] = [] if prices is None else [prices]
        if isinstance(prices, Sequence):  # the same prices together may do
            known.append(window_prices(sample_data(problem), prices))
        while not reached() and not unsampled(problem):
            best_prices = known.pop() if known else next(rounds, None)
            if best_prices is None:
                break
            proof = proof_of(problem, best_prices)
            value, _ = price_time(graph, setting, proof)
            if value > proven:
                best, proven = proof, value
    except KeyboardInterrupt:
        progress("certificate: interrupted")  # what is proved so far is kept
    except Refused:  # a machine that the checker does not serve
        pass
    if proven <= ideal < bound:
        return None
    return Certificate.of(graph, min(bound, proven), best, setting)


def _of_every_order(problem: Placement, bound: int, context: Context) -> Certificate | None:
    """Return the certificate of the best bound up to one that holds in every order.

    Lags and a least peak prove it, or a release time where inputs must come from afar: only the latter, and
    the sum of the durations, under ``replace``. What branch and bound over orders proves has no proof that is
    shorter than the search.
    """
    from ....formulations.placement.bounds.lags import ancestor_rows, deciding, lags
    from ....formulations.placement.bounds.releases import best_release_of_orders, ideal_time
    from ....models.derived.precedence import precedence
    from ....models.verifier.proofs.lags import LagsProof, ordered_time
    from ....models.verifier.proofs.release import released_time
    from ...peak.auto import solve_auto as solve_peak
    from ...peak.certify.certify import certify
    from .any_order import MOST_OPS
    from .prices import sample_data, unsampled

    graph, setting = problem.graph, problem.setting()
    if len(graph.ops) > MOST_OPS:
        return None
    best: LagsProof | ReleaseProof = LagsProof()
    ideal, most = ideal_time(problem), 0
    released = best_release_of_orders(problem)
    if released is not None:
        release = ReleaseProof(op=released.op, tiers=released.tiers, groups=released.groups)
        with suppress(Refused):  # a machine that the checker does not serve
            most = released_time(graph, setting, release)
            best = release
    try:
        proof = LagsProof()
        proven = ideal = ordered_time(graph, setting, proof)
        if proven >= min(most, bound):
            best, most = proof, proven
        # what lags are asked for; under ``replace`` the checker knows none
        sought = bound if graph.accounting is Accounting.COEXIST else 0
        if max(proven, most) < sought and not unsampled(problem):
            data, rows = sample_data(problem), ancestor_rows(precedence(graph).ancestors)
            context.progress("certificate: lags")
            kept = deciding(data, rows, [*lags(data, rows, lambda: context.expired)])
            proof = LagsProof(
                inward=tuple((x.before, x.after) for x in kept if not x.outward),
                outward=tuple((x.before, x.after) for x in kept if x.outward),
            )
            proven = ordered_time(graph, setting, proof)
        if max(proven, most) < sought and not context.expired:
            peak = Peak(graph)
            inner = context.inner(peak, context.remaining() / 2, "certificate, least peak: ")
            solve_peak(peak, inner)
            more = replace(proof, peak=(inner.exact or (0,))[0])
            if more.peak and (value := ordered_time(graph, setting, more)) > proven:
                orders = [] if inner.answer is None else [inner.answer]
                left = None if context.time_limit is None else context.remaining()
                sealed = certify(graph, more.peak, orders=orders, time_limit=left)
                if sealed is not None:
                    proof, proven = replace(more, least=sealed.proof), value  # type: ignore[arg-type]
        if proven >= min(most, bound):
            best, most = proof, proven
    except Refused:  # a machine or a graph that the checker does not serve
        pass
    if most <= ideal and most < bound:
        return None
    return Certificate.of(graph, min(bound, most), best, setting)


def certify_time(problem: Placement, result: Result, context: Context) -> Certified:
    """Return a certificate of a result's bound, from its own prices if it has some."""
    if result.bound is None:
        return Certified(None, None, "there is no bound")
    certificate = certify_placement(
        problem,
        result.bound,
        prices=result.evidence,
        time_limit=context.time_limit,
        threads=context.threads,
        seed=context.seed,
        progress=context.progress,
    )
    return Certified(result.bound, certificate)


def proof_of(problem: Placement, bound: MemoryPrices | Sequence[Window]) -> PricesProof | WindowsProof:
    """Return the proof by prices, or by windows with prices of their own."""
    from ....formulations.placement.bounds.prices import MemoryPrices, window_prices
    from .prices import sample_data

    if isinstance(bound, MemoryPrices):
        return prices_proof(problem, bound)
    data = sample_data(problem)
    return WindowsProof(windows=tuple(prices_proof(problem, window_prices(data, [w])) for w in bound))


def price_time(graph: Graph, setting: Setting, proof: PricesProof | WindowsProof) -> tuple[int, int]:
    """Return the ns that the checker says a proof proves, and how many byte paths it priced."""
    from ....models.verifier.proofs.prices import proven_time
    from ....models.verifier.proofs.windows import windows_time

    if isinstance(proof, WindowsProof):
        return windows_time(graph, setting, proof)
    return proven_time(graph, setting, proof)


def prices_proof(problem: Placement, prices: MemoryPrices) -> PricesProof:
    """Return prices in the words of the machine; those of a single run's last sample count as 0.

    A group of channels of both directions is one to the proof: it has the higher price of both. A fast memory
    without limit has none to the proof: its program has room for all data at once, so that every placement
    pays ``price * (bytes - room) <= 0`` there, and without the price the bound is no less.
    """
    from ..reductions.outer_tiers import merged
    from .prices import least_bytes, sample_data

    machine, data = merged(problem).machine, sample_data(problem)
    device, *outer = (tier.name for tier in machine.tiers)
    count = len(prices.samples)
    channels: list[tuple[tuple[str, str], tuple[int, ...]]] = []
    groups: dict[str, tuple[int, ...]] = {}
    for cap, row in zip(data.caps, prices.carried, strict=True):
        paid = row + (0,) * (count - len(row))
        pairs = [(device, outer[x]) if cap.outward else (outer[x], device) for x in cap.tiers]
        if len(pairs) == 1 and pairs[0] not in dict(channels):
            channels.append((pairs[0], paid))
        else:
            named = [
                g.name for g in machine.groups if {*pairs} <= {*g.channels} and g.bytes_per_s == cap.rate
            ]
            groups[min(named)] = tuple(map(max, paid, groups.get(min(named), paid)))
    return PricesProof(
        denominator=1 << prices.scale,
        least=least_bytes(problem),
        samples=prices.samples,
        memory=prices.memory if machine.tiers[0].capacity is not None else (0,) * count,
        capacities=tuple(
            (tier.name, row)
            for tier, row in zip(machine.tiers[1:], prices.room, strict=True)
            if tier.capacity is not None
        ),
        channels=tuple(channels),
        groups=tuple(groups.items()),
    )
