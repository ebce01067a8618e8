"""Fetchers against a mirror, a local server and bad files; the generated corpus."""

import functools
import gzip
import hashlib
import http.server
import threading

import numpy as np
import pytest

from skstruct import SAGCRF
from skstruct.datasets import (
    fetch,
    fetch_conll2000,
    fetch_conll2002_dutch,
    fetch_ocr_letters,
    load_ocr_letters,
    make_annotated_sentences,
)
from skstruct.metrics import chunks

SMALL = "a A B-NP\nb B I-NP\n\nc C O\n\n"


@pytest.fixture
def small(monkeypatch):
    """A `_Remote` table of one small file at an address that nobody serves."""
    checksum = hashlib.sha256(SMALL.encode()).hexdigest()
    remote = fetch._conll("conll2000", "train.txt", "http://127.0.0.1:9/train.txt.gz", checksum)
    monkeypatch.setattr(fetch, "_CONLL2000", {"train": remote})
    monkeypatch.delenv(fetch.MIRROR_VARIABLE, raising=False)
    return remote


def _write(folder, text=SMALL):
    target = folder / "conll2000" / "train.txt.gz"
    target.parent.mkdir(parents=True)
    with gzip.open(target, "wt") as file:
        file.write(text)
    return target


@pytest.mark.parametrize("by", ["argument", "variable"])
def test_mirror(tmp_path, small, monkeypatch, by):
    _write(tmp_path)
    options = {"mirror": tmp_path} if by == "argument" else {}
    if by == "variable":
        monkeypatch.setenv(fetch.MIRROR_VARIABLE, str(tmp_path))
    data = fetch_conll2000(**options)
    assert [words.tolist() for words in data.train.word] == [["a", "b"], ["c"]]
    assert [tags.tolist() for tags in data.train.chunk] == [["B-NP", "I-NP"], ["O"]]


def test_wrong_content_is_refused(tmp_path, small):
    _write(tmp_path, SMALL + "d D O\n")
    with pytest.raises(OSError, match="is not the expected file"):
        fetch_conll2000(mirror=tmp_path)
    with pytest.raises(OSError, match=r"has none of conll2000/train\.txt"):
        fetch_conll2000(mirror=tmp_path / "nowhere")


def test_offline_says_what_to_do(tmp_path, small):
    with pytest.raises(OSError, match="download_if_missing is False"):
        fetch_conll2000(data_home=tmp_path, download_if_missing=False)
    with pytest.raises(OSError, match=r"could not be fetched .*put the file at .*train\.txt\.gz"):
        fetch_conll2000(data_home=tmp_path, n_retries=1, delay=0)
    assert not list(tmp_path.rglob("*.part"))


def test_download_is_kept(tmp_path, small, monkeypatch):
    _write(tmp_path / "served")
    asked = []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *args):
            asked.append(self.path)

    handler = functools.partial(Handler, directory=str(tmp_path / "served"))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        url = f"http://127.0.0.1:{server.server_port}/conll2000/train.txt.gz"
        monkeypatch.setattr(fetch, "_CONLL2000", {"train": small._replace(url=url)})
        for _ in range(2):
            data = fetch_conll2000(data_home=tmp_path / "home")
            assert len(data.train.word) == 2
        assert asked == ["/conll2000/train.txt.gz"]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.slow
def test_real_files(shared_data):
    data = fetch_conll2000(mirror=shared_data)
    assert (len(data.train.word), len(data.test.word)) == (8936, 2012)
    data = fetch_conll2002_dutch(mirror=shared_data)
    assert [len(data[part].word) for part in ("train", "dev", "test")] == [15806, 2895, 5195]


@pytest.mark.slow
def test_both_formats_of_the_letters(shared_data, tmp_path):
    packed = fetch_ocr_letters(mirror=shared_data)
    assert len(packed.X) == 6877
    path = tmp_path / "ocr_letters" / "letter.data"
    path.parent.mkdir()
    n = 0
    with open(path, "w") as out:
        for word, (x, y, fold) in enumerate(zip(packed.X, packed.y, packed.fold, strict=True)):
            for position, (pixels, letter) in enumerate(zip(x.astype(int), y, strict=True)):
                n += 1
                follower = -1 if position == len(y) - 1 else n + 1
                head = f"{n}\t{letter}\t{follower}\t{word}\t{position + 1}\t{fold}\t"
                out.write(head + "\t".join(map(str, pixels)) + "\t\n")
    lines = fetch_ocr_letters(mirror=tmp_path)
    np.testing.assert_array_equal(lines.X.flat, packed.X.flat)
    np.testing.assert_array_equal(lines.X.offsets, packed.X.offsets)
    np.testing.assert_array_equal(lines.y.flat, packed.y.flat)
    np.testing.assert_array_equal(lines.fold, packed.fold)
    path.write_text("1\ta\t-1\n")
    with pytest.raises(ValueError, match="line 1: expected 134 columns"):
        load_ocr_letters(path)


def test_generated_sentences():
    data, again = make_annotated_sentences(50, 20), make_annotated_sentences(50, 20)
    other = make_annotated_sentences(50, 20, random_state=1)
    assert (data.train.word.flat == again.train.word.flat).all()
    assert data.train.word.flat.tolist() != other.train.word.flat.tolist()
    for part in (data.train, data.test):
        lengths = part.word.lengths
        for name in ("pos", "chunk", "entity"):
            assert (part[name].lengths == lengths).all()
        for tags in (*part.chunk, *part.entity):
            chunks(tags.tolist(), scheme="iob2")  # strict: refuses other tags
    assert set(data.train.entity.flat) == {
        "O", "B-PER", "I-PER", "B-LOC", "B-ORG", "I-ORG"
    }  # fmt: skip
    with pytest.raises(ValueError, match="at least 1"):
        make_annotated_sentences(0)


def test_generated_sentences_need_more_than_a_look_up():
    from sklearn.pipeline import make_pipeline

    from skstruct.preprocessing import TemplateVectorizer

    data = make_annotated_sentences(random_state=0)

    def as_rows(part):
        return [
            list(zip(w.tolist(), p.tolist(), strict=True))
            for w, p in zip(part.word, part.pos, strict=True)
        ]

    scores = {}
    for name, window in (("word", "U0:%x[0,0]"), ("window", "U0:%x[0,0]\nU1:%x[-1,0]\nU2:%x[1,0]")):
        model = make_pipeline(TemplateVectorizer(window), SAGCRF(random_state=0))
        model.fit(as_rows(data.train), data.train.entity)
        scores[name] = model.score(as_rows(data.test), data.test.entity)
    assert 0.75 < scores["word"] < scores["window"] - 0.03 < 0.97, scores
