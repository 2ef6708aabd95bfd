r"""The kind `windows`: stalls of windows of time, each proved by prices and rounded up to whole ns.

Setting, instants, samples and epochs are those of `prices`. *Gap* g is the time from instant g to the next
one (of -1: from time 0 to the start of op 0; of the last instant, in periodic plans only: to the next
period), with the stall :math:`s_g`. There is none in an even gap, an op from its start to its end. Epochs
consist of gaps: the stall of epoch e is :math:`\sigma_e = \sum_{g \in e} s_g`.

**Whole numbers.** Ops start at whole ns and last whole ns, and so does the period. An op with several modes
counts as ending after the least of its durations, with the least of its workspaces, in all windows (the last
case of the modes in `prices`): how much longer it lasts is stall in the gap behind it. So each :math:`s_g` is
a whole number of ns, at least 0, and a plan takes at least :math:`\sum_k d_k + \sum_g s_g`.

**A window** w is a proof by prices with samples of its own. Let :math:`L_w` be the least that all bytes and
workspaces pay, less what M, :math:`C_x` and :math:`B_r D_e` cost at these prices. As in `prices`,

.. math:: L_w \le \sum_e p_e \sigma_e, \qquad p_e = \sum_r \rho_{re} B_r,

where :math:`0 \le p_e \le 1`, unless epoch e is one even gap: then :math:`\sigma_e = 0`. Let :math:`G_w` be
the odd gaps of the epochs with :math:`p_e > 0`. Then :math:`L_w \le \sum_{g \in G_w} s_g`. The right side is
a whole number, at least 0: it is no less than :math:`\lceil L_w \rceil`, nor than 0.

**Sum.** If no gap is in two of the sets :math:`G_w`, a plan takes at least

.. math:: \sum_k d_k + \sum_w \max(0, \lceil L_w \rceil).

One proof by the prices of all windows together rounds up only once. Source: this suite.
"""

from __future__ import annotations

from itertools import pairwise

from ...graph import Graph
from ...setting import Setting
from ...units import SECOND
from .price_claims import WindowsProof
from .prices import earned, setting_of_prices, steps_of
from .refused import Refused


def check_windows(graph: Graph, setting: Setting, bound: int, proof: WindowsProof) -> int:
    """Return how many byte paths were priced; raise `Refused` if the windows do not prove the bound."""
    proven, ways = windows_time(graph, setting, proof)
    if bound > proven:
        raise Refused(f"bound: found {bound} ns, expected at most {proven} ns, which the windows prove")
    return ways


def windows_time(graph: Graph, setting: Setting, proof: WindowsProof) -> tuple[int, int]:
    """Return the ns that no plan undercuts, and how many byte paths were priced.

    Raises
    ------
    Refused
        If prices do not serve the setting, a window is no proof by prices, or two charge one stall.
    """
    setting, steps = setting_of_prices(graph, setting), steps_of(graph)
    time = sum(step.duration for step in steps)
    instants = 2 * len(steps)
    charged: set[int] = set()
    number = 0
    for window in proof.windows:
        total, charges, ways = earned(graph, steps, setting, window)
        ends = [*window.samples, *([window.samples[0] + instants] if setting.periodic else [])]
        for (low, high), charge in zip(pairwise(ends), charges, strict=True):
            gaps = {g % instants if setting.periodic else g for g in range(low, high) if g % 2 and charge}
            if gaps & charged:
                raise Refused(f"windows: found a stall behind instant {min(gaps & charged)} charged twice")
            charged |= gaps
        time += max(0, -(-total // (window.denominator * SECOND)))
        number += ways
    return time, number
