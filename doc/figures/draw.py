"""The landing page's pictures: ``python doc/figures/draw.py`` writes them to ``doc/_static``.

``speed`` draws figures of ``benchmarks/crf.json`` there; ``dates`` trains what it shows. Each is
drawn for light and for dark pages, and for a desk and a phone (``narrow``). ``card.png`` is what
chats show beside a link to the site.
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
    own_stop = ", both to their own stop"
    for data, rival, theirs, ours, *_ in rows:
        if rival.endswith(own_stop):
            yield data, rival.removesuffix(own_stop), float(theirs), float(ours)


def speed(mode, narrow):
    """Seconds of training, theirs and ours, a pair of bars per row of the table."""
    ink, faint, ours, theirs, _ = MODES[mode]
    rows = sorted(chosen(), key=lambda row: -row[2])
    size = (3.6, 5.2) if narrow else (7.2, 3.9)
    figure, axis = plt.subplots(figsize=size, layout="constrained")
    for at, (data, rival, their_seconds, our_seconds) in enumerate(rows):
        both = (their_seconds, theirs, rival), (our_seconds, ours, "SAGCRF")
        for offset, (seconds, color, name) in zip((-0.19, 0.19), both, strict=True):
            axis.barh(at + offset, seconds, 0.34, color=color)
            axis.text(
                seconds + 2, at + offset, f"{name}: {seconds} s", va="center", color=ink, fontsize=9
            )
        if narrow:
            axis.text(0, at - 0.44, data, color=ink, fontsize=9, weight="bold")
    axis.set_yticks([] if narrow else range(len(rows)))
    if not narrow:
        axis.set_yticklabels([row[0] for row in rows], color=ink)
    axis.set(xlim=(0, (1.9 if narrow else 1.3) * rows[0][2]), xticks=[0, 100, 200])
    axis.set_xlabel("seconds of one core to train", color=faint)
    axis.invert_yaxis()
    axis.tick_params(length=0, colors=faint, labelcolor=ink)
    axis.spines[:].set_visible(False)
    save(figure, "speed-narrow" if narrow else "speed", mode, "svg")


def dates(mode, shown, data, rows, narrow, card=False):
    """Pictures of dates, and beneath each how the two classifiers read it, errors in colour."""
    ink, faint, ours, wrong, colours = MODES[mode]
    shape, size = ((2, 1), (4.2, 2.2)) if narrow else ((1, 2), (7.6, 1.45))
    figure, axes = plt.subplots(*shape, figsize=size, layout="constrained")
    figure.get_layout_engine().set(wspace=0.08, hspace=0.1)
    for axis, i in zip(axes, shown, strict=True):
        truth = data.y_test[i]
        axis.imshow(np.hstack([x.reshape(8, 8) for x in data.X_test[i]]), cmap=colours)
        axis.set(xlim=(-29.0 if narrow else -0.5, 8 * 8 - 0.5), ylim=(24, -1))
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
            if narrow or i == shown[0]:
                axis.text(-2, below, name, ha="right", va="center", color=faint, fontsize=12)
    if card:
        figure.savefig(STATIC / "card.png", metadata={"Software": None}, dpi=286)
    else:
        save(figure, "dates-narrow" if narrow else "dates", mode, "png", dpi=170)


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
    for name, read in [("digit by digit", singles), ("chain", chains)]:
        whole = np.mean([np.array_equal(a, b) for a, b in zip(read, data.y_test, strict=True)])
        print(
            f"{name}: {np.mean(read.flat == data.y_test.flat):.1%} of digits, {whole:.1%} of dates"
        )
    return data, shown[1:3], [(False, "digit by digit", singles), (True, "chain", chains)]


if __name__ == "__main__":
    plt.rcParams["svg.hashsalt"] = "skstruct"
    plt.rcParams["svg.fonttype"] = "none"
    data, shown, rows = read_dates()
    for mode in MODES:
        for narrow in (False, True):
            speed(mode, narrow)
            dates(mode, shown, data, rows, narrow)
    dates("light", shown, data, rows, narrow=True, card=True)
