"""Shards: packed samples in files, opened one shard at a time, in place."""

from __future__ import annotations

import functools
import json
import operator
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from scipy import sparse
from sklearn.base import clone

from .. import graphs
from ..core.problem import tree_items, tree_like
from ..core.typing import PathLike
from ..data.matrices import csr_from_parts, is_sound_csr, readable
from ..data.names import FeatureNames, ListedNames
from ..data.rules import RULES
from ..data.store import Damage, check_file, open_array, write_bytes
from ..graphs import Graph
from . import manifest

# Packed samples to named arrays, and back.

_PARTS = ("data", "indices", "indptr")


def _is_field(value):
    """Return whether a value is a field of packed samples, not a tuple of them."""
    return not hasattr(value, "_fields")


def flatten(samples: Any) -> tuple[dict, dict]:
    """The arrays of packed samples, and widths of CSR matrices."""
    arrays, widths = {}, {}
    for name, value in tree_items(samples, is_leaf=_is_field):
        if value is None:
            continue
        if sparse.issparse(value) and value.format == "csr":
            arrays |= {f"{name}.{part}": getattr(value, part) for part in _PARTS}
            widths[name] = int(value.shape[1])
        elif isinstance(value, np.ndarray) and value.dtype.kind in "buif":
            arrays[name] = value
        else:
            raise TypeError(
                f"shards hold arrays of numbers, CSR matrices and NamedTuples of them: "
                f"{type(samples).__name__}.{name} is a {type(value).__name__}"
            )
    return arrays, widths


def build(like: Any, arrays: dict, widths: dict, where: str) -> Any:
    """Packed samples of arrays: the inverse of :func:`flatten`."""
    left = dict(arrays)
    fields = [
        _field(name, typical, left, widths, where)
        for name, typical in tree_items(like, is_leaf=_is_field)
    ]
    if left:
        raise Damage(
            f"{where} has arrays that samples of type {type(like).__name__} do not have: "
            f"{', '.join(sorted(left))}"
        )
    return tree_like(like, iter(fields))


def _field(name, typical, left, widths, where):
    """One field, taken out of what is left."""
    if name in left:
        array = left.pop(name)
        if isinstance(typical, np.ndarray) and typical.ndim != array.ndim:
            raise Damage(f"{where}: {name} must have {typical.ndim} dimensions")
        counts = isinstance(typical, np.ndarray) and typical.dtype.kind in "biu"
        if counts and array.dtype != typical.dtype:
            raise Damage(f"{where}: {name} must be {typical.dtype}, got {array.dtype}")
        return readable(array, array.dtype)
    if name in widths:
        return _matrix(name, left, widths[name], where)
    if typical is not None:
        raise Damage(f"{where} has no array {name}")
    return None


def _matrix(name, left, width, where):
    """A CSR matrix, which kernels read without bounds checks."""
    try:
        parts = [left.pop(f"{name}.{part}") for part in _PARTS]
    except KeyError as error:
        raise Damage(f"{where} has no array {error.args[0]}") from None
    shape = (max(parts[2].size - 1, 0), width)
    if not is_sound_csr(shape, *parts):
        raise Damage(
            f"{where}: {name}.data, {name}.indices and {name}.indptr are no matrix of {shape[0]} x "
            f"{width}: they are damaged, or of other shards"
        )
    return csr_from_parts(shape, *(readable(part, part.dtype) for part in parts))


# Names of features in a file of their own, read when somebody asks for them.


class StoredNames(FeatureNames):
    """Names in a file. A pickle of them has the names themselves."""

    def __init__(self, folder: Path, entry: dict) -> None:
        self._path, self._entry, self._read = folder / entry["file"], entry, None
        self._digest = bytes.fromhex(entry["digest"])

    def __len__(self) -> int:
        return self._entry["count"]

    def strings(self) -> list[str]:
        """All names."""
        if self._read is None:
            try:
                check_file(self._path, self._entry)
                names = json.loads(self._path.read_bytes())
            except Damage as error:
                raise Damage(
                    f"{error}; a model trained on these shards does without its names after "
                    "`del model.feature_names_in_`"
                ) from None
            if not isinstance(names, list) or len(names) != len(self):
                raise Damage(f"{self._path} does not have {len(self)} names")
            self._read = names
        return self._read

    def __reduce__(self):
        return ListedNames, (self.strings(),)


def write_names(folder: Path, file: str, names: FeatureNames) -> dict:
    """Write names of features."""
    entry = write_bytes(folder / file, json.dumps(names.strings()).encode("ascii"))
    return entry | {"file": file, "count": len(names), "digest": names._key().hex()}


