"""Change fitted models at random and use them: run by test_tampering.py in a process of its own.

Prints how many changed models were refused and how many worked; whatever else happens is a failure.
"""

import copy
import io
import json
import sys
import warnings
import zipfile

import numpy as np
import skops.io
from scipy import sparse

from skstruct import SAGCRF, Chain, MultiLabel, Tree

warnings.simplefilter("ignore")


def models():
    """Fitted models and what they predict."""
    rng = np.random.default_rng(0)
    lengths = (2, 3, 1, 4)
    X = [sparse.random(n, 40, 0.2, format="csr", random_state=rng) for n in lengths]
    y = [list("abca"[:n]) for n in lengths]
    options = {"max_iter": 1, "solver": "lbfgs"}
    chain = SAGCRF(Chain(), **options).fit(X, y)
    # A few weights only, so that the pickle holds CSR parts.
    chain.sparsify(float(np.quantile(np.abs(chain.node_weights_), 0.9)))
    trees = [(x.toarray(), np.arange(x.shape[0]) - 1) for x in X]
    tree = SAGCRF(Tree(), **options).fit(trees, y)
    table, sets = rng.normal(size=(8, 3)), rng.integers(0, 2, (8, 4))
    label_sets = SAGCRF(MultiLabel("tree"), **options).fit(table, sets)
    return [(chain, X), (tree, trees), (label_sets, table)]


def use(model, X):
    """Predict in every way; what comes out must be labels and numbers."""
    known = {0, 1} if model.graph_.has_label_sets else set(model.classes_.tolist())
    labels = model.predict(X)
    rows = [np.asarray(row) for row in labels]
    assert all(set(row.ravel().tolist()) <= known for row in rows), "labels that are none"
    for marginals in model.predict_marginals(X):
        assert np.isfinite(np.asarray(marginals, dtype=float)).all(), "NaN in marginals"
    for scores in model.predict_top_k(X, 2)[1]:
        assert np.isfinite(scores).all(), "NaN in scores"
    model.decision_function(X)
    model.coef_, model.intercept_, model.pairwise_coef_  # noqa: B018


def changed(array, rng):
    """An array that is wrong somewhere, or at least different."""
    array = np.array(array)
    extremes = [-1, 10**9, -(10**8), 2**31 - 1, np.nan, np.inf, 1e308, 0]
    how = rng.integers(8)
    if how < 3 and array.size:
        value = extremes[rng.integers(len(extremes))]
        with np.errstate(all="ignore"):
            if array.dtype.kind in "iu":
                value = int(np.clip(np.nan_to_num(value), -(2.0**31), 2.0**31 - 1))
            if array.dtype.kind in "iufb":
                array.flat[rng.integers(array.size)] = value
        return array
    if how == 3:
        return np.concatenate([array.ravel(), array.ravel()[:1]])
    if how == 4:
        return array[:-1] if array.ndim else array
    if how == 5:
        return array.reshape(-1, 1) if rng.integers(2) else array.T
    if how == 6 and array.dtype.kind in "iufb":
        return array.astype([np.float32, np.int64, np.int8, object][rng.integers(4)])
    return np.zeros((0,) * array.ndim, dtype=array.dtype)


class Count:
    """Counts what happened."""

    def __init__(self):
        self.refused = self.worked = 0

    def run(self, load, X):
        """Load a changed model and use it."""
        try:
            use(load(), X)
        except AssertionError:
            raise
        except Exception:
            self.refused += 1
        else:
            self.worked += 1


def tampered_files(model, X, n, rng, count):
    """Change arrays inside a skops file: as a file from somewhere that is well formed."""
    blob = skops.io.dumps(model)
    trusted = skops.io.get_untrusted_types(data=blob)
    with zipfile.ZipFile(io.BytesIO(blob)) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    arrays = [name for name in parts if name.endswith(".npy")]
    for _ in range(n):
        name = arrays[rng.integers(len(arrays))]
        file = io.BytesIO()
        np.save(file, changed(np.load(io.BytesIO(parts[name])), rng))
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as archive:
            for other, content in parts.items():
                archive.writestr(other, file.getvalue() if other == name else content)
        count.run(lambda out=out: skops.io.loads(out.getvalue(), trusted=trusted), X)


def tampered_state(model, X, n, rng, count):
    """Change numbers and arrays of the state that pickles carry."""
    for _ in range(n):
        state = copy.deepcopy(model.__getstate__())
        name = ["node_weights_", "pair_weights_", "n_features_in_", "classes_"][rng.integers(4)]
        value = state[name]
        if isinstance(value, dict):
            part = sorted(value)[rng.integers(len(value))]
            value[part] = (
                int(rng.choice([0, 1, 2, 10**6, -1, 2**40]))
                if part == "n_columns"
                else changed(value[part], rng)
            )
        elif isinstance(value, np.ndarray):
            state[name] = changed(value, rng)
        else:
            state[name] = [None, 0, 1, 10**7, -3, [1]][rng.integers(6)]

        def load(state=state):
            new = type(model)()
            new.__setstate__(state)
            return new

        count.run(load, X)


def tampered_attributes(model, X, n, rng, count):
    """Change attributes of a model in memory."""
    graph = ["edges_", "n_labels_", "edges", "tables", "boundary", "forbidden", "edge_features"]
    for _ in range(n):
        new = copy.deepcopy(model)
        names = ["node_weights_", "pair_weights_", "classes_", "n_features_in_", "_has_intercept"]
        owner = new.graph_ if rng.integers(2) else new
        if owner is new.graph_:
            names = [name for name in graph if hasattr(owner, name)]
        name = names[rng.integers(len(names))]
        value = getattr(owner, name)
        if isinstance(value, np.ndarray):
            value = changed(value, rng)
        else:
            value = [None, 0, 1, 5, 10**7, -3, True, "full", [(0, 1)]][rng.integers(9)]
        setattr(owner, name, value)
        count.run(lambda new=new: new, X)


def main(n):
    """Run all kinds of changes on all models."""
    rng, count = np.random.default_rng(1), Count()
    for model, X in models():
        use(model, X)
        for tamper in (tampered_files, tampered_state, tampered_attributes):
            tamper(model, X, n, rng, count)
    print(json.dumps(vars(count)))


if __name__ == "__main__":
    main(int(sys.argv[1]))
