"""
Callbacks: stop early, stop in time, keep a copy
================================================

With weak regularisation the weights go on growing long after the model has stopped getting better
on new data. ``EarlyStopping`` watches held-out samples and leaves the weights that were best there;
``TimeLimit`` ends a fit after some seconds, ``Checkpoint`` writes the model to a file meanwhile.
All of them are scikit-learn callbacks, set with ``set_callbacks``.
"""

# sphinx_gallery_tags = ["handwriting", "training", "Chain"]
# sphinx_gallery_thumbnail_number = 1
import tempfile
from pathlib import Path

import joblib
import matplotlib.pyplot as plt

from skstruct import SAGCRF
from skstruct.callbacks import Checkpoint, EarlyStopping, TimeLimit
from skstruct.datasets import load_digit_strings

data = load_digit_strings(n_train=60, n_test=600, random_state=0)
X, y = data.X_train, data.y_train
# Some dates to watch, the others to test.
watched = data.X_test[:300], data.y_test[:300]
X_test, y_test = data.X_test[300:], data.y_test[300:]

# %%
# To see what there is to gain, first a fit that watches but never stops: its patience is without
# end. ``validation`` may also be a fraction of the training samples, which are then held out.

options: dict = {"C": 100.0, "tol": 0.1, "solver": "sag", "random_state": 0}
watching = EarlyStopping(watched, patience=1000, restore_best=False)
whole = SAGCRF(**options, track_objective=True).set_callbacks(watching).fit(X, y)
early = SAGCRF(**options).set_callbacks(EarlyStopping(watched, patience=5)).fit(X, y)
for name, crf in (("to the tolerance", whole), ("early stopping", early)):
    print(f"{name:17s} {crf.n_iter_:3d} epochs, test accuracy {crf.score(X_test, y_test):.3f}")
print(
    f"best of the watched dates after {early.best_iter_} epochs: {early.best_validation_score_:.3f}"
)

# %%
# A limit on the time, and a copy on disk that can be loaded while the fit goes on. The model is
# complete at the end, and says how good it is.

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "crf.joblib"
    crf = SAGCRF(C=100.0, max_iter=10**6, tol=0.0, solver="sag", random_state=0)
    crf.set_callbacks(TimeLimit(1.0), Checkpoint(path, every_seconds=0.5)).fit(X, y)
    stored = joblib.load(path)
print(f"ended by the clock, {crf.suboptimality_:.1g} above the optimum at most")
print(f"the copy is as good: {stored.score(X_test, y_test) == crf.score(X_test, y_test)}")

# %%
# The training objective falls all the time. The watched dates are read best long before its end.

history = whole.history_
epochs = range(1, whole.n_iter_ + 1)
_, watched_plot = plt.subplots(figsize=(6, 4.2), layout="constrained")
_, objective_plot = plt.subplots(figsize=(6, 4.2), layout="constrained")
watched_plot.semilogx(epochs, history["validation_score"], color="0.6", label="watched dates")
best = early.best_iter_
watched_plot.plot(best, early.best_validation_score_, "o", label=f"kept: epoch {best}")
watched_plot.axvline(early.n_iter_, linestyle=":", label=f"stopped: epoch {early.n_iter_}")
watched_plot.set(xlabel="epochs", ylabel="accuracy on digits")
watched_plot.legend(loc="lower right")
objective_plot.loglog(epochs, history["objective"], label="objective")
objective_plot.axvline(early.n_iter_, linestyle=":")
objective_plot.set(xlabel="epochs", ylabel="training objective")
plt.show()

# %%
# **Next:** :doc:`/guide/model_selection` has early stopping within a search, :doc:`/scale` fits
# that outlive their process.
