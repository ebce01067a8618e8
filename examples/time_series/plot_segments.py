"""
Durations: segments instead of single steps
===========================================

Two programs of a machine draw almost the same current, but one takes about 5 steps, the other
about 12. A chain scores steps and pairs of neighbours, so that it cannot count; a
:class:`~skstruct.SemiChain` scores whole segments, and learns how long they are.
"""

# sphinx_gallery_tags = ["time series", "SemiChain", "Chain"]
import matplotlib.pyplot as plt
import numpy as np

from skstruct import SAGCRF, Chain, SemiChain
from skstruct.metrics import chunk_f1_score

STEPS = {"quick": (5, 0.6), "thorough": (12, 1.0), "idle": (3, 2.0)}  # mean, deviation
CURRENT = {"quick": 1.7, "thorough": 2.3, "idle": 0.0}
rng = np.random.default_rng(0)


def recording():
    """Programs in any order, sometimes one right after the other, and the current."""
    labels, last = [], None
    while len(labels) < 60:
        name = rng.choice([other for other in STEPS if other != last])
        mean, deviation = STEPS[name]
        labels += [name] * max(1, round(rng.normal(mean, deviation)))
        last = name
    current = np.array([CURRENT[name] for name in labels])
    return (current + 0.7 * rng.normal(size=len(labels)))[:, None], labels


X, y = zip(*(recording() for _ in range(120)), strict=True)
train, test = slice(0, 60), slice(60, None)

# %%
# The machine may be idle for any time: such steps are segments of their own. A program takes at
# most 20. A segment is right if its label and both its ends are.

semi = SemiChain(max_length={"idle": np.inf, "quick": 20, "thorough": 20})
found: dict = {"truth": y[test]}
for name, graph in (("Chain", Chain()), ("SemiChain", semi)):
    model = SAGCRF(graph, C=10, random_state=0).fit(X[train], y[train])
    found[name] = model.predict(X[test])
    steps = model.score(X[test], y[test])
    segments = chunk_f1_score(y[test], found[name], scheme="runs")
    print(f"{name:10s} {steps:.3f} of the steps right, F1 of segments {segments:.3f}")

# %%
# A recording, and what the segments have learned: the score of each number of steps. A chain would
# have straight lines.

figure, (above, below) = plt.subplots(2, 1, figsize=(7, 5.5), layout="constrained")
names, n = sorted(STEPS), 50
for row, labels in enumerate(own[2] for own in found.values()):
    codes = np.searchsorted(names, labels[:n])
    above.bar(np.arange(n), 0.8, 1, row - 0.4, color=[f"C{k}" for k in codes])
above.set(xlabel="step", ylim=(2.6, -0.6))
above.set_yticks(range(3), found)
for k, (name, scores) in enumerate(model.graph_.length_weights(model).items()):
    above.bar(0, 0, color=f"C{k}", label=name)
    if name != "idle":
        below.plot(np.arange(1, scores.size + 1), scores - scores.max(), f"C{k}")
below.set(xlabel="steps of a segment", ylabel="score, less the largest")
above.legend(ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1.0))
plt.show()

# %%
# **Next:** :doc:`/auto_examples/time_series/plot_edge_features` has irregular steps;
# :doc:`/guide/structures` describes segments of other kinds.
