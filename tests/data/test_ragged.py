"""RaggedArray, loaders and the embedded data."""

import copy
import datetime
import gzip
import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import LogisticRegression

from skstruct import SAGCRF, Chain, RaggedArray
from skstruct.datasets import load_conll, load_digit_strings, load_ocr_letters
from skstruct.graphs.chain import Sequences


@pytest.fixture
def ragged():
    return RaggedArray(np.arange(12).reshape(6, 2), [0, 1, 1, 4, 6])


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (slice(1, 3), [1, 2]),
        (slice(None, None, -1), [3, 2, 1, 0]),
        ([2, 0, 2], [2, 0, 2]),
        (np.array([True, False, False, True]), [0, 3]),
        ((np.array([3, 1]), Ellipsis), [3, 1]),
        (np.array([], dtype=int), []),
    ],
    ids=str,
)
def test_indexing_takes_samples(ragged, key, expected):
    taken = ragged[key]
    assert isinstance(taken, RaggedArray)
    assert len(taken) == len(expected)
    for sample, i in zip(taken, expected, strict=True):
        assert (sample == ragged[i]).all()


def test_one_sample(ragged):
    assert ragged[2].tolist() == [[2, 3], [4, 5], [6, 7]]
    assert ragged[-1].tolist() == [[8, 9], [10, 11]]
    assert ragged[np.int64(1)].shape == (0, 2)
    with pytest.raises(IndexError):
        ragged[4]
    with pytest.raises(IndexError):
        ragged[0, 1]


def test_it_looks_like_an_array_of_samples(ragged):
    assert ragged.shape == (4,)
    assert len(ragged) == 4
    assert ragged.lengths.tolist() == [1, 0, 3, 2]
    assert np.asarray(ragged).dtype == object
    assert repr(ragged) == "RaggedArray(4 samples, 6 rows)"
    with pytest.raises(ValueError, match="objects only"):
        np.asarray(ragged, dtype=float)


def test_from_list_round_trip():
    rng = np.random.default_rng(0)
    samples = [rng.normal(size=(n, 3)) for n in (2, 0, 4)]
    for form in (samples, [sparse.csr_matrix(sample) for sample in samples]):
        packed = RaggedArray.from_list(form)
        for got, sample in zip(packed, samples, strict=True):
            dense = got.toarray() if sparse.issparse(got) else got
            assert (dense == sample).all()
    with pytest.raises(ValueError, match="empty"):
        RaggedArray.from_list([])


def test_digit_strings_are_dates_with_the_images_of_their_digits():
    data = load_digit_strings(n_train=200, n_test=100)
    assert len(data.X_train) == 200
    assert len(data.X_test) == 100
    for text, y in zip(data.strings_train, data.y_train, strict=True):
        assert text == "".join(map(str, y))
    years = [text for text in data.strings_train if len(text) == 4]
    assert years
    assert all(1950 <= int(text) <= 2029 for text in years)
    full = [t for t in data.strings_test if len(t) == 8 and t[:2] in ("19", "20") and t[4] in "01"]
    assert any(
        datetime.date(int(t[:4]), int(t[4:6]), int(t[6:]))
        for t in full
        if t[4:6] <= "12" and "01" <= t[6:] <= "28" and t[4:6] >= "01"
    )
    assert set(data.X_train.lengths) <= {4, 5, 6, 7, 8}
    assert len(set(data.X_train.lengths)) >= 4
    assert data.X_train.flat.min() >= 0.0
    assert data.X_train.flat.max() == 1.0


def test_no_image_is_in_both_parts():
    data = load_digit_strings(n_train=500, n_test=500)
    train = {row.tobytes() for row in data.X_train.flat}
    assert not any(row.tobytes() in train for row in data.X_test.flat)


def test_digit_strings_depend_on_the_seed_only():
    a, b = (load_digit_strings(n_train=20, n_test=5, random_state=4) for _ in range(2))
    c = load_digit_strings(n_train=20, n_test=5, random_state=5)
    assert (a.X_train.flat == b.X_train.flat).all()
    assert list(a.strings_train) != list(c.strings_train)
    with pytest.raises(ValueError, match="at least 1"):
        load_digit_strings(n_train=0)


