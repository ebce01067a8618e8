"""Files that sum up what goes through them: the checksums of states and of dual points."""

import zlib


class Checked:
    """A file with a CRC-32 of all that has been written or read.

    Parameters
    ----------
    file : file object
        Open for bytes.

    Examples
    --------
    >>> from io import BytesIO
    >>> from skstruct.solvers.rounds.checked import Checked
    >>> written = Checked(BytesIO())
    >>> written.write(b"state"), written.size
    (5, 5)
    >>> read = Checked(BytesIO(b"state"))
    >>> read.read(5), read.sum == written.sum
    (b'state', True)
    """

    def __init__(self, file):
        self._file, self.size, self.sum = file, 0, 0

    def _count(self, piece):
        self.size += len(piece)
        self.sum = zlib.crc32(piece, self.sum)

    def write(self, piece: bytes) -> int:
        """Write a piece.

        Parameters
        ----------
        piece : bytes
            What to write.

        Returns
        -------
        int
            What the file returned.
        """
        self._count(piece)
        return self._file.write(piece)

    def read(self, size: int) -> bytes:
        """Read a piece.

        Parameters
        ----------
        size : int
            Most bytes.

        Returns
        -------
        bytes
            The piece.
        """
        piece = self._file.read(size)
        self._count(piece)
        return piece
