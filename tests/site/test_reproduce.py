"""The papers' figures: baselines of `benchmarks/reproduce`, and what its scripts write."""

import csv
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse

from skstruct import BCFWSSVM, GDMMSSVM, RaggedArray
from skstruct.testing import random_sequences

NUS_STAR = "sag-nus*", "sag-nus*-search"
REPRODUCE = Path(__file__).resolve().parents[2] / "benchmarks" / "reproduce"
sys.path[:0] = [str(REPRODUCE), str(REPRODUCE.parent)]

import casimir  # noqa: E402
import extragradient  # noqa: E402
import frame  # noqa: E402
import gdmm  # noqa: E402
import gdmm_rate  # noqa: E402
import prox_linear  # noqa: E402
import sag  # noqa: E402
import smooth_map  # noqa: E402
from baselines import METHODS  # noqa: E402
from lagrangian import lagrangian, least, point  # noqa: E402
from large_bcfw import BCFW, SSG, Chains, Oracle, objective  # noqa: E402


def _printed(name):
    """What a script prints that runs without compiling."""
    script = Path(__file__).parents[1] / "helpers" / name
    command = [sys.executable, "-W", "error", str(script)]
    env = os.environ | {"NUMBA_DISABLE_JIT": "1"}
    run = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout.splitlines()[-1])  # before it, the lines of the script


@pytest.fixture(scope="module")
def plain():
    """What plain_baselines.py prints."""
    return _printed("plain_baselines.py")


def test_steps_of_rivals_are_those_made_by_hand():
    found = _printed("plain_rivals.py")
    assert found.pop("sizes") == [1, 3, 5]  # of the batches
    # Steps are tested, and left out where the dual falls whatever the rate.
    assert found.pop("halved") > found.pop("left out") > 0
    within = {"choice of SAG-NUS": 2e-3, "SMD": 1e-7, "rates of SMD": 1e-7, "Hybrid, second": 1e-6}
    assert set(found) > set(within)
    for name, (error, moved) in found.items():
        assert error <= within.get(name, 1e-11), name
        assert moved > 0.05, name


@pytest.mark.parametrize(("method", "within"), [
    ("pegasos", 0.1), ("sgd", 0.03), ("asg", 1e-2), ("adagrad", 1e-2), ("smd", 1e-2),
    ("sgd-nus", 0.03), ("hybrid", 1e-7), ("sag-nus", 1e-7), ("sag-nus*", 1e-7),
    ("sag", 1e-5), ("sag-small", 1e-5),
    ("sag-nus*-search", 1e-7), ("oeg", 1e-6), ("oeg-norp", 1e-6), ("oeg-10", 1e-6),
])  # fmt: skip
def test_baselines_come_to_the_optimum(plain, method, within):
    begin, end = plain["ends"][method]
    assert plain["bound"] <= end * (1.0 + 1e-14)
    assert end <= plain["optimum"] * (1.0 + within), end / plain["optimum"] - 1.0
    assert end < begin
    assert set(plain["ends"]) == set(METHODS)


def test_baselines_that_have_a_bound_have_one_of_the_optimum(plain):
    assert set(plain["duals"]) == {"oeg", "oeg-norp", "oeg-10", "sag", "sag-small", *NUS_STAR}
    for bound in plain["duals"].values():
        assert 0.999 * plain["optimum"] <= bound <= plain["optimum"] * (1.0 + 1e-14)


def test_sag_measures_all_methods(plain):
    found = plain["sag"]
    seconds = {name for name in found["curves"] if name.endswith(sag.SECOND)}
    assert {name.removesuffix(sag.SECOND) for name in seconds} == {*sag.STOCHASTIC, "SGD-NUS"}
    assert set(found["curves"]) == set(found["errors"]) == set(plain["methods"]) | seconds
    assert set(found["clock"]) == set(found["curves"])
    assert found["rates"]["SGD"] != found["rates"]["SGD" + sag.SECOND]
    assert found["bound"] <= found["optimum"]
    for x, values in found["curves"].values():
        assert np.isfinite(x).all()
        assert (np.array(values) > 0).all()
    assert all(0 <= v <= 100 for _, values in found["errors"].values() for v in values)


def _curve(*points):
    """Passes and values."""
    return [list(column) for column in zip(*points, strict=True)]


