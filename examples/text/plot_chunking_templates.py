"""
Chunking with CRF++ templates
=============================

Token columns, a template file as CRF++ and Wapiti read it, a Pipeline, chunk F1, and a look at what
was learned. The sentences are generated, so that the example needs no download; for the real corpus
replace the first line of data by ``fetch_conll2000()``.
"""

import matplotlib.pyplot as plt
from sklearn.pipeline import make_pipeline

from skstruct import SAGCRF, Chain, RaggedArray
from skstruct.datasets import make_annotated_sentences
from skstruct.inspection import ConvergenceDisplay, TransitionDisplay, explain, top_features
from skstruct.metrics import chunk_classification_report
from skstruct.preprocessing import TemplateVectorizer

# %%
# A template line begins with ``U``; ``%x[row, column]`` is a column of the token ``row`` places
# away. ``%t`` tests a regular expression, ``%m`` takes what it matches.

templates = r"""
U00:%x[-1,0]
U01:%x[0,0]
U02:%x[1,0]
U03:%x[-1,0]/%x[0,0]
U10:%m[0,0,"..$"]
U11:%t[0,0,"^\u"]
U12:%x[-1,1]/%x[0,1]
B
"""

data = make_annotated_sentences(n_train=400, random_state=0)
X, X_test = (RaggedArray.stack_columns([part.word, part.pos]) for part in (data.train, data.test))

model = make_pipeline(
    TemplateVectorizer(templates),
    SAGCRF(Chain(forbidden="iob2"), track_objective=True, random_state=0),
)
model.fit(X, data.train.entity)
print(chunk_classification_report(data.test.entity, model.predict(X_test), scheme="iob2"))

# %%
# What speaks for each label, and why one sentence was labelled as it was: the contributions add up
# to the score of the labelling.

print(top_features(model, k=3).to_string(index=False))
reasons = explain(model, X_test[0])
print(" ".join(X_test[0][:, 0]))
print(reasons[reasons["node"] <= 1].round(2).to_string(index=False))

# %%

fig, axes = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
TransitionDisplay.from_estimator(model, ax=axes[0])
ConvergenceDisplay.from_estimators(model, y="objective", ax=axes[1])
plt.show()
