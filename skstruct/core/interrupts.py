"""Ctrl-C, where Python's own handling of it would lose work or be swallowed."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def interrupts_call(stop: Callable[[], None]) -> Iterator[None]:
    """Call `stop` at the first Ctrl-C in a `with` block; a second one interrupts."""
    in_main = threading.current_thread() is threading.main_thread()
    if not in_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    count = 0

    def handle(number, frame):
        nonlocal count
        count += 1
        if count > 1:
            raise KeyboardInterrupt
        stop()

    signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
