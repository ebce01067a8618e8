"""
From a pipeline to a small file, and back without running code
==============================================================

A tagger in production needs three things: a file that is small, a format that runs no code when it
is loaded, and the same predictions. ``sparsify`` drops weights that hardly matter and keeps the
rest in single precision; `skops <https://skops.readthedocs.io>`_ stores the pipeline.

The folder ``examples/deploy`` of the repository has the same as two programs, ``train.py`` and
``tag.py``, with the lines for a container.
"""

# sphinx_gallery_tags = ["named entities", "deployment", "Chain"]
# sphinx_gallery_thumbnail_path = "_static/guide/card_deployment.svg"
import pickle
import tempfile
import zipfile
from pathlib import Path

import matplotlib.pyplot as plt
import skops.io

from skstruct import SAGCRF, Chain, RaggedArray
from skstruct.datasets import make_annotated_sentences
from skstruct.metrics import chunk_f1_score
from skstruct.pipeline import make_pipeline
from skstruct.preprocessing import TemplateVectorizer

TEMPLATES = "\n".join(
    [f"Uw{o}:%x[{o},0]" for o in (-2, -1, 0, 1, 2)]
    + [f"Uw{o}{o + 1}:%x[{o},0]/%x[{o + 1},0]" for o in (-1, 0)]
    + [f"Up{o}:%x[{o},1]" for o in (-2, -1, 0, 1, 2)]
    + [f"Up{o}{o + 1}:%x[{o},1]/%x[{o + 1},1]" for o in (-2, -1, 0, 1)]
    + ["B"]
)
data = make_annotated_sentences(random_state=0)
X, X_test = (RaggedArray.stack_columns([part.word, part.pos]) for part in (data.train, data.test))
y, y_test = data.train.entity, data.test.entity

model = make_pipeline(
    TemplateVectorizer(TEMPLATES), SAGCRF(Chain(forbidden="iob2"), random_state=0)
)
model.fit(X, y)
print(f"entity F1 {chunk_f1_score(y_test, model.predict(X_test)):.3f}")

# %%
# How many weights matter? ``sparsify(threshold)`` sets to zero what is below it, and zeros take no
# room in a file.


def file_size(model):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.skops"
        skops.io.dump(model, path, compression=zipfile.ZIP_DEFLATED)
        return path.stat().st_size


thresholds = [0.0, 1e-3, 1e-2, 3e-2, 0.1, 0.2, 0.4]
sizes, scores, models = [], [], []
for threshold in thresholds:
    small = pickle.loads(pickle.dumps(model))
    small[-1].sparsify(threshold, dtype="float32")
    models.append(small)
    sizes.append(file_size(small) / 1024)
    scores.append(chunk_f1_score(y_test, small.predict(X_test)))
    print(f"threshold {threshold:5}: {sizes[-1]:6.1f} KB, F1 {scores[-1]:.3f}")

# %%
# Loading. A pickle runs whatever is in it; skops names the types in a file before anything of it is
# used, and refuses those that are not trusted. Write the list down from a model of your own, as
# here, and compare files of others with it.

chosen = models[2]
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "model.skops"
    skops.io.dump(chosen, path, compression=zipfile.ZIP_DEFLATED)
    trusted = skops.io.get_untrusted_types(file=path)
    print("types to trust:", *trusted, sep="\n  ")
    loaded = skops.io.load(path, trusted=trusted)

same = all(
    (a == b).all() for a, b in zip(loaded.predict(X_test), chosen.predict(X_test), strict=True)
)
print(f"the same predictions: {same}")
print(loaded.predict([[["Ada", "NNP"], ["Berg", "NNP"], ["signed", "VBD"], ["it", "PRP"]]])[0])

fig, ax = plt.subplots(figsize=(7, 4), layout="constrained")
ax.plot(sizes, scores, "o-")
for threshold, size, score in zip(thresholds, sizes, scores, strict=True):
    ax.annotate(f"{threshold:g}", (size, score), (0, -14), textcoords="offset points", size=8)
ax.axvline(
    file_size(model) / 1024, color="grey", linestyle=":", label="double precision, all names"
)
ax.set(xlabel="KB on disk", ylabel="entity F1", title="weights below a threshold dropped")
ax.legend()
plt.show()

# %%
# **Next:** :doc:`/guide/deployment` has services, containers and own features;
# :doc:`/auto_examples/text/plot_l1_path` makes models small by training.
