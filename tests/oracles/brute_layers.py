"""Layers with options by exhaustive search: which forwards run when, in which options."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from random import Random

from lowtide.formulations.recompute.layers_milp import LayerOption, LayerPair, Layers

Run = tuple[str, int, int | None]
""""forward" or "back", layer, option; a forward without option sweeps."""


def random_layers(rng: Random) -> Layers:
    """Return one or two layers about a middle, with values between them; some hold what is final."""
    n = rng.randint(1, 2)
    sizes, leaves, reads = (
        dict[int, int](),
        [set[int]() for _ in range(n + 1)],
        [set[int]() for _ in range(n + 1)],
    )
    needs = [set[int]() for _ in range(n)]
    for j in range(n):
        for ahead in range(j + 1, n + 1):
            u = len(sizes)
            sizes[u] = rng.randint(1, 4)
            leaves[j].add(u)
            reads[ahead].add(u)
            for k in range(n):
                if rng.random() < 0.4:
                    needs[k].add(u)
    layers = []
    for j in range(n + 1):
        options = [
            LayerOption(
                forward=3,
                backward=rng.randint(2, 6) if j < n else 0,
                saved=(saved := rng.randint(0, 5) if j < n else 0),
                before=max(saved, rng.randint(1, 4)),
                after=rng.randint(1, 4),
                needs=frozenset(u for u in (needs[j] if j < n else ()) if rng.random() < 0.7),
            )
            for _ in range(2)
        ]
        layers.append(
            LayerPair(
                options=tuple(options),
                first=3 if j < n else 0,
                again=2,
                until=n if j == n else rng.choice((0, 0, 0, 1, n)),
                sweep=rng.randint(1, 3),
                reads=frozenset(reads[j]),
                leaves=frozenset(leaves[j]),
                beside=rng.randint(0, 1),  # what the place before counts within it
                through=rng.randint(0, 2),
            )
        )
    final = frozenset(u for u in sizes if rng.random() < 0.15)
    return Layers(layers=tuple(layers), sizes=sizes, final=final, memory=rng.randint(6, 16))


def fastest(data: Layers) -> int | None:
    """Return the least ticks of all sequences that fit, None if none does."""
    times = [ticks for runs in sequences(data) if (ticks := judged(data, runs)) is not None]
    return min(times, default=None)


def sequences(data: Layers) -> Iterator[list[list[Run]]]:
    """Yield what runs in the first pass, and then in each pass until its backward: every choice."""
    middle = len(data.layers) - 1
    ways: list[list[tuple[int, int]]] = []  # by layer: option, and pass of its forward
    for j, layer in enumerate(data.layers):
        turns = {middle, *range(max(j, layer.until), middle)}
        ways.append([(o, k) for o in range(len(layer.options)) for k in sorted(turns)])
    for choice in product(*ways):
        free = [
            (k, j)
            for k in reversed(range(middle))
            for j in range(middle)
            if data.layers[j].until <= k and choice[j][1] != k
        ]
        for swept in product((False, True), repeat=len(free)):
            also = {pair for pair, yes in zip(free, swept, strict=True) if yes}
            passes: list[list[Run]] = [
                [("forward", j, o if k == middle else None) for j, (o, k) in enumerate(choice)]
            ]
            for k in reversed(range(middle)):
                again: list[Run] = []
                for j in range(middle):
                    if choice[j][1] == k:
                        again.append(("forward", j, choice[j][0]))
                    elif (k, j) in also:
                        again.append(("forward", j, None))
                passes.append([*again, ("back", k, choice[k][0])])
            yield passes


def judged(data: Layers, passes: list[list[Run]]) -> int | None:
    """Return the ticks of a sequence that fits, None of another one; values go as early as they can."""
    middle = len(data.layers) - 1
    flat = [(middle - at, run) for at, some in enumerate(passes) for run in some]
    needed, during = set(data.final), list[set[int]]()
    for _, (kind, j, o) in reversed(flat):
        layer = data.layers[j]
        leaves = layer.leaves if kind == "forward" else frozenset()
        reads = layer.reads if kind == "forward" else layer.options[o or 0].needs
        needed = (needed - leaves) | reads
        during.append(needed | leaves)
    if needed:
        return None
    there, saved, ticks = set[int](), dict[int, int](), 0
    for (turn, (kind, j, o)), values in zip(flat, reversed(during), strict=True):
        layer, is_first = data.layers[j], turn == middle
        # What is final stays from when it was left first.
        held = sum(data.sizes[u] for u in values | there)
        held += sum(units for k, units in saved.items() if (kind, k) != ("back", j))
        if kind == "back":
            option = layer.options[o or 0]
            held += option.after + layer.through
            ticks += option.backward
            saved.pop(j)
        elif o is None:
            held += layer.sweep + (0 if is_first else data.layers[turn].beside)
            ticks += layer.first if is_first else layer.again
        else:
            option = layer.options[o]
            held += option.before + (0 if is_first else data.layers[turn].beside)
            ticks += option.forward
            if j < middle:
                saved[j] = option.saved
        if kind == "forward":
            there |= layer.leaves & data.final
        if held > data.memory:
            return None
    return ticks