def test_curves_are_read_where_they_are_known():
    curve = _curve((1, 0.5), (2, 0.2), (4, 0.01))
    assert np.isnan(frame.at(curve, 0.5))
    assert frame.at(curve, 3) == 0.2
    assert frame.first_below(curve, 0.2) == 2
    assert frame.first_below(curve, 0.001) == np.inf
    assert [frame.verdict(x) for x in ([True], [False], [True, False])] == [
        "yes",
        "no",
        "on 1 of 2",
    ]


def test_thin_keeps_both_ends():
    x, y = frame.thin(np.arange(1.0, 1001.0), np.linspace(1.0, 0.0, 1000))
    assert len(x) <= 40
    assert (x[0], x[-1], y[0], y[-1]) == (1.0, 1000.0, 1.0, 0.0)


def _sag_task(title, **own):
    """Curves of all methods: those named, and for the others a slow one."""
    slow = _curve((1, 1.0), (2, 0.9), (10, 0.5), (60, 0.1))
    names = [name for name, _ in sag.methods(60, title)]
    curves = dict.fromkeys([*names, *(f"{k}{sag.SECOND}" for k in ("ASG", "AdaGrad"))], slow)
    curves |= own
    clock = {name: [[2.0 * x for x in curve[0]], curve[1]] for name, curve in curves.items()}
    errors = {name: _curve((1, 9.0), (60, 5.0)) for name in curves}
    return {"curves": curves, "clock": clock, "errors": errors, "nodes": 1000, "error": 5.0}


def test_sag_claims_follow_the_curves():
    good = _curve((1, 1.0), (5, 5e-3), (60, 1e-5))
    fair = _curve((1, 1.0), (20, 9e-3), (60, 1e-3))
    nus = {"SAG-NUS": fair, "SAG-NUS*": good}

    def holds(title, **own):
        found = {title: _sag_task(title, **own)}
        return {claim.text: claim.holds for claim in sag.claims(found, {}, 60)}

    def one(begin, title="ocr", **own):
        found = [v for k, v in holds(title, **own).items() if k.startswith(begin)]
        return found[0] if len(found) == 1 else found

    far = _curve((1, 9.0), (2, 8.0), (60, 1e-2))
    assert one("SG outperformed", Pegasos=far) == ["yes", "no"]  # early, and in the end
    assert one("ASG outperformed", ASG=good) == "yes"
    assert one("ASG outperformed", ASG=fair, SMD=good) == "no"
    assert one("ASG outperformed", "pos", ASG=good) == "yes"  # where SMD is not run
    assert one("Hybrid outperformed", **{"Hybrid": good, "L-BFGS": fair}) == ["yes", "yes"]
    assert one("None of", ASG=good, Hybrid=fair) == "yes"  # with the second rate it is not the best
    assert one("None of", SAG=good) == "no"
    assert one("OEG was very good", OEG=good) == "yes"
    assert one("OEG was very good", "pos", OEG=good) == "no"
    assert one("OEG-10", "pos", **{"OEG-10": good}) == "yes"
    assert one("OEG-10") == []
    assert one("Without the permutation", OEG=good) == "yes"
    assert one("Both SAG-NUS methods outperform", **nus, OEG=good) == "yes"
    assert one("Both SAG-NUS methods outperform", **nus, SGD=good) == "no"
    assert one("SAG-NUS* always", **nus) == "yes"
    assert one("SAG-NUS* always", **{"SAG-NUS": good}) == "no"
    assert one("SAG is virtually") == "yes"
    assert one("SAG is virtually", SAG=good) == "no"
    assert one("SG with the proposed") == "yes"
    assert one("SG with the proposed", SGD=good) == "no"
    assert one("SAGA variants") == "no"  # neither is there
    assert one("SAGA variants", **nus, **{"SAGA-NUS*, package": good}) == "yes"
    assert one("OEG is much worse") == "no"
    assert one("Skipping", **nus) == "yes"


