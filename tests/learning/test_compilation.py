"""How often programs are compiled: once per shape, not once per call."""

import jax
import numpy as np
import pytest

import cavity

EVENT = "/jax/core/compile/backend_compile_duration"
COMPILED = []


@pytest.fixture(scope="module", autouse=True)
def listener():
    """Listens from now on; a listener cannot be taken away alone."""
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, _, **kwargs: COMPILED.append(event) if event == EVENT else None
    )


def data(n, seed, outputs=None):
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 3, (n, 3))
    y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=n)
    return X, y if outputs is None else np.stack([y] * outputs, axis=1)


def model(seed, *, full=False):
    rng = np.random.default_rng(seed)
    kernel = cavity.kernels.RBF(rng.uniform(0.5, 2.0), rng.uniform(0.5, 2.0, 3))
    Z = None if full else cavity.inducing.Points(rng.uniform(0, 3, (7, 3)))
    return cavity.GP(kernel, cavity.likelihoods.Gaussian(rng.uniform(0.05, 0.2)), Z)


def work(run, n, seed, *, full=False, **options):
    X, y = data(n, seed)
    result = run(model(seed, full=full), X, y, **options)
    return result, result.posterior.marginals(X[: n // 2])


@pytest.mark.sampled(2)
@pytest.mark.parametrize("full", [False, True], ids=["sparse", "full"])
@pytest.mark.parametrize("power", [0.0, 0.5])
@pytest.mark.parametrize("run", [cavity.infer, cavity.fit])
def test_a_second_run_in_the_same_bucket_compiles_nothing(run, power, full):
    """Other rows, other values, another count of rows, another power between 0 and 1."""
    options = {"max_iterations": 3} if run is cavity.fit else {}
    work(run, 45, 0, power=power, full=full, **options)
    COMPILED.clear()
    other = 0.7 if power else 0.0
    work(run, 52, 1, power=other, full=full, **options)
    assert not COMPILED


def test_another_bucket_does_compile():
    """So the listener is able to hear. No other test has tables of this length."""
    work(cavity.infer, 45, 0)
    COMPILED.clear()
    work(cavity.infer, 2_900, 1)
    assert COMPILED


def test_raising_the_jitter_compiles_nothing():
    X, y = data(45, 0)
    cavity.infer(model(0), X, y)
    COMPILED.clear()
    cavity.infer(model(0), X, y, jitter=1e-5)
    assert not COMPILED


def test_folds_share_programs():
    """Cross-validation folds differ by a row."""
    work(cavity.infer, 45, 0)
    COMPILED.clear()
    for n in range(40, 60):
        work(cavity.infer, n, n)
    assert not COMPILED
