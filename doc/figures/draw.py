"""The landing page's pictures: ``python doc/figures/draw.py`` writes them to ``doc/_static``.

``speed`` draws figures of ``benchmarks/crf.json`` there; ``dates`` trains what it shows. Each is
drawn twice, for light and for dark pages.
"""

import json
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression

from skstruct import SAGCRF, Chain, RaggedArray
from skstruct.datasets import load_digit_strings

STATIC = Path(__file__).parent.parent / "_static"
#: ink, faint ink, ours, the rival's or wrong, map of pictures
MODES = {
    "light": ("#222832", "#677384", "#0a7d91", "#c2593f", "gray_r"),
    "dark": ("#ced6dd", "#9ca4af", "#3fb1c5", "#e58e73", "gray"),
}


def save(figure, name, mode, suffix, **options):
    """Write one picture without background and without the date, so that nothing changes twice."""
    metadata = {"Date": None} if suffix == "svg" else {"Software": None}
    figure.savefig(
        STATIC / f"{name}-{mode}.{suffix}", transparent=True, metadata=metadata, **options
    )
    plt.close(figure)


def chosen():
    """Rows of the benchmark where both run to their own stops."""
    rows = json.loads((STATIC / "benchmarks" / "crf.json").read_text())["rows"]
    own_stop = ", its stop against SAGCRF()'s"
    for data, rival, theirs, ours, *_ in rows:
        if rival.endswith(own_stop):
            yield data, rival.removesuffix(own_stop), float(theirs), float(ours)


def speed(mode):
    """Seconds of training, theirs and ours, a pair of bars a row of the table."""
    ink, faint, ours, theirs, _ = MODES[mode]
    rows = sorted(chosen(), key=lambda row: -row[2])
    figure, axis = plt.subplots(figsize=(7.2, 3.9), layout="constrained")
    for at, (_, rival, their_seconds, our_seconds) in enumerate(rows):
        both = (their_seconds, theirs, rival), (our_seconds, ours, "SAGCRF")
        for offset, (seconds, color, name) in zip((-0.19, 0.19), both, strict=True):
            axis.barh(at + offset, seconds, 0.34, color=color)
            axis.text(
                seconds + 2, at + offset, f"{name}: {seconds} s", va="center", color=ink, fontsize=9
            )
    axis.set_yticks(range(len(rows)), [row[0] for row in rows], color=ink)
    axis.set(xlim=(0, 1.3 * rows[0][2]))
    axis.set_xlabel("seconds of one core to train", color=faint)
    axis.invert_yaxis()
    axis.tick_params(length=0, colors=faint, labelcolor=ink)
    axis.spines[:].set_visible(False)
    save(figure, "speed", mode, "svg")


def dates(mode, shown, data, rows):
    """Pictures of dates, and beneath each how the two classifiers read it, errors in colour."""
    ink, faint, ours, wrong, colours = MODES[mode]
    figure, axes = plt.subplots(1, len(shown), figsize=(7.6, 1.45), layout="constrained")
    figure.get_layout_engine().set(wspace=0.08)
    for axis, i in zip(axes, shown, strict=True):
        truth = data.y_test[i]
        axis.imshow(np.hstack([x.reshape(8, 8) for x in data.X_test[i]]), cmap=colours)
        axis.set(xlim=(-0.5, 8 * 8 - 0.5), ylim=(24, -1))
        axis.axis("off")
        for line, (is_ours, name, predictions) in enumerate(rows):
            below = 11.5 + 8 * line
            for place, digit in enumerate(predictions[i]):
                right = digit == truth[place]
                axis.text(
                    8 * place + 3.5, below, str(digit), ha="center", va="center", fontsize=15,
                    color=(ours if is_ours else ink) if right else wrong,
                    weight="normal" if right else "bold",
                )  # fmt: skip
            if i == shown[0]:
                axis.text(-2, below, name, ha="right", va="center", color=faint, fontsize=12)
    save(figure, "dates", mode, "png", dpi=170)


def read_dates():
    """Both classifiers' readings of the test dates, and dates that the chain alone gets right."""
    data = load_digit_strings(n_train=1000, n_test=500)
    single = LogisticRegression(max_iter=2000).fit(data.X_train.flat, data.y_train.flat)
    crf = SAGCRF(Chain(boundary=True), random_state=0).fit(data.X_train, data.y_train)
    singles = RaggedArray(single.predict(data.X_test.flat), data.X_test.offsets)
    chains = RaggedArray.from_list(list(crf.predict(data.X_test)))
    shown = [
        i
        for i, y in enumerate(data.y_test)
        if len(y) == 8 and np.array_equal(chains[i], y) and not np.array_equal(singles[i], y)
    ]
    for name, read in [("single digits", singles), ("chain", chains)]:
        whole = np.mean([np.array_equal(a, b) for a, b in zip(read, data.y_test, strict=True)])
        print(
            f"{name}: {np.mean(read.flat == data.y_test.flat):.1%} of digits, {whole:.1%} of dates"
        )
    return data, shown[1:3], [(False, "single digits", singles), (True, "chain", chains)]


if __name__ == "__main__":
    plt.rcParams["svg.hashsalt"] = "skstruct"
    plt.rcParams["svg.fonttype"] = "none"
    data, shown, rows = read_dates()
    for mode in MODES:
        speed(mode)
        dates(mode, shown, data, rows)
