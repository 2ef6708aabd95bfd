"""Training iterations of pipelines: stages on devices, micro-batches that go through them."""

from __future__ import annotations

from dataclasses import replace

from ...models.derived.stages import Stage, pipeline_graph
from ...models.errors import InstanceError
from ...models.graph import Graph

PLACEMENTS = ("interleaved", "v")
"""Of chunks on p devices: stage s on device s mod p, or there and back again."""

NUMBERS = r"\d{1,15}(-\d{1,15})*"
"""One number for all stages, or one for each."""


def stages(*, p: int, m: int, v: int, placement: str, f: str, b: str, w: str, a: str, keep: str) -> Graph:
    """Return the graph of `m` micro-batches on `p` devices with `v` stages each; nothing is random.

    Parameters
    ----------
    f, b, w
        Nanoseconds of F, B and W; w=0 for a B that does both.
    a, keep
        Bytes of activations, and how many of them W needs ("all": of stages with W all of them).
    """
    texts = {"f": f, "b": b, "w": w, "a": a, "keep": keep}
    given = {key: text.split("-") for key, text in texts.items()}
    for key, values in given.items():
        if len(values) not in (1, p * v):
            raise InstanceError(
                f"instance 'gen:stages', option {key}: found {len(values)} numbers, expected 1 or {p * v}"
            )
        if len(values) == 1:
            given[key] = values * (p * v)
    made = []
    for s, (F, B, W, A, K) in enumerate(zip(*given.values(), strict=True)):
        chunk, place = divmod(s, p)
        back = placement == "v" and chunk % 2
        kept = (A if int(W) else "0") if K == "all" else K
        made.append(
            Stage(
                device=p - 1 - place if back else place,
                forward=int(F),
                backward=int(B),
                weight=int(W),
                activation=int(A),
                kept=int(kept),
            )
        )
    return replace(pipeline_graph(made, m), name="")
