"""
Structural SVMs: four solvers, one optimum, and a certificate
=============================================================

BCFW works on the dual and knows at every moment how far it is from the optimum. Casimir and the
stochastic subgradient method work on the primal; Casimir's snapshots give a dual bound, too.
"""

# sphinx_gallery_tags = ["training", "Chain"]
# sphinx_gallery_thumbnail_number = 1
import matplotlib.pyplot as plt

from skstruct import BCFWSSVM, CasimirSSVM, SubgradientSSVM
from skstruct.datasets import load_digit_strings
from skstruct.inspection import ConvergenceDisplay

data = load_digit_strings(n_train=300, n_test=300, random_state=0)
common: dict = {"C": 0.1, "random_state": 0}
models = {
    "BCFW, pairwise": BCFWSSVM(**common, gap_every=1, tol=1e-3),
    "BCFW, Frank-Wolfe": BCFWSSVM(**common, gap_every=1, tol=1e-2, steps="frank-wolfe"),
    "Casimir": CasimirSSVM(**common, tol=5e-2),
    "Pegasos": SubgradientSSVM(**common, tol=1e-3),
}
for name, model in models.items():
    model.fit(data.X_train, data.y_train)
    gap = getattr(model, "dual_gap_", float("nan"))
    accuracy = model.score(data.X_test, data.y_test)
    print(
        f"{name:18s} objective {model.objective_:.4f}, duality gap {gap:.4f}, "
        f"{model.n_oracle_calls_} oracle calls, test accuracy {accuracy:.3f}"
    )

# %%
# The best dual bound of all is a certified reference for the suboptimality of each.

bound = max(getattr(model, "dual_objective_", 0.0) for model in models.values())
_, passes = plt.subplots(figsize=(6, 4.2), layout="constrained")
_, seconds = plt.subplots(figsize=(6, 4.2), layout="constrained")
ConvergenceDisplay.from_estimators(models, y="excess", optimum=bound, ax=passes)
ConvergenceDisplay.from_estimators(models, y="excess", optimum=bound, x="seconds", ax=seconds)
plt.show()

# %%
# **Next:** :doc:`/auto_examples/training/plot_extragradient` has one more solver;
# :doc:`/guide/solvers` says which one to take.
