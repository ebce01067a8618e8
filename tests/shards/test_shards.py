"""Shards: packed samples in files."""

import json
import os
import pickle
import re
import shutil
import sys
import weakref

import numpy as np
import pytest
from scipy import sparse

from skstruct import (
    SAGCRF,
    Boxes,
    Candidates,
    Chain,
    Grid,
    Matching,
    MultiClass,
    MultiLabel,
    Pairwise,
    RaggedArray,
    Tree,
)
from skstruct.data.matrices import csr_from_parts
from skstruct.datasets import Shards, pack_shards
from skstruct.preprocessing import SequenceVectorizer, TemplateVectorizer
from skstruct.shards import reading
from skstruct.shards.reading import flatten

RNG = np.random.default_rng(3)
LABELS = np.array(["b", "a", "long name"])


def _rows(n, width=12, sparse_X=True, dtype=np.float64):
    x = RNG.integers(0, 3, size=(n, width)) * (RNG.random((n, width)) < 0.2)
    return sparse.csr_matrix(x.astype(dtype)) if sparse_X else x.astype(dtype)


def _labels(lengths):
    return [RNG.choice(LABELS, size=n) for n in lengths]


def _chains(sparse_X=True, dtype=np.float64, edge_features=False):
    lengths = [3, 1, 4, 2, 5, 2, 3]
    X = [_rows(n, sparse_X=sparse_X, dtype=dtype) for n in lengths]
    if edge_features:
        X = [(x, _rows(x.shape[0] - 1, 4, sparse_X)) for x in X]
    return X, _labels(lengths)


def _trees():
    parents = [[-1, 0, 0], [1, -1], [-1], [-1, 0, 1, 1]]
    return [(_rows(len(up)), up) for up in parents], _labels(map(len, parents))


def _graphs():
    edges = [[[0, 1, 0], [1, 2, 1], [2, 0, 0]], [[1, 0, 1]], np.empty((0, 3), dtype=int)]
    n_nodes = 3, 2, 1
    X = [
        (_rows(n, sparse_X=False), np.array(e), _rows(len(e), 2, False))
        for n, e in zip(n_nodes, edges, strict=True)
    ]
    return X, _labels(n_nodes)


def _images():
    shapes = (2, 3), (1, 2), (3, 3)
    return [RNG.normal(size=(*s, 2)) for s in shapes], [RNG.integers(4, 6, size=s) for s in shapes]


def _table():
    return _rows(7), RNG.choice(LABELS, size=7)


CASES = {
    "chain": (Chain(), _chains()),
    "dense": (Chain(boundary=True, forbidden=[("b", "b"), (None, "a")]), _chains(False)),
    "float32": (Chain(), _chains(False, np.float32)),
    "sparse float32": (Chain(), _chains(True, np.float32)),
    "edges": (Chain(edge_features=True), _chains(edge_features=True)),
    "tree": (Tree(), _trees()),
    "graph": (Pairwise(edge_features=True, edge_types=2), _graphs()),
    "grid": (Grid(edge_features="contrast", neighborhood=8), _images()),
    "table": (MultiClass(), _table()),
}


def _whole(shard, n_features):
    """The samples of a shard with all columns."""
    if shard.columns is None:
        return shard.samples
    features = shard.samples.features
    indices = shard.columns[features.indices].astype(np.int32)
    parts = (features.data, indices, features.indptr)
    features = csr_from_parts((features.shape[0], n_features), *parts)
    return shard.samples._replace(features=features)


def _base(array):
    """What an array is a view of, in the end."""
    while not isinstance(array, np.memmap):
        array = array.array if hasattr(array, "array") else array.base
        assert array is not None, "the array is in memory of its own"
    return array


