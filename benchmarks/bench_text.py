"""From a raw column file to test F1 in one process, against sklearn-crfsuite; stage by stage.

    python benchmarks/bench_text.py --data FOLDER [--limit N] [--no-entities] [--json FILE]

FOLDER holds ``conll2000/``, ``conll2003/`` and ``conll2002_dutch/``. Needs the ``bench`` extra. CPU
seconds of one core; skstruct's kernels come from the disk cache (run twice on a new machine). F1 is
over chunks, by skstruct.metrics for all.
"""

from __future__ import annotations

import argparse
import functools
import gc
import json
import platform
import time
import warnings
from contextlib import contextmanager
from pathlib import Path

import numba
import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_extraction import DictVectorizer

from skstruct import SAGCRF, RaggedArray
from skstruct.datasets import load_conll
from skstruct.metrics import chunk_f1_score
from skstruct.preprocessing import SequenceVectorizer, TemplateVectorizer

CHUNKING = "\n".join(
    [f"Uw{o}:%x[{o},0]" for o in (-2, -1, 0, 1, 2)]
    + [f"Uw{o}{o + 1}:%x[{o},0]/%x[{o + 1},0]" for o in (-1, 0)]
    + [f"Up{o}:%x[{o},1]" for o in (-2, -1, 0, 1, 2)]
    + [f"Up{o}{o + 1}:%x[{o},1]/%x[{o + 1},1]" for o in (-2, -1, 0, 1)]
    + [f"Up{o}{o + 2}:%x[{o},1]/%x[{o + 1},1]/%x[{o + 2},1]" for o in (-2, -1, 0)]
    + ["B"]
)
# The same as pairs (offset, column).
_SPECS = [
    [tuple(map(int, part.split("]")[0].split(","))) for part in line.split("%x[")[1:]]
    for line in CHUNKING.splitlines()[:-1]
]
# Words, lower-cased words, affixes, shapes and tags in a window of two tokens.
NER = "\n".join(
    [f"Uw{o}:%x[{o},0]" for o in (-2, -1, 0, 1, 2)]
    + [f"Ul{o}:%X[{o},0]" for o in (-1, 0, 1)]
    + [f"Uw{o}{o + 1}:%x[{o},0]/%x[{o + 1},0]" for o in (-1, 0)]
    + [f'Up{n}:%m[0,0,"^{"." * n}"]' for n in (2, 3, 4)]
    + [f'Us{n}:%m[0,0,"{"." * n}$"]' for n in (2, 3, 4)]
    + [f'Uu{o}:%t[{o},0,"^\\u"]' for o in (-1, 0, 1)]
    + ['Ua0:%t[0,0,"^\\u*$"]', 'Ud0:%t[0,0,"\\d"]', 'Uh0:%t[0,0,"-"]']
    + [f"Ut{o}:%x[{o},1]" for o in (-2, -1, 0, 1, 2)]
    + [f"Ut{o}{o + 1}:%x[{o},1]/%x[{o + 1},1]" for o in (-1, 0)]
    + ["B"]
)


class Stages(dict):
    """CPU seconds by stage."""

    @contextmanager
    def __call__(self, name):
        gc.collect()
        start = time.process_time()
        yield
        self[name] = self.get(name, 0.0) + time.process_time() - start


def ours(folder, limit, tol):
    """SAGCRF with templates."""
    stage = Stages()
    with stage("read"):
        train, test = (
            load_conll(folder / f"conll2000/{name}.txt.gz", ["word", "pos", "chunk"])
            for name in ("train", "test")
        )
        X, X_test = (RaggedArray.stack_columns([part.word, part.pos]) for part in (train, test))
        X, y = X[:limit], train.chunk[:limit]
    vectorizer, crf = TemplateVectorizer(CHUNKING, outside="drop"), SAGCRF(tol=tol, random_state=0)
    with stage("features"):
        features = vectorizer.fit_transform(X)
    with stage("train"):
        crf.fit(features, y)
    with stage("predict"):
        predicted = crf.predict(vectorizer.transform(X_test))
    with stage("F1"):
        f1 = chunk_f1_score(test.chunk, predicted)
    return stage, 100 * f1


