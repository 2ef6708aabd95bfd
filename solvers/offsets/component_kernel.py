"""Independent components of what a branch and bound has yet to place (`search_kernel`), compiled."""

from __future__ import annotations

from ..engines.kernels import inner

LOW, HIGH, BEGIN, END = range(4)
"""Fields of a component and of a choice point: its range of the pool, its range of sections."""


@inner
def _sort(low, high, pool, before, after, peak):  # type: ignore[no-untyped-def]
    """Sort a list by (before, -peak, after): Shell's sort, insertion sort where it is short."""
    step = 1
    while step < (high - low) // 3:
        step = 3 * step + 1
    while step > 0:
        for k in range(low + step, high):
            i = pool[k]
            at = k
            while at >= low + step:
                j = pool[at - step]
                first, second, third = before[j] - before[i], peak[i] - peak[j], after[j] - after[i]
                if first < 0 or (first == 0 and (second < 0 or (second == 0 and third < 0))):
                    break
                pool[at] = j
                at -= step
            pool[at] = i
        step //= 3


@inner
def greatest(values, low, high):  # type: ignore[no-untyped-def]
    """Return the greatest of some values."""
    found = values[low]
    for k in range(low + 1, high):
        found = max(found, values[k])
    return found


@inner
def part(frame, buffers, ranks, places, sums, pool, pool_top, comps, comp_top):  # type: ignore[no-untyped-def]
    """List the components of what is unplaced, each sorted; return the new top of `comps`."""
    _size, _alignment, _fixed, _kind, first, last = buffers
    before, after = ranks
    _least, placed, _barred, _stamped, _lift, peak = places
    total, spans, _support, block, fill = sums
    begin, end = frame[BEGIN], frame[END]
    count = -1
    for s in range(begin, end):
        if s == begin or spans[s] == 0:
            count += 1
            fill[count] = 0
        block[s] = count
    for p in range(frame[LOW], frame[HIGH]):
        if not placed[pool[p]]:
            fill[block[first[pool[p]]]] += 1
    top = comp_top
    for s in range(begin, end):
        c = block[s]
        if (s == begin or spans[s] == 0) and fill[c] > 0:
            comps[top, LOW] = pool_top
            comps[top, BEGIN] = s
            pool_top += fill[c]
            comps[top, HIGH] = pool_top
            fill[c] = comps[top, LOW]
            top += 1
        if top > comp_top:
            comps[top - 1, END] = s + 1
    for p in range(frame[LOW], frame[HIGH]):
        i = pool[p]
        if not placed[i]:
            c = block[first[i]]
            pool[fill[c]] = i
            fill[c] += 1
            peak[i] = greatest(total, first[i], last[i])
    for c in range(comp_top, top):
        _sort(comps[c, LOW], comps[c, HIGH], pool, before, after, peak)
    return top
