"""Units of a rank's weights: gathered together before their ops, gradients summed together behind (ZeRO).

ZeRO 1 shards the optimizer over the ranks that have the same weights, 2 gradients too, 3 weights too. Here a
unit is a layer, the embedding or the head.
"""

from __future__ import annotations

from .rank import NUMBER, Rank, Weight


class Units:
    """The units of a micro-batch, one at a time.

    Parameters
    ----------
    rank
        Where the ops go.
    mark
        What follows the names of the ops, such as ``@2``.
    is_last
        Whether gradients that were collected are summed over ranks now.
    """

    def __init__(self, rank: Rank, mark: str, is_last: bool) -> None:
        self.rank, self.options, self.mark, self.is_last = rank, rank.options, mark, is_last
        self.label = ""
        self.whole: dict[str, int] = {}
        self.fresh: dict[str, int] = {}
        self.place = 0

    def open(self, label: str) -> None:
        """Leave room for the gathering of weights, which ops of the unit will name."""
        self.place, self.label, self.whole = len(self.rank.ops), label, {}
        if self.options.zero == 3:
            self.rank.ops.append(None)

    def use(self, w: Weight) -> int:
        """Return the tensor that ops read as the weight: gathered from its shards, if it has such."""
        if self.options.zero < 3 or w.degree == 1:
            return w.tensor
        if w.name not in self.whole:
            name = f"{w.name}.{self.label}{self.mark}"
            self.whole[w.name] = self.rank.tensor(name, NUMBER * w.count)
        return self.whole[w.name]

    def close(self) -> None:
        """Gather the weights that ops of the unit have named; with experts in another group of ranks."""
        rank = self.rank
        if not self.whole:
            return
        weights = [rank.weights[key] for key in self.whole]
        nbytes = sum(NUMBER * w.count * (w.degree - 1) // w.degree for w in weights)
        shards, whole = [w.tensor for w in weights], [*self.whole.values()]
        rank.ops[self.place] = rank.exchanged(
            self.label + self.mark, "all-gather", shards, whole, nbytes, self.options.network
        )

    def gradient(self, w: Weight) -> tuple[int, list[int]]:
        """Return the tensor that a gradient goes to, and it again if something is there to add to."""
        if self.options.zero < 2 or w.degree == 1:
            return self._collect(w)
        before = [self.fresh[w.name]] if w.name in self.fresh else []
        if not before:
            size = self.options.gradient_bytes * w.count
            self.fresh[w.name] = self.rank.tensor(f"{w.name}.grad.full{self.mark}", size, "gradient")
        return self.fresh[w.name], before

    def _collect(self, w: Weight) -> tuple[int, list[int]]:
        """Return the buffer of a gradient from all micro-batches, and it again if it has content."""
        if w.gradient is None:
            shard = -(-w.count // w.degree) if self.options.zero >= 2 else w.count
            w.gradient = self.rank.tensor(f"{w.name}.grad", self.options.gradient_bytes * shard, "gradient")
        before = [w.gradient] if w.is_begun else []
        w.is_begun = True
        return w.gradient, before

    def reduce(self, name: str) -> None:
        """Sum the gradients of a unit over the ranks that have the same weights."""
        rank, rate = self.rank, self.options.network
        for degree in sorted({w.degree for w in rank.units.get(name, ())} - {1}):
            weights = [w for w in rank.units[name] if w.degree == degree]
            label = f"{name}.reduce.{degree}{self.mark}"
            if self.options.zero >= 2:
                own, shards, sums = [self.fresh[w.name] for w in weights], list[int](), list[int]()
                for w in weights:
                    shard, before = self._collect(w)
                    shards.append(shard)
                    sums += before
                nbytes = rank.moved(own) * (degree - 1) // degree
                rank.exchange(label, "reduce-scatter", own + sums, shards, nbytes, rate)
            elif self.is_last:
                own = [w.gradient for w in weights if w.gradient is not None]
                if self.options.zero:
                    nbytes = rank.moved(own) * (degree - 1) // degree
                    rank.exchange(label, "reduce-scatter", own, own, nbytes, rate)
                else:
                    rank.all_reduce(label, own, degree, rate)
