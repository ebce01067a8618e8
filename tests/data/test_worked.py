"""Small worked examples of the internals of data."""

import tempfile
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from scipy import sparse
from sklearn.feature_extraction import DictVectorizer

from skstruct.data.boxes import overlaps, read_positions
from skstruct.data.constraints import scheme_name, transition_mask
from skstruct.data.labels import (
    encode,
    is_indicator,
    read_indicator,
    read_label_lists,
    read_table_labels,
    rows_of_image,
)
from skstruct.data.matrices import (
    as_array,
    check_sparse,
    feature_dtype,
    is_sound_csr,
    numeric,
    readable,
    refuse_masked,
    row_squares,
    writable,
)
from skstruct.data.names import (
    JoinedNames,
    ListedNames,
    VocabularyNames,
    as_names,
    names_of,
    names_of_output,
    with_names,
)
from skstruct.data.node_weights import (
    balanced_weights,
    given_weights,
    is_flat,
    read_sequence_weights,
    read_table_weights,
)
from skstruct.data.packing import (
    check_n_features,
    is_empty_list,
    is_structured,
    read_sample_weight,
    read_sequences,
    rows_as_scores,
)
from skstruct.data.partial import read_table_mask, split_partial
from skstruct.data.ragged import RaggedArray, object_array, rows_of
from skstruct.data.store import Checked, is_left, own, written_beside
from skstruct.data.values import as_labels, family, join_values
from skstruct.preprocessing import SequenceVectorizer


def test_allowed_read_table_mask():
    assert repr(read_table_mask([[True, False]], (1, 2))) == "array([[1, 0]], dtype=uint8)"


def test_boxes_overlaps():
    assert (
        overlaps(np.array([[0, 0, 2, 1.0]]), np.array([[1, 0, 3, 1.0], [0, 0, 2, 1]])).tolist()
    ) == [0.3333333333333333, 1.0]


def test_constraints_transition_mask():
    mask = transition_mask("iob2", np.array(["B-X", "I-X", "O"]))
    assert (
        repr((mask.pairs[2], mask.start))
        == "(array([  0., -inf,   0.]), array([  0., -inf,   0.]))"
    )


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


def test_labels_read_indicator():
    assert repr(read_indicator([[0, 1]], 1)) == "array([[0, 1]], dtype=int32)"


def test_labels_encode():
    assert (
        repr(encode(np.array(["b", "a"]), np.array(["a", "b"]), np.array([0, 2])))
        == "array([1, 0], dtype=int32)"
    )


def test_leavings_is_left(capsys):
    with tempfile.TemporaryDirectory() as folder:
        own(Path(folder))
        print(is_left(Path(folder)))
    assert capsys.readouterr().out == "False\n"


def test_matrices_as_array():
    assert (as_array([1, 2])) == [1, 2]


def test_matrices_writable():
    assert repr(writable(np.ones(2, dtype=np.float32)).dtype) == "dtype('float64')"


def test_matrices_feature_dtype():
    assert (
        repr((feature_dtype(np.float32), feature_dtype(np.int8)))
        == "(dtype('float32'), dtype('float64'))"
    )


def test_matrices_readable():
    frozen = np.ones(2, dtype=np.float32)
    frozen.flags.writeable = False
    seen = readable(frozen)
    assert (
        repr((seen.dtype, seen.flags.writeable, np.shares_memory(seen, frozen)))
        == "(dtype('float32'), True, True)"
    )


def test_matrices_row_squares():
    assert repr(row_squares(np.array([[3.0, 4.0]]))) == "array([25.])"


def test_matrices_is_sound_csr():
    assert (is_sound_csr((1, 2), np.ones(1), np.array([2]), np.array([0, 1]))) is False


def test_matrices_check_sparse():
    check_sparse(sparse.csr_matrix(np.eye(2)))


def test_matrices_refuse_masked():
    refuse_masked(np.ma.masked_array([1.0, 2.0]), "X")
    with pytest.raises(ValueError, match="X"):
        refuse_masked(np.ma.masked_array([1.0, 2.0], mask=[False, True]), "X")


def test_matrices_numeric():
    assert repr(numeric([[1, 2.5]], "X: sample 0")) == "array([[1. , 2.5]])"


def test_names_listednames():
    assert repr(np.asarray(ListedNames(["a", "b"]))) == "array(['a', 'b'], dtype=object)"


def test_names_vocabularynames():
    assert (list(VocabularyNames({"a": 0, "b": 1}))) == ["a", "b"]


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


def test_names_with_names():
    X = with_names(np.empty(3, dtype=object), ListedNames(["a"]))
    assert (list(names_of(X[:2])[0])) == ["a"]


def test_names_names_of():
    assert (list(names_of(SequenceVectorizer().fit_transform([[{"a": 1}]]))[0])) == ["a"]


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


def test_packing_is_structured():
    assert (is_structured([np.zeros((3, 2))]), is_structured(np.zeros((3, 2)))) == (True, False)


def test_packing_is_empty_list():
    assert (is_empty_list([]), is_empty_list({})) == (True, False)


def test_packing_read_sample_weight():
    assert repr(read_sample_weight([2, 1], 2)) == "array([2., 1.])"


def test_packing_rows_as_scores():
    class Samples(NamedTuple):
        features: np.ndarray

    assert repr(rows_as_scores(Samples(np.ones((2, 5)))).features.toarray()) == (
        "array([[1., 0.],\n       [0., 1.]])"
    )


def test_packing_check_n_features():
    check_n_features(3, 3, "SAGCRF")


def test_partial_split_partial():
    y, partial = split_partial([["a", None], [{"a", "b"}]], False)
    assert (y, partial.which.tolist()) == ([["a", "a"], ["a"]], [-1, 0, 1])


def test_points_read_positions():
    assert repr(read_positions([[0, 1]], (2, 3), "X: sample 0")) == "(array([[0, 1]]), (2, 3))"


def test_ragged_object_array():
    assert (object_array([[1, 2], [3, 4]]).shape) == (2,)


def test_ragged_rows_of():
    assert (rows_of(RaggedArray(np.ones((1, 2)), [0, 1])).flags.writeable) is True


def test_schemes_scheme_name():
    assert (scheme_name("BIO"), scheme_name("IOBES")) == ("iob2", "iobes")


def test_sequences_read_sequences():
    features, offsets, _ = read_sequences([np.zeros((2, 3)), np.zeros((1, 3))])
    assert (features.shape, offsets.tolist()) == ((3, 3), [0, 2, 3])


def test_values_family():
    assert (family(bool), family(dict)) == ("numbers", None)


def test_values_as_labels_any_values():
    found = as_labels([3, 0.5], "samples", "node {}".format, any_values=True)
    assert repr(found) == "array([3. , 0.5])"


def test_values_as_labels():
    assert repr(as_labels([3, 1], "y", "node {}".format)) == "array([3, 1])"


def test_values_join_values():
    assert repr(join_values([np.array([1, 2]), np.array([])], "y")) == "array([1, 2])"
