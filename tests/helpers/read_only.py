"""Train and predict on problems that only scratch can be written to: run by test_scratch.py.

Nothing is compiled (``NUMBA_DISABLE_JIT``), so that all arrays of a problem but ``work`` can be
read-only: numpy then raises where a kernel writes. Prints how often each problem was used.
"""

import json
import sys
import warnings
from collections import Counter

import numpy as np
from scipy import sparse

import skstruct.solvers.passes
from skstruct import (
    BCFWSSVM,
    GDMMSSVM,
    SAGCRF,
    CasimirSSVM,
    Chain,
    MultiClass,
    MultiLabel,
    SubgradientSSVM,
    Tree,
)
from skstruct.core.oracles import max_oracle
from skstruct.inference.viterbi import viterbi
from skstruct.spaces.chain import ChainSpace

warnings.simplefilter("ignore")
skstruct.core.parallel._NODES_A_THREAD = 2
made = Counter()


def _shut(value):
    """Make arrays read-only, however deeply tuples are nested."""
    if isinstance(value, tuple):
        for part in value:
            _shut(part)
    elif isinstance(value, np.ndarray):
        value.setflags(write=False)


def _shut_problem(problem):
    made[type(problem.space).__name__] += 1
    for part in (problem.rows, problem.space):
        _shut(tuple(value for name, value in part._asdict().items() if name != "work"))
    _shut((problem.target, *problem[3:]))
    return problem


class ReadOnly:
    """A structure whose problems are read-only but for scratch."""

    def make_problem(self, *args, **options):
        return _shut_problem(super().make_problem(*args, **options))

    def decoding(self, *args):
        return _shut_problem(super().decoding(*args))

    def relaxation(self, *args):
        return _shut_problem(super().relaxation(*args))


class Chains(ReadOnly, Chain):
    pass


class Trees(ReadOnly, Tree):
    pass


class Table(ReadOnly, MultiClass):
    pass


class LabelSets(ReadOnly, MultiLabel):
    pass


class CheatingSpace(ChainSpace):
    pass


@max_oracle.register(CheatingSpace)
def _(space, i, theta, labels):
    size = space.label_ptr[i + 1] - space.label_ptr[i]
    unary = theta[: 3 * size].reshape(size, 3)
    space.transition_mask[0, 0] = 0.0  # what it is already: nothing shows afterwards
    return viterbi(unary, space.transition_mask[None], labels, space.work.best)


class Cheat(Chain):
    def make_problem(self, *args, **options):
        problem = super().make_problem(*args, **options)
        return problem._replace(space=CheatingSpace(*problem.space))


class CheatingChains(ReadOnly, Cheat):
    pass


def structures():
    """Graphs with X and y: every problem, dense and sparse features, edges with and without."""
    rng = np.random.default_rng(0)
    lengths = (3, 2, 4)
    X = [rng.normal(size=(n, 3)) for n in lengths]
    y = [np.array(list("abcab"))[:n] for n in lengths]
    edgy = [(x, rng.normal(size=(len(x) - 1, 2))) for x in X]
    parents = [np.array([-1, 0, 0, 1])[:n] for n in lengths]
    table, classes = rng.normal(size=(6, 3)), np.array(list("abcabc"))
    few, several = rng.integers(0, 2, (6, 3)), rng.integers(0, 2, (6, 10))
    return [
        (Chains(boundary=True, forbidden=[("c", "c")]), [sparse.csr_matrix(x) for x in X], y),
        (Chains(edge_features=True), edgy, y),
        (Trees(), list(zip(X, parents, strict=True)), y),
        (
            Trees(edge_features=True),
            [(x, p, e) for (x, e), p in zip(edgy, parents, strict=True)],
            y,
        ),
        (Table(), table, classes),
        (LabelSets(), table, few),
        (LabelSets("tree", tables=True), table, few),
        (LabelSets("full"), table, few),
        (LabelSets([[j, j + 1] for j in range(9)] + [[0, 9]], tables=True), table, several),
        (LabelSets("full", inference="relaxed"), table, few),
    ]


def estimators(graph):
    """On chains every solver; on the others one for each verb that solvers call."""
    options = {"C": 0.5, "max_iter": 2, "random_state": 0}
    marginals = not (isinstance(graph, MultiLabel) and graph.inference == "relaxed")
    is_chain = isinstance(graph, Chain) and not graph.edge_features
    solvers = ("sag", "saga", "lbfgs", "casimir") if is_chain else ("sag", "lbfgs")
    for solver in solvers if marginals else ():
        yield SAGCRF(graph, solver=solver, **options)
    if marginals and is_chain:
        yield SAGCRF(graph, margin="hamming", **options)
        yield CasimirSSVM(graph, smoothing="entropy", **options)
    if is_chain:
        yield BCFWSSVM(graph, **options)
        yield SubgradientSSVM(graph, **options)
    yield BCFWSSVM(graph, averaging=True, oracle_cache=True, sampling="gap", **options)
    if marginals:
        yield CasimirSSVM(graph, smoothing="l2", **options)
    if not getattr(graph, "edge_features", False):
        yield GDMMSSVM(graph, **options)
        yield GDMMSSVM(graph, algorithm="gdmm", **options)


def use(model, X, y):
    """Predict in every way, with two threads."""
    model.set_params(n_jobs=2)
    model.predict(X)
    model.score(X, y)
    if isinstance(model, SAGCRF):
        model.predict_marginals(X)
        if isinstance(model.graph_, Chain | Tree):
            model.predict_marginals(X, pairwise=True)
    if getattr(model.graph_, "inference", "auto") == "auto":
        model.predict_top_k(X, 3)


def main():
    for graph, X, y in structures():
        used = set()
        for model in estimators(graph):
            model.fit(X, y)
            if type(model) not in used:  # whatever solver found the weights
                use(model, X, y)
                used.add(type(model))
    # Many labels, few transitions: decoded by a problem of its own.
    names = np.arange(70)
    X, y = [np.eye(70)[:5], np.eye(70)], [names[:5], names]
    model = BCFWSSVM(Chains(), C=0.5, max_iter=1, random_state=0).fit(X, y)
    model.pair_weights_[:] *= np.arange(model.pair_weights_.size) % 9 == 0
    model.predict(X)
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(3, 2)) for _ in range(3)]
    try:
        BCFWSSVM(CheatingChains(), max_iter=1).fit(X, [["a", "b", "c"]] * 3)
    except ValueError as error:
        made["caught"] += "read-only" in str(error)
    json.dump(made, sys.stdout)


if __name__ == "__main__":
    main()
