"""The papers' figures: baselines of `benchmarks/reproduce`, and what its scripts write."""

import csv
import json
import os
import subprocess
import sys
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse

from skstruct import BCFWSSVM, GDMMSSVM, RaggedArray
from skstruct.metrics import iou
from skstruct.testing import random_sequences

SAGS = "sag", "sag-small", "sag-nus*", "sag-nus*-search", "saga", "saga-nus*"
REPRODUCE = Path(__file__).resolve().parents[2] / "benchmarks" / "reproduce"
sys.path[:0] = [str(REPRODUCE), str(REPRODUCE.parent)]

import casimir  # noqa: E402
import extragradient  # noqa: E402
import frame  # noqa: E402
import gdmm  # noqa: E402
import gdmm_rate  # noqa: E402
import prox_linear  # noqa: E402
import runs  # noqa: E402
import sag  # noqa: E402
import selective_search  # noqa: E402
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


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.parametrize(("method", "within"), [
    ("pegasos", 0.1), ("sgd", 0.03), ("asg", 1e-2), ("adagrad", 1e-2), ("smd", 1e-2),
    ("sgd-nus", 0.03), ("hybrid", 1e-7), ("sag-nus", 1e-7), ("sag-nus*", 1e-7),
    ("sag", 1e-5), ("sag-small", 1e-5), ("saga", 1e-4), ("saga-nus*", 1e-3),
    ("sag-nus*-search", 1e-7), ("oeg", 1e-6), ("oeg-norp", 1e-6), ("oeg-10", 1e-6),
])  # fmt: skip
def test_baselines_come_to_the_optimum(plain, method, within):
    begin, end = plain["ends"][method]
    assert plain["bound"] <= end * (1.0 + 1e-14)
    assert end <= plain["optimum"] * (1.0 + within), end / plain["optimum"] - 1.0
    assert end < begin
    assert set(plain["ends"]) == set(METHODS)


def test_baselines_that_have_a_bound_have_one_of_the_optimum(plain):
    assert set(plain["duals"]) == {"oeg", "oeg-norp", "oeg-10", *SAGS}
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
    told = {"nodes": 1000, "error": 5.0, "optimum": 1.0, "searches": dict.fromkeys(names, 1.0)}
    return told | {"curves": curves, "clock": clock, "errors": errors, "error clock": errors}


YES, PART, NO = "holds", "holds in part", "does not hold"


def test_sag_claims_follow_the_curves():
    good = _curve((1, 1.0), (5, 5e-3), (60, 1e-5))
    fair = _curve((1, 1.0), (20, 9e-3), (60, 1e-3))
    nus = {"SAG-NUS": fair, "SAG-NUS*": good}

    def holds(title, **own):
        found = {title: _sag_task(title, **own)}
        return {claim.text: claim.holds for claim in sag.claims(found, 60)}

    def one(begin, title="ocr", **own):
        found = [v for k, v in holds(title, **own).items() if k.startswith(begin)]
        return found[0] if len(found) == 1 else found

    far = _curve((1, 9.0), (2, 8.0), (60, 1e-2))
    near = _curve((1, 9.0), (2, 8.0), (60, 0.06))
    assert one("SAG-NUS* often", **nus) == YES
    assert one("SAG-NUS* often", **nus, OEG=good) == YES  # excepted
    assert one("SAG-NUS* often", **nus, SGD=fair) == YES
    assert one("SAG-NUS* often", **{"SAG-NUS*": fair}, SGD=near) == YES
    assert one("SAG-NUS* often", **{"SAG-NUS*": near}) == NO
    assert one("SG outperforms", Pegasos=far) == [YES, NO]  # early, and in the end
    assert one("ASG outperforms", ASG=good) == YES
    assert one("ASG outperforms", ASG=fair, SMD=good) == NO
    assert one("ASG outperforms", "pos", ASG=good) == YES  # where SMD is not run
    assert one("Hybrid outperforms", **{"Hybrid": good, "L-BFGS": fair}) == [YES, YES]
    assert one("None of", ASG=good, Hybrid=fair) == YES  # with the second rate it is not the best
    assert one("None of", SAG=good) == NO
    assert one("OEG is very good", OEG=good) == YES
    assert one("OEG is very good", "pos", OEG=good) == NO
    assert one("OEG-10 outperforms", "pos", **{"OEG-10": good}) == YES
    few = _curve((1, 1.0), (60, 0.06))  # nearer, but not twice
    assert one("OEG-10 outperforms", "pos", **{"OEG-10": few}) == NO
    assert one("OEG-10 is nearly", "pos", **{"OEG-10": good, "SAG-NUS*": good}) == YES
    assert one("OEG-10 is nearly", "pos", **{"SAG-NUS*": good}) == NO
    assert one("OEG-10 outperforms") == []
    assert one("Without the permutation", OEG=good) == YES
    assert one("Without the permutation") == NO
    assert one("Both SAG-NUS methods outperform", **nus, OEG=good) == YES
    assert one("Both SAG-NUS methods outperform", **nus, SGD=good) == NO
    assert one("Both SAG-NUS methods outperform", **{"SAG-NUS*": near, "SAG-NUS": near}) == NO
    assert one("SAG-NUS* always", **nus) == YES
    assert one("SAG-NUS* always", **{"SAG-NUS": good}) == NO
    assert one("SAG is virtually") == YES
    assert one("SAG is virtually", SAG=good) == NO
    assert one("SG with non-uniform") == YES
    assert one("SG with non-uniform", SGD=good) == NO
    # To a level, which neither reaches at first, and in the end.
    assert one("SAGA variants are very similar to SAG-NUS*") == [NO, YES]
    saga = {"SAGA-NUS*, SAG's step": good}
    assert one("SAGA variants are very similar to SAG-NUS*", **nus, **saga) == [YES, YES]
    saga = {"SAGA-NUS*, SAG's step": _curve((1, 1.0), (5, 5e-3))}
    assert one("SAGA variants are very similar to SAG-NUS*", **nus, **saga) == [YES, NO]
    assert one("OEG is much worse", **nus) == YES
    assert one("OEG is much worse") == NO
    assert one("(Ours) Skipping", **nus) == YES
    assert one("Skipping drastically") == NO
    assert one("SVRG is similar", SAG=_curve((10, 0.1)), SVRG=_curve((20, 0.1))) == YES
    assert one("SVRG is similar", SAG=_curve((10, 0.1)), SVRG=_curve((10, 0.1))) == NO  # better
    assert one("SVRG is similar", SAG=_curve((10, 0.1)), SVRG=_curve((40, 0.1))) == NO


