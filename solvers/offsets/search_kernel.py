"""Compiled kernels of the branch and bound in `search`: the rules, and why they are right, are said there.

Everything lives in flat arrays, so that a call can return at any attempt and the next one goes on.

Whatever is raised, placed, barred or moved is noted on a trail, and taken back from it. A list of buffers is
a range of the pool. A choice point is a row of `frames`, a set of independent components a row of `ands`,
each of them a row of `comps`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...models.arrays import Integers
from ..engines.arrays import Rows
from ..engines.kernels import inner, kernel_in_place
from .component_kernel import BEGIN, END, HIGH, LOW, greatest, part

# Scalars of a run, in `state`.
PHASE, DEPTH, AND_TOP, TRAIL_TOP, COMP_TOP, ATTEMPTS, LIMIT, CAPACITY, STAMP = range(9)
STATE_SIZE = 9
"""Entries of `state`, which the line above names."""
ENTER, TRY, FAIL = range(3)  # phases
FOUND, EXHAUSTED, AT_LIMIT, NEEDS_TRAIL, NEEDS_POOL = range(5)  # what a call returns
# A choice point begins as a component does: its list, its sections. Then: offset of the last placement,
# unplaced buffers, its candidates, the next one, whether there are no others, where the trail stood.
LAST_OFFSET, LEFT, COUNT, NEXT, COMPLETE, UNDO = range(4, 10)
FRAME_SIZE = 10
"""Entries of a choice point: four of a component, and the six above."""
# A set of components: depth of the placement that parted them, their rows, the next one. A component has the
# first four fields of a choice point.
AND_DEPTH, AND_FIRST, AND_END, AND_NEXT = range(4)
WIDTH = 16
"""Candidates (offset, place in the pool) kept per choice point; when used up, the next are looked for."""
NONE = 2**62
"""Above every offset in units: there is no such candidate."""


@inner
def _note(trail, top, what, value):  # type: ignore[no-untyped-def]
    trail[top, 0] = what
    trail[top, 1] = value
    return top + 1


@inner
def _undo(mark, top, buffers, rects, places, sums, trail):  # type: ignore[no-untyped-def]
    """Take back everything that is on the trail above `mark`; return `mark`."""
    size, _alignment, _fixed, _kind, first, last = buffers
    rect_pointer, rect_first, rect_last = rects
    least, placed, barred, _stamped, _lift, _peak = places
    total, spans, support, _block, _fill = sums
    n, sections = len(size), len(total)
    while top > mark:
        top -= 1
        what = trail[top, 0]
        if what < n:
            least[what] = trail[top, 1]
        elif what < 2 * n:
            barred[what - n] = trail[top, 1]
        elif what < 2 * n + sections:
            support[what - 2 * n] = trail[top, 1]
        else:
            i = trail[top, 1]
            placed[i] = 0
            for r in range(rect_pointer[i], rect_pointer[i + 1]):
                for s in range(rect_first[r], rect_last[r]):
                    total[s] += size[i]
            for s in range(first[i] + 1, last[i]):
                spans[s] += 1
    return mark


@inner
def _lifted(i, offset, buffers, near, places, stamp):  # type: ignore[no-untyped-def]
    """Return a bound on the offset of a buffer that cannot be placed at its least offset any more."""
    size, fixed = buffers[0], buffers[2]
    least, placed, _barred, stamped, lift, _peak = places
    pointer, neighbours = near
    if stamped[i] != stamp:
        stamped[i] = stamp
        lift[i] = NONE
        top = least[i] + size[i]
        for q in range(pointer[i], pointer[i + 1] if fixed[i] < 0 else pointer[i]):
            j = neighbours[q]
            at = max(least[j], offset)
            if not placed[j] and at < top:
                lift[i] = min(lift[i], at + size[j])
    return lift[i]


@inner
def _supported(frame, buffers, near, members, places, sums, trail, top, capacity, stamp):  # type: ignore[no-untyped-def]
    """Find a support for each section now that the last offset has grown; return the trail's top, or -1."""
    pointer, member = members
    least, placed, barred, _stamped, _lift, _peak = places
    total, _spans, support, _block, _fill = sums
    offset = frame[LAST_OFFSET]
    for s in range(frame[BEGIN], frame[END]):
        w = support[s]
        if total[s] == 0 or (least[w] >= offset and least[w] > barred[w]):
            continue
        room = capacity - total[s]
        if _lifted(w, offset, buffers, near, places, stamp) <= room:
            continue
        w = -1
        for closed in (False, True):  # first those that can be placed at their least offset
            for q in range(pointer[s], pointer[s + 1] if w < 0 else pointer[s]):
                j = member[q]
                if placed[j] or closed == (least[j] >= offset and least[j] > barred[j]):
                    continue
                at = _lifted(j, offset, buffers, near, places, stamp) if closed else least[j]
                if at <= room:
                    w = j
                    break
        if w < 0:
            return -1
        top = _note(trail, top, 2 * len(least) + s, support[s])
        support[s] = w
    return top


