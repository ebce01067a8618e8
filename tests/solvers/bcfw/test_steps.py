"""What BCFW keeps beside the dual point: inner products, and shares to extrapolate from."""

import numpy as np
import pytest

from skstruct import BCFWSSVM, Chain
from skstruct.core.oracles import accumulate, add_indicator
from skstruct.core.weights import zero_weights
from skstruct.solvers.bcfw.solver import BCFW
from skstruct.testing import random_sequences


@pytest.fixture(params=[30, 3], ids=["roomy", "evicting"])
def run(request, monkeypatch):
    """A problem, the shapes of its weights and the dual point after a few passes."""
    kept = {}
    dual_point = BCFW.dual_point

    def keep(method):
        kept.update(state=dual_point(method), weight=method.sample_weight)
        kept.update({name: getattr(method, name) for name in ("problem", "shapes", "lam")})
        return kept["state"]

    monkeypatch.setattr(BCFW, "dual_point", keep)
    X, y = random_sequences(np.random.default_rng(0), n_samples=6)
    options = {"n_cached": request.param, "max_iter": 7, "tol": 1e-12, "random_state": 0}
    with pytest.warns(Warning, match="max_iter"):
        model = BCFWSSVM(Chain(), C=2.0, **options).fit(X, y, np.arange(1.0, 7.0))
    return model, kept


def _of_labelling(kept, i, labels):
    """``A_i' (mu(labels) - mu(y_i))`` as one vector, and the difference itself."""
    problem = kept["problem"]
    first, stop = problem.label_ptr[i], problem.label_ptr[i + 1]
    r = np.zeros(problem.part_ptr[i + 1] - problem.part_ptr[i])
    add_indicator(problem, i, labels, 1.0, r)
    add_indicator(problem, i, problem.labels[first:stop], -1.0, r)
    w = zero_weights(kept["shapes"])
    accumulate(problem, i, r, (1.0, 0.0), w)
    return np.concatenate([table.ravel() for table in w.tables]), r


def test_inner_products_are_those_of_the_cached_labellings(run):
    _, kept = run
    problem, state = kept["problem"], kept["state"]
    for i in range(6):
        nodes = slice(problem.label_ptr[i], problem.label_ptr[i + 1])
        slots = np.flatnonzero(state.shares[i] >= 0.0)
        vectors = [_of_labelling(kept, i, state.labels[c, nodes])[0] for c in slots]
        assert len(slots) > 1
        for a, v in zip(slots, vectors, strict=True):
            for b, u in zip(slots, vectors, strict=True):
                if b <= a:
                    found = state.inner[i, a * (a + 1) // 2 + b]
                    np.testing.assert_allclose(found, v @ u, rtol=1e-6, atol=1e-5)


def test_residuals_are_what_the_shares_say(run):
    model, kept = run
    if model.n_cached < 30:
        pytest.skip("what is evicted is in the residuals only")
    problem, state = kept["problem"], kept["state"]
    for i in range(6):
        nodes = slice(problem.label_ptr[i], problem.label_ptr[i + 1])
        parts = slice(problem.part_ptr[i], problem.part_ptr[i + 1])
        slots = np.flatnonzero(state.shares[i] >= 0.0)
        mixed = sum(
            state.shares[i, c] * _of_labelling(kept, i, state.labels[c, nodes])[1] for c in slots
        )
        np.testing.assert_allclose(state.shares[i, slots].sum(), 1.0)
        np.testing.assert_allclose(state.residuals[parts], mixed, atol=1e-12)
        assert state.losses[i] == pytest.approx(state.shares[i, slots] @ state.costs[i, slots])


def test_the_dual_objective_is_that_of_the_residuals(run):
    model, kept = run
    problem, state, lam = kept["problem"], kept["state"], kept["lam"]
    w = zero_weights(kept["shapes"])
    for i in range(6):
        r = state.residuals[problem.part_ptr[i] : problem.part_ptr[i + 1]]
        accumulate(problem, i, r, (-kept["weight"][i] / (lam * 6), 0.0), w)
    norm = sum(float(np.vdot(table, table)) for table in w.tables)
    dual = float(state.losses @ kept["weight"]) / 6 - 0.5 * lam * norm
    assert model.dual_objective_ == pytest.approx(dual, rel=1e-9)
    assert model.dual_objective_ <= model.objective_
