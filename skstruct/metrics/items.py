"""Metrics of boxes: overlap, fraction of images that are right, ranked detections."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..core.typing import SamplesLike
from ..data.boxes import overlaps, read_boxes
from ..data.matrices import refuse_masked
from ..data.packing import as_list

# Error of word alignments.


def alignment_error_rate(
    sure: SamplesLike, possible: SamplesLike | None, predicted: SamplesLike
) -> float:
    """Alignment error rate: sure links should be found, and nothing but possible ones.

    With A the predicted links, S the sure and P the possible ones, which include the sure: ``1 -
    (|A & S| + |A & P|) / (|A| + |S|)``, over all sentence pairs together. Read more in the
    :ref:`User Guide <items_guide>`.

    Parameters
    ----------
    sure : list of integer arrays of shape (n_links, 2), or of boolean matrices
        Links that must be there: word of the source, word of the target; or a matrix (n_source,
        n_target).
    possible : list of the same, or None
        Links that may be there, with or without the sure ones, which are added. None: only these.
    predicted : list of the same
        Links to be judged.

    Returns
    -------
    float
        Between 0 (best) and 1. A link that is given twice counts once.

    Raises
    ------
    ValueError
        If the numbers of samples differ, a sample holds no links of two words (names it), or there
        are neither sure nor predicted links.

    See Also
    --------
    skstruct.datasets.load_word_alignment : Reads sure and possible links.

    References
    ----------
    F. J. Och, H. Ney: A systematic comparison of various statistical alignment models.
    Computational Linguistics 29(1), 2003, section 5.1.

    Examples
    --------
    >>> from skstruct.metrics import alignment_error_rate
    >>> alignment_error_rate([[(0, 0), (1, 1)]], [[(1, 2)]], [[(0, 0), (1, 2), (2, 2)]])
    0.4
    """
    sure, predicted = _read_links(sure, "sure"), _read_links(predicted, "predicted")
    possible = sure if possible is None else _read_links(possible, "possible")
    for name, links in (("possible", possible), ("predicted", predicted)):
        if len(links) != len(sure):
            raise ValueError(f"sure has {len(sure)} samples, but {name} has {len(links)}")
    n_right = n_links = 0
    for must, may, found in zip(sure, possible, predicted, strict=True):
        n_right += len(found & must) + len(found & (may | must))
        n_links += len(found) + len(must)
    if not n_links:
        raise ValueError("there are neither sure nor predicted links")
    return 1.0 - n_right / n_links


def _read_links(samples, name):
    """Links of each sample as a set of pairs."""
    read = []
    for i, sample in enumerate(as_list(samples, name)):
        where = f"{name}: sample {i}"
        refuse_masked(sample, where)
        try:
            links = np.asarray(sample)
        except ValueError:
            raise ValueError(f"{where}: its links are not all of two words") from None
        if links.dtype == bool and links.ndim == 2:
            links = np.argwhere(links)
        elif links.size == 0:
            links = np.empty((0, 2), dtype=np.int64)
        if links.ndim != 2 or links.shape[1] != 2 or links.dtype.kind not in "iu":
            raise ValueError(
                f"{where} must be integers of shape (n_links, 2) or a boolean matrix, got dtype "
                f"{links.dtype}, shape {links.shape}"
            )
        if (links < 0).any():
            raise ValueError(f"{where} has a negative number of a word")
        read.append(set(map(tuple, links.tolist())))
    return read


def iou(first: ArrayLike, second: ArrayLike) -> np.ndarray:
    """Intersection over union of boxes, row by row.

    Read more in the :ref:`User Guide <items_guide>`.

    Parameters
    ----------
    first, second : array-like of shape (n_boxes, 4)
        Rows (xmin, ymin, xmax, ymax). One of them may be a single box, of shape (4,) or (1, 4),
        compared with every box of the other.

    Returns
    -------
    ndarray of shape (n_boxes,)
        Between 0 (apart) and 1 (the same).

    Raises
    ------
    ValueError
        If a box is empty or not finite, or the numbers of boxes differ.

    See Also
    --------
    skstruct.metrics.corloc_score : Fraction of images whose box is correct.
    skstruct.metrics.average_precision : Area under precision and recall of boxes.
    skstruct.Boxes : The structure of boxes in a feature map.

    Examples
    --------
    >>> from skstruct.metrics import iou
    >>> iou([0, 0, 2, 1], [[0, 0, 2, 1], [1, 0, 3, 1], [5, 5, 6, 6]]).round(3).tolist()
    [1.0, 0.333, 0.0]
    """
    first, second = _boxes_of(first, "first"), _boxes_of(second, "second")
    if len(first) != len(second) and 1 not in (len(first), len(second)):
        raise ValueError(f"first has {len(first)} boxes, but second has {len(second)}")
    return overlaps(first, second)


def corloc_score(
    y_true: Sequence[Any] | np.ndarray, y_pred: ArrayLike, *, threshold: float = 0.5
) -> float:
    """Correct localisation: fraction of images whose predicted box overlaps enough with a true one.

    Read more in the :ref:`User Guide <items_guide>`.

    Parameters
    ----------
    y_true : array-like of shape (n_images, 4), or list of arrays of shape (n_boxes, 4)
        The true box of each image, or its boxes, (xmin, ymin, xmax, ymax): one of them must match.
    y_pred : array-like of shape (n_images, 4)
        The predicted box of each image.
    threshold : float, default=0.5
        Minimum intersection over union.

    Returns
    -------
    float
        The fraction.

    Raises
    ------
    ValueError
        If the numbers of images differ, an image has no true box, a box is empty or not finite
        (names the image), or `threshold` is not above 0 and at most 1.

    See Also
    --------
    skstruct.metrics.iou : Overlap of boxes.
    skstruct.metrics.average_precision : Area under precision and recall of boxes.

    References
    ----------
    T. Deselaers, B. Alexe, V. Ferrari: Localizing objects while learning their appearance. ECCV
    2010, section 6.

    Examples
    --------
    >>> from skstruct.metrics import corloc_score
    >>> corloc_score([[0, 0, 4, 4], [0, 0, 4, 4]], [[0, 0, 4, 3], [3, 3, 7, 7]])
    0.5
    """
    _check_threshold(threshold)
    true = _boxes_of_images(y_true, "y_true")
    predicted = read_boxes(y_pred, "y_pred", len(true))
    right = 0
    for i, boxes in enumerate(true):
        if not len(boxes):
            raise ValueError(f"y_true: image {i} has no box")
        right += bool(overlaps(boxes, predicted[i : i + 1]).max() >= threshold)
    return right / len(true)


def average_precision(
    y_true: Sequence[Any] | np.ndarray,
    y_pred: Sequence[Any] | np.ndarray,
    y_score: Sequence[Any] | np.ndarray,
    *,
    threshold: float = 0.5,
) -> float:
    """Average precision of scored boxes: the sum of the steps of recall times the precision there.

    Detections of all images are ranked by score. In this order each is matched with the true box of
    its image that it overlaps most with; it is correct if the overlap is at least `threshold` and
    that box is not yet matched. Detections of equal scores count at once, as in scikit-learn's
    ``average_precision_score``, which this equals when every true box is found. Read more in the
    :ref:`User Guide <items_guide>`.

    Parameters
    ----------
    y_true : list of arrays of shape (n_boxes, 4), or array-like of shape (n_images, 4)
        The true boxes of each image, (xmin, ymin, xmax, ymax), possibly none; or one per image.
    y_pred : list of arrays of shape (n_detections, 4), or array-like of shape (n_images, 4)
        The predicted ones.
    y_score : list of arrays of shape (n_detections,), or array-like of shape (n_images,)
        Scores of the predicted boxes, higher for more confident ones.
    threshold : float, default=0.5
        Minimum intersection over union of a correct detection.

    Returns
    -------
    float
        Between 0 and 1; 0 if nothing is predicted.

    Raises
    ------
    ValueError
        If the numbers of images or of scores differ, a score is not finite, a box is empty or not
        finite (names the image), there is no true box, or `threshold` is not above 0 and at most 1.

    See Also
    --------
    skstruct.metrics.iou : Overlap of boxes.
    skstruct.metrics.corloc_score : Fraction of images whose box is correct.

    References
    ----------
    M. Everingham, L. Van Gool, C. Williams, J. Winn, A. Zisserman: The PASCAL visual object classes
    (VOC) challenge. IJCV 2010, section 4.2; without its interpolation of the precision.

    Examples
    --------
    >>> from skstruct.metrics import average_precision
    >>> truth = [[[0, 0, 4, 4]], [[0, 0, 4, 4], [6, 6, 9, 9]]]
    >>> found = [[[0, 0, 4, 4], [5, 5, 6, 6]], [[6, 6, 9, 9]]]
    >>> round(average_precision(truth, found, [[0.9, 0.8], [0.7]]), 3)
    0.556
    """
    _check_threshold(threshold)
    true, predicted = _boxes_of_images(y_true, "y_true"), _boxes_of_images(y_pred, "y_pred")
    if len(true) != len(predicted):
        raise ValueError(f"y_true has {len(true)} images, but y_pred has {len(predicted)}")
    scores = _scores_of_images(y_score, predicted)
    n_true = sum(map(len, true))
    if not n_true:
        raise ValueError("y_true has no box")
    right = [_right(*image, threshold) for image in zip(true, predicted, scores, strict=True)]
    right, scores = np.concatenate(right), np.concatenate(scores)
    order = np.argsort(-scores, kind="stable")
    n_right = np.cumsum(right[order])
    # Where the next score is another: detections of one score count at once.
    ends = np.flatnonzero(np.append(np.diff(scores[order]) != 0.0, True)[: order.size])
    recall, precision = n_right[ends] / n_true, n_right[ends] / (ends + 1.0)
    return float(np.sum(np.diff(recall, prepend=0.0) * precision))


def _right(true, predicted, scores, threshold):
    """Return a mask of the detections of an image that are right."""
    right, taken = np.zeros(len(predicted), dtype=bool), np.zeros(len(true), dtype=bool)
    for k in np.argsort(-scores, kind="stable") if len(true) else ():
        overlap = overlaps(true, predicted[k : k + 1])
        best = int(np.argmax(overlap))
        if overlap[best] >= threshold and not taken[best]:
            right[k] = taken[best] = True
    return right


def _check_threshold(threshold):
    if not isinstance(threshold, Real) or not 0.0 < threshold <= 1.0:
        raise ValueError(f"threshold must be above 0 and at most 1, got {threshold!r}")


def _boxes_of(boxes, name):
    """One box or several, as rows."""
    try:
        single = np.ndim(boxes) == 1
    except ValueError:
        single = False
    return read_boxes([boxes] if single else boxes, name)


def _boxes_of_images(samples, name):
    """The boxes of each image; an empty list of them is fine."""
    read = []
    for i, sample in enumerate(as_list(samples, name)):
        where = f"{name}: image {i}: its boxes"
        empty = hasattr(sample, "__len__") and len(sample) == 0
        read.append(np.empty((0, 4)) if empty else _boxes_of(sample, where))
    return read


def _scores_of_images(y_score, predicted):
    """Scores of the detections of each image."""
    samples = as_list(y_score, "y_score")
    if len(samples) != len(predicted):
        raise ValueError(f"y_pred has {len(predicted)} images, but y_score has {len(samples)}")
    read = []
    for i, (sample, boxes) in enumerate(zip(samples, predicted, strict=True)):
        refuse_masked(sample, f"y_score: image {i}")
        try:
            scores = np.atleast_1d(np.asarray(sample, dtype=np.float64))
        except (TypeError, ValueError):
            raise ValueError(f"y_score: image {i} has a score that is no number") from None
        if scores.shape != (len(boxes),):
            raise ValueError(
                f"y_score: image {i} must have {len(boxes)} scores, got the shape {scores.shape}"
            )
        if not np.isfinite(scores).all():
            raise ValueError(f"y_score: image {i} has a score that is not finite")
        read.append(scores)
    return read