@pytest.mark.parametrize("name", CASES)
def test_samples_are_those_of_read_X_in_place(name, tmp_path):
    graph, (X, y) = CASES[name]
    pack_shards(X, y, tmp_path / "shards", shard_size=2, graph=graph)
    shards = pickle.loads(pickle.dumps(Shards(tmp_path / "shards"))).check()
    samples, labels = graph.read_training(SAGCRF(), X, y)
    n = samples.offsets.size - 1
    assert len(shards) == n == shards.n_samples.sum()
    assert shards.n_shards == -(-n // 2)
    assert repr(shards.graph) == repr(graph)
    assert type(shards.graph) is type(graph)
    assert shards.classes.tolist() == sorted(set(np.concatenate([*map(np.ravel, y)]).tolist()))
    assert shards.n_nodes.sum() == samples.offsets[-1]
    assert shards.dtype == samples.features.dtype
    assert shards.n_edges.sum() == samples.n_edges.sum()
    assert shards.fingerprint
    codes = []
    for k in range(shards.n_shards):
        shard = shards.open(k)
        expected, widths = flatten(samples.take(np.arange(n) // 2 == k))
        got = flatten(_whole(shard, shards.n_features_in_))
        assert type(shard.samples) is type(samples)
        assert got[1] == widths
        assert got[0].keys() == expected.keys()
        for leaf, array in expected.items():
            assert got[0][leaf].dtype == array.dtype, leaf
            np.testing.assert_array_equal(got[0][leaf], array, err_msg=leaf)
        for leaf, array in flatten(shard.samples)[0].items():
            if array.size:
                assert _base(array).filename.name == f"{leaf}.npy"
                assert array.flags.writeable  # for numba only
        assert shard.codes.dtype == np.int32
        assert (shard.sample_weight == 1).all()
        codes.append(shard.codes)
    np.testing.assert_array_equal(shards.classes[np.concatenate(codes)], labels)


def test_small_files_need_not_stay_open(tmp_path):
    X, y = CASES["chain"][1]
    shards = pack_shards(X, y, tmp_path / "shards", shard_size=2, graph=CASES["chain"][0])
    mapped, read = shards.open(0), shards.open(0, map_from=1 << 20)
    mapped, read = flatten(mapped.samples)[0], flatten(read.samples)[0]
    for leaf, array in read.items():
        np.testing.assert_array_equal(array, mapped[leaf])
        with pytest.raises(AssertionError, match="memory of its own"):
            _base(array)


@pytest.mark.parametrize("form", ["generator", "ragged", "object array", "tuple", "3-D"])
def test_all_forms_of_samples_give_the_same_files(form, tmp_path):
    X, y = [_rows(3, sparse_X=False) for _ in range(5)], _labels([3] * 5)
    first = pack_shards(X, y, tmp_path / "list", shard_size=2)
    other = np.empty(5, dtype=object)
    other[:] = X
    forms = {
        "generator": ((x for x in X), iter(y)),
        "ragged": (RaggedArray.from_list(X), RaggedArray.from_list(y)),
        "object array": (other, np.array(y)),
        "tuple": (tuple(X), tuple(y)),
        "3-D": (np.array(X), iter(y)),
    }
    second = pack_shards(*forms[form], tmp_path / "other", shard_size=2)
    assert first.fingerprint == second.fingerprint
    assert not [name for name in os.listdir(tmp_path) if name.startswith(".")]


class _Sample(np.ndarray):
    """An array whose end can be noticed."""


def test_one_shard_is_in_memory_at_a_time(tmp_path):
    alive, most = [], []

    def samples():
        for k in range(20):
            x = np.ones((2, 3)).view(_Sample)
            alive.append(k)
            weakref.finalize(x, alive.remove, k)
            most.append(len(alive))
            yield x

    y = (["a", "b"] for _ in range(20))
    shards = pack_shards(samples(), y, tmp_path / "shards", shard_size=4)
    assert shards.n_shards == 5
    assert 4 <= max(most) <= 5


def test_classes_and_types_of_late_shards_count(tmp_path):
    X = [np.ones((2, 3), dtype=np.float32), np.ones((1, 3)), np.ones((1, 3), dtype=np.float32)]
    y = [["m", "z"], ["a"], ["m"]]
    shards = pack_shards(X, y, tmp_path / "shards", shard_size=1).check()
    assert shards.classes.tolist() == ["a", "m", "z"]
    assert shards.dtype == np.float64
    opened = [shards.open(k) for k in range(3)]
    assert [shard.codes.tolist() for shard in opened] == [[1, 2], [0], [1]]
    assert {shard.samples.features.dtype for shard in opened} == {np.dtype(np.float64)}


@pytest.mark.parametrize(
    "labels", [[3, 1], [True, False], [2.0, 5.0], [b"x", b"\xff"], ["\udc80", "ä"]]
)
def test_labels_of_all_types_come_back(labels, tmp_path):
    y = np.array(labels)
    shards = pack_shards([np.eye(2)], [y], tmp_path / "shards")
    assert shards.classes.dtype == y.dtype
    assert shards.classes[shards.open(0).codes].tolist() == labels


def test_weights_names_and_samples_without_labels(tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(np.eye(4), columns=list("pqrs"))
    weight = (w for w in [1.0, 0.5, 2.0, 3.0])
    shards = pack_shards(frame, None, tmp_path / "x", shard_size=3, sample_weight=weight).check()
    assert shards.classes is None
    assert shards.open(1).codes is None
    assert shards.open(0).sample_weight.tolist() == [1.0, 0.5, 2.0]
    assert shards.weight_sums.tolist() == [3.5, 3.0]
    assert shards.has_weights
    assert list(shards.feature_names) == list("pqrs")
    assert shards.edge_feature_names is None
    assert list(pickle.loads(pickle.dumps(shards.feature_names))) == list("pqrs")


def test_edge_feature_names_of_templates(tmp_path):
    X = [["He", "runs"], ["She", "runs", "fast"]]
    vectorizer = TemplateVectorizer("U:%x[0,0]\nB:%x[0,0]").fit(X)
    y = [["a", "b"], ["a", "b", "a"]]
    shards = pack_shards(
        X, y, tmp_path / "x", vectorizer=vectorizer, graph=Chain(edge_features=True), shard_size=1
    )
    assert list(shards.feature_names) == vectorizer.get_feature_names_out().tolist()
    assert list(shards.edge_feature_names) == vectorizer.get_edge_feature_names_out().tolist()
    assert shards.n_edge_features_in_ == len(shards.edge_feature_names)


def test_a_shard_without_any_feature(tmp_path):
    X = [sparse.csr_matrix((2, 5)), sparse.csr_matrix(np.eye(5))]
    shards = pack_shards(X, [["a", "b"], ["a"] * 5], tmp_path / "x", shard_size=1)
    assert shards.columns(0).tolist() == [0]
    assert shards.columns(1).tolist() == [0, 1, 2, 3, 4]


# What is refused


def _pack(X, y, **options):
    def call(folder):
        return pack_shards(X, y, folder, **({"shard_size": 1} | options))

    return call


_X, _Y = [np.eye(2)] * 3, [["a", "b"]] * 3


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (_pack(np.eye(3), np.eye(3, dtype=int)), TypeError, "MultiLabel has a find_classes"),
        (_pack(_X, _Y, graph=Candidates()), TypeError, "Candidates has a"),
        (_pack(_X, _Y, graph=Matching()), TypeError, "Matching has a"),
        (_pack(_X, _Y, graph=Boxes()), TypeError, "Boxes has a"),
        (_pack(_X, _Y, graph=MultiLabel()), TypeError, "MultiLabel has a"),
        (_pack(_X, _Y, graph="tree"), ValueError, "graph must be a structure or one of"),
        (_pack(_X, _Y, shard_size=0), ValueError, "shard_size must be an integer"),
        (_pack(_X, _Y[:2]), ValueError, "X has 3 samples, but y has 2"),
        (_pack(iter(_X), _Y[:2]), ValueError, "y ends after 2 samples, X goes on"),
        (_pack(_X, iter([*_Y, ["a"]])), ValueError, "X ends after 3 samples, y goes on"),
        (_pack(_X, _Y, sample_weight=[1, 1, 0]), ValueError, "sample 2 has weight 0"),
        (_pack(_X, _Y, sample_weight=[1, -1, 1]), ValueError, "sample_weight"),
        (_pack(_X, _Y, graph=Chain(forbidden=iter("ab"))), TypeError, "graph: forbidden must"),
        (_pack(_X, [["a", None]] * 3), ValueError, "sample 0 contains None"),
        (_pack([], []), ValueError, "X is empty"),
        (_pack(iter([]), iter([])), ValueError, "X is empty"),
        (_pack("text", _Y), TypeError, "X must be samples, got a str"),
        (_pack([*_X, np.full((1, 2), np.nan)], [*_Y, ["a"]]), ValueError, r"NaN \(sample 3"),
        (_pack([*_X, np.empty((0, 2))], [*_Y, []]), ValueError, "sample 3 is empty"),
        (_pack([*_X, np.eye(3)], [*_Y, ["a"] * 3]), ValueError, "X has 3 features, but pack_sh"),
        (_pack([*_X, sparse.eye(2)], [*_Y, ["a", "b"]]), ValueError, "sparse from sample 3 on"),
        (_pack(_X, [*_Y[:2], [1, 2]]), TypeError, "y mixes strings with labels of other types"),
        (_pack(_X, [*_Y[:2], ["a"]]), ValueError, "sample 2: X has 2 nodes, but y has 1"),
        (_pack(_X, _Y, vectorizer=SequenceVectorizer()), ValueError, "not fitted yet"),
        (_pack(_X, _Y, graph=["chain"]), ValueError, "graph must be a structure or one of"),
        (_pack(_X, _Y, sample_weight=[1e308] * 3), ValueError, "sum of all weights is inf"),
        (_pack(_X, _Y, sample_weight=[5e-324] * 3), ValueError, "sum of all weights is"),
    ],
)
def test_bad_input_leaves_nothing(call, error, words, tmp_path):
    with pytest.raises(error, match=words):
        call(tmp_path / "shards")
    assert not list(tmp_path.iterdir())


def test_an_error_of_the_users_iterator_comes_through_as_it_is(tmp_path):
    def samples():
        yield from _X
        raise RuntimeError("sample 7 is gone")

    with pytest.raises(RuntimeError, match="sample 7 is gone"):
        pack_shards(samples(), iter(_Y), tmp_path / "shards", shard_size=2)
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_not_empty_is_left_alone(tmp_path):
    (tmp_path / "note").write_text("mine")
    with pytest.raises(FileExistsError, match="is not empty"):
        pack_shards(_X, _Y, tmp_path)
    with pytest.raises(FileExistsError, match="is not empty"):
        pack_shards(_X, _Y, tmp_path / "note")
    assert os.listdir(tmp_path) == ["note"]
    (tmp_path / "empty").mkdir()
    assert len(pack_shards(_X, _Y, tmp_path / "empty")) == 3
    with pytest.raises(FileExistsError, match="mount point"):
        pack_shards(_X, _Y, os.path.abspath(os.sep))


def test_a_link_to_a_folder_stands_for_it(tmp_path):
    (tmp_path / "there").mkdir()
    for name, target in (("link", "there"), ("dangling", "nowhere")):
        (tmp_path / name).symlink_to(tmp_path / target)
        assert pack_shards(_X, _Y, tmp_path / name).folder == tmp_path / target
        assert len(Shards(tmp_path / name).check()) == 3


@pytest.mark.skipif(sys.platform == "win32", reason="no limit of file sizes")
def test_a_full_disk_leaves_nothing(tmp_path):
    resource = pytest.importorskip("resource")
    X = [np.ones((2, 4))] * 3 + [np.ones((2000, 4))]
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard))
    try:
        with pytest.raises(OSError, match=r"nothing was written at .*shards, temporary files"):
            pack_shards(X, None, tmp_path / "shards", shard_size=1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not list(tmp_path.iterdir())


class OwnChain(Chain):
    """A structure of a user."""


def test_structures_of_users_are_named_when_shards_are_opened(tmp_path):
    made = pack_shards(_X, _Y, tmp_path / "own", graph=OwnChain())
    assert type(made.graph) is OwnChain
    with pytest.raises(ValueError, match=r"pass graph=OwnChain\(\.\.\.\)"):
        Shards(tmp_path / "own")
    with pytest.raises(ValueError, match=r"pass graph=OwnChain\(\.\.\.\)"):
        Shards(tmp_path / "own", graph=Chain())
    assert type(Shards(tmp_path / "own", graph=OwnChain()).graph) is OwnChain
    pack_shards(_X, _Y, tmp_path / "chain")
    assert Shards(tmp_path / "chain", graph=Chain(boundary=True)).graph.boundary
    with pytest.raises(ValueError, match="packed for graph=Chain"):
        Shards(tmp_path / "chain", graph=Chain(edge_features=True))


# Damage


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """Shards that nobody changes."""
    place = tmp_path_factory.mktemp("shards")
    X, y = _chains()
    return pack_shards(X, y, place / "shards", shard_size=3, sample_weight=np.arange(1, 8))


@pytest.fixture
def copy(sound, tmp_path):
    """A copy that may be damaged."""
    shutil.copytree(sound.folder, tmp_path / "copy")
    return tmp_path / "copy"


@pytest.mark.parametrize("file", ["features.data", "features.indices", "offsets", "codes"])
@pytest.mark.parametrize("damage", ["truncated", "longer", "missing", "other", "garbage"])
def test_damaged_files_are_named(file, damage, copy):
    path = copy / "00001" / f"{file}.npy"
    content = path.read_bytes()
    if damage == "missing":
        path.unlink()
    elif damage == "other":
        np.save(path, np.zeros(3, dtype=np.int16))
    elif damage == "garbage":
        path.write_bytes(b"\x80" * len(content))
    else:
        path.write_bytes(content[:-3] if damage == "truncated" else content + b"abc")
    shards = Shards(copy)
    shards.open(0)
    for call in (lambda: shards.open(1), shards.check):
        with pytest.raises(ValueError, match=re.escape(str(path))):
            call()


def test_changed_contents_are_found_by_check_and_bad_indices_on_opening(copy):
    for file, bad in (("features.data", False), ("features.indices", True), ("columns", True)):
        path = copy / "00000" / f"{file}.npy"
        before = path.read_bytes()
        array = np.load(path)
        array[-1] = 100
        np.save(path, array)
        with pytest.raises(ValueError, match=f"{file}.npy has another checksum"):
            Shards(copy).check()
        if bad:
            with pytest.raises(ValueError, match=file):
                Shards(copy).open(0)
        path.write_bytes(before)
    Shards(copy).check().open(0)


def test_pickles_are_small_and_notice_other_shards(copy, tmp_path):
    shards = Shards(copy)
    text = pickle.dumps(shards)
    assert len(text) < 1000
    again = pickle.loads(text)
    assert again.fingerprint == shards.fingerprint
    np.testing.assert_array_equal(again.open(1).codes, shards.open(1).codes)
    shutil.rmtree(copy)
    pack_shards(_X, _Y, copy)
    reading._known_manifest.cache_clear()  # as in another process
    with pytest.raises(ValueError, match=r"manifest.json has changed: these are other shards"):
        pickle.loads(text)


def test_manifests_that_are_none(copy, tmp_path):
    path = copy / "manifest.json"
    text = path.read_bytes()

    def refuses(content, words):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=words) as caught:
            Shards(copy)
        assert str(path) in str(caught.value)

    refuses(text[:-40], "no manifest of shards, or truncated")
    refuses(b'{"format": "other"}', "its format must be")
    refuses(text.replace(b'"version": 1', b'"version": 2'), "of version 2, this skstruct reads")
    refuses(text.replace(b'"n_features": 12', b'"n_features": 13'), "another checksum")
    path.unlink()
    with pytest.raises(ValueError, match=r"manifest.json cannot be read.*pack_shards"):
        Shards(copy)
    with pytest.raises(ValueError, match="cannot be read"):
        Shards(tmp_path / "nowhere")


def test_nothing_in_the_folder_is_a_pickle(sound):
    files = [path for path in sound.folder.rglob("*") if path.is_file()]
    assert {path.suffix for path in files} == {".npy", ".json"}
    for path in files:
        if path.suffix == ".npy":
            np.load(path, allow_pickle=False)
        else:
            json.loads(path.read_text(encoding="ascii"))


def test_shards_out_of_range(sound):
    for k in (-1, 3):
        with pytest.raises(IndexError, match="of 3"):
            sound.open(k)
