"""CRFsuite and Wapiti on the benchmark's tasks."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
import time

import numpy as np
from tasks import CHUNKING, measure


def crfsuite(task, all_states, tight, c2, c1=0.0, iterations=1000):
    """Train CRFsuite by L-BFGS; curve of (CPU seconds, objective), final measure, tagging speed."""
    import pycrfsuite

    trainer = pycrfsuite.Trainer(algorithm="lbfgs", verbose=False)
    for attributes, labels in zip(task.train.attributes, task.train.labels, strict=True):
        trainer.append(attributes, labels)
    trainer.set_params(
        {
            "c1": c1,
            "c2": c2,
            "feature.possible_states": all_states,
            "feature.possible_transitions": all_states,
            "max_iterations": iterations,
        }
    )
    if tight:
        trainer.set_params({"delta": 1e-7, "period": 10, "epsilon": 1e-7})
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model")
        start = time.process_time()
        trainer.train(path)
        total = time.process_time() - start
        log = trainer.logparser
        seconds = np.cumsum([float(step["time"]) for step in log.iterations])
        objective = np.array([float(step["loss"]) for step in log.iterations])
        n_bytes = os.path.getsize(path)
        tagger = pycrfsuite.Tagger()
        tagger.open(path)
        start = time.process_time()
        predicted = [tagger.tag(attributes) for attributes in task.test.attributes]
        speed = task.test.y.flat.size / (time.process_time() - start)
        tagger.close()
    return {
        "train_seconds": total,
        "curve": [seconds.tolist(), objective.tolist()],
        "measure": measure(task, predicted),
        "tokens_per_second": speed,
        "iterations": len(objective),
        "n_weights": int(log.featgen_num_features),
        "model_bytes": n_bytes,
    }


def wapiti(task, rho2, rho1=0.0):
    """Train Wapiti by L-BFGS (OWL-QN) to its default stop, on all labels and all attributes."""
    from wapiti import Model

    lines = []
    for q, spec in enumerate(CHUNKING):
        lines.append(f"U{q:02d}:" + "/".join(f"%x[{o},{column}]" for column, o in spec))
    patterns = "\n".join([*lines, "B"])
    model = Model(patterns=patterns, algo="l-bfgs", rho1=rho1, rho2=rho2, nthread=1)
    for columns, labels in zip(task.train.columns, task.train.labels, strict=True):
        model.add_training_sequence(
            "\n".join(f"{c} {label}" for c, label in zip(columns, labels, strict=True))
        )
    start = time.process_time()
    with tempfile.TemporaryFile("w+") as log:
        with _standard_error_to(log):
            model.train()
        total = time.process_time() - start
        log.seek(0)
        objective = [float(value) for value in re.findall(r"obj=([\d.]+)", log.read())]
    start = time.process_time()
    predicted = [
        [
            row.split()[-1]
            for row in _text(model.label_sequence("\n".join(columns))).splitlines()
            if row
        ]
        for columns in task.test.columns
    ]
    return {
        "train_seconds": total,
        "curve": objective,
        "measure": measure(task, predicted),
        "tokens_per_second": task.test.y.flat.size / (time.process_time() - start),
    }


@contextlib.contextmanager
def _standard_error_to(log):
    """Send what C code prints there to a file."""
    kept = os.dup(2)
    os.dup2(log.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _text(value):
    return value.decode() if isinstance(value, bytes) else value
