"""MAP inference: the figures of Meshi, Mahdavi, Schwing (2015), and every model with an optimum.

    python benchmarks/bench_map.py --data FOLDER [--tasks ...] [--quick] [--json FILE]

FOLDER holds ``map_models/`` and ``horses/``; ``--optima``, by default
``FOLDER/../design/map-optima.tsv``, says what exact solvers, the linear program and AD3 reach on
each model. Tasks:

stuck    as in figure 1, but on a random model of eight variables: coordinate descent without
         smoothing stops above the LP
protein  as in figure 2, left: 1aie (Yanover, Meltzer, Weiss 2006), all methods, bound and decoded
         score by passes, with gamma and lambda 0.1, ten times the paper's
horses   as in figure 2, right (Borenstein, Sharon, Ullman 2004), on small images: unaries, pairs
         and one cardinality factor; on how many images each of three methods has the best score
models   ``solve_map`` of every model, beside the columns of the file; ``--peers`` also runs those
         of pytoulbar2, PyMaxflow and thinqpbo that are installed

Seconds are CPU seconds; every kernel was run once before.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from pathlib import Path

import numba
import numpy as np
from map_peers import PEERS, lp_value, run_peers
from map_tasks import HorseModel, horses, known_optima, read_model, stuck

from skstruct.map_inference import solve_map

# At these passes the curves are printed.
_PASSES = (1, 3, 10, 30, 100, 300, 1000, 3000)


def methods(gamma, lam):
    """Relaxations of Table 1, then three that are not in the paper, by the names of rows."""
    soft, l2 = {"smoothing": "softmax", "gamma": gamma}, {"smoothing": "l2", "gamma": gamma}
    strong = {"gamma": gamma, "lam": lam}
    return {
        "subgradient": ("subgradient", {}),
        "MPLP": ("coordinate-descent", {"smoothing": 0.0}),
        f"CD, soft-max {gamma:g}": ("coordinate-descent", soft),
        f"CD, L2 {gamma:g}": ("coordinate-descent", l2),
        f"gradient, soft-max {gamma:g}": ("gradient", soft),
        f"gradient, L2 {gamma:g}": ("gradient", l2),
        f"AGD, soft-max {gamma:g}": ("accelerated-gradient", soft),
        f"AGD, L2 {gamma:g}": ("accelerated-gradient", l2),
        f"Frank-Wolfe, lambda {lam:g}": ("frank-wolfe", {"lam": lam}),
        f"SDCA, gamma {gamma:g}, lambda {lam:g}": ("sdca", strong),
        f"AGD, gamma {gamma:g}, lambda {lam:g}": ("strong-accelerated", strong),
        f"accelerated SDCA, gamma {gamma:g}, lambda {lam:g}": (
            "sdca",
            strong | {"accelerated": True},
        ),
        f"entropy SDCA, gamma {gamma:g}, lambda {lam:g}": (
            "sdca",
            strong | {"smoothing": "softmax"},
        ),
        f"gradient, gamma {gamma:g}, lambda {lam:g}": ("strong-gradient", strong),
        f"strong subgradient, lambda {lam:g}": ("subgradient", {"lam": lam}),
        "augmented Frank-Wolfe": ("frank-wolfe", {"augmented": True}),
        "decreasing smoothing": ("decreasing-smoothing", {}),
        "TRW-S": ("trws", {}),
    }


def solve(graph, method, **options):
    """A result and its CPU seconds."""
    start = time.process_time()
    result = solve_map(graph, method, random_state=0, **options)
    return result, time.process_time() - start


def at_passes(history, key, wanted):
    """What a curve had reached after so many passes; blank behind its end."""
    passes = np.asarray(history["passes"])
    place = np.searchsorted(passes, wanted, side="right") - 1
    return history[key][place] if place >= 0 and passes[-1] >= 0.9 * wanted else np.nan


def curves(graph, chosen, max_iter, reference):
    """Run methods on one model; print their curves as distances from a reference."""
    shown = [p for p in _PASSES if p <= max_iter]
    print("Bound minus reference | score minus reference, by passes:\n")
    print(f"| method | {' | '.join(map(str, shown))} | end | passes | s | proved |")
    print(f"|---|{'--:|' * (len(shown) + 4)}")
    rows = {}
    for name, (method, parameters) in chosen.items():
        solve(graph, method, max_iter=1, tol=0.0, **parameters)
        result, seconds = solve(graph, method, max_iter=max_iter, tol=1e-9, **parameters)
        history = result.history_
        cells = [
            f"{at_passes(history, 'bound', p) - reference:.3g} "
            f"{at_passes(history, 'score', p) - reference:.3g}".replace("nan nan", "")
            for p in shown
        ]
        print(
            f"| {name} | {' | '.join(cells)} | {result.bound - reference:.3g} "
            f"{result.score - reference:.3g} | {result.n_iter} | {seconds:.2f} | "
            f"{'yes' if result.optimal else ''} |",
            flush=True,
        )
        rows[name] = {
            "bound": result.bound,
            "score": result.score,
            "seconds": seconds,
            "history": {key: np.asarray(values).tolist() for key, values in history.items()},
        }
    return rows


def run_stuck(args):
    """Figure 1: which methods reach the LP's value."""
    graph = stuck()
    lp = lp_value(graph)
    best = solve_map(graph, "branch-and-bound" if args.exact else "auto", time_limit=20)
    print(f"\n## Stuck: {graph}, LP {lp:.6f}, best score {best.score:.6f}\n")
    rows = curves(graph, methods(0.01, 0.1), 300 if args.quick else 3000, lp)
    return {"lp": lp, "best": best.score, "curves": rows}


