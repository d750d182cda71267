"""A seeded part of the random updates."""

import dataclasses

import jax
import numpy as np
import pytest
from benchmarks.fuzz import streams

import cavity


@pytest.mark.slow
def test_random_updates_leave_nothing_undefined():
    stream = streams.draw(0, 0)
    done, _, failures = streams.run_stream(stream)
    assert done == streams.UPDATES
    assert not failures, str(failures)


def test_what_is_wrong_is_noticed():
    stream = streams.draw(0, 0)
    assert str(stream.options) == str(streams.draw(0, 0).options)
    X, y = stream.batches[0]
    first = cavity.infer(stream.model, X, y, power=stream.options["power"])
    result = cavity.update(first, X[:0], y[:0])
    assert not streams.wrong(stream, result, X, len(X))
    assert streams.wrong(stream, result, X, len(X) + 1) == [f"{len(X)} rows seen for {len(X) + 1}"]
    broken = jax.tree.map(lambda x: np.nan * x, result.posterior.process)
    posterior = dataclasses.replace(result.posterior, process=broken)
    found = streams.wrong(stream, dataclasses.replace(result, posterior=posterior), X, len(X))
    assert "mean" in found
    assert "negative variance" in found
