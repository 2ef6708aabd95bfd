"""Context parallelism: ranks share each sequence, and gather keys and values before attention.

Each rank has two of the ``2 cp`` chunks of a sequence, the i-th from the front and the i-th from the back, so
that under a causal mask all ranks attend to equally many pairs. Weights and the rest of the layer are as
without it, on fewer tokens. In the backward pass keys and values are gathered again, and their gradients
summed up where the tokens are.

Source: Grattafiori and others, "The Llama 3 herd of models", 2024, section 3.3.2 (context parallelism).
"""

from __future__ import annotations

from collections.abc import Iterable

from .micro_batch import Pass
from .rank import Variable


def of_all_ranks(run: Pass, xs: Iterable[Variable]) -> list[Variable]:
    """Return keys or values of all tokens, of which each rank has a part."""
    return [_gathered(run, x) for x in xs]


def _gathered(run: Pass, x: Variable) -> Variable:
    rank = run.rank
    if run.options.cp == 1:
        return x
    y = rank.gather(x, f"{x.name}.all", rank.context_group)

    def reverse() -> None:
        (d,) = run.gradients([y])
        name = f"{x.name}.all.back"
        rank.scatter(name, d, run.part(x, name), rank.context_group)

    run.record(reverse)
    return y
