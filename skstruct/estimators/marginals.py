"""Marginals and likelihoods of models that are distributions."""

from __future__ import annotations

from typing import Literal, overload

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from ..core.arguments import warn_user
from ..core.memory import check_memory, shown
from ..core.offsets import ends_of, longest_item
from ..core.oracles import edge_marginals, exp_oracle, sample_oracle
from ..core.parallel import make_scratch, over_samples
from ..core.typing import RandomStateLike, SamplesLike
from ..data.partial import PartialLabels
from ..data.ragged import object_array
from ..losses.operations import private_loss
from ..shards.reading import Shard, Shards
from ..solvers.passes import (
    entropies,
    log_likelihoods,
    node_marginals,
    overflowing,
    pair_marginals,
    why_relaxed,
)
from ..solvers.primal import loss_values
from .prediction import as_given, on_one_state, shard_codes
from .training_data import ImputedLabels, allowed_mask

_NO_MEMORY = np.empty(0)


def _clipped(marginals):
    """Clip rounding errors in place: scikit-learn's metrics reject numbers above 1."""
    return np.clip(marginals, 0.0, 1.0, out=marginals)


class ProbabilisticPredictor:
    """Predictions of models that are distributions over labellings."""

    @overload
    def predict_marginals(
        self, X: SamplesLike | Shards, pairwise: Literal[False] = ..., rules: list | None = ...
    ) -> np.ndarray: ...
    @overload
    def predict_marginals(
        self, X: SamplesLike | Shards, pairwise: Literal[True], rules: list | None = ...
    ) -> tuple[np.ndarray, np.ndarray]: ...
    @on_one_state
    def predict_marginals(
        self, X: SamplesLike | Shards, pairwise: bool = False, rules: list | None = None
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """Probability of each label at each node.

        Parameters
        ----------
        X : list, object array, 3-D array, RaggedArray, 2-D array or sparse matrix, or Shards
            Samples of the kind seen in fit.
        pairwise : bool, default=False
            Whether to return the probabilities of (label, next label), too.
        rules : list of rules, default=None
            Constraints on labellings, as in :meth:`predict`, on which probabilities are
            conditional. The product of their automata must be small.

        Returns
        -------
        nodes : ndarray
            An object array of one (n_nodes, n_classes) array per sample, (height, width, n_classes)
            for images; for a table an array of shape (n_samples, n_classes). One array, too, if X
            is one array of sequences or images. Columns as in ``classes_``. For label sets an array
            of shape (n_samples, n_labels), for candidates (n_candidates,) and for lattices
            (n_arcs,) per sample: probabilities of being on, right, or on the path
            (:meth:`skstruct.WordLattice.words` lists the words). For segments those of the labels
            of nodes; :meth:`predict_chunks` has those of segments.
        edges : ndarray of shape (n_samples,) of object
            Only if `pairwise`: one (n_edges, n_classes, n_classes) array per sample, (n_nodes - 1,
            ...) for a chain. Edges are in the order of X, those of images in that of
            :func:`skstruct.graphs.pairwise.grid_edges`.

        Raises
        ------
        TypeError
            If `pairwise` and the structure has no edges, or there are rules and the structure is
            not a chain.
        ValueError
            If X is not as in fit, rules contradict each other, or their product is too large.
        """
        samples, keep, problem = self._read_ruled(X, rules)
        self._require(exp_oracle, problem, "call predict")
        self._warn_of_bounds(problem)
        if pairwise:
            self._require(edge_marginals, problem, "call with pairwise=False")
        n_states = self.graph_.n_marginals(self.states_)
        nodes = np.empty((samples.offsets[-1], n_states))
        self._refuse_unsolved(self._pass(node_marginals, problem, nodes), keep, problem)
        nodes = self.graph_.hidden_states(self.classes_).reduced(np.add, nodes)
        wrapped = self.graph_.wrap_marginals(_clipped(nodes), self.classes_, samples)
        wrapped = as_given(wrapped, X, self.graph_, nodes[:0])
        return (wrapped, self._edges(samples, keep, problem)) if pairwise else wrapped

    def _read_ruled(self, X, rules):
        """Read samples to predict under further rules: `self` is a copy, see on_one_state."""
        if rules is not None:
            check_is_fitted(self)
            self.graph_ = self.graph_.with_rules(rules)
        return self._read_for_prediction(X)

    def _warn_of_bounds(self, problem):
        """Warn where fit was exact, and marginals of these samples are not."""
        if getattr(problem.space, "inference", "exact") == "relaxed" and self._was_exact:
            why = why_relaxed(problem, "probabilities are those of a bound")
            warn_user(why)

    def _edges(self, samples, keep, problem):
        n_states = len(self.states_)
        n_edges = samples.n_edges
        ptr = ends_of(n_edges[keep]) * n_states**2
        flat = np.empty(ptr[-1])
        self._refuse_unsolved(self._pass(pair_marginals, problem, flat, ptr), keep, problem)
        ends = np.cumsum(n_edges)
        tables = flat.reshape(-1, n_states, n_states)
        hidden = self.graph_.hidden_states(self.classes_)
        tables = _clipped(hidden.reduced(np.add, tables, 2))
        return object_array([tables[end - n : end] for n, end in zip(n_edges, ends, strict=True)])

    def predict_proba(self, X: SamplesLike | Shards, rules: list | None = None) -> np.ndarray:
        """Probability of each label at each node: :meth:`predict_marginals` under another name.

        ``cross_val_predict(method="predict_proba")`` encodes y as one label per sample: for
        sequences use :func:`~skstruct.model_selection.cross_val_marginals`.

        Parameters
        ----------
        X : list, object array, 3-D array, RaggedArray, 2-D array or sparse matrix, or Shards
            Samples of the kind seen in fit.
        rules : list of rules, default=None
            Constraints on labellings, as in :meth:`predict`.

        Returns
        -------
        ndarray
            For a table of shape (n_samples, n_classes), for label sets (n_samples, n_labels);
            otherwise an object array of one (n_nodes, n_classes) array per sample.
        """
        return self.predict_marginals(X, rules=rules)

    @on_one_state
    def predict_log_likelihood(
        self, X: SamplesLike | Shards, y: SamplesLike | None = None, rules: list | None = None
    ) -> np.ndarray:
        """Log-probability of labellings, ``log p(y_i | x_i)``.

        With missing labels (None, NaN, masked) or sets of labels in y, of all compatible
        labellings.

        Parameters
        ----------
        X : list, object array, 3-D array, RaggedArray, 2-D array or sparse matrix, or Shards
            Samples of the kind seen in fit.
        y : list, object array, RaggedArray or 1-D array
            One labelling per sample. Shards include labels.
        rules : list of rules, default=None
            Constraints on labellings, as in :meth:`predict`.

        Returns
        -------
        ndarray of shape (n_samples,)
            In nats; 0 for a sample without nodes, -inf for a labelling that is forbidden, breaks a
            rule or does not belong to the structure.

        Raises
        ------
        FloatingPointError
            If the scores of a sample overflow.
        ValueError
            If X or y is not as in fit, or the weights are not finite.
        """
        samples, keep, problem = self._read_ruled(X, rules)
        self._require(exp_oracle, problem, "call predict_top_k for scores")
        self._warn_of_bounds(problem)
        partial = None
        if isinstance(X, Shard):
            codes = shard_codes(self, X, y)
        else:
            labels, partial = self._read_labels(self.graph_.read_labelling, y, samples)
            codes = self.graph_.encode(labels, self.classes_, samples.offsets)
        hidden = self.graph_.hidden_states(self.classes_)
        if not hidden.are_labels:
            partial = partial or PartialLabels.none(codes.size)
        problem = problem.with_labels(codes if hidden.are_labels else hidden.first[codes])
        values = np.empty(int(keep.sum()))
        if partial is not None:
            self._refuse_unsolved(self._pass(overflowing, problem), keep)
            values = self._partial_log_likelihood(samples, partial, problem, codes)
        else:
            self._refuse_unsolved(self._pass(log_likelihoods, problem, values), keep)
        for i in np.flatnonzero(np.isnan(values))[:1]:  # nothing is possible
            self._refuse_unsolved([i], keep, problem)
        out = np.zeros(keep.size)
        out[keep] = values + 0.0  # no -0.0
        wrong = ~self.graph_.is_labelling(codes, samples, self.classes_)
        if partial is not None:  # what stands for a missing label proves nothing
            wrong &= np.diff(np.append(0, np.cumsum(partial.hidden))[samples.offsets]) == 0
        out[wrong] = -np.inf
        return out

    def _log_likelihood(self, samples, keep, codes, rules):
        """Log-probabilities of labellings of samples that are read, 0 without nodes."""
        if rules is not None:  # `self` is a copy, as in _read_ruled
            self.graph_ = self.graph_.with_rules(rules)
        problem = self._decoding_problem(samples.without_empty())
        self._require_exact(problem, "probabilities of labellings")
        values, out = np.empty(int(keep.sum())), np.zeros(keep.size)
        pass_over = self._pass(log_likelihoods, problem.with_labels(codes), values)
        self._refuse_unsolved(pass_over, keep, problem)
        out[keep] = np.minimum(values, 0.0)
        return out

    def _partial_log_likelihood(self, samples, partial, problem, codes):
        """Return log-likelihoods of all labellings that fit partial labels."""
        filled, graph = samples.without_empty(), self.graph_
        allowed = allowed_mask(graph, partial, codes, self.classes_)
        task = graph, filled, self.classes_, self._has_intercept, allowed
        loss = ImputedLabels(*task, np.arange(filled.offsets.size), self.n_jobs).marginal_log_loss()
        out, w = np.empty((3, filled.offsets.size - 1)), self._weights()

        def run(part, start, stop):
            own = private_loss(loss)
            loss_values(own, part, w, _NO_MEMORY, start, stop, make_scratch(part), out)

        over_samples(run, problem, self.n_jobs)
        return -out[0]

    def sample(
        self,
        X: SamplesLike | Shards,
        n_samples: int = 1,
        random_state: RandomStateLike = None,
        rules: list | None = None,
    ) -> np.ndarray:
        """Draw labellings from the distribution of each sample, exactly and independently.

        The structure must have an exact partition function, unlike :class:`Matching`. Chains, trees
        and graphs are drawn from their marginals (along junction trees); for label sets, own
        structures, and under rules, each label takes one inference.

        Parameters
        ----------
        X : list, object array, 3-D array, RaggedArray, 2-D array or sparse matrix, or Shards
            Samples of the kind seen in fit.
        n_samples : int, default=1
            Number of labellings per sample, at least 1.
        random_state : int, RandomState instance or None, default=None
            Seed. An int gives the same draws with any `n_jobs`, and on shards.
        rules : list of rules, default=None
            Constraints on labellings, as in :meth:`predict`.

        Returns
        -------
        ndarray of shape (n_samples,) of object
            For each sample an array of shape (n_samples, n_nodes). For a table each is of shape
            (n_samples, 1), for images (n_samples, height, width).

        Raises
        ------
        TypeError
            If the structure has no exact partition function, such as :class:`Matching`.
        ValueError
            If `n_samples` is not a positive integer, X is not as in fit, or inference on it is not
            exact.
        MemoryError
            If the result does not fit into memory.
        """
        is_integer = isinstance(n_samples, (int, np.integer)) and not isinstance(n_samples, bool)
        if not is_integer or n_samples < 1:
            raise ValueError(f"n_samples must be an integer of at least 1, got {n_samples!r}")
        seed = check_random_state(random_state).randint(np.iinfo(np.int32).max)
        return self._sample(X, int(n_samples), seed, rules)

    @on_one_state
    def _sample(self, X, n, seed, rules):
        samples, keep, problem = self._read_ruled(X, rules)
        self._require_exact(problem, "draws")
        self._require(sample_oracle, problem, "call predict_top_k")
        n_nodes = int(samples.offsets[-1])
        what = f"{shown(n)} labellings of {keep.size:,} samples"
        check_memory(
            12 * n * n_nodes, what, "ask for fewer (n_samples), or for some samples at a time"
        )
        # Each node has numbers of its own, wherever its sample is.
        bits = np.random.PCG64(seed).advance(n * getattr(self, "_nodes_before", 0))
        uniforms = np.random.Generator(bits).random((n_nodes, n))
        codes = np.empty((n, n_nodes), dtype=np.int32)
        ends = self._draw(problem, self._room(problem, samples), uniforms, codes)
        self._refuse_unsolved(ends, keep, problem)
        codes = self.graph_.hidden_states(self.classes_).labels_of(codes)
        nodes = self.graph_.wrap(np.arange(n_nodes), samples)
        chosen = (codes[:, np.atleast_1d(own)] for own in nodes)
        return object_array(
            [self.graph_.ranked(own, self.classes_, samples, i) for i, own in enumerate(chosen)]
        )

    def _require_exact(self, problem, what):
        """Reject samples whose sums over labellings are bounds, or cannot be had."""
        self._require(exp_oracle, problem, "call predict")
        if getattr(problem.space, "inference", "exact") != "exact":
            raise ValueError(
                f"{problem.space.structure}: {what} need exact inference, and here it is relaxed: "
                f"call predict_marginals for approximate marginals{problem.space.remedy}"
            )

    def _room(self, problem, samples):
        """Numbers that are the marginals of the edges of a sample, or its potentials."""
        n_pairs = len(self.states_) ** 2 * int(samples.n_edges.max(initial=0))
        return max(n_pairs, longest_item(problem.part_ptr))

    @on_one_state
    def predict_entropy(self, X: SamplesLike | Shards, rules: list | None = None) -> np.ndarray:
        """Entropy of the distribution over the labellings of each sample.

        0 if one labelling has all probability, the logarithm of the number of labellings if all are
        equally probable; ``exp(entropy)`` is the effective number of labellings. The structure
        must have an exact partition function.

        Parameters
        ----------
        X : list, object array, 3-D array, RaggedArray, 2-D array or sparse matrix, or Shards
            Samples of the kind seen in fit.
        rules : list of rules, default=None
            Constraints on labellings, as in :meth:`predict`.

        Returns
        -------
        ndarray of shape (n_samples,)
            In nats; 0 for a sample without nodes.

        Raises
        ------
        TypeError
            If the structure has no exact partition function, such as :class:`Matching`.
        ValueError
            If X is not as in fit, or inference on it is not exact.
        """
        samples, keep, problem = self._read_ruled(X, rules)
        self.graph_.refuse_states("entropies are those of states", TypeError)
        self._require_exact(problem, "entropies")
        values = np.empty(int(keep.sum()))
        ends = self._pass(entropies, problem, values, room=self._room(problem, samples))
        self._refuse_unsolved(ends, keep, problem)
        out = np.zeros(keep.size)
        out[keep] = values
        return out
