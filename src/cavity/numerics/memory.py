"""Available memory, and matrices that exceed it."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import jax

from cavity.numerics.text import plural

GB = 1e9
# Matrices of covariances between rows that there are at a time.
COPIES = 3


def memory() -> float:
    """Bytes of memory that this process may use; infinite where the system does not say."""
    found = [float("inf")]
    with contextlib.suppress(OSError, ValueError, AttributeError):
        found.append(float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")))
    with contextlib.suppress(OSError, ValueError):
        found.append(float(Path("/sys/fs/cgroup/memory.max").read_text()))  # "max" is no number
    return min(found)


@contextlib.contextmanager
def naming_memory(what: str, needed: float, instead: str) -> Iterator[None]:
    """Raises MemoryError with the bytes needed, beforehand if they exceed the memory.

    Args:
        what: is to be computed.
        needed: bytes that it takes at the least.
        instead: what to do then.

    Raises:
        MemoryError: if it does not fit.
    """
    story = f"{what} needs about {needed / GB:.2g} GB of memory, more than there is: {instead}"
    if needed > memory():
        raise MemoryError(story)
    try:
        yield
    except jax.errors.JaxRuntimeError as error:
        if "RESOURCE_EXHAUSTED" not in str(error):
            raise
        raise MemoryError(story) from None
    except MemoryError:
        raise MemoryError(story) from None


def naming_covariance(rows: int, functions: int) -> contextlib.AbstractContextManager[None]:
    """Names the memory that covariances between so many rows need, as `naming_memory` does."""
    needed = 8.0 * COPIES * functions * float(rows) ** 2
    what = f"the covariance between {plural(rows, 'row')}"
    return naming_memory(what, needed, "ask for fewer rows at a time, or for variances")
