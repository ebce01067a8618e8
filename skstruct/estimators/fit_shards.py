"""fit on shards: the problems of shards, which workers read and the driver does not."""

from __future__ import annotations

import copy
import uuid

import numpy as np
from joblib import hash as hash_of

from ..core.gram import Gram, not_stored
from ..core.jit.cache_key import closure, digest
from ..core.sklearn_private import CALLBACKS
from ..data.matrices import csr_from_parts
from ..distributed.checkpoint import Keeper
from ..distributed.engine import Engine, EngineGone
from ..distributed.shard import ShardProblem, close_shards, inference_of
from ..graphs.registry import known_kind
from ..shards.reading import fitting
from .early_stopping import EarlyStopping
from .prediction import for_workers
from .training_data import TrainingData, check_labellings, regulariser

# Bytes of files that are mapped. Processes keep many parts open, and may not have many files open.
_MAPPED = 1 << 22


_INFERENCE = "inference_", "training_inference_", "method_"


class ShardSource:
    """Opens shards as parts of a problem; see :mod:`skstruct.distributed.shard`."""

    def __init__(self, shards, model, keeps_grams: bool = False, class_factors=None):
        self.shards, self.keeps_grams, self.class_factors = shards, keeps_grams, class_factors
        self.token = uuid.uuid4().hex
        self.n_shards, self.n_features = shards.n_shards, shards.n_features_in_
        self.n_samples = len(shards)
        # Lanes of structural SVMs take all weights, so that their shards have one numbering.
        self.is_whole = getattr(model, "_blocks", None) is not None
        self.total = float(shards.weight_sums.sum())
        # About those of all shards in memory, dual points included.
        k, counts = len(model.classes_), (shards.n_entries, shards.n_nodes, shards.n_samples)
        entries, nodes, samples = (int(count.sum()) for count in counts)
        self.n_bytes = 16 * entries + 8 * (k + 10) * nodes + 8 * (k * k + 250) * samples
        self.model = for_workers(model)

    def columns(self, k: int) -> np.ndarray | None:
        """Rows of the weights that a shard uses, or None for all of them."""
        return None if self.is_whole else self.shards.columns(k)

    def open(self, k: int) -> ShardProblem:
        """Build the problem of a shard, over its files."""
        # A model of its own, since what it publishes is of this shard.
        shard, model = self.shards.open(k, map_from=_MAPPED), copy.copy(self.model)
        if self.is_whole:
            shard = _renumbered(shard, self.n_features)
        n, first = shard.sample_weight.size, int(self.shards.n_samples[:k].sum())
        check_labellings(
            model.graph_, shard.codes, shard.samples, model.classes_, np.arange(first, first + n)
        )
        weight = shard.sample_weight * (self.n_samples / self.total)
        data = TrainingData(shard.samples, shard.codes, weight, np.inf, np.arange(n))
        if self.class_factors is not None:
            true = self.class_factors[0, data.codes]
            weights = model._loss_weights(np.ones(true.size), self.class_factors, true, data.codes)
            data = data._replace(loss_weights=weights)
        made = model._make_problem(data)
        problem, *more = made if type(made) is tuple else (made,)
        if not self.keeps_grams:
            rows = problem.rows._asdict().items()
            grams = {f: not_stored() for f, v in rows if isinstance(v, Gram)}
            problem = problem._replace(rows=problem.rows._replace(**grams))
        n_classes = len(model.classes_)
        shapes = model.graph_.weight_shapes(shard.samples, n_classes, model._has_intercept)
        loss = model._loss_at(problem, data)
        inference = {name: vars(model)[name] for name in _INFERENCE if name in vars(model)}
        problem = (problem, *more) if more else problem
        return ShardProblem(problem, loss, shapes, weight, {}, inference)


def _renumbered(shard, n_features):
    """Return a shard whose features have the numbers that they have in all shards."""
    if shard.columns is None:
        return shard
    X = shard.samples.features
    indices = shard.columns.astype(np.int32)[X.indices]
    X = csr_from_parts((X.shape[0], n_features), X.data, indices, X.indptr)
    return shard._replace(samples=shard.samples._replace(features=X))


def _refuse(model, shards, given):
    """Reject arguments and parameters that shards do not support."""
    model._refuse_shards(shards)
    name = type(model).__name__
    for argument, value in given.items():
        if value is not None:
            kind = {"y": "labels", "sample_weight": "sample weights"}.get(argument)
            why = f"the shards have {kind}" if kind else "it is not for shards"
            raise ValueError(f"{name}.fit(Shards): {argument} must be None, {why}")
    if shards.classes is None:
        raise ValueError(f"{name}.fit(Shards): the shards have no labels")
    if len(shards.classes) < 2:
        only = list(shards.classes)
        raise ValueError(f"{name} needs at least two classes, but the shards have only {only}")
    weighs = getattr(model, "class_weight", None) is not None
    if weighs and (shards.graph.is_table or not shards.graph.has_node_weights):
        raise ValueError(
            f"{name}.fit(Shards): class_weight must be None for {type(shards.graph).__name__}; "
            "weigh samples where shards are packed"
        )
    if any(isinstance(c, EarlyStopping) for c in getattr(model, CALLBACKS, ())):
        raise ValueError(
            f"{name}.fit(Shards): EarlyStopping holds out samples of X in memory, and is not for "
            "shards"
        )


