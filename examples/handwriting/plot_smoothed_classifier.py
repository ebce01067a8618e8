"""
Any classifier, smoothed
========================

Sleep stages, activities, changes of land use, digits of dates: a classifier that looks at one step
at a time makes mistakes that its neighbours would correct. ``SmoothedClassifier`` takes any
classifier of scikit-learn, gets its scores by cross-fitting, and trains a CRF on them. Here the
steps are handwritten digits (8 x 8 pixels, by different writers in training and test), and the
sequences are dates.
"""

# sphinx_gallery_tags = ["handwriting", "time series", "Chain"]
import matplotlib.pyplot as plt
import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier

from skstruct import Chain, SmoothedClassifier
from skstruct.datasets import load_digit_strings
from skstruct.inspection import TransitionDisplay
from skstruct.metrics import sequence_accuracy_score

data = load_digit_strings(n_train=400, n_test=300, random_state=0)
classifiers = {
    "naive Bayes": GaussianNB(),
    "random forest": RandomForestClassifier(n_estimators=50, random_state=0),
    "nearest neighbours": KNeighborsClassifier(),
}

# %%
# Accuracy on digits, and on whole dates (exact match), by the classifier alone and smoothed.

shares, models = {}, {}
for name, classifier in classifiers.items():
    model = SmoothedClassifier(classifier, Chain(boundary=True)).fit(data.X_train, data.y_train)
    alone = [model.classifier_.predict(x) for x in data.X_test]
    smoothed = model.predict(data.X_test)
    shares[name] = [sequence_accuracy_score(data.y_test, found) for found in (alone, smoothed)]
    models[name] = model
    digits = np.mean(np.concatenate(alone) == data.y_test.flat)
    print(
        f"{name}: digits {digits:.3f} -> {model.score(data.X_test, data.y_test):.3f}, "
        "dates {:.3f} -> {:.3f}".format(*shares[name])
    )

_, bars = plt.subplots(figsize=(6, 4.2), layout="constrained")
_, table = plt.subplots(figsize=(6, 4.2), layout="constrained")
place = np.arange(len(shares))
for shift, label, column in ((-0.2, "alone", 0), (0.2, "smoothed", 1)):
    bars.bar(place + shift, [own[column] for own in shares.values()], 0.4, label=label)
bars.set_xticks(place, list(shares))
bars.set(ylabel="dates without an error", ylim=(0, 1))
bars.legend()
TransitionDisplay.from_estimator(models["random forest"].smoother_, ax=table)
table.set(title="weights of (digit, next digit)")
plt.show()

# %%
# What the smoother has learnt is in ``smoother_``, a ``SAGCRF`` whose features are the forest's
# log-probabilities. It has marginals, the n best labellings, and all else of a CRF. On images pass
# ``structure=Grid(attractive=True)`` and a ``smoother`` whose C held-out images choose; nodes
# without a label (None in y) are left out for the classifier, and the CRF sums over them.

forest = models["random forest"]
i = int(np.argmin([shares.max(axis=1).min() for shares in forest.predict_proba(data.X_test)]))
print(
    "".join(map(str, data.y_test[i])),
    "read as",
    "".join(map(str, forest.predict(data.X_test[i : i + 1])[0])),
)

# %%
# **Next:** :doc:`/auto_examples/time_series/plot_activity_recognition` has time series;
# :doc:`/auto_examples/text/plot_token_classifier` starts from scores as plain arrays.
