"""``tag``: labels for column files, a batch of sentences at a time."""

from __future__ import annotations

import math
import sys
from typing import NamedTuple

import numpy as np

from ..core.memory import check_memory
from ..core.text_files import BLANKS
from ..datasets.text import begins_document
from ..metrics.terms import has_chunk_tags
from .checking import (
    Check,
    Sentence,
    batches,
    count,
    encoding_name,
    n_threads,
    read_sentences,
    separator,
)
from .files import load_model, writing

_DOC = """\
Tag column files: the columns that the model was trained on, with or without that of labels. Each
line is written unchanged, followed by the predicted label. The file is read and written as a
stream.
"""

_EPILOG = """\
A model file of joblib is a pickle and runs code when it is loaded: tag with models from sources
that you trust only. Files MODEL.skops run none: they are refused if they hold other types than
train writes. From other programs: crf_test -v1 is --probabilities, -v2 is --marginals; wapiti label
-l is -l, -s is --scores, -c is --check."""


def add_tag(commands):
    """The command and its options."""
    parser = commands.add_parser("tag", help="tag column files", description=_DOC, epilog=_EPILOG)
    add = parser.add_argument
    add("model", metavar="MODEL", help="what train has written")
    add("data", nargs="?", metavar="FILE", help="by default -, standard input")
    add("-o", "--output", default="-", metavar="FILE", help="by default -, standard output")
    add("-l", "--label", action="store_true", help="write the predicted labels alone")
    add(
        "-n",
        "--n-best",
        type=count,
        metavar="N",
        help="the N best labellings, each after a line '# rank probability' (of an SSVM: score)",
    )
    shown = parser.add_mutually_exclusive_group()
    shown.add_argument(
        "--scores", action="store_true", help="a line '# rank score' before each labelling"
    )
    shown.add_argument(
        "--probabilities",
        action="store_true",
        help="a line '# rank probability', and label/probability of each token (crf)",
    )
    shown.add_argument(
        "--marginals",
        action="store_true",
        help="the same with columns for the probabilities of all labels (crf)",
    )
    add("--check", action="store_true", help="report accuracy and F1 to standard error")
    add(
        "--batch",
        type=count,
        metavar="N",
        help="sentences tagged at once: 500 over -n, or 1 where a terminal is read",
    )
    add("--n-jobs", type=n_threads, metavar="N", help="threads")
    add(
        "--encoding", type=encoding_name, default="utf-8", help="of input and output, default utf-8"
    )
    add(
        "--separator",
        type=separator,
        metavar="S",
        help=r"of columns, also before the label, for instance \t; by default spaces and tabs",
    )
    parser.set_defaults(run=_tag)


# Sentences tagged at once; bytes of a token of one labelling, on its way to the output.
_BATCH, _TOKEN_BYTES = 500, 400


class _Answer(NamedTuple):
    """A labelling of a sentence."""

    header: list  # a line, or none
    labels: list
    shown: list  # text written for each token


