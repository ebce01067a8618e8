"""The command line: python -m skstruct train, tag, template, show-versions."""

import bz2
import gzip
import io
import lzma
import os
import re
import sys
import warnings
from pathlib import Path

import joblib
import numpy as np
import pytest
import skops.io
from sklearn.metrics import accuracy_score
from sklearn.pipeline import make_pipeline

import skstruct
from skstruct import BCFWSSVM, SAGCRF
from skstruct.cli import _parser, main, tagging, training
from skstruct.cli.checking import Check, Sentence, batches, read_sentences
from skstruct.cli.files import load_model
from skstruct.cli.training import default_template
from skstruct.metrics import chunk_precision_recall_fscore_support, flatten
from skstruct.metrics.terms import has_chunk_tags
from skstruct.preprocessing import TemplateVectorizer
from skstruct.preprocessing.patterns import parse
from tests.helpers.cli_cases import SENTENCES, TEMPLATE, tag, text_of, trained_in


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return trained_in(tmp_path_factory.mktemp("cli"))


def test_train_says_what_it_read_and_writes_what_predicts(folder, capsys):
    model = joblib.load(folder / "crf.joblib")
    assert isinstance(model[-1], SAGCRF)
    assert model[-1].C == 5
    assert model[0].templates == TEMPLATE
    y = model.predict([[("the", "DT"), ("dog", "NN"), ("barks", "VBZ")]])[0]
    assert y.tolist() == ["B-NP", "I-NP", "B-VP"]
    given = ["train", "-t", f"{folder}/template", f"{folder}/train.txt", f"{folder}/again.skops"]
    more = ["--tol", "0.1", "-f", "2", "--compact", "--dev", f"{folder}/train.txt"]
    assert main([*given, *more]) == 0
    said = capsys.readouterr().out
    assert said.startswith("6 sentences, 24 tokens, ")
    assert f"{folder}/train.txt: chunk_f1 " in said
    assert main(["tag", f"{folder}/again.skops", f"{folder}/train.txt"]) == 0
    assert sorted(p.name for p in folder.iterdir() if "again" in p.name) == ["again.skops"]
    kept = load_model(f"{folder}/again.skops")[-1].coef_.data
    assert np.array_equal(kept, kept.astype(np.float32))
    assert np.abs(kept).min() >= 1e-3


@pytest.mark.parametrize("suffix", ["joblib", "skops"])
def test_presets_in_place_of_templates(folder, suffix, tmp_path, capsys):
    name = f"{tmp_path}/model.{suffix}"
    assert main(["train", "--preset", "chunks", f"{folder}/train.txt", name]) == 0
    model = load_model(name)
    assert model[0].preset == "chunks"
    capsys.readouterr()
    assert main(["tag", name, f"{folder}/train.txt"]) == 0
    found = [line.split()[-1] for line in capsys.readouterr().out.splitlines() if line]
    X = [[tuple(word.split()[:2]) for word in s.split("|")] for s in SENTENCES]
    assert found == np.concatenate(list(model.predict(X))).tolist()


def test_preset_for_segmentation(tmp_path, capsys):
    words = "the cat sat on the mat", "a cat ate the rat", "the rat sat on a cat"
    marks = {1: "S", 2: "BE", 3: "BME"}
    tags = ["".join(marks[len(word)] for word in s.split()) for s in words]
    strings = ["".join(s.split()) for s in words]
    rows = [[*zip(*both, strict=True)] for both in zip(strings, tags, strict=True)]
    text = "\n\n".join("\n".join(map(" ".join, pairs)) for pairs in rows) + "\n"
    Path(f"{tmp_path}/train.txt").write_text(text)
    name = f"{tmp_path}/model.joblib"
    assert main(["train", "--preset", "words", "-C", "10", f"{tmp_path}/train.txt", name]) == 0
    capsys.readouterr()
    assert main(["tag", name, f"{tmp_path}/train.txt"]) == 0
    found = [line.split()[-1] for line in capsys.readouterr().out.splitlines() if line]
    assert found == [*"".join(tags)]
    assert [*np.concatenate([*load_model(name).predict(strings)])] == found