def test_the_chain_beats_the_single_digit_on_dates():
    data = load_digit_strings(n_train=400, n_test=300)
    alone = LogisticRegression(max_iter=2000).fit(data.X_train.flat, data.y_train.flat)
    crf = SAGCRF(Chain(boundary=True), random_state=0).fit(data.X_train, data.y_train)
    assert crf.score(data.X_test, data.y_test) > alone.score(data.X_test.flat, data.y_test.flat)


def test_load_conll_reads_columns(tmp_path):
    text = "-DOCSTART- -X- O\n\nHe PRP B-NP\nruns VBZ B-VP\n\n\nYes UH O"
    (tmp_path / "a.txt").write_text(text)
    with gzip.open(tmp_path / "a.txt.gz", "wt") as file:
        file.write(text)
    for name in ("a.txt", "a.txt.gz"):
        data = load_conll(tmp_path / name, ["word", "pos", "chunk"])
        assert [list(words) for words in data.word] == [["He", "runs"], ["Yes"]]
        assert [list(chunks) for chunks in data.chunk] == [["B-NP", "B-VP"], ["O"]]
    assert sorted(load_conll(tmp_path / "a.txt")) == ["column_0", "column_1", "column_2"]
    (tmp_path / "t.tsv").write_text("a b\tX\n")
    assert load_conll(tmp_path / "t.tsv", separator="\t").column_0[0].tolist() == ["a b"]


def test_conll2000(shared_data):
    train = load_conll(shared_data / "conll2000/train.txt.gz", ["word", "pos", "chunk"])
    assert len(train.word) == 8936
    assert train.word.flat.size == 211727
    assert np.unique(train.chunk.flat).size == 22


@pytest.mark.slow
def test_ocr_letters(shared_data):
    data = load_ocr_letters(shared_data / "ocr_letters/letters.npz")
    assert len(data.X) == 6877
    assert data.X.flat.shape == (52152, 128)
    train, test = data.fold == 0, data.fold != 0
    assert train.sum() == 626
    crf = SAGCRF(random_state=0).fit(data.X[train], data.y[train])
    alone = SAGCRF(random_state=0).fit(data.X[train].flat, data.y[train].flat)
    assert crf.score(data.X[test], data.y[test]) > 0.78
    assert alone.score(data.X[test].flat, data.y[test].flat) < 0.75


@pytest.mark.slow
def test_sag_equals_lbfgs_on_real_chunking(shared_data):
    """200 sentences, words and tags as features: one optimum to 1e-6."""
    data = load_conll(shared_data / "conll2000/train.txt.gz", ["word", "pos", "chunk"])
    words, tags, y = (data[name][:200] for name in ("word", "pos", "chunk"))
    columns = [np.unique(column.flat, return_inverse=True)[1] for column in (words, tags)]
    n = columns[0].size
    one_hot = [sparse.csr_matrix((np.ones(n), (np.arange(n), codes))) for codes in columns]
    X = RaggedArray(sparse.hstack(one_hot, format="csr"), words.offsets)
    fits = [
        SAGCRF(solver=solver, tol=1e-12, max_iter=2000, random_state=0).fit(X, y)
        for solver in ("sag", "saga", "casimir", "lbfgs")
    ]
    for crf in fits[:3]:
        np.testing.assert_allclose(crf.objective_, fits[3].objective_, rtol=1e-6)


def test_control_characters_are_part_of_a_word(tmp_path):
    """Blanks and tabs alone divide columns, whether or not a line is ASCII."""
    path = tmp_path / "data.txt"
    path.write_bytes(b"a\x0cb V O\n\x1f V\tO\n")
    assert [words.tolist() for words in load_conll(path).column_0] == [["a\x0cb", "\x1f"]]


