"""Processes of this machine: killed, frozen, half-spoken, forked."""

import os
import signal
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from skstruct.solvers.engines.engine import Engine
from skstruct.solvers.engines.processes import _FREE, Processes

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="signals of Unix"),
]


def test_a_worker_that_is_killed_in_the_middle_of_a_message_is_replaced(tmp_path):
    flag = tmp_path / "flag"

    class HalfSaid:  # inside: workers need not import this module
        def __reduce__(self):
            if not flag.exists():
                flag.touch()
                os.write(1 if sys.stdout is None else sys.__stdout__.fileno(), b"")
                os.kill(os.getpid(), signal.SIGKILL)
            return np.ones, (300_000,)

    def answer(k):
        return HalfSaid() if k == 2 else np.full(300_000, float(k))

    with Engine(workers=Processes(2)) as engine:
        found = [result.sum() for result in engine.map(answer, range(5), lambda k: (k,))]
    assert found == [0.0, 3e5, 3e5, 9e5, 12e5]
    assert engine.n_losses == 1


def test_workers_stay_for_the_next_engine_and_end_with_the_driver():
    program = textwrap.dedent("""
        import os
        from skstruct.solvers.engines.engine import Engine
        from skstruct.solvers.engines.processes import Processes

        def who(k):  # of a script that does not guard itself
            return os.getpid()

        found = []
        for _ in range(2):
            with Engine(workers=Processes(2)) as engine:
                found.append(set(engine.map(who, range(8), lambda k: (k,))))
        assert found[0] == found[1] and len(found[0]) == 2, found
        print(*found[0])
    """)
    done = subprocess.run(
        [sys.executable, "-"], input=program, capture_output=True, text=True, check=True
    )
    assert not done.stderr
    for worker in map(int, done.stdout.split()):
        with pytest.raises(ProcessLookupError):
            os.kill(worker, 0)


def test_a_frozen_worker_is_ended_with_its_engine():
    workers = Processes(2)
    with Engine(workers=workers) as engine:
        slots = workers.slots()
        list(engine.map(divmod, range(4), lambda k: (k, 3)))
        os.kill(slots[0], signal.SIGSTOP)
        found = list(engine.map(divmod, range(8), lambda k: (k, 3)))
        assert found == [divmod(k, 3) for k in range(8)]
    assert slots[0] not in [worker.process.pid for worker in _FREE]


def test_what_cannot_be_sent_is_told():
    with (
        Engine(workers=Processes(2)) as engine,
        pytest.raises(TypeError, match="cannot be sent to another process"),
    ):
        list(engine.map(lambda k: (j for j in range(k)), range(4), lambda k: (k,)))