@pytest.mark.parametrize("with_labels", [False, True])
def test_lines_come_out_with_a_label_behind(folder, monkeypatch, capsysbinary, with_labels):
    text = "-DOCSTART- -X- O\n\n" + text_of(SENTENCES[:3], 3 if with_labels else 2) + "\n\n"
    code, out, err = tag(monkeypatch, capsysbinary, folder / "crf.joblib", text)
    assert (code, err) == (0, "")
    before, after = text.split("\n"), out.split("\n")
    assert len(before) == len(after)
    model = joblib.load(folder / "crf.joblib")
    X = [[tuple(word.split()[:2]) for word in s.split("|")] for s in SENTENCES[:3]]
    predicted = iter(np.concatenate(list(model.predict(X))).tolist())
    for a, b in zip(before, after, strict=True):
        label = "O" if a.startswith("-DOCSTART-") else a.strip() and next(predicted)
        assert b == (f"{a}\t{label}" if label else a)


def test_files_output_encoding_and_batches_change_nothing(folder, monkeypatch, capsysbinary):
    text = text_of(SENTENCES)
    _, out, _ = tag(monkeypatch, capsysbinary, folder / "crf.joblib", text)
    (folder / "latin.txt").write_bytes(text.encode("latin-1"))
    to = folder / "tagged.txt"
    given = ["tag", f"{folder}/crf.joblib", f"{folder}/latin.txt", "-o", str(to)]
    assert main([*given, "--encoding", "latin-1", "--batch", "2", "--n-jobs", "2"]) == 0
    assert to.read_bytes().decode("latin-1") == out
    _, alone, _ = tag(monkeypatch, capsysbinary, folder / "crf.joblib", text, "--label")
    assert alone.split("\n") == [line.rpartition("\t")[2] for line in out.split("\n")]
    short = ["tag", "-l", f"{folder}/crf.joblib"]
    assert main([*short, f"{folder}/train.txt", "-o", str(to)]) == 0
    # argparse by itself takes no file behind options behind another file.
    assert main([*short, "-o", f"{to}2", f"{folder}/train.txt"]) == 0
    assert to.read_bytes() == Path(f"{to}2").read_bytes() == alone.encode()


def test_more_labellings_than_there_are(folder, monkeypatch, capsysbinary):
    model = folder / "crf.joblib"
    text = "the DT\ncat NN\n"
    n_labels = len(joblib.load(model)[-1].classes_)
    all_of_them = tag(monkeypatch, capsysbinary, model, text, "-n", str(n_labels**2))
    assert all_of_them[1].count("#") == n_labels**2
    assert tag(monkeypatch, capsysbinary, model, text, "-n", "999999999999") == all_of_them
    many = "the DT\n" * 60
    code, out, err = tag(monkeypatch, capsysbinary, model, many, "-n", "999999999999")
    assert (code, out) == (1, "")
    assert "999,999,999,999 labellings of each sentence would take" in err


def test_n_best_with_probabilities(folder, monkeypatch, capsysbinary):
    code, out, _ = tag(
        monkeypatch, capsysbinary, folder / "crf.joblib", "the DT\ncat NN\n", "-n", "3"
    )
    assert code == 0
    blocks = [block.split("\n") for block in out.rstrip("\n").split("\n\n")]
    assert [block[0].split()[:2] for block in blocks] == [["#", "0"], ["#", "1"], ["#", "2"]]
    model = joblib.load(folder / "crf.joblib")
    X = model[:-1].transform([[("the", "DT"), ("cat", "NN")]])
    labellings = [[line.split("\t")[1] for line in block[1:]] for block in blocks]
    expected = [float(model[-1].predict_log_likelihood(X, [labels])[0]) for labels in labellings]
    shown = [float(block[0].split()[2]) for block in blocks]
    np.testing.assert_allclose(shown, np.exp(expected), rtol=1e-5)
    assert shown == sorted(shown, reverse=True)
    assert len(set(map(tuple, labellings))) == 3


