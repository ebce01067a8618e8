"""Folders of the compile cache: the first that can be written, never one that others may write."""

import hashlib
import os
import shutil
import stat
import tempfile
import time
from pathlib import Path

import numba
import pytest

from skstruct.core.jit import cache
from skstruct.core.jit.cache import Store, cache_on_disk, open_store
from skstruct.core.jit.kernels import cache_folder
from tests.helpers.cache_cases import PACKAGE, VERSIONS, output_of, plus, posix, run_python
from tests.helpers.core_alone import CORE_ALONE

STRANGER = 54321
as_root = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give files away"
)


# Folders

NAME = f"skstruct-{hashlib.sha256(repr(VERSIONS).encode()).hexdigest()[:16]}"


def test_the_first_folder_that_can_be_written_is_taken(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    a_file = tmp_path / "file"
    a_file.write_text("")
    assert open_store(VERSIONS, tmp_path / "p", tmp_path / "c").writable == tmp_path / "c" / NAME
    assert (
        open_store(VERSIONS, tmp_path / "p", a_file).writable
        == tmp_path / "p" / "__pycache__" / NAME
    )
    assert (
        open_store(VERSIONS, a_file, a_file / "below").writable
        == tmp_path / "xdg" / "skstruct" / NAME
    )
    monkeypatch.setenv("XDG_CACHE_HOME", str(a_file))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    private = open_store(VERSIONS, a_file).writable
    assert private.name == NAME
    assert private.parent.parent == tmp_path
    assert stat.S_IMODE(private.parent.stat().st_mode) == 0o700 or os.name == "nt"


def test_no_folder_at_all_is_no_error(tmp_path, monkeypatch, caplog):
    a_file = tmp_path / "file"
    a_file.write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(a_file))

    def none():
        raise FileNotFoundError("No usable temporary directory found")

    monkeypatch.setattr(tempfile, "gettempdir", none)
    store = open_store(VERSIONS, a_file)
    assert "set NUMBA_CACHE_DIR" in caplog.text
    assert store.writable is None
    store.write("name", b"content")
    assert store.read("name") is None
    assert numba.njit(plus)(1, 2) == 3
    assert not cache_on_disk(numba.njit(plus), store)


