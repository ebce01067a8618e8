"""Bundles: kernels that other processors find again, and files that are not taken for one."""

import importlib.util
import json
import os
import shutil
import sys
import zipfile
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import numba
import numpy as np
import pytest
from llvmlite import binding

import skstruct
from skstruct.core.jit import bundles
from skstruct.core.jit.bundles import FILE, INSTALLED, NAMED, Bundles, lacking, pack
from skstruct.core.jit.cache import open_store
from skstruct.core.jit.dispatch import code_target
from skstruct.core.jit.numba_private import cache_on_disk
from tests.helpers.cache_cases import FINGERPRINT, output_of, plus, posix, run_python
from tests.helpers.core_alone import CORE_ALONE

ROOT = Path(__file__).parents[3]
as_root = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give files away"
)


def _dispatcher(store, bundles=None):
    dispatcher = numba.njit(plus)
    assert cache_on_disk(dispatcher, store, bundles)
    return dispatcher


@pytest.fixture(scope="module")
def entries(tmp_path_factory):
    """The entry of a compiled function."""
    store = open_store(FINGERPRINT, tmp_path_factory.mktemp("package"))
    assert _dispatcher(store)(1, 2) == 3
    return {name: store.read(name) for name in store.used}


@pytest.fixture
def path(entries, tmp_path):
    path = tmp_path / "kernels.zip"
    path.write_bytes(pack(entries, code_target(), FINGERPRINT))
    path.chmod(0o644)
    return path


def _read(path):
    return bundles.read_bundle(path, FINGERPRINT)


def _changed(path, **values):
    """Change the manifest of a bundle."""
    with zipfile.ZipFile(path) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    manifest = json.loads(files["kernels.json"])
    manifest["made with"] |= values.pop("made_with", {})
    files["kernels.json"] = json.dumps(manifest | values).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)


def test_a_kernel_of_a_bundle_is_not_compiled(path, tmp_path):
    used = Bundles(FINGERPRINT)
    assert used.load(path) == 1
    store = open_store(FINGERPRINT, tmp_path / "package", tmp_path / "chosen")
    dispatcher = _dispatcher(store, used)
    assert dispatcher(1, 2) == 3
    assert sum(dispatcher.stats.cache_hits.values()) == 1
    assert list(store.writable.iterdir()) == []
    # What it lacks is compiled, and kept as ever.
    assert dispatcher(0.5, 2.0) == 2.5
    assert len(list(store.writable.iterdir())) == 1


def test_an_entry_that_cannot_be_used_is_compiled(entries, path, tmp_path):
    (name,) = entries
    path.write_bytes(pack({name: b"no pickle"}, code_target(), FINGERPRINT))
    used = Bundles(FINGERPRINT)
    used.load(path)
    assert _dispatcher(open_store(FINGERPRINT, tmp_path / "package"), used)(1, 2) == 3


def test_a_bundle_is_the_same_file_each_time(entries):
    assert len({pack(entries, code_target(), FINGERPRINT) for _ in range(2)}) == 1


OTHERS = {
    "another numba": ({"made_with": {"numba": "0.1"}}, "compiled with numba 0.1, this is numba"),
    "another llvmlite": ({"made_with": {"llvmlite": "0.1"}}, "compiled with llvmlite 0.1"),
    "another Python": ({"made_with": {"Python": "cpython-20"}}, "compiled with Python cpython-20"),
    "another NumPy": ({"made_with": {"NumPy": "1.9"}}, "compiled with NumPy 1.9"),
    "another skstruct": ({"made_with": {"skstruct": "9"}}, "compiled with skstruct 9"),
    "other sources": ({"sources": "f" * 16}, "compiled from other sources of skstruct"),
    "another system": ({"target": ["sparc", "v9", ""]}, "is for sparc, this is"),
    "another processor": (
        {"target": [binding.get_process_triple(), "z80", "+sse2,+warp"]},
        "is for z80; this processor does not have .*warp",
    ),
    "a name alone": ({"target": [binding.get_process_triple(), "z80", ""]}, "does not have z80"),
    "another format": ({"format": "skstruct kernels 9"}, "its format is 'skstruct kernels 9'"),
    "no target": ({"target": []}, "is damaged"),
    "no sources": ({"made with": None}, "is damaged"),
}