@pytest.mark.parametrize("option", ["--probabilities", "--marginals"])
def test_probabilities_of_labels(folder, monkeypatch, capsysbinary, option):
    text = "the DT\ncat NN\n"
    _, out, _ = tag(monkeypatch, capsysbinary, folder / "crf.joblib", text, option)
    model = joblib.load(folder / "crf.joblib")
    (expected,) = model.predict_proba([[("the", "DT"), ("cat", "NN")]])
    for row, line in zip(expected, out.rstrip().split("\n")[1:], strict=True):
        (label, p), *rest = (cell.split("/") for cell in line.split("\t")[1:])
        assert float(p) == pytest.approx(row[model.classes_.tolist().index(label)], rel=1e-5)
        assert label == model.classes_[row.argmax()]
        names = [name for name, _ in rest]
        assert names == (model.classes_.tolist() if option == "--marginals" else [])
        np.testing.assert_allclose([float(p) for _, p in rest], row[: len(rest)], rtol=1e-5)


def test_an_ssvm_has_scores_and_no_probabilities(folder, monkeypatch, capsysbinary):
    text = "the DT\ncat NN\n"
    code, out, _ = tag(monkeypatch, capsysbinary, folder / "ssvm.skops", text, "--scores")
    assert code == 0
    assert out.split("\n")[0].startswith("# 0 ")
    assert out.split("\n")[2].split("\t") == ["cat NN", "I-NP"]
    code, out, err = tag(monkeypatch, capsysbinary, folder / "ssvm.skops", text, "--marginals")
    assert (code, out) == (1, "")
    assert "a BCFWSSVM has no probabilities; use --scores" in err


def test_check_reports_to_standard_error(folder, monkeypatch, capsysbinary):
    code, out, err = tag(
        monkeypatch, capsysbinary, folder / "crf.joblib", text_of(SENTENCES), "--check"
    )
    assert code == 0
    assert len(out.split("\n")) == len(text_of(SENTENCES).split("\n"))
    assert err.startswith("24 tokens, 6 sentences; accuracy: ")
    assert "  VP: " not in err
    assert "\nVP: precision: " in err


def test_checks_agree_with_the_metrics():
    rng = np.random.default_rng(0)
    names = np.array(["O", "B-A", "I-A", "B-B", "I-B"])
    gold, found = ([rng.choice(names, n).tolist() for n in (5, 1, 7, 3)] for _ in range(2))
    check = Check(True)
    for a, b in zip(gold, found, strict=True):
        check.add(a, b)
    first, second, *kinds = check.lines()
    p, r, f, _ = chunk_precision_recall_fscore_support(gold, found, average="micro")
    assert f"accuracy: {100 * accuracy_score(*flatten(gold, found)):.2f}%" in first
    assert second.endswith(f"precision: {p:.2%}; recall: {r:.2%}; F1: {f:.2%}")
    assert [line[:2] for line in kinds] == ["A:", "B:"]
    tags = Check(has_chunk_tags([["NN", "DT"]]))
    tags.add(["NN"], ["DT"])
    assert tags.lines() == ["1 tokens, 1 sentences; accuracy: 0.00%; whole sentences: 0.00%"]


def test_tagging_is_a_stream(folder, monkeypatch, capsysbinary):
    """What a sentence gets is written before the line behind its end is read."""
    seen = []

    lines = [b"", b"Paris NNP\n", b"\n", b"cat NN\n", b"the DT\n"]

    class Pipe(io.RawIOBase):
        def readable(self):
            return True

        def readinto(self, buffer):
            seen.append(sys.stdout.buffer.getvalue().count(b"\t"))
            line = lines.pop()
            buffer[: len(line)] = line
            return len(line)

    source = io.BufferedReader(Pipe())
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO()))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(source))
    assert main(["tag", f"{folder}/crf.joblib", "--batch", "1"]) == 0
    assert seen == [0, 0, 0, 2, 2]
    assert sys.stdout.buffer.getvalue().endswith(b"Paris NNP\tB-NP\n")


def test_batches_hold_everything_once(folder):
    found = list(read_sentences(f"{folder}/train.txt", None, "utf-8"))
    parts = list(batches(iter(found), 4))
    assert [sum(isinstance(one, Sentence) for one in part) for part in parts] == [4, 2]
    assert [one for part in parts for one in part] == found


