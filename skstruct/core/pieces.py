"""Long passes in pieces, between which Python runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator


class Pieces:
    """Cut a pass into calls of about half a second.

    Between two calls Python runs: Ctrl-C comes through, and callbacks hear of the share that is
    done. A pass must give the same result wherever it is cut.
    """

    #: Seconds a call is to take; the first one, whose speed is not known, visits so many samples.
    SECONDS, FIRST = 0.5, 1

    def __init__(self, after_piece: Callable[[float], bool] | None = None):
        self._after_piece = after_piece
        self._size = self.FIRST
        #: Whether a callback has ended a pass.
        self.stopped = False

    def ranges(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """Consecutive ranges from `start` to `stop`, sized by the time the last ones took."""
        first = start
        while first < stop:
            last = min(first + self._size, stop)
            began = time.perf_counter()
            yield first, last
            rate = (last - first) / max(time.perf_counter() - began, 1e-9)
            # Grown in steps: the first samples may be short ones.
            self._size = int(max(1, min(rate * self.SECONDS, 8 * self._size)))
            first = last
            if first < stop and self._after_piece is not None and self._after_piece(first / stop):
                self.stopped = True
                return

    def visits(self, size: int) -> Iterator[tuple[int, int]]:
        """The ranges of a pass of `size` visits; for none an empty range, which compiles."""
        return self.ranges(0, size) if size else iter([(0, 0)])
