"""Long passes of MAP solvers in pieces, between which a watch is asked whether to stop."""

from __future__ import annotations

from ..core.pieces import Pieces


class Asking:
    """What the parts of a solver have that may be stopped within a pass."""

    def __init__(self):
        self._pieces = Pieces(self._piece_done)
        self.stopped, self._ask = False, None

    def _piece_done(self, share):
        self.stopped |= self._ask is not None and bool(self._ask())
        return self.stopped