@pytest.mark.parametrize(
    ("options", "C", "l1_ratio"),
    [
        ([], 1.0, 0.0),
        (["-c", "3", "--l1-ratio", "0.5"], 3.0, 0.5),
        (["--c1", "1", "--c2", "0.5"], 0.5, 0.5),
        (["--c2", "0.25"], 2.0, 0.0),
    ],
)
def test_penalties(options, C, l1_ratio):
    given = _parser().parse_args(["train", *options, "a", "b"])
    assert training._penalty(given, None) == (C, l1_ratio)


def test_templates_and_schemes_make_the_chain():
    parser = _parser()
    given = parser.parse_args(["train", "a", "b", "--scheme", "iob2", "--n-jobs", "2"])
    crf = training._estimator(given, parser, "U0:%x[0,0]\nB01:%x[0,0]")
    assert crf.graph.edge_features
    assert crf.graph.forbidden == "iob2"
    assert crf.n_jobs == 2
    given = parser.parse_args(["train", "a", "b", "-a", "ssvm", "--max-iter", "7"])
    svm = training._estimator(given, parser, "U0:%x[0,0]\nB")
    assert isinstance(svm, BCFWSSVM)
    assert not svm.graph.edge_features
    assert svm.max_iter == 7


@pytest.mark.parametrize("n_columns", [1, 2, 3])
def test_the_default_template_uses_every_column(n_columns, capsys):
    assert main(["template", "--columns", str(n_columns)]) == 0
    text = capsys.readouterr().out
    assert text == default_template(n_columns) + "\n"
    macros = [macro for template in parse(text) for macro in template.macros]
    assert {macro.column for macro in macros} == set(range(n_columns))
    token = tuple("Paris" for _ in range(n_columns))
    names = TemplateVectorizer(text).fit([[token]]).get_feature_names_out().tolist()
    assert {"Uw0:Paris", "Ul:paris", "Ub3:Par", "Ue2:is", "Uc0:true", "UC:false"} <= set(names)
    lines = text.split("\n")
    assert len({line.partition(":")[0] for line in lines}) == len(lines)


