"""Compiled kernels of the branch and bound in `search`: the rules, and why they are right, are said there.

Everything lives in flat arrays, so that a call can return at any attempt and the next one goes on. Kernels
that call each other are in this one file, since a cached kernel does not notice a change in another file.
"""

from __future__ import annotations

import numpy as np
from numba import int32, int64, njit
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Ints32 = NDArray[np.int32]

# Scalars of a run, in `state`.
PHASE, DEPTH, AND_TOP, TRAIL_TOP, COMP_TOP, ATTEMPTS, LIMIT, CAPACITY, STAMP = range(9)
STATE_SIZE = 9
# Phases.
ENTER, TRY, FAIL = range(3)
# What a call returns.
FOUND, EXHAUSTED, AT_LIMIT, NEEDS_TRAIL, NEEDS_POOL = range(5)
# A row of `frames` is a choice point: its list in the pool, its sections, the last placement, candidates.
LOW, HIGH, BEGIN, END, LAST_OFFSET, LEFT, COUNT, NEXT, COMPLETE, UNDO, COMP = range(11)
FRAME_SIZE = 11
# A row of `ands` is a set of independent components, a row of `comps` one of them.
AND_DEPTH, AND_FIRST, AND_COUNT, AND_NOW = range(4)
AND_SIZE = 4
COMP_LOW, COMP_HIGH, COMP_BEGIN, COMP_END = range(4)
COMP_SIZE = 4
WIDTH = 16
"""Candidates kept per choice point; the next ones are looked for when these are used up."""
NONE = 2**62


@njit(nogil=True)
def _undo(mark, top, n, sections, trail, least, witness, placed, barred, total, spans, ranges, rects, size):  # type: ignore[no-untyped-def]
    """Take back everything that is on the trail above `mark`."""
    rect_pointer, rect_first, rect_last = rects
    first, last = ranges
    while top > mark:
        top -= 1
        what = trail[top, 0]
        if what < n:
            least[what] = trail[top, 1]
        elif what < n + sections:
            witness[what - n] = trail[top, 1]
        elif what >= 2 * n + sections:
            barred[what - 2 * n - sections] = trail[top, 1]
        else:
            i = what - n - sections
            placed[i] = 0
            for r in range(rect_pointer[i], rect_pointer[i + 1]):
                for s in range(rect_first[r], rect_last[r]):
                    total[s] += size[i]
            for s in range(first[i] + 1, last[i]):
                spans[s] += 1


@njit(nogil=True)
def _lifted(i, offset, near_pointer, near, size, fixed, placed, least):  # type: ignore[no-untyped-def]
    """Return a lower bound on where a buffer lies whose present least offset is closed to it."""
    if fixed[i] >= 0:
        return NONE
    top = least[i] + size[i]
    bound = NONE
    for q in range(near_pointer[i], near_pointer[i + 1]):
        j = near[q]
        if not placed[j]:
            at = max(least[j], offset)
            if at < top:
                bound = min(bound, at + size[j])
    return bound


@njit(nogil=True)
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
                if before[j] < before[i]:
                    break
                if before[j] == before[i] and (
                    peak[j] > peak[i] or (peak[j] == peak[i] and after[j] <= after[i])
                ):
                    break
                pool[at] = j
                at -= step
            pool[at] = i
        step //= 3


V = int64[::1]
V32 = int32[::1]
M = int64[:, ::1]


