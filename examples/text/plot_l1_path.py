"""
Small models: the path of an L1 penalty
=======================================

An L1 penalty makes most weights exactly 0. How many are left, and how good is the model? Fits from
strong to weak regularisation go on from each other with ``warm_start=True``.
"""

# sphinx_gallery_tags = ["named entities", "model selection", "deployment", "Chain"]
import pickle

import matplotlib.pyplot as plt
import numpy as np

from skstruct import SAGCRF, Chain
from skstruct.datasets import make_annotated_sentences
from skstruct.metrics import chunk_f1_score
from skstruct.pipeline import make_pipeline
from skstruct.preprocessing import SequenceVectorizer, drop_unused_features


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
vectorizer = SequenceVectorizer()
X = vectorizer.fit_transform(as_dicts(data.train))
X_test = vectorizer.transform(as_dicts(data.test))

# %%
# ``c1`` is CRFsuite's, and there is a little L2 beside it.

path = [10.0, 3.0, 1.0, 0.3, 0.1, 0.03]
crf = SAGCRF(Chain(forbidden="iob2"), l1_ratio=0.9, warm_start=True, random_state=0)
sizes, scores, passes = [], [], []
for c1 in path:
    crf.set_params(C=crf.l1_ratio / c1).fit(X, data.train.entity)
    sizes.append(np.count_nonzero(crf.node_weights_))
    scores.append(chunk_f1_score(data.test.entity, crf.predict(X_test)))
    passes.append(crf.history_["passes"][-1])
    print(f"c1={c1:5}: {sizes[-1]:5} weights, F1 {scores[-1]:.3f}, {passes[-1]:.0f} passes")

# %%
# Weak regularisation leaves more weights. The best model is found long before all are used.

figure, left = plt.subplots(figsize=(6, 4))
left.semilogx(path, sizes, "o-", label="nonzero weights")
left.invert_xaxis()
left.set_xlabel("c1")
left.set_ylabel("nonzero weights")
right = left.twinx()
right.semilogx(path, scores, "s--", color="C1", label="F1")
right.set_ylabel("F1 of chunks")
figure.legend(loc="lower right", bbox_to_anchor=(0.86, 0.2))
figure.tight_layout()

# %%
# Files have what is not 0. The names of the features that are not used go with
# ``drop_unused_features``.

crf.set_params(C=crf.l1_ratio / path[int(np.argmax(scores))], warm_start=False)
model = make_pipeline(vectorizer, crf.fit(X, data.train.entity))
small = drop_unused_features(model)
for name, each in (("all names", model), ("used ones", small)):
    print(f"{name}: {len(pickle.dumps(each)) / 1024:.0f} KB")
assert chunk_f1_score(data.test.entity, small.predict(as_dicts(data.test))) == max(scores)

plt.show()

# %%
# **Next:** :doc:`/auto_examples/deploy/plot_deployment` stores small models; :doc:`/small_models`
# compares the ways to them.
