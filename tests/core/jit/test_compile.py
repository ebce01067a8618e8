"""What a first fit compiles, and the command that compiles ahead of it."""

import os
import subprocess
import sys

import numpy as np
import pytest

from skstruct import (
    BCFWSSVM,
    Boxes,
    Candidates,
    Chain,
    Matching,
    MultiClass,
    MultiLabel,
    Pairwise,
    Tree,
)
from skstruct.cli import main

_COUNT = """
import numpy as np
from scipy import sparse
from numba.core import event
from skstruct import SAGCRF

class Counter(event.Listener):
    def on_start(self, started):
        names.append(started.data["dispatcher"].py_func.__qualname__)
    def on_end(self, ended):
        pass

names = []
rng = np.random.default_rng(0)
X = [sparse.csr_matrix(rng.normal(size=(n, 4))) for n in (3, 1, 5, 4)]
y = [np.arange(x.shape[0]) % 3 for x in X]
with event.install_listener("numba:compile", Counter()):
    crf = SAGCRF(max_iter=2, tol=1.0).fit(X, y)
    fitted = len(names)
    crf.predict(X)
print(fitted, len(names), *names)
"""

# The command of `python -m skstruct`, in the same process.
_COMMAND = """
import sys
from skstruct.__main__ import main
main(sys.argv[1:])
"""


def _python(*arguments, **environment):
    done = subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        env=os.environ | environment,
        check=True,
    )
    return done.stdout


@pytest.mark.slow
def test_few_functions_are_compiled_and_the_command_fills_the_cache(tmp_path):
    # Two processes do what two tests would do in four.
    code, command = _COUNT + _COMMAND, ["compile", "--graph", "multiclass", "--estimator"]
    command += ["SubgradientSSVM", "--features", "dense"]
    counts, *first = _python("-c", code, *command, NUMBA_CACHE_DIR=str(tmp_path)).splitlines()
    fitted, predicted, *names = counts.split()
    assert int(fitted) <= 92, names
    assert int(predicted) <= 110, names
    assert first[0] == "SubgradientSSVM on MultiClass(), dense features"
    assert first[-1].startswith(f"kept in {tmp_path}")
    assert "kernels in" in first[1]
    assert not first[1].startswith("  0 kernels")
    # Nothing for a second process: that of SAG, of decoding, and what they need.
    again, *second = _python("-c", code, *command, NUMBA_CACHE_DIR=str(tmp_path)).splitlines()
    assert again.split() == ["0", "0"]
    assert second[1].startswith("  0 kernels in")


@pytest.mark.parametrize("sparse_X", [False, True])
@pytest.mark.parametrize(
    "graph",
    [
        Chain(),
        Chain(edge_features=True),
        Tree(),
        Tree(edge_features=True),
        MultiClass(),
        MultiLabel(),
        MultiLabel("full"),
        MultiLabel([[0, 6]]),
        Pairwise(),
        Candidates(),
        Matching(),
        Boxes(),
    ],
    ids=str,
)
def test_examples_of_structures_can_be_trained_on(graph, sparse_X):
    X, y = graph.example(np.random.default_rng(0), sparse_X)
    read = type(graph)(**graph.get_params()).read_training(BCFWSSVM(), X, y)
    assert len(read[0].lengths) > 2
    assert len(np.unique(read[1])) > 1


def test_methods_of_map_inference_can_be_compiled(capsys):
    assert main(["compile", "--map", "max-product", "max-flow"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0::2][:2] == ["solve_map by max-product", "solve_map by max-flow"]
    assert "kernels in" in lines[1]
    assert lines[4].startswith("kept in")


def test_the_help_names_all_structures(capsys):
    with pytest.raises(SystemExit):
        main(["compile", "--help"])
    shown = capsys.readouterr().out
    for name in ("chain", "tree", "grid", "pairwise", "matching", "candidates", "boxes"):
        assert f"{name}," in shown


@pytest.mark.parametrize(
    ("option", "text", "message"),
    [
        ("--map", "guess", "invalid choice: 'guess'"),
        ("--graph", "molecule", "has no attribute 'molecule'"),
        ("--graph", "Chain(False)", "Name(option=value"),
        ("--graph", "Chain(edges=1)", "edges"),
        ("--graph", "SAGCRF", "is no Graph"),
        ("--graph", "no_such_module:Ring", "No module named"),
        ("--estimator", "chain", "is no StructuredEstimator"),
        ("--estimator", "__import__('os').system('false')", "__import__"),
    ],
)
def test_what_cannot_be_compiled_is_named(option, text, message, capsys):
    with pytest.raises(SystemExit):
        main(["compile", option, text])
    assert message in capsys.readouterr().err


def test_versions_by_the_command_line(capsys):
    assert main(["versions"]) == 0
    assert "scikit-learn" in capsys.readouterr().out
