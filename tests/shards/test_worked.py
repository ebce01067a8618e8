"""Small worked examples of the internals of shards."""

import numpy as np

from skstruct import Chain
from skstruct.graphs.layout import Rows
from skstruct.shards.manifest import decode_classes, encode_classes
from skstruct.shards.packing import pieces_of, relocated
from skstruct.shards.reading import describe, flatten


def test_leaves_flatten():
    assert (sorted(flatten(Rows(np.eye(2), np.arange(3)))[0])) == ["features", "offsets"]


def test_manifest_encode_classes():
    assert (
        repr(decode_classes(encode_classes(np.array(["a", "b"]))))
        == "array(['a', 'b'], dtype='<U1')"
    )


def test_parts_relocated():
    assert (
        repr(relocated(ValueError("X: sample 3 is empty"), 100))
        == "ValueError('X: sample 103 is empty')"
    )


def test_parts_pieces_of():
    assert (list(pieces_of("abc".__iter__(), 2))) == [(0, ["a", "b"]), (2, ["c"])]


def test_structure_describe():
    assert (describe(Chain())["name"]) == "Chain"
