"""Masks of tagging schemes against the chunks that metrics read by the same scheme."""

import itertools

import numpy as np
import pytest

from skstruct.data.constraints import transition_mask
from skstruct.metrics import chunks

LETTERS = {
    "iob1": "IB",
    "iob2": "IB",
    "ioe1": "IE",
    "ioe2": "IE",
    "iobes": "IBES",
    "bilou": "IBLU",
}


def _encoded(spans, n, scheme):
    """Labels of chunks by the definition of each scheme."""
    labels = ["O"] * n
    for q, (start, stop, kind) in enumerate(spans):
        inside = [f"I-{kind}"] * (stop - start)
        before = q > 0 and spans[q - 1][1:] == (start, kind)
        after = q + 1 < len(spans) and spans[q + 1][0] == stop and spans[q + 1][2] == kind
        if scheme == "iob2" or (scheme == "iob1" and before):
            inside[0] = f"B-{kind}"
        if scheme == "ioe2" or (scheme == "ioe1" and after):
            inside[-1] = f"E-{kind}"
        if scheme in ("iobes", "bilou"):
            first, last, single = "BES" if scheme == "iobes" else "BLU"
            inside[0], inside[-1] = f"{first}-{kind}", f"{last}-{kind}"
            if len(inside) == 1:
                inside = [f"{single}-{kind}"]
        labels[start:stop] = inside
    return labels


def _segmentations(n):
    """All ways to place chunks of two kinds in n tokens."""
    if n == 0:
        yield []
        return
    for spans in _segmentations(n - 1):
        yield spans
    for start in range(n):
        for spans in _segmentations(start):
            for kind in "xy":
                yield [*spans, (start, n, kind)]


@pytest.mark.parametrize("scheme", LETTERS)
def test_the_mask_allows_exactly_what_encodes_chunks(scheme):
    classes = np.array(["O", *(f"{tag}-{kind}" for tag in LETTERS[scheme] for kind in "xy")])
    mask = transition_mask(scheme, np.sort(classes))
    labels = np.sort(classes).tolist()
    for n in (1, 2, 3):
        encoded = {tuple(_encoded(spans, n, scheme)) for spans in _segmentations(n)}
        allowed = set()
        for codes in itertools.product(range(len(labels)), repeat=n):
            cost = mask.start[codes[0]] + mask.stop[codes[-1]]
            cost += sum(mask.pairs[a, b] for a, b in itertools.pairwise(codes))
            if cost == 0:
                allowed.add(tuple(labels[k] for k in codes))
        assert allowed == encoded
        for spans in _segmentations(n):
            written = _encoded(spans, n, scheme)
            # seqeval, which metrics agree with, reads no IOE1 chunk that begins with E, except
            # after another one of its kind.
            odd = (b[0] == "E" and a[1:] != b[1:] for a, b in itertools.pairwise(["O", *written]))
            if scheme != "ioe1" or not any(odd):
                assert chunks(written, scheme) == spans


@pytest.mark.parametrize(
    ("alias", "scheme"),
    [
        ("BIO", "iob2"),
        ("IOB2", "iob2"),
        ("IOBES", "iobes"),
        ("bioes", "iobes"),
        ("BILOU", "bilou"),
        ("BIOUL", "bilou"),
        ("BILUO", "bilou"),
    ],
)
def test_aliases(alias, scheme):
    classes = np.array(["O", *(f"{tag}-x" for tag in LETTERS[scheme])])
    for a, b in zip(transition_mask(alias, classes), transition_mask(scheme, classes), strict=True):
        np.testing.assert_array_equal(a, b)


def test_unknown_schemes_are_named():
    with pytest.raises(ValueError, match=r"forbidden must be a scheme \(.*bilou.*got 'iob'"):
        transition_mask("iob", np.array(["O"]))
