"""Can the probabilities of entities be trusted? Before and after TemperatureScaling, CoNLL-2003.

    python benchmarks/bench_calibration.py --data FOLDER [--limit N] [--json OUT]

FOLDER holds ``conll2003/``. CRFs with two values of C are trained on the training part; the
temperature, and the isotonic curve, are found on testa; all figures are of testb. "review" is the
share of errors among the predicted entities that are found by looking at 5 % and at 20 % of them,
the least probable first; the precision is that of the rest.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from bench_rules import _TEMPLATES
from sklearn.frozen import FrozenEstimator

from skstruct import SAGCRF, Chain, RaggedArray, TemperatureScaling
from skstruct.datasets import load_conll
from skstruct.metrics import confidences, error_recall_at_review, expected_calibration_error
from skstruct.metrics import precision_at_coverage as precision
from skstruct.preprocessing import TemplateVectorizer


def main():
    """Print a line for each model."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--limit", type=int, help="sentences of each part")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    columns = ["word", "pos", "chunk", "entity"]
    files = [args.data / f"conll2003/eng.{name}.gz" for name in ("train", "testa", "testb")]
    parts = [load_conll(file, columns) for file in files]
    rows = [RaggedArray.stack_columns([own.word, own.pos])[: args.limit] for own in parts]
    reader = TemplateVectorizer(_TEMPLATES, min_count=2)
    X = [reader.fit_transform(rows[0]), *map(reader.transform, rows[1:])]
    y = [list(own.entity[: args.limit]) for own in parts]
    heads = ["C", "model", "temperature", "log-likelihood", "ECE nodes", "ECE chunks"]
    heads += ["review 5 %", "precision of 95 %", "review 20 %", "precision of 80 %"]
    print(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
    lines = []
    for C in (1.0, 100.0):
        crf = SAGCRF(Chain(), C=C, tol=1e-2, random_state=0).fit(X[0], y[0])
        models = {"as trained": crf}
        for name, isotonic in (("temperature", False), ("and isotonic", True)):
            model = TemperatureScaling(FrozenEstimator(crf), isotonic=isotonic)
            models[name] = model.fit(X[1], y[1])
        for name, model in models.items():
            nodes = confidences(model, X[2], y[2])
            chunks = confidences(model, X[2], y[2], of="chunks")
            values = [
                getattr(model, "temperature_", 1.0),
                float(model.predict_log_likelihood(X[2], y[2]).mean()),
                expected_calibration_error(*nodes),
                expected_calibration_error(*chunks),
            ]
            for share in (0.05, 0.2):
                values += [error_recall_at_review(*chunks, share), precision(*chunks, 1 - share)]
            print(f"| {C:g} | {name} | {' | '.join(f'{v:.3f}' for v in values)} |", flush=True)
            lines.append([C, name, *values])
            if args.json:
                args.json.write_text(json.dumps(lines, indent=1))


if __name__ == "__main__":
    main()