def test_sag_claims_tell_errors_and_seconds():
    own = _sag_task("ocr")
    own["errors"]["ASG" + sag.SECOND] = _curve((1, 20.0), (60, 5.0))
    own["errors"]["SAG-NUS"] = _curve((1, 9.0), (60, 7.0))
    own["clock"]["AdaGrad"] = [[3.0, 200.0], [1.0, 0.1]]
    found = {row.text: row for row in sag.claims({"ocr": own}, {}, 60)}

    def one(begin):
        return next(row for text, row in found.items() if text.startswith(begin))

    second = one("ASG and AdaGrad predict")
    assert (second.holds, second.where) == ("on 1 of 2", "section 6, figure 2")
    assert "ASG: 20.00 % against 9.00 %" in second.ours
    assert one("Both SAG-NUS methods are among").holds == "no"
    runtime = one("AdaGrad is slightly worse")
    assert (runtime.holds, runtime.ours) == ("yes", "OCR letters: 3.3 against 2")


def test_sag_stores_as_the_paper_says():
    """Two chains of three and one nodes, two features, two labels."""
    X = sparse.csr_matrix(np.array([[1.0, 0], [1, 0], [1, 0], [1, 1]]))
    part = SimpleNamespace(
        X=RaggedArray(X, np.array([0, 3, 4])),
        y=RaggedArray(np.array([0, 1, 0, 1]), np.array([0, 3, 4])),
    )
    row = {name: value / 8e-6 for name, value in sag.stored(part).items()}
    # (2 + 1) 2 + 4 weights; rows of one and two features, intercepts, transitions; nodes and edges.
    assert row == pytest.approx({"naive": 20, "sparse": 18, "marginals": 16, "mixed": 16})
    claim = list(sag.claims({"ocr": _sag_task("ocr")}, {"OCR letters": row}, 60))[-1]
    assert claim.ours == "OCR letters: 9.0e-01 / 8.0e-01 / 8.0e-01"
    assert claim.holds == "yes"


def test_sag_shortens_curves_but_not_what_claims_read():
    x = np.arange(1.0, 61.0)
    y = 0.5 ** (x / 2)
    curve, clock = sag.shortened(x, 3.0 * x, y, 47)
    assert len(curve[0]) < 30
    for level in (0.1, 1e-2, sag.LEVEL):
        assert frame.first_below(curve, level) == x[np.argmax(y <= level)]
    for passes in (sag.EARLY, sag.SOME, 47):
        assert frame.at(curve, passes) == pytest.approx(0.5 ** (passes / 2), rel=1e-3)
    assert clock[0] == [3.0 * k for k in curve[0]]
    assert curve[1][-1] == sag.CERTIFIED  # and no further
    assert curve[0][-1] == 54


def test_sag_tells_the_passes_of_every_method(tmp_path):
    curves = {"SAG": _curve((1, 1.0), (7, 1e-4)), "SGD": _curve((1, 1.0), (9, 0.1))}
    sag.write_reach(tmp_path / "reach.csv", {"ocr": {"curves": curves}})
    rows = (tmp_path / "reach.csv").read_text(encoding="utf-8").splitlines()
    assert rows == ["Passes to 0.001,OCR letters", "SAG,7", "SGD,not reached"]


def test_casimir_claims_follow_the_curves():
    ends = {"Casimir, adaptive": 0.01, "Casimir, constant": 0.02, "SVRG": 0.03, "BCFW": 0.1}
    curves = {name: _curve((2, 1.0), (100, v)) for name, v in ends.items()}
    curves["SGD, averaged"] = _curve((2, 2.0), (100, 0.5))
    variants = {f"adaptive, nu = {nu:g}": 0.01 for nu in casimir.STRENGTHS["ner"]}
    variants |= {f"constant, nu = {nu:g}": nu for nu in casimir.STRENGTHS["ner"]}
    variants |= {"warm start: previous": 0.1, "K = 2": 0.012}
    variants = {name: _curve((2, 1.0), (100, v)) for name, v in variants.items()}
    own = {"solvers": curves, "variants": variants, "passes": 100}
    own["spread"] = {group: casimir.spread(own, "ner", group) for group in casimir.GROUPS}
    assert own["spread"]["warm start"][1][0] == 1.0
    assert own["spread"]["warm start"][1][-1] == 10.0
    rows = list(casimir.claims({"ner": own}))
    assert [row.holds for row in rows] == ["yes", "yes", "yes", "yes", "yes", "no", "yes"]
    assert "worst previous (10 %)" in rows[5].why
    # What is near the optimum at the end only is not robust before.
    early = _curve((2, 1.0), (20, 0.9), (26, 0.1), (100, 0.01))
    own["variants"]["K = 2"] = early
    own["spread"]["K"] = casimir.spread(own, "ner", "K")
    assert list(casimir.claims({"ner": own}))[6].holds == "no"


