"""GPT-2 (Radford et al., 2019): a decoder that normalizes before attention and feed-forward layers.

Sizes and the tanh form of GELU are those of the released code (openai/gpt-2, src/model.py), which has no
dropout. The scores of the vocabulary use the table of token embeddings.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .attention import Block
from .example import Example, language_model

VOCABULARY = 50257
"""Tokens of the vocabulary, that of the published GPT-2."""
POSITIONS = 1024
"""Positions with an embedding: the longest sequence of the published GPT-2."""


def build(*, batch: int, seq: int, layers: int, flash: bool, width: int, heads: int) -> Example:
    """Return the network for sequences of `seq` tokens."""
    return language_model(GPT2(layers, width, heads, flash), batch, seq)


class GPT2(nn.Module):
    """Tokens and learned positions, blocks, scores of the vocabulary at every position."""

    def __init__(self, layers: int, width: int, heads: int, flash: bool) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, width)
        self.positions = nn.Embedding(POSITIONS, width)
        self.blocks = nn.Sequential(
            *(Block(width, heads, causal=True, flash=flash, approximate="tanh") for _ in range(layers))
        )
        self.norm = nn.LayerNorm(width)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the scores of the vocabulary."""
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1], device=tokens.device))
        return nn.functional.linear(self.norm(self.blocks(x)), self.tokens.weight)
