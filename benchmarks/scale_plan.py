"""What training on a cluster will take: bench_scale.py's model of an iteration, and assumptions.

Every number of :data:`ASSUMED` can be given as ``--plan name=number``.
"""

from __future__ import annotations

from typing import NamedTuple

# Seconds an entry, a byte, a task and a weight: of ``--parts rates``, a task of ``gradients``.
RATES = 6.5e-8, 7.2e-10, 6.8e-3, 7.1e-10


class Assumption(NamedTuple):
    """A number, and where it is from."""

    value: float
    text: str


ASSUMED = {
    "tokens": Assumption(1e9, "tokens of the corpus"),
    "workers": Assumption(64, "processes that compute, a core each"),
    "shards": Assumption(64, "one for each worker: more cost messages"),
    "features": Assumption(20, "stored features a token (a chunking template)"),
    "labels": Assumption(22, "of CoNLL-2000"),
    "columns": Assumption(2e6, "features of all shards (rare ones dropped)"),
    "share": Assumption(0.5, "of the columns that one shard uses"),
    "iterations": Assumption(60, "evaluations of loss and gradient to a gap of 1e-3"),
    "network": Assumption(1.25e9, "bytes a second of the driver's link (10 Gbit/s)"),
    "sentence": Assumption(24, "tokens of a sentence"),
    "disk": Assumption(5e8, "bytes a second that a worker reads from the common disk"),
}


def read(given):
    """The assumptions, some of them replaced by ``name=number``.

    Raises
    ------
    ValueError
        If there is no such name, or the number is not positive; names it.
    """
    numbers = {name: assumption.value for name, assumption in ASSUMED.items()}
    for item in given:
        name, _, text = item.partition("=")
        if name not in numbers:
            raise ValueError(f"--plan: {name!r} is none of {', '.join(numbers)}")
        numbers[name] = float(text)
        if not 0.0 < numbers[name] < float("inf"):
            raise ValueError(f"--plan: {name} must be positive, got {text}")
    return numbers


def plan(numbers, rates=RATES):
    """Seconds and bytes, by the names that the table has.

    Parameters
    ----------
    numbers : dict
        From :func:`read`.
    rates : sequence of float
        Seconds an entry, a byte, a task and a weight.

    Returns
    -------
    dict
        ``(number, unit)`` of each line.
    """
    n = numbers
    entry, byte, task, weight = rates
    entries = n["tokens"] * n["features"]
    busiest = entries / min(n["workers"], n["shards"])
    weights = n["columns"] * n["labels"]
    rows = n["columns"] * n["share"]
    message = 8.0 * n["labels"] * (rows + n["labels"])  # to a task, and as much back
    sent = 2.0 * message * n["shards"]
    # An index and a value an entry, an index pointer and a label a token.
    stored = 12.0 * entries + 12.0 * n["tokens"]
    a_shard = stored / n["shards"]
    compute, carry = entry * busiest, sent * (byte + 1.0 / n["network"])
    tasks, vectors = task * n["shards"], weight * weights
    iteration = compute + carry + tasks + vectors
    return {
        "entries of the busiest worker": (busiest / 1e9, "10^9"),
        "weights": (weights / 1e6, "10^6"),
        "shards on disk": (stored / 1e9, "GB"),
        "one shard": (a_shard / 1e9, "GB"),
        "sent and received in an iteration": (sent / 1e9, "GB"),
        "computing": (compute, "s"),
        "messages: network and copying": (carry, "s"),
        "tasks": (tasks, "s"),
        "vectors of the driver": (vectors, "s"),
        "an iteration": (iteration, "s"),
        "first reading of the shards": (stored / min(n["workers"], n["shards"]) / n["disk"], "s"),
        "all iterations": (iteration * n["iterations"] / 3600.0, "h"),
        "memory of the driver: twelve vectors, four messages": (
            (12 * 8.0 * weights + 4 * message) / 1e9,
            "GB",
        ),
        # A shard and its scratch stay with the system's cache; these are its own.
        "memory of a worker: message, gradient, losses": (
            (3 * message + 16.0 * n["tokens"] / n["sentence"] / n["shards"]) / 1e9,
            "GB",
        ),
    }


def show(given, rates=RATES):
    """Print the assumptions and the plan; returns both."""
    numbers = read(given)
    print("| assumed | | |\n|---|--:|---|")
    for name, assumption in ASSUMED.items():
        print(f"| {name} | {numbers[name]:.6g} | {assumption.text} |")
    names = "an entry", "a byte", "a task", "a weight"
    for name, rate in zip(names, rates, strict=True):
        print(f"| seconds {name} | {rate:.2g} | bench_scale.py |")
    found = plan(numbers, rates)
    print("\n| plan | | |\n|---|--:|---|")
    for name, (value, unit) in found.items():
        print(f"| {name} | {value:.3g} | {unit} |")
    return {"assumed": numbers, "plan": {name: value for name, (value, _) in found.items()}}