def test_sag_claims_name_tasks_without_them_and_what_is_not_tested():
    good = _curve((1, 1.0), (60, 1e-5))
    nus = {"SAG-NUS": good, "SAG-NUS*": good}
    found = {title: _sag_task(title) for title in ("ocr", "pos")}
    found["ocr"] = _sag_task("ocr", **nus)
    rows = list(sag.claims(found, 60))
    begins = "Both SAG-NUS methods outperform", "SAG-NUS* often outperforms"
    both, often = (next(row for row in rows if row.text.startswith(x)) for x in begins)
    assert (both.holds, both.why) == (PART, "not on treebank POS")
    assert (often.holds, often.why) == (YES, "not on treebank POS")  # half of the tasks
    untested = [row for row in rows if row.holds == "not tested"]
    assert len(untested) == len(sag.UNTESTED)
    assert all(row.why and not row.ours for row in untested)


def test_sag_claims_tell_errors_and_seconds():
    own = _sag_task("ocr")
    own["errors"]["ASG" + sag.SECOND] = _curve((1, 20.0), (60, 5.0))
    own["errors"]["AdaGrad" + sag.SECOND] = _curve((1, 9.1), (60, 5.0))
    own["errors"]["SAG-NUS"] = _curve((1, 9.0), (60, 7.0))
    own["errors"]["SAG-NUS*"] = _curve((1, 9.0), (20, 5.0))
    own["clock"]["AdaGrad"] = [[3.0, 200.0], [1.0, 0.1]]

    def one(begin, title="ocr"):
        rows = sag.claims({title: own}, 60)
        found = [row for row in rows if row.text.startswith(begin)]
        return found[0] if len(found) == 1 else found

    second = one("The test error of ASG")
    assert (second.holds, second.where) == (YES, "section 6, after the bullets, figure 2")
    assert second.ours == "OCR letters: 20.00 % against 9.00 % (after 60: 5.00 %, 5.00 %)"
    assert one("The test error of AdaGrad").holds == NO
    assert [row.holds for row in one("Both SAG-NUS methods are always")] == [YES, NO]
    similar = one("SAG-NUS methods are similar")
    assert [row.holds for row in similar] == [YES, NO]
    assert similar[1].ours == "OCR letters: SAG-NUS 7.00 %, SAG-NUS* 5.00 %, SGD 5.00 %"
    for when, ocr, pos in ((60, YES, NO), (30, NO, YES), (12, NO, YES), (9, NO, NO)):
        own["errors"]["ASG"] = _curve((1, 9.0), (when, 5.0))  # SAG-NUS* takes 20 passes
        found = [one("The best of AdaGrad", title) for title in ("ocr", "pos")]
        assert [row.holds for row in found] == [ocr, pos]
        assert ("less than half" in found[0].why) == (when == 9)
    assert one("lambda = 1 / n").holds == YES
    own["errors"]["L-BFGS"] = _curve((1, 9.0), (7, 4.4), (60, 5.0))
    close = one("lambda = 1 / n")
    assert (close.holds, close.ours) == (NO, "OCR letters: optimum 5.00 %, L-BFGS 4.40 % in pass 7")
    own["errors"]["Pegasos"] = _curve((1, 30.0), (9, 5.0))
    assert [row.holds for row in one("Pegasos performs very poorly")] == [YES, NO]
    runtime = one("AdaGrad is slightly worse")
    assert (runtime.holds, runtime.ours) == (YES, "OCR letters: 3.33e+03 against 2e+03")


