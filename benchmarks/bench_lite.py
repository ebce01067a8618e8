"""A tagger of US addresses without numba: start, latency, memory and file, beside python-crfsuite.

    python benchmarks/bench_lite.py --data FOLDER [--quick] [--json OUT]

The data, the settings (c1 = 0.1, c2 = 0.01) and the kind of features are those of usaddress: nested
dicts of a token's shape, of its neighbours' and of the ends of the address. The list of street
types is a shorter one. Each tagger runs in processes of its own, taking turns, on one core. The
first answer is counted from the start of the process, its imports included; beside it is the CPU
time of the process until then. A call tags one address whose features are made, memory is the
largest that the process has held at the first answer. Figures are medians over processes, of calls
over all training addresses, too.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
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


def train(X, y, folder, quick):
    """Files of both taggers, and by how many labels those of all addresses differ."""
    import pycrfsuite
    from sklearn.pipeline import make_pipeline

    from skstruct import SAGCRF, export
    from skstruct.lite import Tagger
    from skstruct.preprocessing import SequenceVectorizer

    theirs, ours = folder / "usaddress.crfsuite", folder / "usaddress.npz"
    trainer = pycrfsuite.Trainer(verbose=False, params={"c1": 0.1, "c2": 0.01})
    if quick:
        trainer.set("max_iterations", 20)
    for x, labels in zip(X, y, strict=True):
        trainer.append(pycrfsuite.ItemSequence(x), labels)
    trainer.train(str(theirs))
    # ratio / C = c1 and (1 - ratio) / (2 C) = c2
    crf = SAGCRF(C=25 / 3, l1_ratio=5 / 6, fit_intercept=False, random_state=0)
    crf.set_params(max_iter=20 if quick else 500)
    model = make_pipeline(SequenceVectorizer(), crf).fit(X, y)
    full = model.predict(X)
    crf.sparsify(1e-3, dtype="float32")
    export(model, ours)
    found = Tagger.load(ours).tag_batch(X)
    differ = sum(a.tolist() != b for a, b in zip(full, found, strict=True))
    print(f"{differ} of {len(X)} addresses differ after sparsify(1e-3, dtype='float32')")
    return {"python-crfsuite": theirs, "skstruct.lite": ours, "skstruct.lite, their file": theirs}


def child(name, model, samples):
    """Tag, in a process of its own: prints once at the first answer and once at the end."""
    if name == "python-crfsuite":
        import pycrfsuite

        tagger = pycrfsuite.Tagger()
        tagger.open(model)
    else:
        from skstruct.lite import Tagger

        tagger = Tagger.load(model)
    first = "123 N. Main Street, Springfield IL 62701".split()
    print(tagger.tag(features(first)), flush=True)
    figures = {"CPU s to the first answer": time.process_time()}
    status = dict(re.findall(r"(\w+):\s+(\d+)", Path("/proc/self/status").read_text()))
    X, spent = json.loads(Path(samples).read_text()), []
    for x in X:
        start = time.perf_counter()
        tagger.tag(x)
        spent.append(time.perf_counter() - start)
    figures |= {"MB": int(status["VmHWM"]) / 1e3, "us a call": 1e6 * median(spent)}
    print(json.dumps(figures))


def measure(name, model, samples):
    """Figures of one process."""
    command = [sys.executable, __file__, "--child", name, str(model), str(samples)]
    start = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
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
        files, samples = train(X, y, folder, args.quick), folder / "samples.json"
        samples.write_text(json.dumps(X))
        runs = {name: [] for name in files}
        for _ in range(3 if args.quick else 11):
            for name, model in files.items():
                runs[name].append(measure(name, model, samples))
        lines = [
            {
                "tagger": name,
                "kB of the file": files[name].stat().st_size / 1e3,
                **{key: median(run[key] for run in runs[name]) for key in runs[name][0]},
            }
            for name in files
        ]
    print(f"\n{len(X)} addresses, {sum(map(len, y)) / len(y):.1f} tokens each\n")
    print("| tagger | file, kB | first answer, s | CPU s | µs a call | memory, MB |")
    print("|---|--:|--:|--:|--:|--:|")
    for line in lines:
        print(
            f"| {line['tagger']} | {line['kB of the file']:.0f} | "
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
