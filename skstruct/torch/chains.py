"""Chains in plain operations of torch: on any device, in traces, under any derivative."""

from __future__ import annotations

import torch

# For -inf, whose differences are NaN; sums of many of them are floats, too.
_LOW = -1e30
# A scan has log2(T) steps in a row and K times the work: it is for a GPU, which waits for steps.
_FEWEST_STEPS, _MOST_LABELS = 32, 10


def result_type(*tensors: torch.Tensor | None) -> torch.dtype:
    """The type of losses and marginals: sums over samples need float32 at least."""
    double = any(tensor is not None and tensor.dtype == torch.float64 for tensor in tensors)
    return torch.float64 if double else torch.float32


def is_traced(*values) -> bool:
    """Return whether tensors are recorded, or transformed by torch.func: they have no memory."""
    if torch.jit.is_tracing() or torch.compiler.is_compiling():
        return True
    try:
        for value in values:
            if isinstance(value, torch.Tensor):
                value.data_ptr()
    except RuntimeError:
        return True
    return False


def _take(table, index):
    """Rows of a table (B, T, ...) at the positions `index` (B, n) of each sample."""
    index = index.reshape(*index.shape, *[1] * (table.dim() - 2))
    return table.gather(1, index.expand(*index.shape[:2], *table.shape[2:]))


def _log_sums(sums):
    """Logs of sums of exponentials over the last axis but one, less the largest, and those.

    The table is overwritten.
    """
    # A constant shifts sums and changes no derivative. No sum of exponentials is below 1.
    top = sums.detach().amax(-2)
    return sums.sub_(top.unsqueeze(-2)).exp_().sum(-2).log(), top


def _recursion(first, pair, rows):
    """Log-sums over all that comes before each node, less a level of that step; the levels."""
    at, every, levels = first, [first], [torch.zeros_like(first[..., :1])]
    for row in rows:
        found, top = _log_sums(at.unsqueeze(-1) + pair)
        # Small numbers, so that long chains lose no digits of float32.
        level = top.amax(-1, keepdim=True)
        at = found + (top - level) + row
        every.append(at)
        levels.append(level)
    return torch.stack(every), torch.stack(levels).cumsum(0)


