"""Readers of word alignments, parallel text and boxes."""

import gzip

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from skstruct.datasets import load_localisation, load_parallel_text, load_word_alignment

TEXT = "le chat ||| the cat\nun  gros chien\t||| a big dog \n"
GOLD = "1-1 2-2 1p1 2p1\n3-3 2p2\n"


def _write(folder, **files):
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    return [folder / name for name in files]


def test_both_formats_hold_the_same_links(tmp_path):
    text, gold = _write(tmp_path, text=TEXT, gold=GOLD)
    data = load_word_alignment(text, gold)
    assert data.source == [["le", "chat"], ["un", "gros", "chien"]]
    assert data.target == [["the", "cat"], ["a", "big", "dog"]]
    assert [x.tolist() for x in data.sure] == [[[0, 0], [1, 1]], [[2, 2]]]
    # What is sure is not possible only.
    assert [x.tolist() for x in data.possible] == [[[1, 0]], [[1, 1]]]
    fr, en, key = _write(
        tmp_path,
        fr="le chat\nun gros chien\n",
        en="the cat\na big dog\n",
        key="1 1 1\n\n2 3 3\n1 2 2 S\n1 2 1 P\n2 2 2 P\n",
    )
    packed = tmp_path / "fr.gz"
    packed.write_bytes(gzip.compress(fr.read_bytes()))
    again = load_word_alignment((packed, en), key)
    assert (again.source, again.target) == (data.source, data.target)
    for kind in ("sure", "possible"):
        for a, b in zip(data[kind], again[kind], strict=True):
            assert_array_equal(a, b)
            assert a.shape[1:] == (2,)
            assert a.dtype == np.int64


def test_words_may_count_from_zero_and_links_may_be_absent(tmp_path):
    text, gold = _write(tmp_path, text=TEXT, gold="\n0-0 2-2\n")
    data = load_word_alignment(text, gold, first=0)
    assert [x.tolist() for x in data.sure] == [[], [[0, 0], [2, 2]]]
    assert data.sure[0].shape == data.possible[0].shape == (0, 2)


def test_parallel_text_keeps_empty_lines(tmp_path):
    (text,) = _write(tmp_path, text="a b ||| c\n ||| d\n")
    data = load_parallel_text(text)
    assert (data.source, data.target) == ([["a", "b"], []], [["c"], ["d"]])
    # A no-break space is a letter of a word, as in the files of columns.
    source, target = _write(tmp_path, source="a\u00a0b c\n", target="d\n")
    assert load_parallel_text(source, target).source == [["a\u00a0b", "c"]]


@pytest.mark.parametrize(
    ("text", "gold", "match"),
    [
        ("a b\n", "1-1\n", r"text, line 1: a line must be 'source \|\|\| target', got 'a b'"),
        ("a ||| b\n ||| c\n", "1-1\n1-1\n", "text, line 2: the sentence is empty"),
        ("", "", "text has no sentence"),
        (TEXT, "1-1\n", "gold has 1 lines, but there are 2 sentences"),
        (TEXT, "1-1\n1-4\n", "gold, line 2: a link names word 4 of the target, .* words 1 to 3"),
        (TEXT, "1-1\n0-1\n", "gold, line 2: a link names word 0 of the source"),
        (TEXT, "1-1\n" + "1" * 5000 + "-1\n", "gold, line 2: a link must be 'i-j'"),
        (TEXT, "1-1\n1:1\n", "gold, line 2: a link must be 'i-j' or 'ipj', got '1:1'"),
        (TEXT, "1 1 1\n2 1\n", "gold, line 2: a link must be 'sentence i j' .* got '2 1'"),
        (TEXT, "1 1 1\n3 1 1\n", "gold, line 2: sentence 3 is not one of 1 to 2"),
        (TEXT, "1 1 1\n2 9 1\n", "gold, line 2: a link names word 9 of the source"),
    ],
)
def test_malformed_alignments(tmp_path, text, gold, match):
    with pytest.raises(ValueError, match=match):
        load_word_alignment(*_write(tmp_path, text=text, gold=gold))