@pytest.mark.parametrize(("values", "message"), OTHERS.values(), ids=OTHERS)
def test_what_cannot_serve_is_named(path, values, message):
    _changed(path, **values)
    with pytest.raises(ValueError, match=message):
        _read(path)


@pytest.mark.parametrize("name", ["../plus-1-00000000000000000000.nbc", "/etc/passwd", "x.py"])
def test_names_that_are_no_kernels_are_refused(path, name):
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(name, b"")
    with pytest.raises(ValueError, match="is not the name of a kernel"):
        _read(path)


def test_damaged_files_are_errors_or_whole(path):
    whole, data = _read(path), path.read_bytes()
    for n in (0, 1, 4, 30, len(data) // 2, len(data) - 30, len(data) - 1):
        path.write_bytes(data[:n])
        with pytest.raises(ValueError, match="is not a bundle of kernels, or is damaged"):
            _read(path)
    rng = np.random.default_rng(0)
    ends = np.concatenate([np.arange(60), np.arange(len(data) - 200, len(data))])
    for at in np.concatenate([ends, rng.integers(len(data), size=100)]):
        path.write_bytes(
            data[:at] + bytes([data[at] ^ (1 << int(rng.integers(8)))]) + data[at + 1 :]
        )
        with suppress(ValueError):
            assert _read(path) == whole


def test_files_that_are_none(tmp_path):
    with pytest.raises(FileNotFoundError):
        skstruct.load_kernels(tmp_path / "nothing")
    with pytest.raises((ValueError, OSError)):
        skstruct.load_kernels(tmp_path)
    (tmp_path / "text").write_text("text")
    with pytest.raises(ValueError, match="File is not a zip file"):
        skstruct.load_kernels(tmp_path / "text")


# Who may have written it


@posix
def test_what_others_can_write_is_not_read(path, tmp_path):
    for mode in (0o664, 0o646):
        path.chmod(mode)
        with pytest.raises(PermissionError, match=r"others can write .*kernels\.zip"):
            _read(path)
    path.chmod(0o644)
    inner = tmp_path / "outer" / "inner"
    inner.mkdir(parents=True)
    copy = Path(shutil.copy(path, inner))
    for folder in (inner, inner.parent):
        for mode in (0o775, 0o757):
            folder.chmod(mode)
            with pytest.raises(PermissionError, match=f"others can write .*{folder.name} "):
                _read(copy)
        folder.chmod(0o1777)  # there nobody can replace another user's file
        assert _read(copy) == _read(path)
    # A link is what it leads to.
    (tmp_path / "link").symlink_to(copy)
    assert _read(tmp_path / "link") == _read(path)
    inner.chmod(0o777)
    with pytest.raises(PermissionError):
        _read(tmp_path / "link")


@as_root
def test_what_belongs_to_another_user_is_not_read(path):
    os.chown(path, 54321, 54321)
    with pytest.raises(PermissionError, match="belongs to another user"):
        _read(path)
    os.chown(path, 0, 0)
    os.chown(path.parent, 54321, 54321)
    with pytest.raises(PermissionError, match="belongs to another user"):
        _read(path)


@posix
def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe", 0o600)
    with pytest.raises(ValueError, match="is not a file"):
        _read(tmp_path / "pipe")


# Where it is found


def test_the_environment_names_bundles(path, monkeypatch):
    monkeypatch.setenv(NAMED, f"{path}{os.pathsep}{path}")
    assert len(Bundles(FINGERPRINT).active()) == 2
    monkeypatch.setenv(NAMED, "")
    assert Bundles(FINGERPRINT).active() == []
    monkeypatch.setenv(NAMED, str(path))
    other = Bundles("f" * 16)
    for _ in range(2):  # each time that a kernel is needed
        with pytest.raises(ValueError, match=f"{NAMED}: .*other sources"):
            other.active()
    monkeypatch.setenv(NAMED, f"{path}.none")
    with pytest.raises(FileNotFoundError, match=NAMED):
        Bundles(FINGERPRINT).active()


def test_an_installed_bundle_is_found_and_one_that_cannot_serve_is_said(path, monkeypatch):
    monkeypatch.delenv(NAMED, raising=False)
    assert Bundles(FINGERPRINT).active() == []
    package = path.parent / INSTALLED
    package.mkdir(mode=0o755)
    shutil.copy(path, package / FILE)
    monkeypatch.syspath_prepend(path.parent)
    assert Bundles(FINGERPRINT).active() == [_read(path)]
    with pytest.warns(RuntimeWarning, match="skstruct-kernels is not used: .*other sources"):
        assert Bundles("f" * 16).active() == []
    assert INSTALLED not in sys.modules


def test_the_wheel_is_one_that_pip_takes(monkeypatch, tmp_path):
    spec = importlib.util.spec_from_file_location("wheel", ROOT / ".ci" / "kernels_wheel.py")
    wheel = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(wheel)

    def run(command, **options):
        Path(command[command.index("--bundle") + 1]).write_bytes(b"kernels")

    monkeypatch.setattr(wheel.subprocess, "run", run)
    wheel.main(tmp_path / "dist")
    (path,) = (tmp_path / "dist").iterdir()
    assert path.name.startswith(f"skstruct_kernels-{skstruct.__version__}-cp3")
    with zipfile.ZipFile(path) as archive:
        assert archive.read(f"{INSTALLED}/{FILE}") == b"kernels"
        info = path.name.split("-cp3")[0] + ".dist-info"
        record = archive.read(f"{info}/RECORD").decode().split()
        assert sorted(line.split(",")[0] for line in record) == sorted(archive.namelist())
        assert f"numba=={numba.__version__}" in archive.read(f"{info}/METADATA").decode()


# Processors


def test_levels_contain_one_another_and_name_what_llvm_knows():
    levels = [set(names) for names in bundles.LEVELS.values()]
    assert all(a < b for a, b in pairwise(levels))
    assert lacking("generic") == []
    own = binding.get_host_cpu_features()
    if not binding.get_process_triple().startswith("x86_64"):
        pytest.skip("the levels are of x86-64")
    assert levels[-1] <= set(own)
    flat = own.flatten()
    assert lacking(binding.get_host_cpu_name(), flat) == []
    first = next(name for name, has in own.items() if not has)
    assert lacking("any", f"{flat},+{first}") == [first]


_MADE = """
import sys
import numpy as np
from skstruct.core.jit import dispatch
from skstruct.inference.numerics import row_max
assert row_max(np.arange(3.0), 0, 3) == 2.0
if len(sys.argv) > 1:
    content = dispatch.bundle_of(dispatch.used_kernels(), dispatch.code_target())
    open(sys.argv[1], "wb").write(content)
print(dispatch.code_target()[1], sum(row_max.stats.cache_misses.values()))
"""


@pytest.mark.slow
def test_another_processor_finds_the_kernels(tmp_path):
    path, code = tmp_path / "kernels.zip", CORE_ALONE + _MADE
    made = f"import sys; sys.argv.append({str(path)!r})\n" + code
    (cpu, misses), _ = output_of(
        run_python(made, NUMBA_CACHE_DIR=str(tmp_path / "a"), NUMBA_CPU_NAME="generic")
    )
    assert (cpu, misses) == ("generic", "1")
    path.chmod(0o644)
    environment = {"NUMBA_CPU_NAME": None, "NUMBA_CACHE_DIR": str(tmp_path / "b")}
    (cpu, misses), _ = output_of(run_python(code, SKSTRUCT_KERNELS=str(path), **environment))
    assert cpu != "generic"
    assert misses == "0"
    failed = run_python(code, SKSTRUCT_KERNELS=f"{path}.none", **environment)
    assert "SKSTRUCT_KERNELS: [Errno 2]" in failed.communicate()[1]
    assert failed.returncode == 1