class Chains:
    """Chains of scores (B, T, K) with nodes where `inside` is True; it never looks at values."""

    def __init__(self, scores, inside, is_prefix, pair, start, stop):
        self.inside, self.n, self.order = inside, inside.sum(1), None
        if not is_prefix:
            self.order = torch.sort(inside.logical_not().byte(), dim=1, stable=True).indices
        # NaN in the padding would come back in gradients.
        scores = torch.where(inside[..., None], scores, 0.0)
        # Tables as they are, for the score of a labelling, and without -inf.
        self.raw = self._to_front(scores), pair, start, stop
        self.scores, self.pair, self.start, self.stop = (t.clamp(min=_LOW) for t in self.raw)
        self.steps = torch.arange(scores.shape[1], device=scores.device)

    def _to_front(self, table):
        """A table of all positions with the nodes of each sample before its other positions."""
        return table if self.order is None else _take(table, self.order)

    def to_places(self, table, fill):
        """The inverse, with a value where no node is."""
        if self.order is not None:
            table = _take(table, (self.inside.long().cumsum(1) - 1).clamp(min=0))
        inside = self.inside.reshape(*self.inside.shape, *[1] * (table.dim() - 2))
        return torch.where(inside, table, fill)

    def _from_both_ends(self, n_steps):
        """Recursions from the first and from the last node of each sample, as a batch of two."""
        back = (self.n[:, None] - 1 - self.steps[:n_steps]).clamp(min=0)
        rows = torch.stack([self.scores[:, :n_steps], _take(self.scores, back)]).unbind(2)
        first = rows[0] + torch.stack([self.start, self.stop])[:, None]
        pair = torch.stack([self.pair, self.pair.T])[:, None]
        return *_recursion(first, pair, rows[1:]), back

    def log_partition(self):
        """Log-partitions (B,); -inf where no labelling is allowed, 0 without nodes."""
        n_nodes, n_labels = self.scores.shape[1:]
        short = n_nodes < _FEWEST_STEPS or n_labels > _MOST_LABELS
        total = self._to_the_middle() if short or not self.scores.is_cuda else self._by_scan()
        total = torch.where(total > 0.1 * _LOW, total, -torch.inf)
        return torch.where(self.n > 0, total, 0.0)

    def _to_the_middle(self):
        """Half the steps in a row: both ends go to the middle of their sample at once."""
        every, levels, _ = self._from_both_ends((self.scores.shape[1] + 1) // 2)
        last = torch.stack([(self.n + 1) // 2, self.n // 2]).clamp(min=1)[None, ..., None] - 1
        left, right = every.gather(0, last.expand(1, *every.shape[1:]))[0]
        shift = levels.gather(0, last).sum((0, 1, 3))
        joint = left.unsqueeze(-1) + self.pair + right.unsqueeze(-2)
        one = torch.logsumexp(self.scores[:, 0] + self.start + self.stop, 1)
        return torch.where(self.n == 1, one, torch.logsumexp(joint.flatten(1), 1) + shift)

    def _by_scan(self):
        """The product of the tables of all steps, by pairs of neighbours."""
        n_labels = self.pair.shape[0]
        none = (1.0 - torch.eye(n_labels).to(self.pair)) * _LOW
        inside = (self.steps[1:] < self.n[:, None])[..., None, None]
        steps = torch.where(inside, self.pair + self.scores[:, 1:, None], none)
        shift = 0.0
        while steps.shape[1] > 1:
            even = steps.shape[1] // 2 * 2
            sums = steps[:, 0:even:2].unsqueeze(-1) + steps[:, 1:even:2].unsqueeze(-3)
            found, top = _log_sums(sums)
            level = top.amax((-2, -1), keepdim=True)
            shift = shift + level.sum((1, 2, 3))
            steps = torch.cat([found + (top - level), steps[:, even:]], 1)
        joint = (self.scores[:, 0] + self.start).unsqueeze(-1) + steps[:, 0] + self.stop
        return torch.logsumexp(joint.flatten(1), 1) + shift

    def score(self, labels):
        """Scores (B, k) of labellings (B, k, T), nodes first."""
        scores, pair, start, stop = self.raw
        inside = (self.steps < self.n[:, None])[:, None]
        unary = scores[:, None].expand(*labels.shape, -1).gather(3, labels[..., None])[..., 0]
        steps = pair[labels[..., :-1], labels[..., 1:]]
        last = (self.n[:, None, None] - 1).clamp(min=0).expand(*labels.shape[:2], 1)
        ends = start[labels[..., 0]] + stop[labels.gather(2, last)[..., 0]]
        total = torch.where(inside, unary, 0.0).sum(-1) + ends
        total = total + torch.where(inside[..., 1:], steps, 0.0).sum(-1)
        return torch.where(self.n[:, None] > 0, total, 0.0)

    def log_loss(self, labels):
        """Negative log-probabilities of labels (B, T), those outside of nodes of any value."""
        labels = self._to_front(torch.where(self.inside, labels.long(), 0))
        return self.log_partition() - self.score(labels[:, None])[:, 0]

    def marginals(self):
        """Probabilities of labels (B, T, K), in their places; NaN where none is allowed."""
        every, levels, back = self._from_both_ends(self.scores.shape[1])
        before, after = every.transpose(0, 2).unbind(1)
        sums = before + _take(after, back) - self.scores
        level = levels[:, 1, :, 0].T.gather(1, back[:, :1])
        exists = sums[:, 0].amax(-1, keepdim=True) + level > 0.1 * _LOW
        shares = torch.where(exists[..., None], torch.softmax(sums, -1), torch.nan)
        return self.to_places(shares, 0.0)

    def best(self, k):
        """The k best labellings (B, k, T), nodes first, and scores; -inf if there are fewer."""
        with torch.no_grad():
            labels, exists = self._best(k)
        return labels, torch.where(exists, self.score(labels), -torch.inf)

    def _best(self, k):
        rows, n_labels = self.scores.unbind(1), self.pair.shape[0]
        # One first labelling a label; what fills the k places is worse than any that is allowed.
        at = (rows[0] + self.start).unsqueeze(-1)
        at = torch.cat([at, at.new_full((1, 1, 1), _LOW).expand(*at.shape[:2], k - 1)], -1)
        same, before = torch.arange(n_labels * k, device=at.device), []
        for t, row in enumerate(rows[1:], 1):
            ways = (at.unsqueeze(-1) + self.pair[:, None]).flatten(1, 2)
            top, way = ways.max(1, keepdim=True) if k == 1 else ways.topk(k, 1)
            found = top.transpose(1, 2) + row.unsqueeze(-1)
            found = found - found.amax((1, 2), keepdim=True)
            is_node = (self.n > t)[:, None]
            at = torch.where(is_node[..., None], found, at)
            before.append(torch.where(is_node, way.transpose(1, 2).flatten(1), same))
        top, last = (at + self.stop[:, None]).flatten(1).topk(k, 1)
        found = [last]
        for way in reversed(before):
            found.append(way.gather(1, found[-1]))
        return torch.stack(found[::-1], -1) // k, top > 0.1 * _LOW