@inner
def _collect(frame, base, buffers, places, total, pool, candidates, capacity):  # type: ignore[no-untyped-def]
    """List the first candidates of a choice point."""
    size, _alignment, fixed, _kind, _first, _last = buffers
    least, placed, barred, _stamped, _lift, _peak = places
    offset = frame[LAST_OFFSET]
    bound = capacity - greatest(total, frame[BEGIN], frame[END])  # no candidate above it
    dominated = NONE  # no candidate at or above it
    count = 0
    complete = 1
    for p in range(frame[LOW], frame[HIGH]):
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
        k = base + count
        if count == WIDTH:
            complete = 0
            k -= 1
            if candidates[k, 0] <= at:
                continue
        else:
            count += 1
        while k > base and candidates[k - 1, 0] > at:
            candidates[k, 0] = candidates[k - 1, 0]
            candidates[k, 1] = candidates[k - 1, 1]
            k -= 1
        candidates[k, 0] = at
        candidates[k, 1] = p
    while count:
        at = candidates[base + count - 1, 0]
        if at <= bound and at < dominated:
            break
        count -= 1
        complete = 1
    frame[COUNT] = count
    frame[NEXT] = 0
    frame[COMPLETE] = complete


@inner
def _place(i, buffers, rects, near, members, places, sums, trail, top, capacity):  # type: ignore[no-untyped-def]
    """Place a buffer at its least offset; return the trail's top, -1 if refuted, and whether it is alone."""
    size, alignment, fixed, _kind, first, last = buffers
    rect_pointer, rect_first, rect_last = rects
    near_pointer, neighbours = near
    member_pointer, member = members
    least, placed = places[:2]
    total, spans, support, _block, _fill = sums
    n, sections = len(size), len(total)
    mark = top
    offset = least[i]
    end = offset + size[i]
    low, high = first[i], last[i]
    placed[i] = 1
    top = _note(trail, top, 2 * n + sections, i)
    for r in range(rect_pointer[i], rect_pointer[i + 1]):
        for s in range(rect_first[r], rect_last[r]):
            total[s] -= size[i]
    for s in range(low + 1, high):
        spans[s] -= 1
    alone = good = True
    for q in range(near_pointer[i], near_pointer[i + 1]):
        j = neighbours[q]
        if placed[j]:
            continue
        alone = False
        if least[j] < end:
            at = end if alignment[j] == 1 else -(-end // alignment[j]) * alignment[j]
            if fixed[j] >= 0 or at + size[j] > capacity:
                good = False
                break
            top = _note(trail, top, j, least[j])
            least[j] = at
            low = min(low, first[j])
            high = max(high, last[j])
    for s in range(low, high if good else low):
        w = support[s]
        room = capacity - total[s]
        if total[s] == 0 or (not placed[w] and least[w] <= room):
            continue
        w = -1
        for q in range(member_pointer[s], member_pointer[s + 1]):
            j = member[q]
            if not placed[j] and least[j] <= room:
                w = j
                if least[j] >= offset:
                    break
        if w < 0:
            good = False
            break
        top = _note(trail, top, 2 * n + s, support[s])
        support[s] = w
    if not good:
        _undo(mark, top, buffers, rects, places, sums, trail)
    return top if good else -1, alone


Lists = tuple[Integers, NDArray[np.int32]]
"""Some list for each buffer: where it begins, and what is in it."""


@kernel_in_place
def advance(
    buffers: tuple[Integers, Integers, Integers, Integers, Integers, Integers],
    rects: tuple[Integers, Integers, Integers],
    near: Lists,
    members: Lists,
    ranks: tuple[Integers, Integers],
    state: Integers,
    places: tuple[Integers, Integers, Integers, Integers, Integers, Integers],
    sums: tuple[Integers, Integers, Integers, Integers, Integers],
    pool: NDArray[np.int32],
    stacks: tuple[Rows, Rows, Rows, Rows, Rows],
) -> int:
    """Go on with a run until it ends, has used up its attempts, or needs longer arrays."""
    kind, first, last = buffers[3:]
    least, barred = places[0], places[2]
    total, spans = sums[:2]
    trail, frames, ands, comps, candidates = stacks
    n, sections = len(kind), len(total)
    capacity, limit = state[CAPACITY], state[LIMIT]
    phase, depth, attempts, stamp = state[PHASE], state[DEPTH], state[ATTEMPTS], state[STAMP]
    trail_top, and_top, comp_top = state[TRAIL_TOP], state[AND_TOP], state[COMP_TOP]
    while True:
        base = depth * WIDTH
        frame = frames[depth]
        if phase == ENTER:
            stamp += 1
            top = _supported(frame, buffers, near, members, places, sums, trail, trail_top, capacity, stamp)
            if top < 0:
                phase = FAIL
            else:
                trail_top = top
                _collect(frame, base, buffers, places, total, pool, candidates, capacity)
                frame[UNDO] = trail_top
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
            base = depth * WIDTH
            frame = frames[depth]
            trail_top = _undo(frame[UNDO], trail_top, buffers, rects, places, sums, trail)
            phase = TRY
        k = frame[NEXT]
        if k == frame[COUNT] and frame[COMPLETE]:
            phase = FAIL
            continue
        # Leave here if what follows may not fit or is one attempt too many: nothing has changed yet.
        if attempts >= limit:
            answer = AT_LIMIT
            break
        if trail_top + 2 * sections + n + 2 > len(trail):
            answer = NEEDS_TRAIL
            break
        left = frame[LEFT] - 1
        pool_top = frame[HIGH]
        if and_top >= 0:
            pool_top = max(pool_top, comps[ands[and_top, AND_END] - 1, HIGH])
        if pool_top + left > len(pool) or comp_top + left > len(comps):
            answer = NEEDS_POOL
            break
        i = pool[candidates[base + k, 1]] if k < frame[COUNT] else -1
        if k > 0 and (i < 0 or candidates[base + k - 1, 0] == least[i]):
            # In all that follows, the sibling before does not lie where it was tried.
            j = pool[candidates[base + k - 1, 1]]
            trail_top = _note(trail, trail_top, n + j, barred[j])
            barred[j] = least[j]
            frame[UNDO] = trail_top
            if i < 0:
                frame[LAST_OFFSET] = least[j]
                phase = ENTER
                continue
            if kind[i] == kind[j]:
                frame[NEXT] = k + 1
                continue
        frame[NEXT] = k + 1
        attempts += 1
        offset = least[i]
        top, alone = _place(i, buffers, rects, near, members, places, sums, trail, trail_top, capacity)
        if alone or buffers[2][i] >= 0:  # no sibling can do better
            frame[COUNT] = k + 1
            frame[COMPLETE] = 1
        if top < 0:
            continue
        trail_top = top
        if left > 0:
            whole = True
            for s in range(first[i] + 1, last[i]):
                whole = whole and spans[s] > 0
            if whole:
                depth += 1
                for x in range(FRAME_SIZE):
                    frames[depth, x] = frame[x]
                frames[depth, LAST_OFFSET] = offset
                frames[depth, LEFT] = left
                phase = ENTER
                continue
            top = part(frame, buffers, ranks, places, sums, pool, pool_top, comps, comp_top)
            and_top += 1
            ands[and_top, AND_DEPTH] = depth
            ands[and_top, AND_FIRST] = ands[and_top, AND_NEXT] = comp_top
            ands[and_top, AND_END] = comp_top = top
        # The next component of the innermost set; sets that are done go.
        while and_top >= 0 and ands[and_top, AND_NEXT] == ands[and_top, AND_END]:
            comp_top = ands[and_top, AND_FIRST]
            and_top -= 1
        if and_top < 0:
            answer = FOUND
            break
        comp = comps[ands[and_top, AND_NEXT]]
        ands[and_top, AND_NEXT] += 1
        depth = ands[and_top, AND_DEPTH]
        parting = pool[candidates[depth * WIDTH + frames[depth, NEXT] - 1, 1]]
        depth += 1
        for x in range(4):
            frames[depth, x] = comp[x]
        frames[depth, LAST_OFFSET] = least[parting]
        frames[depth, LEFT] = comp[HIGH] - comp[LOW]
        phase = ENTER
    state[PHASE], state[DEPTH], state[ATTEMPTS], state[STAMP] = phase, depth, attempts, stamp
    state[TRAIL_TOP], state[AND_TOP], state[COMP_TOP] = trail_top, and_top, comp_top
    return answer


@kernel_in_place
def list_members(
    owner: Integers,
    first: Integers,
    last: Integers,
    least: Integers,
    at: Integers,
    member: NDArray[np.int32],
    witness: Integers,
) -> None:
    """Enter rectangles in the list of each of their sections, from ``at[section]`` on, which moves on."""
    for r in range(len(owner)):
        i = owner[r]
        for s in range(first[r], last[r]):
            member[at[s]] = i
            at[s] += 1
            if witness[s] < 0 or least[i] < least[witness[s]]:
                witness[s] = i
