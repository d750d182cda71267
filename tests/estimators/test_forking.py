"""Processes that fork: an error where JAX would wait for ever, and none where it would not."""

import os
import pickle
import signal
import subprocess
import sys
import warnings

import jax
import numpy as np
import pytest

import cavity
from cavity import kernels, likelihoods

X = np.linspace(0.0, 3.0, 12)[:, None]
Y = np.sin(X[:, 0])


@pytest.fixture(scope="module")
def fitted():
    return cavity.GPRegressor(random_state=0).fit(X, Y)


def in_child(work):
    """What a function raises in a forked child, which has half a minute."""
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # JAX's own
        child = os.fork()
    if child == 0:
        signal.alarm(30)
        try:
            work()
            said = "nothing"
        except BaseException as error:
            said = f"{type(error).__name__}: {error}"
        os.write(writer, said.encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as file:
        said = file.read()
    _, status = os.waitpid(child, 0)
    assert status == 0, "it waited"
    return said


@pytest.mark.parametrize(
    "work",
    [
        lambda model: model.predict(X),
        lambda model: model.predict(X, return_cov=True),
        lambda model: model.predict_latent(X),
        lambda model: model.sample_y(X),
        lambda model: model.log_predictive_density(X, Y),
        lambda model: model.posterior_.marginals(X),
        lambda model: cavity.GPRegressor().fit(X, Y),
        lambda model: cavity.GPClassifier().fit(X, Y > 0.5),
        lambda model: cavity.infer(cavity.GP(kernels.RBF(), likelihoods.Gaussian()), X, Y),
    ],
)
def test_a_child_of_a_process_that_computed(fitted, work):
    with jax.enable_x64(True):
        said = in_child(lambda: work(fitted))
    assert said.startswith("RuntimeError: this process was forked")
    assert "forkserver" in said
    assert "spawn" in said


def test_children_that_compute_nothing(fitted):
    assert in_child(lambda: pickle.loads(pickle.dumps(fitted)).get_params()) == "nothing"
    fitted.predict(X)  # the parent goes on


CHILD = """
import os, pickle, signal, sys
import cavity.estimators.regressor
model = pickle.load(open(sys.argv[1], "rb"))
child = os.fork()
if child == 0:
    signal.alarm(120)
    print(repr(float(model.predict([[1.0]])[0])), flush=True)
    os._exit(0)
sys.exit(os.waitpid(child, 0)[1])
"""


@pytest.mark.slow
def test_a_child_that_computes_first(fitted, tmp_path):
    """A model that is loaded before the fork, as by gunicorn with --preload."""
    path = tmp_path / "model.pickle"
    path.write_bytes(pickle.dumps(fitted))
    command = [sys.executable, "-c", CHILD, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=150)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) == pytest.approx(fitted.predict([[1.0]])[0], rel=1e-9)
