"""Files and streams of the command line: links, full disks, closed pipes, interrupts."""

import contextlib
import errno
import io
import os
import signal
import subprocess
import sys
from pathlib import Path

import joblib
import pytest

from skstruct import SAGCRF
from skstruct.cli import main
from skstruct.cli.files import load_model, replacing
from tests.helpers.cli_cases import SENTENCES, tag, text_of, trained_in


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return trained_in(tmp_path_factory.mktemp("cli"))


@pytest.fixture
def linked(tmp_path):
    """A file that says "old", and a link to it."""
    (tmp_path / "there").mkdir()
    old, link = tmp_path / "there" / "old", tmp_path / "link"
    old.write_bytes(b"old")
    try:
        link.symlink_to(old)
    except OSError:  # Windows lets administrators only
        pytest.skip("links cannot be made here")
    return old, link


def test_an_output_is_replaced_when_it_is_whole(folder, linked, capsys):
    old, link = linked
    (old.parent / "bad").write_bytes(b"the DT\n\nc\n")
    given = ["tag", f"{folder}/crf.joblib", "--batch", "1", "-o", str(link)]
    assert main([*given, f"{old.parent}/bad"]) == 1
    assert main([*given, f"{old.parent}/nothing"]) == 1
    assert old.read_bytes() == b"old"
    assert sorted(path.name for path in old.parent.iterdir()) == ["bad", "old"]
    mode = old.stat().st_mode
    assert main([*given, f"{folder}/train.txt"]) == 0
    assert link.is_symlink()
    assert old.read_bytes().startswith(b"the DT B-NP\tB-NP\n")
    assert old.stat().st_mode == mode


def test_a_link_to_a_model_stays_one(folder, linked):
    old, link = linked
    old.write_bytes((folder / "crf.joblib").read_bytes())
    old.chmod(old.stat().st_mode & ~0o044)
    mode = old.stat().st_mode
    given = ["train", "-t", f"{folder}/template", f"{folder}/train.txt", str(link), "--tol", "0.9"]
    assert main(given) == 0
    assert link.is_symlink()
    assert load_model(str(old))[-1].tol == 0.9
    assert old.stat().st_mode == mode


@pytest.mark.skipif(not Path("/dev/fd").exists(), reason="open files have no names here")
@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/{}"])
def test_an_open_file_is_written_where_it_is(folder, capfdbinary, name):
    """Whoever holds it would not see a file that takes its place."""
    read, write = os.pipe()
    try:
        given = ["tag", f"{folder}/crf.joblib", f"{folder}/train.txt", "-l", "-o"]
        assert main([*given, name.format(write)]) == 0
    finally:
        os.close(write)
    with open(read, "rb") as pipe:
        found = pipe.read() or capfdbinary.readouterr().out
    assert found.startswith(b"B-NP\nI-NP\nB-VP\nO\n\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no disk is always full here")
@pytest.mark.parametrize(
    "command", ["tag crf.joblib train.txt", "template", "show-versions", "tag crf.joblib -o {}"]
)
def test_a_full_disk_is_named(folder, monkeypatch, capsys, command):
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"the DT\n")))
    with open("/dev/full", "w") as full, monkeypatch.context() as patch:
        if "{}" not in command:
            patch.setattr(sys, "stdout", full)
        assert main(command.format("/dev/full").split()) == 1
    name = "/dev/full" if "{}" in command else "standard output"
    assert capsys.readouterr().err == f"skstruct: error: {name}: {os.strerror(errno.ENOSPC)}\n"


def test_a_model_that_finds_no_room_is_named(folder, monkeypatch, capsys):
    def full(*arguments, **options):
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(joblib, "dump", full)
    given = ["train", "-t", f"{folder}/template", f"{folder}/train.txt", f"{folder}/full.joblib"]
    assert main([*given, "--tol", "0.9"]) == 1
    assert capsys.readouterr().err == f"skstruct: error: {folder}/full.joblib: full\n"
    assert not [path for path in folder.iterdir() if "full" in path.name]


