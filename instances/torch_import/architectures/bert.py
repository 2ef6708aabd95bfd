"""BERT-base (Devlin, Chang, Lee and Toutanova, NAACL 2019) with its masked language model.

An encoder that normalizes after each residual addition, dropout 0.1 as in section A.2; the loss is taken at
every position (pre-training takes it at the masked ones) and next-sentence prediction is left out.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .attention import Dropout, SelfAttention, feed_forward
from .example import Example, language_model

VOCABULARY = 30522
"""Tokens of the vocabulary, that of the published BERT."""
POSITIONS = 512
"""Positions with an embedding: the longest sequence of the published BERT."""
RATE = 0.1
"""Share of the values that dropout sets to zero."""


def build(*, batch: int, seq: int, layers: int, width: int, heads: int) -> Example:
    """Return the network for sequences of `seq` tokens."""
    example = language_model(Bert(layers, width, heads), batch, seq)
    segments = torch.zeros(batch, seq, dtype=torch.int64)
    return Example(
        module=example.module,
        inputs={**example.inputs, "segments": segments},
        targets=example.targets,
        loss=example.loss,
    )


class Bert(nn.Module):
    """Tokens, positions and segments, blocks, scores of the vocabulary at every position."""

    def __init__(self, layers: int, width: int, heads: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, width)
        self.positions = nn.Embedding(POSITIONS, width)
        self.segments = nn.Embedding(2, width)
        self.norm = nn.LayerNorm(width, 1e-12)
        self.dropout = Dropout(RATE)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.transform = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.LayerNorm(width, 1e-12))
        self.bias = nn.Parameter(torch.zeros(VOCABULARY))

    def forward(self, tokens: Tensor, segments: Tensor) -> Tensor:
        """Return the scores of the vocabulary."""
        places = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.tokens(tokens) + self.segments(segments) + self.positions(places)
        x = self.transform(self.blocks(self.dropout(self.norm(x))))
        return nn.functional.linear(x, self.tokens.weight, self.bias)


class Block(nn.Module):
    """Attention and feed-forward layers, each with dropout, addition and normalization behind it."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attention = SelfAttention(width, heads, dropout=RATE)
        self.norm1 = nn.LayerNorm(width, 1e-12)
        self.mlp = feed_forward(width, 4 * width)
        self.norm2 = nn.LayerNorm(width, 1e-12)
        self.dropout = Dropout(RATE)

    def forward(self, x: Tensor) -> Tensor:
        """Return a tensor of the shape of x: batch, tokens, width."""
        x = self.norm1(x + self.dropout(self.attention(x)))
        return self.norm2(x + self.dropout(self.mlp(x)))
