"""Load a model and tag JSON lines from standard input."""

import argparse
import json
import sys
import time
from pathlib import Path

import joblib

# What a skops file of train.py may contain besides scikit-learn's and numpy's own types.
TRUSTED = [
    "skstruct.estimators.crf.SAGCRF",
    "skstruct.graphs.chain.Chain",
    "skstruct.pipeline.Pipeline",
    "skstruct.preprocessing.columns.TokenColumns",
    "skstruct.preprocessing.patterns.Macro",
    "skstruct.preprocessing.patterns.Template",
    "skstruct.preprocessing.template.TemplateVectorizer",
    "skstruct.preprocessing.template._Features",
    "skstruct.data.names.VocabularyNames",
    "skstruct.preprocessing.template.TemplateNames",
]


def load(path):
    if path.suffix == ".skops":
        import skops.io

        return skops.io.load(path, trusted=TRUSTED)
    return joblib.load(path)


def answer(model, line):
    try:
        tokens = json.loads(line)
        if not isinstance(tokens, list):
            raise ValueError("expected a JSON list of tokens")
        return model.predict([tokens])[0].tolist() if tokens else []
    except (ValueError, TypeError) as error:
        return {"error": str(error)}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("--verbose", action="store_true", help="times on standard error")
    args = parser.parse_args()

    start = time.perf_counter()
    model = load(args.model)
    if args.verbose:
        print(f"loaded in {time.perf_counter() - start:.2f} s", file=sys.stderr)
    start = time.perf_counter()
    for number, line in enumerate(sys.stdin):
        print(json.dumps(answer(model, line)), flush=True)
        if args.verbose and number == 0:
            print(f"first answer after {time.perf_counter() - start:.2f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
