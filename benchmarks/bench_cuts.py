"""Minimum cuts and roof duals beside PyMaxflow and thinqpbo, in one run.

    python benchmarks/bench_cuts.py [--data FOLDER] [--json OUT] [--parts images dynamic cuts ...]

FOLDER holds ``map_models/``; peers are measured where they are installed
(``pip install PyMaxflow thinqpbo``). CPU milliseconds, the smallest of several runs; totals begin
with arrays of scores and end with labels. Ratios are ours over theirs.
"""

from __future__ import annotations

import argparse
import json
import time
from functools import partial
from pathlib import Path

import numpy as np
from scipy.ndimage import gaussian_filter

from skstruct.inference.max_flow import (
    SOURCE,
    TREE,
    WHICH,
    WIDTH,
    continue_flow,
    empty_forest,
    empty_network,
    link,
    max_flow,
)
from skstruct.inference.qpbo import Switcher
from skstruct.inference.quadratic_cut import level_work, quadratic_cut
from skstruct.map_inference import FactorGraph, Potts, read_uai, solve_map
from skstruct.map_inference.cuts import expand
from skstruct.map_inference.graph import pairs_of

try:
    import maxflow
except ImportError:
    maxflow = None
try:
    import thinqpbo
except ImportError:
    thinqpbo = None

_SIZES = {(96, 64): 20, (256, 256): 5, (512, 512): 4, (1024, 1024): 2}


def smallest(function, n_runs):
    """The last result, and the smallest CPU milliseconds of some runs after a first one."""
    function()
    times = []
    for _ in range(n_runs):
        start = time.process_time()
        result = function()
        times.append(1e3 * (time.process_time() - start))
    return result, min(times)


def image(h, w, strength):
    """Smoothed noise with white noise, and couplings of 4 neighbours (the peers' measurements)."""
    rng = np.random.default_rng(0)
    excess = gaussian_filter(rng.normal(size=(h, w)), 6)
    excess = excess / excess.std() + 0.8 * rng.normal(size=(h, w))
    across, down = strength * rng.uniform(0.5, 1.5, size=(2, h, w))
    across[:, -1] = down[-1] = 0.0
    return excess, across, down


def edges_of(across, down):
    """Ends and weights of the edges of an image."""
    at = np.arange(across.size, dtype=np.int32).reshape(across.shape)
    tail = np.concatenate([at[:, :-1].ravel(), at[:-1].ravel()])
    head = np.concatenate([at[:, 1:].ravel(), at[1:].ravel()])
    return tail, head, np.concatenate([across[:, :-1].ravel(), down[:-1].ravel()])


def our_cut(excess, across, down):
    """Value and side of the cut of an image, with our kernels."""
    tail, head, weight = edges_of(across, down)
    n = excess.size
    network, forest = empty_network(n, 2 * tail.size), empty_forest(n)
    network.excess[:] = excess.ravel()
    link(n, tail, head, weight, weight, network)
    flow = max_flow(n, network, forest)
    return flow, (forest.node[TREE::WIDTH] & WHICH == SOURCE).astype(np.uint8)


def their_cut(excess, across, down):
    """The same with PyMaxflow."""
    graph = maxflow.Graph[float](excess.size, 2 * excess.size)
    nodes = graph.add_grid_nodes(excess.shape)
    for weights, neighbour in ((across, (1, 2)), (down, (2, 1))):
        structure = np.zeros((3, 3))
        structure[neighbour] = 1
        graph.add_grid_edges(nodes, weights=weights, structure=structure, symmetric=True)
    graph.add_grid_tedges(nodes, np.maximum(excess, 0), np.maximum(-excess, 0))
    return graph.maxflow(), ~graph.get_grid_segments(nodes).ravel()