@pytest.mark.parametrize(
    ("xdg", "home", "expected"),
    [
        ("/x", "/home/a", "/x/skstruct"),
        ("relative", "/home/a", "/home/a/.cache/skstruct"),
        ("", "/home/a", "/home/a/.cache/skstruct"),
        ("", "", None),
    ],
)
def test_the_users_folder(monkeypatch, tmp_path, xdg, home, expected):
    monkeypatch.setenv("XDG_CACHE_HOME", xdg)
    monkeypatch.setenv("HOME", home)
    monkeypatch.setattr(os.path, "expanduser", lambda path: home or path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    *others, private = cache._user_folders()
    assert others == ([] if expected is None else [Path(expected)])
    assert private.parent == tmp_path


@posix
@pytest.mark.parametrize("mode", [0o777, 0o775, 0o757])
def test_a_folder_that_others_can_write_is_not_touched(tmp_path, mode):
    planted = tmp_path / "chosen" / NAME
    planted.mkdir(parents=True)
    planted.chmod(mode)
    store = open_store(VERSIONS, tmp_path / "package", tmp_path / "chosen")
    assert planted not in [folder for folder, _ in store.readable]
    assert store.writable.parent == tmp_path / "package" / "__pycache__"


@posix
def test_links_are_not_followed(tmp_path, monkeypatch):
    target = tmp_path / "target"
    target.mkdir()
    (tmp_path / "chosen").mkdir()
    (tmp_path / "chosen" / NAME).symlink_to(target)
    store = open_store(VERSIONS, tmp_path / "package", tmp_path / "chosen")
    assert store.writable.parent == tmp_path / "package" / "__pycache__"
    (tmp_path / f"skstruct-cache-{os.geteuid()}").symlink_to(target)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert all(folder.parent != tmp_path for folder in cache._user_folders())
    assert list(target.iterdir()) == []


def test_a_chosen_folder_may_start_at_home_and_a_blank_is_none(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    for chosen, parent in (("~/x", tmp_path / "x"), (" ", tmp_path / "package" / "__pycache__")):
        store = open_store(VERSIONS, tmp_path / "package", chosen)
        assert store.writable.parent == parent


@as_root
def test_other_users_folders_and_files_are_not_read(tmp_path, monkeypatch):
    store = open_store(VERSIONS, tmp_path / "package", tmp_path / "chosen")
    store.write("entry", b"content")
    os.chown(store.writable / "entry", STRANGER, STRANGER)
    assert store.read("entry") is None
    os.chown(store.writable / "entry", 0, 0)
    os.chown(store.writable, STRANGER, STRANGER)
    again = open_store(VERSIONS, tmp_path / "package", tmp_path / "chosen")
    assert again.writable.parent == tmp_path / "package" / "__pycache__"
    assert again.read("entry") is None
    planted = tmp_path / "skstruct-cache-0"
    planted.mkdir(mode=0o700)
    os.chown(planted, STRANGER, STRANGER)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert planted not in list(cache._user_folders())


def test_what_cannot_be_written_is_read_all_the_same(tmp_path, monkeypatch):
    prepared = open_store(VERSIONS, tmp_path / "package", tmp_path / "chosen")
    prepared.write("entry", b"content")
    monkeypatch.setattr(cache, "_is_writable", lambda folder: folder != prepared.writable)
    store = open_store(VERSIONS, tmp_path / "package", tmp_path / "chosen")
    assert store.writable.parent == tmp_path / "package" / "__pycache__"
    assert store.read("entry") == b"content"
    # a damaged entry there hides no good one here
    store.write("entry", b"new")
    (prepared.writable / "entry").write_bytes(b"damaged")
    assert store.read("entry") == b"new"
    assert Store([], None).read("entry") is None


def _make_older(path, days):
    then = time.time() - days * 86400
    os.utime(path, (then, then))


def test_folders_of_old_versions_are_deleted_when_something_is_kept(tmp_path):
    old = open_store("old", tmp_path, tmp_path).writable
    (old / "entry").write_bytes(b"1")
    recent = open_store("recent", tmp_path, tmp_path).writable
    others = [tmp_path / name for name in ("skstruct-mine", "numba", f"x-skstruct-{'3' * 16}")]
    for folder in others:
        folder.mkdir()
    (tmp_path / f"skstruct-{'4' * 16}").write_text("a file")
    for folder in [old, recent, *others, tmp_path / f"skstruct-{'4' * 16}"]:
        _make_older(folder, 40)
    _make_older(recent, 3)
    # a process that uses a folder says so
    assert open_store("recent", tmp_path, tmp_path).writable == recent
    assert recent.stat().st_mtime > time.time() - 3600
    new = open_store("new", tmp_path, tmp_path)
    assert old.exists()
    new.write("entry", b"content")
    assert not old.exists()
    assert recent.exists()
    assert all(folder.exists() for folder in others)
    assert (tmp_path / f"skstruct-{'4' * 16}").exists()


def test_entries_that_nobody_uses_are_deleted_when_something_is_kept(tmp_path):
    store = open_store(VERSIONS, tmp_path)
    for name in ("used", "unused", "recent"):
        store.write(name, b"content")
        _make_older(store.writable / name, 40)
    _make_older(store.writable / "recent", 13)
    (store.writable / "killed.tmp").write_bytes(b"half")
    _make_older(store.writable / "killed.tmp", 40)
    assert store.read("used") == b"content"
    for _ in range(2):
        open_store(VERSIONS, tmp_path).write("new", b"content")
    assert {path.name for path in store.writable.iterdir()} == {"used", "recent", "new"}


def test_entries_of_an_old_copy_are_kept(tmp_path):
    # An image that is older than what nobody uses: a process may write before it reads.
    store = open_store(VERSIONS, tmp_path)
    store.write("entry", b"content")
    _make_older(store.writable / "entry", 41)
    _make_older(store.writable, 40)
    open_store(VERSIONS, tmp_path).write("new", b"content")
    assert store.read("entry") == b"content"


_FOLDER = "from skstruct.core.jit.kernels import cache_folder; print(cache_folder())"


@pytest.fixture
def stranger():
    """Runs code as a user without a name or a home, who can read all and write only his own."""
    capabilities = "--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"
    identity = f"--reuid={STRANGER}", f"--regid={STRANGER}", "--clear-groups"
    command = ("setpriv", *identity, *capabilities)
    if shutil.which("setpriv") is None:
        pytest.skip("no setpriv")
    trial = run_python("import numpy", command)
    trial.communicate()
    if trial.returncode:
        pytest.skip("another user cannot run this Python here")
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o1777)
        yield (
            Path(folder),
            lambda first="", **env: output_of(
                run_python(
                    first + _FOLDER, command, **{"HOME": None, "NUMBA_CACHE_DIR": None, **env}
                )
            ),
        )


@pytest.mark.slow
@as_root
def test_import_without_a_home(stranger):
    folder, run = stranger
    (path,), errors = run("from skstruct import *\n", TMPDIR=str(folder), XDG_CACHE_HOME=None)
    assert Path(path).parent == folder / f"skstruct-cache-{STRANGER}"
    assert stat.S_IMODE(Path(path).parent.stat().st_mode) == 0o700
    assert Path(path).stat().st_uid == STRANGER
    assert errors == ""
    (path,), _ = run(CORE_ALONE, TMPDIR=str(folder), XDG_CACHE_HOME=str(folder / "xdg"))
    assert Path(path).parent == folder / "xdg" / "skstruct"
    for chosen in (str(PACKAGE), str(PACKAGE / "__init__.py")):  # read-only, and a file
        (path,), _ = run(CORE_ALONE, TMPDIR=str(folder), NUMBA_CACHE_DIR=chosen)
        assert Path(path).name == cache_folder().name
        assert Path(path).parent == folder / f"skstruct-cache-{STRANGER}"


@pytest.mark.slow
@as_root
def test_a_planted_folder_is_left_alone_and_the_import_succeeds(stranger):
    folder, run = stranger
    planted = folder / f"skstruct-cache-{STRANGER}"
    planted.mkdir(mode=0o777)
    planted.chmod(0o777)
    os.chown(planted, STRANGER + 1, STRANGER + 1)
    (path,), errors = run("from skstruct import *\n", TMPDIR=str(folder), XDG_CACHE_HOME=None)
    assert path == "None"
    assert "set NUMBA_CACHE_DIR" in errors
    assert list(planted.iterdir()) == []
