"""The least height of small graphs by every order and every address, straight from the definitions.

Nothing here is shared with the package but the raw fields of the graph.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations, count
from random import Random

from lowtide.models.graph import Accounting, Graph, Op, Tensor
from tests.oracles.brute_force import topological_orders

Piece = tuple[str, int, int, int]
"""Name, first slot (-1: before the first op), slot behind the last, bytes."""


def least_sum(graph: Graph, alignment: int, pools: Sequence[Sequence[str]]) -> int:
    """Return the least sum of heights over all orders and addresses; of each pool but the first its kinds."""
    known: dict[frozenset[Piece], int] = {}

    def pool_of(piece: Piece) -> int:
        number = int(piece[0][1:])
        kind = "workspace" if piece[0][0] == "w" else graph.tensors[number].kind
        return next((k for k, kinds in enumerate(pools, 1) if kind in kinds), 0)

    best: int | None = None
    for order in topological_orders(graph):
        pieces, partners = pieces_of(graph, order)
        total = 0
        for pool in range(len(pools) + 1):
            some = [piece for piece in pieces if pool_of(piece) == pool]
            names = {piece[0] for piece in some}
            pairs = {pair for pair in partners if names >= {*pair}}
            key = frozenset(some) | {(a + b, 0, 0, 0) for a, b in pairs}
            if key not in known:
                least = max((size for *_, size in some), default=0)
                known[key] = next(h for h in count(least) if _fits(some, pairs, alignment, h))
            total += known[key]
        best = total if best is None else min(best, total)
    assert best is not None
    return best


def least_height(graph: Graph, alignment: int = 1) -> int:
    """Return the least height over all orders and addresses (ops of one mode)."""
    different = {}
    for order in topological_orders(graph):
        pieces, partners = pieces_of(graph, order)
        peak = max(sum(p[3] for p in pieces if p[1] <= k < p[2]) for k in range(-1, len(order)))
        different[frozenset(pieces), frozenset(partners)] = peak, pieces, partners
    best: int | None = None
    for _, pieces, partners in sorted(different.values(), key=lambda case: case[0]):
        if best is None:  # the first height from below that suffices
            least = max((size for *_, size in pieces), default=0)
            best = next(height for height in count(least) if _fits(pieces, partners, alignment, height))
        while best > 0 and _fits(pieces, partners, alignment, best - 1):
            best -= 1
    assert best is not None
    return best


def pieces_of(graph: Graph, order: Sequence[int]) -> tuple[list[Piece], set[tuple[str, str]]]:
    """Return what has bytes before or while ops run in an order, and who may share an address."""
    slots = max(1, len(order))
    found: list[Piece] = []
    life: dict[int, tuple[int, int]] = {}
    for t, tensor in enumerate(graph.tensors):
        used = [k for k, i in enumerate(order) if t in {*graph.ops[i].reads, *graph.ops[i].writes}]
        if not tensor.nbytes or not (used or (tensor.initial and tensor.final)):
            continue
        first = -1 if tensor.initial else used[0]
        behind = slots if tensor.final else used[-1] + 1
        if graph.accounting is Accounting.REPLACE and not tensor.final:
            behind -= t not in graph.ops[order[used[-1]]].writes
        life[t] = first, behind
        found.append((f"t{t}", first, behind, tensor.nbytes))
    for k, i in enumerate(order):
        (mode,) = graph.ops[i].all_modes
        if mode.workspace:
            found.append((f"w{i}", k, k + 1, mode.workspace))
    partners = set()
    for k, i in enumerate(order):
        for r, w in graph.ops[i].inplace:
            uses = [j for j, v in enumerate(order) if r in {*graph.ops[v].reads, *graph.ops[v].writes}]
            dies = r in life and life[r][1] == k + 1 == uses[-1] + 1 and not graph.tensors[r].final
            made = w in life and life[w][0] == k and not graph.tensors[w].initial
            if dies and made and r not in graph.ops[i].writes:
                partners.add((f"t{r}", f"t{w}"))
    return found, partners


def _fits(pieces: list[Piece], partners: set[tuple[str, str]], alignment: int, height: int) -> bool:
    """Return whether all pieces have addresses with which none ends above the height.

    Whoever shares an address is one block that falls as a whole. Falling as far as they can, blocks rest on
    others or on the ground, so that stacking them from below, lowest first, gives every height.
    """
    pairs = sorted(partners)
    for many in range(len(pairs) + 1):
        for chosen in combinations(pairs, many):
            blocks = _blocks(pieces, chosen)
            if blocks is not None and _stacks(blocks, alignment, height):
                return True
    return False


def _blocks(pieces: list[Piece], chosen: Sequence[tuple[str, str]]) -> list[dict[int, int]] | None:
    """Return the bytes by slot of what lies at one address; None if more than two share at once."""
    of = {name: name for name, *_ in pieces}
    for a, b in chosen:
        of = {name: of[a] if root == of[b] else root for name, root in of.items()}
    blocks: dict[str, dict[int, int]] = {}
    for name, first, behind, size in pieces:
        block = blocks.setdefault(of[name], {})
        for slot in range(first, behind):
            block[slot] = max(block.get(slot, 0), size)
    there = Counter((of[name], slot) for name, a, b, _ in pieces for slot in range(a, b))
    shared = sum(many - 1 for many in there.values())
    return list(blocks.values()) if shared == len(chosen) and max(there.values(), default=0) <= 2 else None


def _stacks(blocks: list[dict[int, int]], alignment: int, height: int) -> bool:
    slots = sorted({slot for block in blocks for slot in block})
    seen = set()

    def up(size: int) -> int:
        return -(-size // alignment) * alignment

    def needed(left: frozenset[int], slot: int, top: int) -> int:
        sizes = [blocks[k][slot] for k in left if slot in blocks[k]]
        return up(top) + sum(map(up, sizes)) - max(up(x) - x for x in sizes) if sizes else top

    def stack(left: frozenset[int], tops: tuple[int, ...], last: int) -> bool:
        if not left:
            return True
        top = dict(zip(slots, tops, strict=True))
        if (left, tops, last) in seen or any(needed(left, slot, top[slot]) > height for slot in slots):
            return False
        seen.add((left, tops, last))
        for k in sorted(left):
            rest = max(top[slot] for slot in blocks[k])
            at = up(rest)
            new = {**top, **{slot: at + size for slot, size in blocks[k].items()}}
            if at < last or max(new.values()) > height:
                continue
            if stack(left - {k}, tuple(new[slot] for slot in slots), at):
                return True
        return False

    return stack(frozenset(range(len(blocks))), (0,) * len(slots), 0)


def arena_graph(rng: Random, *, most: int = 7) -> Graph:
    """Return a graph of values with few readers, workspaces, and often many in-place pairs."""
    n = rng.randint(1, most)
    largest = rng.choice((2, 4, 7))
    tensors = [
        Tensor(name=f"x{t}", nbytes=rng.randint(0, largest), initial=True, final=rng.random() < 0.2)
        for t in range(rng.randint(0, 2))
    ]
    pairing, width = rng.choice((0, 0, 0.4, 0.9)), rng.choice((2, 3, 9))
    ops = []
    for i in range(n):
        recent = range(max(0, len(tensors) - width), len(tensors))
        reads = [t for t in recent if rng.random() < 0.4]
        writes = []
        for _ in range(rng.choice((0, 1, 1, 1, 2))):
            size = (
                tensors[rng.choice(reads)].nbytes if reads and rng.random() < 0.5 else rng.randint(1, largest)
            )
            writes.append(len(tensors))
            tensors.append(Tensor(name=f"y{len(tensors)}", nbytes=size, final=rng.random() < 0.15))
        pairs = tuple((r, w) for r in reads for w in writes if rng.random() < pairing)
        if reads and rng.random() < 0.15:
            again = rng.choice(reads)
            writes.append(again)
            if pairs:  # written before: nothing is made in place
                pairs += tuple((r, again) for r in reads if r != again)
        workspace = rng.choice((0, 0, 0, rng.randint(1, largest)))
        ops.append(
            Op(name=f"op{i}", reads=tuple(reads), writes=tuple(writes), inplace=pairs, workspace=workspace)
        )
    accounting = rng.choice((Accounting.COEXIST, Accounting.COEXIST, Accounting.REPLACE))
    return Graph(name="arena", tensors=tuple(tensors), ops=tuple(ops), accounting=accounting)


def arena_cases(seeds: range) -> Iterator[tuple[Graph, int]]:
    """Yield a graph and an alignment for each seed."""
    for seed in seeds:
        rng = Random(seed)
        graph = arena_graph(rng)
        while sum(t.nbytes > 0 for t in graph.tensors) + sum(op.workspace > 0 for op in graph.ops) > 9:
            graph = arena_graph(rng)
        yield graph, rng.choice((1, 1, 2, 3, 4))


def pool_cases(seeds: range) -> Iterator[tuple[Graph, int, str]]:
    """Yield a graph with tensors of several kinds, an alignment and pools for each seed."""
    kinds = ("activation", "gradient", "weight")
    pools = ("weight", "weight/gradient", "weight+workspace", "workspace/gradient+weight")
    for seed, (graph, alignment) in zip(seeds, arena_cases(seeds), strict=True):
        rng = Random(seed)
        tensors = tuple(replace(t, kind=rng.choice(kinds)) for t in graph.tensors)
        yield replace(graph, tensors=tensors), alignment, rng.choice(pools)
