"""Nodes of several types: samples as dicts of tables, read as graphs whose labels are pairs."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from ...core.arguments import warn_user
from ...core.offsets import ends_of
from ...data.labels import read_sequence_labels
from ...data.matrices import normal_csr, numeric, refuse_masked
from ...data.packing import as_list, pack_nodes
from ...data.partial import boolean
from ...data.ragged import object_array

# The nodes of a sample are those of the first type, then those of the second, and so on; its edges
# are in the order of their pairs of types. A class is a pair (type, label), so that a table of
# weights has a block for each pair of types, and features of different types share columns, not
# weights.


def read_types(node_types: Any) -> tuple[str, ...]:
    """The names of the types."""
    names = tuple(node_types) if isinstance(node_types, (list, tuple)) else ()
    if not names or len({*names}) < len(names) or not all(isinstance(v, str) for v in names):
        raise ValueError(f"node_types must be a list of different names, got {node_types!r}")
    return names


def _table(item, names, where, needed):
    """The entries of a dict whose keys are some of `names`, all of them where `needed`."""
    if not isinstance(item, Mapping):
        raise ValueError(f"{where} must be a dict, got {type(item).__name__}")
    unknown = [key for key in item if key not in names]
    if unknown:
        raise ValueError(f"{where}: unknown {unknown[0]!r}; expected some of {[*names]}")
    missing = [name for name in names if name not in item]
    if needed and missing:
        raise ValueError(f"{where}: {missing[0]!r} is missing")
    return item


def _stacked(tables, owners):
    """Rows of several tables, padded to one width, in the order of their samples."""
    width, order = max(table.shape[1] for table in tables), np.argsort(owners, kind="stable")
    if any(sparse.issparse(table) for table in tables):
        tables = [sparse.csr_matrix(table) for table in tables]
        for table in tables:
            table.resize(table.shape[0], width)
        return normal_csr(sparse.vstack(tables, format="csr")[order])
    return np.concatenate([np.pad(t, ((0, 0), (0, width - t.shape[1]))) for t in tables])[order]


def _owners(counts):
    return np.repeat(np.arange(len(counts)), counts)


def _pieces(table, counts):
    """The rows of each sample."""
    return [table[start:stop] for start, stop in pairwise(ends_of(counts))]


def _read_ends(item, pair, sizes, n_columns, i):
    """The edges of sample i between nodes of two types."""
    where = f"the edges {pair} of sample {i}"
    refuse_masked(item, f"X: {where}")
    try:
        array = np.asarray(() if item is None else item)
    except ValueError:
        raise ValueError(f"X: the rows of {where} differ in length") from None
    if array.size == 0:
        array = np.empty((0, n_columns), dtype=np.int64)
    if array.dtype.kind not in "iu" or array.ndim != 2 or array.shape[1] != n_columns:
        raise ValueError(
            f"X: {where} must be integers of shape (n_edges, {n_columns}), got dtype "
            f"{array.dtype}, shape {array.shape}"
        )
    wrong = np.flatnonzero(((array[:, :2] < 0) | (array[:, :2] >= sizes)).any(axis=1))
    if wrong.size:
        raise ValueError(
            f"X: sample {i} has the edge {tuple(array[wrong[0], :2].tolist())} of types {pair}, "
            f"but {sizes[0]} nodes of type {pair[0]!r} and {sizes[1]} of type {pair[1]!r}"
        )
    return array


def _read_rows(item, pair, n, i):
    """The features of the edges of sample i between nodes of two types."""
    rows = item["edge_features"].get(pair)
    if n == 0 and (rows is None or np.shape(rows)[:1] == (0,)):
        return []
    if rows is None or len(np.shape(rows)) != 2 or np.shape(rows)[0] != n:
        got = "none" if rows is None else f"shape {np.shape(rows)}"
        raise ValueError(
            f"X: sample {i} has {n} edges {pair}, whose edge features must be of shape ({n}, "
            f"n_edge_features), got {got}"
        )
    return [rows]


def _tell_of_new_pair(pair, i, has_features, widths):
    """Warn of edges without weights, in sample i; raise ValueError if they have features."""
    text = f"X: sample {i} has edges {pair}, but in training there were none"
    if pair[::-1] in widths:
        text += f", only edges {pair[::-1]}: the order of a pair must be the same"
    if has_features:
        raise ValueError(text)
    warn_user(f"{text}; their weights are 0")


def read_graphs(
    items, types, n_columns, has_features, widths, reset, is_symmetric
) -> tuple[list, np.ndarray]:
    """Samples as tuples (features, edges[, edge features]), and their numbers of nodes by type.

    `widths` has the numbers of features of each type, and of each pair of types with edges, in
    training; with `reset` they are written to it.
    """
    parts = ["nodes", "edges", "edge_features"][: 2 + has_features]
    pairs = [(a, b) for a in types for b in types]
    for i, item in enumerate(items):
        _table(item, parts, f"X: sample {i}", needed=True)
        _table(item["nodes"], types, f"X: sample {i}, nodes", needed=True)
        for part in parts[1:]:
            _table(item[part], pairs, f"X: sample {i}, {part}", needed=False)
    read = [pack_nodes([x["nodes"][name] for x in items], f"X, type {name!r}") for name in types]
    counts = np.stack([np.diff(offsets) for _, offsets in read], axis=1)
    first = np.cumsum(counts, axis=1) - counts
    found = {name: table.shape[1] for name, (table, _) in zip(types, read, strict=True)}
    ends, rows, owners = [np.empty((0, n_columns), dtype=np.int64)], [], [[]]
    for pair in pairs:
        at, own = [types.index(name) for name in pair], []
        for i, item in enumerate(items):
            array = _read_ends(item["edges"].get(pair), pair, counts[i, at], n_columns, i)
            ends.append(array + np.pad(first[i, at], (0, n_columns - 2)))
            owners.append(np.full(len(array), i))
            own += _read_rows(item, pair, len(array), i) if has_features else []
        if own:
            rows.append(pack_nodes(own, f"X, edges {pair}", "edge")[0])
        with_edges = [i for i, edges in enumerate(owners[-len(items) :]) if edges.size]
        is_known = pair in widths or (is_symmetric and pair[::-1] in widths)
        if with_edges and not (reset or is_known):
            _tell_of_new_pair(pair, with_edges[0], has_features, widths)
        elif with_edges:
            found[pair] = rows[-1].shape[1] if has_features else 0
    for key, width in found.items():
        known = widths.get(key, width)
        if width != known:
            raise ValueError(f"X: {key!r} has {width} features, in training {known}")
    if reset:
        widths.update(found)
    owner = np.concatenate(owners).astype(np.int64)
    n_edges = np.bincount(owner, minlength=len(items))
    ends = np.concatenate(ends)[np.argsort(owner, kind="stable")]
    nodes = _stacked([table for table, _ in read], np.concatenate([*map(_owners, counts.T)]))
    graphs = [_pieces(nodes, counts.sum(axis=1)), _pieces(ends, n_edges)]
    if has_features:
        width = max((widths[pair] for pair in pairs if pair in widths), default=0)
        rows.append(np.empty((0, width)))  # pads to the width of training
        graphs.append(_pieces(_stacked(rows, owner), n_edges))
    return list(zip(*graphs, strict=True)), counts


def read_labels(y, types, counts) -> np.ndarray:
    """The pairs (type, label) of all nodes."""
    items = as_list(y, "y")
    if len(items) != len(counts):
        raise ValueError(f"X has {len(counts)} samples, but y has {len(items)}")
    for i, item in enumerate(items):
        _table(item, types, f"y: sample {i}", needed=True)
    pairs = []
    for name, own in zip(types, counts.T, strict=True):
        labels = read_sequence_labels([item[name] for item in items], ends_of(own), f"y[{name!r}]")
        pairs += [(name, label) for label in labels.tolist()]
    owner = np.concatenate([*map(_owners, counts.T)])
    return object_array(pairs)[np.argsort(owner, kind="stable")]


def allowed_labels(types, counts, classes) -> np.ndarray:
    """Masks of the classes of each node's type."""
    of_class = np.array([types.index(name) for name, _ in classes.tolist()])
    of_node = np.repeat(np.tile(np.arange(len(types)), len(counts)), counts.ravel())
    return (of_node[:, None] == of_class).astype(np.uint8)


