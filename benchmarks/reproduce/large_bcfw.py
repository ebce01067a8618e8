"""BCFW, SSG and what is measured of weights with thousands of labels, around our Viterbi kernel.

BCFWSSVM keeps dual points of K^2 parts a chain, 680 GB for the characters of ``gdmm.py``. Here a
dual point is the list of the labellings in it and their shares. SubgradientSSVM can be measured
between passes only, each of which takes minutes here.
"""

from __future__ import annotations

import time
from itertools import pairwise
from typing import NamedTuple

import _paths  # noqa: F401
import numpy as np

from skstruct.inference.viterbi import viterbi, viterbi_scratch


class Chains(NamedTuple):
    """CSR rows of nodes, codes of their labels, and where chains begin."""

    rows: object
    codes: np.ndarray
    offsets: np.ndarray
    n_labels: int

    @property
    def n(self):
        """Number of chains."""
        return len(self.offsets) - 1


class Oracle:
    """Exact loss-augmented Viterbi at dense weights: node table with intercept, pair table."""

    def __init__(self, chains):
        self.chains = chains
        longest = int(np.diff(chains.offsets).max())
        self.labels = np.empty(longest, dtype=np.int32)
        self.work = viterbi_scratch(longest, chains.n_labels)

    def __call__(self, W, T, i, loss=1.0):
        """Of chain i: the truth, the best labelling, the hinge, scores without loss."""
        part = slice(self.chains.offsets[i], self.chains.offsets[i + 1])
        true = self.chains.codes[part]
        scores = np.asarray(self.chains.rows[part] @ W[:-1]) + W[-1]
        nodes = np.arange(true.size)
        right = scores[nodes, true].sum() + T[true[:-1], true[1:]].sum()
        augmented = scores + loss
        augmented[nodes, true] -= loss
        hinge = viterbi(augmented, T[None], self.labels, self.work) - right
        return true, self.labels[: true.size].copy(), hinge, scores


def objective(chains, W, T, C, chosen):
    """Objective over C n, with the hinges of the chosen chains for those of all."""
    oracle = Oracle(chains)
    hinge = np.mean([oracle(W, T, i)[2] for i in chosen])
    return 0.5 * float((W * W).sum() + (T * T).sum()) / (C * chains.n) + float(hinge)


def _direction(rows, true, found, n_features):
    """Feature vectors of labels and counts of pairs: the truth's minus those found."""
    step, pairs = {}, {}
    for t, (a, b) in enumerate(zip(true.tolist(), found.tolist(), strict=True)):
        for label, sign in ((a, 1.0), (b, -1.0)) if a != b else ():
            row = step.setdefault(label, np.zeros(n_features + 1))
            row[rows.indices[rows.indptr[t] : rows.indptr[t + 1]]] += sign
            row[-1] += sign
    for path, sign in ((true.tolist(), 1.0), (found.tolist(), -1.0)):
        for a, b in pairwise(path):
            pairs[a, b] = pairs.get((a, b), 0.0) + sign
    return step, pairs


class _Visits:
    """What visits chains one by one, and is measured between two of them."""

    def run(self, seconds, measure, marks, rng):
        """Visit until the CPU seconds are used; yield seconds, passes, measures at the marks."""
        spent, visits, marks = 0.0, 0, list(marks)
        while spent < seconds:
            for i in rng.permutation(self.chains.n):
                start = time.process_time()
                self.visit(i)
                spent += time.process_time() - start
                visits += 1
                if marks and spent >= marks[0]:
                    while marks and spent >= marks[0]:
                        marks.pop(0)
                    yield spent, visits / self.chains.n, *measure(*self.weights())
                if spent >= seconds:
                    break
        yield spent, visits / self.chains.n, *measure(*self.weights())


class BCFW(_Visits):
    """Frank-Wolfe steps with exact line search, C a chain (Lacoste-Julien et al. 2013)."""

    def __init__(self, chains, C):
        self.chains, self.C, self.oracle = chains, C, Oracle(chains)
        K, d = chains.n_labels, chains.rows.shape[1]
        self.W, self.T = np.zeros((d + 1, K)), np.zeros((K, K))
        # Per chain pairs of share and labelling; what is missing from 1 is the truth's.
        self.points = [[] for _ in range(chains.n)]

    def visit(self, i):
        """A step at chain i."""
        true, found, hinge, scores = self.oracle(self.W, self.T, i)
        part = slice(self.chains.offsets[i], self.chains.offsets[i + 1])
        moves = [(1.0, found)] + [(-share, path) for share, path in self.points[i]]
        gap = hinge - sum(s * self._margin(scores, true, p) for s, p in self.points[i])
        if not gap > 0.0:
            return
        step, pairs = {}, {}
        for share, path in moves:
            own = _direction(self.chains.rows[part], true, path, self.W.shape[0] - 1)
            for total, more in zip((step, pairs), own, strict=True):
                for key, value in more.items():
                    total[key] = total.get(key, 0.0) + share * value
        norm = sum(row @ row for row in step.values()) + sum(c * c for c in pairs.values())
        gamma = min(gap / (self.C * norm), 1.0) if norm > 0.0 else 0.0
        for label, row in step.items():
            self.W[:, label] += gamma * self.C * row
        for pair, count in pairs.items():
            self.T[pair] += gamma * self.C * count
        kept = [((1.0 - gamma) * share, path) for share, path in self.points[i]]
        self.points[i] = [p for p in [*kept, (gamma, found)] if p[0] > 0.0]

    def _margin(self, scores, true, path):
        """Loss and score of a labelling above those of the truth."""
        nodes = np.arange(true.size)
        own = scores[nodes, path].sum() + self.T[path[:-1], path[1:]].sum()
        right = scores[nodes, true].sum() + self.T[true[:-1], true[1:]].sum()
        return float((path != true).sum() + own - right)

    def weights(self):
        """The present tables."""
        return self.W, self.T


class SSG(_Visits):
    """Stochastic subgradients, steps 1 / (lambda t), averaged with weights t (the same authors).

    After t steps the weights are ``(W, T) / t``, sums of all subgradients over lambda t, so that
    the average adds these sums up: each has what a step changes from this step on.
    """

    def __init__(self, chains, C):
        self.chains, self.C, self.oracle = chains, C, Oracle(chains)
        K, d = chains.n_labels, chains.rows.shape[1]
        self.W, self.T = np.zeros((d + 1, K)), np.zeros((K, K))
        self.missed = np.zeros_like(self.W), np.zeros_like(self.T)
        self.t = 0

    def visit(self, i):
        """A step at chain i."""
        # Sums instead of weights: the loss is as many times larger.
        true, found, *_ = self.oracle(self.W, self.T, i, loss=max(self.t, 1.0))
        part = slice(self.chains.offsets[i], self.chains.offsets[i + 1])
        own = _direction(self.chains.rows[part], true, found, self.W.shape[0] - 1)
        factor = self.C * self.chains.n
        for label, row in own[0].items():
            self.W[:, label] += factor * row
            self.missed[0][:, label] += self.t * factor * row
        for pair, count in own[1].items():
            self.T[pair] += factor * count
            self.missed[1][pair] += self.t * factor * count
        self.t += 1

    def weights(self):
        """The average."""
        norm = 0.5 * self.t * (self.t + 1.0)
        pairs = zip((self.W, self.T), self.missed, strict=True)
        return tuple((self.t * own - missed) / norm for own, missed in pairs)