def test_sag_counts_line_searches_of_the_last_epochs():
    calls = 10.0 * np.arange(1.0, 9.0)
    # Two forward passes a call at first, a half at the end.
    forward = np.cumsum(np.where(np.arange(8) < 2, 20.0, 5.0))
    history = {"passes": (calls + forward) / 10, "oracle_calls": calls}
    assert sag.late_searches(history, 10) == 0.5


def test_sag_stores_as_the_paper_says(tmp_path):
    """Two chains of three and one nodes, two features, two labels."""
    X = sparse.csr_matrix(np.array([[1.0, 0], [1, 0], [1, 0], [1, 1]]))
    part = SimpleNamespace(
        X=RaggedArray(X, np.array([0, 3, 4])),
        y=RaggedArray(np.array([0, 1, 0, 1]), np.array([0, 3, 4])),
    )
    row = {name: value / 8e-6 for name, value in sag.stored(part).items()}
    # (2 + 1) 2 + 4 weights; rows of one and two features, intercepts, transitions; nodes and edges.
    assert row == pytest.approx({"naive": 20, "sparse": 18, "marginals": 16, "mixed": 16})
    found = {"ocr": _sag_task("ocr") | {"memory": row}}
    (claim,) = (row for row in sag.claims(found, 60) if row.text.startswith("Memory"))
    assert claim.ours == "OCR letters: 9.0e-01 / 8.0e-01 / 8.0e-01"
    assert claim.holds == YES
    sag.write_memory(tmp_path / "memory.csv", found)
    rows = (tmp_path / "memory.csv").read_text(encoding="utf-8").splitlines()
    assert rows == ["Data set,Sparse,Marginals,Mixed,\"Naive, MB\"",
                    "OCR letters,9.0e-01,8.0e-01,8.0e-01,20"]  # fmt: skip


def test_sag_shortens_curves_but_not_what_claims_read():
    x = np.arange(1.0, 61.0)
    y = 0.5 ** (x / 2)
    curve, clock = sag.shortened(x, 3.0 * x, y, 47)
    twice, _ = sag.shortened(x, 3.0 * x, 2.0 * y, 47, best=2.0, floor=2.0 * sag.CERTIFIED)
    assert twice == [curve[0], pytest.approx([2.0 * v for v in curve[1]], rel=1e-3)]
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
    curves |= {"SGD" + sag.SECOND: curves["SGD"]}
    sag.write_reach(tmp_path / "reach.csv", {"ocr": {"curves": curves, "optimum": 1.0}})
    rows = (tmp_path / "reach.csv").read_text(encoding="utf-8").splitlines()
    assert rows == ["Passes to 0.001,OCR letters", "SAG,7", "SGD,not reached"]


def _band(*points, half=0.01):
    """Passes, means, and the same standard deviation everywhere."""
    return [*_curve(*points), [half] * len(points)]


def _casimir_parts(**own):
    """Figure 2 with one lambda: a slow curve for all methods that are not named."""
    slow = _band((10, 3.0), (25, 2.0), (50, 1.0), (100, 0.5))
    names = *casimir.SMOOTH, *casimir.OTHERS
    objective, f1 = casimir._ner_titles(1.0)
    curves = {objective: {name: own.get(name, slow) for name in names}}
    curves[f1] = {name: _band((10, 40.0), (100, own.get(f"{name} F1", 70.0))) for name in names}
    return {"ner": {"curves": curves, "facts": {"passes": 100}}}


