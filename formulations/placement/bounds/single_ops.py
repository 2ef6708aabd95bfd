"""Bounds on the time of a single run from what single ops need: in closed form, for one processor or several.

Data: see `states`.
"""

from __future__ import annotations

from collections.abc import Callable

from ....models.units import SECOND
from ..states import StateData


def window_bound(
    data: StateData,
    *,
    many: int = 1,
    joint_out: int | None = None,
    joint_in: int | None = None,
    scattered: bool = False,
    expired: Callable[[], bool] = lambda: False,
) -> int:
    r"""Return a lower bound on the makespan of a single run in ns from single ops, in the time of one pass.

    Parameters
    ----------
    data
        Of a machine, or of each of several lanes that are alike (`lanes`).
    many
        m, how many lanes there are.
    joint_out, joint_in
        What the channels of all lanes out of their fast memories and into them carry together, bytes/s; None
        for no limit but their own.
    scattered
        Whether tensors may start in the fast memory of another of these lanes (`lanes.is_scattered`).
    expired
        Asked at each op whether to stop; each op gives a bound of its own.

    Notes
    -----
    One lane.

    While op k runs, at least :math:`V_k = W_k + \sum_l z_l - M` bytes of the lives that span it are absent.
    Those that were not in an outer tier at time 0 were copied out before, and not before the first birth
    among them; those that are accessed later return behind the end of k, and an op that accesses one runs
    behind that. With the sum B of the rates of a direction, k starts no earlier than the first birth plus
    :math:`V/B`, and what follows takes no less than :math:`V/B` and the shortest next reader.

    Several lanes, in any plan, in step or not. Number the lanes in the order in which op k starts in them.
    When it starts in lane j, j lanes have copied their V bytes out, all behind the least time of the first
    birth, so k starts there no earlier than that plus :math:`jV/R`, with R the joint rate. In the m - j + 1
    lanes from j on, k ends no earlier than in j; their bytes return behind that, which takes
    :math:`(m - j + 1) V'/R'`, and the reader of the last ones follows. So for each j the makespan is at least
    the start, :math:`d_k` and what follows. (It would be wrong that each lane has an m-th of the link: lanes
    that are not in step can have it in turn, one while the others compute.)

    Scattered. Let :math:`E_i` bytes of lane i that span op k have started in fast memories of other lanes
    only, and :math:`F_i` such bytes of other lanes in that of lane i, of which :math:`f_i` are still there
    when k starts in lane i. Then :math:`V + f_i` of its own bytes are absent, so it has copied out
    :math:`V + f_i - E_i` of them and :math:`F_i - f_i` foreign ones, which are needed elsewhere. For j = m
    the sum over all lanes is mV, because :math:`\sum_i F_i = \sum_i E_i`, and in some lane
    :math:`F_i \ge E_i`; where :math:`E_i > 0`, the first birth is time 0. For j < m initial tensors count as
    if they had started in an outer tier. The bytes that return are at least V' as before.
    """
    out = sum(way.rate for way in data.ways if not way.src)
    into = sum(way.rate for way in data.ways if not way.dst)
    memory = data.capacity[0]
    clock = [0]
    for d in data.duration:
        clock.append(clock[-1] + d)
    best = clock[-1]
    for k in range(data.n if memory is not None and not data.periodic else 0):
        if expired():
            break
        spanning = [
            life
            for life in data.lives
            if life.born < k and k not in life.accesses and (life.kept or k < life.accesses[-1])
        ]
        excess = data.need[k] + sum(life.nbytes for life in spanning) - (memory or 0)
        if excess <= 0:
            continue
        readers = [min(j for j in life.accesses if j > k) for life in spanning if life.accesses[-1:] > (k,)]
        returning = excess - sum(life.nbytes for life in spanning if not life.accesses[-1:] > (k,))
        for j in range(1, many + 1):
            loose = scattered and j < many
            clean = [life for life in spanning if life.born < 0 and (loose or any(life.starts[1:]))]
            leaving = excess - sum(life.nbytes for life in clean)
            before, behind = clock[k], clock[-1] - clock[k + 1]
            if leaving > 0 and out:
                born = min(clock[life.born + 1] for life in spanning if life not in clean)
                before = max(before, born + _transfer(leaving, out, j, joint_out))
            if returning > 0 and into:
                reader = min(data.duration[i] for i in readers)
                behind = max(behind, reader + _transfer(returning, into, many - j + 1, joint_in))
            best = max(best, before + data.duration[k] + behind)
    return best


def _transfer(nbytes: int, rate: int, many: int, joint: int | None) -> int:
    """Return the least ns in which each of several lanes can carry some bytes, rounded up."""
    alone = -(-nbytes * SECOND // rate)
    return alone if joint is None else max(alone, -(-many * nbytes * SECOND // joint))