@pytest.mark.parametrize("name", ["d\u00e9v.txt", "d\udcffv.txt"])
def test_names_that_cannot_be_printed_cost_no_model(folder, tmp_path, monkeypatch, name):
    dev = tmp_path / name
    try:
        dev.write_bytes((folder / "train.txt").read_bytes())
    except (OSError, UnicodeError):
        pytest.skip("no such name here")
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), "ascii"))
    given = ["train", "-t", f"{folder}/template", f"{folder}/train.txt", "--dev", str(dev)]
    assert main([*given, f"{tmp_path}/m.joblib", "--tol", "0.9"]) == 0
    assert b"chunk_f1" in sys.stdout.buffer.getvalue()


def test_without_skops_nothing_is_trained(folder, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "skops", None)
    monkeypatch.setitem(sys.modules, "skops.io", None)
    assert main(["train", f"{folder}/train.txt", f"{folder}/new.skops"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert "new.skops needs skops: pip install skops" in err


def test_an_interrupt_leaves_no_file(folder, monkeypatch, capsys):
    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    given = ["train", "-t", f"{folder}/template", f"{folder}/train.txt", f"{folder}/cut.joblib"]
    with monkeypatch.context() as patch:
        patch.setattr(SAGCRF, "fit", interrupted)
        assert main(given) == 130
    assert capsys.readouterr().err == "skstruct: interrupted\n"
    monkeypatch.setattr(joblib, "dump", interrupted)
    assert main([*given, "--tol", "0.1"]) == 130
    assert not [path for path in folder.iterdir() if "cut" in path.name]


@pytest.mark.slow
def test_a_reader_who_goes_away_is_no_error(folder):
    text = text_of(SENTENCES * 700)  # more than a pipe holds
    (folder / "long.txt").write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "skstruct", "tag", "crf.joblib", "long.txt", "--batch", "9"]
    with subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout.readline() == b"the DT B-NP\tB-NP\n"
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0


@pytest.mark.slow
def test_training_that_nobody_listens_to_is_an_error(folder):
    """A pipe that closes early would be exit code 0 without a model."""
    code = (
        "import sys; from skstruct.cli import main, training;"
        "training._train = lambda given, parser: training.say('passes');"
        "sys.stdin.readline(); sys.exit(main(['train', 'a', 'b']))"
    )
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen([sys.executable, "-c", code], **pipes) as process:
        process.stdout.close()
        process.stdin.close()
        assert process.stderr.read().rstrip() == b"skstruct: error: standard output was closed"
    assert process.returncode == 1


@pytest.mark.parametrize("name", ["stdin", "stdout"])
def test_closed_streams_are_errors(folder, monkeypatch, capsys, name):
    monkeypatch.setattr(sys, name, None)
    assert main(["tag", f"{folder}/crf.joblib"]) == 1
    assert capsys.readouterr().err == f"skstruct: error: standard {name[3:]}put is closed\n"


def test_a_mark_of_the_encoding_is_not_written(folder, monkeypatch, capsysbinary):
    text = "\ufeffthe DT\n\na DT\n"
    given = "--encoding", "utf-8-sig", "--batch", "1", "-l"
    assert tag(monkeypatch, capsysbinary, folder / "crf.joblib", text, *given)[1].isascii()


def test_a_process_that_is_terminated_leaves_no_part_of_a_file(tmp_path, monkeypatch):
    ended = []
    monkeypatch.setattr(os, "kill", lambda *given: ended.append(given))
    target = tmp_path / "out"
    target.write_text("as before")
    with contextlib.suppress(FileNotFoundError), replacing(str(target)):
        assert len(list(tmp_path.iterdir())) == 2
        assert signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL  # or it ends the tests
        signal.raise_signal(signal.SIGTERM)
        assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert ended == [(os.getpid(), signal.SIGTERM)]
    assert target.read_text() == "as before"
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
