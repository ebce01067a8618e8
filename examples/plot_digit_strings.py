"""
Reading handwritten dates
=========================

A date is more than its digits: after "19" comes a decade, after the year a month. A linear-chain
CRF learns both the pictures and what follows what; a classifier of single digits sees only the
pictures. The dates are composed from the digit images that scikit-learn ships, train and test
digits by different writers, so nothing is downloaded.

Run ``python examples/plot_digit_strings.py``, with ``--plot [FILE]`` for a picture.
"""

# sphinx_gallery_tags = ["handwriting", "confidence", "Chain"]
import argparse
import time

import numpy as np
from sklearn.linear_model import LogisticRegression

from skstruct import SAGCRF, Chain, RaggedArray
from skstruct.datasets import load_digit_strings


def text(digits):
    return "".join(map(str, digits))


def plot(data, shown, predictions, marginals, file):
    import matplotlib.pyplot as plt

    fig, axes = plt.subplots(2, len(shown), figsize=(2.6 * len(shown), 4.6), squeeze=False)
    for (image_axis, axis), i in zip(axes.T, shown, strict=True):
        image = np.hstack([x.reshape(8, 8) for x in data.X_test[i]])
        image_axis.imshow(image, cmap="gray_r")
        image_axis.set(title=f"{data.strings_test[i]}\nread as {text(predictions[i])}")
        image_axis.axis("off")
        axis.imshow(marginals[i].T, cmap="Blues", vmin=0, vmax=1, aspect="auto")
        axis.set(xlabel="position", ylabel="probability of digit", yticks=range(10))
        axis.set(xticks=range(len(marginals[i])))
    fig.tight_layout()
    if file:
        fig.savefig(file, dpi=120)
        print(f"\npicture: {file}")


parser = argparse.ArgumentParser(description="Read handwritten dates with a CRF.")
parser.add_argument("--plot", nargs="?", const="digit_strings.png", metavar="FILE")
args = parser.parse_args()

# %%
# 1,000 dates to train on, 500 to test. Samples have 4 to 8 digits of 64 pixels each.

data = load_digit_strings(n_train=1000, n_test=500)
print(f"{len(data.X_train)} training dates, {len(data.X_test)} test dates, by different writers")

# %%
# The classifier of single digits, and the chain. ``boundary=True`` gives each digit a score of its
# own at the first and at the last position.

single = LogisticRegression(max_iter=2000).fit(data.X_train.flat, data.y_train.flat)

start = time.perf_counter()
crf = SAGCRF(Chain(boundary=True), random_state=0).fit(data.X_train, data.y_train)
seconds = time.perf_counter() - start
print(
    f"SAGCRF: {crf.n_iter_} epochs, {crf.history_['seconds'][-1]:.2f} s of training "
    f"({seconds:.1f} s with compiling or loading the kernels)\n"
)

# %%
# Accuracy by digit and by whole date.

singles = RaggedArray(single.predict(data.X_test.flat), data.X_test.offsets)
chains = crf.predict(data.X_test)


def whole(predictions):
    return np.mean([np.array_equal(p, y) for p, y in zip(predictions, data.y_test, strict=True)])


print("                       digits right   dates right")
print(
    f"LogisticRegression     {single.score(data.X_test.flat, data.y_test.flat):12.1%} "
    f"{whole(singles):13.1%}"
)
print(f"SAGCRF                 {crf.score(data.X_test, data.y_test):12.1%} {whole(chains):13.1%}\n")

# %%
# Dates that the two read differently: the chain knows which digits can follow, and says how sure it
# is.

marginals = crf.predict_marginals(data.X_test)
differ = [i for i in range(len(chains)) if not np.array_equal(singles[i], chains[i])]
print("date      single digits  chain     least certain digit")
for i in differ[:8]:
    sure = marginals[i].max(axis=1)
    weakest = int(sure.argmin())
    right = "" if text(chains[i]) == data.strings_test[i] else "  (wrong)"
    print(
        f"{data.strings_test[i]:9s} {text(singles[i]):14s} {text(chains[i]):9s} "
        f"{chains[i][weakest]} at {weakest}, p = {sure[weakest]:.2f}{right}"
    )

if args.plot is not None:
    plot(data, differ[:3], chains, marginals, args.plot)

# %%
# **Next:** :doc:`/auto_examples/text/plot_crfsuite_tutorial` is the first page on text,
# :doc:`/auto_examples/time_series/plot_activity_recognition` the one on sensors,
# :doc:`/auto_examples/handwriting/plot_n_best_constrained` uses what else is known about a date;
# :doc:`/guide/choosing` lists structures and estimators.
