"""
Which word translates which: matchings
======================================

German puts its verbs last, English does not. A word is linked to its translation by what the words
mean, how they are spelled and where they stand: features of pairs of words, whose weights a
structural SVM learns from a few sentences that have been aligned by hand. The output is a matching:
each word has at most one link.
"""

# sphinx_gallery_tags = ["word alignment", "Matching"]
# sphinx_gallery_thumbnail_path = "_static/guide/card_word_alignment.svg"
import matplotlib.pyplot as plt
import numpy as np

from skstruct import BCFWSSVM, Matching
from skstruct.metrics import alignment_error_rate
from skstruct.preprocessing import AlignmentFeatures

TRAIN = """\
das Haus ist groß . | the house is big . | 0-0 1-1 2-2 3-3 4-4
das Haus ist klein . | the house is small . | 0-0 1-1 2-2 3-3 4-4
ich sehe das Haus . | i see the house . | 0-0 1-1 2-2 3-3 4-4
ich habe das Buch gelesen . | i have read the book . | 0-0 1-1 2-3 3-4 4-2 5-5
du hast das Buch gekauft . | you have bought the book . | 0-0 1-1 2-3 3-4 4-2 5-5
heute lese ich das Buch . | today i read the book . | 0-0 1-2 2-1 3-3 4-4 5-5
gestern hat er ein Haus gekauft . | yesterday he bought a house . | 0-0 2-1 3-3 4-4 5-2 6-5
der Mann sieht die Frau . | the man sees the woman . | 0-0 1-1 2-2 3-3 4-4 5-5
die Frau hat den Mann gesehen . | the woman has seen the man . | 0-0 1-1 2-2 3-4 4-5 5-3 6-6
wir wollen morgen nach Berlin fahren | we want to go to berlin tomorrow | 0-0 1-1 2-6 3-4 4-5 5-3
sie wollen heute ein Haus kaufen . | they want to buy a house today . | 0-0 1-1 2-6 3-4 4-5 5-3 6-7
das Kind liest ein Buch . | the child reads a book . | 0-0 1-1 2-2 3-3 4-4 5-5
das Kind hat ein Buch gelesen . | the child has read a book . | 0-0 1-1 2-2 3-4 4-5 5-3 6-6
morgen kaufe ich ein Auto . | tomorrow i buy a car . | 0-0 1-2 2-1 3-3 4-4 5-5
das Auto ist rot . | the car is red . | 0-0 1-1 2-2 3-3 4-4
die Frau kauft das rote Auto . | the woman buys the red car . | 0-0 1-1 2-2 3-3 4-4 5-5 6-6
wir fahren heute nach Hamburg . | we go to hamburg today . | 0-0 1-1 2-4 3-2 4-3 5-5
ich fahre morgen nach Berlin . | i go to berlin tomorrow . | 0-0 1-1 2-4 3-2 4-3 5-5
der Mann will die Frau sehen . | the man wants to see the woman . | 0-0 1-1 2-2 3-5 4-6 5-4 6-7
das Kind will ein Auto haben . | the child wants to have a car . | 0-0 1-1 2-2 3-5 4-6 5-4 6-7"""

TEST = """\
heute hat die Frau ein Auto gekauft . | today the woman bought a car . | 0-0 2-1 3-2 4-4 5-5 6-3 7-6
ich will morgen das Buch lesen . | i want to read the book tomorrow . | 0-0 1-1 2-6 3-4 4-5 5-3 6-7
gestern sah das Kind den Mann . | yesterday the child saw the man . | 0-0 1-3 2-1 3-2 4-4 5-5 6-6
wir haben das rote Haus gesehen . | we have seen the red house . | 0-0 1-1 2-3 3-4 4-5 5-2 6-6
der kleine Mann hat ein großes Auto | the small man has a big car | 0-0 1-1 2-2 3-3 4-4 5-5 6-6
die Kinder wollen nach Hamburg fahren | the children want to go to hamburg | 0-0 1-1 2-2 3-5 4-6 5-4
ihr habt heute das Kind gesehen . | you have seen the child today . | 0-0 1-1 2-5 3-3 4-4 5-2 6-6
morgen fahren wir nach Berlin . | tomorrow we go to berlin . | 0-0 1-2 2-1 3-3 4-4 5-5"""