def _class_factors(model, shards):
    """Return the class weights, or None; wrong ones are refused before training."""
    class_weight = getattr(model, "class_weight", None)
    if class_weight is None:
        return None
    codes = np.arange(len(shards.classes))
    counts = shards.label_weights() if isinstance(class_weight, str) else np.ones(codes.size)
    _, class_factors = model.graph_.read_class_weight(class_weight, shards.classes, codes, counts)
    model._loss_weights(np.ones(codes.size), class_factors, class_factors[0], codes)
    if not class_factors[0, shards.label_weights() > 0].any():
        raise ValueError("class_weight leaves no node of nonzero weight")
    return class_factors


def fit_shards(model, shards, given, checkpoint):
    """Train on shards."""
    _refuse(model, shards, given)
    new = model._unfitted()
    new.classes_, graph = shards.classes, known_kind(model.graph)
    if graph is None:  # "auto"
        graph = copy.deepcopy(shards.graph)
    else:
        graph = fitting(shards.graph, graph() if isinstance(graph, type) else graph)
    graph.refuse_states("training on Shards needs the state of each node")
    new.graph_ = graph.suited(new._takes_relaxations, new._needs_marginals)
    new._has_intercept = bool(model.fit_intercept)
    new.n_features_in_ = shards.n_features_in_
    if shards.n_edge_features_in_ is not None:
        new.n_edge_features_in_ = shards.n_edge_features_in_
    new._take_names((shards.feature_names, shards.edge_feature_names))
    source = ShardSource(shards, new, new._multiplies_rows, _class_factors(new, shards))
    if new.graph_.learns:
        for k in range(source.n_shards):
            shard = shards.open(k, map_from=_MAPPED)
            new.graph_.learn(np.asarray(shard.codes), shard.samples.offsets, new.classes_)
    lam = regulariser(new, source.n_samples, source.total)
    none = new.graph_.no_samples(new)
    shapes = new.graph_.weight_shapes(none, len(new.classes_), new._has_intercept)
    previous = model if getattr(model, "warm_start", False) else None
    start = new._start(previous, None, shapes)
    keeper = None if checkpoint is None else Keeper(checkpoint, _fingerprint(new, shards, start))
    try:
        context, common = model._begin(new, shards, None)
        common |= {"lam": lam, "start": start, "keeper": keeper}
        result = _train(new, source, shapes, common)
        return model._become(new, result, context, shards, None)
    finally:
        close_shards(source)
        if keeper is not None:
            keeper.close()


def _train(new, source, shapes, common):
    """Train in rounds; errors of workers and disks report what is saved."""
    try:
        with Engine(new.n_jobs, source.n_shards) as engine:
            result = new._train_rounds(source, engine, shapes, **common)
            # Workers chose it: where it depends on the samples, all of them; the weakest is told.
            chosen = "inference" in new.graph_.get_params(deep=False)
            shards = range(source.n_shards if chosen else 1)
            ways = engine.map(inference_of, shards, lambda k: (source, k))
            vars(new).update(max(ways, key=lambda way: [way[name] for name in _INFERENCE[:2]]))
        return result
    except EngineGone as error:
        raise EngineGone(f"{error}; {_what_is_safe(common['keeper'])}") from error
    except OSError as error:
        text = f"{error.strerror or error}; {_what_is_safe(common['keeper'])}"
        raise OSError(error.errno, text) from error


# Parameters that change nothing but where a training ends, and how fast it is.
_FREE = {"max_iter", "tol", "n_jobs", "verbose", "warm_start", "track_objective", "precision"}


def _fingerprint(new, shards, start):
    """Return hashes of all that the weights depend on, by name."""
    parameters = {k: v for k, v in new.get_params(deep=False).items() if k not in _FREE}
    parameters["graph"] = (type(new.graph_).__qualname__, new.graph_.get_params(deep=False))
    state = parameters.get("random_state")
    if isinstance(state, np.random.RandomState):
        parameters["random_state"] = state.get_state()
    known = {name: hash_of(value) for name, value in parameters.items()}
    known |= {"shards": shards.fingerprint, "estimator": type(new).__qualname__}
    known["code of the model"] = _code_of(type(new), type(new.graph_), *parameters.values())
    known["weights of the warm start"] = "none"
    if start is not None:
        known["weights of the warm start"] = hash_of(start.tables)
    return known


def _code_of(*parts):
    """Hash of the sources of a model's parts: bounds of other code may not hold."""
    modules = {getattr(part, "__module__", None) or type(part).__module__ for part in parts}
    return digest(closure(sorted(modules))[0]) or "unknown"


def _what_is_safe(keeper):
    """Return the end of the message of a fatal error: what is saved."""
    text = "the model is as it was before fit"
    if keeper is None:
        return f"{text}, and without checkpoint nothing of this training is kept"
    if not keeper.safe:
        return f"{text}, and no round was saved in {keeper.folder} yet"
    return (
        f"{text}, and round {keeper.safe} is safe in {keeper.folder}: fit with this checkpoint "
        "goes on from there"
    )
