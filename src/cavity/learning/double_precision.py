"""Double precision for estimators, tables, pages and commands, whatever JAX is set to."""

import contextlib
from collections.abc import Iterator

import jax

from cavity.learning.blas_threads import one_blas_thread
from cavity.learning.guards import guarded_by


@contextlib.contextmanager
def double_precision() -> Iterator[None]:
    """Numbers of 64 bits and one BLAS thread inside; JAX's own setting stays as it is.

    Raises:
        RuntimeError: in a process that was forked after JAX had computed.
    """
    with jax.enable_x64(True), one_blas_thread():
        yield


# Decorates what is public in estimators, tables, pages and commands.
in_double = guarded_by(double_precision)
