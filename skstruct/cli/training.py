"""``train``: a model from column files and templates."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

import numpy as np

from .. import BCFWSSVM, SAGCRF, Chain
from ..callbacks import EarlyStopping
from ..datasets.text import separator_hint
from ..metrics import SCORERS
from ..metrics.terms import has_chunk_tags
from ..pipeline import Pipeline
from ..preprocessing import TemplateVectorizer, TokenFeatures
from ..preprocessing.patterns import parse
from .checking import (
    Sentence,
    count,
    encoding_name,
    n_threads,
    number,
    positive_number,
    read_sentences,
    seed,
    separator,
)
from .files import beside, is_skops, may_be_model, naming, refuse_same, save_model, say

# Templates of the command line: those of a file, or the usual ones.

_WINDOW = range(-2, 3)
_MOST_COLUMNS = 1000

# Capitals alone, a digit, punctuation.
_KINDS = [("C", r"^\u*$"), ("d", r"\d"), ("p", r"\p")]

# Beginnings and ends of up to four characters, capitals.
_SPELLING = [
    "Ul:%X[0,0]",
    *(rf'Ub{n}:%m[0,0,"^.{".?" * (n - 1)}"]' for n in range(1, 5)),
    *(rf'Ue{n}:%m[0,0,"{".?" * (n - 1)}.$"]' for n in range(1, 5)),
    *(rf'Uc{o}:%t[{o},0,"^\u"]' for o in (-1, 0, 1)),
    *(f'U{name}:%t[0,0,"{regex}"]' for name, regex in _KINDS),
]

_TEMPLATES_DOC = """\
Print the template that train takes without -t, to be edited. Column 0 should have the words: their
windows, pairs, beginnings and ends, capitals, digits. Other columns: windows, pairs and triples."""


def _windows(name, column, longest):
    """Templates of single columns of neighbours, and of runs of them."""
    lines = [f"U{name}{o}:%x[{o},{column}]" for o in _WINDOW]
    for length in range(2, longest + 1):
        for o in _WINDOW[: len(_WINDOW) - length + 1]:
            steps = "/".join(f"%x[{o + k},{column}]" for k in range(length))
            lines.append(f"U{name}{o}-{length}:{steps}")
    return lines


def default_template(n_columns: int) -> str:
    """The template for files of words, parts of speech and the like."""
    words = _windows("w", 0, 1) + [f"Uw{o}-2:%x[{o},0]/%x[{o + 1},0]" for o in (-1, 0)]
    others = [line for j in range(1, n_columns) for line in _windows(f"{j}_", j, 3)]
    return "\n".join([*words, *_SPELLING, *others, "B"])


def read_template(name: str) -> str:
    """Read the text of a template file, and check all lines."""
    with naming(name):
        text = TemplateVectorizer.read_templates(Path(name))
    parse(text, name)
    return text


def add_template(commands):
    """The command and its options."""
    parser = commands.add_parser(
        "template", help="print the default template", description=_TEMPLATES_DOC
    )
    parser.add_argument(
        "--columns", type=int, default=2, metavar="N", help="columns without the label; default 2"
    )
    parser.set_defaults(run=_template)


def _template(given):
    if not 1 <= given.columns <= _MOST_COLUMNS:
        raise ValueError(f"--columns must be between 1 and {_MOST_COLUMNS}, got {given.columns}")
    say(default_template(given.columns))
    return 0


_DOC = """\
Train a tagger on column files: one token per line, columns separated by spaces or tabs, the label
in the last one, an empty line after each sentence. Templates are those of CRF++ and Wapiti."""

_EPILOG = """\
A model file of joblib is a pickle, which runs code when it is loaded: tag with models of your own
only. For models that others are to load name the file MODEL.skops (pip install skops).
From other programs: crf_learn -c is -C, -f is -f; wapiti train -1 and -2 are --c1 RHO1 and --c2
RHO2/2; CRFsuite's c1 and c2 are --c1 and --c2."""

_LEAST_WEIGHT = 1e-3


