"""Other solvers of MAP problems, where they are installed, on skstruct's factor graphs."""

from __future__ import annotations

import contextlib
import time

import numpy as np
from scipy import sparse
from scipy.optimize import linprog

from skstruct.map_inference import Table


def lp_value(graph):
    """The value of the relaxation over variables and pairs, by HiGHS; pairwise models only."""
    ptr, n = graph.state_ptr, int(graph.state_ptr[-1])
    costs, rows, columns, values, n_rows, n_columns = [-graph.unary], [], [], [], 0, n
    rows.append(np.repeat(np.arange(graph.n_variables), graph.n_states))
    columns.append(np.arange(n))
    values.append(np.ones(n))
    n_rows = graph.n_variables
    for batch in graph.factors:
        if not isinstance(batch, Table) or batch.arity != 2:
            raise ValueError("pairs of variables with tables only")
        for scope, table in zip(
            batch.scopes, np.broadcast_to(batch.tables, (len(batch), *batch.tables.shape[1:]))
            , strict=True,
        ):  # fmt: skip
            cells = n_columns + np.arange(table.size).reshape(table.shape)
            for axis, v in enumerate(scope):
                states = np.arange(table.shape[axis])
                rows += [n_rows + np.indices(table.shape)[axis].ravel(), n_rows + states]
                columns += [cells.ravel(), ptr[v] + states]
                values += [np.ones(table.size), -np.ones(states.size)]
                n_rows += states.size
            costs.append(-table.ravel())
            n_columns += table.size
    costs = np.concatenate(costs)
    equal = sparse.csr_matrix(
        (np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))),
        shape=(n_rows, n_columns),
    )
    right = np.zeros(n_rows)
    right[: graph.n_variables] = 1.0
    bounds = np.column_stack([np.zeros(n_columns), np.where(np.isfinite(costs), np.inf, 0.0)])
    found = linprog(np.where(np.isfinite(costs), costs, 0.0), A_eq=equal, b_eq=right, bounds=bounds)
    return graph.offset - found.fun


def _pair_tables(graph):
    for batch in graph.factors:
        if not isinstance(batch, Table) or batch.arity != 2:
            return None
    pairs = [
        (int(i), int(j), table)
        for batch in graph.factors
        for (i, j), table in zip(
            batch.scopes, np.broadcast_to(batch.tables, (len(batch), *batch.tables.shape[1:]))
            , strict=True,
        )
    ]  # fmt: skip
    return pairs


def toulbar2(graph, time_limit):
    """Score and seconds of toulbar2, or None; tables only."""
    import pytoulbar2

    if not all(isinstance(batch, Table) for batch in graph.factors):
        return None
    start = time.process_time()
    network = pytoulbar2.CFN(1e9, resolution=6)
    for v, n in enumerate(graph.n_states.tolist()):
        network.AddVariable(f"x{v}", range(n))
    shift = graph.offset
    rows = [([v], row) for v, row in enumerate(np.split(graph.unary, graph.state_ptr[1:-1]))]
    for batch in graph.factors:
        tables = np.broadcast_to(batch.tables, (len(batch), *batch.tables.shape[1:]))
        rows += zip(batch.scopes.tolist(), tables, strict=True)
    for scope, scores in rows:
        best = scores.max()
        shift += best
        costs = np.where(np.isfinite(scores), best - scores, 1e8).ravel().tolist()
        network.AddFunction([f"x{v}" for v in scope], costs)
    network.CFN.timer(int(time_limit))
    found = network.Solve()
    labels = None if found is None else np.asarray(found[0])
    return labels, time.process_time() - start


def pymaxflow(graph):
    """Labels and seconds of PyMaxflow, or None where the pairs do not all attract."""
    import maxflow

    pairs = _pair_tables(graph)
    if pairs is None or (graph.n_states != 2).any() or not np.isfinite(graph.unary).all():
        return None
    unary = graph.unary.reshape(-1, 2).copy()
    i, j = (np.array([pair[end] for pair in pairs]) for end in (0, 1))
    t = np.array([pair[2] for pair in pairs])
    coupling = t[:, 0, 0] + t[:, 1, 1] - t[:, 0, 1] - t[:, 1, 0]
    if not (coupling >= 0).all():
        return None
    start = time.process_time()
    np.add.at(unary[:, 1], i, t[:, 1, 0] - t[:, 0, 0])
    np.add.at(unary[:, 1], j, t[:, 1, 1] - t[:, 1, 0])
    flow = maxflow.GraphFloat(graph.n_variables, i.size)
    nodes = flow.add_nodes(graph.n_variables)
    flow.add_edges(i, j, coupling, np.zeros(i.size))
    difference = unary[:, 1] - unary[:, 0]
    flow.add_grid_tedges(nodes, np.maximum(-difference, 0), np.maximum(difference, 0))
    flow.maxflow()
    labels = flow.get_grid_segments(nodes).astype(np.int64)
    return labels, time.process_time() - start


def thinqpbo(graph):
    """The share of variables that roof duality labels, and seconds; None for other models."""
    import thinqpbo

    pairs = _pair_tables(graph)
    if pairs is None or (graph.n_states != 2).any() or not np.isfinite(graph.unary).all():
        return None
    start = time.process_time()
    solver = thinqpbo.QPBODouble()
    solver.add_node(graph.n_variables)
    for v, (zero, one) in enumerate(-graph.unary.reshape(-1, 2)):
        solver.add_unary_term(v, zero, one)
    for i, j, table in pairs:
        solver.add_pairwise_term(i, j, *(-table).ravel().tolist())
    solver.solve()
    solver.compute_weak_persistencies()
    labels = np.array([solver.get_label(v) for v in range(graph.n_variables)])
    return float((labels >= 0).mean()), time.process_time() - start


PEERS = {"toulbar2": toulbar2, "PyMaxflow": pymaxflow, "thinqpbo": thinqpbo}


def run_peers(graph, names, time_limit):
    """What each peer finds: the score (of thinqpbo the share it labels) and seconds."""
    found = {}
    for name in names:
        with contextlib.suppress(ImportError):
            arguments = (graph, time_limit) if name == "toulbar2" else (graph,)
            answer = PEERS[name](*arguments)
            if answer is None:
                continue
            value, seconds = answer
            if isinstance(value, np.ndarray):
                value = float(graph.score(value))
            found[name] = {"value": value, "seconds": seconds}
    return found
