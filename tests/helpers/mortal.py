"""Estimators whose workers are killed while they open a shard."""

import os
import signal


def mortal(kind, flags, deaths, fits):
    """A subclass of an estimator: in a folder `flags` each killed worker leaves a file.

    `fits` gets the kind of workers of each fit, and how many tasks were lost.
    """
    driver = os.getpid()

    class Mortal:  # inside: workers need not import this module
        def __init__(self, source):
            self.source = source

        def __getattr__(self, name):
            if name.startswith("__") or name == "source":
                raise AttributeError(name)
            return getattr(self.source, name)

        def open(self, k):
            if os.getpid() != driver and k >= 3 and len(list(flags.iterdir())) < deaths:
                (flags / str(os.getpid())).touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return self.source.open(k)

    class Model(kind):
        def _train_rounds(self, source, engine, shapes, **common):
            result = super()._train_rounds(Mortal(source), engine, shapes, **common)
            fits.append((type(engine._workers).__name__, engine.n_losses))
            return result

    return Model
