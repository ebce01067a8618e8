"""Free memory, and an error before a machine begins to swap."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

_INFO = Path("/proc/meminfo")
# Free memory below the limits of a container: version 2 of control groups, then version 1.
_GROUPS = (
    (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current")),
    (
        Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
        Path("/sys/fs/cgroup/memory/memory.usage_in_bytes"),
    ),
)

# Every machine has so many bytes; to look up free memory takes longer than a small fit.
_ALWAYS_FREE = 1 << 20


def _number(path):
    """The integer in a file, or None: "max" where there is no limit."""
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None


def _of_machine():
    try:
        for line in _INFO.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return 1024 * int(line.split()[1])
    except (OSError, ValueError, IndexError):
        pass
    try:  # all there is: what is free without caches would be far too little
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None


def _of_process():
    """Return the memory that ``ulimit -v`` leaves to this process; None if unlimited or unknown."""
    try:
        import resource

        most = resource.getrlimit(resource.RLIMIT_AS)[0]
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        return None if most == resource.RLIM_INFINITY else most - pages * resource.getpagesize()
    except (ImportError, OSError, ValueError, IndexError):
        return None


def available_bytes() -> int | None:
    """Memory that this process can still take without swapping."""
    free = [_of_machine(), _of_process()]
    for limit, usage in _GROUPS:
        most, used = _number(limit), _number(usage)
        if most is not None and used is not None:
            # File caches count as used, but can be freed: count half of them.
            free.append(max(most - used, most // 2))
    known = [number for number in free if number is not None]
    return min(known) if known else None


def shown(number: int) -> str:
    """Format a count for a message, huge ones in short."""
    return f"{number:,}" if number <= 10**18 else "over 10**18"


def check_memory(n_bytes: int, what: str, advice: str) -> None:
    """Raise MemoryError unless so many bytes are available."""
    free = available_bytes() if n_bytes > _ALWAYS_FREE else None
    if free is not None and n_bytes > free:
        raise MemoryError(
            f"{what} would take {shown(n_bytes)} bytes, but {free:,} bytes of memory are "
            f"available; {advice}"
        )


def n_best_bytes(lengths: np.ndarray, label_bytes: int) -> int:
    """Bytes per labelling of an n-best search over all samples."""
    n_nodes, longest = int(lengths.sum()), int(lengths.max(initial=0))
    # Scores, codes and labels of all samples; one sample's codes, and two candidates.
    return 8 * lengths.size + (4 + label_bytes) * n_nodes + 4 * longest + 80
