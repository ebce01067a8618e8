"""Workers of Ray, in a file of their own as each kind is: Ray starts a lost worker anew."""

from __future__ import annotations

from .workers import Workers


def _call(function, arguments):
    return function(*arguments)


class RayWorkers(Workers):
    """Processors of a Ray cluster."""

    is_local = False
    depth, n_bytes = 2, 1 << 22

    def __init__(self) -> None:
        import ray

        self._ray = ray
        if not ray.is_initialized():
            ray.init()
        self._call, self._running = ray.remote(num_cpus=1, max_retries=2)(_call), {}

    def slots(self):
        """Numbers of the processors."""
        return range(int(self._ray.cluster_resources().get("CPU", 0)))

    def submit(self, slot, function, arguments):
        """Ray chooses where, and keeps large arguments in its store."""
        reference = self._call.remote(function, arguments)
        future = reference.future()
        self._running[future] = reference
        future.add_done_callback(lambda done: self._running.pop(done, None))
        return future

    def close(self):
        """Cancel what runs."""
        for reference in list(self._running.values()):
            self._ray.cancel(reference, force=True)
