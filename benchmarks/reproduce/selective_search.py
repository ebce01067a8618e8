"""Selective search: candidate boxes of an image, from regions that are merged step by step.

Van de Sande, Uijlings, Gevers, Smeulders 2011, Segmentation as selective search for object
recognition: over-segmentations in two colour spaces, neighbours merged by how alike their colours
and textures are, small ones first, and every region on the way is a box. Pillutla et al. 2018 take
the first 1,000 boxes of OpenCV's implementation; this one needs scikit-image.
"""

from __future__ import annotations

import numpy as np
from scipy import ndimage

#: Modules, and the packages that they are in.
NEEDS = [("skimage", "scikit-image")]
# Scales of the segmentations: images of 128 pixels have smaller regions than photographs.
_SCALES = 30, 60, 120
_SIGMA, _MIN_SIZE = 0.8, 12
_COLOUR_BINS, _TEXTURE_BINS, _DIRECTIONS = 25, 10, 8


def proposals(image, most=1000, rng=None):
    """At most so many boxes (xmin, ymin, xmax, ymax), those of the largest merges first."""
    from skimage.color import rgb2hsv, rgb2lab
    from skimage.segmentation import felzenszwalb

    rng = np.random.default_rng(0) if rng is None else rng
    ranked = {}
    for convert in (rgb2hsv, rgb2lab):
        channels = convert(image)
        least = channels.min(axis=(0, 1))
        channels = (channels - least) / np.maximum(np.ptp(channels, axis=(0, 1)), 1e-12)
        textures = _textures(channels)
        for scale in _SCALES:
            labels = felzenszwalb(channels, scale, _SIGMA, _MIN_SIZE)
            boxes = _hierarchy(labels, channels, textures)
            # Section 3 of the paper: by the place in the hierarchy times a random number.
            ranks = np.arange(len(boxes), 0, -1) * rng.random(len(boxes))
            for box, rank in zip(boxes, ranks.tolist(), strict=True):
                ranked[box] = min(rank, ranked.get(box, np.inf))
    return np.array(sorted(ranked, key=ranked.get)[:most], dtype=float)


def _textures(channels):
    """Strengths of gradients in eight directions, of every channel."""
    found = []
    for k in range(channels.shape[2]):
        smooth = ndimage.gaussian_filter(channels[..., k], 1.0)
        down, right = np.gradient(smooth)
        for turn in np.arange(_DIRECTIONS) * (2.0 * np.pi / _DIRECTIONS):
            found.append(np.maximum(np.cos(turn) * right + np.sin(turn) * down, 0.0))
    found = np.stack(found, axis=2)
    return found / max(found.max(), 1e-12)


def _histograms(labels, maps, n_bins):
    """A row a region: its histograms of all maps, of sum 1."""
    bins = np.minimum((maps * n_bins).astype(int), n_bins - 1)
    n, flat, rows = labels.max() + 1, labels.ravel(), []
    for k in range(maps.shape[2]):
        codes = flat * n_bins + bins[..., k].ravel()
        rows.append(np.bincount(codes, minlength=n * n_bins).reshape(n, n_bins))
    rows = np.concatenate(rows, axis=1).astype(float)
    return rows / rows.sum(axis=1, keepdims=True)


def _hierarchy(labels, channels, textures):
    """Boxes of the regions, and of those that they are merged to, in that order."""
    n, total = labels.max() + 1, labels.size
    sizes = list(np.bincount(labels.ravel()))
    places = ndimage.find_objects(labels + 1)
    boxes = [(x.start, y.start, x.stop, y.stop) for y, x in places]
    looks = [_histograms(labels, channels, _COLOUR_BINS)]
    looks.append(_histograms(labels, textures, _TEXTURE_BINS))
    looks = list(np.concatenate(looks, axis=1))
    near = [set() for _ in range(n)]
    for a, b in ((labels[1:], labels[:-1]), (labels[:, 1:], labels[:, :-1])):
        for i, j in set(zip(a[a != b].tolist(), b[a != b].tolist(), strict=True)):
            near[i].add(j)
            near[j].add(i)

    def alike(i, j):
        own, other = boxes[i], boxes[j]
        box = _around(own, other)
        both = sizes[i] + sizes[j]
        fill = 1.0 - ((box[2] - box[0]) * (box[3] - box[1]) - both) / total
        return np.minimum(looks[i], looks[j]).sum() + 1.0 - both / total + fill

    pairs = {(i, j): alike(i, j) for i in range(n) for j in near[i] if i < j}
    while pairs:
        i, j = max(pairs, key=pairs.get)
        new, both = len(sizes), sizes[i] + sizes[j]
        looks.append((sizes[i] * looks[i] + sizes[j] * looks[j]) / both)
        boxes.append(_around(boxes[i], boxes[j]))
        sizes.append(both)
        near.append((near[i] | near[j]) - {i, j})
        for old in (i, j):
            for k in near[old]:
                pairs.pop((min(old, k), max(old, k)), None)
                near[k].discard(old)
        for k in near[new]:
            near[k].add(new)
            pairs[k, new] = alike(k, new)
    return boxes


def _around(first, second):
    """The smallest box around two."""
    low = min(first[0], second[0]), min(first[1], second[1])
    return *low, max(first[2], second[2]), max(first[3], second[3])
