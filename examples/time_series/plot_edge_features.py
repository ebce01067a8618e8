"""
Edge features: how long ago was the last word?
==============================================

A chain without edge features has one table of transitions for all steps. Here steps differ: events
of a diary come at irregular times, and what somebody does goes on for a while. After five minutes
it is most likely the same, after five hours it may be anything. ``Chain(edge_features=True)`` lets
transitions depend on the time that has passed.
"""

# sphinx_gallery_tags = ["time series", "Chain"]
# sphinx_gallery_thumbnail_number = 2
import matplotlib.pyplot as plt
import numpy as np

from skstruct import SAGCRF, Chain

ACTIVITIES = np.array(["home", "travel", "work"])
# What follows, once an activity has ended.
NEXT = np.array([[0.0, 0.9, 0.1], [0.45, 0.0, 0.55], [0.2, 0.8, 0.0]])
LASTS = np.array([6.0, 0.8, 4.0])  # hours, on average
rng = np.random.default_rng(0)
signals = rng.standard_normal((3, 4))


def diary(n):
    """Times of n events in hours, noisy measurements, and what the person did."""
    gaps = rng.choice([0.1, 1.0, 8.0], size=n - 1, p=[0.6, 0.25, 0.15]) * rng.exponential(
        size=n - 1
    )
    doing = [int(rng.integers(3))]
    for gap in gaps:
        now, left = doing[-1], gap
        while (stay := rng.exponential(LASTS[now])) < left:
            now, left = int(rng.choice(3, p=NEXT[now])), left - stay
        doing.append(now)
    measured = signals[doing] + 2.0 * rng.standard_normal((n, 4))
    return np.append(0.0, np.cumsum(gaps)), measured, ACTIVITIES[doing]


diaries = [diary(30) for _ in range(200)]
train, test = slice(0, 100), slice(100, None)
y = [doing for _, _, doing in diaries]

# %%
# Edges get a constant and some functions of the gap. A sample is a pair: rows of nodes, rows of
# edges, one fewer.

DECAY = np.array([0.3, 1.0, 3.0, 10.0])


def of_gaps(gaps):
    return np.column_stack([np.ones(len(gaps)), np.exp(-gaps[:, None] / DECAY)])


nodes = [measured for _, measured, _ in diaries]
edges = [of_gaps(np.diff(times)) for times, _, _ in diaries]
pairs = list(zip(nodes, edges, strict=True))
models = {}
for name, graph, X in (
    ("one table", Chain(), nodes),
    ("tables by the gap", Chain(edge_features=True), pairs),
):
    models[name] = SAGCRF(graph, random_state=0).fit(X[train], y[train])
    print(f"{name:18s} {models[name].score(X[test], y[test]):.3f} of the activities right")

# %%
# The learned score of staying against that of the likeliest change, for each activity: it falls
# with the time, and falls first for travel, which never lasts.

gaps = np.linspace(0, 8, 100)
tables = models["tables by the gap"].pairwise_coef_
scores = np.tensordot(of_gaps(gaps), tables, axes=1)
table = models["one table"].pairwise_coef_
_, staying = plt.subplots(figsize=(6, 4.2), layout="constrained")
_, shown = plt.subplots(figsize=(6, 4.2), layout="constrained")
for k, activity in enumerate(ACTIVITIES):
    others = np.delete(np.arange(3), k)
    staying.plot(gaps, scores[:, k, k] - scores[:, k, others].max(axis=1), f"C{k}", label=activity)
    staying.axhline(table[k, k] - table[k, others].max(), color=f"C{k}", linestyle=":", linewidth=1)
staying.set(xlabel="hours since the last event", ylabel="score of staying over changing")
staying.legend(title="dotted: one table")

# One diary, and what the two models say.
plain, gap = (
    models["one table"].predict(nodes[test]),
    models["tables by the gap"].predict(pairs[test]),
)
gain = [sum(a != t) - sum(b != t) for a, b, t in zip(plain, gap, y[test], strict=True)]
i = int(np.argmax(gain))
truth = y[100 + i]
rows = {"truth": truth, "one table": plain[i], "tables by the gap": gap[i]}
for row, doing in enumerate(rows.values()):
    colours = [f"C{k}" for k in np.searchsorted(ACTIVITIES, doing)]
    shown.bar(np.arange(len(doing)), 0.8, 1, row - 0.4, color=colours, edgecolor="white")
    wrong = np.flatnonzero(doing != truth)
    shown.scatter(wrong, np.full(len(wrong), row), color="black", marker="x", s=60)
shown.set(xlabel="event", ylim=(2.6, -0.6), title="a diary; crosses are errors")
shown.set_yticks(range(3), rows)
plt.show()

# %%
# **Next:** :doc:`/auto_examples/time_series/plot_activity_recognition` has regular steps;
# :doc:`/guide/structures` describes edge features.