# Checks, when a shard is opened, of arrays that kernels read without bounds checks.


def check_samples(samples: Any, graph: Graph, entry: dict, folder: Path) -> None:
    """Reject packed samples that a structure has not packed."""
    check_ends(samples.offsets, entry["samples"], entry["nodes"], folder / "offsets.npy")
    if graph.is_table and (np.diff(samples.offsets) != 1).any():
        raise Damage(f"{folder / 'offsets.npy'} is damaged: a sample of a table is one row")
    rows = entry["samples"] if graph.is_table else entry["nodes"]
    if samples.features.ndim != 2 or samples.features.shape[0] != rows:
        raise Damage(f"{folder}: there must be {rows} rows of features")
    edges = getattr(samples, "edges", None)
    if edges is not None and hasattr(samples, "edge_ptr"):
        _check_edges(samples, edges, entry["samples"], folder)
        types = getattr(samples, "types", None)
        if types is not None and (types.size != len(edges) or _beyond(types, graph._n_types())):
            raise Damage(f"{folder / 'types.npy'} is damaged: edges have other types")
    rows, shapes = getattr(samples, "edge_features", None), getattr(samples, "shapes", None)
    if rows is not None and rows.shape[:1] != (samples.n_edges.sum(),):
        raise Damage(f"{folder}: there must be a row of edge features for each edge")
    if shapes is not None and not np.array_equal(shapes.prod(axis=-1), samples.lengths):
        raise Damage(f"{folder / 'shapes.npy'} is damaged: images have other sizes")


def check_ends(ends: np.ndarray, n: int, total: int, path: Path) -> None:
    """Reject pointers that do not go from 0 to a total."""
    sound = ends.shape == (n + 1,) and ends.dtype == np.int64 and ends[0] == 0
    if not sound or (ends[1:] < ends[:-1]).any() or ends[-1] != total:
        raise Damage(f"{path} is damaged: it must have the ends of {n} samples")


def _check_edges(samples, edges, n, folder):
    """Reject edges between nodes that are not there."""
    check_ends(samples.edge_ptr, n, len(edges), folder / "edge_ptr.npy")
    sound = edges.ndim == 2 and edges.shape[1] == 2 and edges.dtype == np.int32
    ends = np.repeat(samples.lengths, samples.n_edges)[:, None]
    if not sound or _beyond(edges, ends) or (edges[:, 0] == edges[:, 1]).any():
        raise Damage(f"{folder / 'edges.npy'} is damaged: edges must be between nodes of a sample")


def _beyond(numbers, ends):
    return numbers.dtype.kind not in "iu" or bool(((numbers < 0) | (numbers >= ends)).any())


# Structures in manifests: by name, with parameters in JSON; no class names are imported.

# Parameters that matter when a problem is built, not when its samples are packed.
_AFTER_PACKING = {
    *("boundary", "forbidden", "rules", "order", "states_per_label"),
    *("max_length", "scheme", "lengths"),
    *("interactions", "inference", "max_table"),
}
_PLAIN = ("find_classes", "encode", "read_training", "score")


def refuse_unpackable(graph: Graph) -> None:
    """Reject a structure whose samples cannot be packed a part at a time."""
    kind = type(graph)
    if getattr(graph, "node_types", None) is not None:
        raise TypeError("shards are for graphs of one type of nodes: node_types must be None")
    own = [name for name in _PLAIN if getattr(kind, name) is not getattr(Graph, name)]
    if own:
        raise TypeError(
            f"shards are for structures whose labels are those of nodes (Chain, SemiChain, Tree, "
            f"Pairwise, Grid, MultiClass): {kind.__name__} has a {own[0]} of its own, and is "
            "trained on samples in memory: fit(X, y)"
        )
    if getattr(graph, "segment_features", None) is not None:
        raise TypeError("shards hold features of nodes, segment_features must be None")


