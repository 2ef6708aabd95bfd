"""Transformer with a mixture of experts in every second block (GShard: Lepikhin et al., ICLR 2021).

A gate sends each token to its two best experts; an expert takes as many tokens as its capacity, in the order
of the tokens, and drops the rest. Dispatch is dense, by products with a mask of tokens x experts x capacity
(algorithm 1), so no shape depends on the data. The loss has the term that balances the experts (section
2.2). Sizes are those of GPT-2 small.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .attention import Block, SelfAttention
from .example import Example, language_model

VOCABULARY = 50257
"""Tokens of the vocabulary, that of GPT-2."""
CAPACITY_FACTOR = 1.25
"""Tokens that an expert has room for, as a multiple of its share if all had the same number."""
BALANCE = 0.01
"""Weight in the loss of the term that spreads tokens over experts."""


def build(*, batch: int, seq: int, layers: int, experts: int, width: int, heads: int) -> Example:
    """Return the network for sequences of `seq` tokens."""
    plain = language_model(MixtureOfExperts(batch, seq, layers, experts, width, heads), batch, seq)

    def loss(output: tuple[Tensor, Tensor], labels: Tensor) -> Tensor:
        scores, balance = output
        return plain.loss(scores, labels) + BALANCE * balance

    return Example(module=plain.module, inputs=plain.inputs, targets=plain.targets, loss=loss)


class MixtureOfExperts(nn.Module):
    """Tokens and learned positions, blocks, scores of the vocabulary and the balancing term."""

    def __init__(self, batch: int, seq: int, layers: int, experts: int, width: int, heads: int) -> None:
        super().__init__()
        capacity = max(1, round(2 * CAPACITY_FACTOR * batch * seq / experts))
        self.tokens = nn.Embedding(VOCABULARY, width)
        self.positions = nn.Parameter(torch.zeros(seq, width))
        self.blocks = nn.ModuleList(
            ExpertBlock(width, heads, experts, capacity) if i % 2 else Block(width, heads, causal=True)
            for i in range(layers)
        )
        self.norm = nn.LayerNorm(width)

    def forward(self, tokens: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        """Return the scores of the vocabulary, in training also the balancing term."""
        x = self.tokens(tokens) + self.positions
        terms = []
        for block in self.blocks:
            if isinstance(block, ExpertBlock):
                x, term = block(x)
                terms.append(term)
            else:
                x = block(x)
        scores = nn.functional.linear(self.norm(x), self.tokens.weight)
        return (scores, torch.stack(terms).sum()) if self.training else scores


class ExpertBlock(nn.Module):
    """Attention, then two experts for each token, each after a normalization."""

    def __init__(self, width: int, heads: int, experts: int, capacity: int) -> None:
        super().__init__()
        self.capacity = capacity
        self.norm1 = nn.LayerNorm(width)
        self.attention = SelfAttention(width, heads, causal=True)
        self.norm2 = nn.LayerNorm(width)
        self.gate = nn.Linear(width, experts, bias=False)
        self.up = nn.Parameter(torch.zeros(experts, width, 4 * width))
        self.down = nn.Parameter(torch.zeros(experts, 4 * width, width))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return a tensor of the shape of x, and the balancing term."""
        x = x + self.attention(self.norm1(x))
        y = self.norm2(x)
        flat = y.flatten(0, 1)
        combine, balance = self._route(torch.softmax(self.gate(flat), dim=-1))
        dispatch = (combine > 0).to(flat.dtype)
        inbox = torch.einsum("sec,sm->ecm", dispatch, flat)
        outbox = nn.functional.gelu(inbox @ self.up) @ self.down
        return x + torch.einsum("sec,ecm->sm", combine, outbox).view_as(x), balance

    def _route(self, gates: Tensor) -> tuple[Tensor, Tensor]:
        """Return the weight of each token at each place of each expert, and the balancing term."""
        experts = torch.arange(gates.shape[1], device=gates.device)
        places = torch.arange(self.capacity, device=gates.device)
        weights, chosen = gates.topk(2, dim=-1)
        weights = weights / weights.sum(-1, keepdim=True)
        sent = [(chosen[:, k, None] == experts).long() for k in (0, 1)]
        queue = [sent[0].cumsum(0) - 1, sent[1].cumsum(0) - 1 + sent[0].sum(0)]
        parts = []
        for k in (0, 1):
            kept = (sent[k] * (queue[k] < self.capacity)).to(gates.dtype)
            at = (queue[k][:, :, None] == places).to(gates.dtype)
            parts.append((weights[:, k, None] * kept)[:, :, None] * at)
        share = sent[0].to(gates.dtype).mean(0)
        return parts[0] + parts[1], (share * gates.mean(0)).sum() * len(experts)
