"""Visual words of patches and histograms in boxes of a sliding grid."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from skstruct import BCFWSSVM, Candidates
from skstruct.datasets import load_localisation
from skstruct.metrics import corloc_score, iou
from skstruct.preprocessing import BoxProposals, PatchWords

FLAT = np.full((17, 21, 3), 0.5)


def _images(n=3, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.random((*rng.integers(16, 30, size=2), 3)) for _ in range(n)]


def _words(**parameters):
    return PatchWords(**({"n_colours": 3, "n_edges": 4, "random_state": 0} | parameters))


def test_every_patch_has_a_point_with_a_word_of_each_kind():
    images = _images()
    words = _words(patch_size=6, stride=5)
    for image, (positions, codes, size) in zip(images, words.fit_transform(images), strict=True):
        assert size == image.shape[:2]
        grid = [(r, c) for r in range(3, size[0] - 2, 5) for c in range(3, size[1] - 2, 5)]
        assert positions.tolist() == [list(place) for place in grid]
        assert codes.shape == (len(grid), 7)
        assert (codes[:, :3].sum(axis=1) == 1).all()
        assert (codes[:, 3:].sum(axis=1) == 1).all()
    names = words.get_feature_names_out().tolist()
    assert names == ["colour0", "colour1", "colour2", "edge0", "edge1", "edge2", "edge3"]
    for parameters, n in (({"n_colours": 0}, 4), ({"n_edges": 0}, 3)):
        other = _words(**parameters)
        assert {sample[1].shape[1] for sample in other.fit_transform(images)} == {n}
        assert len(other.get_feature_names_out()) == n


def test_colour_words_tell_colours_and_edge_words_directions_apart():
    image = FLAT.copy()
    image[:, 11:] = [1.0, 0.0, 0.0]
    positions, codes, _ = _words(n_colours=2, n_edges=0, patch_size=2, stride=2).fit_transform(
        [image]
    )[0]
    right = positions[:, 1] > 11
    shown = codes.toarray().argmax(axis=1)
    assert len(set(shown[right])) == len(set(shown[positions[:, 1] < 11])) == 1
    assert len(set(shown)) == 2
    across, down = FLAT.copy(), FLAT.copy()
    across[:, ::4], down[::4] = 1.0, 1.0
    words = _words(n_colours=0, n_edges=2).fit([across, down])
    shown = [set(s[1].toarray().argmax(axis=1)) for s in words.transform([across, down])]
    assert sorted(map(sorted, shown)) == [[0], [1]]
    # Whether dark or bright comes first does not matter.
    negative = words.transform([1.5 - across])[0][1]
    assert set(negative.toarray().argmax(axis=1)) == shown[0]


def test_words_are_a_transformer():
    images = _images()
    words = _words(n_patches=20)
    first = words.fit_transform(images)
    again = clone(words).fit(images).transform(images)
    for other in (
        words.transform(images),
        again,
        pickle.loads(pickle.dumps(words)).transform(images),
    ):
        for a, b in zip(first, other, strict=True):
            assert_array_equal(a[0], b[0])
            assert_array_equal(a[1].toarray(), b[1].toarray())
    assert len(words.transform([])) == 0
    grey = [image[..., 0] for image in images]
    assert _words().fit(grey).n_channels_ == 1


@pytest.mark.parametrize("levels", [1, 2])
def test_histograms_count_points_inside(levels):
    rng = np.random.default_rng(1)
    positions = rng.integers(0, [12, 15], size=(40, 2))
    words = rng.integers(0, 3, size=(40, 4)).astype(float)
    proposals = BoxProposals(0.3, 3, levels=levels)
    table, boxes = proposals.fit_transform([(positions, sparse.csr_matrix(words), (12, 15))])[0]
    dense = proposals.transform([(positions, words, (12, 15))])[0]
    assert_allclose(table, dense[0])
    assert table.shape == (len(boxes), len(proposals.get_feature_names_out()))
    assert len(np.unique(boxes, axis=0)) == len(boxes)
    assert boxes[:, :2].min() == 0.0
    assert boxes.max(axis=0)[2:].tolist() == [15.0, 12.0]
    places = [
        (r / n, c / n, 1 / n) for n in range(1, levels + 1) for r in range(n) for c in range(n)
    ]
    for row, (xmin, ymin, xmax, ymax) in zip(table, boxes, strict=True):
        for k, (down, right, share) in enumerate(places):
            top, left = ymin + down * (ymax - ymin), xmin + right * (xmax - xmin)
            bottom, end = top + share * (ymax - ymin), left + share * (xmax - xmin)
            # At a place on a border rounding decides.
            lines = np.array([top, bottom, left, end])
            if np.any(np.abs(lines - lines.round()) < 1e-9) and share < 1:
                continue
            inside = (positions >= [top, left]).all(axis=1) & (positions < [bottom, end]).all(
                axis=1
            )
            counts = words[inside].sum(axis=0)
            expected = np.sqrt(counts / max(counts.sum(), 1.0))
            assert_allclose(row[4 * k : 4 * k + 4], expected, atol=1e-7)
    area = (boxes[:, 2:] - boxes[:, :2]).prod(axis=1) / 180.0
    assert_allclose(table[:, -7], area)
    assert_allclose(table[:, -6], np.sqrt(area))


def test_the_grid_has_a_box_near_every_box():
    points = _words(n_colours=1, n_edges=0).fit_transform([FLAT])
    _, boxes = BoxProposals().fit_transform(points)[0]
    assert len(boxes) == 1296
    rng = np.random.default_rng(2)
    for _ in range(100):
        size = rng.uniform(0.25, 1.0, size=2) * [21, 17]
        corner = rng.random(2) * ([21, 17] - size)
        assert iou(np.append(corner, corner + size), boxes).max() > 0.4
    (whole,) = BoxProposals(1.0, 1).fit_transform(points)
    assert whole[1].tolist() == [[0.0, 0.0, 21.0, 17.0]]


def test_names_of_columns():
    proposals = BoxProposals(levels=2).fit(_words().fit_transform(_images()))
    names = proposals.get_feature_names_out(list("abcdefg")).tolist()
    assert names[:8] == [*"abcdefg", "a[2:0,0]"]
    assert names[28:29] + names[-7:-5] == ["a[2:1,1]", "area", "root_area"]
    with pytest.raises(ValueError, match="there are 7 words, but 1 names"):
        proposals.get_feature_names_out(["a"])


def test_a_pipeline_finds_an_object():
    rng = np.random.default_rng(3)
    images, truth = [], []
    for _ in range(30):
        image = 0.3 * rng.random((40, 48, 3))
        width, height = rng.integers(14, 24, size=2)
        left, top = rng.integers(0, [48 - width, 40 - height])
        image[top : top + height, left : left + width, 0] += 0.6
        images.append(image)
        truth.append([left, top, left + width, top + height])
    model = make_pipeline(
        PatchWords(8, 8, random_state=0),
        BoxProposals(0.3, 4),
        BCFWSSVM(Candidates("box"), C=10.0, loss="iou", tol=0.05, random_state=0),
    )
    model.fit(images[:20], truth[:20])
    found = model.predict(images[20:])
    assert corloc_score(truth[20:], found) >= 0.8
    assert model.score(images[20:], truth[20:]) == corloc_score(truth[20:], found)


POINTS = ([[0, 0], [2, 1]], [[1.0, 0.0], [0.0, 1.0]], (4, 5))


@pytest.mark.parametrize(
    ("transformer", "X", "match"),
    [
        (_words(), [FLAT[:5]], "X: image 0 has 5 x 21 pixels, a patch 8 x 8"),
        (_words(), [FLAT, FLAT[..., :2]], "X: image 1 has 2 channels, not 3"),
        (_words(), [FLAT, FLAT * np.nan], "X: image 1 has a value that is not finite"),
        (_words(), [FLAT[0, 0]], "X: image 0 must be an array"),
        (_words(), [sparse.csr_matrix(FLAT[..., 0])], "X: image 0 must be an array"),
        (_words(n_colours=0, n_edges=0), [FLAT], "n_colours and n_edges are 0"),
        (_words(n_colours=200), [FLAT], "there are 12 patches for 200 words"),
        (_words(stride=0), [FLAT], "stride must be an integer of at least 1, got 0"),
        (_words(patch_size=1), [FLAT], "patch_size must be an integer of at least 2"),
        (BoxProposals(), [FLAT], "X: image 0 must be a tuple"),
        (BoxProposals(), [POINTS, (POINTS[0][:1], *POINTS[1:])], "image 1 must have positions"),
        (BoxProposals(), [(*POINTS[:2], (4, 0))], r"image 0: its size .* got \(4, 0\)"),
        (BoxProposals(), [(POINTS[0], -np.eye(2), (4, 5))], "image 0 counts a word less than"),
        (BoxProposals(), [POINTS, (POINTS[0], np.ones((2, 3)), (4, 5))], "image 1 has 3 words"),
        (BoxProposals(0.0), [POINTS], "smallest must be above 0 and at most 1, got 0.0"),
        (BoxProposals(step=2.0), [POINTS], "step must be above 0 and at most 1, got 2.0"),
        (BoxProposals(n_sizes=1.5), [POINTS], "n_sizes must be an integer of at least 1, got 1.5"),
        (BoxProposals(levels=0), [POINTS], "levels must be an integer of at least 1, got 0"),
    ],
)
def test_bad_input(transformer, X, match):
    with pytest.raises(ValueError, match=match):
        transformer.fit(X)


def test_the_grid_covers_the_real_boxes(shared_data):
    data = load_localisation(shared_data / "localisation")
    points = PatchWords(16, 16, n_patches=2000, random_state=0).fit_transform(data.images[:40])
    grids = BoxProposals().fit_transform(points)
    best = [
        iou(box, grid[1]).max()
        for boxes, grid in zip(data.boxes[:40], grids, strict=True)
        for box in boxes
    ]
    assert np.mean(np.array(best) >= 0.5) > 0.85
