"""
Scores of a token classifier under BIO rules
============================================

A network or a classifier of single tokens scores the labels of each token and does not see those of
its neighbours: I-ORG after O, which no chunk is made of, is as good as any other label.
:func:`skstruct.decode` takes such scores, as plain arrays, and finds the best labelling that
follows the tagging scheme; :func:`skstruct.fit_transitions` learns from labelled scores which steps
are likely, too.
"""

# sphinx_gallery_tags = ["named entities", "neural networks", "Chain"]
# sphinx_gallery_thumbnail_path = "_static/guide/card_token_classifier.svg"
import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold, cross_val_predict

from skstruct import RaggedArray, decode, fit_transitions, marginals
from skstruct.datasets import make_annotated_sentences
from skstruct.metrics import chunk_f1_score
from skstruct.preprocessing import SequenceVectorizer

data = make_annotated_sentences(n_train=400, n_test=400, random_state=0)


def features(words, t):
    """The ends of a token and of the one before: too few to tell names apart for sure."""
    found = {"suffix": words[t][-2:], "title": words[t].istitle(), "first": t == 0}
    return found | ({"previous": words[t - 1][-2:]} if t > 0 else {})


def as_dicts(part):
    return [[features(words, t) for t in range(len(words))] for words in map(list, part.word)]


vectorizer = SequenceVectorizer().fit(as_dicts(data.train))
X, X_test = (vectorizer.transform(as_dicts(part)) for part in (data.train, data.test))
y, y_test = data.train.entity, data.test.entity

# %%
# The classifier: it could be anything that has scores of labels for each token.

classifier = LogisticRegression(C=3.0, max_iter=1000).fit(X.flat, y.flat)
labels = classifier.classes_
scores = RaggedArray(classifier.predict_log_proba(X_test.flat), X_test.offsets)

# %%
# Its best labels one by one, and the best that follow the scheme. A step score comes from scores
# that the classifier gives to sentences it has not seen, hence the folds.

alone = decode(scores, labels=labels)
ruled = decode(scores, labels=labels, scheme="bio")
sentence = np.repeat(np.arange(len(X)), X.lengths)
folds = {"cv": GroupKFold(5), "groups": sentence, "method": "predict_log_proba"}
held_out = cross_val_predict(classifier, X.flat, y.flat, **folds)
held_out = RaggedArray(held_out, X.offsets)
six = fit_transitions(held_out, y, scheme="bio", labels=labels, kind="biases")
table = fit_transitions(held_out, y, scheme="bio", labels=labels)
print({step: round(value, 2) for step, value in six.biases.items()})

found = {
    "each token alone": alone,
    "BIO rules": ruled,
    "and six biases": decode(scores, six, labels=labels),
    "and all steps": decode(scores, table, labels=labels),
}
f1 = {name: chunk_f1_score(y_test, labelling) for name, labelling in found.items()}
for name, value in f1.items():
    print(f"{name:<17} F1 of chunks {value:.3f}")

# %%
# One sentence whose labels change, with the probabilities of labels before and after: a softmax of
# each token, and marginals over all labellings that follow the scheme.

i = next(i for i in range(len(alone)) if list(alone[i]) != list(ruled[i]))
shown = marginals(scores[i]), marginals(scores[i], table)
fig, axes = plt.subplots(1, 3, figsize=(11, 4), layout="constrained", width_ratios=[1, 1.3, 1.3])
axes[0].barh([*f1], [*f1.values()], color="0.6")
axes[0].set(xlim=(min(f1.values()) - 0.05, 1.0), title="F1 of chunks")
axes[0].invert_yaxis()
for ax, chances, title in zip(axes[1:], shown, ("each token alone", "all steps"), strict=True):
    ax.imshow(chances.T, vmin=0, vmax=1, cmap="Blues", aspect="auto")
    ax.set_yticks(range(len(labels)), labels)
    ax.set_xticks(range(len(chances)), list(data.test.word[i]), rotation=60, ha="right")
    ax.set_title(title)
plt.show()

# %%
# **Next:** :doc:`/auto_examples/text/network_tagger` trains a network and a CRF together,
# :doc:`/auto_examples/handwriting/plot_smoothed_classifier` wraps a classifier and a CRF as one
# estimator.
