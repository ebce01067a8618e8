"""
Dependency trees: agreement over any distance
=============================================

Is "the sheep near the dogs" one sheep, or many? The verb tells, wherever it stands: "is", or "are".
In a dependency tree the verb and its subject are neighbours; in the sentence there may be any
number of words between them. Each sample of :class:`~skstruct.Tree` has features of words and the
head of each word; with ``edge_features=True`` also the relation of the word to its head.

The sentences come from a small grammar, with their trees.
"""

# sphinx_gallery_tags = ["syntax", "Tree"]
# sphinx_gallery_thumbnail_path = "_static/guide/card_dependency_trees.svg"
import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression

from skstruct import SAGCRF, Chain, Tree

RELATIONS = ["root", "subject", "object", "article", "preposition", "modifier"]
KNOWN = {"one": ["dog", "cat", "child", "bird"], "many": ["dogs", "cats", "children", "birds"]}
SAME = ["sheep", "deer", "fish", "aircraft"]  # singular and plural look alike
VERBS = {"one": ["is", "eats", "sees", "has"], "many": ["are", "eat", "see", "have"]}
rng = np.random.default_rng(0)


def noun_phrase(words, head, relation, number=None, deep=True):
    """Append an article, a noun and perhaps what modifies it; returns its number."""
    number = number or str(rng.choice(["one", "many"]))
    noun = len(words) + 1
    specific = rng.random() < 0.2
    article = {"one": "this", "many": "these"}[number] if specific else "the"
    words.append((article, noun, "article", "-"))
    words.append((str(rng.choice(SAME + KNOWN[number])), head, relation, number))
    if deep and rng.random() < 0.6:
        words.append((str(rng.choice(["near", "behind", "with"])), noun, "preposition", "-"))
        noun_phrase(words, noun + 1, "modifier", deep=rng.random() < 0.3)
    return number


def sentence():
    """Words, heads (-1 for the root), relations and labels: the number of nouns, or "-"."""
    subject = []
    number = noun_phrase(subject, None, "subject")
    verb = len(subject)
    words = [(w, verb if head is None else head, r, n) for w, head, r, n in subject]
    words.append((str(rng.choice(VERBS[number])), -1, "root", "-"))
    noun_phrase(words, verb, "object", deep=rng.random() < 0.3)
    return [list(column) for column in zip(*words, strict=True)]


sentences = [sentence() for _ in range(500)]
vocabulary = sorted({word for words, *_ in sentences for word in words})
print(" ".join(sentences[1][0]), "|", " ".join(sentences[1][3]))

# %%
# Words that show their number get it as a label, too: then an edge between a verb and its subject
# can say that both are the same.


def labels(words, numbers) -> list:
    """Numbers of nouns, and of what agrees with them."""
    shown = {"this": "one", "these": "many"}
    shown |= {verb: number for number, verbs in VERBS.items() for verb in verbs}
    return [shown.get(w, n) for w, n in zip(words, numbers, strict=True)]


X_words = [np.eye(len(vocabulary))[np.searchsorted(vocabulary, words)] for words, *_ in sentences]
heads = [h for _, h, _, _ in sentences]
relations = [np.eye(len(RELATIONS))[[*map(RELATIONS.index, r)]] for _, _, r, _ in sentences]
y = [labels(words, numbers) for words, _, _, numbers in sentences]
train, test = slice(0, 250), slice(250, None)

# %%
# Four models of the same words, judged by the subjects that look alike in both numbers: about
# objects of that kind the sentence tells nothing.

single = LogisticRegression().fit(np.vstack(X_words[train]), np.concatenate(y[train]))
found: dict = {"words alone": [single.predict(x) for x in X_words[test]]}
trees = list(zip(X_words, heads, strict=True))
# Rows of edge features are in the order of the words that have a head.
edges = [r[np.array(h) >= 0] for r, h in zip(relations, heads, strict=True)]
related = list(zip(X_words, heads, edges, strict=True))
models = {
    "chain": (Chain(), X_words),
    "tree": (Tree(), trees),
    "tree with relations": (Tree(edge_features=True), related),
}
for name, (graph, X) in models.items():
    found[name] = SAGCRF(graph, random_state=0).fit(X[train], y[train]).predict(X[test])

subjects = [r.index("subject") for _, _, r, _ in sentences[test]]
verbs = [r.index("root") for _, _, r, _ in sentences[test]]
alike = np.array([s[0][at] in SAME for s, at in zip(sentences[test], subjects, strict=True)])
far = np.array(verbs) - subjects > 1
shares = {}
for name, labelled in found.items():
    rows = zip(labelled, y[test], subjects, strict=True)
    right = np.array([labels[at] == truth[at] for labels, truth, at in rows])
    shares[name] = [right[alike & ~far].mean(), right[alike & far].mean()]
    print(f"{name:20s} beside the verb {shares[name][0]:.3f}, further away {shares[name][1]:.3f}")

# %%
# A subject of the test part on which chain and tree differ, with its tree. Colours are what the
# tree with relations says.

rows = zip(found["chain"], found["tree with relations"], subjects, strict=True)
i = next(i for i, (a, b, at) in enumerate(rows) if alike[i] and far[i] and a[at] != b[at])
words, head, relation, _ = sentences[test][i]
colours = {"one": "tab:blue", "many": "tab:orange", "-": "0.6"}
_, bars = plt.subplots(figsize=(6, 4.2), layout="constrained")
_, tree = plt.subplots(figsize=(7, 4.5), layout="constrained")
for k, (name, pair) in enumerate(shares.items()):
    bars.barh(np.array([0, 5]) + k, pair, 0.9, label=name)
bars.set(xlabel="accuracy", xlim=(0, 1))
bars.set_yticks([1.5, 6.5], ["beside\nthe verb", "further\naway"])
bars.invert_yaxis()
bars.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, fontsize=8)
for child, parent in enumerate(head):
    if parent >= 0:
        low, high = sorted((child, parent))
        arc = np.linspace(0, np.pi, 40)
        height = 0.5 * (high - low)
        x = (low + high) / 2 + (high - low) / 2 * np.cos(arc)
        tree.plot(x, height * np.sin(arc), color="0.7", zorder=1)
        tree.text((low + high) / 2, height, relation[child], ha="center", va="bottom")
for at, word in enumerate(words):
    label = str(found["tree with relations"][i][at])
    tree.text(at, -0.25, word, ha="center", va="top", color=colours[label], weight="bold", size=12)
    tree.text(at, -0.75, found["chain"][i][at], ha="center", va="top")
tree.text(-0.7, -0.75, "chain:", ha="right", va="top")
tree.set(xlim=(-1.6, len(words) - 0.4), ylim=(-1.3, None), title="colour: blue one, orange many")
tree.set_axis_off()
plt.show()

# %%
# **Next:** :doc:`/auto_examples/graphs/plot_document_graph` has graphs with cycles and several
# types of edges; :doc:`/guide/structures` describes trees.
