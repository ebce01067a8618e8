"""What would compile to wrong numbers under another numba is given up, and said."""

import subprocess
import sys

import numba
import pytest

from skstruct.core.jit import self_check
from skstruct.core.jit.cache import Store
from skstruct.core.jit.numba_private import TRICKS
from tests.helpers.core_alone import CORE_ALONE


@pytest.fixture
def tricks(monkeypatch):
    monkeypatch.setattr(self_check, "TRICKS", dict.fromkeys(TRICKS, True))
    return self_check.TRICKS


def _store(tmp_path):
    return Store([(tmp_path, {tmp_path.stat().st_uid})], tmp_path)


def test_what_passed_is_remembered(tricks, tmp_path, monkeypatch):
    answers = [True]
    monkeypatch.setattr(self_check, "_is_right", lambda probe: answers.pop())
    for _ in range(2):  # the second asks nobody
        self_check.check(_store(tmp_path))
    assert all(tricks.values())


@pytest.mark.parametrize(
    ("answers", "lost"),
    [([False, True], {"references"}), ([False, False, True], {"references", "passes"})],
)
def test_tricks_that_fail_are_given_up(answers, lost, tricks, tmp_path, monkeypatch):
    left = iter(answers)
    monkeypatch.setattr(self_check, "_is_right", lambda probe: next(left))
    with pytest.warns(RuntimeWarning, match=f"numba {numba.__version__}.*not used"):
        self_check.check(_store(tmp_path))
    assert {name for name, kept in tricks.items() if not kept} == lost
    assert not list(tmp_path.iterdir())


def test_wrong_numbers_without_tricks_are_refused(tricks, tmp_path, monkeypatch):
    monkeypatch.setattr(self_check, "_is_right", lambda probe: False)
    with pytest.raises(RuntimeError, match="wrong numbers"):
        self_check.check(_store(tmp_path))


_WITHOUT = """
from skstruct.core.jit import self_check
from skstruct.core.jit.numba_private import TRICKS

for off in ((), ("references",), ("references", "passes")):
    TRICKS.update(dict.fromkeys(off, False))
    print(self_check._is_right(self_check._make_probe()))
"""


@pytest.mark.slow
def test_the_probe_has_its_answer_with_and_without_each_trick():
    done = subprocess.run(
        [sys.executable, "-c", CORE_ALONE + _WITHOUT], capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == ["True"] * 3, done.stderr
