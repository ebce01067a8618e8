"""
How sure is this entity?
========================

A tagger fills a data base. Which of its entities should a person check? ``predict_chunks`` returns
the exact probability of each chunk under the model, ``TemperatureScaling`` makes it a number that
can be trusted, and a reliability diagram shows whether it can. The sentences are drawn, so that
the page needs no download; the curves of a corpus look the same.
"""

# sphinx_gallery_tags = ["named entities", "confidence", "Chain"]
# sphinx_gallery_thumbnail_path = "_static/guide/card_confident_chunks.svg"
import matplotlib.pyplot as plt
import numpy as np
from sklearn.calibration import CalibrationDisplay
from sklearn.frozen import FrozenEstimator

from skstruct import SAGCRF, TemperatureScaling
from skstruct.datasets import make_annotated_sentences
from skstruct.metrics import (
    chunks,
    confidences,
    error_recall_at_review,
    expected_calibration_error,
    precision_at_coverage,
)
from skstruct.pipeline import make_pipeline
from skstruct.preprocessing import TemplateVectorizer

data = make_annotated_sentences(n_train=160, n_test=400, random_state=0)
words, entities = data.train.word, data.train.entity

# %%
# Sixty of the training sentences train a model with much regularisation; the others, which it
# has not seen, find its temperature. It is below 1: the model is less sure than it should be.

features = TemplateVectorizer("U0:%x[0,0]\nU1:%x[-1,0]\nU2:%x[1,0]")
model = make_pipeline(features, SAGCRF(C=3, random_state=0)).fit(words[:60], entities[:60])
scaled = TemperatureScaling(FrozenEstimator(model)).fit(words[60:], entities[60:])
print(f"temperature {scaled.temperature_:.2f}")
print("log-likelihood of a sentence {:.3f} -> {:.3f}".format(*scaled.log_likelihoods_))

# %%
# Chunks with their probabilities. Predictions are those of the model: only its confidence changes.

for start, stop, kind, probability in scaled.predict_chunks(data.test.word[:1])[0]:
    print(kind, " ".join(data.test.word[0][start:stop]), round(probability, 2))

# %%
# Of test sentences: how many chunks of which probability are right, and what a reviewer finds who
# begins with the least probable ones.

fig, ax = plt.subplots(layout="constrained")
for name, one in {"as trained": model, "scaled": scaled}.items():
    correct, confidence = confidences(one, data.test.word, data.test.entity, of="chunks")
    options = {"n_bins": 10, "strategy": "quantile", "name": name, "ax": ax}
    CalibrationDisplay.from_predictions(correct, confidence, **options)
ax.set(xlabel="probability under the model", ylabel="fraction that is right")

print(f"calibration error {expected_calibration_error(correct, confidence):.3f}")
print(f"right among the surest half: {precision_at_coverage(correct, confidence, 0.5):.3f}")
print(f"errors found by reviewing 5 %: {error_recall_at_review(correct, confidence, 0.05):.0%}")

fig, ax = plt.subplots(layout="constrained")
review = np.linspace(0.01, 1.0, 100)
found = [error_recall_at_review(correct, confidence, share) for share in review]
ax.plot(review, found, label="least probable first")
ax.plot([0, 1], [0, 1], color="gray", linestyle=":", label="in any order")
ax.set(xlabel="chunks reviewed", ylabel="errors found")
ax.legend()
plt.show()

# %%
# Entities that the model has missed are not among its chunks. Ask for any of them by ``chunks=``:

truth = [chunks(labels) for labels in data.test.entity[:5]]
print(scaled.predict_chunks(data.test.word[:5], chunks=truth)[0])

# %%
# **Next:** :doc:`/guide/decisions` decides what is accepted, reviewed or rejected;
# :doc:`/auto_examples/handwriting/plot_calibration` looks at labels of single positions.
