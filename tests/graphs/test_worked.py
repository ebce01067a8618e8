"""Small worked examples of the internals of graphs."""

import numpy as np
import pytest

from skstruct.graphs.base import kept_pairs, kept_positions
from skstruct.graphs.pairwise.graph import attraction, neighbours, pair_columns
from skstruct.graphs.registry import recognise, wrong_graph


def test_general_columns_attraction():
    assert (attraction("symmetric").tolist(), attraction("potts").tolist()) == (
        [1.0, -2.0, 1.0],
        [2.0],
    )


def test_general_columns_pair_columns():
    assert (pair_columns("symmetric", 2).tolist()) == [[0, 1], [1, 2]]


def test_general_inputs_neighbours():
    assert ([(a.tolist(), b.tolist()) for a, b in neighbours(np.array([[1, 2], [3, 4]]), 4)]) == [
        ([[1], [3]], [[2], [4]]),
        ([[1, 2]], [[3, 4]]),
    ]


def test_kept_kept_positions():
    assert repr(kept_positions(["a", "b"], ["b", "c"])) == "array([ 1, -1])"


def test_kept_kept_pairs():
    assert (kept_pairs(np.array([1, -1]), 3).tolist()) == [[4, -1], [-1, -1]]


def test_registry_recognise():
    assert repr(recognise(np.zeros((2, 3)), ["a", "b"])) == "MultiClass()"
    with pytest.warns(UserWarning, match=r"rows of the same lengths.*graph='multilabel'"):
        recognise([np.zeros(2), np.ones(2)], [[0, 1], [1, 0]])
    with pytest.warns(UserWarning, match=r"tags of chunks.*graph='multiclass'"):
        recognise(np.zeros((3, 3)), ["O", "B-PER", "I-PER"])
    assert "did you mean C=1.0?" in wrong_graph(1.0)


def test_registry_wrong_graph():
    assert (wrong_graph("chains")[-21:]) == "did you mean 'chain'?"