@pytest.mark.parametrize(
    "options",
    [
        ["train", "a"],
        ["train", "-C", "0", "a", "b"],
        ["train", "-C", "nan", "a", "b"],
        ["train", "-C", "1", "--c2", "1", "a", "b"],
        ["train", "--c1", "0", "a", "b"],
        ["train", "-a", "ssvm", "--c1", "1", "a", "b"],
        ["train", "--l1-ratio", "1.5", "a", "b"],
        ["train", "--preset", "chars", "a", "b"],
        ["train", "--preset", "ner", "-t", "c", "a", "b"],
        ["train", "a", "-"],
        ["tag", "m", "--batch", "0"],
        ["tag", "m", "--encoding", "klingon"],
        ["tag", "m", "--encoding", "hex"],
        ["tag", "m", "--encoding", "base64"],
        ["tag", "m", "--encoding", "utf-16"],
        ["tag", "m", "--scores", "--marginals"],
        ["tag", "m", "a", "--label", "b"],
        ["tag", "m", "--labels", "a"],
        ["guess"],
        [],
    ],
)
def test_wrong_arguments_are_usage_errors(options, capsys):
    with pytest.raises(SystemExit) as ended:
        main(options)
    assert ended.value.code == 2
    assert "usage: python -m skstruct" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("files", "options", "message"),
    [
        (
            {"d": "a b\nc\n"},
            "train {}/d {}/m.joblib",
            "{}/d, line 2: 1 columns, but 2 were expected",
        ),
        ({"d": "a\n"}, "train {}/d {}/m.joblib", "{}/d, line 1: a column before that of the label"),
        ({"d": "a;O\n"}, "train {}/d {}/m.joblib", "expected; if ';' separates the columns"),
        ({"d": "\n\n"}, "train {}/d {}/m.joblib", "{}/d: there is no sentence"),
        ({"d": "a b\n"}, "train {}/d {}/m.npz", "m.npz: train writes files of joblib"),
        (
            {"m": b"lCRF0000"},
            "tag {}/m",
            "{}/m cannot be read as a model of train, joblib or skops\n",
        ),
        ({}, "train {}/d {}/m.joblib", "{}/d: No such file or directory"),
        ({"d": "a b\n"}, "train {}/d {}/no/m.joblib", "there is no folder {}/no"),
        ({"d": "a b\n"}, "train {}/d {}", "{} is a folder"),
        ({"d": b"a b\nc \xff\n"}, "train {}/d {}/m.joblib", "{}/d, line 2: not text in utf-8"),
        ({"d": "a b\n", "e": "a b c\n"}, "train {}/d {}/e {}/m", "{}/e, line 1: 3 columns, but 2"),
        ({"d": "a b\n", "t": "U0:%x[0\n"}, "train -t {}/t {}/d {}/m", "{}/t, line 1: malformed"),
        ({"d": "a b\n", "t": "\n"}, "train -t {}/t {}/d {}/m", "{}/t, there is no template"),
        ({"d": "a b\n", "t": "U:%x[0,1]"}, "train -t {}/t {}/d {}/m", "column 1 is out of range"),
        (
            {"d": gzip.compress(b"a b\n")[:-9]},
            "train {}/d {}/m",
            "{}/d: the compressed file is dam",
        ),
        (
            {"d": "a B-X\n\nb O\nc I-X\n"},
            "train --scheme iob2 {}/d {}/m",
            "{}/d, line 3 (where it begins): ",
        ),
        ({"d": "a b\n", "e": "c d\n"}, "train {}/d {}/e", "{}/e is there, and no model: MODEL"),
        ({"d": "a b\n"}, "train {}/d {}/d", "{}/d: output and input are the same file"),
        pytest.param(
            {"d": "a b\n"},
            "train {}/d {}/" + "m" * 250,
            "mm: File name too long",
            marks=pytest.mark.skipif(os.name == "nt", reason="another message"),
        ),
        ({"d": "a b\n"}, f"train {{}}/d {os.devnull}", f"{os.devnull} is no regular file"),
        ({}, "tag {}/m", "{}/m: No such file or directory"),
        ({"m": "none"}, "tag {}/m", "{}/m cannot be read as a model"),
        ({"m": b""}, "tag {}/m", "{}/m cannot be read as a model: it is empty"),
        ({"m.skops": "none"}, "tag {}/m.skops", "{}/m.skops cannot be read as a model"),
        ({}, "template --columns 0", "--columns must be between 1 and 1000, got 0"),
    ],
)
def test_errors_are_one_line(files, options, message, tmp_path, capsys):
    for name, content in files.items():
        content = content if isinstance(content, bytes) else content.encode()
        (tmp_path / name).write_bytes(content)
    assert main([part.format(*[tmp_path] * 2) for part in options.split()]) == 1
    err = capsys.readouterr().err
    assert err.startswith("skstruct: error: ")
    assert err.count("\n") == 1
    assert message.format(tmp_path) in err
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(files)


def test_a_file_to_tag_must_have_the_columns_of_the_model(
    folder, monkeypatch, capsysbinary, tmp_path
):
    model = folder / "crf.joblib"
    code, out, err = tag(monkeypatch, capsysbinary, model, "a b\n\nc\n", "--batch", "1")
    assert code == 1
    assert re.fullmatch(r"a b\t\S+\n\n", out)  # what came before the error
    assert "standard input, line 3: 1 columns, but 2 were expected" in err
    code, _, err = tag(monkeypatch, capsysbinary, model, "a b c d\n")
    assert "standard input, line 1: 4 columns, but 2 or 3 were expected" in err
    code, _, err = tag(monkeypatch, capsysbinary, model, "a b\n", "--check")
    assert "standard input, line 1: 2 columns, but 3 were expected" in err
    same = tmp_path / "d"
    same.write_text("a b\n")
    assert main(["tag", str(model), str(same), "-o", str(same)]) == 1
    assert b"output and input are the same file" in capsysbinary.readouterr().err
    assert same.read_text() == "a b\n"
    with open(same) as source, monkeypatch.context() as patch:
        patch.setattr(sys, "stdin", source)
        assert main(["tag", str(model), "-o", str(same)]) == 1
    before = model.read_bytes()
    assert main(["tag", str(model), str(same), "-o", str(model)]) == 1
    assert (same.read_text(), model.read_bytes()) == ("a b\n", before)