@njit(
    int64(
        V,
        V,
        V,
        V,
        V,
        V,
        V,
        V,
        V,
        V,
        V32,
        V,
        V32,
        V,
        V,
        V,
        V,
        V,
        V,
        V,
        V,
        V,
        V,
        V,
        V,
        V,
        V,
        M,
        V32,
        M,
        M,
        M,
        M,
    ),
    cache=True,
    nogil=True,
)
def advance(  # type: ignore[no-untyped-def]
    size,
    alignment,
    fixed,
    kind,
    first,
    last,
    rect_pointer,
    rect_first,
    rect_last,
    near_pointer,
    near,
    member_pointer,
    member,
    before,
    after,
    peak,
    state,
    least,
    placed,
    barred,
    stamped,
    lift,
    total,
    spans,
    witness,
    block,
    fill,
    trail,
    pool,
    frames,
    ands,
    comps,
    candidates,
):
    """Go on with a run until it ends, has used up its attempts, or needs longer arrays."""
    n = len(size)
    sections = len(total)
    capacity = state[CAPACITY]
    limit = state[LIMIT]
    phase = state[PHASE]
    depth = state[DEPTH]
    and_top = state[AND_TOP]
    trail_top = state[TRAIL_TOP]
    comp_top = state[COMP_TOP]
    attempts = state[ATTEMPTS]
    rects = (rect_pointer, rect_first, rect_last)
    ranges = (first, last)
    stamp = state[STAMP]
    answer = -1
    while True:
        if phase == ENTER:
            # A section is refuted if each of its buffers must lie too high.
            offset = frames[depth, LAST_OFFSET]
            stamp += 1
            for s in range(frames[depth, BEGIN], frames[depth, END]):
                w = witness[s]
                if total[s] == 0 or (least[w] >= offset and least[w] > barred[w]):
                    continue
                room = capacity - total[s]
                if stamped[w] != stamp:
                    stamped[w] = stamp
                    lift[w] = _lifted(w, offset, near_pointer, near, size, fixed, placed, least)
                if lift[w] <= room:
                    continue
                w = -1
                for q in range(member_pointer[s], member_pointer[s + 1]):
                    j = member[q]
                    if not placed[j] and offset <= least[j] <= room and least[j] > barred[j]:
                        w = j
                        break
                if w < 0:
                    for q in range(member_pointer[s], member_pointer[s + 1]):
                        j = member[q]
                        if placed[j] or (least[j] >= offset and least[j] > barred[j]):
                            continue
                        if stamped[j] != stamp:
                            stamped[j] = stamp
                            lift[j] = _lifted(j, offset, near_pointer, near, size, fixed, placed, least)
                        if lift[j] <= room:
                            w = j
                            break
                    if w < 0:
                        phase = FAIL
                        break
                trail[trail_top, 0] = n + s
                trail[trail_top, 1] = witness[s]
                trail_top += 1
                witness[s] = w
        if phase == ENTER:
            # Collect the first candidates of the choice point at `depth` after its last placement.
            offset = frames[depth, LAST_OFFSET]
            most = 0
            for s in range(frames[depth, BEGIN], frames[depth, END]):
                most = max(most, total[s])
            bound = capacity - most  # no candidate above it
            dominated = NONE  # no candidate at or above it
            base = depth * WIDTH
            count = 0
            complete = 1
            for p in range(frames[depth, LOW], frames[depth, HIGH]):
                i = pool[p]
                if placed[i]:
                    continue
                at = least[i]
                if fixed[i] < 0:
                    dominated = min(dominated, at + size[i])
                else:
                    bound = min(bound, at)
                if at < offset or at <= barred[i] or at > bound or at >= dominated:
                    continue
                k = count
                if count == WIDTH:
                    complete = 0
                    if candidates[base + WIDTH - 1, 0] <= at:
                        continue
                    k = WIDTH - 1
                else:
                    count += 1
                while k > 0 and candidates[base + k - 1, 0] > at:
                    candidates[base + k, 0] = candidates[base + k - 1, 0]
                    candidates[base + k, 1] = candidates[base + k - 1, 1]
                    k -= 1
                candidates[base + k, 0] = at
                candidates[base + k, 1] = p
            while count and (
                candidates[base + count - 1, 0] > bound or candidates[base + count - 1, 0] >= dominated
            ):
                count -= 1
                complete = 1
            frames[depth, COUNT] = count
            frames[depth, NEXT] = 0
            frames[depth, COMPLETE] = complete
            frames[depth, UNDO] = trail_top
            phase = TRY
        if phase == FAIL:
            # Take back the placement of the choice point above, with all that followed from it.
            depth -= 1
            if depth < 0:
                answer = EXHAUSTED
                break
            while and_top >= 0 and ands[and_top, AND_DEPTH] >= depth:
                comp_top = ands[and_top, AND_FIRST]
                and_top -= 1
            mark = frames[depth, UNDO]
            _undo(
                mark,
                trail_top,
                n,
                sections,
                trail,
                least,
                witness,
                placed,
                barred,
                total,
                spans,
                ranges,
                rects,
                size,
            )
            trail_top = mark
            phase = TRY
        k = frames[depth, NEXT]
        if k == frames[depth, COUNT]:
            if frames[depth, COMPLETE]:
                phase = FAIL
                continue
            if trail_top + 2 * sections + 2 > len(trail):
                answer = NEEDS_TRAIL
                break
            i = pool[candidates[depth * WIDTH + k - 1, 1]]
            trail[trail_top, 0] = 2 * n + sections + i
            trail[trail_top, 1] = barred[i]
            trail_top += 1
            barred[i] = least[i]
            frames[depth, LAST_OFFSET] = least[i]
            phase = ENTER
            continue
        position = candidates[depth * WIDTH + k, 1]
        i = pool[position]
        # Leave here if the next attempt may not fit or is one too many: nothing has changed yet.
        if attempts >= limit:
            answer = AT_LIMIT
            break
        if trail_top + near_pointer[i + 1] - near_pointer[i] + 2 * sections + 2 > len(trail):
            answer = NEEDS_TRAIL
            break
        pool_top = frames[depth, HIGH]
        if and_top >= 0:
            final = ands[and_top, AND_FIRST] + ands[and_top, AND_COUNT] - 1
            pool_top = max(pool_top, comps[final, COMP_HIGH])
        left = frames[depth, LEFT] - 1
        if pool_top + left > len(pool) or comp_top + left > len(comps):
            answer = NEEDS_POOL
            break
        frames[depth, NEXT] = k + 1
        if k > 0 and candidates[depth * WIDTH + k - 1, 0] == least[i]:
            # In all that follows, the sibling before does not lie here.
            j = pool[candidates[depth * WIDTH + k - 1, 1]]
            trail[trail_top, 0] = 2 * n + sections + j
            trail[trail_top, 1] = barred[j]
            trail_top += 1
            frames[depth, UNDO] = trail_top
            barred[j] = least[j]
            if kind[i] == kind[j]:
                continue
        attempts += 1
        offset = least[i]
        height = offset + size[i]
        # Raise the neighbours.
        placed[i] = 1
        mark = trail_top
        low_section = first[i]
        high_section = last[i]
        alone = True
        good = True
        for q in range(near_pointer[i], near_pointer[i + 1]):
            j = near[q]
            if placed[j]:
                continue
            alone = False
            if least[j] < height:
                at = height
                a = alignment[j]
                if a > 1:
                    at = (at + a - 1) // a * a
                if at + size[j] > capacity or fixed[j] >= 0:
                    good = False
                    break
                trail[trail_top, 0] = j
                trail[trail_top, 1] = least[j]
                trail_top += 1
                least[j] = at
                low_section = min(low_section, first[j])
                high_section = max(high_section, last[j])
        if (
            alone or fixed[i] >= 0
        ):  # all that comes after has room for it here: no other candidate can do better
            frames[depth, COUNT] = k + 1
            frames[depth, COMPLETE] = 1
        if not good:
            while trail_top > mark:
                trail_top -= 1
                least[trail[trail_top, 0]] = trail[trail_top, 1]
            placed[i] = 0
            continue
        trail[trail_top, 0] = n + sections + i
        trail_top += 1
        for r in range(rect_pointer[i], rect_pointer[i + 1]):
            for s in range(rect_first[r], rect_last[r]):
                total[s] -= size[i]
        for s in range(first[i] + 1, last[i]):
            spans[s] -= 1
        # Where the witness of a section has moved, look for the least offset anew.
        for s in range(low_section, high_section):
            if total[s] == 0:
                continue
            w = witness[s]
            room = capacity - total[s]
            if not placed[w] and least[w] <= room:
                continue
            found = -1
            for q in range(member_pointer[s], member_pointer[s + 1]):
                j = member[q]
                if not placed[j] and least[j] <= room:
                    found = j
                    if least[j] >= offset:
                        break
            if found < 0:
                good = False
                break
            trail[trail_top, 0] = n + s
            trail[trail_top, 1] = w
            trail_top += 1
            witness[s] = found
        if not good:
            _undo(
                mark,
                trail_top,
                n,
                sections,
                trail,
                least,
                witness,
                placed,
                barred,
                total,
                spans,
                ranges,
                rects,
                size,
            )
            trail_top = mark
            continue
        begin = frames[depth, BEGIN]
        end = frames[depth, END]
        if left > 0:
            parts = 1
            for s in range(first[i] + 1, last[i]):
                if spans[s] == 0:
                    parts = 2
            if parts == 1:
                # Go on in the same list.
                for x in range(FRAME_SIZE):
                    frames[depth + 1, x] = frames[depth, x]
                depth += 1
                frames[depth, LAST_OFFSET] = offset
                frames[depth, LEFT] = left
                phase = ENTER
                continue
            # Number the components, and count their buffers.
            parts = 0
            for s in range(begin, end):
                if s > begin and spans[s] == 0:
                    parts += 1
                block[s] = parts
            parts += 1
            for c in range(parts):
                fill[c] = 0
            for p in range(frames[depth, LOW], frames[depth, HIGH]):
                j = pool[p]
                if not placed[j]:
                    fill[block[first[j]]] += 1
            at = pool_top
            and_first = comp_top
            c = -1
            for s in range(begin, end):
                if s == begin or spans[s] == 0:
                    c += 1
                    if fill[c] > 0:
                        comps[comp_top, COMP_LOW] = at
                        at += fill[c]
                        comps[comp_top, COMP_HIGH] = at
                        comps[comp_top, COMP_BEGIN] = s
                        fill[c] = comps[comp_top, COMP_LOW]
                        comp_top += 1
                if comp_top > and_first:
                    comps[comp_top - 1, COMP_END] = s + 1
            for p in range(frames[depth, LOW], frames[depth, HIGH]):
                j = pool[p]
                if not placed[j]:
                    c = block[first[j]]
                    pool[fill[c]] = j
                    fill[c] += 1
                    most = 0
                    for s in range(first[j], last[j]):
                        most = max(most, total[s])
                    peak[j] = most
            for c in range(and_first, comp_top):
                _sort(comps[c, COMP_LOW], comps[c, COMP_HIGH], pool, before, after, peak)
            and_top += 1
            ands[and_top, AND_DEPTH] = depth
            ands[and_top, AND_FIRST] = and_first
            ands[and_top, AND_COUNT] = comp_top - and_first
            ands[and_top, AND_NOW] = -1
        # The next component of the innermost set, if all before are done.
        while and_top >= 0 and ands[and_top, AND_NOW] == ands[and_top, AND_COUNT] - 1:
            comp_top = ands[and_top, AND_FIRST]
            and_top -= 1
        if and_top < 0:
            answer = FOUND
            break
        depth = ands[and_top, AND_DEPTH]
        ands[and_top, AND_NOW] += 1
        c = ands[and_top, AND_FIRST] + ands[and_top, AND_NOW]
        offset = least[pool[candidates[depth * WIDTH + frames[depth, NEXT] - 1, 1]]]
        depth += 1
        frames[depth, LOW] = comps[c, COMP_LOW]
        frames[depth, HIGH] = comps[c, COMP_HIGH]
        frames[depth, BEGIN] = comps[c, COMP_BEGIN]
        frames[depth, END] = comps[c, COMP_END]
        frames[depth, LAST_OFFSET] = offset
        frames[depth, LEFT] = comps[c, COMP_HIGH] - comps[c, COMP_LOW]
        phase = ENTER
    state[PHASE] = phase
    state[DEPTH] = depth
    state[STAMP] = stamp
    state[AND_TOP] = and_top
    state[TRAIL_TOP] = trail_top
    state[COMP_TOP] = comp_top
    state[ATTEMPTS] = attempts
    return answer