def images():
    """Cuts of images: kernels, and whole factor graphs by `solve_map`."""
    for strength in (0.5, 2.0):
        for (h, w), n_runs in _SIZES.items():
            problem = image(h, w, strength)
            tail, head, weight = edges_of(*problem[1:])
            unaries = np.stack([np.zeros(h * w), problem[0].ravel()], axis=1).ravel()
            graph = FactorGraph(np.full(h * w, 2), [Potts(tail, head, weight)], unaries=unaries)
            (flow, side), ours = smallest(lambda p=problem: our_cut(*p), n_runs)
            result, whole = smallest(lambda g=graph: solve_map(g, "max-flow"), n_runs)
            row = {"strength": strength, "size": f"{h}x{w}", "kernels": ours, "solve_map": whole}
            assert result.optimal
            if maxflow is not None:
                (value, segments), theirs = smallest(lambda p=problem: their_cut(*p), n_runs)
                assert np.isclose(flow, value)
                row |= {"pymaxflow": theirs, "ratio": ours / theirs, "map_ratio": whole / theirs}
                row["differences"] = int((segments != side).sum())
            yield row


def cuts(folder):
    """Attractive models: from a factor graph to labels."""
    for path in sorted((folder / "segmentation").glob("*binary*")):
        graph = read_uai(path)
        result, whole = smallest(lambda g=graph: solve_map(g, "max-flow"), 10)
        off, on = np.zeros(graph.n_variables, np.int64), graph.n_states - 1
        pairs = pairs_of(graph)
        _, ours = smallest(lambda p=pairs, o=off, i=on: Switcher(p).solve(o, i), 10)
        row = {"model": path.name, "score": result.score, "kernels": ours, "solve_map": whole}
        if maxflow is not None:
            row["pymaxflow"] = smallest(lambda g=graph: _cut_of_tables(g), 10)[1]
            row["ratio"] = ours / row["pymaxflow"]
        yield row


def _cut_of_tables(graph):
    """Labels by PyMaxflow; all factors are tables of two variables."""
    unary = graph.unary.reshape(-1, 2).copy()
    ends = np.concatenate([f.scopes for f in graph.factors])
    tables = np.concatenate([np.broadcast_to(f.tables, (len(f), 2, 2)) for f in graph.factors])
    t00, t01, t10, t11 = tables.reshape(-1, 4).T
    for k, gain in ((0, t10 + t11 - t00 - t01), (1, t01 + t11 - t00 - t10)):
        np.add.at(unary[:, 1], ends[:, k], 0.5 * gain)
    weight = np.maximum(0.5 * (t00 + t11 - t01 - t10), 0.0)
    excess, net = unary[:, 1] - unary[:, 0], maxflow.Graph[float](len(unary), len(ends))
    nodes = net.add_nodes(len(unary))
    net.add_edges(ends[:, 0], ends[:, 1], weight, weight)
    net.add_grid_tedges(nodes, np.maximum(excess, 0), np.maximum(-excess, 0))
    net.maxflow()
    return ~net.get_grid_segments(nodes)


def roof(folder):
    """Roof duals: bound, and how many variables are labelled."""
    for path in sorted([*(folder / "dbn").glob("*"), *(folder / "grids").glob("*")]):
        graph = read_uai(path)
        result, whole = smallest(lambda g=graph: solve_map(g, "roof-dual"), 5)
        off, on = np.zeros(graph.n_variables, np.int64), graph.n_states - 1
        pairs = pairs_of(graph)
        found, ours = smallest(lambda p=pairs, o=off, i=on: Switcher(p).solve(o, i), 5)
        row = {"model": path.name, "bound": result.bound, "kernels": ours, "solve_map": whole}
        row["labelled"] = (found.states != 2).mean()
        if thinqpbo is not None:
            tables = [(*map(int, s), *t) for s, t in _pair_energies(graph)]
            unaries = (-graph.unary.reshape(-1, 2)).tolist()
            bound, total = smallest(lambda u=unaries, t=tables: _roof_dual(u, t), 5)
            assert np.isclose(found.bound + graph.offset, -bound)
            row |= {"thinqpbo": total, "ratio": ours / total}
        yield row


def _pair_energies(graph):
    for batch in graph.factors:
        tables = np.broadcast_to(batch.tables, (len(batch), 2, 2)).reshape(-1, 4)
        yield from zip(batch.scopes, (-tables).tolist(), strict=True)


def _roof_dual(unaries, tables):
    """Bound of the energies by thinqpbo, which also labels."""
    solver = thinqpbo.QPBODouble(len(unaries), len(tables))
    solver.add_node(len(unaries))
    for v, (off, on) in enumerate(unaries):
        solver.add_unary_term(v, off, on)
    for row in tables:
        solver.add_pairwise_term(*row)
    solver.solve()
    solver.compute_weak_persistencies()
    [solver.get_label(v) for v in range(len(unaries))]
    return 0.5 * solver.compute_twice_lower_bound()


