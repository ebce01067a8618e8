"""
Chunking with CRF++ templates
=============================

Token columns, a template file as CRF++ and Wapiti read it, a Pipeline, chunk F1, and a look at what
was learned: chunks of the Wall Street Journal (CoNLL-2000) if that corpus has been downloaded, else
names in generated sentences, which need no network.
"""

import matplotlib.pyplot as plt
from sklearn.pipeline import make_pipeline

from skstruct import SAGCRF, Chain, RaggedArray
from skstruct.datasets import fetch_conll2000, make_annotated_sentences
from skstruct.inspection import TransitionDisplay, explain, top_features
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

# %%
# With ``download_if_missing=True`` the first line fetches the real corpus, 8,936 sentences.

try:
    data, target, shown = fetch_conll2000(download_if_missing=False), "chunk", "B-VP"
except OSError:
    data, target, shown = make_annotated_sentences(60, random_state=0), "entity", "B-PER"
y, y_test = data.train[target], data.test[target]
X, X_test = (RaggedArray.stack_columns([part.word, part.pos]) for part in (data.train, data.test))

model = make_pipeline(
    TemplateVectorizer(templates),
    SAGCRF(Chain(forbidden="iob2"), random_state=0),
)
model.fit(X, y)
print(f"{len(X)} sentences, {len(model[0].get_feature_names_out()):,} features")
found = model.predict(X_test)
print(chunk_classification_report(y_test, found, scheme="iob2", zero_division=0))

# %%
# What speaks for each label, and why the first word of a sentence got the label that it has: the
# contributions of all words add up to the score of the labelling.

print(top_features(model, k=3).to_string(index=False))
reasons = explain(model, X_test[0])
print(" ".join(X_test[0][:, 0]))
print(reasons[reasons["node"] == 0].round(2).to_string(index=False))

# %%
# Which labels follow each other, and what speaks for and against one of them. In the generated
# sentences "Mr." stands before the name of a person, "in" does not.

weights = top_features(model, k=12)
weights = weights[weights["label"] == shown].sort_values("weight")
fig, axes = plt.subplots(1, 2, figsize=(11, 4.4), layout="constrained")
TransitionDisplay.from_estimator(model, ax=axes[0])
axes[0].set_title("scores of steps")
colours = ["C3" if weight < 0 else "C0" for weight in weights["weight"]]
axes[1].barh(weights["feature"], weights["weight"], color=colours)
axes[1].axvline(0, color="black", linewidth=0.8)
axes[1].set(xlabel="weight", title=f"the largest weights of {shown}")
plt.show()
