"""Decoder of a large language model (LLaMA: Touvron et al., 2023), in the sizes of Llama 3.2 1B.

RMSNorm (Zhang and Sennrich, NeurIPS 2019), rotary positions (Su et al., 2021), grouped-query attention
(Ainslie et al., EMNLP 2023) and SwiGLU (Shazeer, 2020). The scores of the vocabulary use the table of token
embeddings.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .attention import attend, join_heads, split_heads
from .example import Example, language_model

VOCABULARY = 128256
"""Tokens of the vocabulary, that of Llama 3."""


def build(
    *, batch: int, seq: int, layers: int, flash: bool, width: int, heads: int, groups: int, hidden: int
) -> Example:
    """Return the network for sequences of `seq` tokens, with `groups` heads of keys and values."""
    module = Llama(seq, layers, width, heads, groups, hidden, flash)
    return language_model(module, batch, seq)


class Llama(nn.Module):
    """Tokens, blocks, scores of the vocabulary at every position."""

    def __init__(
        self, seq: int, layers: int, width: int, heads: int, groups: int, hidden: int, flash: bool
    ) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, width)
        self.blocks = nn.ModuleList(Block(width, heads, groups, hidden, flash) for _ in range(layers))
        self.norm = RMSNorm(width)
        cosine, sine = _rotations(seq, width // heads)
        self.register_buffer("cosine", cosine)
        self.register_buffer("sine", sine)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the scores of the vocabulary."""
        x = self.tokens(tokens)
        for block in self.blocks:
            x = block(x, self.cosine, self.sine)
        return nn.functional.linear(self.norm(x), self.tokens.weight)


class Block(nn.Module):
    """Attention and SwiGLU, each after a normalization."""

    def __init__(self, width: int, heads: int, groups: int, hidden: int, flash: bool) -> None:
        super().__init__()
        self.norm1, self.norm2 = RMSNorm(width), RMSNorm(width)
        self.attention = GroupedAttention(width, heads, groups, flash)
        self.gate = nn.Linear(width, hidden, bias=False)
        self.up = nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
        """Return a tensor of the shape of x: batch, tokens, width."""
        x = x + self.attention(self.norm1(x), cosine, sine)
        y = self.norm2(x)
        return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))


class GroupedAttention(nn.Module):
    """Causal attention in which several heads of queries share a head of keys and values."""

    def __init__(self, width: int, heads: int, groups: int, flash: bool) -> None:
        super().__init__()
        self.heads, self.groups, self.flash = heads, groups, flash
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, width // heads * groups, bias=False)
        self.value = nn.Linear(width, width // heads * groups, bias=False)
        self.projection = nn.Linear(width, width, bias=False)

    def forward(self, x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
        """Return a tensor of the shape of x: batch, tokens, width."""
        q = rotate(split_heads(self.query(x), self.heads), cosine, sine)
        k = rotate(split_heads(self.key(x), self.groups), cosine, sine)
        v = split_heads(self.value(x), self.groups)
        shares = self.heads // self.groups
        k, v = k.repeat_interleave(shares, dim=1), v.repeat_interleave(shares, dim=1)
        return self.projection(join_heads(attend(q, k, v, causal=True, flash=self.flash)))


class RMSNorm(nn.Module):
    """Division by the root of the mean square, and a factor per feature."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        """Return a tensor of the shape of x."""
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-5) * self.weight


def rotate(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Turn the pairs (i, i + features / 2) of each head by the angles of their position."""
    first, second = x.chunk(2, dim=-1)
    return x * cosine + torch.cat((-second, first), dim=-1) * sine


def _rotations(tokens: int, features: int) -> tuple[Tensor, Tensor]:
    """Return cosines and sines, tokens x features, of the angles position * base ** (-2 i / features)."""
    frequencies = 500000.0 ** (-torch.arange(0, features, 2) / features)
    angles = torch.outer(torch.arange(tokens), frequencies).repeat(1, 2)
    return angles.cos(), angles.sin()