def add_train(commands):
    """The command and its options."""
    parser = commands.add_parser(
        "train", help="train a tagger on column files", description=_DOC, epilog=_EPILOG
    )
    add = parser.add_argument
    add(
        "data",
        nargs="+",
        metavar="FILE",
        help="column files, may be compressed; - standard input",
    )
    add("model", metavar="MODEL", help="where to write: MODEL.joblib, or MODEL.skops")
    add("-t", "--template", metavar="FILE", help="by default what the command template prints")
    add(
        "--preset",
        choices=[*TokenFeatures.presets],
        help="features of TokenFeatures, in place of templates; words is for tokens of one "
        "character each",
    )
    add("-a", "--algorithm", choices=["crf", "ssvm"], default="crf", help="SAGCRF or BCFWSSVM")
    add(
        "-C",
        "--C",
        "-c",
        type=positive_number,
        metavar="C",
        help="weight of the data against the penalty, default 1",
    )
    add("--l1-ratio", type=number, metavar="R", help="fraction of the L1 penalty (crf), default 0")
    add("--c1", type=number, help="weight of the L1 penalty, in place of -C (crf)")
    add("--c2", type=number, help="weight of the squared L2 penalty, in place of -C (crf)")
    add("-f", "--min-count", type=count, default=1, metavar="N", help="drop rarer features")
    add(
        "--outside",
        choices=["mark", "wapiti", "drop"],
        default="mark",
        help="markers beyond the ends of sentences: of CRF++ (the default), of Wapiti, or none",
    )
    add("--scheme", help="forbid label pairs that break it: iob1, iob2, ioe1, ioe2, iobes, bilou")
    add("--max-iter", type=count, metavar="N", help="maximum number of passes")
    add("--tol", type=number, metavar="GAP", help="relative duality gap at which to stop")
    add("--n-jobs", type=n_threads, metavar="N", help="threads (crf)")
    add("--seed", type=seed, default=0, metavar="N", help="of the sample order, default 0")
    add("--dev", metavar="FILE", help="stop when the score on this file no longer rises")
    add(
        "--compact",
        action="store_true",
        help="a smaller file: weights in single precision, those under 1e-3 dropped",
    )
    add(
        "--encoding", type=encoding_name, default="utf-8", help="of all column files, default utf-8"
    )
    add(
        "--separator",
        type=separator,
        metavar="S",
        help=r"of columns, for instance \t; by default spaces and tabs",
    )
    add("-v", "--verbose", action="store_true", help="print one line per pass")
    parser.set_defaults(run=lambda given: _train(given, parser))


def _penalty(given, parser):
    """C and l1_ratio, of whichever way they were said."""
    of_crfsuite = given.c1 is not None or given.c2 is not None
    l1, l2 = given.c1 or 0.0, given.c2 or 0.0
    if of_crfsuite and (given.C is not None or given.l1_ratio is not None):
        parser.error("--c1 and --c2 exclude -C and --l1-ratio")
    if given.algorithm == "ssvm" and (given.l1_ratio or l1):
        parser.error("an L1 penalty needs --algorithm crf")
    if given.l1_ratio is not None and given.l1_ratio > 1:
        parser.error(f"--l1-ratio must be between 0 and 1, got {given.l1_ratio}")
    if not of_crfsuite:
        return given.C or 1.0, given.l1_ratio or 0.0
    if l1 + l2 == 0:
        parser.error("--c1 and --c2 are both 0: there is no penalty")
    total = l1 + 2 * l2
    return 1 / total, l1 / total


def _read(name, n_columns, given):
    """Sentences of a file, of which there must be some."""
    widths = None if n_columns is None else (n_columns,)
    source = read_sentences(name, widths, given.encoding, given.separator)
    found = [one for one in source if isinstance(one, Sentence)]
    if not found:
        raise ValueError(f"{'standard input' if name == '-' else name}: there is no sentence")
    if len(found[0].tokens[0]) < 2:
        hint = separator_hint(found[0].lines[0], given.separator)
        raise ValueError(f"{found[0].place}: a column before that of the label was expected{hint}")
    return found


def _tokens_and_labels(sentences):
    X = [[token[:-1] for token in sentence.tokens] for sentence in sentences]
    return X, [[token[-1] for token in sentence.tokens] for sentence in sentences]


