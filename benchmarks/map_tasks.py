"""The models of bench_map.py: a small one that stops coordinate descent, horses, files."""

from __future__ import annotations

import csv
from typing import NamedTuple

import numpy as np

from skstruct import SAGCRF
from skstruct.map_inference import (
    Cardinality,
    FactorGraph,
    Potts,
    Table,
    read_cfn,
    read_libdai,
    read_uai,
    read_wcsp,
)

READERS = {".uai": read_uai, ".wcsp": read_wcsp, ".cfn": read_cfn, ".fg": read_libdai}


def read_model(path):
    """A model of any of the formats."""
    (reader,) = {reader for suffix, reader in READERS.items() if suffix in path.suffixes}
    return reader(path)


def known_optima(path):
    """The rows of ``map-optima.tsv`` whose models lie beside the other data."""
    with open(path, newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    return [row for row in rows if row["set"] == "shared"]


def stuck(n=8, n_labels=3, seed=1):
    """All pairs of a few variables score -1 or 0 at random: ties stop coordinate descent."""
    rng = np.random.default_rng(seed)
    i, j = np.triu_indices(n, 1)
    tables = -rng.integers(0, 2, size=(i.size, n_labels, n_labels)).astype(float)
    return FactorGraph([n_labels] * n, [Table(np.stack([i, j], axis=1), tables)])


class Image(NamedTuple):
    """A photograph with the mask of its horse."""

    pixels: np.ndarray
    mask: np.ndarray


def horses(data):
    """The images to learn from (those that are not ``train`` in the file, 50), and the others."""
    with np.load(data / "horses/horses.npz") as file:
        shapes, train = file["shape"].astype(np.int64), file["train"].astype(bool)
        ends = np.concatenate([[0], np.cumsum(shapes.prod(axis=1))])
        mask = np.unpackbits(file["mask"], count=int(ends[-1])).astype(bool)
        pixels = file["pixels"]
    images = [
        Image(pixels[a:b].reshape(*shape, 3), mask[a:b].reshape(shape))
        for a, b, shape in zip(ends, ends[1:], shapes.tolist(), strict=False)
    ]
    split = [[image for image, of in zip(images, train, strict=True) if of == t] for t in (0, 1)]
    return split[0], split[1]


def _features(pixels):
    """Colours, places, their squares and products, of each pixel."""
    height, width = pixels.shape[:2]
    rows, columns = np.meshgrid(
        np.linspace(-1, 1, height), np.linspace(-1, 1, width), indexing="ij"
    )
    spread = pixels.reshape(-1, 3) / 127.5 - 1
    grey = pixels.mean(axis=2)
    # how a pixel differs from the image's colours, and from those of its border
    border = np.concatenate([pixels[[0, -1]].reshape(-1, 3), pixels[:, [0, -1]].reshape(-1, 3)])
    away = np.abs(pixels.reshape(-1, 3) - np.median(border, axis=0)) / 127.5
    contrast = (grey - grey.mean()) / (grey.std() + 1e-9)
    base = np.column_stack([spread, away, contrast.ravel(), rows.ravel(), columns.ravel()])
    i, j = np.triu_indices(base.shape[1])
    return np.column_stack([base, base[:, i] * base[:, j]])


def _pairs(pixels):
    """Neighbours below and to the right, and how alike their colours are."""
    height, width = pixels.shape[:2]
    ids = np.arange(height * width).reshape(height, width)
    i = np.concatenate([ids[:-1].ravel(), ids[:, :-1].ravel()])
    j = np.concatenate([ids[1:].ravel(), ids[:, 1:].ravel()])
    flat = pixels.reshape(-1, 3).astype(float)
    distance = ((flat[i] - flat[j]) ** 2).sum(axis=1)
    return i, j, np.exp(-distance / (2 * distance.mean() + 1e-9))


class HorseModel:
    """Unary scores and couplings, learned by pseudo-likelihood: a label given its neighbours'."""

    def fit(self, images, per_image=1500, seed=0):
        """Learn from some pixels of each image."""
        rng = np.random.default_rng(seed)
        rows, labels = [], []
        for image in images:
            i, j, alike = _pairs(image.pixels)
            sign = 2.0 * image.mask.ravel() - 1.0
            n = sign.size
            around = [
                np.bincount(i, weight * sign[j], n) + np.bincount(j, weight * sign[i], n)
                for weight in (np.ones(i.size), alike)
            ]
            chosen = rng.choice(n, min(n, per_image), replace=False)
            rows.append(np.column_stack([_features(image.pixels), *around])[chosen])
            labels.append(image.mask.ravel()[chosen].astype(int))
        X = np.concatenate(rows)
        self.scale = np.abs(X).mean(axis=0)
        crf = SAGCRF("multiclass", C=1.0, tol=1e-3, random_state=seed)
        crf.fit(X / self.scale, np.concatenate(labels))
        weights = (crf.coef_[1] - crf.coef_[0]) / self.scale
        self.unary, self.couplings = weights[:-2], weights[-2:]
        self.intercept = float(crf.intercept_[1] - crf.intercept_[0])
        self.share = float(np.mean([image.mask.mean() for image in images]))
        return self

    def graph(self, image):
        """Unaries, pairs of neighbours, and one factor of all pixels: s0 expected, s0/5 free."""
        n = image.mask.size
        unaries = np.zeros((n, 2))
        unaries[:, 1] = _features(image.pixels) @ self.unary + self.intercept
        i, j, alike = _pairs(image.pixels)
        weight = np.maximum(self.couplings[0] + self.couplings[1] * alike, 0.0)
        target = self.share * n
        count = Cardinality.quadratic_hinge(np.arange(n), target, target / 5)
        return FactorGraph([2] * n, [Potts(i, j, weight), count], unaries=unaries.ravel())