def test_casimir_sizes_say_what_matters():
    def row(n, strength, limit, ratio):
        own = {"n": n, "lambda n": strength, "limit": limit, "kappa n": 40.0, "nu": 1.0}
        return own | {"Casimir": ratio, "BCFW": 1.0, "SGD": 3.0}

    weak = [row(500, 0.1, 500, 5.0), row(500, 10.0, 500, 1.1), row(9000, 0.01, None, 0.9)]
    by_n, by_lambda, ahead = casimir.claims(
        {}, [row(500, 1.0, 500, 4.0), row(9000, 1.0, None, 4.0), *weak]
    )
    assert (by_n.holds, by_lambda.holds, ahead.holds) == ("yes", "yes", "yes")
    assert "500: 4, 9,000: 4" in by_n.ours
    assert by_lambda.why.startswith("kappa ends at 400, 40, 4 lambda; nu,")
    same = [row(500, 1.0, 500, 4.0), row(9000, 1.0, None, 1.0), row(500, 10.0, 500, 4.0)]
    rows = casimir.claims({}, [*same, row(9000, 0.01, None, 4.0)])
    assert [claim.holds for claim in rows] == ["no", "no", "no"]


def _gdmm_task():
    """GDMM is at 0.1 after 2 s, BCFW after 4, SSG never."""
    ends = {"GDMM": (2, 0.01), "BCFW": (4, 0.02), "SSG": (9, 0.5)}
    ends |= {gdmm.SOFT[0]: (3, 0.2), gdmm.SOFT[1]: (8, 0.05)}
    curves = {
        name: _curve((0.1 * at, 5.0), (at, 0.1 if end < 0.1 else 0.5), (99, end))
        for name, (at, end) in ends.items()
    }
    return {"seconds": curves, "labels": 45, "bound": 1.0, "active": 20.0}


def test_gdmm_claims_follow_the_curves():
    own = _gdmm_task()
    small, highest = gdmm.claims("pos", own)
    # To the lowest objective that both come to: GDMM's is at 0.1 after 2 s.
    assert small.ours.startswith("BCFW 1, SSG 4.5")
    assert (small.holds, highest.holds) == ("holds", "holds")
    own["seconds"]["BCFW"] = _curve((0.5, 0.01))
    own["seconds"]["SSG"] = _curve((1, 0.3))
    small, highest = gdmm.claims("pos", own)
    assert (small.holds, highest.holds) == ("does not hold", "holds in part")
    large = next(gdmm.claims("rcv1", own))
    assert large.holds == "holds in part"  # beside Soft-BCFW
    assert large.why.endswith("two orders: 0 of 4. GDMM has 20 of 990 pairs active")


def test_gdmm_claims_by_passes():
    one = {"GDMM": _curve((10, 1.0), (20, 0.1), (100, 0.01))}
    one |= {
        gdmm.SOFT[0]: _curve((10, 2.0), (100, 0.5)),
        gdmm.SOFT[1]: _curve((10, 4.0), (100, 0.1)),
    }
    suboptimal, nearer, slower, fewer = gdmm.claims("iterations", {"POS": one})
    assert [row.holds for row in (suboptimal, nearer, slower, fewer)] == ["holds"] * 4
    assert fewer.ours == "POS: Soft-BCFW, rho = 1 5, Soft-BCFW, rho = 10 5"
    assert slower.ours == "POS: 4 against 2"
    other = one | {gdmm.SOFT[1]: _curve((5, 0.1), (10, 0.005))}
    holds = [row.holds for row in gdmm.claims("iterations", {"POS": one, "glyphs": other})]
    assert holds == ["holds in part", "holds", "holds in part", "holds in part"]


def test_gdmm_claims_on_characters():
    own = _gdmm_task()
    del own["bound"], own["active"]
    own |= {"labels": 3000, "nodes": 10}
    own["pass_seconds"] = {"GDMM": 2.0, gdmm.EXACT: 500.0, "BCFW": 300.0, "SSG": 150.0}
    own["seconds"][gdmm.EXACT] = _curve((1, 3.0), (25, 0.1))
    rows = list(gdmm.claims("glyphs", own))
    assert [row.holds for row in rows[:3]] == ["holds in part", "holds in part", "holds"]
    assert rows[1].ours == "GDMM 2 s; GDMM, exact search 500, BCFW 300, SSG 150"
    assert rows[1].why.startswith("times GDMM's: 250, 150, 75; 3,000 labels")
    assert rows[2].ours == "12.5 times"


