"""Language and image models of today: the numbers that give every weight its size.

Sources: Llama-3 and DeepSeek-V3 are those of torchtitan's configurations (`torchtitan/models`); Mixtral,
DeepSeek-V2-Lite, Qwen3 and gpt-oss those of the ``config.json`` beside the published weights, from memory;
FLUX.1 that of Black Forest Labs' ``flux/util.py``; DiT that of Peebles and Xie, "Scalable diffusion models
with transformers", ICCV 2023, and its public code, from memory. Tests compare the numbers of parameters that
follow with published ones. Left out: DeepSeek-V3's layer that predicts a second token, and the 256 numbers of
each layer that balance its experts; DiT's fixed table of positions.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class LatentAttention:
    """Multi-head latent attention (DeepSeek): keys and values are made of one short vector for each token.

    Attributes
    ----------
    query
        Width of the vector that queries are made of; 0: of the hidden state itself.
    memory
        Width of the vector that keys and values are made of.
    nope, rope, value
        Of each head: numbers of a key without and with position, and of a value.
    """

    query: int
    memory: int
    nope: int
    rope: int
    value: int


@dataclass(frozen=True, kw_only=True)
class LanguageModel:
    """A decoder with rotary positions, RMS normalization and gated feed-forward layers.

    Attributes
    ----------
    layers, width, heads, groups, head
        Layers; numbers of a token between them; heads of queries; heads of keys and values; numbers of each.
    ffn, vocab, tied
        Inner width of a dense feed-forward layer; tokens; whether embedding and head are one table.
    experts, top, expert, shared, dense
        Experts of a layer, 0 for none; how many a token uses; inner width of one; how many every token uses
        besides; the first layers, which have none.
    latent
        None: keys and values of heads.
    normed
        Whether each head's queries and keys are normalized.
    biased
        Whether attention, router and experts have biases, and each head a sink (gpt-oss).
    window
        Tokens that every other layer attends to, from the first one on; 0: all.
    """

    layers: int
    width: int
    heads: int
    groups: int
    vocab: int
    head: int = 128
    ffn: int = 0
    tied: bool = False
    experts: int = 0
    top: int = 0
    expert: int = 0
    shared: int = 0
    dense: int = 0
    latent: LatentAttention | None = None
    normed: bool = False
    biased: bool = False
    window: int = 0


@dataclass(frozen=True, kw_only=True)
class ImageModel:
    """A transformer that removes noise from an image, conditioned by adaptive normalization.

    Attributes
    ----------
    width, heads
        Numbers of a token between layers; heads of attention.
    plain, double, single
        Layers of DiT; of FLUX with weights for text and image apart; of FLUX with attention beside the
        feed-forward layer.
    patch, outputs, text, context
        Numbers of an image token outside, read and written; text tokens, and their numbers.
    conditions
        Tables and vectors that give the condition: numbers of each before its two linear layers.
    classes
        Rows of the table of classes; 0: no table.
    tokens
        Image tokens unless ``seq`` says otherwise.
    """

    width: int
    heads: int
    plain: int = 0
    double: int = 0
    single: int = 0
    patch: int
    outputs: int
    text: int = 0
    context: int = 0
    conditions: tuple[tuple[str, int], ...]
    classes: int = 0
    tokens: int


LANGUAGE: dict[str, LanguageModel] = {
    "llama-3.2-1b": LanguageModel(
        layers=16, width=2048, heads=32, groups=8, head=64, ffn=8192, vocab=128_256, tied=True
    ),
    "llama-3.2-3b": LanguageModel(
        layers=28, width=3072, heads=24, groups=8, ffn=8192, vocab=128_256, tied=True
    ),
    "llama-3-8b": LanguageModel(layers=32, width=4096, heads=32, groups=8, ffn=14_336, vocab=128_256),
    "llama-3-70b": LanguageModel(layers=80, width=8192, heads=64, groups=8, ffn=28_672, vocab=128_256),
    "llama-3.1-405b": LanguageModel(layers=126, width=16_384, heads=128, groups=8, ffn=53_248, vocab=128_256),
    "mixtral-8x7b": LanguageModel(
        layers=32, width=4096, heads=32, groups=8, vocab=32_000, experts=8, top=2, expert=14_336
    ),
    "deepseek-v3": LanguageModel(
        layers=61,
        width=7168,
        heads=128,
        groups=128,
        ffn=18_432,
        vocab=129_280,
        experts=256,
        top=8,
        expert=2048,
        shared=1,
        dense=3,
        latent=LatentAttention(query=1536, memory=512, nope=128, rope=64, value=128),
    ),
    "deepseek-v2-lite": LanguageModel(
        layers=27,
        width=2048,
        heads=16,
        groups=16,
        ffn=10_944,
        vocab=102_400,
        experts=64,
        top=6,
        expert=1408,
        shared=2,
        dense=1,
        latent=LatentAttention(query=0, memory=512, nope=128, rope=64, value=128),
    ),
    "qwen3-30b-a3b": LanguageModel(
        layers=48,
        width=2048,
        heads=32,
        groups=4,
        vocab=151_936,
        experts=128,
        top=8,
        expert=768,
        normed=True,
    ),
    "gpt-oss-20b": LanguageModel(
        layers=24,
        width=2880,
        heads=64,
        groups=8,
        head=64,
        vocab=201_088,
        experts=32,
        top=4,
        expert=2880,
        biased=True,
        window=128,
    ),
}
"""By name."""

IMAGE: dict[str, ImageModel] = {
    "flux.1-dev": ImageModel(
        width=3072,
        heads=24,
        double=19,
        single=38,
        patch=64,
        outputs=64,
        text=512,
        context=4096,
        conditions=(("time", 256), ("guidance", 256), ("vector", 768)),
        tokens=4096,
    ),
    "dit-xl-2": ImageModel(
        width=1152,
        heads=16,
        plain=28,
        patch=16,
        outputs=32,
        conditions=(("time", 256),),
        classes=1001,
        tokens=256,
    ),
}
"""By name."""

MODELS: dict[str, LanguageModel | ImageModel] = {**LANGUAGE, **IMAGE}
