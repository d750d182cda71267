"""What an estimator leaves alone: JAX's settings, BLAS threads, arrays, other fits."""

import os
import pickle
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import cavity
from cavity.initialisation import Inducing
from tests.estimators.problem import problem

pytestmark = pytest.mark.x32

SPARSE = {"n_inducing": 10, "random_state": 0}


def all_predictions(model, X):
    mean, std = model.predict(X, return_std=True)
    cov = model.predict(X, return_cov=True)[1]
    latent = model.predict_latent(X, return_std=True)[1]
    return [mean, std, cov, latent, model.predict_quantiles(X, [0.1, 0.9]), model.sample_y(X, 2)]


@pytest.mark.slow
def test_jax_stays_as_it_was():
    X, y = problem()
    before = dict(jax.config.values)
    assert jnp.ones(1).dtype == np.float32
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = cavity.GPRegressor(**SPARSE).fit(X, y)
        found = all_predictions(model, X)
    assert jnp.ones(1).dtype == np.float32
    assert dict(jax.config.values) == before
    assert all(type(a) is np.ndarray and a.dtype == np.float64 for a in found)


def test_what_is_learned_is_numpy_float64():
    X, y = problem()
    model = cavity.GPRegressor(**SPARSE).fit(X, y)
    arrays = [a for a in jax.tree.leaves(model.posterior_) if hasattr(a, "dtype")]
    assert arrays
    assert all(type(a) is np.ndarray and a.dtype == np.float64 for a in arrays)
    assert isinstance(model.log_evidence_, float)