def test_gdmm_costs_grow_as_exponents_say():
    K = np.array([10.0, 100.0])
    costs = {"labels": K, "GDMM": K**0.5, "its search": K, "exact search": K**2, "Viterbi": K**2}
    assert [row.holds for row in gdmm.claims("costs", costs)] == ["holds", "holds"]
    costs["its search"] = costs["GDMM"] = K**2
    assert [row.holds for row in gdmm.claims("costs", costs)] == ["does not hold", "holds in part"]


def test_rates_are_read_from_digits():
    linear = _curve(*((10.0 * k, 10.0 ** (1 - k)) for k in range(1, 9)))
    slow = _curve(*((3.0**k, 10.0 ** (1 - k)) for k in range(1, 9)))
    rest = dict.fromkeys((gdmm_rate.SAMPLED, gdmm_rate.AWAY, gdmm_rate.JOINT), slow)
    own, away, joint, sampled = gdmm_rate._sentences({"GDMM": linear, **rest})
    assert (own.holds, away.holds) == ("holds", "does not hold")
    assert own.ours == "10 / 20 / 30 / 40 / 50 / 60"
    assert own.why.startswith("digits take 1, 1, 1, 1 times")
    assert away.ours == "3 / 9 / 27 / 81 / 243 / 729"
    assert (joint.holds, sampled.holds) == ("does not hold", "does not hold")
    named = {f"{title}, the theorem's": linear for title in gdmm_rate.ALGORITHMS.values()}
    steps = dict.fromkeys(named, 0.1)
    found = {"curves": named, "steps": steps, "contraction": dict.fromkeys(("afw", "bgcd"), 0.6)}
    assert [row.holds for row in gdmm_rate._theorems(found)] == ["holds", "holds"]
    curves = {"POS": [[1, 50, 100], [5.0, 20.0, 21.0]], "pairs": [[1, 50, 100], [1.0, 60.0, 90.0]]}
    (active,) = gdmm_rate._active(curves)
    assert active.holds == "holds in part"


def test_the_augmented_lagrangian_is_that_of_the_package():
    """At its saddle point it is the dual objective; for any multipliers its minimum is below."""
    X, y = random_sequences(np.random.default_rng(0), n_samples=3, max_length=3)
    method = gdmm_rate.method_of(GDMMSSVM("chain", variant="afw", search="exact", eta=0.5), X, y)
    form = lagrangian(method.graph, float(method.reach[0]), method.options.rho)
    q, nu = point(form, method.state)
    assert form.value(q, nu) == pytest.approx(0.0, abs=1e-12)  # the truth
    # Minus the dual objective of BCFW, which the paper minimises.
    svm = BCFWSSVM("chain", tol=1e-9, max_iter=5000).fit(X, y)
    for _ in gdmm_rate.passes(method, 600, np.random.default_rng(0)):
        pass
    q, nu = point(form, method.state)
    inner, below = least(form, nu, q)
    assert form.value(q, nu) == pytest.approx(-3 * svm.dual_objective_, rel=1e-4)
    assert below <= min(form.value(inner, nu), -3 * svm.dual_objective_ + 1e-9)
    assert below == pytest.approx(-3 * svm.dual_objective_, rel=1e-4)
    assert least(form, 0.0 * nu, q)[1] < below  # the multipliers have raised it


def test_bcfw_of_large_outputs_comes_to_the_optimum():
    """As plain Python around a kernel: what it ends at is BCFWSSVM's."""
    X, y = random_sequences(np.random.default_rng(0), n_samples=6)
    rows, offsets = np.concatenate(list(X)), np.append(0, np.cumsum([len(x) for x in X]))
    rows = sparse.csr_matrix((rows > 0.3).astype(float))
    codes = np.unique(np.concatenate(list(y)), return_inverse=True)[1]
    chains = Chains(rows, codes, offsets, codes.max() + 1)
    solver = BCFW(chains, 0.1)
    for _ in range(60):
        for i in range(chains.n):
            solver.visit(i)
    end = objective(chains, solver.W, solver.T, 0.1, range(chains.n))
    model = BCFWSSVM("chain", C=0.1, tol=1e-6, max_iter=2000)
    model.fit(RaggedArray(rows, offsets), RaggedArray(codes, offsets))
    assert model.dual_objective_ <= end <= 1.01 * model.objective_


