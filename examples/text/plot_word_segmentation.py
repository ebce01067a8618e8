"""
Word segmentation: the lattice of a string
==========================================

Chinese and Japanese have no spaces between words. A :class:`~skstruct.WordLattice` has an arc for
each word of a dictionary that occurs in a string, and for unknown words; a CRF learns which path is
right. Here English without spaces stands in for them, so that all can read it.
"""

# sphinx_gallery_tags = ["Lattice", "confidence", "inspection"]
# sphinx_gallery_thumbnail_path = "_static/guide/card_word_segmentation.svg"
import matplotlib.pyplot as plt
import numpy as np

from skstruct import SAGCRF, WordLattice

TEXT = """alice was beginning to get very tired of sitting by her sister on the bank
and of having nothing to do once or twice she had peeped into the book her sister was reading
but it had no pictures or conversations in it
and what is the use of a book thought alice without pictures or conversations
so she was considering in her own mind as well as she could
for the hot day made her feel very sleepy and stupid
whether the pleasure of making a daisy chain
would be worth the trouble of getting up and picking the daisies
when suddenly a white rabbit with pink eyes ran close by her
there was nothing so very remarkable in that
nor did alice think it so very much out of the way to hear the rabbit say to itself
oh dear oh dear i shall be late
but when the rabbit actually took a watch out of its waistcoat pocket
and looked at it and then hurried on alice started to her feet
for it flashed across her mind that she had never before seen a rabbit
with either a waistcoat pocket or a watch to take out of it
and burning with curiosity she ran across the field after it"""
lines = [line.split() for line in TEXT.splitlines()]
words = sorted(
    {word for line in lines for word in line} | {"heron", "be", "is", "over", "at", "ran"}
)

# %%
# Every line is a sample: a string, and its words.

X = ["".join(line) for line in lines]
crf = SAGCRF(WordLattice(words), C=10.0, random_state=0).fit(X, lines)
for text in ("shehadabookonherown", "therabbithadaverylatewatch", "alicesawheron"):
    print(" | ".join(crf.predict([text])[0]))

# %%
# The n best, and the probability of each arc. Arcs above the string are those of the best path;
# below are the next ones in probability.

text = "shehadabookonherown"
labellings, scores = crf.predict_top_k([text], 4)
for found, score in zip(labellings[0], scores[0], strict=True):
    print(f"{score:7.2f}  {' | '.join(found)}")

samples = crf.graph_.read_X(crf, [text], reset=False)
probability = crf.predict_marginals([text])[0]
best = np.cumsum([0, *map(len, labellings[0][0])])
figure, ax = plt.subplots(figsize=(8, 3), layout="constrained")
for k in np.argsort(-probability)[:24]:
    begin, end = samples.arcs[k, :2]
    side = 1 if begin in best and end in best and end == best[best > begin][0] else -1
    t = np.linspace(0, np.pi, 30)
    across = (begin + end) / 2 - (end - begin) / 2 * np.cos(t)
    height = side * (end - begin) ** 0.7 * np.sin(t)
    ax.plot(across, 0.5 * side + height, "C0" if side > 0 else "C1", lw=0.5 + 3 * probability[k])
for place, character in enumerate(text):
    ax.text(place + 0.5, 0, character, ha="center", va="center", family="monospace", size=13)
ax.set(xlim=(-0.2, len(text) + 0.2), yticks=[], xticks=[])
plt.show()

# %%
# The largest weights: words of the training data, and characters around the beginning of a word.

names, weights = np.asarray(crf.feature_names_in_), crf.coef_[0]
for j in np.argsort(-weights)[:8]:
    print(f"{weights[j]:6.2f}  {names[j]}")

# %%
# **Next:** :ref:`lattices` has arcs of your own, and MeCab's dictionaries;
# :doc:`/auto_examples/text/plot_confident_chunks` asks how sure a chain is.