def _estimator(given, parser, template):
    C, l1_ratio = _penalty(given, parser)
    options = {"C": C, "random_state": given.seed, "verbose": int(given.verbose)}
    for name in ("max_iter", "tol"):
        if getattr(given, name) is not None:
            options[name] = getattr(given, name)
    has_edge_macros = template is not None and any(
        "B" in one.kinds and one.macros for one in parse(template)
    )
    graph = Chain(forbidden=given.scheme, edge_features=has_edge_macros)
    if given.algorithm == "ssvm":
        return BCFWSSVM(graph, n_jobs=given.n_jobs, **options)
    return SAGCRF(graph, l1_ratio=l1_ratio, n_jobs=given.n_jobs, **options)


def _fit(estimator, X, y, sentences):
    """Fit; what is wrong with a sentence is said with its line."""
    try:
        return estimator.fit(X, y)
    except ValueError as error:
        found = re.search(r"\b(?:sample|sequence) (\d+)\b", str(error))
        if found is None:
            raise
        place = sentences[int(found.group(1))].place
        raise ValueError(f"{place} (where it begins): {error}") from None


def _train(given, parser):
    if given.model == "-":
        parser.error("MODEL must be a file")
    if given.preset and (given.template or given.outside != "mark"):
        parser.error("--preset excludes --template and --outside")
    _check_place(given)
    _penalty(given, parser)
    template = None if given.template is None else read_template(given.template)
    sentences = _read(given.data[0], None, given)
    width = len(sentences[0].tokens[0])
    for name in given.data[1:]:
        sentences += _read(name, width, given)
    dev = None if given.dev is None else _read(given.dev, width, given)
    if given.preset is None:
        template = template or default_template(width - 1)
        vectorizer = TemplateVectorizer(template, min_count=given.min_count, outside=given.outside)
    else:
        vectorizer = TokenFeatures(given.preset, min_count=given.min_count)
    X, y = _tokens_and_labels(sentences)
    start = time.perf_counter()
    Xt = vectorizer.fit_transform(X)
    estimator = _estimator(given, parser, template)
    if dev is not None:
        held_out, gold = _tokens_and_labels(dev)
        metric = "chunk_f1" if has_chunk_tags([*y, *gold]) else "node_accuracy"
        stopper = EarlyStopping((vectorizer.transform(held_out), gold), metric=SCORERS[metric])
        estimator.set_callbacks(stopper)
    n_tokens = sum(map(len, y))
    say(
        f"{len(y)} sentences, {n_tokens} tokens, {vectorizer.n_features_out_} features, "
        f"{len(set().union(*y))} labels"
    )
    _fit(estimator, Xt, y, sentences)
    _report(estimator, time.perf_counter() - start)
    if dev is not None:
        say(f"{given.dev}: {metric} {estimator.best_validation_score_:.4f}")
        estimator.set_callbacks()
    if given.compact:
        estimator.sparsify(_LEAST_WEIGHT, dtype="float32")
    save_model(Pipeline([("vectorizer", vectorizer), ("estimator", estimator)]), given.model)
    say(f"{given.model}: {os.path.getsize(given.model) / 1e6:.1f} MB")
    return 0


def _check_place(given):
    """Reject before training what could not be written after it, or would be lost by it."""
    name = given.model
    place = Path(name)
    if place.suffix in (".npz", ".crfsuite", ".wapiti"):
        raise ValueError(
            f"{name}: train writes files of joblib (.joblib) or skops (.skops); skstruct.export, "
            "to_crfsuite and to_wapiti make others of them in Python"
        )
    if not place.parent.is_dir():
        raise ValueError(f"{name}: there is no folder {os.path.dirname(name)}")
    if place.is_dir() or name.endswith("/"):
        raise ValueError(f"{name} is a folder")
    refuse_same(name, [*given.data, *(f for f in (given.dev, given.template) if f is not None)])
    if place.exists():
        if not place.is_file():
            raise ValueError(f"{name} is no regular file")
        if not may_be_model(name):
            raise ValueError(
                f"{name} is there, and no model: MODEL comes behind the training files"
            )
    is_skops(name)  # says now that skops is missing, and not after the training
    os.unlink(beside(name))  # likewise where no file can be written


def _report(estimator, seconds):
    gap = "" if np.isnan(estimator.dual_gap_) else f", relative gap {estimator.suboptimality_:.1e}"
    say(f"{estimator.n_iter_} epochs in {seconds:.1f} s, objective {estimator.objective_:.6g}{gap}")
