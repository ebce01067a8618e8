"""Figures of the guide that show committed results, doc/_static/benchmarks/*.json."""
# ruff: noqa: D103 (a function is a figure; its caption is in the guide)

import json
from pathlib import Path

from svg import BLUE, GREEN, GREY, PALE, RED, Drawing, bars

RESULTS = Path(__file__).parents[1] / "_static" / "benchmarks"


def _rows(name):
    """The rows of a result: what is in each column; none of what has not been measured."""
    if not (RESULTS / f"{name}.json").is_file():
        return []
    result = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    return [dict(zip(result["columns"], row, strict=True)) for row in result["rows"]]


def large():
    rows = {row["solver"]: row["s per pass"] for row in _rows("large_output")}
    return bars(
        "Seconds per pass: 137,531 characters, 2,797 labels",
        [*rows],
        [float(seconds) for seconds in rows.values()],
        [f"{seconds} s" for seconds in rows.values()],
    )


def deployment():
    """Steps, and what the files weigh."""
    rows = _rows("deployment")
    drawing = Drawing(690, 130 + 28 * len(rows))
    steps = [
        ["fit", "Pipeline"],
        ["make small", "sparsify"],
        ["store", "skops, joblib"],
        ["build", "tag one line"],
        ["serve", "predict"],
    ]
    for k, lines in enumerate(steps):
        drawing.box(8 + 138 * k, 26, 116, lines)
        if k:
            drawing.path([(138 * k - 14, 49), (138 * k + 5, 49)], arrow=True)
    drawing.text(
        16, 112, "Megabytes of the file (joblib, compress=3), and F1", 13, anchor="start", bold=True
    )
    largest = max(float(row["joblib MB"]) for row in rows)
    for k, row in enumerate(rows):
        y, size = 122 + 28 * k, float(row["joblib MB"])
        drawing.text(262, y + 15, row["model"], 12, anchor="end")
        drawing.rect(270, y, 280 * size / largest, 20, BLUE)
        text = f"{row['joblib MB']} MB, {row['F1']}"
        drawing.text(278 + 280 * size / largest, y + 15, text, 12, anchor="start")
    return drawing


def threads():
    """A block of SAG, and what two threads are worth."""
    rows = _rows("threads")
    drawing = Drawing(640, 206 + 28 * len(rows) if rows else 180)
    for block in range(2):
        x = 30 + 310 * block
        drawing.text(x + 130, 24, f"block {block + 1}", bold=True)
        for thread in range(2):
            y = 40 + 44 * thread
            for k in range(4):
                drawing.rect(x + 36 * k, y, 32, 32, (BLUE, GREEN)[thread], "white", 3)
        drawing.text(x + 70, 146, "marginals, in threads", 12, GREY)
        drawing.path([(x + 150, 78), (x + 176, 78)], arrow=True)
        for k in range(8):
            drawing.rect(x + 182 + 11 * k, 62, 9, 32, RED)
        drawing.text(x + 226, 146, "steps, in order", 12, GREY)
    if not rows:
        return drawing
    drawing.text(30, 190, "Two threads: times as fast as one", 13, anchor="start", bold=True)
    for k, row in enumerate(rows):
        y, ratio = 200 + 28 * k, float(row["times as fast"])
        drawing.text(322, y + 15, row["task"], 12, anchor="end")
        drawing.rect(330, y, 120 * ratio, 20, BLUE)
        drawing.text(338 + 120 * ratio, y + 15, row["times as fast"], 12, anchor="start")
    drawing.path([(450, 196), (450, 200 + 28 * len(rows))], GREY, 1, dashed=True)
    return drawing


def scale():
    """From a corpus to weights by shards, and seconds of an evaluation in one process."""
    rows = _rows("scale")
    drawing = Drawing(690, 204 + 28 * len(rows))
    drawing.box(14, 58, 110, ["corpus", "in pieces"])
    for k in range(4):
        drawing.rect(232, 22 + 34 * k, 120, 26, PALE, BLUE, 4)
        drawing.text(292, 39 + 34 * k, f"shard {k}", 12)
        drawing.path([(128, 81), (228, 35 + 34 * k)], GREY, 1)
        drawing.path([(356, 35 + 34 * k), (426, 52 + 60 * (k // 2))], GREY, 1)
    drawing.text(178, 24, "pack_shards", 12, BLUE)
    for k in range(2):
        drawing.box(430, 29 + 60 * k, 96, ["worker", "gradient"])
        drawing.path([(530, 52 + 60 * k), (568, 78)], arrow=True)
    drawing.box(572, 58, 104, ["weights", "exact sums"])
    title = "Seconds of an evaluation of the objective, one process"
    drawing.text(16, 184, title, 13, anchor="start", bold=True)
    largest = max(float(row["s"]) for row in rows)
    for k, row in enumerate(rows):
        y, seconds = 194 + 28 * k, float(row["s"])
        name = "in memory" if row["kind"] == "memory" else f"{row['shards']} shards on disk"
        drawing.text(172, y + 15, name, 12, anchor="end")
        drawing.rect(180, y, 360 * seconds / largest, 20, BLUE)
        drawing.text(188 + 360 * seconds / largest, y + 15, row["s"], 12, anchor="start")
    return drawing


FIGURES = [large, deployment, threads, scale]
