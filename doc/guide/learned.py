"""Figures of the guide that show what small models have learned, in some seconds."""
# ruff: noqa: D103 (a function is a figure; its caption is in the guide)

import numpy as np
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from svg import BLUE, COLOURS, GREEN, GREY, INK, RED, Drawing, Plot, blend

from skstruct import BCFWSSVM, SAGCRF, Boxes, Candidates, Chain, Grid, Matching, ProxLinearSSVM
from skstruct.datasets import load_digit_strings, make_annotated_sentences
from skstruct.map_inference import FactorGraph, Table, solve_map
from skstruct.preprocessing import AlignmentFeatures, TemplateVectorizer
from skstruct.scores import MLPMap


def _shapes(rng, n, height=48, width=64):
    """Pictures of discs and bars, and what a bad camera makes of them."""
    rows, columns = np.mgrid[:height, :width]
    y = []
    for _ in range(n):
        labels = np.zeros((height, width), dtype=int)
        for _ in range(3):
            r, c, size = rng.integers(height), rng.integers(width), rng.integers(7, 14)
            if rng.random() < 0.5:
                labels |= (rows - r) ** 2 + (columns - c) ** 2 < size**2
            else:
                labels |= (abs(rows - r) < size // 2) & (abs(columns - c) < 2 * size)
        y.append(labels)
    return [labels[..., None] + 0.9 * rng.normal(size=(height, width, 1)) for labels in y], y


def graphs():
    X, y = _shapes(np.random.default_rng(2), 9)
    train, x, truth = slice(0, 8), X[8], y[8]
    pixels = LogisticRegression().fit(
        np.concatenate([x.reshape(-1, 1) for x in X[train]]),
        np.concatenate([labels.ravel() for labels in y[train]]),
    )
    alone = pixels.predict(x.reshape(-1, 1)).reshape(truth.shape)
    grid = Grid(interactions="potts", attractive=True)
    model = BCFWSSVM(grid, C=1e-3, tol=0.02, steps="frank-wolfe", n_cached=1, random_state=0)
    cuts = model.fit(X[train], y[train]).predict([x])[0]
    drawing = Drawing(690, 190)
    panels = [
        ("truth", blend(truth, BLUE)),
        ("what the camera gives", blend((x[..., 0] + 1.5) / 4.0, INK)),
        (f"pixels alone: {np.mean(alone == truth):.1%} right", blend(alone, BLUE)),
        (f"cuts: {np.mean(cuts == truth):.1%} right", blend(cuts, BLUE)),
    ]
    for k, (title, picture) in enumerate(panels):
        drawing.text(90 + 170 * k, 26, title, 12, bold=True)
        drawing.image(12 + 170 * k, 40, 156, 117, picture)
        drawing.rect(12 + 170 * k, 40, 156, 117, "none", GREY)
    drawing.text(345, 178, "trained on 8 other pictures of 48 x 64 pixels", 12, GREY)
    return drawing


def getting_started():
    """The images of the tutorial: truth, scan, labels of pixels alone, labels of the grid."""
    clean = np.kron(load_digits().images[:60] / 16, np.ones((3, 3)))
    noise = np.random.default_rng(0).normal(size=clean.shape)
    images, ink = (clean + 0.5 * noise)[..., np.newaxis], (clean > 0.5).astype(int)
    pixels = LogisticRegression().fit(images[:40].reshape(-1, 1), ink[:40].ravel())
    svm = BCFWSSVM(Grid(attractive=True), C=0.01, random_state=0).fit(images[:40], ink[:40])
    alone = pixels.predict(images[40:].reshape(-1, 1)).reshape(ink[40:].shape)
    shown = [ink[40:], alone, np.stack([*svm.predict(images[40:])])]
    drawing = Drawing(690, 324)
    names = ["true ink", "noisy scan", "pixels alone", "grid"]
    scan = blend((images[40:, :, :, 0] + 1.0) / 3.0, INK)
    pictures = [blend(shown[0], INK), scan, blend(shown[1], RED), blend(shown[2], BLUE)]
    for k, (name, picture) in enumerate(zip(names, pictures, strict=True)):
        drawing.text(90 + 170 * k, 22, name, 14, bold=True)
        for row in range(2):
            x, y = 24 + 170 * k, 34 + 142 * row
            drawing.image(x, y, 132, 132, picture[3 * row + 1])
            drawing.rect(x, y, 132, 132, "none", GREY)
    return drawing


ALIGNED = """\
das Haus ist groß . | the house is big . | 0-0 1-1 2-2 3-3 4-4
ich habe das Buch gelesen . | i have read the book . | 0-0 1-1 2-3 3-4 4-2 5-5
du hast das Auto gekauft . | you have bought the car . | 0-0 1-1 2-3 3-4 4-2 5-5
heute lese ich das Buch . | today i read the book . | 0-0 1-2 2-1 3-3 4-4 5-5
die Frau hat den Mann gesehen . | the woman has seen the man . | 0-0 1-1 2-2 3-4 4-5 5-3 6-6
der Mann sieht das Haus . | the man sees the house . | 0-0 1-1 2-2 3-3 4-4 5-5
das Kind hat ein Buch gekauft . | the child has bought a book . | 0-0 1-1 2-2 3-4 4-5 5-3 6-6
die Frau sieht das Auto . | the woman sees the car . | 0-0 1-1 2-2 3-3 4-4 5-5
das Kind ist klein . | the child is small . | 0-0 1-1 2-2 3-3 4-4"""


def _links(drawing, left, top):
    rows = [line.split(" | ") for line in ALIGNED.splitlines()]
    pairs = [(row[0].split(), row[1].split()) for row in rows]
    links = [np.array([link.split("-") for link in row[2].split()], dtype=int) for row in rows]
    new = [("der Mann hat das Auto gesehen".split(), "the man has seen the car".split())]
    features = AlignmentFeatures(tuple(zip(*new, strict=True))).fit(pairs)
    svm = BCFWSSVM(Matching(), C=1.0, random_state=0).fit(features.transform(pairs), links)
    X = features.transform(new)
    scores = (X[0] @ svm.coef_.ravel()) + float(np.ravel(svm.intercept_)[0])
    drawing.text(left + 80, 24, "Matching", 14, bold=True)
    size = 26
    shown = blend(scores / scores.max(), BLUE)
    drawing.image(left + 54, top + 44, 6 * size, 6 * size, shown)
    for k, word in enumerate(new[0][0]):
        drawing.text(left + 48, top + 61 + size * k, word, 12, anchor="end")
    for k, word in enumerate(new[0][1]):
        x, y = left + 54 + size * (k + 0.6), top + 38
        drawing.items.append(
            f'<text transform="translate({x:.0f} {y}) rotate(-55)" font-size="12" '
            f'fill="{INK}">{word}</text>'
        )
    for i, j in svm.predict(X)[0]:
        centre = left + 54 + size * (j + 0.5), top + 44 + size * (i + 0.5)
        drawing.circle(*centre, 9, "none", RED)


def _candidates(drawing, left, top):
    digits = load_digits()
    rng = np.random.default_rng(3)
    three = np.flatnonzero(digits.target == 3)
    other = np.flatnonzero(digits.target != 3)
    samples, y = [], []
    for _ in range(150):
        rows, place = rng.choice(other, 4), int(rng.integers(4))
        rows[place] = rng.choice(three)
        samples.append(rows)
        y.append(place)
    X = [digits.data[rows] / 16.0 for rows in samples]
    crf = SAGCRF(Candidates(), C=1.0, random_state=0).fit(X[:100], y[:100])
    chances = crf.predict_marginals(X[100:])
    right = np.array([p[k] for p, k in zip(chances, y[100:], strict=True)])
    shown = int(np.argsort(right)[len(right) // 4])
    drawing.text(left + 80, 24, "Candidates: which is a 3?", 14, bold=True)
    for k, (row, chance) in enumerate(zip(samples[100 + shown], chances[shown], strict=True)):
        y_top = top + 6 + 50 * k
        picture = blend(digits.images[row] / 16.0, INK)
        drawing.image(left + 10, y_top, 44, 44, picture)
        drawing.rect(left + 66, y_top + 14, 90 * chance, 16, BLUE)
        drawing.text(left + 72 + 90 * chance, y_top + 27, f"{chance:.2f}", 12, anchor="start")


def _boxes(drawing, left, top):
    rng = np.random.default_rng(8)
    images, boxes = [], []
    for _ in range(31):
        x, y, w, h = rng.integers(1, 9), rng.integers(1, 7), rng.integers(6, 11), rng.integers(5, 9)
        codes = rng.choice(4, size=(16, 20), p=[0.4, 0.3, 0.2, 0.1])
        codes[y : y + h, x : x + w] = rng.choice(4, size=(h, w), p=[0.15, 0.2, 0.25, 0.4])
        images.append(codes)
        boxes.append([x, y, x + w, y + h])
    svm = BCFWSSVM(Boxes(), C=0.1, loss="iou", random_state=0).fit(images[:30], boxes[:30])
    (best,), (scores,) = svm.predict_top_k(images[30:], 3)
    drawing.text(left + 110, 24, "Boxes: the three best", 14, bold=True)
    size = 11
    drawing.image(left, top + 6, 20 * size, 16 * size, blend(images[30] / 5.0, INK))

    def outline(box, colour, dashed=False):
        x0, y0, x1, y1 = (size * float(v) for v in box)
        corners = [(x0, y0), (x1, y0), (x1, y1), (x0, y1), (x0, y0)]
        points = [(left + x, top + 6 + y) for x, y in corners]
        drawing.path(points, colour, 2.5, dashed)

    colours = RED, "#8a5f00", BLUE
    for box, colour in reversed(list(zip(best, colours, strict=True))):
        outline(box, colour)
    outline(boxes[30], GREEN, dashed=True)
    for k, (score, colour) in enumerate(zip(scores, colours, strict=True)):
        drawing.text(left + 10 + 62 * k, top + 204, f"{score:.2f}", 13, colour, "start", bold=True)
    drawing.text(left + 196, top + 204, "truth", 13, GREEN, bold=True)


def items():
    drawing = Drawing(690, 268)
    _candidates(drawing, 14, 40)
    _links(drawing, 206, 32)
    _boxes(drawing, 450, 40)
    return drawing


def nonlinear():
    rng = np.random.default_rng(0)
    X, y = [], []
    for _ in range(60):
        labels = np.cumsum(rng.random(6) < 0.2) % 2
        first = rng.integers(0, 2, size=6)
        bits = np.stack([first, first ^ labels], axis=1)
        X.append(2.0 * bits - 1.0 + 0.2 * rng.normal(size=bits.shape))
        y.append(labels)
    models = {
        "a linear score": ProxLinearSSVM(tol=0.3, random_state=0),
        "a hidden layer of 10": ProxLinearSSVM(
            score_map=MLPMap(n_hidden=10), tol=0.3, random_state=0
        ),
    }
    across = np.linspace(-2, 2, 80)
    plane = np.stack(np.meshgrid(across, across[::-1]), axis=-1).reshape(-1, 2)
    drawing = Drawing(560, 292)
    for k, (name, model) in enumerate(models.items()):
        left, top, size = 20 + 275 * k, 40, 240
        model.fit(X[:40], y[:40])
        scores = model.score_map_.scores(model.score_params_, plane)
        one = (scores[:, 1] > scores[:, 0]).reshape(80, 80)[..., np.newaxis]
        picture = np.where(one, blend(0.3, RED), blend(0.3, BLUE))
        right = model.score(X[40:], y[40:])
        drawing.text(left + size / 2, 26, f"{name}: {right:.0%} right", 14, bold=True)
        drawing.image(left, top, size, size, picture)
        for x, label in zip(np.concatenate(X[40:]), np.concatenate(y[40:]), strict=True):
            at = left + size * (x[0] + 2) / 4, top + size * (2 - x[1]) / 4
            drawing.circle(*at, 3.5, RED if label else BLUE, "white")
    return drawing


def _table(drawing, left, top, values, names, words, truth):
    """Cells of a label and a word, coloured by sign; those of the true labels outlined."""
    for k, name in enumerate(names):
        drawing.text(left - 6, top + 16 + 22 * k, name, 11, anchor="end")
    for t, word in enumerate(words):
        drawing.text(left + 46 * t + 22, top - 6, word, 11)
        for k, value in enumerate(values[t]):
            drawing.items.append(
                f'<rect x="{left + 46 * t}" y="{top + 22 * k}" width="44" height="20" '
                f'fill="{RED if value < 0 else BLUE}" fill-opacity="{min(abs(value), 1.0):.2f}" '
                f'stroke="{INK if truth[t] == names[k] else "#cccccc"}"/>'
            )


def _uncertain_sentence():
    """Words, truth, names, scores and marginals of a sentence that a small tagger doubts."""
    data = make_annotated_sentences(n_train=60, random_state=0)
    vectorizer = TemplateVectorizer('U0:%x[0,0]\nU1:%x[-1,0]\nU2:%m[0,0,"...$"]')
    model = make_pipeline(vectorizer, SAGCRF(random_state=0))
    crf = model.fit(data.train.word, data.train.entity)[-1]
    X = vectorizer.transform(data.test.word)
    chances = crf.predict_marginals(X)
    fitting = [
        i
        for i, (words, truth) in enumerate(zip(data.test.word, data.test.entity, strict=True))
        if len(words) == 6 and max(map(len, words)) <= 8 and len({*truth.tolist()}) > 2
    ]
    i = min(fitting, key=lambda i: chances[i].max(axis=1).min())
    scores = crf.intercept_ + X[i] @ crf.coef_.T
    return data.test.word[i], data.test.entity[i], crf.classes_, scores, chances[i]


def torch():
    words, truth, names, scores, chances = _uncertain_sentence()
    drawing = Drawing(690, 312)
    drawing.box(20, 20, 130, ["your network", "any module"])
    drawing.box(280, 20, 130, ["CRF layer", "pair scores"])
    drawing.box(540, 20, 130, ["loss", "log-likelihood"])
    for x, name in ((150, "scores"), (410, "log Z")):
        drawing.path([(x + 4, 34), (x + 126, 34)], arrow=True)
        drawing.text(x + 62, 27, name, 12)
        drawing.path([(x + 126, 54), (x + 4, 54)], RED, arrow=True)
        drawing.text(x + 62, 72, "gradient", 12, RED)
    gradient = chances - np.equal.outer(truth, names)
    tables = {"scores": scores / 3.0, "gradient: marginals minus truth": gradient}
    for k, (title, values) in enumerate(tables.items()):
        drawing.text(194 + 330 * k, 116, title, 13, bold=True)
        _table(drawing, 56 + 330 * k, 146, values, names, words, truth)
    drawing.text(345, 300, "blue above 0, red below; outlined: the true labels", 12, GREY)
    return drawing


def map_inference():
    rng = np.random.default_rng(1)
    side = 12
    pixels = np.arange(side * side).reshape(side, side)
    scopes = np.concatenate(
        [
            np.column_stack([pixels[:-1].ravel(), pixels[1:].ravel()]),
            np.column_stack([pixels[:, :-1].ravel(), pixels[:, 1:].ravel()]),
        ]
    )
    tables = rng.normal(size=(len(scopes), 1, 1)) * np.eye(3)
    model = FactorGraph([3] * side**2, [Table(scopes, tables)], unaries=rng.normal(size=(144, 3)))
    best = solve_map(model).score
    low, high = best - 16, best + 24
    plot = Plot((0, 2), (low, high), "passes", "score", width=640, legend=170)
    plot.ticks(
        [(0, "1"), (1, "10"), (2, "100")], [(v, f"{v:.0f}") for v in (best - 10, best, best + 20)]
    )
    for name, method in (
        ("TRW-S", "trws"),
        ("MPLP", "coordinate-descent"),
        ("subgradient", "subgradient"),
    ):
        history = solve_map(model, method, max_iter=100, random_state=0).history_
        kept = history["passes"] >= 1
        passes = np.log10(history["passes"][kept])
        colour = COLOURS[plot.n]
        scores = np.clip(history["score"][kept], low, None)
        plot.curve(passes, np.clip(history["bound"][kept], None, high), name)
        plot.path([plot.at(x, v) for x, v in zip(passes, scores, strict=True)], colour, 2, True)
    plot.path([plot.at(0, best), plot.at(2, best)], GREY, 1)
    plot.text(plot.at(2, 0)[0] + 10, plot.at(0, best)[1] + 4, "the optimum", 12, GREY, "start")
    plot.text(plot.at(0.75, 0)[0], plot.at(0, best + 13)[1], "bounds", 13, GREY)
    plot.text(plot.at(0.75, 0)[0], plot.at(0, best - 8)[1], "scores, dashed", 13, GREY)
    return plot


def partial():
    data = load_digit_strings(n_train=400, n_test=500)
    X, y, rng = list(data.X_train), list(data.y_train), np.random.default_rng(0)
    graph, shares, scores = Chain(boundary=True), np.linspace(0.0, 0.5, 6), {}
    for share in shares:
        known = [[None if rng.random() < share else int(digit) for digit in row] for row in y]
        whole = [i for i, row in enumerate(known) if None not in row]
        crf = SAGCRF(graph, tol=1e-2, random_state=0)
        models = {
            "marginal likelihood": clone(crf).fit(X, known),
            "latent hinge": BCFWSSVM(graph, C=0.1, random_state=0).fit(X, known),
            "complete dates only": crf.fit([X[i] for i in whole], [known[i] for i in whole]),
        }
        for name, model in models.items():
            scores.setdefault(name, []).append(model.score(data.X_test, data.y_test))
    plot = Plot(
        (0.0, 0.5), (0.5, 1.0), "digits hidden in training", "test digits right", legend=190
    )
    plot.ticks(
        [(share, f"{share:.0%}") for share in shares], [(v, f"{v:.0%}") for v in (0.5, 0.75, 1)]
    )
    for name, values in scores.items():
        print(f"  {name}: {np.round(values, 3)}")
        plot.curve(shares, values, name)
    return plot


FIGURES = [getting_started, graphs, items, nonlinear, torch, map_inference, partial]
