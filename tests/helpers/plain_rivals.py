"""Steps of benchmarks/reproduce/rivals.py beside the same by enumeration: run by test_reproduce.py.

Nothing is compiled (``NUMBA_DISABLE_JIT``). Prints for each method how far its numbers are from
those made here, and how far the weights have come.
"""

import itertools
import json
import math
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks" / "reproduce"))
import rivals

from skstruct import Chain
from skstruct.core.parallel import Pieces
from skstruct.core.weights import flatten
from skstruct.solvers.quasi_newton import QuasiNewton
from skstruct.solvers.sag import MOVE, SAGOptions, _step_size
from skstruct.solvers.sampling import sample_leaf
from skstruct.testing import random_sequences, training_problem

LAM = 0.2
X, y = random_sequences(np.random.default_rng(1), n_samples=5)
problem, _, shapes, _ = training_problem(Chain(), list(X), list(y))
n, K, D = len(X), shapes[0][1], shapes[0][0]
TASK = problem, shapes, np.ones(n), LAM, None
codes = np.unique(np.concatenate(list(y)), return_inverse=True)[1]
codes = np.split(codes, np.cumsum([len(item) for item in y])[:-1])
assert X[0].shape[1] + 1 == D


def features(i, labels):
    """Of a labelling, as a vector of all weights: rows, the intercept, transitions."""
    node, pair = np.zeros((D, K)), np.zeros((K, K))
    for t, k in enumerate(labels):
        node[:-1, k] += X[i][t]
        node[-1, k] += 1.0
    for a, b in itertools.pairwise(labels):
        pair[a, b] += 1.0
    return np.concatenate([node.ravel(), pair.ravel()])


def parts(i, labels):
    """The same in part space: labels of nodes, then transitions."""
    node, pair = np.zeros((len(labels), K)), np.zeros((K, K))
    node[np.arange(len(labels)), labels] = 1.0
    for a, b in itertools.pairwise(labels):
        pair[a, b] += 1.0
    return np.concatenate([node.ravel(), pair.ravel()])


ALL = [list(itertools.product(range(K), repeat=len(x))) for x in X]
PHI = [np.array([features(i, labels) for labels in ALL[i]]) for i in range(n)]
MU = [np.array([parts(i, labels) for labels in ALL[i]]) for i in range(n)]
TRUE = [ALL[i].index(tuple(codes[i])) for i in range(n)]


def gibbs(scores):
    """Log partition and probabilities."""
    top = scores.max()
    z = np.exp(scores - top)
    return top + math.log(z.sum()), z / z.sum()


def value(i, w):
    """The log loss."""
    return gibbs(PHI[i] @ w)[0] - PHI[i][TRUE[i]] @ w


def gradient(i, w):
    """Its gradient."""
    return gibbs(PHI[i] @ w)[1] @ PHI[i] - PHI[i][TRUE[i]]


def curvature(i, w, v):
    """Its Hessian times v."""
    p, along = gibbs(PHI[i] @ w)[1], PHI[i] @ v
    return (p * (along - p @ along)) @ PHI[i]


def search(i, w, g, lipschitz):
    """The constant after doublings."""
    while value(i, w - g / lipschitz) > value(i, w) - g @ g / (2.0 * lipschitz):
        lipschitz *= 2.0
    return lipschitz


def compare(name, ours, by_hand, moved):
    """Add a line of the result."""
    found[name] = [float(np.abs(np.asarray(ours) - by_hand).max()), float(np.linalg.norm(moved))]


found = {}

# SAG-NUS: 40 steps.
method, rng = rivals.SAGNUS(*TASK), np.random.default_rng(0)
w, d, memory, L, seen, largest = np.zeros(PHI[0].shape[1]), 0.0, {}, np.ones(n), set(), 1.0
shares = np.zeros(n)
for draw in range(40):
    u, v = rng.random(2)
    i = int(rivals.choose_2013(method.state, LAM, u, v))
    method.visit(np.array([[u, v]]))
    g = gradient(i, w)
    L[i] = search(i, w, g, L[i] / 2.0 if i in seen else L[i])
    seen.add(i)
    d, memory[i] = d + g - memory.get(i, 0.0), g
    m, mean = len(seen), np.mean([L[k] for k in seen])
    largest = max(largest, L[i])
    alpha = (1.0 - m / n) / (largest + LAM)
    alpha += m / n * 0.5 * (1.0 / (largest + LAM) + 1.0 / (mean + LAM))
    w = (1.0 - alpha * LAM) * w - alpha / m * d
    largest *= 2.0 ** (-1.0 / n)
    if draw == 2:  # some are new, some are not
        some = seen.copy()
        grid = (np.arange(300) + 0.5) / 300
        counts = np.bincount(
            [rivals.choose_2013(method.state, LAM, a, b) for a in grid for b in grid], minlength=n
        )
        weights = np.array([L[k] + mean + 2.0 * LAM if k in some else 0.0 for k in range(n)])
        shares = m / n * weights / weights.sum()
        shares[[k for k in range(n) if k not in some]] = 1.0 / n
        compare("choice of SAG-NUS", counts / counts.sum(), shares, counts)
compare("SAG-NUS", flatten(method.weights()), w, w)

