"""A tagger of US addresses wherever it runs: start, latency, memory and file of each way.

    python benchmarks/bench_lite.py --data FOLDER [--quick] [--json OUT]

The data, the settings (c1 = 0.1, c2 = 0.01) and the kind of features are those of usaddress: nested
dicts of a token's shape, of its neighbours' and of the ends of the address. The list of street
types is a shorter one. Each tagger runs in processes of its own, taking turns, on one core. The
first answer is counted from the start of the process, its imports included; beside it is the CPU
time of the process until then. A call tags one address whose features are made, memory is the
largest that the process has held at the first answer. Figures are medians over processes, of calls
over all training addresses, too.

The model of all rows but python-crfsuite's own is one fit: the pipeline in joblib's file (with
kernels in the cache, and without), what ``export`` writes, and what ``to_crfsuite`` writes.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import NamedTuple
from xml.etree import ElementTree

_DIRECTIONS = set("n s e w ne nw se sw north south east west northeast northwest".split())
_DIRECTIONS |= set("southeast southwest".split())
_STREETS = set(
    "aly ave avenue blvd boulevard cir circle court cove cres ct dr drive expressway expy fwy hwy "
    "highway hill lane ln loop park parkway path pike pkwy pl place plaza point rd road route row "
    "run sq square st street ter terrace trail trl turnpike via view walk way".split()
)


def shape(token):
    """What is known of one token."""
    clean = token if token in "&#" else re.sub(r"^\W+|[^.\w]+$", "", token)
    word = clean.lower().replace(".", "")
    is_number = word.isdigit()
    n_digits = sum(map(str.isdigit, clean))
    digits = "all" if clean.isdigit() else "some" if n_digits else "no"
    return {
        "abbrev": clean.endswith("."),
        "digits": f"{digits}_digits",
        "word": False if is_number else word,
        "trailing.zeros": re.search("0*$", word).group() if is_number else False,
        "length": f"{'d' if is_number else 'w'}:{len(word)}",
        "endsinpunc": token[-1] if re.match(r".+[^.\w]$", token) else False,
        "directional": word in _DIRECTIONS,
        "street_name": word in _STREETS,
        "has.vowels": bool(set(word[1:]) & set("aeiou")),
    }


def features(tokens):
    """A dict per token, with those of its neighbours."""
    shapes = [shape(token) for token in tokens]
    if len(shapes) == 1:
        return [{**shapes[0], "singleton": True}]
    shapes[0]["address.start"] = shapes[-1]["address.end"] = True
    found = [dict(own) for own in shapes]
    for before, after, own_before, own_after in zip(
        found, found[1:], shapes, shapes[1:], strict=False
    ):
        before["next"], after["previous"] = own_after, own_before
    return found


def addresses(path):
    """Tokens and labels of each address."""
    for address in ElementTree.parse(path).getroot():
        parts = [(part.text.strip() + (part.tail or "").strip(), part.tag) for part in address]
        yield tuple(zip(*parts, strict=True))


class Tagger(NamedTuple):
    """A way to run a model."""

    name: str
    #: What reads the file: one of the branches of :func:`load`.
    reader: str
    path: Path
    #: Where kernels may be, by environment variables.
    kernels: dict


def train(X, y, folder, quick):
    """All taggers, from two fits; prints by how many labels the small model differs."""
    import joblib
    import pycrfsuite
    from sklearn.pipeline import make_pipeline

    from skstruct import SAGCRF, export
    from skstruct.lite import Tagger as Lite
    from skstruct.preprocessing import SequenceVectorizer, drop_unused_features

    theirs = folder / "usaddress.crfsuite"
    trainer = pycrfsuite.Trainer(verbose=False, params={"c1": 0.1, "c2": 0.01})
    if quick:
        trainer.set("max_iterations", 20)
    for x, labels in zip(X, y, strict=True):
        trainer.append(pycrfsuite.ItemSequence(x), labels)
    trainer.train(str(theirs))
    # ratio / C = c1 and (1 - ratio) / (2 C) = c2
    crf = SAGCRF(C=25 / 3, l1_ratio=5 / 6, fit_intercept=False, random_state=0)
    crf.set_params(max_iter=20 if quick else 500)
    model = make_pipeline(SequenceVectorizer(separator=":"), crf).fit(X, y)
    full = model.predict(X)
    crf.sparsify(1e-3, dtype="float32")
    model = drop_unused_features(model)
    ours = [folder / f"ours.{suffix}" for suffix in ("joblib", "npz", "crfsuite")]
    joblib.dump(model, ours[0], compress=3)
    export(model, ours[1])
    model[-1].to_crfsuite(ours[2])
    found = Lite.load(ours[1]).tag_batch(X)
    differ = sum(a.tolist() != b for a, b in zip(full, found, strict=True))
    print(f"{differ} of {len(X)} addresses differ after sparsify(1e-3, dtype='float32')")
    empty = {"NUMBA_CACHE_DIR": str(folder / "empty")}
    return [
        Tagger("python-crfsuite, its own model", "pycrfsuite", theirs, {}),
        Tagger("python-crfsuite, `to_crfsuite`", "pycrfsuite", ours[2], {}),
        Tagger("`skstruct.lite`, `export`", "lite", ours[1], {}),
        Tagger("`skstruct.lite`, `to_crfsuite`", "lite", ours[2], {}),
        Tagger("skstruct, kernels cached", "skstruct", ours[0], {}),
        Tagger("skstruct, nothing compiled", "skstruct", ours[0], empty),
    ]


def load(reader, path):
    """The function that tags one sequence of feature dicts."""
    if reader == "pycrfsuite":
        import pycrfsuite

        tagger = pycrfsuite.Tagger()
        tagger.open(path)
        return tagger.tag
    if reader == "lite":
        from skstruct.lite import Tagger as Lite

        return Lite.load(path).tag
    import joblib

    model = joblib.load(path)
    return lambda x: model.predict([x])[0].tolist()


def child(reader, path, samples):
    """Tag, in a process of its own: prints once at the first answer and once at the end."""
    tag = load(reader, path)
    first = "123 N. Main Street, Springfield IL 62701".split()
    print(tag(features(first)), flush=True)
    figures = {"CPU s to the first answer": time.process_time()}
    status = dict(re.findall(r"(\w+):\s+(\d+)", Path("/proc/self/status").read_text()))
    X, spent = json.loads(Path(samples).read_text()), []
    for x in X:
        start = time.perf_counter()
        tag(x)
        spent.append(time.perf_counter() - start)
    figures |= {"MB": int(status["VmHWM"]) / 1e3, "us a call": 1e6 * median(spent)}
    print(json.dumps(figures))


def measure(tagger, samples):
    """Figures of one process."""
    for folder in tagger.kernels.values():
        if Path(folder).is_dir():
            shutil.rmtree(folder)
    command = [sys.executable, __file__, "--child", tagger.reader, tagger.path, samples]
    start = time.perf_counter()
    environment = os.environ | {"SKSTRUCT_QUIET": "1"} | tagger.kernels
    with subprocess.Popen(
        [*map(str, command)], stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        process.stdout.readline()
        first = time.perf_counter() - start
        return {"s to the first answer": first, **json.loads(process.stdout.readline())}


def main():
    """Print a table."""
    import tempfile

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", type=Path, help="where to write the figures, too")
    args = parser.parse_args()
    pairs = list(addresses(args.data / "usaddress" / "train.xml"))
    pairs = pairs[:300] if args.quick else pairs
    X, y = [features(tokens) for tokens, _ in pairs], [labels for _, labels in pairs]
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        taggers, samples = train(X, y, folder, args.quick), folder / "samples.json"
        samples.write_text(json.dumps(X))
        runs = [
            [measure(tagger, samples) for tagger in taggers] for _ in range(3 if args.quick else 7)
        ]
        lines = [
            {
                "tagger": tagger.name,
                "kB": tagger.path.stat().st_size / 1e3,
                **{key: median(run[key] for run in own) for key in own[0]},
            }
            for tagger, own in zip(taggers, zip(*runs, strict=True), strict=True)
        ]
    print(f"\n{len(X)} addresses, {sum(map(len, y)) / len(y):.1f} tokens each\n")
    print("| tagger | file, kB | first answer, s | CPU s | µs a call | memory, MB |")
    print("|---|--:|--:|--:|--:|--:|")
    for line in lines:
        print(
            f"| {line['tagger']} | {line['kB']:.0f} | "
            f"{line['s to the first answer']:.3f} | {line['CPU s to the first answer']:.3f} | "
            f"{line['us a call']:.0f} | {line['MB']:.0f} |"
        )
    if args.json:
        args.json.write_text(json.dumps(lines, indent=1), encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(*sys.argv[2:])
    else:
        main()
