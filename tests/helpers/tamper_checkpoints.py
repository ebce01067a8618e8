"""Edit states of trainings on shards, checksums put right: run by test_tampering.py in a process.

Prints what became of each edit, by the array and the kind of change: "warned" if the state was
refused and the training went on from the one before, to the bits of the one without interruption;
"taken" if the state was taken, and every bound is below the optimum. All else is a failure.
"""

import io
import json
import shutil
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
from numpy.lib import format as npy
from sklearn.exceptions import ConvergenceWarning

from skstruct import BCFWSSVM, GDMMSSVM, SAGCRF
from skstruct.data import store
from skstruct.datasets import pack_shards
from skstruct.solvers.rounds import checkpoint
from skstruct.testing import random_sequences

_OPTIONS = {"C": 3.0, "tol": 1e-12, "random_state": 0}
_SVM = _OPTIONS | {"gap_every": 2}


def _one_value(array):
    array = array.copy()
    if not array.size:
        return array
    place = int(np.argmax(np.abs(np.nan_to_num(array.ravel(), posinf=0.0))))
    array.flat[place] += 7 if array.dtype.kind == "i" else 0.25
    return array


CHANGES = {
    "value": _one_value,
    "shape": lambda array: np.concatenate([array.ravel(), array.ravel()[:1]]),
    "empty": lambda array: array[:0],
    "dtype": lambda array: array.astype(np.float32 if array.dtype == np.float64 else np.int8),
    "minus": np.negative,
    "large": lambda array: np.full_like(array, np.nan if array.dtype.kind == "f" else 2**31 - 1),
}


def edit_array(folder, name, change):
    """Change an array that the last state names."""
    path = max(folder.glob("round-*.json"))
    state = json.loads(path.read_text())
    entry = (state["arrays"] | state["constant"])[name]
    # Under a name of its own: the state before may name the same file.
    file = f"a-{state['round']:08d}-edited.npy"
    entry |= store.write_array(folder / file, change(np.load(folder / entry["file"])))
    entry["file"] = file
    path.write_text(json.dumps(store.sealed(state)))


def edit_dual_point(folder, which, change):
    """Change an array of the newest file of workers, which no earlier state names."""
    path = max(folder.glob("a-*.dual"))
    file, arrays = io.BytesIO(path.read_bytes()[: -store._SUM]), []
    while file.tell() < len(file.getvalue()):
        arrays.append(npy.read_array(file))
    arrays[which] = change(arrays[which])
    store.write_tree(path, tuple(arrays))
    return len(arrays)


def fit(model, shards, rounds, **more):
    """The fit, and whether it says that a state is damaged."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.set_params(max_iter=rounds).fit(shards, **more)
    seen = [w for w in caught if not issubclass(w.category, ConvergenceWarning)]
    assert all("missing or damaged; round" in str(w.message) for w in seen), seen
    return bool(seen)


def edits(folder, model):
    """Names of all arrays, and how to change each."""
    state = json.loads(max(folder.glob("round-*.json")).read_text())
    for name in state["arrays"] | state["constant"]:
        yield name.split("-")[0], lambda place, change, name=name: edit_array(place, name, change)
    duals = sorted(folder.glob("a-*.dual"))
    n = 0
    if duals:
        with tempfile.TemporaryDirectory() as copy:
            shutil.copy(duals[-1], copy)
            n = edit_dual_point(Path(copy), 0, np.copy)
    for which in range(n):
        yield f"dual {which}", lambda place, change, q=which: edit_dual_point(place, q, change)


def main(n_changes):
    """Try some changes of every array: one of a value, and others in turn."""
    checkpoint.Keeper.SHARE = np.inf
    X, y = random_sequences(np.random.default_rng(7), n_samples=12, sparse_X=True)
    optima = {
        kind: kind(C=3.0, tol=1e-6, max_iter=3000, random_state=0).fit(X, y).objective_
        for kind in (BCFWSSVM, SAGCRF)
    }
    counts = {}
    with tempfile.TemporaryDirectory() as place:
        place = Path(place)
        shards = pack_shards(X, y, place / "shards", shard_size=6)
        for model in (BCFWSSVM(n_cached=2, **_SVM), GDMMSSVM(**_SVM), SAGCRF(**_OPTIONS)):
            kind = type(model)
            optimum = optima.get(kind, optima[BCFWSSVM])
            each = 3 if kind is BCFWSSVM else 1  # passes of a round
            fit(model, shards, 8 * each)
            known = [table.copy() for table in (model.node_weights_, model.pair_weights_)]
            folder = place / kind.__name__
            assert not fit(model, shards, 4 * each, checkpoint=folder)
            for k, (name, edit) in enumerate(edits(folder, model)):
                first, *others = CHANGES.items()
                turned = others[k % len(others) :] + others[: k % len(others)]
                for how, change in [first, *turned][:n_changes]:
                    copy = place / "copy"
                    shutil.copytree(folder, copy)
                    edit(copy, change)
                    warned = fit(model, shards, 8 * each, checkpoint=copy)
                    what = f"{kind.__name__} {name} {how}"
                    bounds = model.dual_objective_, *model.history_["dual_objective"]
                    assert np.nanmax(bounds) <= optimum * (1.0 + 1e-9), what
                    if warned:
                        found = model.node_weights_, model.pair_weights_
                        same = all(map(np.array_equal, known, found))
                        assert same, f"{what}: other weights"
                    counts[what] = "warned" if warned else "taken"
                    shutil.rmtree(copy)
    print(json.dumps(counts))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else len(CHANGES))
