"""Passes over samples for weights, a structure and classes; decoding under rules."""

from __future__ import annotations

import copy
import itertools

import numpy as np

from ..core.arguments import warn_user
from ..core.offsets import ends_of
from ..core.oracles import potentials
from ..core.parallel import make_scratch, over_samples
from ..core.problem import require_room
from ..core.weights import aligned
from ..data.rules import TooManyStates, broken_rules, clashing_rules, single_rules
from .passes import decode, decode_top_k, draws


def clash_of(graph, classes, problem, i):
    """The rules of a structure that allow no labelling of sample i together, none of them spare."""
    rules = getattr(graph, "rules", None)
    if not rules or problem is None:
        return []
    allowed = np.ones((problem.label_ptr[i + 1] - problem.label_ptr[i], len(classes)), dtype=bool)
    if problem.space.allowed.size:
        allowed = problem.space.allowed[slice(*problem.label_ptr[i : i + 2])] > 0
    steps = problem.space.transition_mask > -np.inf
    return clashing_rules(single_rules(rules, classes), classes, steps, allowed)


def _decode_within_bounds(graph, classes, problem, i, w, sample):
    """The labelling of sample i by a bounded search, and how far it may be from the best one."""
    theta = np.empty(problem.part_ptr[i + 1] - problem.part_ptr[i])
    potentials(problem, i, w, theta)
    n, n_labels = problem.label_ptr[i + 1] - problem.label_ptr[i], len(classes)
    unary, pair = theta[: n * n_labels], theta[n * n_labels :]
    unary, pair = unary.reshape(n, n_labels), pair.reshape(-1, n_labels, n_labels)
    found = graph._best_under_rules(classes, unary, pair)
    if found.codes is None:
        names = ", ".join(map(str, graph.rules))
        if found.bound == -np.inf:
            raise ValueError(f"sample {sample}: no labelling obeys the rules {names} together")
        raise ValueError(
            f"sample {sample}: no labelling was found that obeys the rules {names}, whose product "
            "is too large to search it whole: give fewer rules"
        )
    return found.codes, found.bound - found.score


class Decoder:
    """Mixin of classes with `graph_`, `classes_`, `n_jobs`, an intercept or not, and weights."""

    def _decoding_problem(self, samples, **options):
        """Return the problem of samples that have nodes."""
        states = self.graph_.states(self.classes_)
        return self.graph_.make_problem(samples, states, self._has_intercept, **options)

    def _pass(self, kernel, problem, *arrays, room=None):
        """Call a kernel on all samples in threads, each with scratch; returns where it ended."""
        w = self._weights()

        def run(part, start, stop):
            scratch = make_scratch(part), *([] if room is None else [aligned(room, np.empty)])
            return kernel(part, w, start, stop, *scratch, *arrays)

        return over_samples(run, problem, self.n_jobs)

    def _n_best(self, problem, w, values, codes):
        """Write the n best labellings of all samples and their scores."""
        require_room(problem, len(codes))

        def run(part, start, stop):
            scratch = make_scratch(part)
            labels = np.empty((len(codes), scratch.labels.size), dtype=np.int32)
            return decode_top_k(part, w, start, stop, scratch, values, labels, codes)

        return over_samples(run, problem, self.n_jobs)

    def _draw(self, problem, room, uniforms, codes):
        """Write labellings of all samples that are drawn by these numbers."""
        w = self._weights()

        def run(part, start, stop):
            scratch, own = make_scratch(part), aligned(room, np.empty)
            labels = np.empty(len(codes) * scratch.labels.size, dtype=np.int32)
            return draws(part, w, start, stop, scratch, own, labels, uniforms, codes)

        return over_samples(run, problem, self.n_jobs)

    def _obey(self, graph, problem, samples, keep, codes, values=None):
        """Decode labellings that break rules again under those rules, until none breaks one.

        Of the n best, a row of `codes` counts where `values` is finite.
        """
        # What is best under some of the rules and obeys all of them is best under all.
        gaps = {}
        rules, samples = single_rules(graph.rules, self.classes_), samples.without_empty()
        taken = np.zeros((samples.lengths.size, len(rules)), dtype=bool)
        taken[:, : len(single_rules(self.graph_.rules, self.classes_))] = True
        again, nodes = np.ones(len(taken), dtype=bool), slice(None)
        while True:
            ends = ends_of(samples.lengths[again])
            broken = np.zeros((ends.size - 1, len(rules)), dtype=bool)
            for q, row in enumerate(codes):
                found = broken_rules(rules, self.classes_, row[nodes], ends)
                broken |= found if values is None else found & np.isfinite(values[again, q, None])
            if (taken[again] & broken).any():
                raise TypeError(
                    f"make_problem of {type(graph).__name__} ignores the rules that its "
                    "with_rules takes"
                )
            taken[again] |= broken
            again[again] = broken.any(axis=1)
            if not again.any():
                break
            nodes, places = np.repeat(again, samples.lengths), np.flatnonzero(again)
            few, found = samples.take(again), codes[:, nodes]
            sets, of_samples = np.unique(taken[again], axis=0, return_inverse=True)
            for s, chosen in enumerate(sets):
                part = of_samples.ravel() == s
                of_part = np.repeat(part, few.lengths)
                model = copy.copy(self)
                model.graph_ = graph.with_rules(None)
                model.graph_.rules = list(itertools.compress(rules, chosen))
                is_any = problem.space.allowed.size == 0
                options = {} if is_any else {"allowed": problem.space.allowed[nodes][of_part]}
                task = few.take(part), places[part], keep, problem
                found[:, of_part] = model._decode_under(*task, values, len(codes), gaps, **options)
            codes[:, nodes] = found
        for sample in sorted(sample for sample, gap in gaps.items() if gap > 0.0):
            warn_user(
                f"sample {sample} breaks rules whose product is too large: the labelling may not "
                f"be the best one, its score is within {gaps[sample]:.3g} of that"
            )

    def _decode_under(self, samples, places, keep, problem, values, n_best, gaps, **options):
        """The best labels of some samples under the rules of the structure."""
        w, whole = self._weights(), np.zeros_like(keep)
        whole[np.flatnonzero(keep)[places]] = True
        found = np.empty((n_best, samples.offsets[-1]), dtype=np.int32)
        try:
            ruled = self._decoding_problem(samples, n_best=n_best, **options)
        except TooManyStates as error:
            if values is not None:
                raise
            if getattr(self.graph_, "order", 1) != 1:  # the bounded search is over scores of pairs
                sample = np.flatnonzero(whole)[0]
                raise ValueError(
                    f"sample {sample}: {error}, and more need order=1: give fewer rules"
                ) from None
            for k, i in enumerate(places):
                sample = np.flatnonzero(keep)[i]
                own = _decode_within_bounds(self.graph_, self.classes_, problem, i, w, sample)
                found[0, slice(*samples.offsets[k : k + 2])], gaps[sample] = own
            return found
        if values is None:
            ends = self._pass(decode, ruled, found[0])
        else:
            best = np.empty((places.size, n_best))
            ends = self._n_best(ruled, w, best, found)
            values[places] = best
        self._refuse_unsolved(ends, whole, ruled)
        return found