# Stochastic gradients with the same: 40 steps.
method, rate = rivals.SGNUS(*TASK, rate=0.05), 0.05
w, L, seen = np.zeros_like(w), np.ones(n), set()
for _ in range(40):
    u, v = rng.random(2)
    i = int(sample_leaf(method.state.tree, v)) if u >= 0.5 and seen else int(v * n)
    method.visit(np.array([[u, v]]))
    known = sum(L[k] for k in seen)
    p = 0.5 / n + 0.5 * (L[i] if i in seen else 0.0) / known if seen else 1.0 / n
    g = gradient(i, w)
    first = 0.5 * known / len(seen) if seen else 1.0
    L[i] = search(i, w, g, 0.9 * L[i] if i in seen else first)
    seen.add(i)
    w = (1.0 - rate * LAM) * w - rate / (n * p) * g
compare("SGD-NUS", flatten(method.weights()), w, w)

# SMD: 4 passes, in each a batch of 3 and one of 2.
rivals._BATCH = 3
method, order = rivals.SMD(*TASK, rate=0.3), np.array([3, 0, 4, 1, 2])
w, v, rates = np.zeros_like(w), np.zeros_like(w), np.full(w.size, 0.3)
for _ in range(4):
    method.visit(order)
    for batch in (order[:3], order[3:]):
        g = np.mean([gradient(i, w) for i in batch], axis=0) + LAM * w
        h = np.mean([curvature(i, w, v) for i in batch], axis=0) + LAM * v
        rates *= np.maximum(0.5, 1.0 - 0.1 * g * v)
        w, v = w - rates * g, v - rates * (g + h)
compare("SMD", flatten(method.weights()), w, w)
compare("rates of SMD", flatten(method.tables[2]), rates, rates - 0.3)

# The hybrid: two iterations, the second on a larger batch, along the direction of one pair.
progress = SimpleNamespace(pieces=Pieces())
method = rivals.Hybrid(*TASK)
method.order = np.array([2, 0, 1, 4, 3])
points = [np.zeros_like(w)]
for size in (2, 4):
    method.grow(size, progress)
    QuasiNewton.epoch(method, 1, rng, progress)
    points.append(flatten(method.weights()))


def batch_slope(size, w):
    """Of the objective on a batch."""
    return np.mean([gradient(i, w) for i in method.order[:size]], axis=0) + LAM * w


step, g = points[1], batch_slope(4, points[1])
change = batch_slope(2, points[1]) - batch_slope(2, points[0])
alpha = step @ g / (step @ change)
q = (g - alpha * change) * (step @ change) / (change @ change)
direction = -(q + (alpha - change @ q / (step @ change)) * step)
moved = points[2] - points[1]
first = batch_slope(2, points[0])
compare("Hybrid, first", step / np.linalg.norm(step), -first / np.linalg.norm(first), step)
unit = direction / np.linalg.norm(direction)
compare("Hybrid, second", moved / np.linalg.norm(moved), unit, moved)
method, sizes = rivals.Hybrid(*TASK), []
add = method._sum
method._sum = lambda batch, *rest: sizes.append((method.size, batch.size)) or add(batch, *rest)
for k in range(1, 4):
    method.epoch(k, rng, progress)
found["sizes"] = list(dict.fromkeys(size for size, _ in sizes))
# Whole batches in searches; where one begins only what is new.
assert {(1, 1), (3, 2), (3, 3), (5, 2), (5, 5)} == set(sizes)
assert method.seen == sum(visited for _, visited in sizes)

# OEG: the start and two rounds of steps, the dual objective by enumeration.
LAM = 0.02
method = rivals.PaperOEG(*TASK[:3], LAM, None)
method.begin(progress)
phi = [3.0 * (MU[i][TRUE[i]] > 0.0) for i in range(n)]
rates = np.full(n, 0.5)


def dual(phi):
    """The objective and the weights."""
    entropy, w = 0.0, 0.0
    for i in range(n):
        p = gibbs(MU[i] @ phi[i])[1]
        entropy -= (p[p > 0] @ np.log(p[p > 0])) / n
        w = w - (p @ PHI[i] - PHI[i][TRUE[i]]) / (LAM * n)
    return entropy - 0.5 * LAM * w @ w, w


compare("OEG, start", flatten(method.weights()), dual(phi)[1], dual(phi)[1])
halved, given_up = 0, 0
for most in (2, 5):
    method._choose(np.random.default_rng(0))
    order = rng.permutation(n)
    rates[order[0]] = method.state.rates[order[0]] = 9.0
    method._steps(order)
    for i in order:
        before, w = dual(phi)
        theta = np.linalg.lstsq(MU[i], PHI[i] @ w, rcond=None)[0]
        for _ in range(1 + most):
            trial = phi.copy()
            trial[i] = (1.0 - rates[i]) * phi[i] + rates[i] * theta
            if dual(trial)[0] >= before - 1e-13:
                phi = trial
                break
            rates[i] /= 2.0
            halved += 1
        else:
            given_up += 1
        rates[i] *= 1.05
compare("OEG", flatten(method.weights()), dual(phi)[1], dual(phi)[1])
compare("rates of OEG", method.state.rates, rates, rates - 0.5)
found["halved"], found["left out"] = halved, given_up

# SAG-NUS* as written.
method = rivals.PaperSAG(*TASK)
for k in range(1, 4):
    method.epoch(k, rng, progress)
    assert method.schedule.factor() == 1.0
    assert method._grain == 1

# SAGA with the steps of SAG.
for uniform in (False, True):
    method = rivals.PaperSAGA(*TASK, uniform=uniform)
    method.epoch(1, rng, progress)
    options = SAGOptions(method.lam, method.schedule.factor(), 0, int(uniform), 1, MOVE, 0.0)
    step = _step_size(method.state, options)
    wanted = _step_size(method.state, options._replace(saga=0, step_scale=1.0))
    found[f"steps of SAGA, uniform={uniform}"] = [abs(step / wanted - 1.0), options.step_scale]
print(json.dumps(found))
