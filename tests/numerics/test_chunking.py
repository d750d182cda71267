"""Shapes that repeat, and work in chunks."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cavity.numerics.chunking import (
    CHUNK,
    SMALLEST,
    WHOLE,
    cached_size,
    chunk_size,
    map_over_rows,
    padded_size,
    repeating_size,
    sum_over_rows,
)
from tests.tolerances import assert_close


def test_few_sizes_and_little_waste():
    """At most eight sizes per doubling, and at most an eighth more than asked."""
    for low in (64, 512, 4096):
        sizes = {repeating_size(n) for n in range(low, 2 * low)}
        assert len(sizes) <= 9
    for n in range(1, 3000):
        assert n <= repeating_size(n) <= max(n * 1.125, n)
        assert repeating_size(repeating_size(n)) == repeating_size(n)


@pytest.mark.parametrize("row_size", [1, 3, 64])
def test_padded_sizes_hold_the_rows_in_whole_chunks(row_size):
    for n in [*range(1, 200), 8191, 8192, 8193, 10_000, 100_000]:
        size = padded_size(n, row_size)
        chunk = chunk_size(size, row_size)
        assert size >= n
        assert size % chunk == 0
        if size * row_size <= WHOLE:
            assert chunk == size
        else:
            assert chunk * row_size <= CHUNK
            assert chunk & (chunk - 1) == 0
    assert {padded_size(n) for n in range(1, SMALLEST + 1)} == {SMALLEST}
    assert padded_size(68, columns=256) == 128
    assert padded_size(68, columns=257) == 72


@pytest.mark.parametrize(("device", "expected"), [("cpu", (512, 1024)), ("gpu", (512, 8192))])
def test_a_gpu_works_on_more_rows_at_a_time(device, expected, monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: device)
    assert (cached_size(1536), cached_size(24_576)) == expected
    assert cached_size(100) == 100


def test_a_block_larger_than_a_chunk():
    assert chunk_size(10, 5000) == 1


def parts(rows):
    x, w = rows
    return {"total": jnp.sum(x * w), "square": x.T @ x}


def test_sums_over_chunks():
    """Value and gradient; the results may have any shapes."""
    rng = np.random.default_rng(0)
    rows = (jnp.asarray(rng.normal(size=(24, 3))), jnp.asarray(rng.normal(size=(24, 1))))
    whole, chunked = sum_over_rows(parts, rows, 24), sum_over_rows(parts, rows, 6)
    assert_close(chunked["total"], whole["total"])
    assert_close(chunked["square"], whole["square"])

    def loss(scale, chunk):
        total = sum_over_rows(lambda r: parts((scale * r[0], r[1])), rows, chunk)
        return total["total"] + jnp.sum(total["square"] ** 2)

    gradients = [jax.grad(loss)(1.3, chunk) for chunk in (24, 6)]
    assert_close(gradients[1], gradients[0])


def test_maps_over_chunks():
    x = jnp.arange(24.0).reshape(12, 2)
    expected = (2.0 * x, jnp.sum(x, axis=1))
    for chunk in (12, 4, 20):
        found = map_over_rows(lambda r: (2.0 * r, jnp.sum(r, axis=1)), x, chunk)
        assert_close(found[0], expected[0])
        assert_close(found[1], expected[1])


def test_rows_without_columns_come_in_chunks():
    """As those of models without inputs do."""
    rows = (jnp.zeros((12, 0)), jnp.arange(12.0))
    total = sum_over_rows(lambda part: jnp.sum(part[1]) + part[0].shape[0], rows, 4)
    assert float(total) == 78.0
