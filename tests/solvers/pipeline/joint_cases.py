"""Questions of layers, stages and schedule together, small enough for exhaustive search."""

from __future__ import annotations

from random import Random

from lowtide.models.derived.layers import Joint, Layer, Retention


def small(seed: int, count: int | None = None) -> Joint:
    """Return a question on two devices that exhaustive search answers."""
    rng = Random(seed)
    split = rng.random() < 0.4
    layers = []
    for k in range(count or rng.choice((2, 3))):
        b, w, x = rng.randint(1, 3), split * rng.randint(0, 2), rng.randint(0, 1)
        stash, again = rng.randint(0, 4), rng.randint(1, 3)
        whole = Retention(
            name="keep",
            backward=b,
            weight=w,
            activation=x + stash,
            kept=rng.randint(0, x + stash) if w else 0,
            buffer=rng.randint(0, 1),
        )
        ways = [whole]
        if stash and rng.random() < 0.8:
            buffer = whole.buffer + stash
            ways.append(
                Retention(name="full", backward=b + w + again, weight=0, activation=x, kept=0, buffer=buffer)
            )
        layers.append(
            Layer(
                name=f"layer {k}",
                forward=rng.randint(1, 3),
                states=rng.randint(0, 2),
                input=x,
                again=again,
                stash=stash,
                ways=tuple(ways),
            )
        )
    memory = rng.randint(5, 14) if rng.random() < 0.9 else None
    return Joint(
        layers=tuple(layers),
        devices=2,
        micro=2 if split else 3,
        memory=memory,
        latency_ns=rng.choice((0, 1, 4)),
    )
