"""Refusals before memory runs out."""

import numpy as np
import pytest

from skstruct import BCFWSSVM, SAGCRF, CasimirSSVM
from skstruct.core import memory
from skstruct.testing import random_sequences


@pytest.mark.parametrize("make", [SAGCRF, BCFWSSVM, CasimirSSVM])
def test_a_fit_that_does_not_fit_names_both_numbers(make, monkeypatch):
    X, y = random_sequences(np.random.default_rng(0), n_samples=4)
    monkeypatch.setattr(memory, "available_bytes", lambda: 100)
    monkeypatch.setattr(memory, "_ALWAYS_FREE", 0)
    with pytest.raises(MemoryError, match=r"would take [\d,]+ bytes, but 100 bytes of memory"):
        make(max_iter=1).fit(X, y)


def test_the_smaller_limit_counts(tmp_path, monkeypatch):
    info, limit, usage = (tmp_path / name for name in ("info", "limit", "usage"))
    info.write_text("MemTotal: 9 kB\nMemAvailable: 4 kB\n")
    monkeypatch.setattr(memory, "_INFO", info)
    monkeypatch.setattr(memory, "_GROUPS", ((limit, usage),))
    assert memory.available_bytes() == 4096
    limit.write_text("max\n")
    usage.write_text("500\n")
    assert memory.available_bytes() == 4096
    limit.write_text("2000\n")
    assert memory.available_bytes() == 1500