def test_a_mark_at_the_start_of_files_is_no_word(tmp_path):
    text, gold = _write(tmp_path, text="\ufeff" + TEXT, gold="\ufeff" + GOLD)
    data = load_word_alignment(text, gold)
    assert data.source[0] == ["le", "chat"]
    assert data.sure[0].tolist() == [[0, 0], [1, 1]]
    text, key = _write(tmp_path, text="\ufeff" + TEXT, key="\ufeff1 1 1\n2 3 3\n")
    assert load_word_alignment(text, key).sure[1].tolist() == [[2, 2]]
    packed = tmp_path / "text.gz"
    packed.write_bytes(gzip.compress(text.read_bytes()))
    assert load_parallel_text(packed).source == data.source


@pytest.mark.parametrize(
    ("content", "match"),
    [
        # The time in a gzip file would be in the names of tests, which workers must agree on.
        (
            gzip.compress(b"a ||| b\n" * 99, mtime=0)[:30],
            ": the compressed file is damaged: Compressed",
        ),
        (gzip.compress("é ||| b".encode("latin-1"), mtime=0), ", line 1: not text in utf-8"),
    ],
)
def test_text_that_cannot_be_read(tmp_path, content, match):
    path = tmp_path / "text.gz"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=rf"text\.gz{match}"):
        load_parallel_text(path)


@pytest.mark.parametrize(
    ("first", "error"), [("a", TypeError), (1.5, TypeError), (True, TypeError), (-1, ValueError)]
)
def test_first_words_that_are_none(tmp_path, first, error):
    with pytest.raises(error, match="first must be an integer of at least 0"):
        load_word_alignment(*_write(tmp_path, text=TEXT, gold=GOLD), first=first)
    with pytest.raises(TypeError, match="a file must be given by a str or a Path, got 3"):
        load_word_alignment(3, tmp_path / "gold")


def test_sides_of_different_lengths(tmp_path):
    source, target = _write(tmp_path, source="a\nb\n", target="c\n")
    with pytest.raises(ValueError, match=r"source has 2 lines, but .*target has 1"):
        load_parallel_text(source, target)
    with pytest.raises(ValueError, match="text must be a path, or two paths, got 3"):
        load_word_alignment(("a", "b", "c"), "gold")
    with pytest.raises(ValueError, match="target, line 2: the sentence is empty"):
        load_word_alignment((source, *_write(tmp_path, target="c\n\n")), tmp_path / "none")


@pytest.mark.parametrize(
    ("name", "n", "n_words", "n_links"),
    [
        ("enfr_hansards", 447, (7020, 7761), (4038, 13400)),
        ("zhen_news", 450, (11712, 14850), (11238, 178)),
        ("esen_europarl", 200, (5788, 6112), (5920, 0)),  # of 5921 lines, one twice
    ],
)
def test_the_real_alignments(shared_data, name, n, n_words, n_links):
    folder = shared_data / "word_alignment"
    text, gold = folder / f"{name}.src-tgt.gz", folder / f"{name}.gold.gz"
    if name == "esen_europarl":
        text = folder / f"{name}.dev.en.gz", folder / f"{name}.dev.es.gz"
        gold = folder / f"{name}.dev.key.gz"
    data = load_word_alignment(text, gold)
    assert len(data.source) == n
    assert (sum(map(len, data.source)), sum(map(len, data.target))) == n_words
    assert (sum(map(len, data.sure)), sum(map(len, data.possible))) == n_links


def test_the_real_parallel_text(shared_data):
    folder = shared_data / "word_alignment"
    data = load_parallel_text(*(folder / f"enfr_hansards.train.{k}.gz" for k in ("en", "fr")))
    assert len(data.source) == len(data.target) == 25_000
    assert sum(map(len, data.source)) == 449_488
    assert sum(map(len, data.target)) == 533_480


def _boxes():
    return {
        "pixels": np.arange(13 * 3).reshape(13, 3).astype(np.uint8),
        "shape": np.array([[2, 3], [1, 4], [3, 1]], dtype=np.int16),
        "boxes": np.array([[0, 0, 1, 1], [1, 0, 3, 2], [0, 1, 1, 3]], dtype=np.float32),
        "box_image": np.array([0, 0, 2], dtype=np.int32),
        "box_class": np.array([1, 0, 1], dtype=np.int8),
        "class_names": np.array(["cat", "dog"]),
        "image_name": np.array(["a", "b", "c"]),
    }


