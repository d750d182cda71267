"""The time of a computation."""

import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np


def median(fn: Callable[[], Any], repeats: int = 9) -> float:
    """Median seconds of a call, its result ready, after one that compiles."""
    jax.block_until_ready(fn())
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        jax.block_until_ready(fn())
        times.append(time.perf_counter() - start)
    return float(np.median(times))