def _tag(given):
    source = "-" if given.data is None else given.data
    model = load_model(given.model)
    vectorizer, estimator = model[0], model[-1]
    if (given.probabilities or given.marginals) and not hasattr(estimator, "predict_marginals"):
        kind = type(estimator).__name__
        raise ValueError(f"{given.model}: a {kind} has no probabilities; use --scores")
    if given.n_jobs is not None:
        estimator.set_params(n_jobs=given.n_jobs)
    n_columns = vectorizer.n_columns_
    widths = (n_columns + 1,) if given.check else (n_columns, n_columns + 1)
    check = Check(has_chunk_tags([[*map(str, estimator.classes_.tolist())]]))
    waits = source == "-" and sys.stdin is not None and sys.stdin.isatty()
    size = given.batch or (1 if waits else max(_BATCH // (given.n_best or 1), 1))
    answers, written = _answers_of(given, vectorizer, estimator), _Writer(given)
    found = read_sentences(source, widths, given.encoding, given.separator)
    with writing(given.output, (source, given.model), given.encoding) as write:
        for part in batches(found, size):
            sentences = [one for one in part if isinstance(one, Sentence)]
            tokens = [[token[:n_columns] for token in one.tokens] for one in sentences]
            answered = iter(answers(tokens) if tokens else [])
            lines = []
            for one in part:
                if isinstance(one, str):
                    lines.append(written.between(one))
                    continue
                ranked = next(answered)
                lines += written.sentence(one, ranked)
                if given.check:
                    check.add([token[-1] for token in one.tokens], ranked[0].labels)
            write(lines)
    if given.check and sys.stderr is not None:  # print would take standard output
        print("\n".join(check.lines()), file=sys.stderr)
    return 0


class _Writer:
    """Lines of input with labels behind them, or labels alone."""

    def __init__(self, given):
        self.alone, self.separator = given.label, given.separator

    def _joined(self, line, label):
        if self.separator is None:
            return f"{line.rstrip(BLANKS)}\t{label}"
        return f"{line}{self.separator}{label}"

    def sentence(self, sentence, ranked):
        """Lines of all labellings of a sentence, each with the line that ended it."""
        lines = []
        for k, answer in enumerate(ranked):
            lines += answer.header
            if self.alone:
                lines += answer.shown
            else:
                lines += map(self._joined, sentence.lines, answer.shown)
            if k + 1 < len(ranked):
                lines.append("")
            elif sentence.end is not None:
                lines.append(self.between(sentence.end))
        return lines

    def between(self, line):
        """A line without a token; one of a document gets a label: conlleval counts the columns."""
        if not begins_document(line):
            return line
        return "O" if self.alone else self._joined(line, "O")


def _answers_of(given, vectorizer, estimator):
    """A function from tokens to the labellings of each sentence, best first."""
    with_marginals = given.probabilities or given.marginals
    if not (given.n_best or given.scores or with_marginals):
        return lambda tokens: [
            [_plain(labels)] for labels in estimator.predict(vectorizer.transform(tokens))
        ]
    between = (given.separator or "\t") if given.marginals else None
    as_scores = given.scores or not hasattr(estimator, "predict_marginals")

    def answers(tokens):
        n = _affordable(given.n_best or 1, list(map(len, tokens)), len(estimator.classes_))
        X = vectorizer.transform(tokens)
        labellings, *values = estimator.predict_top_k(X, n, probabilities=not as_scores)
        scores = values[-1]
        marginals = estimator.predict_marginals(X) if with_marginals else [None] * len(scores)
        for found, own, tables in zip(labellings, scores, marginals, strict=True):
            yield [
                _ranked(k, labels, value, tables, estimator.classes_, between)
                for k, (labels, value) in enumerate(zip(found, own, strict=True))
            ]

    return answers


def _affordable(n, lengths, n_classes):
    """No more labellings than there are; raises where those do not fit into memory."""
    longest = max(lengths)
    if longest * math.log(n_classes) < math.log(n):
        n = n_classes**longest
    n_bytes = _TOKEN_BYTES * n * sum(lengths)
    check_memory(n_bytes, f"{n:,} labellings of each sentence", "ask for fewer (-n)")
    return n


def _plain(labels):
    labels = list(map(str, labels.tolist()))
    return _Answer([], labels, labels)


def _ranked(rank, labels, value, marginals, classes, between):
    """A labelling with its rank, and with the probabilities of labels."""
    names = list(map(str, labels.tolist()))
    header = [f"# {rank} {value:.6g}"]
    if marginals is None:
        return _Answer(header, names, names)
    own = marginals[np.arange(len(names)), np.searchsorted(classes, labels)]
    shown = [f"{name}/{p:.6g}" for name, p in zip(names, own, strict=True)]
    if between is not None:
        kinds = list(map(str, classes.tolist()))
        for t, row in enumerate(marginals):
            cells = (f"{kind}/{p:.6g}" for kind, p in zip(kinds, row, strict=True))
            shown[t] = between.join([shown[t], *cells])
    return _Answer(header, names, shown)
