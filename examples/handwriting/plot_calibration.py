"""
Are the marginals calibrated?
=============================

A CRF's marginals are probabilities. Among the digits to which it gives probability 0.8, are 80 %
right? ``cross_val_marginals`` gives every training sample the marginals of a model that has not
seen it; the reliability curve is scikit-learn's.
"""

# sphinx_gallery_tags = ["handwriting", "confidence", "Chain"]
import matplotlib.pyplot as plt
import numpy as np
from sklearn.calibration import calibration_curve
from sklearn.metrics import log_loss

from skstruct import SAGCRF
from skstruct.datasets import load_digit_strings
from skstruct.inspection import MarginalsDisplay
from skstruct.model_selection import cross_val_marginals

data = load_digit_strings(n_train=600, n_test=300, random_state=0)
X, y = data.X_train, data.y_train

fig, ax = plt.subplots(layout="constrained")
ax.plot([0, 1], [0, 1], color="grey", linestyle=":")
for C in (0.01, 0.1, 1.0):
    model = SAGCRF(C=C, tol=1e-2, random_state=0)
    marginals, classes = cross_val_marginals(model, X, y, cv=3)
    flat = np.concatenate(list(marginals))
    truth = y.flat[:, None] == classes
    share, stated = calibration_curve(truth.ravel(), flat.ravel(), n_bins=10)
    ax.plot(stated, share, marker="o", label=f"C = {C}")
    print(f"C = {C}: log loss per digit {log_loss(y.flat, flat, labels=classes):.3f}")
ax.set(xlabel="stated probability", ylabel="fraction that is right")
ax.legend()

# %%
# One string of the test set: where the model is unsure, two digits share the probability.

model = SAGCRF(C=1.0, random_state=0).fit(X, y)
least = [marginal.max(axis=1).min() for marginal in model.predict_marginals(data.X_test)]
i = int(np.argmin(least))
MarginalsDisplay.from_estimator(model, data.X_test[i], tokens=data.y_test[i])
plt.gca().set(xlabel="true digit")
plt.show()

# %%
# **Next:** :doc:`/auto_examples/text/plot_confident_chunks` calibrates the probabilities of whole
# entities; :doc:`/guide/decisions` turns probabilities into decisions.
