"""
Costs: an error that must not happen
====================================

Before a text is published, names of people are to be blacked out. A name that is missed costs more
than a word that is blacked out for nothing. ``loss`` of a structural SVM says how much more: a dict
from label to the cost of missing it, or a matrix for all pairs of labels.
"""

# sphinx_gallery_tags = ["named entities", "costs", "Chain"]
# sphinx_gallery_thumbnail_path = "_static/guide/card_costs.svg"
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.metrics import precision_score, recall_score

from skstruct import BCFWSSVM, Chain
from skstruct.datasets import make_annotated_sentences
from skstruct.preprocessing import SequenceVectorizer

data = make_annotated_sentences(n_train=200, n_test=300, random_state=0)


def features(words, t):
    """Too few to tell names apart for sure: there are errors to choose between."""
    found = {"suffix": words[t][-1], "title": words[t].istitle(), "first": t == 0}
    if t > 0:
        found["previous"] = words[t - 1][-1]
    return found


def as_dicts(part):
    return [[features(words, t) for t in range(len(words))] for words in map(list, part.word)]


vectorizer = SequenceVectorizer().fit(as_dicts(data.train))
X, X_test = (vectorizer.transform(as_dicts(part)) for part in (data.train, data.test))
y = data.train.entity
is_person = np.char.endswith(data.test.entity.flat.astype(str), "-PER")

# %%
# A matrix of costs as a DataFrame, rows true, columns predicted: taking one kind of name for
# another costs 1 as before, and so does a word too many; a person that is missed costs more.

LABELS = ["B-LOC", "B-ORG", "B-PER", "I-ORG", "I-PER", "O"]
people = ["B-PER", "I-PER"]


def costs(factor):
    table = pd.DataFrame(1.0 - np.eye(len(LABELS)), index=LABELS, columns=LABELS)
    table.loc[people, [label for label in LABELS if label not in people]] = factor
    return table


costs(10.0)

# %%
# Recall of the tokens of people rises with their cost, at the price of precision. Each fit goes on
# from the one before. Costs are margins: they need a C at which the weights can still grow.

factors = [1.0, 2.0, 5.0, 10.0, 20.0]
recall, precision = [], []
svm = BCFWSSVM(Chain(forbidden="iob2"), C=1.0, warm_start=True, random_state=0)
for factor in factors:
    svm.set_params(loss=costs(factor)).fit(X, y)
    found = np.char.endswith(np.concatenate(list(svm.predict(X_test))).astype(str), "-PER")
    recall.append(recall_score(is_person, found))
    precision.append(precision_score(is_person, found))
    print(
        f"cost {factor:4g}: {np.sum(is_person & ~found):3d} of {is_person.sum()} tokens of people "
        f"missed, {np.sum(found & ~is_person):3d} blacked out for nothing"
    )

fig, ax = plt.subplots(figsize=(7, 4), layout="constrained")
ax.semilogx(factors, recall, "o-", label="recall of people")
ax.semilogx(factors, precision, "s--", label="precision of people")
ax.set(xlabel="cost of a missed token of a person", ylabel="recall and precision, tokens")
ax.set_xticks(factors, [f"{factor:g}" for factor in factors])
ax.legend()
plt.show()

# %%
# **Next:** :doc:`/guide/losses` has all losses, and losses of your own;
# :doc:`/auto_examples/text/plot_confident_chunks` trades precision for recall after training.