def test_models_of_other_kinds_are_refused(tmp_path, capsys):
    joblib.dump({"a": 1}, tmp_path / "m.joblib")
    assert main(["tag", f"{tmp_path}/m.joblib"]) == 1
    assert "m.joblib holds an object of type dict; a pipeline" in capsys.readouterr().err
    joblib.dump(make_pipeline(TemplateVectorizer("U:%x[0,0]"), SAGCRF()), tmp_path / "m.joblib")
    assert main(["tag", f"{tmp_path}/m.joblib"]) == 1
    assert "m.joblib holds a pipeline that was not fitted" in capsys.readouterr().err
    other = make_pipeline(TemplateVectorizer("U:%x[0,0]"), SAGCRF(random_state=Check(True)))
    skops.io.dump(other, tmp_path / "m.skops")
    assert main(["tag", f"{tmp_path}/m.skops"]) == 1
    err = capsys.readouterr().err
    assert "m.skops has types that are not trusted: collections.Counter, skstruct.cli" in err


def test_warnings_are_one_line(folder, monkeypatch, capsys):
    monkeypatch.setattr(tagging, "load_model", lambda name: warnings.warn("a\nb", stacklevel=1))
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        assert main(["tag", "m"]) == 1
    assert capsys.readouterr().err.startswith("skstruct: warning: a b\nskstruct: error: ")


def test_versions_have_two_names(capsys):
    assert main(["show-versions"]) == 0
    assert "scikit-learn: " in capsys.readouterr().out
    assert main(["versions"]) == 0
    assert "scikit-learn: " in capsys.readouterr().out


def test_only_the_command_imports_the_command_line():
    package = Path(skstruct.__file__).parent
    importing = [
        file.relative_to(package).as_posix()
        for file in package.rglob("*.py")
        if file.parent.name != "cli"
        and re.search(r"(from|import) [\w.]*\bcli\b", file.read_text(encoding="utf-8"))
    ]
    assert importing == ["__main__.py"]


@pytest.mark.parametrize("separator", ["\\t", "\t", ","])
def test_separators_of_columns(separator, tmp_path, capsys):
    model, data = f"{tmp_path}/m.joblib", tmp_path / "data"
    s = separator.replace("\\t", "\t")
    rows = [["New York", "B C", "X Y"], ["", "B", "Z"]]
    text = "\n".join([*map(s.join, rows), 2 * s, *map(s.join, rows)]) + "\n"
    data.write_bytes(gzip.compress(text.encode("utf-16")))
    (tmp_path / "t").write_text("U:%x[0,0]/%x[0,1]\n")
    option = "--separator", separator
    assert main(["train", *option, "-t", f"{tmp_path}/t", str(data), model]) == 0
    capsys.readouterr()
    assert main(["tag", *option, model, str(data)]) == 0
    out = capsys.readouterr().out
    assert out == text.replace("X Y", f"X Y{s}X Y").replace("Z", f"Z{s}Z")
    for suffix, module in (("gz", gzip), ("bz2", bz2), ("xz", lzma), ("txt", None)):
        made = tmp_path / f"out.{suffix}"
        assert main(["tag", *option, model, str(data), "-o", str(made)]) == 0
        content = made.read_bytes()
        assert (module.decompress(content) if module else content).decode() == out
    assert main(["tag", *option, "--marginals", model, str(data)]) == 0
    row = capsys.readouterr().out.split("\n")[1].split(s)
    assert [cell.split("/")[0] for cell in row] == ["New York", "B C", "X Y", "X Y", "X Y", "Z"]
    with pytest.raises(SystemExit):
        main(["tag", "--separator", "", model, str(data)])
    assert "argument --separator: invalid separator value: ''" in capsys.readouterr().err
