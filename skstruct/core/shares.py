"""Who of several threads adds to which weight."""

from .dispatch import inner_kernel

#: Classes of rows, which threads share; the last is a mask.
ALL_CLASSES = 64
LAST_CLASS = ALL_CLASSES - 1
_MANY_ROWS = 8 * ALL_CLASSES
_LINE = 8  # floats in a cache line


@inner_kernel(inline=True)
def share_of(w, n_rows, width):
    """The part of a table that ``w.share`` stands for: rows where there are many, else columns.

    Every weight has one thread, which adds to it in the order of the samples: the number of threads
    does not change a bit.
    """
    start, stop, low, high = 0, width, 0, ALL_CLASSES
    if w.share.shape[0] > 0:
        k, n = w.share[0], w.share[1]
        if width < _LINE:  # several rows in a cache line
            high = high if k == 0 else low
        elif n_rows >= _MANY_ROWS:
            low, high = ALL_CLASSES * k // n, ALL_CLASSES * (k + 1) // n
        else:
            lines = (width + _LINE - 1) // _LINE
            start, stop = lines * k // n * _LINE, lines * (k + 1) // n * _LINE
            start, stop = start if start < width else width, stop if stop < width else width
    return start, stop, low, high
