"""
Hundreds of labels: GDMM against block-coordinate Frank-Wolfe
=============================================================

Reading a script of 600 characters through noise. A step of BCFW decodes a whole chain, 600 x 600
transitions a character; GDMM only searches for the best new label of a node and the best new pair
of an edge.
"""

import matplotlib.pyplot as plt
import numpy as np

from skstruct import BCFWSSVM, GDMMSSVM
from skstruct.datasets import make_glyph_chains
from skstruct.inspection import ConvergenceDisplay

data = make_glyph_chains(200, 600, noise=0.5, random_state=0)
X, y = data.X[data.train], data.y[data.train]
X_test, y_test = data.X[~data.train], data.y[~data.train]
models = {
    "GDMM": GDMMSSVM(C=1.0, rho=0.3, max_iter=40, gap_every=5, tol=5e-2, random_state=0),
    "BCFW": BCFWSSVM(C=1.0, max_iter=20, gap_every=4, tol=5e-2, n_cached=5, random_state=0),
}
for name, model in models.items():
    model.fit(X, y)
    seconds = model.history_["seconds"][-1]
    # Some characters of the test part never occur in training: these count as wrong.
    accuracy = np.mean(np.concatenate(list(model.predict(X_test))) == y_test.flat)
    print(
        f"{name}: {model.n_iter_} passes in {seconds:.1f} s, objective {model.objective_:.3f}, "
        f"at least {model.dual_objective_:.3f}; "
        f"test accuracy {accuracy:.3f}"
    )

# %%
# The active sets stay small: labels a node, pairs an edge.

history = models["GDMM"].history_
fig, axes = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
ConvergenceDisplay.from_estimators(models, y="objective", x="seconds", ax=axes[0])
axes[1].plot(history["passes"], history["node_set"], label="labels a node")
axes[1].plot(history["passes"], history["edge_set"], label="pairs an edge")
axes[1].set(xlabel="passes", ylabel="size of the active set")
axes[1].legend()
plt.show()