def _token(sentence, t):
    """The features of sklearn-crfsuite's tutorial for one token."""
    word, pos = sentence[t]
    features = {
        "bias": 1.0,
        "word.lower()": word.lower(),
        "word[-3:]": word[-3:],
        "word[-2:]": word[-2:],
        "word.isupper()": word.isupper(),
        "word.istitle()": word.istitle(),
        "word.isdigit()": word.isdigit(),
        "postag": pos,
        "postag[:2]": pos[:2],
    }
    for offset, end in ((-1, "BOS"), (1, "EOS")):
        if 0 <= t + offset < len(sentence):
            word, pos = sentence[t + offset]
            features |= {
                f"{offset:+d}:word.lower()": word.lower(),
                f"{offset:+d}:word.istitle()": word.istitle(),
                f"{offset:+d}:word.isupper()": word.isupper(),
                f"{offset:+d}:postag": pos,
                f"{offset:+d}:postag[:2]": pos[:2],
            }
        else:
            features[end] = True
    return features


def _by_template(sentence):
    """The attributes of CHUNKING for the tokens of a sentence."""
    n = len(sentence)
    return [
        [
            f"{q}=" + "/".join([sentence[t + o][c] for o, c in spec])
            for q, spec in enumerate(_SPECS)
            if all(0 <= t + o < n for o, _ in spec)
        ]
        for t in range(n)
    ]


def _by_tutorial(sentence):
    return [_token(sentence, t) for t in range(len(sentence))]


def theirs(folder, limit, expand):
    """sklearn-crfsuite with the options of its tutorial."""
    from sklearn_crfsuite import CRF

    stage = Stages()
    with stage("read"):
        train, test = (
            load_conll(folder / f"conll2000/{name}.txt.gz", ["word", "pos", "chunk"])
            for name in ("train", "test")
        )
        sentences, test_sentences = (
            [
                list(zip(w.tolist(), p.tolist(), strict=True))
                for w, p in zip(d.word, d.pos, strict=True)
            ]
            for d in (train, test)
        )
        sentences, y = sentences[:limit], [tags.tolist() for tags in train.chunk][:limit]
    crf = CRF(algorithm="lbfgs", c1=0.1, c2=0.1, max_iterations=100, all_possible_transitions=True)
    with stage("features"):
        X = [expand(row) for row in sentences]
    with stage("train"):
        crf.fit(X, y)
    with stage("predict"):
        predicted = crf.predict([expand(row) for row in test_sentences])
    with stage("F1"):
        f1 = chunk_f1_score(test.chunk, predicted)
    return stage, 100 * f1


def end_to_end(folder, limit):
    """Every stage from the raw file to the F1."""
    out = []
    for name, run, option in (
        ("SAGCRF()", ours, 1e-3),
        ("SAGCRF(tol=0.1)", ours, 0.1),
        ("sklearn-crfsuite, its tutorial's features", theirs, _by_tutorial),
        ("sklearn-crfsuite, the same attributes", theirs, _by_template),
    ):
        stage, f1 = run(folder, limit, option)
        out.append({"model": name, "stages": stage, "seconds": sum(stage.values()), "f1": f1})
    names = list(stage)
    print(f"| CoNLL-2000 | {' | '.join(names)} | total s | F1 |")
    print(f"|---|{'--:|' * (len(names) + 2)}")
    for row in out:
        cells = " | ".join(f"{row['stages'][name]:.2f}" for name in names)
        print(f"| {row['model']} | {cells} | {row['seconds']:.2f} | {row['f1']:.2f} |")
    print(flush=True)
    return out


def vectorizers(folder, limit):
    """Tokens a second by features and by what reads them, the best of three CPU times.

    pycrfsuite.ItemSequence is python-crfsuite's own feature code, on the same dicts and lists.
    """
    import pycrfsuite

    data = load_conll(folder / "conll2000/train.txt.gz", ["word", "pos", "chunk"])
    X = RaggedArray.stack_columns([data.word, data.pos])[:limit]
    rows = [list(map(tuple, tokens.tolist())) for tokens in X]
    n_tokens, out = sum(map(len, rows)), []

    def add(features, name, read):
        stage = Stages()
        for repeat in range(3):
            with stage(str(repeat)):
                read()
        out.append({"features": features, "reader": name, "speed": n_tokens / min(stage.values())})

    def items(sequences):
        return [pycrfsuite.ItemSequence(sequence) for sequence in sequences]

    def of_dicts(sequences):
        return DictVectorizer().fit_transform(
            [dict.fromkeys(token, 1.0) for sequence in sequences for token in sequence]
        )

    vectorizer = TemplateVectorizer(CHUNKING, outside="drop")
    add("templates", "TemplateVectorizer, fit", lambda: vectorizer.fit_transform(rows))
    add("templates", "TemplateVectorizer, transform", lambda: vectorizer.transform(rows))
    expanded = [_by_template(row) for row in rows]
    mine, theirs = vectorizer.transform(rows).flat, of_dicts(expanded)
    assert mine.shape == theirs.shape
    assert mine.nnz == theirs.nnz
    add("templates", "in Python, ItemSequence", lambda: items(map(_by_template, rows)))
    add("templates", "in Python, DictVectorizer", lambda: of_dicts(map(_by_template, rows)))
    for kind, sequences in (
        ("attribute lists", expanded),
        ("feature dicts", [_by_tutorial(row) for row in rows]),
    ):
        own = SequenceVectorizer()
        add(kind, "SequenceVectorizer, fit", functools.partial(own.fit_transform, sequences))
        add(kind, "SequenceVectorizer, transform", functools.partial(own.transform, sequences))
        add(kind, "ItemSequence", functools.partial(items, sequences))
    print("| features | read by | 1,000 tokens/s |\n|---|---|--:|")
    for row in out:
        print(f"| {row['features']} | {row['reader']} | {row['speed'] / 1e3:.0f} |", flush=True)
    print()
    return out


