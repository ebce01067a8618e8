"""Covering arrays: few cases in which all pairs of choices of different factors occur."""

import itertools

import numpy as np


def all_pairs(allowed=lambda case: True, **factors):
    """Cases, as dicts, that hold every pair of choices which some allowed case has; no draw."""
    names, sizes = list(factors), [len(choices) for choices in factors.values()]
    product = (dict(zip(names, case, strict=True)) for case in itertools.product(*factors.values()))
    cases = [case for case in product if allowed(case)]
    places = {name: {choice: k for k, choice in enumerate(factors[name])} for name in names}
    codes = np.array([[places[name][case[name]] for name in names] for case in cases])
    pairs = []
    for k, (a, b) in enumerate(itertools.combinations(range(len(names)), 2)):
        pairs.append((k * max(sizes) + codes[:, a]) * max(sizes) + codes[:, b])
    pairs, found = np.stack(pairs, axis=1), []
    missing = np.zeros(pairs.max() + 1, dtype=bool)
    missing[pairs] = True
    while missing.any():
        best = int(missing[pairs].sum(axis=1).argmax())
        missing[pairs[best]] = False
        found.append(cases[best])
    return found


def names_of(case):
    """A case as the name of a test."""
    return ", ".join(map(str, case.values()))
