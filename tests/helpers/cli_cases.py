"""Sentences, models and a call of the command that the tests of the command line share."""

import io
import sys

from skstruct.cli import main

SENTENCES = [
    "the DT B-NP|cat NN I-NP|sleeps VBZ B-VP|. . O",
    "a DT B-NP|dog NN I-NP|barks VBZ B-VP",
    "cats NNS B-NP|see VBP B-VP|the DT B-NP|dog NN I-NP|. . O",
    "Paris NNP B-NP|sleeps VBZ B-VP|. . O",
    "the DT B-NP|old JJ I-NP|dog NN I-NP|sees VBZ B-VP|café NN B-NP",
    "well UH O|, , O|cats NNS B-NP|bark VBP B-VP",
]
TEMPLATE = "# words\nU0:%x[0,0]\nU1:%x[0,1]/%x[-1,1]\nB\n"


def text_of(sentences, n_columns=3):
    lines = [s.replace("|", "\n").split("\n") for s in sentences]
    rows = [[" ".join(line.split()[:n_columns]) for line in part] for part in lines]
    return "\n\n".join("\n".join(part) for part in rows) + "\n"


def trained_in(place):
    """The folder, with a training file, a template, and a CRF and an SSVM that `train` made."""
    (place / "train.txt").write_text(text_of(SENTENCES), encoding="utf-8")
    (place / "template").write_text(TEMPLATE, encoding="utf-8")
    given = ["train", "-t", str(place / "template"), str(place / "train.txt")]
    assert main([*given, str(place / "crf.joblib"), "--tol", "0.1", "-C", "5"]) == 0
    assert main([*given, str(place / "ssvm.skops"), "-a", "ssvm", "--tol", "0.5"]) == 0
    return place


def tag(monkeypatch, capsysbinary, model, text, *options):
    """Exit code, output and messages of tagging a text of standard input."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    code = main(["tag", str(model), *options])
    out, err = capsysbinary.readouterr()
    return code, out.decode(), err.decode()
