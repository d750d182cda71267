"""Processes that were forked from one in which JAX had computed: in them it waits for ever."""

import os

from jax._src import xla_bridge

FORKED = (
    "this process was forked from one that had computed with JAX already, whose threads are gone "
    "here, so that every computation would wait for ever: start processes by forkserver or spawn, "
    'as in multiprocessing.get_context("forkserver"), or load the model and compute for the first '
    "time after the fork (of gunicorn: leave --preload out)"
)


class _Threads:
    """State of JAX's threads across forks.

    Attributes:
        begun: whether there were some at the last fork.
        gone: whether this process was forked when there were.
    """

    begun = gone = False

    def note_backends(self) -> None:
        self.begun = xla_bridge.backends_are_initialized()

    def mark_fork(self) -> None:
        self.gone = self.gone or self.begun


THREADS = _Threads()
register = getattr(os, "register_at_fork", None)
if register is not None:  # not on Windows, which has no forks
    register(before=THREADS.note_backends, after_in_child=THREADS.mark_fork)


def refuse_lost_threads() -> None:
    """Lets processes pass in which JAX can compute.

    Raises:
        RuntimeError: in one that was forked from one in which it had.
    """
    if THREADS.gone:
        raise RuntimeError(FORKED)