def moves(folder):
    """Alpha-expansion from the best label of each variable alone."""
    names = ("segmentation/*21*", "object_detection/*", "protein/*", "scene/*")
    for path in sorted(path for name in names for path in folder.glob(name)):
        graph = read_uai(path)
        rows = np.split(graph.unary, graph.state_ptr[1:-1])
        labels = np.array([row.argmax() for row in rows])
        moved, spent = smallest(lambda g=graph, y=labels: expand(g, y, np.random.default_rng(0)), 3)
        yield {
            "model": path.name,
            "before": graph.score(labels),
            "after": graph.score(moved),
            "expand": spent,
        }


def dynamic():
    """A solved image after changes of some pixels, beside a flow from nothing."""
    rng = np.random.default_rng(0)
    excess, across, down = image(512, 512, 2.0)
    tail, head, weight = edges_of(across, down)
    n = excess.size
    network, forest = empty_network(n, 2 * tail.size), empty_forest(n)
    network.excess[:] = excess.ravel()
    link(n, tail, head, weight, weight, network)
    max_flow(n, network, forest)
    _, anew = smallest(lambda: our_cut(excess, across, down), 2)
    for n_changed in (1, 10, 100, 1000, 10000):
        times = []
        for _ in range(6):
            changed = rng.permutation(n)[:n_changed].astype(np.int32)
            network.excess[changed] += rng.normal(size=n_changed)
            start = time.process_time()
            continue_flow(n, network, forest, changed)
            times.append(1e3 * (time.process_time() - start))
        yield {"changed": n_changed, "continued": float(np.median(times[1:])), "anew": anew}


def projections():
    """Euclidean projections of images beside a maximum flow of the same scores."""
    for h, w in ((96, 64), (256, 256)):
        excess, across, down = image(h, w, 0.5)
        tail, head, weight = edges_of(across, down)
        state = excess.size, tail, head, weight
        room = empty_network(excess.size, 2 * tail.size), empty_forest(excess.size)
        degree = np.bincount(np.append(tail, head), minlength=excess.size)
        _, flow = smallest(partial(_flow, excess.ravel(), state, *room), 5)
        for temperature in (1e-3, 0.1, 1.0, 10.0):
            # The norm weighs a node with its edges, as in `general.cut_projection`.
            weights = temperature * (1.0 + degree)
            x, ours = smallest(partial(_project, excess.ravel(), weights, state, *room), 3)
            row = {"size": f"{h}x{w}", "temperature": temperature, "levels": np.unique(x).size}
            yield row | {"flow": flow, "projection": ours, "ratio": ours / flow}


def _flow(gains, state, network, forest):
    """A maximum flow; laying the network counts, as in a training visit."""
    n, tail, head, weight = state
    link(n, tail, head, weight, weight, network)
    network.excess[:] = gains
    return max_flow(n, network, forest)


def _project(gains, weights, state, network, forest):
    """The shares of label 1."""
    n, tail, head, weight = state
    link(n, tail, head, weight, weight, network)
    network.excess[:] = gains + weights
    x = np.empty(n)
    quadratic_cut(n, 2.0 * weights, network, forest, level_work(n), x)
    return x


def main():
    """Print a line for each measurement."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--json", type=Path)
    parser.add_argument(
        "--parts",
        nargs="*",
        default=["images", "dynamic", "projections", "cuts", "roof", "moves"],
    )
    given = parser.parse_args()
    alone = {"images": images, "dynamic": dynamic, "projections": projections}
    on_models = {"cuts": cuts, "roof": roof, "moves": moves}
    everything = {}
    for part in given.parts:
        if part in on_models and given.data is None:
            print(f"{part}: needs --data")
            continue
        rows = alone[part]() if part in alone else on_models[part](given.data / "map_models")
        everything[part] = []
        for row in rows:
            everything[part].append(row)
            cells = (f"{k} {v:.6g}" if isinstance(v, float) else f"{k} {v}" for k, v in row.items())
            print(f"{part}: " + ", ".join(cells), flush=True)
    if given.json:
        given.json.write_text(json.dumps(everything, indent=1))


if __name__ == "__main__":
    main()
