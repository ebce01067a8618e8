"""
Named entities with feature dicts, tuned by a grid search
=========================================================

The input is sklearn-crfsuite's: one dict of features a token. ``SequenceVectorizer`` turns it into
sparse rows, ``GridSearchCV`` tunes ``C`` by chunk F1, and with it how many words on either side a
token sees: features are a step of the pipeline, so they are searched over as well. scikit-learn's
``ProgressBar`` shows how far the search is.
"""

from functools import partial

import matplotlib.pyplot as plt
from sklearn.model_selection import GridSearchCV

from skstruct import SAGCRF, Chain
from skstruct.datasets import make_annotated_sentences
from skstruct.metrics import SCORERS, chunk_f1_score
from skstruct.pipeline import Pipeline
from skstruct.preprocessing import SequenceVectorizer


def features(words, t, window):
    found = {"word": words[t], "suffix": words[t][-3:], "title": words[t].istitle()}
    for offset in range(-window, window + 1):
        if offset != 0 and 0 <= t + offset < len(words):
            found[f"word{offset:+d}"] = words[t + offset]
    return found


def as_dicts(words, window):
    words = words.tolist()
    return [features(words, t, window) for t in range(len(words))]


data = make_annotated_sentences(n_train=200, random_state=0)
X, y = data.train.word, data.train.entity
print(as_dicts(X[0], window=1)[0])

# %%
# Steps are tuned by their names, as always in scikit-learn. To save such a model, put ``as_dicts``
# into a module that the program that loads it can import (:ref:`own_features`).

model = Pipeline(
    [
        ("vectorizer", SequenceVectorizer()),
        ("crf", SAGCRF(Chain(forbidden="iob2"), random_state=0)),
    ]
)
search = GridSearchCV(
    model,
    {
        "vectorizer__features": [partial(as_dicts, window=window) for window in (0, 1, 2)],
        "crf__C": [0.03, 0.1, 0.3, 1.0, 3.0, 10.0],
    },
    scoring=SCORERS["chunk_f1"],
    cv=4,
)
try:
    from sklearn.callback import ProgressBar

    search.set_callbacks(ProgressBar(max_propagation_depth=0))
except (ImportError, AttributeError):  # needs rich, and a search that takes callbacks
    pass
search.fit(X, y)
best = search.best_params_["vectorizer__features"].keywords | {"C": search.best_params_["crf__C"]}
print(best, f"cross-validated chunk F1 {search.best_score_:.3f}")
print(f"test chunk F1 {chunk_f1_score(data.test.entity, search.predict(data.test.word)):.3f}")

# %%
# No ``C`` makes up for the words before and behind: "near" and "Mr." say what a name is. A second
# word on either side adds features, and nothing else. Bars are standard deviations over the folds.

results = search.cv_results_
fig, ax = plt.subplots(layout="constrained")
for window in (0, 1, 2):
    chosen = [
        (p["crf__C"], mean, std)
        for p, mean, std in zip(
            results["params"], results["mean_test_score"], results["std_test_score"], strict=True
        )
        if p["vectorizer__features"].keywords["window"] == window
    ]
    C, mean, std = zip(*chosen, strict=True)
    ax.errorbar(C, mean, yerr=std, marker="o", capsize=3, label=f"{window} words on either side")
ax.set(xscale="log", xlabel="C", ylabel="chunk F1, 4 folds")
ax.legend()
plt.show()
