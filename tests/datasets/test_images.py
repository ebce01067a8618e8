"""Images with labels for their pixels: loaders of real ones, and the generator."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.linear_model import LogisticRegression

from skstruct import BCFWSSVM, Grid
from skstruct.datasets import load_horses, load_snakes, make_grid_images

SHAPES = np.array([[2, 3], [1, 4], [3, 1]], dtype=np.int16)  # 13 pixels
STEPS = {(1, 0, 0): (-1, 0), (1, 1, 0): (0, 1), (0, 1, 0): (1, 0), (0, 1, 1): (0, -1)}


def _snakes():
    rng = np.random.default_rng(0)
    parts = {}
    for part in ("train", "test"):
        parts[f"X_{part}"] = 255 * rng.integers(0, 2, size=(13, 3)).astype(np.int16)
        parts[f"Y_{part}"] = rng.integers(0, 11, size=13).astype(np.int16)
        parts[f"shape_{part}"] = SHAPES
    return parts


def _horses():
    rng = np.random.default_rng(1)
    return {
        "pixels": rng.integers(0, 256, size=(13, 3)).astype(np.uint8),
        "mask": np.packbits(rng.integers(0, 2, size=13).astype(np.uint8)),
        "shape": SHAPES,
        "id": np.array([7, 8, 9], dtype=np.int32),
        "train": np.array([True, False, True]),
    }


def test_snakes_of_a_file_and_of_a_folder(tmp_path):
    arrays = _snakes()
    np.savez_compressed(tmp_path / "snakes.npz", **arrays)
    for path in (tmp_path, str(tmp_path / "snakes.npz")):
        data = load_snakes(path)
        for part in ("train", "test"):
            X, y = data[f"X_{part}"], data[f"y_{part}"]
            assert [x.shape for x in X] == [(2, 3, 3), (1, 4, 3), (3, 1, 3)]
            assert [labels.shape for labels in y] == [(2, 3), (1, 4), (3, 1)]
            rows = np.concatenate([x.reshape(-1, 3) for x in X])
            assert_array_equal(255.0 * rows, arrays[f"X_{part}"])
            assert_array_equal(np.concatenate([t.ravel() for t in y]), arrays[f"Y_{part}"])
            assert y[0].dtype == np.int64


def test_horses_of_a_file_and_of_a_folder(tmp_path):
    arrays = _horses()
    np.savez_compressed(tmp_path / "horses.npz", **arrays)
    bits = np.unpackbits(arrays["mask"])[:13]
    for path in (tmp_path, tmp_path / "horses.npz"):
        data = load_horses(path)
        assert [x.shape for x in data.X_train] == [(2, 3, 3), (3, 1, 3)]
        assert [x.shape for x in data.X_test] == [(1, 4, 3)]
        assert (data.id_train.tolist(), data.id_test.tolist()) == ([7, 9], [8])
        assert_array_equal(data.y_train[0].ravel(), bits[:6])
        assert_array_equal(data.y_test[0].ravel(), bits[6:10])
        assert_array_equal(data.y_train[1].ravel(), bits[10:])
        assert_array_equal(255.0 * data.X_test[0].reshape(-1, 3), arrays["pixels"][6:10])


SIZE = r"\(13, 3\), a row a pixel of the images of shape"


@pytest.mark.parametrize(
    ("load", "arrays", "change", "match"),
    [
        (load_snakes, _snakes, {"shape_test": None}, "snakes.npz has no array 'shape_test'"),
        (load_snakes, _snakes, {"X_test": np.ones((12, 3))}, f"X_test must have the shape {SIZE}"),
        (load_snakes, _snakes, {"X_train": np.ones((13, 4))}, f"X_train .*{SIZE}_train, got"),
        (load_snakes, _snakes, {"Y_train": np.ones(14)}, r"Y_train must have the shape \(13,\)"),
        (load_snakes, _snakes, {"shape_train": SHAPES[:, :1]}, r"shape_train must have integers"),
        (load_snakes, _snakes, {"shape_train": SHAPES + 0.5}, "got dtype float64"),
        (load_snakes, _snakes, {"shape_train": SHAPES - 1}, r"of image 1 is \(0, 3\)"),
        (load_horses, _horses, {"mask": None}, "horses.npz has no array 'mask'"),
        (load_horses, _horses, {"pixels": np.ones((12, 3))}, f"pixels must have the shape {SIZE}"),
        (load_horses, _horses, {"mask": np.ones(3, np.uint8)}, r"mask must have 2 bytes.*\(3,\)"),
        (load_horses, _horses, {"mask": np.ones(2)}, "got dtype float64"),
        (load_horses, _horses, {"id": np.arange(2)}, "id must have an entry for each of 3 images"),
        (load_horses, _horses, {"train": np.ones((3, 1), bool)}, r"train must .*\(3, 1\)"),
    ],
)
def test_files_that_do_not_fit(tmp_path, load, arrays, change, match):
    kept = {name: array for name, array in (arrays() | change).items() if array is not None}
    name = "snakes.npz" if load is load_snakes else "horses.npz"
    np.savez(tmp_path / name, **kept)
    with pytest.raises(ValueError, match=match):
        load(tmp_path)


@pytest.mark.parametrize("load", [load_snakes, load_horses])
def test_absent_files(tmp_path, load):
    with pytest.raises(FileNotFoundError, match="npz"):
        load(tmp_path)


def test_the_real_snakes(shared_data):
    data = load_snakes(shared_data / "snakes")
    assert (len(data.X_train), len(data.X_test)) == (200, 100)
    for x, y in zip(data.X_train + data.X_test, data.y_train + data.y_test, strict=True):
        assert x.shape == (*y.shape, 3)
        assert np.bincount(y.ravel())[1:].tolist() == [1] * 10
        assert_array_equal(x[y == 0], np.tile([0.0, 0.0, 1.0], ((y == 0).sum(), 1)))
        cells = np.array([np.argwhere(y == k)[0] for k in range(1, 11)])
        steps = [STEPS[tuple(x[r, c].astype(int))] for r, c in cells[:9]]
        assert_array_equal(np.diff(cells, axis=0), steps)


def test_the_real_horses(shared_data):
    data = load_horses(shared_data / "horses" / "horses.npz")
    assert (len(data.X_train), len(data.X_test)) == (277, 50)
    images, masks = data.X_train + data.X_test, data.y_train + data.y_test
    assert {max(x.shape[:2]) for x in images} == {96}
    assert sum(y.size for y in masks) == 2_332_032
    assert abs(np.concatenate([y.ravel() for y in masks]).mean() - 0.253) < 1e-3
    assert min(x.min() for x in images) == 0.0
    assert max(x.max() for x in images) == 1.0
    assert len(np.unique(np.concatenate([data.id_train, data.id_test]))) == 327


def test_generated_images_have_regions_and_colours():
    data = make_grid_images(20, 3, n_features=2, sizes=(9, 14), noise=0.5, random_state=3)
    assert data.colours.shape == (3, 2)
    sizes = {x.shape for x in data.X}
    assert len(sizes) > 5
    assert all(9 <= n <= 14 for size in sizes for n in size[:2])
    assert {size[2] for size in sizes} == {2}
    assert {k for y in data.y for k in np.unique(y)} == {0, 1, 2}
    same = np.mean([(y[1:] == y[:-1]).mean() for y in data.y])
    rough = make_grid_images(20, 3, sizes=(9, 14), smoothness=0.0, random_state=3)
    # Without smoothing neighbours agree as often as any two pixels do.
    assert same > 0.8 > 0.4 > np.mean([(y[1:] == y[:-1]).mean() for y in rough.y])
    pairs = zip(data.X, data.y, strict=True)
    pixels = np.concatenate([(x - data.colours[y]).ravel() for x, y in pairs])
    assert abs(pixels.std() - 0.5) < 0.02
    again = make_grid_images(20, 3, n_features=2, sizes=(9, 14), noise=0.5, random_state=3)
    for a, b in zip(data.X + data.y, again.X + again.y, strict=True):
        assert_array_equal(a, b)


def test_neighbours_help_on_generated_images():
    data = make_grid_images(24, 2, sizes=(8, 12), noise=2.0, random_state=1)
    X, y, Xt, yt = data.X[:16], data.y[:16], data.X[16:], data.y[16:]
    grid = BCFWSSVM(Grid(interactions="potts"), tol=1e-2, random_state=0).fit(X, y)
    rows, truth, rows_t, truth_t = (
        np.concatenate([part.reshape(-1, *part.shape[2:]) for part in parts])
        for parts in (X, y, Xt, yt)
    )
    alone = LogisticRegression().fit(rows, truth).score(rows_t, truth_t)
    assert grid.score(Xt, yt) > alone + 0.05


@pytest.mark.parametrize(
    ("parameters", "match"),
    [
        ({"n_images": 0}, "n_images and n_features must be at least 1"),
        ({"n_labels": 1}, "n_labels at least 2"),
        ({"sizes": (0, 4)}, r"sizes must be \(smallest, largest\)"),
        ({"sizes": (5, 4)}, r"at least 1, got \(5, 4\)"),
        ({"noise": -1.0}, "noise must be a finite number of at least 0, got -1.0"),
        ({"smoothness": np.nan}, "smoothness must be a finite number"),
    ],
)
def test_bad_parameters(parameters, match):
    with pytest.raises(ValueError, match=match):
        make_grid_images(**parameters)
