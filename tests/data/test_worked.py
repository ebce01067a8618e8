"""Small worked examples of the internals of data."""

import tempfile
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

import numpy as np
from sklearn.feature_extraction import DictVectorizer

from skstruct.data.boxes import read_positions
from skstruct.data.labels import (
    is_indicator,
    read_label_lists,
    read_table_labels,
    rows_of_image,
)
from skstruct.data.matrices import (
    feature_dtype,
    is_sound_csr,
    row_squares,
    writable,
)
from skstruct.data.names import (
    JoinedNames,
    ListedNames,
    as_names,
    names_of_output,
)
from skstruct.data.node_weights import (
    balanced_weights,
    given_weights,
    is_flat,
    read_sequence_weights,
    read_table_weights,
)
from skstruct.data.packing import (
    rows_as_scores,
)
from skstruct.data.partial import read_table_mask
from skstruct.data.ragged import RaggedArray, rows_of
from skstruct.data.store import Checked, written_beside
from skstruct.data.values import as_labels, family, join_values
from skstruct.lite import scheme_name


def test_allowed_read_table_mask():
    assert repr(read_table_mask([[True, False]], (1, 2))) == "array([[1, 0]], dtype=uint8)"


def test_store_checked():
    written = Checked(BytesIO())
    assert (written.write(b"state"), written.size) == (5, 5)
    read = Checked(BytesIO(b"state"))
    assert (read.read(5), read.checksum == written.checksum) == (b"state", True)


def test_store_written_beside(capsys):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "state")
        with written_beside(path) as file:
            _ = file.write(b"whole")
            print(path.exists())
        print(path.read_bytes())
    assert capsys.readouterr().out == "False\nb'whole'\n"


def test_labels_read_label_lists():
    assert repr(read_label_lists([[1, 0], [2]], "y")) == "[array([1, 0]), array([2])]"


def test_labels_rows_of_image():
    assert (rows_of_image([["a", "b"], ["b", "b"]], "y")) == (["a", "b", "b", "b"], (2, 2))


def test_labels_read_table_labels():
    assert repr(read_table_labels(["b", "a"], 2)) == "array(['b', 'a'], dtype='<U1')"


def test_labels_is_indicator():
    assert (is_indicator([[0, 1], [1, 1]]), is_indicator([0, 1])) == (True, False)


def test_matrices_writable():
    assert repr(writable(np.ones(2, dtype=np.float32)).dtype) == "dtype('float64')"


def test_matrices_feature_dtype():
    assert (
        repr((feature_dtype(np.float32), feature_dtype(np.int8)))
        == "(dtype('float32'), dtype('float64'))"
    )


def test_matrices_row_squares():
    assert repr(row_squares(np.array([[3.0, 4.0]]))) == "array([25.])"


def test_matrices_is_sound_csr():
    assert (is_sound_csr((1, 2), np.ones(1), np.array([2]), np.array([0, 1]))) is False


def test_names_joinednames():
    assert (list(JoinedNames([("a__", ListedNames(["He"])), ("b__", 2)]))) == [
        "a__He",
        "b__x0",
        "b__x1",
    ]


def test_names_as_names():
    assert (len(as_names(["a", "b"], 2, "feature_names"))) == 2


def test_names_names_of_output():
    assert (list(names_of_output(DictVectorizer().fit([{"a": 1}])))) == ["a"]


def test_node_weights_read_sequence_weights():
    assert (
        repr(read_sequence_weights([[1, 2], [0.5]], np.array([0, 2, 3])))
        == "array([1. , 2. , 0.5])"
    )


def test_node_weights_is_flat():
    assert (is_flat([1.0, 2.0]), is_flat([[1.0], [2.0]])) == (True, False)


def test_node_weights_read_table_weights():
    assert repr(read_table_weights([[1, 0]], (1, 2))) == "array([1., 0.])"


def test_node_weights_given_weights():
    assert repr(given_weights({"b": 3}, ["a", "b"])) == "array([1., 3.])"


def test_node_weights_balanced_weights():
    assert (
        repr(balanced_weights(np.array([0, 0, 0, 1]), np.ones(4), (1, 2)).round(2))
        == "array([[0.67, 2.  ]])"
    )


def test_packing_rows_as_scores():
    class Samples(NamedTuple):
        features: np.ndarray

    assert repr(rows_as_scores(Samples(np.ones((2, 5)))).features.toarray()) == (
        "array([[1., 0.],\n       [0., 1.]])"
    )


def test_points_read_positions():
    assert repr(read_positions([[0, 1]], (2, 3), "X: sample 0")) == "(array([[0, 1]]), (2, 3))"


def test_ragged_rows_of():
    assert (rows_of(RaggedArray(np.ones((1, 2)), [0, 1])).flags.writeable) is True


def test_schemes_scheme_name():
    assert (scheme_name("BIO"), scheme_name("IOBES")) == ("iob2", "iobes")


def test_values_family():
    assert (family(bool), family(dict)) == ("numbers", None)


def test_values_as_labels_any_values():
    found = as_labels([3, 0.5], "samples", "node {}".format, any_values=True)
    assert repr(found) == "array([3. , 0.5])"


def test_values_join_values():
    assert repr(join_values([np.array([1, 2]), np.array([])], "y")) == "array([1, 2])"