def run_protein(args):
    """Figure 2, left."""
    graph = read_model(args.data / "map_models/protein/1aie.uai.xz")
    found = solve_map(graph, time_limit=20)
    if not found.optimal:
        raise RuntimeError("the optimum of the protein was not proved in 20 s")
    best = found.score
    print(f"\n## Protein 1aie: {graph}, optimum {best:.6f} (the LP is tight)\n")
    rows = curves(graph, methods(0.1, 0.1), 100 if args.quick else 1000, best)
    return {"optimum": best, "curves": rows}


def run_horses(args):
    """Figure 2, right: on how many images each method has the best score."""
    learn, infer = horses(args.data)
    start = time.process_time()
    model = HorseModel().fit(learn)
    seconds = time.process_time() - start
    n_images = min(len(infer), 3 if args.quick else args.images)
    chosen = {
        "subgradient": ("subgradient", {}),
        "MPLP": ("coordinate-descent", {"smoothing": 0.0}),
        f"Frank-Wolfe, lambda {args.lam:g}": ("frank-wolfe", {"lam": args.lam}),
    }
    passes = 20 if args.quick else args.passes
    print(f"\n## Horses: learned in {seconds:.1f} s from {len(learn)} images, {n_images} to infer, "
          f"{passes} passes; couplings {model.couplings.round(3).tolist()}, "
          f"foreground {model.share:.3f}\n")  # fmt: skip
    scores, bounds, times = (np.full((n_images, len(chosen)), np.nan) for _ in range(3))
    accuracy = np.full((n_images, len(chosen)), np.nan)
    for k, image in enumerate(infer[:n_images]):
        graph = model.graph(image)
        for m, (method, parameters) in enumerate(chosen.values()):
            result, times[k, m] = solve(graph, method, max_iter=passes, **parameters)
            scores[k, m], bounds[k, m] = result.score, result.bound
            accuracy[k, m] = np.mean(result.labels == image.mask.ravel())
    best = scores.max(axis=1, keepdims=True)
    is_best = scores >= best - 1e-9 * np.abs(best)
    print("| method | best on | alone | mean score below best | mean gap to lowest bound | "
          "lowest bound on | s an image | right pixels |")  # fmt: skip
    print("|---|--:|--:|--:|--:|--:|--:|--:|")
    is_lowest = bounds <= bounds.min(axis=1, keepdims=True)
    gap = bounds.min(axis=1, keepdims=True) - scores
    for m, name in enumerate(chosen):
        alone = (is_best[:, m] & (is_best.sum(axis=1) == 1)).sum()
        print(
            f"| {name} | {is_best[:, m].sum()} | {alone} | {(best[:, 0] - scores[:, m]).mean():.4g}"
            f" | {gap[:, m].mean():.4g} | {is_lowest[:, m].sum()} | {times[:, m].mean():.2f} | "
            f"{100 * accuracy[:, m].mean():.2f} |",
            flush=True,
        )
    columns = {"score": scores, "bound": bounds, "seconds": times}
    return {"methods": list(chosen), **{key: value.tolist() for key, value in columns.items()}}


