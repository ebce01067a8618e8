"""Readers of .wcsp and .cfn files against toulbar2, on its own validation files."""

import gzip
import re

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skstruct.map_inference import read_cfn, read_uai, read_wcsp, solve_map
from tests.helpers.map_reader_judge import JUDGED, REFUSED, labelling

HARD = {"cap131.wcsp", "cat_paths_60_170_0005_clq.wcsp", "cat_sched_60_200_0004_clq.wcsp.xz"}
READERS = {"wcsp": read_wcsp, "cfn": read_cfn, "uai": read_uai}


@pytest.fixture(scope="module")
def folder(shared_data):
    return shared_data / "map_models" / "toulbar2_files"


def read(path):
    return READERS[path.name.split(".")[1]](path)


def bound_of(path):
    """1 and the upper bound of costs, or -1 and the lower bound of values."""
    if path.name.endswith("wcsp.xz"):
        return 1, 151500.0
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt") as file:
        text = file.read()
    if path.suffix == ".wcsp":
        return 1, float(text.split()[4])
    sign, number = re.search(r"mustbe\W*?([<>])([-.\d]+)", text).groups()
    return (1 if sign == "<" else -1), float(number)


def test_every_file_is_judged_or_refused(folder):
    models = {path.name for path in folder.iterdir() if path.suffix not in (".ub", ".uai")}
    assert models == JUDGED.keys() | REFUSED.keys()
    assert not JUDGED.keys() & REFUSED.keys()


@pytest.mark.parametrize("name", REFUSED)
def test_refused_by_name(folder, name):
    with pytest.raises(ValueError, match=f"{name}, {REFUSED[name]}"):
        read(folder / name)


@pytest.mark.parametrize("name", JUDGED)
def test_costs_are_those_of_toulbar2(folder, name):
    graph = read(folder / name)
    sign, bound = bound_of(folder / name)
    for k, cost in enumerate(JUDGED[name][1]):
        score = graph.score(labelling(graph.n_states.tolist(), k))
        if cost is None:
            assert score <= -sign * bound + 1e-9
        else:
            assert_allclose(-sign * score, cost, atol=1e-9)


@pytest.mark.thinned
@pytest.mark.parametrize("name", JUDGED)
def test_optima_are_those_of_toulbar2(folder, name):
    graph = read(folder / name)
    optimum = JUDGED[name][0] * -bound_of(folder / name)[0]
    result = solve_map(graph, time_limit=1 if name in HARD else 60)
    if name in HARD:
        assert result.score <= optimum <= result.bound
    else:
        assert result.optimal
        assert_allclose(result.score, optimum, atol=1e-9)


@pytest.mark.parametrize("name", ["network.uai", "water.uai"])
def test_markov_networks_are_read(folder, name):
    graph = read(folder / name)
    assert np.isfinite(solve_map(graph, time_limit=10).score)