def test_ssg_of_large_outputs_averages_its_iterates():
    """Beside steps made by hand on the weights themselves."""
    X, y = random_sequences(np.random.default_rng(0), n_samples=6)
    rows, offsets = np.concatenate(list(X)), np.append(0, np.cumsum([len(x) for x in X]))
    rows = sparse.csr_matrix((rows > 0.3).astype(float))
    codes = np.unique(np.concatenate(list(y)), return_inverse=True)[1]
    chains = Chains(rows, codes, offsets, codes.max() + 1)
    solver, oracle = SSG(chains, 0.1), Oracle(chains)
    dense = np.hstack([rows.toarray(), np.ones((len(codes), 1))])
    W, T = np.zeros_like(solver.W), np.zeros_like(solver.T)
    sums = np.zeros_like(W), np.zeros_like(T)
    for t, i in enumerate((0, 3, 1, 1, 5, 2, 4), start=1):
        true, found, *_ = oracle(W, T, i)
        W, T = (1.0 - 1.0 / t) * W, (1.0 - 1.0 / t) * T
        for path, sign in ((true, 0.6 / t), (found, -0.6 / t)):  # 1 / (lambda t)
            for row, label in zip(dense[offsets[i] : offsets[i + 1]], path, strict=True):
                W[:, label] += sign * row
            np.add.at(T, (path[:-1], path[1:]), sign)
        solver.visit(i)
        for total, own in zip(sums, (W, T), strict=True):
            total += t * own
        for total, own in zip(sums, solver.weights(), strict=True):
            np.testing.assert_allclose(own, total / (0.5 * t * (t + 1)), atol=1e-12)
    assert abs(T).max() > 0.0


def test_triplets_have_one_pair_of_a_class(shared_data):
    X, y = extragradient.drawn_triplets(shared_data, n=40)
    assert {x.shape for x in X} == {(3, 128)}
    assert set(y) == {0, 1, 2}
    differences = np.array([x.sum(axis=1) for x in X])
    right = differences[np.arange(40), y]
    assert right.mean() < differences.mean()  # letters of a class look alike


def test_extragradient_claims_follow_the_rows():
    def row(end, *reached, **more):
        levels = dict(zip(("to 0.1", "to 0.01", "to 0.001"), reached, strict=True))
        return {"objective": end, "dual_objective": 1.0, "accuracy": 60.0, **levels, **more}

    rows = {"Extragradient, euclidean": row(1.005, [10, 1.0], [100, 2.0], None)}
    rows |= {"BCFW, pairwise (ours)": row(1.0001, [5, 3.0], [10, 3.0], [20, 4.0])}
    rows["BCFW"] = row(1.1, [10, 9.0], None, None, loss=[[1, 5, 9], [3.0, 2.0, 2.05]])
    falls, passes, seconds, same = extragradient.claims({"Hansards, 100 pairs": rows})
    assert (falls.holds, falls.ours) == ("holds", "3 after 1 passes, 2.05 after 9")
    assert passes.ours == "Hansards, 100 pairs: 100 against 10"
    assert [claim.holds for claim in (passes, seconds, same)] == ["holds", "does not hold", "holds"]
    assert all(claim.text.startswith("(Ours)") for claim in (passes, seconds, same))
    assert "0.67 to 0.67 of them" in seconds.why
    rows["BCFW"]["loss"] = [[1, 5, 9], [3.0, 2.0, 2.5]]
    found = list(extragradient.claims({"letter triplets": rows, "Hansards": rows}))
    assert [claim.holds for claim in found[:3]] == ["holds in part", "not tested", "holds in part"]
    gap = next(extragradient.claims({"scene, all pairs": {"BCFW": rows["BCFW"]}}))
    assert (gap.holds, gap.ours) == ("holds in part", "10 / not reached / not reached")