def entities(name, train, test, columns, limit):
    """F1 of SAGCRF and of CRFsuite's L-BFGS on the same attributes and the same objective."""
    import pycrfsuite

    vectorizer = TemplateVectorizer(NER, outside="drop")
    X = vectorizer.fit_transform(RaggedArray.stack_columns([train[c] for c in columns])[:limit])
    X_test = vectorizer.transform(RaggedArray.stack_columns([test[c] for c in columns]))
    y = train.entity[:limit]
    names = vectorizer.get_feature_names_out()

    def attributes(x):
        return [
            names[x.indices[start:stop]].tolist()
            for start, stop in zip(x.indptr[:-1], x.indptr[1:], strict=True)
        ]

    rows, out = [attributes(x) for x in X_test], []
    for label, tol in (("SAGCRF()", 1e-3), ("SAGCRF(tol=1e-5)", 1e-5)):
        stage = Stages()
        crf = SAGCRF(fit_intercept=False, tol=tol, random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            with stage("train"):
                crf.fit(X, y)
        f1 = 100 * chunk_f1_score(test.entity, crf.predict(X_test))
        out.append({"data": name, "model": label, "seconds": stage["train"], "f1": f1})
    for all_states in (0, 1):
        trainer = pycrfsuite.Trainer(algorithm="lbfgs", verbose=False)
        for x, tags in zip(X, y, strict=True):
            trainer.append(attributes(x), tags.tolist())
        trainer.set_params(
            {"c2": 0.5, "feature.possible_states": all_states, "max_iterations": 500}
        )
        trainer.set_params({"feature.possible_transitions": all_states})
        stage = Stages()
        with stage("train"):
            trainer.train("/tmp/bench_text.crfsuite")
        tagger = pycrfsuite.Tagger()
        tagger.open("/tmp/bench_text.crfsuite")
        f1 = 100 * chunk_f1_score(test.entity, [tagger.tag(row) for row in rows])
        label = f"CRFsuite L-BFGS, {'all' if all_states else 'observed'} features"
        out.append({"data": name, "model": label, "seconds": stage["train"], "f1": f1})
    return out


def _tasks(folder):
    columns = ["word", "pos", "chunk", "entity"]
    parts = [load_conll(folder / f"conll2003/eng.{n}.gz", columns) for n in ("train", "testb")]
    yield "CoNLL-2003 English", *parts, ["word", "pos"]
    columns = ["word", "pos", "entity"]
    parts = [
        load_conll(folder / f"conll2002_dutch/ned.{n}.gz", columns, encoding="latin-1")
        for n in ("train", "testb")
    ]
    yield "CoNLL-2002 Dutch", *parts, ["word", "pos"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--limit", type=int, help="training sentences a task")
    parser.add_argument("--no-entities", action="store_true")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    print(f"{platform.machine()}, numpy {np.__version__}, numba {numba.__version__}\n")
    results = {"end_to_end": end_to_end(args.data, args.limit)}
    results["vectorizers"] = vectorizers(args.data, args.limit)
    if args.no_entities:
        return
    print("| data | model | training s | test F1 |\n|---|---|--:|--:|")
    results["entities"] = []
    for task in _tasks(args.data):
        for row in entities(*task, args.limit):
            results["entities"].append(row)
            line = f"| {row['data']} | {row['model']} | {row['seconds']:.1f} | {row['f1']:.2f} |"
            print(line, flush=True)
    if args.json:
        args.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
