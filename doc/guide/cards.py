"""Thumbnails of pages of the gallery whose own figures cannot be read so small."""

import numpy as np
from svg import BLUE, GREEN, GREY, INK, PALE, RED, Drawing

PER, ORG, LOC, VIOLET = BLUE, RED, GREEN, "#774499"
#: Rows of (text, label or "", colour).
CARDS = {
    "crfsuite_tutorial": [
        [("- crfsuite.CRF(", "", RED)],
        [("    c1=0.1, c2=0.1)", "", RED)],
        [("+ SAGCRF(C=3.3,", "", GREEN)],
        [("    l1_ratio=0.33)", "", GREEN)],
    ],
    "chunking_templates": [
        [("He", "NP", BLUE), ("reckons", "VP", RED)],
        [("the current deficit", "NP", BLUE)],
        [("will narrow", "VP", RED), ("to", "PP", GREEN)],
    ],
    "ner_grid_search": [
        [("Ada Lovelace", "PER", PER), ("and", "", INK)],
        [("Acme Corp", "ORG", ORG), ("met", "", INK)],
        [("in", "", INK), ("Paris", "LOC", LOC)],
    ],
    "confident_chunks": [
        [("Ada Lovelace", "PER, sure", PER)],
        [("at", "", INK), ("Jordan", "LOC?", GREY)],
        [("in", "", INK), ("Sydney", "LOC, sure", LOC)],
    ],
    "token_classifier": [
        [("Acme", "O", GREY), ("Corp", "I-ORG", RED)],
        [("then BIO rules:", "", INK)],
        [("Acme", "B-ORG", GREEN), ("Corp", "I-ORG", GREEN)],
    ],
    "costs": [
        [("███████", "", INK), ("met", "", INK)],
        [("Mr.", "", INK), ("█████", "", INK)],
        [("in Paris.", "", INK)],
    ],
    "deployment": [
        [("pipeline.fit", "", INK)],
        [("model.skops", "runs no code", GREEN)],
        [("predict", "", INK)],
    ],
    "partial_labels": [
        [("1", "", INK), ("9", "", INK), ("?", "", RED), ("5", "", INK)],
        [("2", "", INK), ("1|7", "", VIOLET), ("4", "", INK)],
        [("?", "", RED), ("9", "", INK), ("8", "", INK), ("?", "", RED)],
    ],
    "n_best_constrained": [
        [("1", "", GREY), ("19581342", "no date", RED)],
        [("2", "", GREY), ("19581242", "no date", RED)],
        [("3", "", GREY), ("19581212", "a date", GREEN)],
    ],
    "token_features": [
        [("Ada", "", INK), ("Lovelace", "a word", BLUE)],
        [("-ace", "its end", GREEN), ("Xxx", "its shape", RED)],
        [("names.txt", "a list", VIOLET)],
    ],
    "errors": [
        [("Ada", "wrong boundary", RED), ("Lovelace", "", INK)],
        [("in", "", INK), ("Paris", "wrong type", RED)],
        [("at", "", INK), ("Acme Corp", "missed", GREY)],
    ],
    "word_segmentation": [
        [("thewhiterabbit", "", INK)],
        [("the", "known", BLUE), ("white", "known", BLUE), ("rabbit", "new", RED)],
    ],
    "scene": [
        [("beach", "yes", GREEN), ("town", "yes", GREEN)],
        [("field", "no", GREY), ("sunset", "no", GREY)],
    ],
    "reranking": [
        [("4 7 2 1", "sum 14", GREY)],
        [("4 1 2 1", "sum 8", GREY)],
        [("4 1 2 3", "sum 10", GREEN)],
    ],
}


def card(rows):
    """Rows of words in boxes, each with its label below."""
    drawing, size = Drawing(400, 280), 30
    step = 280 / len(rows)
    for k, row in enumerate(rows):
        widths = [max(0.65 * size * len(text), 13 * len(label)) + 20 for text, label, _ in row]
        x, y = (400 - sum(widths) - 8 * (len(row) - 1)) / 2, step * (k + 0.5)
        if all(text.startswith(("-", "+", " ")) for text, _, _ in row):
            x = 12  # code
        for (text, label, colour), width in zip(row, widths, strict=True):
            boxed = bool(label) or (len(row) > 2 and len(text) < 4)
            if boxed:
                drawing.rect(x, y - 34, width, 50, PALE, colour, 8)
            at, anchor = (x, "start") if x == 12 else (x + width / 2, "middle")
            text = text.replace(" ", "\u00a0") if x == 12 else text
            drawing.text(at, y + 2, text, size, colour, anchor, bold=boxed)
            drawing.text(x + width / 2, y + 38, label, 21, colour)
            x += width + 8
    return drawing


def dependency_trees():
    """Words, and arcs to their heads."""
    drawing, places = Drawing(400, 280), [56, 158, 254, 350]
    colours = [BLUE, INK, INK, BLUE]
    for x, word, colour in zip(places, ("sheep", "near", "dogs", "are"), colours, strict=True):
        drawing.text(x, 236, word, 28, colour, bold=colour == BLUE)
    angles = np.linspace(np.pi, 0.0, 40)
    for head, word, colour in ((3, 0, BLUE), (0, 1, GREY), (1, 2, GREY)):
        middle, radius = (places[head] + places[word]) / 2, abs(places[head] - places[word]) / 2
        points = [(middle + radius * np.cos(a), 200 - 0.95 * radius * np.sin(a)) for a in angles]
        drawing.path(points, colour, 4)
    drawing.text(203, 42, "subject", 24, BLUE)
    return drawing


def word_alignment():
    """Two sentences, and which word translates which."""
    drawing, places = Drawing(400, 280), [40, 135, 220, 327]
    links = ((0, 0, GREEN), (1, 1, GREEN), (2, 3, RED), (3, 2, RED))
    for y, words in ((52, "ich habe es gesehen"), (246, "i have seen it")):
        for x, word in zip(places, words.split(), strict=True):
            drawing.text(x, y, word, 28)
    for a, b, colour in links:
        drawing.path([(places[a], 70), (places[b], 212)], colour, 4)
    return drawing


DRAWN = [dependency_trees, word_alignment]
