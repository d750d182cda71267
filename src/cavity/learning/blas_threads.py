"""A limit of one BLAS thread while JAX computes."""

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from cavity.learning.guards import guarded_by
from cavity.numerics.forking import refuse_lost_threads


@functools.cache
def _controller() -> Any:
    import scipy.linalg  # noqa: F401  JAX's LAPACK; the controller sees only what is loaded
    import threadpoolctl

    return threadpoolctl.ThreadpoolController()


class _OneThread:
    """The limit on BLAS threads: one for the whole process, so its users are counted."""

    def __init__(self) -> None:
        self.lock, self.users, self.restore = threading.Lock(), 0, _nothing

    def enter(self) -> None:
        with self.lock:
            if self.users == 0:
                limiter = _aside(lambda: _controller().limit(limits=1, user_api="blas"))
                self.restore = limiter.restore_original_limits
            self.users += 1

    def leave(self) -> None:
        with self.lock:
            self.users -= 1
            if self.users == 0:
                _aside(self.restore)


def _nothing() -> None:
    """Nothing to restore at first."""


def _aside(work: Callable[[], Any]) -> Any:
    """Call a function in a thread of its own.

    The thread that sets a limit owns it while it lives, and nobody else can restore it.
    """
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result()


_ONE_THREAD = _OneThread()


@contextlib.contextmanager
def one_blas_thread() -> Iterator[None]:
    """One BLAS thread inside: LAPACK's threads spin against JAX's and cost up to 700 times.

    Several threads may be inside at once: the first one in sets the limit, the last one out
    restores what was there.

    Raises:
        RuntimeError: in a process that was forked after JAX had computed.
    """
    refuse_lost_threads()
    _ONE_THREAD.enter()
    try:
        yield
    finally:
        _ONE_THREAD.leave()


# Decorates what the library offers, in the precision that JAX is set to.
with_one_blas_thread = guarded_by(one_blas_thread)
