"""
Label sets: what interactions are worth
=======================================

Documents carry several labels, and labels keep company. Three structures on the same data: labels
on their own, the tree of their largest mutual information, and all pairs, which is trained on the
LP relaxation with a certificate.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import f1_score

from skstruct import GDMMSSVM, MultiLabel
from skstruct.datasets import make_label_sets

data = make_label_sets(1500, 1500, 30, n_words=25, random_state=0)
train, test = slice(0, 1000), slice(1000, None)
models = {}
for edges in (None, "tree", "full"):
    svm = GDMMSSVM(MultiLabel(edges), C=1.0, rho=0.1, tol=2e-2, random_state=0)
    models[edges] = svm.fit(data.X[train], data.Y[train])
    predicted = svm.predict(data.X[test])
    exact = (predicted == data.Y[test]).all(axis=1).mean()
    print(
        f"{edges or 'none':5s} objective {svm.objective_:.3f}, at least {svm.dual_objective_:.3f}; "
        f"micro F1 {f1_score(data.Y[test], predicted, average='micro'):.3f}, "
        f"whole sets right {exact:.3f}"
    )

# %%
# The learned interactions, against how often the two labels occur together in training: most of
# what is learned is which labels exclude each other; few pairs attract.

svm = models["full"]
Y = data.Y[train]
j, k = svm.graph_.edges_.T
together = (Y.T @ Y)[j, k]
expected = Y.sum(axis=0)[j] * Y.sum(axis=0)[k] / len(Y)
lift = np.log2((together + 1) / (expected + 1))
fig, ax = plt.subplots(layout="constrained")
points = ax.scatter(lift, svm.pairwise_coef_, c=np.log2(together + 1), cmap="viridis", s=18)
ax.axhline(0, color="grey", linewidth=0.8)
ax.axvline(0, color="grey", linewidth=0.8)
ax.set(
    xlabel="log2 of documents with both labels, seen / expected of independent labels",
    ylabel="learned score of both labels together",
)
fig.colorbar(points, label="log2 (documents with both + 1)")
plt.show()
