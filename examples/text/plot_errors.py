"""
What does the tagger get wrong?
===============================

F1 counts the entities that a tagger finds, but not which ones it misses. ``ErrorAnalysis`` compares
predictions with the truth chunk by chunk. A chunk is missed, made up, of the wrong type or with a
wrong boundary; tables group these errors by length, by unknown words and by confidence. The
sentences are generated, so that the page needs no download.
"""

# sphinx_gallery_tags = ["named entities", "Chain"]
# sphinx_gallery_thumbnail_path = "_static/guide/card_errors.svg"
import matplotlib.pyplot as plt

from skstruct import SAGCRF
from skstruct.datasets import make_annotated_sentences
from skstruct.inspection import ErrorAnalysis, prediction_frame
from skstruct.metrics import chunk_f1_score, chunk_offsets
from skstruct.pipeline import make_pipeline
from skstruct.preprocessing import TemplateVectorizer

data = make_annotated_sentences(n_train=100, n_test=300, random_state=0)
train, test = data.train, data.test
words = TemplateVectorizer("U0:%x[0,0]\nU1:%x[-1,0]")
model = make_pipeline(words, SAGCRF(random_state=0)).fit(train.word, train.entity)

# %%
# ``predict_chunks`` returns chunks with their probabilities, which become the confidences of the
# analysis. Test words that are not among the training words are unknown.

chunks = model.predict_chunks(test.word)
analysis = ErrorAnalysis(test.entity, chunks, test.word, known=train.word)
print(f"F1 {chunk_f1_score(test.entity, chunks):.3f}")
analysis

# %%
# Bars: the number of errors of each type.

fig, ax = plt.subplots(layout="constrained")
analysis.plot(ax)
plt.show()

# %%
# Entities with unknown words are missed twice as often, and wrong predictions are those of low
# confidence.

print(analysis.by_known.round(2).to_string(index=False))
print(analysis.by_confidence.round(2).to_string(index=False))

# %%
# All tables are data frames, here filtered: new names that were missed.

errors = analysis.errors
print(errors[errors["kind"] == "missed"][["sample", "true", "text"]].head().to_string(index=False))

# %%
# The sentences with most errors.

for _, row in analysis.worst(3).iterrows():
    print(f"{row['sample']}: {row['true']}\n  -> {row['predicted']}")

# %%
# Templates of suffixes and of initials help with unknown words. What remains are mostly types.

more = TemplateVectorizer('U0:%x[0,0]\nU1:%x[-1,0]\nU2:%m[0,0,"...$"]\nU3:%t[0,0,"^\\u"]')
better = make_pipeline(more, SAGCRF(random_state=0)).fit(train.word, train.entity)
found = better.predict_chunks(test.word)
print(ErrorAnalysis(test.entity, found, test.word))

# %%
# Predictions of one sentence as a frame, and its chunks by characters of the text.

print(prediction_frame(better, test.word[:1]).round(2).to_string(index=False))
text = " ".join(test.word[0])
for start, stop, kind, probability in chunk_offsets(found[0], test.word[0], text):
    print(f"{kind} {text[start:stop]!r} at {start}:{stop}, probability {probability:.2f}")

# %%
# **Next:** :doc:`/auto_examples/text/plot_confident_chunks` asks how far the probabilities can be
# trusted; :doc:`/guide/inspection` explains a single prediction.
