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
    width, height = ((boxes[:, 2:] - boxes[:, :2]) / [15.0, 12.0]).T
    place = dict(zip(proposals.get_feature_names_out()[-27:], table[:, -27:].T, strict=True))
    assert_allclose(place["root_area"], np.sqrt(width * height))
    assert_allclose(place["width height"], width * height)
    assert_allclose(place["middle_x middle_x"], (boxes[:, [0, 2]].mean(axis=1) / 15.0 - 0.5) ** 2)
    assert_allclose(place["tall"], np.arctan2(12 * height, 15 * width) / (0.5 * np.pi))


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
    assert names[28:29] + names[-27:-25] == ["a[2:1,1]", "root_area", "tall"]
    assert names[-21:-19] == ["root_area root_area", "root_area tall"]
    assert len(set(names)) == len(names) == 5 * 7 + 27
    with pytest.raises(ValueError, match="there are 7 words, but 1 names"):
        proposals.get_feature_names_out(["a"])


@pytest.mark.parametrize("stride", [3, 4])
def test_gradients_go_with_the_points(stride):
    image = np.random.default_rng(4).random((20, 25, 3))
    words = _words(n_directions=6, stride=stride)
    positions, codes, _ = words.fit_transform([image])[0]
    assert codes.shape == (len(positions), 13)
    assert words.get_feature_names_out()[-6:].tolist() == [f"direction{k}" for k in range(6)]
    down, right = np.gradient(image.mean(axis=2))
    strength = np.hypot(down, right)
    for (row, column), shown in zip(positions, codes[:, 7:].toarray(), strict=True):
        first = np.array([row, column]) - stride // 2
        (top, left), (bottom, end) = np.maximum(first, 0), first + stride
        assert_allclose(shown.sum(), strength[top:bottom, left:end].mean())
    plain = _words(stride=stride).fit_transform([image])[0][1]
    assert_array_equal(plain.toarray(), codes[:, :7].toarray())
    only = PatchWords(0, 0, n_directions=1, stride=stride).fit_transform([image])[0][1]
    assert_allclose(only.toarray()[:, 0], codes[:, 7:].toarray().sum(axis=1))


def test_a_template_counts_directions_in_cells_around_the_box():
    rng = np.random.default_rng(5)
    positions = rng.integers(0, [12, 15], size=(60, 2))
    words = rng.random((60, 5))
    sample = positions, words, (12, 15)
    proposals = BoxProposals(0.31, 3, n_directions=2, cells=3, margin=0.23)
    table, boxes = proposals.fit_transform([sample])[0]
    names = proposals.get_feature_names_out().tolist()
    assert names[3:6] == ["word3[0,0]", "word4[0,0]", "word3[0,1]"]
    plain = BoxProposals(0.31, 3).fit_transform([(positions, words[:, :3], (12, 15))])[0][0]
    assert_allclose(np.delete(table, np.s_[3:21], axis=1), plain)
    for row, (xmin, ymin, xmax, ymax) in zip(table, boxes, strict=True):
        size = 1.46 * np.array([ymax - ymin, xmax - xmin])
        cell = (positions - [ymin, xmin] + size * 0.23 / 1.46) / (size / 3)
        sums = np.zeros((3, 3, 2))
        for place, strengths in zip(np.floor(cell).astype(int), words[:, 3:], strict=True):
            if (place >= 0).all() and (place < 3).all():
                sums[tuple(place)] += strengths
        assert_allclose(row[3:21], np.sqrt(sums.ravel() / max(sums.sum(), 1e-9)), atol=1e-7)
    with pytest.raises(ValueError, match="n_directions=6, but the points have 5 columns"):
        BoxProposals(n_directions=6).fit([sample])


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
        (_words(n_colours=0, n_edges=0), [FLAT], "n_colours, n_edges and n_directions are"),
        (_words(n_colours=200), [FLAT], "there are 12 patches for 200 words"),
        (_words(stride=0), [FLAT], "stride must be an integer of at least 1, got 0"),
        (_words(patch_size=1), [FLAT], "patch_size must be an integer of at least 2"),
        (BoxProposals(), [FLAT], "X: image 0 must be a tuple"),
        (BoxProposals(), [POINTS, (POINTS[0][:1], *POINTS[1:])], "image 1 must have positions"),
        (BoxProposals(), [(*POINTS[:2], (4, 0))], "image 0: its .* two integers of 1 or more"),
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


