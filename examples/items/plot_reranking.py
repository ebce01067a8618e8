"""
Second thoughts: reranking an n-best list
=========================================

A chain sees a string of digits two at a time. What holds for the whole string, it cannot say: here
that the last digit is a check digit, which makes the sum of all divisible by ten, unless somebody
slipped, in one string of three. So a second model chooses among the chain's ten best outputs, by
features of whole strings.
"""

# sphinx_gallery_tags = ["handwriting", "reranking", "Candidates"]
# sphinx_gallery_thumbnail_path = "_static/guide/card_reranking.svg"
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from skstruct import SAGCRF, Candidates

# %%
# Strings of 4 to 8 handwritten digits with some noise; training and test images are different.

rng = np.random.default_rng(0)
pixels, digits = load_digits(return_X_y=True)
parts = np.array_split(rng.permutation(len(digits)), 3)


def strings(rows, n):
    """Images of digits whose sum is mostly divisible by ten, and the digits."""
    of_digit = [rows[digits[rows] == k] for k in range(10)]
    X, y = [], []
    for length in rng.integers(4, 9, size=n):
        y.append(rng.integers(0, 10, size=length))
        if rng.random() < 0.65:
            y[-1][-1] = -y[-1][:-1].sum() % 10
        images = pixels[[rng.choice(of_digit[k]) for k in y[-1]]] / 16.0
        X.append(images + 0.22 * rng.normal(size=images.shape))
    return X, y


X, y = strings(parts[0], 300)
X_lists, y_lists = strings(parts[1], 300)
X_test, y_test = strings(parts[2], 300)
chain = SAGCRF(C=0.1, random_state=0).fit(X, y)

# %%
# Lists for the second model come from strings that the chain has not been trained on, so that its
# scores are as unsure as they will be. A candidate's features: how much its score lacks of the best
# one, its rank, whether the sum is right.


def candidates(X):
    """The chain's ten best strings, and features of each."""
    labellings, scores = chain.predict_top_k(X, 10)
    tables = []
    for rows, of_rows in zip(labellings, scores, strict=True):
        right = np.array([row.sum() % 10 == 0 for row in rows])
        rank = np.arange(len(rows))
        lack = of_rows - of_rows[0]
        tables.append(np.column_stack([lack, rank / 10, right]))
    return labellings, tables


def losses(labellings, y):
    """Wrong digits of each candidate; the best one is right, whether or not it is the truth."""
    wrong = [
        np.array([np.sum(row != truth) for row in rows], dtype=float)
        for rows, truth in zip(labellings, y, strict=True)
    ]
    return [row - row.min() for row in wrong]


labellings, tables = candidates(X_lists)
reranker = SAGCRF(Candidates("losses"), C=1.0, random_state=0)
reranker.fit(tables, losses(labellings, y_lists))
for name, weight in zip(("lack", "rank", "sum"), reranker.coef_.ravel(), strict=True):
    print(f"weight of {name:6} {weight:5.2f}")

# %%
# Strings that are right on the test part: the chain's first output, the first whose sum is right,
# the second model's choice, and the most that any choice from the list could reach.

labellings, tables = candidates(X_test)


def share(chosen):
    """Share of strings that are right as a whole."""
    return np.mean([np.array_equal(a, b) for a, b in zip(chosen, y_test, strict=True)])


by_rule = [next((r for r in rows if r.sum() % 10 == 0), rows[0]) for rows in labellings]
closest = [
    rows[np.argmin(row)] for rows, row in zip(labellings, losses(labellings, y_test), strict=True)
]
chosen = [rows[k] for rows, k in zip(labellings, reranker.predict(tables), strict=True)]
shares = {
    "chain": share([rows[0] for rows in labellings]),
    "first with a right sum": share(by_rule),
    "reranked": share(chosen),
    "best of ten": share(closest),
}
for name, value in shares.items():
    print(f"{name:24} {value:.3f}")

# %%
# The second model has probabilities, too: strings of which it is sure are mostly right.

sure = np.array([row.max() for row in reranker.predict_marginals(tables)])
right = np.array([np.array_equal(a, b) for a, b in zip(chosen, y_test, strict=True)])
order = np.argsort(-sure, kind="stable")
_, bars = plt.subplots(figsize=(6, 4.2), layout="constrained")
_, curve = plt.subplots(figsize=(6, 4.2), layout="constrained")
bars.barh(list(shares), list(shares.values()), color=["0.7", "0.7", "tab:blue", "0.85"])
bars.invert_yaxis()
bars.set(xlabel="strings that are right", xlim=(0, 1))
kept = np.arange(1, len(right) + 1)
curve.plot(kept / len(right), np.cumsum(right[order]) / kept)
curve.set(xlabel="fraction of strings kept, most probable first", ylabel="accuracy on these")
plt.show()

# %%
# **Next:** :doc:`/auto_examples/handwriting/plot_n_best_constrained` has n-best lists and masks;
# :doc:`/items` describes candidates.
