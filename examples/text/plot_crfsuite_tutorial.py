"""
The sklearn-crfsuite tutorial, side by side
===========================================

Named entities with the steps of sklearn-crfsuite's tutorial: a function from a sentence to dicts of
features, a fit, a report without "O", a random search over L1 and L2, and a look at what the model
has learned. The features need no change; the old calls are quoted above the new ones.
:doc:`/migration` has the table of all parameters.

The tutorial reads CoNLL 2002. Here the sentences are generated, so that nothing is downloaded; for
Dutch of CoNLL 2002 write ``fetch_conll2002_dutch()``.
"""

# sphinx_gallery_tags = ["named entities", "model selection", "Chain"]
# sphinx_gallery_thumbnail_path = "_static/guide/card_crfsuite_tutorial.svg"
import matplotlib.pyplot as plt
from scipy.stats import loguniform, uniform
from sklearn.metrics import classification_report, f1_score
from sklearn.model_selection import RandomizedSearchCV

from skstruct import SAGCRF, Chain
from skstruct.datasets import make_annotated_sentences
from skstruct.inspection import TransitionDisplay, top_features, transition_frame
from skstruct.metrics import SCORERS, flatten
from skstruct.pipeline import make_pipeline
from skstruct.preprocessing import SequenceVectorizer

data = make_annotated_sentences(n_train=200, random_state=0)

# %%
# Features
# --------
#
# The function of the tutorial works as it is: strings, numbers and booleans in a dict.


def word2features(sent, i):
    word, postag = sent[i]
    features = {
        "bias": 1.0,
        "word.lower()": word.lower(),
        "word[-3:]": word[-3:],
        "word.isupper()": word.isupper(),
        "word.istitle()": word.istitle(),
        "word.isdigit()": word.isdigit(),
        "postag": postag,
    }
    for shift, sign in ((-1, "-1:"), (1, "+1:")):
        if 0 <= i + shift < len(sent):
            word, postag = sent[i + shift]
            features[sign + "word.lower()"] = word.lower()
            features[sign + "word.istitle()"] = word.istitle()
            features[sign + "postag"] = postag
        else:
            features["BOS" if shift < 0 else "EOS"] = True
    return features


def sent2features(sent):
    return [word2features(sent, i) for i in range(len(sent))]


def sentences(part):
    return [list(zip(*rows, strict=True)) for rows in zip(part.word, part.pos, strict=True)]


X_train = [sent2features(sent) for sent in sentences(data.train)]
X_test = [sent2features(sent) for sent in sentences(data.test)]
y_train, y_test = data.train.entity, data.test.entity

# %%
# Training
# --------
#
# .. code-block:: python
#
#     crf = sklearn_crfsuite.CRF(algorithm="lbfgs", c1=0.1, c2=0.1, max_iterations=100,
#                                all_possible_transitions=True)
#     crf.fit(X_train, y_train)
#
# ``c1`` and ``c2`` become ``C`` and ``l1_ratio``. What CRFsuite cannot do: ``forbidden="iob2"``
# leaves out steps like "O" to "I-PER", and training ends by a certificate, not after some number of
# iterations.


def from_crfsuite(c1, c2) -> dict:
    return {"C": 1 / (c1 + 2 * c2), "l1_ratio": c1 / (c1 + 2 * c2)}


crf = SAGCRF(Chain(forbidden="iob2"), **from_crfsuite(c1=0.1, c2=0.1), random_state=0)
model = make_pipeline(SequenceVectorizer(), crf)
model.fit(X_train, y_train)

# %%
# Evaluation
# ----------
#
# .. code-block:: python
#
#     labels = list(crf.classes_)
#     labels.remove("O")
#     y_pred = crf.predict(X_test)
#     metrics.flat_f1_score(y_test, y_pred, average="weighted", labels=labels)
#     print(metrics.flat_classification_report(y_test, y_pred, labels=labels, digits=3))

labels = [label for label in crf.classes_ if label != "O"]
y_pred = model.predict(X_test)
flat = flatten(y_test, y_pred)
print(f"F1 of tokens: {f1_score(*flat, average='weighted', labels=labels):.3f}")
print(classification_report(*flat, labels=labels, digits=3))

# %%
# Hyperparameters
# ---------------
#
# .. code-block:: python
#
#     params_space = {"c1": scipy.stats.expon(scale=0.5), "c2": scipy.stats.expon(scale=0.05)}
#     f1_scorer = make_scorer(metrics.flat_f1_score, average="weighted", labels=labels)
#     rs = RandomizedSearchCV(crf, params_space, cv=3, n_iter=50, scoring=f1_scorer)
#
# ``C`` is the strength of both, ``l1_ratio`` the fraction of L1. Names are scored, not tokens;
# ``GridSearchCV`` and the others of scikit-learn work as well.

space = {"sagcrf__C": loguniform(0.1, 100), "sagcrf__l1_ratio": uniform(0, 1)}
search = RandomizedSearchCV(
    model, space, n_iter=12, cv=3, scoring=SCORERS["chunk_f1"], random_state=0
)
search.fit(X_train, y_train)
print("best:", {name: round(float(value), 3) for name, value in search.best_params_.items()})
print(f"cross-validated F1 of names {search.best_score_:.3f}")

# %%
# What the model has learned
# --------------------------
#
# .. code-block:: python
#
#     print_transitions(Counter(crf.transition_features_).most_common(20))
#     print_state_features(Counter(crf.state_features_).most_common(30))

best = search.best_estimator_
transition_frame(best).round(2)

# %%

top_features(best, k=2)

# %%
# The plot of the tutorial: both parameters, coloured by the score. Of the transitions, those that
# the tagging scheme forbids are left out.

fig, search_plot = plt.subplots(figsize=(6, 4.2), layout="constrained")
_, transitions = plt.subplots(figsize=(6, 4.2), layout="constrained")
tried = search.cv_results_
points = search_plot.scatter(
    tried["param_sagcrf__C"].astype(float),
    tried["param_sagcrf__l1_ratio"].astype(float),
    c=tried["mean_test_score"],
    s=90,
    cmap="viridis",
)
search_plot.set(xscale="log", xlabel="C", ylabel="l1_ratio", title="random search")
fig.colorbar(points, label="F1 of names, 3 folds")
TransitionDisplay.from_estimator(best, ax=transitions)
transitions.set_title("learned transitions")
plt.show()

# %%
# **Next:** :doc:`/auto_examples/text/plot_ner_grid_search` analyses the errors of such a model,
# :doc:`/auto_examples/text/plot_confident_chunks` its confidence; :doc:`/migration` lists all
# parameters of CRFsuite, CRF++ and Wapiti.
