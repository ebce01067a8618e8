"""
A structural SVM as a saddle point
==================================

ExtragradientSSVM moves weights and mixtures of labellings at once, and needs projections where
others need best labellings. Its certificate is that of all structural SVMs, and so are its optima.
BCFW visits one sample at a time, and is ahead on one core.
"""

# sphinx_gallery_tags = ["training", "Chain"]
# sphinx_gallery_thumbnail_number = 1
import matplotlib.pyplot as plt
import numpy as np

from skstruct import BCFWSSVM, ExtragradientSSVM
from skstruct.datasets import load_digit_strings

data = load_digit_strings(n_train=120, n_test=200, random_state=0)
models = {}
for C in (0.01, 0.1):
    common: dict = {"C": C, "tol": 3e-3}
    models[f"BCFW, C = {C}"] = BCFWSSVM(**common, gap_every=1, random_state=0)
    models[f"extragradient, C = {C}"] = ExtragradientSSVM(**common)
for name, model in models.items():
    model.fit(data.X_train, data.y_train)
    print(
        f"{name:25s} objective {model.objective_:.4f}, at least {model.dual_objective_:.4f}, "
        f"{model.n_oracle_calls_} oracle calls, test accuracy "
        f"{model.score(data.X_test, data.y_test):.3f}"
    )

# %%
# The certified gap of each, relative to its objective. It is measured now and then.

for x in ("passes", "seconds"):
    _, ax = plt.subplots(figsize=(6, 4.2), layout="constrained")
    for name, model in models.items():
        history = model.history_
        known = np.isfinite(history["dual_gap"])
        gap = history["dual_gap"][known] / model.objective_
        style = "-" if name.startswith("BCFW") else "--"
        ax.loglog(history[x][known], gap, style, label=name)
    ax.set(xlabel=x, ylabel="relative duality gap")
    ax.legend()
plt.show()

# %%
# Instead of C it takes the largest norm of the weights. The ball whose radius is the norm of a
# solution has the same solution.

solution = models["BCFW, C = 0.1"]
tables = solution.node_weights_, solution.pair_weights_
radius = float(np.sqrt(sum((table**2).sum() for table in tables)))
ball = ExtragradientSSVM(radius=radius, tol=3e-3, max_iter=2000).fit(data.X_train, data.y_train)
apart = np.linalg.norm(ball.coef_ - solution.coef_) / np.linalg.norm(solution.coef_)
print(f"radius {radius:.3f}: {100 * apart:.1f} percent from the solution for C = 0.1")

# %%
# **Next:** :doc:`/auto_examples/training/plot_ssvm_solvers` compares the others;
# :doc:`/guide/solvers` says which one to take.
