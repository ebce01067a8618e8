"""
Training on labels that are not all there
=========================================

Annotators skip what they cannot read, or say "a 1 or a 7". Most dates then have a gap somewhere,
and leaving out every date with a gap throws most of the work away. A CRF can be trained on the
likelihood of what is known (the sum over all labellings that fit), a structural SVM by completing
the labels and training in turns. This example hides digits of handwritten dates and draws the
accuracy against the fraction that is hidden.

Run ``python examples/handwriting/plot_partial_labels.py``, with ``--plot [FILE]`` for a picture.
"""

# sphinx_gallery_tags = ["handwriting", "missing labels", "Chain"]
# sphinx_gallery_thumbnail_path = "_static/guide/card_partial_labels.svg"
import argparse

import numpy as np

from skstruct import BCFWSSVM, SAGCRF, Chain
from skstruct.datasets import load_digit_strings

SHARES = [0.1, 0.2, 0.3, 0.4, 0.5]


def hidden(strings, share, rng):
    """The digits, some of them missing, some of them one of two."""
    partial = []
    for digits in strings:
        draws, others = rng.random(len(digits)), rng.integers(10, size=len(digits))
        partial.append(
            [
                None if draw < share * 0.8 else {digit, other} if draw < share else digit
                for digit, draw, other in zip(
                    map(int, digits), draws, map(int, others), strict=True
                )
            ]
        )
    return partial


def plot(rows, file):
    import matplotlib.pyplot as plt

    fig, ax = plt.subplots(figsize=(6, 4))
    for name in rows[0][1]:
        ax.plot(SHARES, [row[1][name] for row in rows], "o-", label=name)
    ax.set(xlabel="fraction of digits without a label", ylabel="accuracy on test digits")
    ax.set_title("Dates with missing labels")
    ax.legend()
    fig.tight_layout()
    if file:
        fig.savefig(file, dpi=120)
        print(f"\npicture: {file}")


parser = argparse.ArgumentParser(description="Train on dates with missing labels.")
parser.add_argument("--plot", nargs="?", const="partial_labels.png", metavar="FILE")
args = parser.parse_args()

# %%
# 400 dates to train on. A missing label is None, a label that is one of several is a set.

data = load_digit_strings(n_train=400, n_test=500)
X, y = list(data.X_train), list(data.y_train)
print(f"with every second digit hidden: {hidden(y, 0.5, np.random.default_rng(0))[0]}\n")

# %%
# The two ways to train on all that is known, and a CRF on the dates without a gap.

rng, rows = np.random.default_rng(0), []
graph = Chain(boundary=True)
for share in SHARES:
    partial = hidden(y, share, rng)
    complete = [i for i, digits in enumerate(partial) if set(map(type, digits)) == {int}]
    models = {
        "marginal likelihood": SAGCRF(graph, tol=1e-2, random_state=0).fit(X, partial),
        "latent hinge": BCFWSSVM(graph, C=0.1, random_state=0).fit(X, partial),
        "complete dates only": SAGCRF(graph, tol=1e-2, random_state=0).fit(
            [X[i] for i in complete], [y[i] for i in complete]
        ),
    }
    scores = {name: model.score(data.X_test, data.y_test) for name, model in models.items()}
    rows.append((share, scores))
    print(
        f"{share:.0%} hidden, {len(complete):3d} dates complete: "
        + ", ".join(f"{name} {score:.1%}" for name, score in scores.items())
    )

# %%
# Nodes without a label do not count in ``score`` and in metrics, and likelihoods are those of what
# is known.

crf = models["marginal likelihood"]
print(f"\nright among the known training digits: {crf.score(X, partial):.1%}")
known = crf.predict_log_likelihood(X, partial)
print(f"log-likelihood of what is known, a date: {known.mean():.2f}")

if args.plot is not None:
    plot(rows, args.plot)

# %%
# **Next:** :doc:`/imperfect_labels` describes missing, ambiguous and uncertain labels,
# :doc:`/guide/losses` the objectives.
