"""A second engine, of two processes, and parts that it can send them."""

import concurrent.futures
import multiprocessing
import os

import jax
import numpy as np

from cavity.engines import AbstractEngine

N = 240
HOLES = slice(100, 104)


def table():
    """Inputs and outputs of two columns, some of them missing."""
    random = np.random.default_rng(3)
    X = random.uniform(0.0, 4.0, (N, 2))
    Y = np.column_stack([np.sin(2.0 * X[:, 0]), X[:, 1] - 1.0])
    Y += 0.1 * random.standard_normal(Y.shape)
    Y[HOLES, 1] = np.nan
    return X, Y


class Slice:
    """Rows of the table from one to before another, in two batches."""

    def __init__(self, start, end):
        self.start, self.end = start, end

    def __iter__(self):
        X, Y = table()
        middle = (self.start + self.end) // 2
        for place in (slice(self.start, middle), slice(middle, self.end)):
            yield X[place], Y[place]


class TwoProcesses(AbstractEngine):
    """Each part has its process, where its sites are; results come back in any order."""

    def __init__(self):
        context = multiprocessing.get_context("spawn")
        double = bool(jax.config.jax_enable_x64)
        self.pools = [
            concurrent.futures.ProcessPoolExecutor(1, context, _start, (double,)) for _ in range(2)
        ]
        self.numbers = set()

    def each(self, work, parts):
        own = [(self.pools[part.index % 2], part) for part in reversed(parts)]
        futures = [pool.submit(_done, work, part) for pool, part in own]
        for future in concurrent.futures.as_completed(futures):
            index, value, process = future.result()
            self.numbers.add(process)
            yield index, value

    def close(self):
        for pool in self.pools:
            pool.shutdown()


def _start(double):
    jax.config.update("jax_enable_x64", double)


def _done(work, part):
    return part.index, work(part), os.getpid()