def test_casimir_claims_follow_the_curves():
    fast = _band((10, 2.0), (25, 1.0), (50, 0.4), (100, 0.1))
    late = _band((10, 4.0), (25, 3.0), (50, 0.4), (100, 0.1))

    def holds(**own):
        rows = list(casimir.claims(_casimir_parts(**own)))
        assert rows.pop().holds == "not tested"  # all sentences
        return [row.holds for row in rows]

    assert holds(**{casimir.CONST: fast}) == ["holds", "holds", "holds", "holds"]
    assert holds(**{casimir.ADAPT: late, "SVRG": fast})[0] == "holds"
    assert holds(SGD=fast, SVRG=late)[:2] == ["holds", "holds in part"]
    assert holds(SGD=fast)[:2] == ["holds", "does not hold"]
    assert holds(BCFW=fast)[:2] == ["does not hold", "holds"]
    assert holds(SVRG=fast)[3] == "does not hold"
    assert holds(**{"BCFW F1": 70.009})[2] == "holds"
    assert holds(**{"BCFW F1": 70.011})[2] == "does not hold"
    parts = _casimir_parts()
    objective = casimir._ner_titles(1.0)[0]
    for end, verdict in ((0.55, "holds"), (0.56, "does not hold")):
        ours = {objective: {casimir.OURS: _band((10, 1.0), (100, end))}}
        parts["ours"] = {"curves": ours, "facts": {}}
        row = list(casimir.claims(parts))[-2]
        assert (row.text.startswith("(Ours) The package's default"), row.holds) == (True, verdict)


def test_casimir_on_all_sentences_is_compared_with_bcfw_and_sgd():
    rows = {"n": 14041, "passes": 50, f"{casimir.ADAPT}, rate 0.01": [0.02, 9.0]}
    rows |= {f"{casimir.ADAPT}, rate 0.02": [0.05, 9.0], "BCFW": [0.04, 9.0], "SGD": [0.6, 9.0]}
    (row,) = casimir.claims({"sizes": {"curves": {}, "facts": rows}})
    assert row.holds == "holds in part"
    rows[f"{casimir.ADAPT}, rate 0.02"] = [0.03, 9.0]
    assert next(casimir.claims({"sizes": {"curves": {}, "facts": rows}})).holds == "holds"


def _choices(**own):
    """Figure 5: curves that agree within their bands, but for those named ``title: name``."""
    flat = _band((10, 1.0), (25, 0.8), (50, 0.6), (100, 0.5))
    nus = [f"nu = {nu:g}" for nu in casimir.NUS]
    ranks = [f"{name}, K = {k}" for name in ("const", "adapt") for k in casimir.RANKS]
    starts = list(casimir.STARTS.values())
    rough = [f"{casimir.CONST}, nu = 1", f"{casimir.CONST}, nu = 0", "SVRG, nu = 0"]
    names = nus, nus, rough, starts, starts, ranks
    curves = {t: dict.fromkeys(n, flat) for t, n in zip(casimir.CHOICES, names, strict=True)}
    for key, curve in own.items():
        title, name = int(key[1]), key[3:]
        curves[casimir.CHOICES[title]][name] = curve
    last = {"Extrapolation": [2.0, None], "Prox-center": [1.0, 2.0], "Prev-iterate": [0.1, 0.2]}
    facts = {"passes": 100, "ladder": last, "zero": 9.0}
    return {"curves": curves, "facts": facts}


def test_casimir_choices_are_judged_by_a_standard_deviation():
    near = _band((10, 1.009), (25, 0.809), (50, 0.609), (100, 0.509))
    far = _band((10, 1.1), (25, 0.9), (50, 0.7), (100, 0.7))

    def holds(k, **own):
        return list(casimir.choices_claims(_choices(**own)))[k].holds

    assert holds(0) == "holds"
    assert holds(0, **{"_0_nu = 1": far}) == "holds in part"
    assert holds(1, **{"_1_nu = 8": near}) == "holds"
    assert holds(1, **{"_1_nu = 8": far}) == "does not hold"
    assert holds(2, **{"_2_SVRG, nu = 0": far}) == "holds in part"
    falls = _band((10, 1.0), (25, 0.9), (50, 0.7), (100, 0.3))
    adapt = {f"_4_{name}": falls for name in casimir.STARTS.values()}
    assert holds(3) == "holds in part"
    assert holds(3, **adapt) == "holds"
    assert holds(3, **adapt, **{f"_3{key[2:]}": falls for key in adapt}) == "holds in part"
    assert holds(4) == "holds"
    assert holds(5) == "does not hold"
    assert holds(5, **{"_3_Prev-iterate": far}) == "holds"
    # What comes after the smallest objective of a warm start is not counted.
    stalls = _band((10, 0.9), (25, 0.7), (50, 0.5), (100, 0.9))
    stalled = {f"_3_{name}": stalls for name in ("Extrapolation", "Prox-center")}
    assert holds(5, **stalled) == "holds"
    stable = {"Extrapolation": [2.0, 3.0], "Prox-center": [1.0, 2.0], "Prev-iterate": [0.1, 0.2]}
    part = _choices()
    part["facts"]["ladder"] = stable
    assert list(casimir.choices_claims(part))[4].holds == "holds in part"  # none diverges
    assert (holds(6), holds(7)) == ("holds", "holds")
    assert holds(7, **{"_5_adapt, K = 2": far}) == "does not hold"


