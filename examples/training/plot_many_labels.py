"""
Hundreds of labels: GDMM against block-coordinate Frank-Wolfe
=============================================================

Reading a script of many characters through noise. A step of BCFW decodes a whole chain, all pairs
of labels at every character; GDMM only searches for the best new label of a node and the best new
pair of an edge, and takes a few passes more.
"""

# sphinx_gallery_tags = ["training", "Chain"]
# sphinx_gallery_thumbnail_number = 2
import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.exceptions import ConvergenceWarning

from skstruct import BCFWSSVM, GDMMSSVM
from skstruct.datasets import make_glyph_chains
from skstruct.inspection import ConvergenceDisplay

data = make_glyph_chains(100, 600, noise=0.5, random_state=0)
X, y = data.X[data.train], data.y[data.train]
X_test, y_test = data.X[~data.train], data.y[~data.train]
n_labels = len(np.unique(y.flat))
print(f"{len(X)} texts, {y.flat.size} characters, {n_labels} of them different")

models = {
    "GDMM": GDMMSSVM(rho=0.3, max_iter=40, gap_every=5, random_state=0),
    "BCFW": BCFWSSVM(max_iter=20, gap_every=4, n_cached=5, random_state=0),
}
# What a fixed number of passes gives is what is compared: neither has converged by then.
warnings.simplefilter("ignore", ConvergenceWarning)
for name, model in models.items():
    model.fit(X, y)
    # Some characters of the test part never occur in training: these count as wrong.
    accuracy = np.mean(np.concatenate(list(model.predict(X_test))) == y_test.flat)
    print(
        f"{name}: {model.n_iter_} passes, objective {model.objective_:.3f}, "
        f"at least {model.dual_objective_:.3f}; test accuracy {accuracy:.3f}"
    )

# %%
# Why it is fast: the active sets stay small. Of all labels a node keeps a few, of all pairs an edge
# keeps fewer.

history = models["GDMM"].history_
_, times = plt.subplots(figsize=(6, 4.2), layout="constrained")
_, sets = plt.subplots(figsize=(6, 4.2), layout="constrained")
ConvergenceDisplay.from_estimators(models, y="objective", x="seconds", ax=times)
times.set(yscale="log", title="objective against time")
sets.plot(history["passes"], history["node_set"], label=f"labels a node, of {n_labels}")
sets.plot(history["passes"], history["edge_set"], label=f"pairs an edge, of {n_labels**2:,}")
sets.set(xlabel="passes of GDMM", ylabel="mean size of the active set", ylim=0)
sets.legend()
plt.show()

# %%
# **Next:** :doc:`/guide/large_label_sets` has more ways to train with many labels.
