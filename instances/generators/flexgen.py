"""Inference of an OPT model in FlexGen's zig-zag block schedule, for placement on GPU, host and disk.

A block of batches passes a layer before the next layer begins: first with the whole prompts (prefill, step
0), then once for each further token (decode). The op of a step, layer and batch reads the layer's weights,
the batch's hidden states, and its keys and values in this layer, one tensor for the prompt and one for each
token so far; it writes new hidden states, behind the last layer those of the last token only, and the keys
and values of its own tokens if a later step reads them.

Durations and workspaces are those of FlexGen's cost model (`lowtide.formulations.estimates.flexgen`, rows 3
to 5) with all attention on the GPU. Step i attends to s + i tokens, FlexGen on average to s + n / 2: the sums
over all steps are equal.

Source: Sheng et al., "FlexGen: high-throughput generative inference of large language models with a single
GPU", ICML 2023, section 4.2.
"""

from __future__ import annotations

from math import ceil

from ...models.graph import Graph
from ...models.graph_builder import GraphBuilder
from ...models.opt import ATTENTION, OPT, PRODUCTS
from ...models.units import SECOND


def flexgen(
    *, model: str, layers: int, prompt: int, new: int, batch: int, batches: int, prefill: bool
) -> Graph:
    """Return the ops of all steps.

    Parameters
    ----------
    model, layers
        A name in `OPT`, and how many of its layers; 0: all.
    prompt, new
        Tokens of each prompt, and generated after it: one for each step.
    batch, batches
        Sequences of a batch; batches of the block.
    prefill
        Whether the prompts are read; if not, their keys and values exist before step 1.
    """
    opt, net = OPT[model], GraphBuilder()
    layers = layers or opt.layers
    weights = [net.tensor(f"w{j}", opt.weights, kind="weight", final=True) for j in range(layers)]
    tokens = prompt if prefill else 1
    hidden = [net.tensor(f"x{k}", batch * tokens * opt.state, kind="input") for k in range(batches)]
    caches: dict[tuple[int, int], list[str]] = {(j, k): [] for j in range(layers) for k in range(batches)}
    if not prefill:
        for (j, k), parts in caches.items():
            parts.append(net.tensor(f"c0.{j}.{k}", batch * prompt * opt.cache, kind="state"))
    for i in range(0 if prefill else 1, new):
        phase, tokens, context = ("decode", 1, prompt + i) if i else ("prefill", prompt, prompt)
        seconds = tokens * (opt.products / PRODUCTS[phase] + opt.attention(context) / ATTENTION[phase])
        work = tokens * (13 * opt.state + 2 * opt.heads * context) + (2 * context * opt.cache if i else 0)
        for (j, k), parts in caches.items():
            last = j + 1 == layers
            out = net.tensor(
                f"h{i}.{j}.{k}",
                batch * (1 if last else tokens) * opt.state,
                kind="output" if last and i + 1 == new else "activation",
                final=last and i + 1 == new,
            )
            read = [weights[j], hidden[k], *parts]
            if i + 1 < new:
                parts.append(
                    net.tensor(f"c{i}.{j}.{k}", batch * tokens * opt.cache, kind="state", initial=False)
                )
            net.op(
                f"s{i}.l{j}.b{k}",
                kind=phase,
                reads=read,
                writes=[out, *parts[len(read) - 2 :]],
                duration=ceil(batch * seconds * SECOND),
                workspace=batch * work,
            )
            hidden[k] = out
    return net.build()