def test_map_claims_follow_the_curves():
    ends = {"MPLP": 0.5, "CD, soft-max 0.1": 0.01, "AGD, L2 0.1": 0.01, "AGD, soft-max 0.1": 0.02}
    ends |= {"gradient, L2 0.1": 0.3, "gradient, soft-max 0.1": 0.2, "subgradient": 0.3}
    ends |= {"SDCA, gamma 0.1": 0.01, "AGD, gamma 0.1": 0.01, "Frank-Wolfe, lambda 0.1": 0.005}
    ends |= {"CD, L2 0.1": 0.01, "decreasing smoothing": 1e-6}
    curves = {
        name: {"history": {"passes": [1, 9], "bound": [2.0, 1.0 + v], "score": [0.0, 1.0 - v]}}
        for name, v in ends.items()
    }
    scores = [[1.0, 1.0, 0.9], [1.0, 2.0, 1.9]]
    horses = {"methods": ["subgradient", "MPLP", "Frank-Wolfe"], "score": scores}
    protein = {"optimum": 1.0, "curves": curves, "plain": curves}
    found = {"stuck": {"lp": 1.0, "curves": curves}, "protein": protein, "horses": horses}
    rows = list(smooth_map.claims(found))
    some = "on 1 of 2"
    holds = [row.holds for row in rows]
    assert holds == ["on 7 of 9", "yes", some, "yes", some, "yes", "yes", "no"]
    assert rows[0].why.startswith("not gradient with soft-max, gradient with L2, ")
    # Ten times more passes for a further digit is no linear rate.
    own = {"passes": [1, 9, 19, 119], "bound": [3.0, 2.0, 1.1, 1.0], "score": [0.0, 0.0, 0.0, 1.0]}
    curves["SDCA, gamma 0.1"] = {"history": own}
    linear = next(row for row in smooth_map.claims(found) if "linearly" in row.text)
    assert linear.holds == "on 2 of 4"


def test_prox_linear_claims_follow_the_rows():
    def row(kind, end, stationarity=None, **options):
        curve = [[1, 5, 20], [2 * end, 1.5 * end, end]]
        own = {"kind": kind, "objective": end, "options": options, "curve": curve, "passes": 20}
        return own if stationarity is None else own | {"stationarity": stationarity}

    rows = [row("prox-linear, l2", 3.0, 0.1, inner_passes=5)]
    rows += [row("prox-linear, l2", end, inner_passes=1) for end in (4.0, 5.0)]
    rows += [row("subgradient, sqrt", 2.0, 0.2)]
    rows += [row("subgradient, sqrt", end) for end in (9.0, np.inf)]
    found = list(prox_linear.claims({"ocr": {"rows": rows, "passes": 20}}))
    assert [claim.holds for claim in found] == ["no", "no", "yes", "yes"]
    assert "3 linearisations in 20 passes, the subgradient is there after 5" in found[0].why
    assert "with 5 / 1 inner iterations 3 / 4" in found[0].why
    assert found[3].ours == "ocr: 4 against 9"


def test_prox_linear_and_subgradients_have_as_many_trials():
    for name in prox_linear.TASKS:
        kinds = [kind for kind, _ in prox_linear.trials(name, 40, quick=False)]
        assert len([k for k in kinds if k.startswith("prox")]) * 2 == len(kinds)


def test_results_are_written(tmp_path, capsys, shared_data):
    args = frame.arguments("A figure.", argv=["--data", str(shared_data), "--out", str(tmp_path)])
    claim = frame.Claim("It is fast, they say", "figure 1", "it is", "yes")
    curves = {key: [[1, 2], [0.5, 0.1]] for key in ("one", "one, second rate")}
    panel = frame.Panel("Title", "passes", "objective", curves)
    written = frame.write("own", args, "Someone 2020", [panel], [claim])
    assert json.loads((tmp_path / "own.json").read_text(encoding="utf-8")) == json.loads(
        json.dumps(written)
    )
    assert written["versions"]["numpy"] == np.__version__
    assert (
        (tmp_path / "own.csv")
        .read_text(encoding="utf-8")
        .splitlines()[1]
        .startswith('"It is fast, they say",')
    )
    assert "| It is fast, they say | figure 1 | it is | yes |" in capsys.readouterr().out
    assert (tmp_path / "own.png").read_bytes()[:4] == b"\x89PNG"


RESULTS = sorted((REPRODUCE / "results").glob("*.json"))


