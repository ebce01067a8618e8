"""
Named entities with feature dicts, tuned by a grid search
=========================================================

The input is sklearn-crfsuite's: one dict of features a token. ``SequenceVectorizer`` turns it into
sparse rows, ``GridSearchCV`` tunes ``C`` by chunk F1, and scikit-learn's ``ProgressBar`` shows how
far the search is.
"""

import matplotlib.pyplot as plt
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline

from skstruct import SAGCRF, Chain
from skstruct.datasets import make_annotated_sentences
from skstruct.metrics import SCORERS, chunk_f1_score
from skstruct.preprocessing import SequenceVectorizer


def features(words, t):
    found = {"word": words[t], "suffix": words[t][-3:], "title": words[t].istitle()}
    if t > 0:
        found["previous"] = words[t - 1]
    if t + 1 < len(words):
        found["next"] = words[t + 1]
    return found


def as_dicts(part):
    return [[features(words, t) for t in range(len(words))] for words in map(list, part.word)]


data = make_annotated_sentences(n_train=200, random_state=0)
X, y = as_dicts(data.train), data.train.entity

# %%
# Steps are tuned by their names, as always in scikit-learn.

model = Pipeline(
    [("features", SequenceVectorizer()), ("crf", SAGCRF(Chain(forbidden="iob2"), random_state=0))]
)
search = GridSearchCV(
    model,
    {"crf__C": [0.03, 0.1, 0.3, 1.0, 3.0, 10.0], "features__min_count": [1, 2]},
    scoring=SCORERS["chunk_f1"],
    cv=4,
)
try:
    from sklearn.callback import ProgressBar

    search.set_callbacks(ProgressBar(max_propagation_depth=0))
except (ImportError, AttributeError):  # needs rich, and a search that takes callbacks
    pass
search.fit(X, y)
print(search.best_params_, f"cross-validated chunk F1 {search.best_score_:.3f}")
f1 = chunk_f1_score(data.test.entity, search.predict(as_dicts(data.test)))
print(f"test chunk F1 {f1:.3f}")

# %%

results = search.cv_results_
fig, ax = plt.subplots(layout="constrained")
for min_count in (1, 2):
    chosen = [
        (p["crf__C"], mean, std)
        for p, mean, std in zip(
            results["params"], results["mean_test_score"], results["std_test_score"], strict=True
        )
        if p["features__min_count"] == min_count
    ]
    C, mean, std = zip(*chosen, strict=True)
    ax.errorbar(C, mean, yerr=std, marker="o", capsize=3, label=f"min_count={min_count}")
ax.set(xscale="log", xlabel="C", ylabel="chunk F1, 4 folds")
ax.legend()
plt.show()