def test_casimir_searches_rates_by_factors_of_two():
    class Model:
        def __init__(self, rate, nu):
            self.rate, self.nu = rate, nu

        def set_params(self, **_):
            return self

        def fit(self, X, y):
            if self.rate > 0.3:
                raise FloatingPointError
            self.objective_ = abs(np.log2(self.rate / 0.05)) + self.nu
            return self

    # The smallest objective is that of 0.05; what is measured prefers 0.1.
    task = SimpleNamespace(X=None, y=None, validate=lambda model: 50.0 + (model.rate == 0.1))
    others = [{"nu": 1.0}, {"nu": 0.5}]
    assert casimir.tuned(task, Model, others, 0.4, 12)["rate"] == 0.1
    task.validate = None
    found = casimir.tuned(task, Model, others, 0.4, 12)
    assert (found["rate"], found["nu"]) == (0.05, 0.5)
    assert found["trials"] < 10


def test_casimir_takes_kappa_from_the_smoothness():
    """Proposition 29: A / n - lambda, or lambda where A is small."""
    assert casimir._kappa(50.0, 0.01, 100) == 0.49
    assert casimir._kappa(3.0, 0.01, 100) == 0.01


def test_parts_of_results_are_kept(tmp_path, monkeypatch, shared_data):
    monkeypatch.setattr(frame, "draw", lambda *_, **__: None)
    args = frame.arguments("A figure.", argv=["--data", str(shared_data), "--out", str(tmp_path)])
    parts = _casimir_parts() | {"choices": _choices()}
    for part in parts.values():
        part["made"] = {"cpu_seconds": 1.0, "commit": "abc", "options": ["--tasks", "x"]}
    casimir.write(args, parts)
    assert casimir.restored(tmp_path) == parts
    written = json.loads((tmp_path / "casimir.json").read_text(encoding="utf-8"))
    assert (written["commit"], written["cpu_seconds"]) == ("abc", 1.0)
    assert written["command"] == "python benchmarks/reproduce/casimir.py --tasks x"
    assert casimir.restored(tmp_path / "none") == {}


def test_bands_are_means_and_deviations_over_seeds():
    x = np.arange(1.0, 101.0)
    curve = frame.over_seeds([[x, 3.0 / x], [x, 1.0 / x]], marks=[50.0], points=10)
    assert 50.0 in curve[0]
    assert len(curve[0]) <= 11
    np.testing.assert_allclose(curve[1], 2.0 / np.array(curve[0]), rtol=1e-3)
    np.testing.assert_allclose(curve[2], 1.0 / np.array(curve[0]), rtol=1e-3)


def test_selective_search_finds_what_has_another_colour():
    pytest.importorskip("skimage")
    image = np.zeros((60, 80, 3))
    image[...] = 0.1, 0.5, 0.2
    image[20:50, 30:70] = 0.9, 0.2, 0.1
    image[5:15, 5:15] = 0.2, 0.2, 0.9
    boxes = selective_search.proposals(image)
    for box in ([30, 20, 70, 50], [5, 5, 15, 15], [0, 0, 80, 60]):
        assert iou(box, boxes).max() > 0.8
    assert len(selective_search.proposals(image, most=2)) == 2


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_certificates_take_no_time_where_only_epochs_count(monkeypatch):
    ticks = count()
    monkeypatch.setattr(runs, "time", SimpleNamespace(process_time=lambda: float(next(ticks))))
    X, y = random_sequences(np.random.default_rng(0))
    model = GDMMSSVM(algorithm="gdmm", max_iter=9, tol=0.0, gap_every=1)
    own = runs.fit(model, X, y, lambda model: 0.0, 4.5, gdmm.METHODS)
    # Each epoch is between two looks at the clock.
    assert own.seconds.tolist() == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert np.isfinite(own.objective).all()


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


def test_gdmm_claims_leave_out_errors_of_what_predicts_nothing():
    own = _gdmm_task()
    own |= {"test": own["seconds"], "nothing": 1.0}
    with_errors = next(gdmm.claims("corel5k", own))
    assert "; test error: BCFW 1, SSG 4.5" in with_errors.ours
    without = next(gdmm.claims("corel5k", own | {"nothing": 0.01}))
    assert "test error" not in without.ours
    assert without.why.endswith("below that of no labels, 0.01 %")


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
    pairs, tags = gdmm_rate._active(curves)
    assert (tags.holds, pairs.holds) == ("holds", "does not hold")
    assert tags.text.startswith("(Ours)")


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