@pytest.mark.parametrize("path", RESULTS, ids=[path.stem for path in RESULTS])
def test_committed_results_belong_together(path):
    found = json.loads(path.read_text(encoding="utf-8"))
    with open(path.with_suffix(".csv"), newline="", encoding="utf-8") as file:
        head, *rows = csv.reader(file)
    assert rows == [list(claim.values()) for claim in found["claims"]]
    assert len(head) == len(rows[0])
    assert "--quick" not in found["command"]
    for written in (path, path.with_suffix(".png")):
        assert written.stat().st_size < 80_000
    folder = REPRODUCE.parent.parent / "doc" / "papers"
    pages = "".join(page.read_text(encoding="utf-8") for page in folder.glob("*.rst"))
    assert f"results/{path.stem}.png" in pages
    assert f"results/{path.stem}.csv" in pages


def test_committed_claims_of_extragradient_follow_from_its_rows():
    found = json.loads((REPRODUCE / "results" / "extragradient.json").read_text())
    problems = {}
    for row in found["rows"]:
        problems.setdefault(row["problem"], {})[row["name"]] = row
    assert [claim._asdict() for claim in extragradient.claims(problems)] == found["claims"]


@pytest.mark.parametrize("path", sorted((REPRODUCE / "results").glob("gdmm_*.json")))
def test_committed_verdicts_on_gdmm_follow_from_its_panels(path):
    found = json.loads(path.read_text())
    if "measured" not in found:
        pytest.skip("not of gdmm.py")
    own, name = found["measured"], path.stem.removeprefix("gdmm_").removesuffix("_full")
    for panel in found["panels"]:
        task, _, figure = panel["title"].partition(": ")
        if figure == "figure 2, left":
            own[task] = panel["curves"]
        elif figure.endswith("test error"):
            own["test"] = panel["curves"]
        elif name != "costs":
            own["seconds"] = own.get("seconds", {}) | panel["curves"]
    assert [claim._asdict() for claim in gdmm.claims(name, own)] == found["claims"]


def test_committed_verdicts_on_sag_follow_from_its_panels():
    found = json.loads((REPRODUCE / "results" / "sag.json").read_text())
    more = REPRODUCE / "results" / "sag_more.json"
    if not more.exists():
        pytest.skip("the results are older than the script's methods")
    more = json.loads(more.read_text())
    curves = {panel["title"]: panel["curves"] for panel in found["panels"] + more["panels"]}
    tasks = {}
    for name, own in found["tasks"].items():
        drawn, other, clock, errors = (
            curves[f"{sag.TITLES[name]}: {what}"]
            for what in ("objective", "other methods", "runtime", "test")
        )
        tasks[name] = own | {"curves": drawn | other, "clock": clock, "errors": errors}
    claims = [claim._asdict() for claim in sag.claims(tasks, found["memory"], 60)]
    assert [c for c in claims if c["where"].startswith(sag.MAIN)] == found["claims"]
    assert [c for c in claims if not c["where"].startswith(sag.MAIN)] == more["claims"]


def test_part_of_the_tasks_and_trial_runs_take_no_place_of_results(tmp_path):
    def folder(*argv):
        return frame.arguments("A figure.", ["a", "b"], ["--data", f"{tmp_path}", *argv]).out

    assert folder() == folder("--tasks", "b", "a") == frame.RESULTS
    for argv in (["--quick"], ["--tasks", "a"], ["--quick", "--tasks", "a"]):
        assert folder(*argv).resolve() not in (frame.RESULTS, *frame.RESULTS.parents)
    args = frame.arguments("A figure.", argv=[f"--data={tmp_path}", "--full", "--out", "x"])
    assert args.given == ["--full"]


def test_what_would_end_a_run_of_hours_is_said_at_once(tmp_path, capsys, monkeypatch):
    (tmp_path / "file").touch()
    there = ["--data", str(tmp_path)]
    for argv, message in (
        (["--data", f"{tmp_path}/none"], "there is no folder"),
        ([*there, "--out", f"{tmp_path}/file"], "file is no folder"),
    ):
        with pytest.raises(SystemExit):
            frame.arguments("A figure.", argv=argv)
        assert message in capsys.readouterr().err
    monkeypatch.setattr(frame.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SystemExit):
        frame.arguments("A figure.", argv=there)
    assert "pip install matplotlib" in capsys.readouterr().err


def test_without_git_results_name_no_commit(monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert frame.machine()["commit"] == ""