def read_by_type(items, what, types, counts, classes=None):
    """Masks of all classes, or without classes weights, from dicts of those of each type.

    Other samples stay as they are. All labels of a type that a dict lacks are allowed, and the
    weights of its nodes are 1.
    """
    if not isinstance(items, (list, tuple, np.ndarray)):
        return items
    items, read = list(items), numeric if classes is None else boolean
    for i, item in enumerate(items[: len(counts)]):
        if isinstance(item, Mapping):
            _table(item, types, f"{what}: sample {i}", needed=False)
            items[i] = np.ones((counts[i].sum(), *(() if classes is None else (len(classes),))))
            for name, *place in _by_type(types, counts[i], classes):
                place, where = tuple(place), f"{what}: sample {i}, type {name!r}"
                own = items[i][place]
                found = read(item.get(name, own), where)
                if found.shape != own.shape:
                    raise ValueError(f"{where} must be of shape {own.shape}, got {found.shape}")
                items[i][place] = found
    return items


def check_pairs(graph, types, samples, mask, classes) -> None:
    """Raise ValueError for interactions that no edge between its types has."""
    counts = samples.type_counts
    of_node = np.repeat(np.tile(np.arange(len(types)), len(counts)), counts.ravel())
    linked = np.zeros((len(types),) * 2, dtype=bool)
    linked[tuple(of_node[ends] for ends in samples.global_ends())] = True
    pairs = [(types[a], types[b]) for a, b in np.argwhere(linked)]
    apart = [pair for pair in pairs if pair[0] != pair[1]]
    if graph.interactions == "potts" and apart:
        raise ValueError(
            f'interactions="potts" scores equal labels, which edges {apart[0]} do not have: use '
            '"full" or "symmetric"'
        )
    for j, k in np.argwhere(np.isinf(mask)):
        one, other = classes[j], classes[k]
        if (one[0], other[0]) not in pairs and (there := (other[0], one[0])) in pairs:
            raise ValueError(
                f"forbidden: X has edges {there}, none {there[::-1]}, so that {(one, other)} "
                f"forbids nothing: write {(other, one)}"
            )


def _by_type(types, counts, classes):
    """Each type, and where its nodes and its classes, if there are any, are."""
    of_class = None if classes is None else np.array([name for name, _ in classes.tolist()])
    for name, ends in zip(types, pairwise(ends_of(counts)), strict=True):
        columns = () if classes is None else (np.flatnonzero(of_class == name),)
        yield name, slice(*ends), *columns


def labels_by_type(codes, types, counts, classes) -> dict:
    """The labels of the nodes of a sample, from codes (..., n_nodes)."""
    found = {}
    for name, nodes, own in _by_type(types, counts, classes):
        labels, first = np.array([label for _, label in classes[own].tolist()]), own[:1].sum()
        found[name] = labels[codes[..., nodes] - first]
    return found


def marginals_by_type(table, types, counts, classes) -> dict:
    """The marginals of the nodes of a sample, (n_nodes, n_classes), for labels of their types."""
    return {name: table[nodes][:, own] for name, nodes, own in _by_type(types, counts, classes)}
