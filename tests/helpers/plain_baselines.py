"""Train by the baselines of the papers' figures as plain Python: run by test_reproduce.py.

Nothing is compiled (``NUMBA_DISABLE_JIT``). Prints the optimum, a lower bound, where each baseline
begins and ends, and what the script of the SAG figures makes of all methods.
"""

import json
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np
from scipy import sparse

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks" / "reproduce"))
import sag
from baselines import BaselineCRF

from skstruct import SAGCRF, RaggedArray
from skstruct.testing import random_sequences

# Method, rate, passes.
RUNS = (
    ("pegasos", 1.0, 40),
    ("pegasos-average", 1.0, 40),
    ("sgd", 0.02, 40),
    ("sgd-1/t", 0.1, 40),
    ("sgd-sqrt", 0.05, 40),
    ("asg-1/t", 0.1, 40),
    ("asg-sqrt", 0.05, 40),
    ("asg", 0.03, 60),
    ("adagrad", 0.2, 60),
    ("smd", 0.1, 60),
    ("sgd-nus", 0.02, 40),
    ("hybrid", 1.0, 40),
    ("sag-nus", 1.0, 60),
    ("sag-nus-kept", 1.0, 60),
    ("sag", 1.0, 120),
    ("sag-small", 1.0, 120),
    ("sag-nus*", 1.0, 60),
    ("sag-nus*-search", 1.0, 60),
    ("saga", 1.0, 120),
    ("saga-nus*", 1.0, 60),
    ("oeg", 1.0, 60),
    ("oeg-norp", 1.0, 60),
    ("oeg-10", 1.0, 60),
)

warnings.filterwarnings("ignore", message=".*did not converge.*")
X, y = random_sequences(np.random.default_rng(0), n_samples=10)
flat = np.concatenate(list(X))
flat[np.abs(flat) < 0.5] = 0.0
offsets = np.append(0, np.cumsum([len(x) for x in X]))
X, y = RaggedArray(sparse.csr_matrix(flat), offsets), RaggedArray(np.concatenate(list(y)), offsets)
best = SAGCRF("chain", C=0.3, solver="lbfgs", tol=1e-9).fit(X, y)
found = {"optimum": best.objective_, "bound": best.dual_objective_, "ends": {}}
found["duals"] = {}
for method, rate, passes in RUNS:
    model = BaselineCRF(method, rate, graph="chain", C=0.3, max_iter=passes, random_state=0)
    objective = model.fit(X, y).history_["objective"]
    if hasattr(model, "dual_objective_"):
        found["duals"][method] = model.dual_objective_
    found["ends"][method] = [objective[0], objective[-1]]
sag.GRID = dict.fromkeys(sag.GRID, (0.01, 0.1))
part = SimpleNamespace(X=X, y=y)
found["sag"] = sag.run(SimpleNamespace(train=part, test=part), 8)
found["methods"] = [name for name, _ in sag.methods(8)]
print(json.dumps(found, default=list))
