"""
How many labels back?
=====================

``Chain(order=2)`` scores triples of labels, ``order=3`` runs of four, as far as they occur in
training. Here handwritten strings are codes from a list, as bus lines or model numbers are: a
higher order learns the list. So it helps on codes that it knows, and harms on others: choose it on
data that are as new as those it is for.
"""

# sphinx_gallery_tags = ["handwriting", "Chain"]
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from skstruct import SAGCRF, Chain
from skstruct.inspection import ngram_frame

rng = np.random.default_rng(0)
digits = load_digits()
pixels = digits.data / 16.0
images = [pixels[digits.target == digit] for digit in range(10)]
known, new = rng.integers(0, 10, size=(2, 30, 5))


def written(codes, n):
    """n codes of a list, each digit in some handwriting, with noise."""
    y = codes[rng.integers(len(codes), size=n)]
    X = [np.array([images[d][rng.integers(len(images[d]))] for d in code]) for code in y]
    return [x + rng.normal(scale=0.5, size=x.shape) for x in X], list(y)


X, y = written(known, 400)
tests = {"codes of the training data": written(known, 300), "other codes": written(new, 300)}
wrong: dict = {name: [] for name in tests}
for order in (1, 2, 3):
    model = SAGCRF(Chain(order=order, boundary=True), C=0.3, random_state=0).fit(X, y)
    for name, test in tests.items():
        wrong[name].append(100.0 * (1.0 - model.score(*test)))
        print(f"order {order}, {name}: {wrong[name][-1]:.1f} % of the digits are wrong")

fig, ax = plt.subplots(layout="constrained")
for name, values in wrong.items():
    ax.plot([1, 2, 3], values, marker="o", label=name)
ax.set(xlabel="order", ylabel="wrong digits, %", xticks=[1, 2, 3], ylim=0)
ax.legend()
plt.show()

# %%
# The last model has weights of these sequences. "<start>" and "<stop>" are the ends of a code.

print(ngram_frame(model)[:8])

# %%
# Cross-validation by random folds would have chosen order 3, since each code is in every fold.
# With ``GroupKFold`` on the codes it sees new ones, as the second curve does.

# %%
# **Next:** :doc:`/auto_examples/handwriting/plot_n_best_constrained` where a list is known;
# :ref:`structures_guide` has the options of chains.