def run_models(args):
    """Every model with a known optimum: what is found and proved, and in what time."""
    limit = 2.0 if args.quick else args.seconds
    names = list(PEERS) if args.peers else []
    print(f"\n## Models: {args.method}, {limit:g} s each\n")
    heads = "score | bound | gap | proved | s | known | known proved | LP | toulbar2 s | AD3 s"
    print(f"| model | {heads} | below known % | gap / LP's | peers |")
    print(f"|---|{'--:|' * 13}")
    rows = []
    chosen = [r for r in known_optima(args.optima) if not args.only or args.only in r["file"]]
    for row in chosen:
        graph = read_model(args.data / "map_models" / row["file"])
        try:
            solve(graph, args.method, time_limit=0.3)
            # a new graph: what is built once for a model counts
            graph = read_model(args.data / "map_models" / row["file"])
            result, seconds = solve(graph, args.method, time_limit=limit, tol=1e-6)
        except (TypeError, ValueError, NotImplementedError) as error:
            print(f"| {row['file']} | {type(error).__name__}: {error} |", flush=True)
            continue
        known = float(row["map_value_natural_log"])
        below = 100 * max(known - result.score, 0.0) / max(1.0, abs(known))
        lp = float(row["lp_value"]) if row["lp_value"] else np.nan
        ratio = result.gap / (lp - known) if lp - known > 1e-3 else np.nan
        wrong = result.bound < known - 1e-6 * max(1.0, abs(known))
        peers = run_peers(graph, names, limit)
        found = {
            "model": row["file"],
            "score": result.score,
            "bound": result.bound,
            "gap": result.gap,
            "proved": result.optimal,
            "seconds": seconds,
            "message": result.message,
            "known": known,
            "below": below,
            "bound_is_wrong": bool(wrong),
            "peers": peers,
        }
        rows.append(found)
        others = ", ".join(f"{k} {v['value']:.6g} in {v['seconds']:.3g}" for k, v in peers.items())
        print(
            f"| {row['file']} | {result.score:.6f} | {result.bound:.6f}{' WRONG' if wrong else ''}"
            f" | {result.gap:.3g} | {'yes' if result.optimal else ''} | {seconds:.3f} | "
            f"{known:.6f} | {'yes' if row['proved'] == '1' else ''} | {lp:.6f} | "
            f"{row['toulbar2_cpu_s']} | {row['ad3_cpu_s']} | {below:.3g} | {ratio:.2f} | {others} |"
            .replace("nan", ""),
            flush=True,
        )  # fmt: skip
    proved = sum(row["proved"] for row in rows)
    close = sum(row["below"] <= 0.1 for row in rows)
    print(f"\n{proved} of {len(rows)} proved, {close} within 0.1 % of the best known; "
          f"{sum(row['bound_is_wrong'] for row in rows)} bounds below a known score")  # fmt: skip
    return rows


TASKS = {"stuck": run_stuck, "protein": run_protein, "horses": run_horses, "models": run_models}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=os.environ.get("SKSTRUCT_DATA"))
    parser.add_argument("--optima", type=Path, help="default: ../design/map-optima.tsv of FOLDER")
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--quick", action="store_true", help="few passes, images and seconds")
    parser.add_argument("--images", type=int, default=277, help="horses to infer")
    parser.add_argument("--passes", type=int, default=200, help="passes over each horse")
    parser.add_argument("--lam", type=float, default=0.01, help="Frank-Wolfe's, on horses")
    parser.add_argument("--method", default="auto", help="of the task models")
    parser.add_argument("--seconds", type=float, default=20.0, help="a model of the task models")
    parser.add_argument("--only", default="", help="models whose name has this")
    parser.add_argument("--peers", action="store_true", help="run installed peers, too")
    parser.add_argument("--exact", action="store_true", help="branch and bound for stuck")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    if args.data is None:
        parser.error("--data FOLDER or the variable SKSTRUCT_DATA is needed")
    args.optima = args.optima or args.data.parent / "design" / "map-optima.tsv"
    print(f"{platform.machine()}, numpy {np.__version__}, numba {numba.__version__}")
    results = {}
    for name in args.tasks:
        results[name] = TASKS[name](args)
        if args.json:
            args.json.parent.mkdir(parents=True, exist_ok=True)
            args.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
