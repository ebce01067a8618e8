"""What type checkers find: the choices of parameters, calls, and the examples."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Literal, get_args, get_origin, get_type_hints

import pytest

import skstruct
from skstruct.core.sklearn_private import StrOptions
from skstruct.estimators.base import StructuredEstimator
from skstruct.graphs.pairwise import graph
from skstruct.map_inference import methods

ROOT = Path(__file__).parents[2]
ESTIMATORS = [
    kind
    for name in skstruct.__all__
    if isinstance(kind := getattr(skstruct, name), type) and issubclass(kind, StructuredEstimator)
]
_LOSSES = {"loss", "margin"}  # LossLike: an array may be a string to NumPy's annotations


def _literals(annotation):
    """The values of all Literals in an annotation."""
    if get_origin(annotation) is Literal:
        return {*get_args(annotation)}
    return set().union(*map(_literals, get_args(annotation)))


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_choices_are_those_of_the_annotations(kind):
    hints = get_type_hints(kind.__init__)
    for name, constraints in kind._parameter_constraints.items():
        if name not in _LOSSES:
            options = [rule.options for rule in constraints if isinstance(rule, StrOptions)]
            assert _literals(hints[name]) == set().union(*options), name


@pytest.mark.parametrize(
    ("annotation", "names"),
    [
        (methods.Method, {*methods.METHODS}),
        (graph.Inference, {"auto", *graph.METHODS}),
    ],
    ids=["solve_map", "Pairwise"],
)
def test_choices_of_methods_are_those_of_the_annotations(annotation, names):
    assert {*get_args(annotation)} == names


@pytest.mark.slow
@pytest.mark.parametrize(
    "command", [["mypy"], ["pyright", "--pythonpath", sys.executable]], ids=["mypy", "pyright"]
)
def test_calls_and_examples(command, tmp_path):
    pytest.importorskip(command[0])
    done = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=ROOT,
        env=os.environ | {"MYPY_CACHE_DIR": str(tmp_path)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
