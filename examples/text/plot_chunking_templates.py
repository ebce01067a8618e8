"""
Chunking with CRF++ templates
=============================

Token columns, a template file as CRF++ and Wapiti read it, a Pipeline, chunk F1, and a look at what
was learned: chunks of the Wall Street Journal (CoNLL-2000) if that corpus has been downloaded, else
names in generated sentences, which need no network.
"""

# sphinx_gallery_tags = ["chunking", "inspection", "Chain"]
# sphinx_gallery_thumbnail_path = "_static/guide/card_chunking_templates.svg"
import matplotlib.pyplot as plt

from skstruct import SAGCRF, Chain, RaggedArray
from skstruct.datasets import fetch_conll2000, make_annotated_sentences
from skstruct.inspection import TransitionDisplay, explain, top_features
from skstruct.metrics import chunk_classification_report
from skstruct.pipeline import make_pipeline
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
# The largest weights of each label.

top_features(model, k=3)

# %%
# Why the first word of a sentence got its label: the contributions of all words add up to the score
# of the labelling.

reasons = explain(model, X_test[0])
print(" ".join(X_test[0][:, 0]))
reasons[reasons["node"] == 0].round(2)

# %%
# Which labels follow each other, and what speaks for and against one of them. In the generated
# sentences "Mr." stands before the name of a person, "in" does not.

weights = top_features(model, k=12)
weights = weights[weights["label"] == shown].sort_values("weight")
_, steps = plt.subplots(figsize=(6, 4.2), layout="constrained")
_, bars = plt.subplots(figsize=(6, 4.2), layout="constrained")
TransitionDisplay.from_estimator(model, ax=steps)
steps.set_title("scores of transitions")
colours = ["C3" if weight < 0 else "C0" for weight in weights["weight"]]
bars.barh(weights["feature"], weights["weight"], color=colours)
bars.axvline(0, color="black", linewidth=0.8)
bars.set(xlabel="weight", title=f"the largest weights of {shown}")
plt.show()

# %%
# **Next:** :doc:`/auto_examples/text/plot_ner_grid_search` has features as dicts and analyses
# errors; :doc:`/text` describes templates, :doc:`/guide/inspection` all tables of weights.
