"""Problems whose feature rows *are* the scores: row t of the features selects row t of a table."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from itertools import pairwise
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, clone

from ..core.features import SparseFeatures
from ..core.gram import not_stored
from ..core.parallel import Scratch, make_scratch, private_copy, scratch_of
from ..core.problem import Problem, tree_leaves
from ..core.weights import aligned
from ..data.constraints import TransitionMask, allowed_at_ends, transition_mask
from ..data.packing import rows_as_scores
from ..graphs import Chain, Grid, Matching, Pairwise, Tree
from ..graphs.base import Graph
from ..graphs.items import ItemGraph
from ..graphs.pairwise.base import PairwiseGraph
from ..inference.forward_backward import workspace_size
from ..inference.viterbi import viterbi_scratch
from ..losses.task import UNWEIGHTED, NamedLoss, cost_matrix
from ..rows.blocks import BlockRows, TableScratch, row_scratch
from ..spaces.chain import ChainScratch, ChainSpace
from ..targets.costs import NO_CODES, NodeCosts

_MOST_FLOATS = 1 << 25


class Room(NamedTuple):
    """Output arrays of one thread."""

    # Those of the problem, see :func:`skstruct.core.parallel.scratch_of`.
    own: tuple
    # Part-space buffers.
    scratch: Scratch
    # One more.
    augmented: np.ndarray


def _count_floats(room):
    return sum(array.size for array in tree_leaves(room))


class Rooms:
    """Rooms that calls take and give back: fresh memory costs more than a small batch."""

    def __init__(self):
        self._free, self._kept, self._lock = {}, 0, Lock()

    def take(self, key, make):
        """A free room, or a new one; without a key none is kept."""
        with self._lock:
            if self._free.get(key):
                room = self._free[key].pop()
                self._kept -= _count_floats(room)
                return room
        return make()

    def give(self, key, room):
        """Take a room back; all are forgotten where they take too much memory."""
        if key is None:
            return
        size = _count_floats(room)
        with self._lock:
            if self._kept + size > _MOST_FLOATS:
                self._free, self._kept = {}, 0
            if size <= _MOST_FLOATS:
                self._free.setdefault(key, []).append(room)
                self._kept += size


ROOMS = Rooms()


class Task(NamedTuple):
    """A problem, and where its threads find room."""

    # The problem.
    problem: NamedTuple
    # Key by which rooms are kept; None if they are not.
    key: tuple | None
    # Makes a new one.
    make_room: Any
    # Rough cost of a pass.
    flops: int
    # Called with a sample whose labels score -inf, and the layout: raises if it can say why.
    explain: Any


def resolve(graph: Any) -> Graph:
    """The structure that an argument `graph` stands for."""
    if isinstance(graph, str) and graph == "chain":
        return Chain()
    if not isinstance(graph, Graph):
        raise TypeError(f"graph must be 'chain' or a structure such as Tree(), got {graph!r}")
    if getattr(graph, "boundary", False):
        raise ValueError("Chain(boundary=True): pass the scores of the ends as start and stop")
    if getattr(graph, "order", 1) != 1:
        raise ValueError(f"{graph}: an order above 1 is for estimators; here pairs have scores")
    graph.refuse_states("scores are those of labels")
    if getattr(graph, "node_types", None) is not None:
        raise ValueError(f"{graph}: node_types is for estimators; here nodes are of one type")
    if getattr(graph, "attractive", False):
        raise ValueError("attractive=True is for estimators, which keep their weights attractive")
    return graph


def is_plain_chain(graph: Graph) -> bool:
    """Return whether the problem of a structure needs no more than lengths."""
    return type(graph) is Chain and not graph.edge_features and not graph.rules


_masks = []  # the last few: (forbidden, number of labels, mask)


def forbidden_mask(forbidden, n_labels) -> TransitionMask:
    """Return the mask of forbidden steps; those of tuples, which are immutable, are cached."""
    for known, size, mask in list(_masks):
        if known is forbidden and size == n_labels:
            return mask
    rules = [forbidden] if isinstance(forbidden, str) else forbidden
    if isinstance(rules, (list, tuple)) and any(isinstance(rule, str) for rule in rules):
        raise ValueError(
            f"forbidden={forbidden!r}: here labels are numbers, so give pairs of them, None for an "
            "end; the layer CRF takes a scheme and the names of labels"
        )
    mask = transition_mask(forbidden, np.arange(n_labels))
    if forbidden is None or isinstance(forbidden, tuple):
        _masks.append((forbidden, n_labels, mask))
        del _masks[:-8]
    return mask


@lru_cache(8)
def _hamming(n_labels):
    """A cost matrix of 0 and 1."""
    return 1.0 - np.eye(n_labels)


def _costs(cost, n_labels):
    """The matrix of a task loss, and whether it is divided by the number of nodes."""
    if not (isinstance(cost, str) and cost in ("hamming", "normalized_hamming")):
        return cost_matrix(NamedLoss(cost, "cost"), np.arange(n_labels))
    return _hamming(n_labels), cost != "hamming"


def chain_task(graph, offsets, n_labels, codes, cost="hamming", n_best=1) -> Task:
    """Chains that share one table, without a detour: a batch may take less than its set-up."""
    n, n_samples, square = int(offsets[-1]), offsets.size - 1, n_labels * n_labels
    mask = forbidden_mask(graph.forbidden, n_labels)
    # Rounded up, so that batches of like lengths share their rooms.
    longest = 1 << int(np.diff(offsets).max() - 1).bit_length()
    key = "chain", n_labels, longest, n_best
    rows = np.arange(n + 1, dtype=np.int64)
    costs, normalize = _costs(cost, n_labels)

    def make_room():
        own = ChainScratch(
            viterbi_scratch(longest, n_labels, n_best),
            aligned(workspace_size(longest, n_labels), np.empty),
        )
        tables = TableScratch(row_scratch(((0, n_labels), (1, square))), *(np.zeros((0, 0)),) * 2)
        size = longest * n_labels + square
        theta, mu, augmented = (aligned(size, np.empty) for _ in range(3))
        return Room((tables, own), Scratch(theta, mu, np.empty(longest, dtype=np.int32)), augmented)

    def explain(i, layout):
        own = codes[offsets[i] : offsets[i + 1]].tolist()
        for t, step in enumerate(pairwise(own)):
            if np.isinf(mask.pairs[step]):
                at = layout.place(offsets[i] + t)[1]
                raise ValueError(f"labels: sample {i}, node {at} has the forbidden step {step}")
        for ends, label, which in ((mask.start, own[0], "first"), (mask.stop, own[-1], "last")):
            if np.isinf(ends[label]):
                what = f"has the label {label}, forbidden at its {which} node"
                raise ValueError(f"labels: sample {i} {what}")

    labels = NO_CODES if codes is None else codes
    n_tables, none = np.ones(n_samples, dtype=np.int64), np.empty((0, n_labels), dtype=np.uint8)
    feature_rows = BlockRows(
        nodes=SparseFeatures(np.ones(n), rows[:-1].astype(np.int32), rows, -1),
        edges=SparseFeatures(np.empty(0), np.empty(0, dtype=np.int32), rows[:2] * 0, 0),
        row_ptr=offsets,
        edge_ptr=np.zeros(n_samples + 1, dtype=np.int64),
        n_tables=n_tables,
        width=n_labels,
        n_free=0,
        pair_width=square,
        squares=np.empty(0),
        node_gram=not_stored(),
        pair_gram=not_stored(),
        work=None,
    )
    space = ChainSpace(
        part_ptr=offsets * n_labels + square * np.arange(n_samples + 1),
        label_ptr=offsets,
        shares_tables=1,
        n_tables=n_tables,
        width=square,
        transition_mask=mask.pairs,
        allowed=allowed_at_ends(mask, offsets) if mask.bounds_ends else none,
        own=(),
        work=None,
    )
    target = NodeCosts(offsets, labels, costs, int(normalize), UNWEIGHTED)
    problem = Problem.of(feature_rows, space, target, labels)
    return Task(problem, key, make_room, 3 * n * square, explain)


class _Reader(BaseEstimator):
    """Takes the numbers of features that structures set."""


def structured_task(graph, structure, offsets, n_columns, labels, cost, n_best) -> tuple:
    """Pack a batch for `labels` (codes of nodes, or y): a copy of the graph, pair shape, task."""
    graph, reader = clone(graph), _Reader()
    if graph.has_label_sets:
        graph.n_labels_ = n_columns
    if isinstance(graph, ItemGraph) and n_columns != 1:
        raise ValueError(
            f"scores of {type(graph).__name__} have one column, a number an item, got {n_columns}"
        )
    X = _dummies(graph, structure, offsets)
    codes = None
    if labels is None or isinstance(graph, PairwiseGraph):
        samples, codes = graph.read_X(reader, X, reset=True), labels
    else:
        samples, flat = graph.read_training(reader, X, labels)
    classes = _classes(graph, n_columns, samples)
    if labels is not None and codes is None:
        codes = graph.encode(flat, classes, samples.offsets)
    samples = rows_as_scores(samples)
    shape = graph.weight_shapes(samples, n_columns if graph.has_label_sets else len(classes), False)
    options = {} if codes is None else {"codes": codes, "loss": NamedLoss(cost, "cost")}
    problem = graph.make_problem(samples, classes, False, n_best=n_best, **options)

    def make_room():
        own, room = scratch_of(private_copy(problem)), make_scratch(problem)
        return Room(tuple(own), room, aligned(room.theta.size, np.empty))

    flops = 8 * int(problem.part_ptr[-1])
    return graph, shape[1], Task(problem, None, make_room, flops, lambda i, layout: None)


def _classes(graph, n_columns, samples):
    """Return labels as numbers from 0, the form of structures."""
    if isinstance(graph, ItemGraph):
        return np.array([0, 1])
    if not graph.has_label_sets:
        return np.arange(n_columns)
    if isinstance(graph.edges, str) and graph.edges == "tree":
        raise ValueError('edges="tree" is learnt from the labels of fit: here give the edges')
    none = np.zeros(samples.lengths.size * n_columns, dtype=np.int64)
    return graph.find_classes(none, samples)


def _dummies(graph, structure, offsets):
    """Samples of X with one feature that is 0, with the parts of each from `structure`."""
    counts = np.diff(offsets).tolist()
    if graph.is_table:
        if any(count != 1 for count in counts):
            raise ValueError(f"samples of {type(graph).__name__} have one row of scores each")
        return np.zeros((len(counts), 1))
    needs = isinstance(graph, Tree | Pairwise | Matching) or getattr(graph, "edge_features", False)
    if structure is None:
        if needs:
            raise ValueError(
                f"structure is missing: {type(graph).__name__} needs what stands beside the "
                "features in each sample of X, such as parents, edges or (height, width)"
            )
        return [np.zeros((count, 1)) for count in counts]
    if not isinstance(structure, Iterable) or len(structure) != len(counts):
        raise ValueError(
            f"structure must have one entry a sample, of which there are {len(counts)}"
        )
    if isinstance(graph, Grid):
        return [_image(graph, item, counts[i], i) for i, item in enumerate(structure)]
    several = isinstance(graph, Tree | Pairwise) and graph.edge_features
    parts = structure if several else [(item,) for item in structure]
    return [(np.zeros((count, 1)), *part) for count, part in zip(counts, parts, strict=True)]


def _image(graph, item, count, i):
    """A dummy image."""
    if isinstance(graph.edge_features, str):
        raise ValueError('edge_features="contrast" needs features: pass edge features of your own')
    size = item[0] if graph.edge_features else item
    if len(size) != 2 or int(size[0]) * int(size[1]) != count:
        raise ValueError(
            f"structure: sample {i} must be (height, width) of its {count} pixels, got {size!r}"
        )
    image = np.zeros((int(size[0]), int(size[1]), 1))
    return (image, item[1]) if graph.edge_features else image