def _encode(value, name):
    """A parameter in JSON."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, list):
        return [_encode(item, name) for item in value]
    if isinstance(value, dict):
        return {"dict": [_encode(item, name) for item in value.items()]}
    if isinstance(value, tuple):
        return {"tuple": [_encode(item, name) for item in value]}
    if isinstance(value, (set, frozenset)):
        return {"set": [_encode(item, name) for item in sorted(value, key=repr)]}
    if type(value) in RULES.values():
        own = [_encode(item, name) for item in vars(value).values()]
        return {"rule": [type(value).__name__, *own]}
    if isinstance(value, np.ndarray) and value.dtype.kind in "buif":
        return {"array": value.tolist(), "dtype": value.dtype.str}
    raise TypeError(
        f"graph: {name} must consist of numbers, strings, lists, tuples and sets to be written "
        f"down with shards, got {value!r}"
    )


def _decode(value):
    """The parameter that :func:`_encode` has written down."""
    if isinstance(value, list):
        return [_decode(item) for item in value]
    if not isinstance(value, dict):
        return value
    if "array" in value:
        return np.array(value["array"], dtype=np.dtype(value["dtype"]))
    (kind, items), *_ = value.items()
    if kind == "rule":
        return RULES[items[0]](*map(_decode, items[1:]))
    return {"tuple": tuple, "set": set, "dict": dict}[kind](map(_decode, items))


def _known(name):
    kind = getattr(graphs, name, None) if name in graphs.__all__ else None
    return kind if isinstance(kind, type) and issubclass(kind, Graph) else None


def describe(graph: Graph) -> dict:
    """Return the entry of a structure in a manifest."""
    name = type(graph).__name__
    if _known(name) is not type(graph):
        return {"name": f"{type(graph).__module__}.{type(graph).__qualname__}"}
    parameters = graph.get_params(deep=False)
    return {"name": name, "parameters": {p: _encode(v, p) for p, v in parameters.items()}}


def restore(description: dict, graph: Graph | None, where: Any) -> Graph:
    """The structure of a manifest."""
    name = description.get("name")
    if graph is not None and not isinstance(graph, Graph):
        raise TypeError(f"graph must be a structure such as Chain(), got {graph!r}")
    if "parameters" in description:
        kind = _known(name)
        if kind is None:
            raise ValueError(f"{where} is of the structure {name!r}, which skstruct does not know")
        stored = kind(**{p: _decode(v) for p, v in description["parameters"].items()})
        return stored if graph is None else fitting(stored, graph)
    if graph is None or describe(graph)["name"] != name:
        raise ValueError(
            f"{where} is of the structure {name}, which is none of skstruct's: pass "
            f"graph={str(name).rpartition('.')[2]}(...)"
        )
    return clone(graph)


def fitting(stored: Graph, graph: Graph) -> Graph:
    """A structure that the packed samples of another are good for."""
    names = set(stored.get_params(deep=False)) - _AFTER_PACKING
    pairs = ((getattr(stored, name), getattr(graph, name)) for name in names)
    same = type(graph) is type(stored) and all(
        a is b or np.all(np.asarray(a == b)) for a, b in pairs
    )
    if not same:
        raise ValueError(
            f"the shards are packed for graph={stored}, not for {graph}: pack them with the graph "
            "that is to be trained"
        )
    return clone(graph)


class Shard(NamedTuple):
    """One shard, its arrays mapped into memory.

    Read more in the :ref:`User Guide <scale>`.

    Parameters
    ----------
    samples : NamedTuple
        Packed samples, as the structure's ``read_X`` returns them. CSR features have the shard's
        own column numbers.
    codes : ndarray of shape (n_nodes,) of int32, or None
        Labels of all nodes, as positions in the classes.
    columns : ndarray of shape (n_columns,) of int64, or None
        Indices of the columns of ``samples.features`` among all features, increasing; None for all.
    sample_weight : ndarray of shape (n_samples,)
        Weights of the samples.

    See Also
    --------
    skstruct.datasets.Shards : Samples in a folder of shards.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from skstruct.datasets import Shards, pack_shards
    >>> X, y = [np.ones((2, 3)), np.zeros((1, 3))], [["a", "b"], ["a"]]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     shards = pack_shards(X, y, Path(folder) / "shards")
    ...     shard = shards.open(0)
    ...     codes = shard.codes.tolist()
    >>> codes
    [0, 1, 0]
    """

    samples: Any
    codes: np.ndarray | None
    columns: np.ndarray | None
    sample_weight: np.ndarray


class Shards:
    """Samples in a folder of shards, written by :func:`pack_shards`.

    Pass it to fit, predict and score as X; it includes y. Features are memory-mapped. A pickle has
    only the path and the fingerprint: workers, which must see the same path, read the manifest.
    Read more in the :ref:`User Guide <scale>`.

    Parameters
    ----------
    folder : str or Path
        The folder.
    graph : Graph, default=None
        The structure, if it is one of your own.

    Attributes
    ----------
    folder : Path
        The folder.
    graph : Graph
        The structure of the samples.
    classes : ndarray of shape (n_classes,), or None
        The labels, sorted; None for samples without labels.
    n_shards : int
        Number of shards.
    n_samples, n_nodes, n_edges, n_entries, n_columns : ndarray of shape (n_shards,) of int
        Numbers of samples, nodes, edges, stored entries and occurring features of each shard.
    weight_sums : ndarray of shape (n_shards,)
        Sum of the sample weights of each.
    n_features_in_, n_edge_features_in_ : int
        Features of nodes and of edges (None where edges have none).
    feature_names, edge_feature_names : sequence of str, or None
        Their names, if there are any.
    is_sparse, has_weights : bool
        Whether features are CSR matrices, and whether samples have weights.
    dtype : dtype
        Type of the features.
    fingerprint : str
        Checksum of the manifest, which has those of all files.

    Raises
    ------
    ValueError
        If the folder has no manifest, a damaged one, or one of another version.

    See Also
    --------
    pack_shards : Writes the folder.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from skstruct.datasets import Shards, pack_shards
    >>> X, y = [np.eye(3), np.eye(3)[:2]], [["a", "b", "a"], ["b", "a"]]
    >>> with tempfile.TemporaryDirectory() as place:
    ...     shards = pack_shards(X, y, f"{place}/shards", shard_size=1)
    ...     shards = Shards(f"{place}/shards")
    ...     len(shards), shards.n_shards, shards.open(1).codes.tolist()
    (2, 2, [1, 0])
    """

    def __init__(self, folder: PathLike, graph: Graph | None = None) -> None:
        self.folder = Path(folder).absolute()
        self._take(manifest.load(self.folder), graph)

    def _take(self, content, graph):
        """Set the attributes from the manifest."""
        self._manifest = content
        where = self.folder / manifest.NAME
        try:
            self.graph = restore(self._manifest["structure"], graph, where)
            self.dtype = np.dtype(self._manifest["dtype"])
            if self.dtype.kind != "f":
                raise TypeError("features must be floating-point numbers")
            self._take_classes(where)
            refuse_unpackable(self.graph)
        except (KeyError, AttributeError, TypeError, OverflowError) as error:
            if graph is not None and isinstance(error, TypeError):
                raise
            raise ValueError(f"{where} is damaged: {error}") from None
        self.n_features_in_ = content["n_features"]
        self.n_edge_features_in_ = content.get("n_edge_features")
        self.fingerprint = content["checksum"]
        self.is_sparse, self.has_weights = content["sparse"], content["weighted"]
        # Names are read when they are asked for.
        self.feature_names, self.edge_feature_names = (
            StoredNames(self.folder, content["names"][which]) if which in content["names"] else None
            for which in ("features", "edge_features")
        )

        def of_each(name):
            return np.array([entry[name] for entry in content["shards"]])

        self.n_shards = len(content["shards"])
        self.n_samples, self.n_nodes, self.n_edges = map(of_each, ("samples", "nodes", "edges"))
        self.n_entries, self.n_columns = map(of_each, ("entries", "columns"))
        self.weight_sums = of_each("weight").astype(np.float64)

    def _take_classes(self, where):
        try:
            self.classes = manifest.decode_classes(self._manifest.get("classes"))
        except ValueError as error:
            raise ValueError(f"{where} is damaged: {error}") from None

    def __reduce__(self):
        return _reopened, (self.folder, self.fingerprint, self.graph)

    def __len__(self) -> int:
        """Number of samples."""
        return int(self.n_samples.sum())

    def __repr__(self) -> str:
        return f"Shards({str(self.folder)!r})"

    def columns(self, k: int) -> np.ndarray | None:
        """The features that a shard uses, without the rest of it.

        Parameters
        ----------
        k : int
            The shard, from 0.

        Returns
        -------
        ndarray of shape (n_columns,) of int64, or None
            As ``open(k).columns``.
        """
        entry = self._entry(k)
        file = entry["files"].get("columns.npy")
        if file is None:
            return None
        path = self.folder / entry["folder"] / "columns.npy"
        columns = open_array(path, file)
        self._check_columns(columns, path)
        return readable(columns, columns.dtype)

    def label_weights(self) -> np.ndarray:
        """Return the weighted number of nodes of each label; reads labels, no features.

        Returns
        -------
        ndarray of shape (n_classes,)
            Sums over all shards.

        Raises
        ------
        ValueError
            If the shards have no labels, or a file of them is damaged.
        """
        if self.classes is None:
            raise ValueError("the shards have no labels")
        sums = np.zeros(len(self.classes))
        for entry in self._manifest["shards"]:
            folder = self.folder / entry["folder"]
            codes, ends, weight = (
                open_array(folder / name, entry["files"][name]) if name in entry["files"] else None
                for name in ("codes.npy", "offsets.npy", "sample_weight.npy")
            )
            if weight is not None:
                check_ends(ends, weight.size, entry["nodes"], folder / "offsets.npy")
                weight = np.repeat(weight, np.diff(ends))
            try:
                sums += np.bincount(codes, weight, minlength=sums.size)
            except (TypeError, ValueError):
                path = folder / "codes.npy"
                raise Damage(f"{path} has no codes of {sums.size} classes") from None
        return sums

    def __getitem__(self, key):
        raise TypeError(
            "Shards has no single samples to choose from, as grid searches do: "
            "give them samples in memory, or pack the parts apart; shard k is open(k)"
        )

    __iter__ = None

    def _entry(self, k):
        k = operator.index(k)
        if not 0 <= k < self.n_shards:
            raise IndexError(f"shard {k} of {self.n_shards}")
        return self._manifest["shards"][k]

    def open(self, k: int, *, map_from: int = 0) -> Shard:
        """Map a shard into memory.

        Parameters
        ----------
        k : int
            The shard, from 0.
        map_from : int, default=0
            Files of fewer bytes are read instead: a map keeps its file open, and a process may have
            some hundred files open only.

        Returns
        -------
        Shard
            Over the files: nothing is copied, nothing may be written to.

        Raises
        ------
        ValueError
            If a file is missing or of another size; :meth:`check` compares contents.
        """
        entry = self._entry(k)
        folder = self.folder / entry["folder"]
        arrays = {
            name.removesuffix(".npy"): open_array(folder / name, file, map_from)
            for name, file in entry["files"].items()
        }
        codes, columns, weight = (
            readable(arrays[name], arrays.pop(name).dtype) if name in arrays else None
            for name in ("codes", "columns", "sample_weight")
        )
        # Packed samples of the structure, none of them: their types count.
        samples = build(self.graph.no_samples(self), arrays, entry["widths"], str(folder))
        if weight is None:
            weight = np.ones(entry["samples"])
        shard = Shard(samples, codes, columns, weight)
        self._check_codes(shard, entry, folder)
        return shard

    def _check_codes(self, shard, entry, folder):
        """Reject what kernels would read beyond."""
        codes, columns, weight = shard.codes, shard.columns, shard.sample_weight
        check_samples(shard.samples, self.graph, entry, folder)
        if shard.samples.features.dtype != self.dtype:
            raise Damage(f"{folder}: features must be {self.dtype}")
        if codes is not None:
            inside = codes.size and codes.min() >= 0 and codes.max() < len(self.classes)
            if not inside or codes.shape != (entry["nodes"],) or codes.dtype != np.int32:
                raise Damage(f"{folder / 'codes.npy'} has no codes of {len(self.classes)} classes")
        if columns is not None:
            self._check_columns(columns, folder / "columns.npy")
            if columns.size != shard.samples.features.shape[1]:
                raise Damage(f"{folder / 'columns.npy'} has other columns than features use")
        if weight.shape != (entry["samples"],) or not (np.isfinite(weight) & (weight > 0)).all():
            raise Damage(f"{folder / 'sample_weight.npy'} must have a positive weight a sample")

    def _check_columns(self, columns, path):
        if columns.ndim != 1 or columns.dtype != np.int64:
            raise Damage(f"{path} is damaged: columns must be one row of int64")
        inside = not columns.size or (columns[0] >= 0 and columns[-1] < self.n_features_in_)
        if not inside or (np.diff(columns) <= 0).any():
            raise Damage(f"{path} is damaged: columns must increase")

    def check(self) -> Self:
        """Compare sizes and checksums of all files; raise a ValueError if one has changed.

        Returns
        -------
        Shards
            The object itself.

        Raises
        ------
        ValueError
            If a file is not what was written; names it.
        """
        for entry in self._manifest["names"].values():
            check_file(self.folder / entry["file"], entry)
        for entry in self._manifest["shards"]:
            for name, file in entry["files"].items():
                check_file(self.folder / entry["folder"] / name, file)
        return self


@functools.lru_cache(maxsize=8)
def _known_manifest(folder, fingerprint):
    """The manifest, read once in each process."""
    content = manifest.load(folder)
    if content["checksum"] != fingerprint:
        raise ValueError(f"{folder / manifest.NAME} has changed: these are other shards")
    return content


def _reopened(folder, fingerprint, graph):
    """Return the shards that a pickle refers to."""
    shards = Shards.__new__(Shards)
    shards.folder = folder
    shards._take(_known_manifest(folder, fingerprint), graph)
    return shards


__all__ = ["Shard", "Shards"]
