"""What one call on one sentence costs, for few known features and for a million.

    python benchmarks/bench_vocabulary.py [--data FOLDER] [--quick] [--json OUT]

Each row is a way from tokens to labels, each column a number of known names; a cell is the median
of calls in microseconds. The words are drawn, the sentence has ten tokens, some of them unknown,
and the weights are drawn, too: nothing is trained but for one pass. `from_crfsuite` and
`from_wapiti` read files that the package has written.

With data, a second table is a task of the size of tweets: sentences of CoNLL-2000's test set that
have 18 tokens, with 16 attributes for each token, and one model of CRFsuite that python-crfsuite,
`skstruct.lite` and `from_crfsuite` share. They tag each sentence in turn, one after another, so
that the speed of the processor is the same for all; the order changes from sentence to sentence.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
import warnings
from pathlib import Path
from statistics import median

import numpy as np

from skstruct import SAGCRF, Chain, TemperatureScaling, export
from skstruct.datasets import load_conll
from skstruct.lite import Tagger
from skstruct.pipeline import make_pipeline
from skstruct.preprocessing import SequenceVectorizer, TemplateVectorizer, make_sequence_union

LABELS = ["A", "B", "C"]


def microseconds(call, seconds):
    """Median time of a call."""
    call()
    spent, end = [], time.perf_counter() + seconds
    while len(spent) < 3 or time.perf_counter() < end:
        start = time.perf_counter()
        call()
        spent.append(time.perf_counter() - start)
    return 1e6 * median(spent)


def fitted(features, graph, n_rows, n_pair_rows=1):
    """A chain with drawn weights for so many features."""
    y = [[LABELS[t % 3] for t in range(10)]]
    crf = SAGCRF(graph, fit_intercept=False, max_iter=1, tol=10.0, random_state=0).fit(features, y)
    rng = np.random.default_rng(0)
    crf.node_weights_ = rng.normal(size=(n_rows, 3))
    crf.pair_weights_ = rng.normal(size=(n_pair_rows, 9))
    return crf


def ways(n, folder):
    """Each way by its name, for so many known names."""
    words = [f"w{j}" for j in range(n)]
    places = np.random.default_rng(0).integers(0, n, size=10).tolist()
    lists = [[words[j], words[j // 2], "unknown"] for j in places]
    dicts = [{words[j]: True, "unknown": "word"} for j in places]
    columns = [(words[j], words[j // 2]) for j in places]

    vectorizer = SequenceVectorizer().fit([[words]])
    yield "SequenceVectorizer, lists", lambda: vectorizer.transform([lists])
    yield "SequenceVectorizer, dicts", lambda: vectorizer.transform([dicts])
    union = make_sequence_union(SequenceVectorizer(), SequenceVectorizer()).fit([[words]])
    yield "union of two", lambda: union.transform([lists])
    features = vectorizer.transform([lists])
    crf = fitted(features, Chain(), n)
    for name in ("predict", "predict_marginals", "predict_top_k"):
        options = (2,) if name == "predict_top_k" else ()
        yield f"SAGCRF.{name}", lambda name=name, o=options: getattr(crf, name)(features, *o)
    scaled = TemperatureScaling(crf)
    scaled.estimator_, scaled.temperature_ = crf, 1.5
    yield "TemperatureScaling.predict_marginals", lambda: scaled.predict_marginals(features)
    pipeline = make_pipeline(vectorizer, crf)
    yield "pipeline", lambda: pipeline.predict([lists])
    export(pipeline, folder / "tagger.npz")
    tagger = Tagger.load(folder / "tagger.npz")
    yield "lite, lists", lambda: tagger.tag(lists)
    yield "lite, dicts", lambda: tagger.tag(dicts)
    crf.to_crfsuite(folder / "tagger.crfsuite")
    read = SAGCRF.from_crfsuite(folder / "tagger.crfsuite")
    yield "from_crfsuite", lambda: read.predict([lists])

    text = "U0:%x[0,0]\nU1:%x[-1,0]/%x[0,1]"
    template = TemplateVectorizer(text).fit([list(zip(words, words[::-1], strict=True))])
    yield "TemplateVectorizer", lambda: template.transform([columns])
    text = "U:%x[0,0]/%x[0,1]\nB:%x[0,0]"
    template = TemplateVectorizer(text, outside="wapiti")
    template.fit([list(zip(words, words, strict=True))])
    crf = fitted(template.transform([columns]), Chain(edge_features=True), n, n + 1)
    crf.to_wapiti(folder / "wapiti", template)
    wapiti = SAGCRF.from_wapiti(folder / "wapiti")
    yield "from_wapiti", lambda: wapiti.predict([columns])


def shape(word):
    """Kinds of the characters of a word."""
    kinds = [(str.isupper, "X"), (str.islower, "x"), (str.isdigit, "d")]
    return "".join(next((kind for test, kind in kinds if test(c)), c) for c in word)


def attributes(words):
    """Sixteen attributes per token."""
    padded, found = ["<s>", "<s>", *words, "</s>", "</s>"], []
    for t, word in enumerate(words, start=2):
        small = word.lower()
        before, last, following, after = (padded[t + step].lower() for step in (-2, -1, 1, 2))
        own = {"w": word, "l": small, "shape": shape(word), "last shape": shape(padded[t - 1])}
        own |= {f"prefix{k}": small[:k] for k in (1, 2, 3)}
        own |= {f"suffix{k}": small[-k:] for k in (1, 2, 3)}
        own |= {"-2": before, "-1": last, "+1": following, "+2": after}
        own |= {"-1,0": f"{last}|{small}", "0,+1": f"{small}|{following}"}
        found.append([f"{name}={value}" for name, value in own.items()])
    return found


def beside_crfsuite(data, quick, folder):
    """Rows of the second table: microseconds a call, and the ratio to python-crfsuite."""
    import pycrfsuite

    parts = []
    for part in ("train", "test"):
        path = data / "conll2000" / f"{part}.txt.gz"
        found = load_conll(path, ["word", "pos", "chunk"])
        parts.append([*zip(found["word"], found["chunk"], strict=True)])
    trainer = pycrfsuite.Trainer(verbose=False, params={"c1": 0.1, "c2": 0.01})
    trainer.set("max_iterations", 5 if quick else 30)
    for words, labels in parts[0][: 500 if quick else None]:
        trainer.append(attributes(words), labels)
    trainer.train(str(folder / "chunks"))
    theirs = pycrfsuite.Tagger()
    theirs.open(str(folder / "chunks"))
    lite, pipeline = Tagger.load(folder / "chunks"), SAGCRF.from_crfsuite(folder / "chunks")
    calls = {
        "python-crfsuite": theirs.tag,
        "skstruct.lite": lite.tag,
        "from_crfsuite": lambda x: pipeline.predict([x])[0].tolist(),
    }
    X = [attributes(words) for words, _ in parts[1] if len(words) == 18]
    differ = [sum(call(x) != theirs.tag(x) for x in X) for call in calls.values()]
    spent = {name: [] for name in calls}
    names = [*calls]
    for _ in range(2 if quick else 20):
        for i, x in enumerate(X):
            for name in names[i % 3 :] + names[: i % 3]:
                start = time.perf_counter()
                calls[name](x)
                spent[name].append(time.perf_counter() - start)
    print(f"\n{len(X)} sentences of 18 tokens, 16 attributes each, {len(lite.classes)} labels\n")
    print("| tagger | µs a call | ratio | labellings that differ |\n|---|--:|--:|--:|")
    first, rows = median(spent["python-crfsuite"]), []
    for name, n in zip(calls, differ, strict=True):
        own = median(spent[name])
        print(f"| {name} | {1e6 * own:.0f} | {own / first:.2f} | {n} |")
        rows.append({"tagger": name, "us a call": 1e6 * own, "ratio": own / first, "differ": n})
    return rows


def main():
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="without it the first table alone")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", type=Path, help="where to write the figures, too")
    args = parser.parse_args()
    warnings.simplefilter("ignore")  # nothing is trained to its end
    sizes = [1000, 10_000, 100_000] if args.quick else [1000, 10_000, 100_000, 1_000_000]
    table = {}
    with tempfile.TemporaryDirectory() as folder:
        for n in sizes:
            for name, call in ways(n, Path(folder)):
                table.setdefault(name, []).append(microseconds(call, 0.05 if args.quick else 0.5))
        print("| µs a call |", " | ".join(f"{n:,}" for n in sizes), "|")
        print("|---|" + "--:|" * len(sizes))
        for name, row in table.items():
            print(f"| {name} |", " | ".join(f"{own:.0f}" for own in row), "|", flush=True)
        rows = [] if args.data is None else beside_crfsuite(args.data, args.quick, Path(folder))
    if args.json:
        found = {"sizes": sizes, "us a call": table, "beside CRFsuite": rows}
        args.json.write_text(json.dumps(found, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