def test_bad_points_are_named():
    places, words, size = POINTS
    damaged = sparse.csr_matrix(np.eye(2))
    damaged.indices = np.array([0, 7], dtype=np.int32)
    for sample, match in (
        (([[0, np.nan], [2, 1]], words, size), "its positions must be integers"),
        (([[0, 0], [4, 1]], words, size), "point 1 .* is outside the image of 4 x 5 pixels"),
        (([[0, 0], [1]], words, size), "its rows have different lengths"),
        ((places, np.full((2, 2), np.nan), size), "words have a sum that is not finite"),
        ((places, np.full((2, 2), 1e308), size), "words have a sum that is not finite"),
        ((places, [["a", "b"], ["c", "d"]], size), "its words is not numeric"),
        ((places, np.eye(2) * 1j, size), "Complex data not supported: X: image 1"),
        ((places, damaged, size), "is a damaged CSR matrix"),
        ((places, words, (np.nan, 5)), "two integers of 1 or more"),
        ((places, words, ("4", "5")), "its .height, width. is not numeric"),
        ((places, words, (2**40, 5)), "integers up to 2147483647"),
    ):
        with pytest.raises(ValueError, match=match) as caught:
            BoxProposals().fit([POINTS, sample])
        assert "X: image 1" in str(caught.value)


def test_few_points_and_many_pixels_are_fine():
    empty = np.empty((0, 2)), np.empty((0, 2)), (4, 5)
    huge = POINTS[0], np.array(POINTS[1]), (10**6, 10**7)
    (none, _), (table, boxes) = BoxProposals(n_sizes=2).fit_transform([empty, huge])
    assert not none[:, :2].any()
    assert boxes.max(axis=0)[2:].tolist() == [10**7, 10**6]
    inside = (boxes[:, :2] == 0.0).all(axis=1)
    assert_allclose(table[:, :2], np.sqrt(0.5) * inside[:, None].repeat(2, axis=1))


def test_tables_beyond_memory_are_refused():
    for grid in ({"step": 1e-9}, {"smallest": 1e-300, "n_sizes": 2}, {"n_sizes": 10**6}):
        with pytest.raises(ValueError, match="boxes of an image are more than 1073741824 numbers"):
            BoxProposals(**grid).fit([POINTS])
    with pytest.raises(ValueError, match=r"levels=1000000, .* more than 1073741824 numbers"):
        BoxProposals(levels=10**6).fit([POINTS])
    places = np.arange(20_000)[:, None].repeat(2, axis=1)
    sample = places, sparse.csr_matrix(np.ones((20_000, 3))), (20_000, 20_000)
    with pytest.raises(ValueError, match="image 0: its points lie on a grid of 20000 x 20000"):
        BoxProposals().fit([sample])


def test_images_that_are_no_images():
    for image, match in (
        (np.zeros((20, 20, 0)), "must be an array"),
        (np.zeros((0, 0, 3)), "has 0 x 0 pixels, a patch 8 x 8"),
        (1e200 * FLAT, "has a value that is not finite or beyond 1e.100"),
    ):
        with pytest.raises(ValueError, match=f"X: image 1 {match}"):
            _words().fit([FLAT, image])
    for image in (255 * FLAT.astype(np.uint8), FLAT > 0.5, FLAT.astype(np.float16)):
        _words(n_colours=1, n_edges=1, n_directions=2, stride=10**30).fit([image])
    pixels = np.random.default_rng(0).random((2, 2))
    one = PatchWords(1, 1, n_directions=1, patch_size=2).fit_transform([pixels])[0]
    assert one[0].tolist() == [[1, 1]]
    fitted = _words(n_colours=1, n_edges=1).fit([FLAT])
    with pytest.raises(ValueError, match="patch_size must be an integer of at least 2"):
        fitted.set_params(patch_size=0).transform([FLAT])


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