def test_a_no_break_space_is_part_of_a_word(tmp_path):
    path = tmp_path / "x.txt"
    path.write_text("d\xc3\xa0t V O\n \t\nb N\tO \n", encoding="latin-1")
    data = load_conll(path, ["word", "pos", "tag"], encoding="latin-1")
    assert [words.tolist() for words in data.word] == [["d\xc3\xa0t"], ["b"]]


def test_stack_columns():
    a = RaggedArray(np.array(["x", "y", "z"]), [0, 1, 3])
    stacked = RaggedArray.stack_columns([a, RaggedArray(np.array(["P", "Q", "R"]), [0, 1, 3])])
    assert stacked[1].tolist() == [["y", "Q"], ["z", "R"]]
    with pytest.raises(ValueError, match="column 1 has other lengths"):
        RaggedArray.stack_columns([a, RaggedArray(a.flat, [0, 2, 3])])
    with pytest.raises(ValueError, match="no columns"):
        RaggedArray.stack_columns([])


def test_a_ragged_array_cannot_be_changed():
    rows, offsets = np.arange(6.0).reshape(3, 2), np.array([0, 1, 3])
    ragged = RaggedArray(rows, offsets)
    offsets[-1] = 10**8
    assert ragged.offsets.tolist() == [0, 1, 3]
    for name in ("flat", "offsets"):
        with pytest.raises(AttributeError):
            setattr(ragged, name, rows)
        with pytest.raises(ValueError, match="read-only"):
            getattr(ragged, name)[0] = 7
    assert np.shares_memory(ragged.flat, rows)
    for again in (pickle.loads(pickle.dumps(ragged)), copy.copy(ragged), copy.deepcopy(ragged)):
        assert (again.flat == rows).all()
        assert not again.offsets.flags.writeable


@pytest.mark.parametrize("dense", [True, False])
def test_rows_changed_behind_a_ragged_array(dense):
    rows = np.eye(4) if dense else sparse.csr_matrix(np.eye(4))
    X = RaggedArray(rows, [0, 2, 4])
    estimator = SAGCRF()
    before = Chain().read_X(estimator, X, reset=True)
    if dense:
        assert before.features is rows or np.shares_memory(before.features, rows)
        rows.resize((2, 8), refcheck=False)  # in place; NumPy 2.5 warns of a set shape
        match = "offsets end at 4, but flat has 2 rows"
    else:
        rows.indices[2] = 10**8
        match = "X.flat is a damaged CSR matrix"
    with pytest.raises(ValueError, match=match):
        Chain().read_X(estimator, X, reset=True)
    with pytest.raises(ValueError, match="WRITEABLE"):
        X.offsets.setflags(write=True)


@pytest.mark.parametrize(
    "tidy",
    [
        lambda X: X.max(axis=1),
        lambda X: X.argmax(axis=1),
        lambda X: X.sum_duplicates(),
        lambda X: X.eliminate_zeros(),
        lambda X: X.sort_indices(),
        lambda X: X.resize((2, 3)),
    ],
)
def test_a_csr_matrix_tidied_up_in_place(tidy):
    parts = np.array([1.0, 2, 0, 4, 5, 6, 0]), np.array([1, 0, 0, 2, 2, 0, 1]), [0, 3, 5, 7]
    X = sparse.csr_matrix(parts, (3, 3))
    dense = X.toarray()
    ragged = RaggedArray(X, [0, 1, 3])
    tidy(X)
    assert (ragged[1].toarray() == dense[1:]).all()
    assert (ragged[[1, 0]].flat.toarray() == dense[[1, 2, 0]]).all()
    assert (ragged.flat.toarray() == dense).all()
    assert ragged.flat.data.size == ragged.flat.nnz
    assert (Chain().read_X(SAGCRF(), ragged, reset=True).features.toarray() == dense).all()


