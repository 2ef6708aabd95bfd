"""The room of problem `pipeline`."""

from __future__ import annotations

from ...models.problems.pipeline import Pipeline
from ..method import BOUND, OPTIMUM, Export, Method
from ..room import Room

ROOM = Room(
    problem=Pipeline,
    trivial=".pipeline.trivial:one_at_a_time",
    methods=(
        Method(
            "auto",
            ".pipeline.auto:solve_auto",
            "schedules by rule that fit, then CP-SAT",
            proves=OPTIMUM,
            engine="cpsat",
        ),
        Method(
            "cpsat",
            ".pipeline.exact:solve_cpsat",
            "CP-SAT, intervals of ops and of activations, micro-batches in order",
            proves=OPTIMUM,
            engine="cpsat",
            model=Export("pipeline.intervals_cpsat"),
        ),
        Method(
            "gpipe",
            ".pipeline.rules:solve_rule",
            "all forwards, then all backwards",
            proves=BOUND,
            source="Huang and others 2019",
        ),
        Method(
            "1f1b",
            ".pipeline.rules:solve_rule",
            "forwards and backwards in turn, as few micro-batches on a device as keep it going",
            proves=BOUND,
            source="Narayanan and others 2021 (ICML)",
        ),
        Method(
            "interleaved",
            ".pipeline.rules:solve_rule",
            "1F1B of several stages on each device, round after round",
            proves=BOUND,
            source="Narayanan and others 2021 (SC)",
        ),
        Method(
            "zb",
            ".pipeline.rules:solve_rule",
            "zero-bubble orders from ZB-H1 to ZB-H2, for the activations that fit",
            proves=BOUND,
            source="Qi and others 2024 (ICLR)",
        ),
        Method(
            "zb-h1",
            ".pipeline.rules:solve_rule",
            "W put off to fill gaps, p activations on each device",
            proves=BOUND,
            source="Qi and others 2024 (ICLR)",
        ),
        Method(
            "zb-h2",
            ".pipeline.rules:solve_rule",
            "as zb-h1, 2 p - 1 activations on each device, no gaps where F, B and W take equally long",
            proves=BOUND,
            source="Qi and others 2024 (ICLR)",
        ),
        *(
            Method(
                name,
                ".pipeline.rules:solve_rule",
                f"stages there and back, {most} of the activations of 1f1b; the squeezing is our own",
                proves=BOUND,
                source="Qi and others 2024 (NeurIPS)",
            )
            for name, most in (("v-min", "a third"), ("v-half", "half"), ("v-zb", "all"))
        ),
        Method(
            "list",
            ".pipeline.rules:solve_rule",
            "list schedules within the memory: an F starts if what is under way can still end",
            proves=BOUND,
        ),
    ),
    joint=True,
    bound=".pipeline.rules:raise_first_bound",
)