def read(text):
    """Pairs of sentences, and their links; files are read by datasets.load_word_alignment."""
    rows = [line.split(" | ") for line in text.splitlines()]
    links = [[tuple(map(int, link.split("-"))) for link in row[2].split()] for row in rows]
    return [(row[0].split(), row[1].split()) for row in rows], [np.array(row) for row in links]


pairs, links = read(TRAIN)
test_pairs, test_links = read(TEST)

# %%
# Co-occurrence tells much, without any alignment: IBM model 1 in both directions, and what these
# agree on. Large unaligned text goes into ``parallel_text``; here the sentences themselves have to
# do, those of the test, too, since nobody need align them.

features = AlignmentFeatures(tuple(zip(*test_pairs, strict=True))).fit(pairs)
agreed = features.intersection(test_pairs)
print(f"agreed by IBM model 1: error {alignment_error_rate(test_links, None, agreed):.3f}")

# %%
# :class:`~skstruct.Matching` takes an array (words, words, features) a sentence pair.

X, X_test = features.transform(pairs), features.transform(test_pairs)
svm = BCFWSSVM(Matching(), C=1.0, random_state=0).fit(X, links)
found = svm.predict(X_test)
print(f"learned matching: error {alignment_error_rate(test_links, None, found):.3f}")
print(f"objective {svm.objective_:.3f}, at least {svm.dual_objective_:.3f}; the largest weights:")
names = features.get_feature_names_out()
for k in np.argsort(-np.abs(svm.coef_.ravel()))[:6]:
    print(f"  {names[k]:24} {svm.coef_.ravel()[k]:6.2f}")

# %%
# The second best matching, and how much worse it scores.

(ranked,), (scores,) = svm.predict_top_k(X_test[3:4], 2)
first, second = (set(map(tuple, matching.tolist())) for matching in ranked)
source, target = test_pairs[3]
changed = [(source[i], target[j]) for i, j in sorted(first ^ second)]
print(f"in one of the two best only: {changed}; scores {scores[0]:.2f} and {scores[1]:.2f}")

# %%
# Green links are right, red ones wrong, dashed ones are missed. In the first sentence the learned
# matching has more errors than IBM model 1, in the second fewer.


def draw(ax, pair, truth, predicted):
    """Both sentences, one above the other, with links."""
    truth, predicted = ({tuple(link) for link in rows.tolist()} for rows in (truth, predicted))
    place = [np.linspace(0, 1, len(words)) for words in pair]
    for kind, style, colour in (
        (truth & predicted, "-", "tab:green"),
        (predicted - truth, "-", "tab:red"),
        (truth - predicted, "--", "0.6"),
    ):
        for i, j in kind:
            ax.plot([place[0][i], place[1][j]], [1, 0], style, color=colour, linewidth=2)
    for words, x, y, side in zip(pair, place, (1.05, -0.05), ("bottom", "top"), strict=True):
        for word, at in zip(words, x, strict=True):
            ax.text(at, y, word, ha="center", va=side)
    ax.set(xlim=(-0.08, 1.08), ylim=(-0.3, 1.3))
    ax.set_axis_off()


for title, links in (("IBM model 1, both directions agree", agreed), ("learned matching", found)):
    fig, axes = plt.subplots(2, 1, figsize=(6, 4.2), layout="constrained")
    for ax, k in zip(axes, (1, 7), strict=True):
        draw(ax, test_pairs[k], test_links[k], links[k])
    fig.suptitle(title)
plt.show()

# %%
# **Next:** :doc:`/items` describes matchings, their loss and real alignment data.