def test_a_csr_matrix_damaged_after_packing_is_refused_by_all_readers():
    for name, value in (("indptr", 10**8), ("indptr", -5), ("indices", 10**8)):
        X = sparse.csr_matrix(np.eye(3))
        ragged = RaggedArray(X, [0, 1, 3])
        getattr(X, name)[1] = value
        for read in (lambda r: r[1], lambda r: r[[0, 1]], lambda r: r[::-1]):
            with pytest.raises(ValueError, match="flat is a damaged CSR matrix"):
                read(ragged)


def test_from_list_changes_no_value():
    large = RaggedArray.from_list([[2**60 + 1], []])
    assert large.flat.tolist() == [2**60 + 1]
    both = RaggedArray.from_list([np.array([2**60 + 1], np.uint64), np.array([2**60])])
    assert both.flat.tolist() == [2**60 + 1, 2**60]
    words = RaggedArray.from_list([["a", "bcd"], [], ["e"]])
    assert [w.tolist() for w in words] == [["a", "bcd"], [], ["e"]]
    mixed = RaggedArray.from_list([sparse.csr_matrix(np.eye(2)), np.ones((1, 2))])
    assert mixed.flat.toarray().tolist() == [[1, 0], [0, 1], [1, 1]]


@pytest.mark.parametrize(
    ("samples", "match"),
    [
        ([["a"], [1]], "see sample 1"),
        ([["a", 1]], "sample 0 mixes strings"),
        ([["a", np.nan]], "sample 0 contains NaN"),
        ([["a", None]], "sample 0 contains None"),
        ([[2**63 + 1, -1]], "sample 0 has an integer beyond"),
        ([[2**60 + 1], [0.5]], "integers too large"),
        ([["a\0", "a"]], "ends with NUL"),
        ([[1, 2], np.ma.masked_array([1, 2], [0, 1])], "sample 1 has masked entries"),
        ([[np.ma.masked_array([1.0, 2.0], [0, 1])]], "sample 0 has masked entries"),
        ([np.ones((1, 2)), np.ones((1, 3))], r"sample 1 has shape \(1, 3\), sample 0 \(1, 2\)"),
        ([sparse.csr_matrix(np.eye(2)), np.ones(2)], r"sample 1 has shape \(2,\)"),
        ([np.array([["a"]]), np.array([[1]])], "see sample 1"),
        (["ab", "c"], "sample 0 must be an array of rows, got a str"),
        ([[1], 2], "sample 1 must be an array of rows"),
    ],
)
def test_what_from_list_refuses(samples, match):
    with pytest.raises((ValueError, TypeError), match=match):
        RaggedArray.from_list(samples)


def test_what_is_no_ragged_array():
    damaged = sparse.csr_matrix(np.eye(3))
    damaged.indptr[1] = 10**8
    for flat, offsets, match in [
        (damaged, [0, 3], "flat is a damaged CSR matrix"),
        (np.ma.masked_array([1, 2], [0, 1]), [0, 2], "masked"),
        (np.ones(3), [0, 1.5, 3], "integers"),
        (np.float64(1), [0, 1], "scalar"),
        (["a", 1], [0, 2], "flat mixes strings"),
    ]:
        with pytest.raises((ValueError, TypeError), match=match):
            RaggedArray(flat, offsets)
    with pytest.raises(ValueError, match="sample 1 is a damaged CSR matrix"):
        RaggedArray.from_list([sparse.csr_matrix(np.eye(3)), damaged])


def test_predictions_can_be_changed():
    flat = np.arange(5)
    labels = Chain().wrap(flat, Sequences(np.empty((5, 0)), np.array([0, 2, 5])))
    labels[1][0] = 9
    assert [part.tolist() for part in labels] == [[0, 1], [9, 3, 4]]


@pytest.mark.parametrize("kind", [sparse.csr_matrix, sparse.csr_array])
def test_packed_sparse_samples_are_of_their_kind_and_one_index_type(kind):
    flat = RaggedArray.from_list([kind(np.eye(3))] * 2).flat
    assert type(flat) is kind
    assert flat.indices.dtype == flat.indptr.dtype
    assert flat.tocoo().nnz == 6
