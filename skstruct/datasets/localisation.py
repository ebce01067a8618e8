"""Images with the boxes of their objects."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from sklearn.utils import Bunch

from ..data.boxes import read_boxes
from ..typing import PathLike
from .arrays import check_names
from .images import _check_sizes, _read, _split


def load_localisation(path: PathLike) -> Bunch:
    """Read images and the boxes around the objects in them.

    Parameters
    ----------
    path : str or Path
        A ``.npz`` file, or the folder that holds ``kangaroo.npz``: the arrays ``pixels``
        (n_pixels, 3), colours from 0 to 255, row by row; ``shape`` (n_images, 2), height and width;
        ``boxes`` (n_boxes, 4), (xmin, ymin, xmax, ymax) in pixels; ``box_image`` (n_boxes,), the
        image of each; ``box_class`` (n_boxes,), its class in ``class_names``; ``image_name``
        (n_images,).

    Returns
    -------
    Bunch
        ``images``: list of arrays (height, width, 3), colours from 0 to 1; ``boxes``: list of
        arrays (n_boxes, 4) of an image, which may be empty; ``classes``: list of arrays (n_boxes,)
        of str; ``class_names``, ``image_names``: arrays of str.

    Raises
    ------
    ValueError
        If an array is missing, the arrays do not fit together, or a box is empty or not within its
        image (names them).

    See Also
    --------
    skstruct.preprocessing.PatchWords : Features of such images.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from skstruct.datasets import load_localisation
    >>> image = {"pixels": np.full((6, 3), 255), "shape": [[2, 3]], "image_name": ["photo"]}
    >>> box = {"boxes": [[0, 0, 2, 1]], "box_image": [0], "box_class": [0], "class_names": ["cat"]}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "cats.npz"
    ...     np.savez(path, **image, **box)
    ...     data = load_localisation(path)
    >>> data.images[0].shape, data.classes[0].tolist()
    ((2, 3, 3), ['cat'])
    """
    wanted = ["pixels", "shape", "boxes", "box_image", "box_class", "class_names", "image_name"]
    path, arrays = _read(Path(path), "kangaroo.npz", wanted)
    pixels, shapes, boxes, owner, kind, names, image_names = (arrays[name] for name in wanted)
    _check_sizes(path, "shape", shapes, {"pixels": pixels})
    check_names(path, class_names=names, image_name=image_names)
    boxes = read_boxes(boxes, f"{path}: boxes")
    for name, array, n, of in (
        ("box_image", owner, len(boxes), "boxes"),
        ("box_class", kind, len(boxes), "boxes"),
        ("image_name", image_names, len(shapes), "images"),
    ):
        if array.shape != (n,):
            raise ValueError(
                f"{path}: {name} must have an entry for each of {n} {of}, got the shape "
                f"{array.shape}"
            )
    for name, array, n in (("box_image", owner, len(shapes)), ("box_class", kind, len(names))):
        if array.dtype.kind not in "iu" or (array < 0).any() or (array >= n).any():
            raise ValueError(f"{path}: {name} must be integers from 0 to {n - 1}")
    size = shapes.astype(np.float64)[owner][:, ::-1]
    outside = np.flatnonzero((boxes[:, :2] < 0).any(axis=1) | (boxes[:, 2:] > size).any(axis=1))
    if outside.size:
        k = int(outside[0])
        raise ValueError(
            f"{path}: box {k} is not within image {owner[k]} of {size[k, 0]:g} x {size[k, 1]:g} "
            f"pixels: (xmin, ymin, xmax, ymax) = {tuple(boxes[k].tolist())}"
        )
    own = [np.flatnonzero(owner == i) for i in range(len(shapes))]
    return Bunch(
        images=_split(pixels / 255.0, shapes),
        boxes=[boxes[rows] for rows in own],
        classes=[names[kind[rows]] for rows in own],
        class_names=names,
        image_names=image_names,
    )
