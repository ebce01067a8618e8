"""
n-best lists and constrained decoding
=====================================

What if the best labelling is wrong? ``predict_top_k`` gives the runners-up with their scores, and
``predict(X, allowed=...)`` takes what else is known into account: here that digit strings are
calendar dates between 1950 and 2029.
"""

# sphinx_gallery_tags = ["handwriting", "constraints", "Chain"]
# sphinx_gallery_thumbnail_path = "_static/guide/card_n_best_constrained.svg"
import matplotlib.pyplot as plt
import numpy as np

from skstruct import SAGCRF
from skstruct.datasets import load_digit_strings

data = load_digit_strings(n_train=600, n_test=300, random_state=0)
model = SAGCRF(random_state=0).fit(data.X_train, data.y_train)


def accuracy(predicted):
    right = [(a == b).all() for a, b in zip(predicted, data.y_test, strict=True)]
    return float(np.mean(right))


plain = model.predict(data.X_test)
print(f"whole strings right: {accuracy(plain):.3f}")

# %%
# Among the k best labellings the true one is found more and more often.

labellings, scores = model.predict_top_k(data.X_test, 20)
rank = [
    next((r for r, row in enumerate(rows) if (row == truth).all()), np.inf)
    for rows, truth in zip(labellings, data.y_test, strict=True)
]
found = [np.mean(np.array(rank) < k) for k in range(1, 21)]
i = int(np.argmax(np.where(np.isfinite(rank), rank, -1)))
print(f"true string {''.join(map(str, data.y_test[i]))}, best five with their scores:")
for row, score in zip(labellings[i][:5], scores[i][:5], strict=True):
    print(f"  {''.join(map(str, row))}  {score:.2f}")

# %%
# Masks say which labels are possible at each position: a string of eight digits begins with the
# year, 19 or 20, and its fifth digit begins a month, 0 or 1.


def mask(length):
    allowed = np.ones((length, 10), dtype=bool)
    if length == 8:
        for position, digits in ((0, [1, 2]), (1, [9, 0]), (4, [0, 1]), (6, [0, 1, 2, 3])):
            allowed[position] = np.isin(np.arange(10), digits)
    return allowed


constrained = model.predict(data.X_test, allowed=[mask(len(x)) for x in data.X_test])
print(f"with what is known of dates: {accuracy(constrained):.3f}")

# %%
# Or choose the best of the 20 that is a date at all.


def is_date(digits):
    text = "".join(map(str, digits))
    if len(text) != 8:
        return True
    return 1950 <= int(text[:4]) <= 2029 and 1 <= int(text[4:6]) <= 12 and 1 <= int(text[6:]) <= 31


chosen = [next((row for row in rows if is_date(row)), rows[0]) for rows in labellings]
print(f"best of 20 that is a date: {accuracy(chosen):.3f}")

fig, ax = plt.subplots(layout="constrained")
ax.plot(range(1, 21), found, marker="o", label="true string is among the k best")
ax.axhline(accuracy(chosen), color="C2", linestyle="--", label="first of 20 that is a date")
ax.axhline(accuracy(constrained), color="C1", linestyle=":", label="best one under the masks")
ax.set(xlabel="k", ylabel="fraction of test strings", xticks=range(1, 21, 2))
ax.legend(loc="lower right")
plt.show()

# %%
# **Next:** :doc:`/auto_examples/items/plot_reranking` learns to choose from the list;
# :doc:`/guide/inference` has all predictions of a fitted model.