def _large_outputs():
    """Sparse rows, codes of labels, and where each of six chains begins."""
    X, y = random_sequences(np.random.default_rng(0), n_samples=6)
    rows, offsets = np.concatenate(list(X)), np.append(0, np.cumsum([len(x) for x in X]))
    codes = np.unique(np.concatenate(list(y)), return_inverse=True)[1]
    return sparse.csr_matrix((rows > 0.3).astype(float)), codes, offsets


def test_bcfw_of_large_outputs_comes_to_the_optimum():
    """As plain Python around a kernel: what it ends at is BCFWSSVM's."""
    rows, codes, offsets = _large_outputs()
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
    rows, codes, offsets = _large_outputs()
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


def _map_curve(*points, gap=0.0, score=0.0):
    """Passes and objectives of a method, which are its bounds, too."""
    passes, objective = (np.array(column, dtype=float) for column in zip(*points, strict=True))
    more = {"score": np.zeros(passes.size) + score, "gap": np.zeros(passes.size) + gap}
    more["seconds"] = 1e-3 * passes
    return {"passes": passes, "objective": objective, "bound": objective, **more}


def _synthetic():
    """What the paper says of figure 1, of a model whose linear program has the value 0."""
    sizes = {"q": 2, "log V": 0.5, "log W": 4.0, "M": 3, "theta": 1.0}
    optimum = {f"softmax, {g:g}": 2.0 * g for g in smooth_map.GAMMAS}
    optimum |= {f"l2, {g:g}": -0.4 * g for g in smooth_map.GAMMAS}
    fast = 1, 9.0
    curves = {
        smooth_map.CD: _map_curve((1, 9.0), (5, 9.0)),
        smooth_map.SUBGRADIENT: _map_curve(fast, (5000, 1.0)),
        "AGD L2, gamma 0.01": _map_curve(fast, (10, 0.006)),
        "AGD soft, gamma 0.01": _map_curve(fast, (20, 0.02)),
        "GD L2, gamma 0.01": _map_curve((1, 8.0), (3000, 0.006)),
        "GD soft, gamma 0.01": _map_curve(fast, (4000, 0.02)),
        "AGD L2, gamma 0.1": _map_curve(fast, (5, 0.06)),
    }
    for g in smooth_map.GAMMAS:
        curves[f"CD soft, gamma {g:g}"] = _map_curve(fast, (5, 2.0 * g))
    for lam in smooth_map.LAMBDAS:
        curves[f"FW, lambda {lam:g}"] = _map_curve(fast, (5, 100.0 * lam))
    gap = [1.0, 0.1, 0.01, 1e-3, 1e-4]
    for name in ("AGD", "SDCA"):
        own = _map_curve((1, 9.0), (20, 3.0), (40, 2.0), (60, 0.9), (80, 0.2), gap=gap)
        curves[f"{name}, gamma 0.1, lambda 0.001"] = own
    found = {"lp": 0.0, "passes": 9000, "optimum": optimum, "sizes": sizes, "curves": curves}
    strong = {f"{lam:g}": (90.0 * lam, 100.0 * lam) for lam in smooth_map.LAMBDAS}
    return found | {"strong": strong}


def test_map_claims_on_the_synthetic_model_follow_the_curves():
    def verdicts(**changed):
        found = _synthetic()
        found["curves"] |= changed
        return [claim.holds for claim in smooth_map.claims_synthetic(found)]

    good = verdicts()
    assert good == ["holds"] * len(good)
    fails, part = "does not hold", "holds in part"
    left = verdicts(**{smooth_map.CD: _map_curve((1, 9.0), (5, 8.0))})
    assert left == [fails, *good[1:]]
    assert verdicts(subgradient=_map_curve((1, 9.0), (30, 0.1)))[1] == fails
    assert verdicts(**{"CD soft, gamma 1": _map_curve((1, 9.0), (5, 3.0))})[2] == part
    # What has not come there is not slower than what has not, either.
    never = _map_curve((1, 9.0), (9, 8.0))
    names = [f"{kind} {s}, gamma 0.01" for kind in ("GD", "AGD") for s in ("L2", "soft")]
    found = verdicts(**dict.fromkeys(names, never))
    assert found[1] == fails
    assert found[3:6] == [fails] * 3
    assert verdicts(**{"AGD L2, gamma 0.01": _map_curve((1, 9.0), (95, 0.006))})[5] == part
    assert verdicts(**{"FW, lambda 0.001": _map_curve((1, 9.0), (5, 20.0))})[7] == fails
    for end in (0.01, 5.0):  # better, and much worse
        own = _map_curve((1, 9.0), (5, end), gap=[9, 0])
        assert verdicts(**{"AGD, gamma 0.1, lambda 0.001": own})[9:] == [part, "holds"]
    own = zip((1, 9, 99, 999, 9999), (9.0, 3.0, 2.0, 1.0, 0.9), strict=True)
    slow = _map_curve(*own, gap=[1.0, 0.1, 0.01, 1e-3, 1e-4])
    assert verdicts(**{"SDCA, gamma 0.1, lambda 0.001": slow})[10] == part
    found = _synthetic() | {"strong": {"0.01": (1, 1), "0.001": (0.9, 0.9), "0.0001": (0, 0.1)}}
    assert list(smooth_map.claims_synthetic(found))[8].holds == part


