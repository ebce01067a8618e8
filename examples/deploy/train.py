"""Train a tagger and store it as a small file, in joblib's or skops's format by its suffix."""

import argparse
import zipfile
from pathlib import Path

import joblib
from tag import TRUSTED

from skstruct import SAGCRF, Chain, RaggedArray
from skstruct.datasets import fetch_conll2000, make_annotated_sentences
from skstruct.metrics import chunk_f1_score
from skstruct.pipeline import make_pipeline
from skstruct.preprocessing import TemplateVectorizer

TEMPLATES = "\n".join(
    [f"Uw{o}:%x[{o},0]" for o in (-2, -1, 0, 1, 2)]
    + [f"Uw{o}{o + 1}:%x[{o},0]/%x[{o + 1},0]" for o in (-1, 0)]
    + [f"Up{o}:%x[{o},1]" for o in (-2, -1, 0, 1, 2)]
    + [f"Up{o}{o + 1}:%x[{o},1]/%x[{o + 1},1]" for o in (-2, -1, 0, 1)]
    + [f"Up{o}{o + 2}:%x[{o},1]/%x[{o + 1},1]/%x[{o + 2},1]" for o in (-2, -1, 0)]
    + ["B"]
)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path, help="model.joblib or model.skops")
    parser.add_argument("--conll2000", action="store_true", help="the real corpus, fetched")
    args = parser.parse_args()

    data = fetch_conll2000() if args.conll2000 else make_annotated_sentences(random_state=0)
    X, X_test = (
        RaggedArray.stack_columns([part.word, part.pos]) for part in (data.train, data.test)
    )
    model = make_pipeline(
        TemplateVectorizer(TEMPLATES), SAGCRF(Chain(forbidden="iob2"), random_state=0)
    )
    target = "chunk" if args.conll2000 else "entity"
    model.fit(X, data.train[target])
    before = chunk_f1_score(data.test[target], model.predict(X_test))
    model[-1].sparsify(1e-3, dtype="float32")
    after = chunk_f1_score(data.test[target], model.predict(X_test))

    if args.model.suffix == ".skops":
        import skops.io

        skops.io.dump(model, args.model, compression=zipfile.ZIP_DEFLATED)
        if more := set(skops.io.get_untrusted_types(file=args.model)) - set(TRUSTED):
            parser.exit(1, f"tag.py will refuse {args.model}: add {sorted(more)} to its TRUSTED\n")
    else:
        joblib.dump(model, args.model, compress=3)
    print(f"{target} F1 {100 * before:.2f}, {100 * after:.2f} with small weights dropped")
    print(f"{args.model}: {args.model.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