def test_boxes_of_a_file_and_of_a_folder(tmp_path):
    arrays = _boxes()
    np.savez(tmp_path / "kangaroo.npz", **arrays)
    for path in (tmp_path, tmp_path / "kangaroo.npz"):
        data = load_localisation(path)
        assert [image.shape for image in data.images] == [(2, 3, 3), (1, 4, 3), (3, 1, 3)]
        rows = np.concatenate([image.reshape(-1, 3) for image in data.images])
        assert_array_equal(rows, arrays["pixels"] / 255.0)
        assert [boxes.tolist() for boxes in data.boxes] == [
            [[0, 0, 1, 1], [1, 0, 3, 2]], [], [[0, 1, 1, 3]],
        ]  # fmt: skip
        assert [names.tolist() for names in data.classes] == [["dog", "cat"], [], ["dog"]]
        assert data.image_names.tolist() == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"boxes": None}, "has no array 'boxes'"),
        ({"pixels": np.ones((12, 3))}, r"pixels must have the shape \(13, 3\)"),
        ({"pixels": np.full((13, 3), 256)}, "pixels must be from 0 to 255, got 256 to 256"),
        ({"pixels": np.full((13, 3), np.nan)}, "pixels must be finite numbers"),
        ({"pixels": np.full((13, 3), "a")}, "pixels must be finite numbers, got dtype <U1"),
        ({"shape": np.zeros((0, 2), dtype=int)}, "shape has no image"),
        ({"shape": np.full((3, 2), 2**40)}, r"pixels must have the shape \(36267774588438875241"),
        ({"class_names": np.array("a")}, r"class_names must be strings of shape \(n,\)"),
        ({"boxes": np.array([{}])}, "is no .npz file of arrays that can be read: Object arrays"),
        ({"box_image": np.array([0, 0])}, "box_image must have an entry for each of 3 boxes"),
        ({"box_image": np.array([0, 0, 3])}, "box_image must be integers from 0 to 2"),
        ({"box_class": np.array([0, 0, -1])}, "box_class must be integers from 0 to 1"),
        ({"image_name": np.array(["a"])}, "image_name must have an entry for each of 3 images"),
        ({"boxes": np.array([[0, 0, 1, 1], [1, 0, 1, 2], [0, 1, 1, 3]])}, "box 1 is empty"),
        ({"boxes": np.array([[0, 0, 1, 1], [1, 0, 4, 2], [0, 1, 1, 3]])}, "box 1 is not within im"),
    ],
)
def test_files_of_boxes_that_do_not_fit(tmp_path, change, match):
    kept = {name: array for name, array in (_boxes() | change).items() if array is not None}
    np.savez(tmp_path / "kangaroo.npz", **kept)
    with pytest.raises(ValueError, match=match):
        load_localisation(tmp_path)


def test_files_that_are_none(tmp_path):
    path = tmp_path / "kangaroo.npz"
    np.savez(path, **_boxes())
    whole = path.read_bytes()
    damaged = bytearray(whole)
    damaged[200] ^= 255
    for content in (b"", b"text", b"PK\x03\x04", whole[: len(whole) // 2], bytes(damaged)):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"kangaroo\.npz is no \.npz file of arrays"):
            load_localisation(tmp_path)
    np.save(tmp_path / "one.npy", np.ones(3))
    with pytest.raises(ValueError, match=r"one\.npy is no .* it holds a single array"):
        load_localisation(tmp_path / "one.npy")


def test_the_real_boxes(shared_data):
    data = load_localisation(shared_data / "localisation")
    assert len(data.images) == 163
    assert sum(map(len, data.boxes)) == 263
    assert sum(len(boxes) == 1 for boxes in data.boxes) == 107
    assert max(max(image.shape[:2]) for image in data.images) == 128
    assert {name for names in data.classes for name in names} == {"kangaroo"}