def test_map_bias_is_compared_with_the_bounds(tmp_path):
    found = _synthetic()
    found["strong"]["0.001"] = 0.2, 0.5
    smooth_map.write_bias(tmp_path / "bias.csv", found)
    with open(tmp_path / "bias.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))[1:]
    # (5) with the number of variables is 0.5, with that of configurations 4.
    assert [row[3:] for row in rows[:2]] == [
        ["(5), variables", "0.5", "no"],
        ["(5), configurations", "4", "yes"],
    ]
    assert rows[6] == ["L2, shifted", "gamma 1", "0.6", "after (11)", "1", "yes"]
    # 4 * 3 * 2 * 1 = 24, squared, times half of 0.001; what is not known to a thousandth is a range
    assert rows[10] == [
        "strongly convex",
        "lambda 0.001",
        "0.2 to 0.5",
        "(9)",
        "0.288",
        "not known",
    ]


def test_map_claims_on_real_models_follow_the_curves():
    late = [f"{name}, gamma 0.01" for name in ("AGD L2", "AGD soft")]
    late += ["AGD, gamma 0.01, lambda 0.01", "SDCA, gamma 0.01, lambda 0.01", "FW, lambda 0.01"]
    curves = {smooth_map.CD: _map_curve((1, 9.0), (5, 1.0), score=0.9)}
    curves["CD soft, gamma 0.001"] = _map_curve((1, 9.0), (5, 1.0), score=1.0)
    curves[smooth_map.SUBGRADIENT] = _map_curve((1, 9.0), (800, 1.0))
    curves |= {name: _map_curve((1, 9.0), (50, 1.0), score=1.0) for name in late}
    curves["AGD soft, gamma 0.01"]["seconds"] *= 2.0
    found = {"optimum": 1.0, "curves": curves}
    rows = list(smooth_map.claims_protein(found))
    holds, fails = "holds", "does not hold"
    assert [row.holds for row in rows] == [*[holds] * 5, "not tested", *[holds] * 2]
    curves["CD soft, gamma 0.001"] = _map_curve((1, 9.0), (60, 1.0), score=0.5)
    curves["AGD L2, gamma 0.01"]["seconds"] *= 9.0
    curves[smooth_map.CD]["score"][:] = 1.0
    curves["FW, lambda 0.01"]["score"][:] = 0.9
    curves[smooth_map.SUBGRADIENT] = _map_curve((1, 9.0), (499, 1.0))
    rows = list(smooth_map.claims_protein(found))
    part = "holds in part"
    verdicts = [part, fails, part, fails, fails, "not tested", part, fails]
    assert [row.holds for row in rows] == verdicts
    for name in curves.keys() - {smooth_map.SUBGRADIENT}:
        curves[name]["seconds"][:] = 1e9
    assert list(smooth_map.claims_protein(found))[6].holds == fails


def test_map_claims_on_horses_count_the_images():
    names = smooth_map.SUBGRADIENT, smooth_map.CD, "FW, lambda 0.01", smooth_map.OURS

    def image(*scores, when=2):
        own = {}
        for name, end, score in zip(names, (80.0, 70.0, 12.0, 10.0), scores, strict=True):
            place = when if name.startswith("FW") else 100
            own[name] = _map_curve((1, 99.0), (place, end), (100, end), score=[0.0, score, score])
        return own

    found = {"passes": 9, "pixels": [20, 30], "images": [image(1, 2, 4, 3), image(1, 2, 4, 5)]}
    rows = list(smooth_map.claims_horses(found))
    assert [row.holds for row in rows] == ["holds", "holds", "holds", "not tested"]
    assert "above all three on 1 of 2" in rows[0].why
    assert "bound of CD non-smooth: 0.02" in rows[1].ours
    found["images"] = [image(1, 5, 4, 3, when=50)] * 2
    found["images"][0][smooth_map.CD]["bound"][:] = 10.0
    rows = list(smooth_map.claims_horses(found))
    # Half of the passes of one rival are no orders of magnitude.
    part, fails = "holds in part", "does not hold"
    assert [row.holds for row in rows] == [part, fails, part, "not tested"]
    assert "score of CD non-smooth: inf" in rows[1].ours


def test_coordinate_descent_stays_at_the_start_of_the_synthetic_model():
    graph = smooth_map.stuck_at_start()
    curve = smooth_map.run(graph, "coordinate-descent", {"smoothing": 0.0}, 5)
    assert (curve["bound"] == 0.0).all()
    assert smooth_map.lp_value(graph) == pytest.approx(-50.0)


def test_prox_linear_claims_follow_the_curves():
    flat = _band((15, 1.0), (30, 0.8), (60, 0.5), half=0.1)
    low, far = (_band((15, 0.9), (30, v), (60, v), half=0.1) for v in (0.3, 0.85))

    def holds(k, **own):
        names = [prox_linear.PROX, *prox_linear.SGD], [], [], ["1", "2"], ["1", "2"]
        names = *names, ["1", "2"], ["5", "10"], list(casimir.STARTS.values())
        titles = zip(prox_linear.TITLES, names, strict=True)
        curves = {title: dict.fromkeys(own, flat) for title, own in titles}
        for key, curve in own.items():
            curves[prox_linear.TITLES[int(key[1])]][key[3:]] = curve
        return list(prox_linear.claims(curves, 60))[k].holds

    assert holds(0) == "holds"
    assert holds(0, **{"_0_SGD-const": low}) == "does not hold"
    assert holds(1, **{"_4_2": far}) == "holds"
    assert holds(1, **{"_3_2": far}) == "does not hold"
    assert holds(2) == holds(3) == "holds"
    assert holds(2, **{"_5_2": far}) == "does not hold"
    assert holds(3, **{"_6_5": far, "_6_2": far}) == "holds in part"
    assert holds(4) == "holds"
    assert holds(4, **{"_7_Extrapolation": low}) == "does not hold"


def test_curves_are_read_at_given_passes():
    found = prox_linear.on(np.array([1.0, 4.0, 9.0, 20.0]), np.array([4.0, 10.0]), [3.0, 2.0])
    np.testing.assert_array_equal(found, [np.nan, 3.0, 3.0, 2.0])


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
    found, about = sag.read(REPRODUCE / "results")
    left = [claim._asdict() for claim in sag.claims(found, about["passes"])]
    assert {*found} == {*sag.TASKS}
    for name, (_, places) in sag.FILES.items():
        written = json.loads((REPRODUCE / "results" / f"{name}.json").read_text())
        own = [claim for claim in left if claim["where"].startswith(places)]
        left = [claim for claim in left if claim not in own]
        assert written["claims"] == own
        assert written["commit"] == about["commit"]
    assert not left


def test_sag_joins_results_of_tasks(tmp_path, monkeypatch):
    monkeypatch.setattr(frame, "draw", lambda *_, **__: None)

    def part(name, commit="abc"):
        own = _sag_task(name) | {"rates": {}, "memory": dict.fromkeys(sag.MEMORY, 1.0)}
        args = SimpleNamespace(out=tmp_path / name, start=0.0, given=["--tasks", name])
        sag.write({name: own}, 60, args, {"command": f"run {name}", "commit": commit})
        return tmp_path / name

    folders = [part(name) for name in reversed(sag.TASKS)]
    found, more = sag.joined(folders)
    assert list(found) == list(sag.TASKS)
    assert more["command"] == "run pos; run dutch; run conll2000; run ocr"
    assert more["commit"] == "abc"
    own = _sag_task("dutch")
    for kind in ("curves", "clock", "errors", "error clock"):
        assert found["dutch"][kind].items() <= own[kind].items()
    assert found["dutch"]["curves"] == own["curves"]
    with pytest.raises(SystemExit, match="not of ocr, conll2000"):
        sag.joined(folders[:2])
    folders.append(part("pos", "other"))
    with pytest.raises(SystemExit, match="differ in commit"):
        sag.joined(folders)


def test_committed_verdicts_on_casimir_follow_from_its_panels():
    folder = REPRODUCE / "results"
    parts = casimir.restored(folder)
    for name, rows in (
        ("casimir", casimir.claims({k: v for k, v in parts.items() if k != "choices"})),
        ("casimir_choices", casimir.choices_claims(parts["choices"])),
    ):
        found = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
        assert [row._asdict() for row in rows] == found["claims"]
        for part in found["parts"].values():
            assert part["made"]["commit"]
            assert part["made"]["cpu_seconds"] > 0


def test_committed_verdicts_on_prox_linear_follow_from_its_panels():
    found = json.loads((REPRODUCE / "results" / "prox_linear.json").read_text(encoding="utf-8"))
    curves = {panel["title"]: panel["curves"] for panel in found["panels"]}
    rows = prox_linear.claims(curves, found["passes"])
    assert [row._asdict() for row in rows] == found["claims"]


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
