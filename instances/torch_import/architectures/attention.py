"""Multi-head self-attention (Vaswani et al., NeurIPS 2017, section 3.2), and the transformer's pieces."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class SelfAttention(nn.Module):
    """Self-attention of `heads` heads, with one product for queries, keys and values.

    Parameters
    ----------
    width, heads
        Features of a token; each head has ``width / heads`` of them.
    causal
        A token looks at itself and earlier ones only.
    flash
        One fused op per pass instead of products, softmax and their tensors of tokens x tokens.
    dropout
        Of the attention probabilities.
    """

    def __init__(
        self, width: int, heads: int, *, causal: bool = False, flash: bool = False, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.heads, self.causal, self.flash = heads, causal, flash
        self.qkv = nn.Linear(width, 3 * width)
        self.projection = nn.Linear(width, width)
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """Return a tensor of the shape of x: batch, tokens, width."""
        q, k, v = (split_heads(part, self.heads) for part in self.qkv(x).chunk(3, dim=-1))
        return self.projection(join_heads(attend(q, k, v, self.causal, self.flash, self.dropout)))


def split_heads(x: Tensor, heads: int) -> Tensor:
    """Return batch, heads, tokens, features from batch, tokens, heads * features."""
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def join_heads(x: Tensor) -> Tensor:
    """Undo `split_heads`."""
    return x.transpose(1, 2).flatten(2)


def attend(
    q: Tensor, k: Tensor, v: Tensor, causal: bool, flash: bool, dropout: nn.Module | None = None
) -> Tensor:
    """Return softmax(q k' / sqrt(features)) v for each head."""
    if flash:
        return nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
    scores = q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5
    if causal:
        later = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool, device=q.device).triu(1)
        scores = scores.masked_fill(later, -torch.inf)
    probabilities = torch.softmax(scores, dim=-1)
    return (probabilities if dropout is None else dropout(probabilities)) @ v


def feed_forward(width: int, hidden: int, approximate: str = "none") -> nn.Sequential:
    """Return two linear layers with a GELU between them (Hendrycks and Gimpel, 2016)."""
    return nn.Sequential(nn.Linear(width, hidden), nn.GELU(approximate), nn.Linear(hidden, width))


class Dropout(nn.Module):
    """Dropout whose mask takes a byte per element, as on GPUs; nothing at rate 0 or in evaluation."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, x: Tensor) -> Tensor:
        """Return x, in training with elements dropped."""
        return torch.native_dropout(x, self.rate, True)[0] if self.training and self.rate else x


class Block(nn.Module):
    """Transformer block that normalizes before attention and before the feed-forward layers."""

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        causal: bool = False,
        flash: bool = False,
        approximate: str = "none",
        epsilon: float = 1e-5,
    ) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width, epsilon)
        self.attention = SelfAttention(width, heads, causal=causal, flash=flash)
        self.norm2 = nn.LayerNorm(width, epsilon)
        self.mlp = feed_forward(width, 4 * width, approximate)

    def forward(self, x: Tensor) -> Tensor:
        """Return a tensor of the shape of x: batch, tokens, width."""
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))