def test_the_setting_makes_no_difference():
    """The same numbers with 64-bit mode on in the whole process, and nothing compiled anew."""
    X, y = problem()
    narrow = all_predictions(cavity.GPRegressor(**SPARSE).fit(X, y), X)
    with jax.enable_x64(True):
        wide = all_predictions(cavity.GPRegressor(**SPARSE).fit(X, y), X)
    for a, b in zip(narrow, wide, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.slow
def test_two_threads_fit_at_once():
    jobs = [(problem(seed), setting) for seed in (1, 2) for setting in ({}, SPARSE)]

    def run(job):
        (X, y), setting = job
        model = cavity.GPRegressor(**setting).fit(X, y)
        return model.log_evidence_, all_predictions(model, X)

    alone = [run(job) for job in jobs]
    with ThreadPoolExecutor(2) as pool:
        together = list(pool.map(run, jobs))
    for (evidence, found), (expected, values) in zip(together, alone, strict=True):
        assert evidence == expected
        for a, b in zip(found, values, strict=True):
            np.testing.assert_array_equal(a, b)


OVERLAPPING = """
import threading
import numpy as np, threadpoolctl
import cavity
from cavity.learning.blas_threads import one_blas_thread

def threads():
    info = threadpoolctl.threadpool_info()
    return {p["num_threads"] for p in info if p["user_api"] == "blas"}

X = np.random.default_rng(0).normal(size=(60, 2))
cavity.GPRegressor(max_iterations=0).fit(X, X[:, 0])
assert threads() == {2}, "a fit restores the threads"
try:
    cavity.GPRegressor(kernel=cavity.kernels.RBF(1.0, np.ones(5))).fit(X, X[:, 0])
except ValueError:
    assert threads() == {2}, "also one that fails"

events = first_is_in, second_is_in, first_is_out = [threading.Event() for _ in range(3)]
found = []

def first():
    with one_blas_thread():
        first_is_in.set()
        second_is_in.wait(10)
    first_is_out.set()

def second():
    first_is_in.wait(10)
    with one_blas_thread():
        second_is_in.set()
        first_is_out.wait(10)
        found.append(threads())
        hold.wait(10)

hold = threading.Event()
workers = [threading.Thread(target=f) for f in (first, second)]
for worker in workers:
    worker.start()
workers[0].join()
with one_blas_thread():
    hold.set()
    workers[1].join()
    found.append(threads())
assert all(e.is_set() for e in events)
assert found == [{1}, {1}], found
assert threads() == {2}, "the last one out restores the threads"
"""


@pytest.mark.slow
def test_overlapping_limits_restore_the_threads_of_blas():
    """In a process of its own: this one has had a limit from its start."""
    names = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
    environment = os.environ | dict.fromkeys(names, "2")
    subprocess.run([sys.executable, "-c", OVERLAPPING], env=environment, check=True)


ELSEWHERE = """
import pickle, sys
import numpy as np
folder = sys.argv[1]
X = np.load(folder + "/X.npy")
with open(folder + "/classes.pickle", "rb") as file:
    model = pickle.load(file)
np.savez(folder + "/classes.npz", chance=model.predict_proba(X), label=model.predict(X))
for name in ("full", "sparse"):
    with open(f"{folder}/{name}.pickle", "rb") as file:
        model = pickle.load(file)
    mean, std = model.predict(X, return_std=True)
    _, cov = model.predict_latent(X, return_cov=True)
    np.savez(f"{folder}/{name}.npz", mean=mean, std=std, cov=cov, samples=model.sample_y(X, 2))
"""


@pytest.mark.slow
def test_predictions_survive_pickling_into_another_process(tmp_path):
    X, y = problem()
    np.save(tmp_path / "X.npy", X)
    models = {"full": cavity.GPRegressor(), "sparse": cavity.GPRegressor(**SPARSE)}
    for name, model in models.items():
        (tmp_path / f"{name}.pickle").write_bytes(pickle.dumps(model.fit(X, y)))
    classifier = cavity.GPClassifier(max_iterations=0, **SPARSE).fit(X, y > 0.0)
    (tmp_path / "classes.pickle").write_bytes(pickle.dumps(classifier))
    subprocess.run([sys.executable, "-c", ELSEWHERE, str(tmp_path)], check=True)
    there = np.load(tmp_path / "classes.npz")
    np.testing.assert_allclose(there["chance"], classifier.predict_proba(X), rtol=1e-10)
    np.testing.assert_array_equal(there["label"], classifier.predict(X))
    for name, model in models.items():
        there = np.load(tmp_path / f"{name}.npz")
        mean, std = model.predict(X, return_std=True)
        here = {"mean": mean, "std": std, "cov": model.predict_latent(X, return_cov=True)[1]}
        here["samples"] = model.sample_y(X, 2)
        for key, value in here.items():
            scale = 1e-6 if key == "samples" else 1e-12  # an eigenvector's sign may turn
            np.testing.assert_allclose(there[key], value, rtol=scale, atol=scale)


@pytest.mark.parametrize("setting", [{}, SPARSE], ids=["full", "sparse"])
def test_arrays_changed_after_the_fit_change_nothing(setting):
    X, y = problem()
    Z = X[:10].copy()
    setting = setting | ({"inducing": Inducing(Z, learn=False)} if setting else {})
    new = problem(seed=5)[0]
    model = cavity.GPRegressor(**setting).fit(X, y)
    before = all_predictions(model, new)
    for array in (X, y, Z):
        array[...] = 1e3
    for a, b in zip(all_predictions(model, new), before, strict=True):
        np.testing.assert_array_equal(a, b)


def test_arrays_that_come_back_are_the_callers_own():
    X, y = problem()
    model = cavity.GPRegressor().fit(X, y)
    kept = X.copy(), y.copy()
    before = all_predictions(model, X)
    for array in all_predictions(model, X):
        array[...] = 0.0
    np.testing.assert_array_equal(X, kept[0])
    np.testing.assert_array_equal(y, kept[1])
    for a, b in zip(all_predictions(model, X), before, strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_fit_that_fails_leaves_the_model_as_it_was():
    X, y = problem()
    model = cavity.GPRegressor().fit(X, y)
    before = model.predict(X)
    with pytest.raises(ValueError, match="power"):
        model.set_params(power=2).fit(X, np.column_stack([y, 5 * y]))
    np.testing.assert_array_equal(model.predict(X), before)


def test_equal_seeds_give_equal_models():
    X, y = problem()
    setting = {"n_inducing": 10, "inducing": "random", "n_restarts": 1, "tolerance": 1.0}
    first, second, third = (
        cavity.GPRegressor(random_state=seed, **setting).fit(X, y) for seed in (3, 3, 4)
    )
    np.testing.assert_array_equal(first.inducing_.Z, second.inducing_.Z)
    assert first.log_evidence_ == second.log_evidence_
    assert not np.array_equal(first.inducing_.Z, third.inducing_.Z)
    assert np.array_equal(first.sample_y(X, 2, random_state=1), second.sample_y(X, 2, 1))
