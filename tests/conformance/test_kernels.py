"""Every kernel of the package is in the list, and passes the shared checks."""

import importlib
import inspect
import pkgutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import cavity.kernels
from cavity.kernels import (
    RBF,
    AbstractKernel,
    ArcCosine,
    Constant,
    Linear,
    Matern12,
    Matern32,
    Matern52,
    NeuralNetwork,
    Nystrom,
    Orbit,
    Periodic,
    Polynomial,
    RandomFourier,
    RationalQuadratic,
    SpectralMixture,
    SumOver,
    White,
)
from cavity.parameters import positive
from tests.conformance.kernel_checks import CHECKS

D = 2
SCALES = np.array([0.7, 1.9])
CENTRE = np.array([0.25, -0.5])
MIXTURE = np.array([0.6, 1.1]), np.array([[0.2, -0.1], [0.5, 0.3]]), np.array([SCALES, SCALES]) / 8

KERNELS = {
    "rbf": RBF(1.3, SCALES),
    "matern12": Matern12(1.3, SCALES),
    "matern32": Matern32(1.3, SCALES),
    "matern52": Matern52(1.3, SCALES),
    "rational_quadratic": RationalQuadratic(1.3, SCALES, 0.8),
    "periodic": Periodic(1.3, SCALES, 2.0 * SCALES),
    "spectral_mixture": SpectralMixture(*MIXTURE),
    "random_fourier": RandomFourier(Matern52(1.3, SCALES), 5),
    "nystrom": Nystrom(Matern52(1.3, SCALES), [[0.3, -1.0], [1.2, 0.4], [-0.8, 0.1]]),
    "sum_over": SumOver(Orbit.shifts(2), RBF(1.3, SCALES), [0.8, -0.6]),
    "constant": Constant(1.3),
    "white": White(1.3),
    "linear": Linear(SCALES, CENTRE),
    "polynomial": Polynomial(1.3, SCALES, 0.4, 3, CENTRE),
    "arccosine0": ArcCosine(1.3, SCALES, 0.4, 0, CENTRE),
    "arccosine1": ArcCosine(1.3, SCALES, 0.4, 1, CENTRE),
    "arccosine2": ArcCosine(1.3, SCALES, 0.4, 2, CENTRE),
    "neural_network": NeuralNetwork(1.3, SCALES, 0.4, CENTRE),
    "sum": RBF(1.3, SCALES) + Linear(SCALES, CENTRE),
    "product": Matern52(1.3, SCALES) * Polynomial(1.3, SCALES, 0.4, 2, CENTRE),
    "scaled": 0.5 * Matern32(1.3, SCALES),
    "active": RationalQuadratic(1.3, 0.7).on(1),
}


class Wave(AbstractKernel):
    """One wave along the diagonal of the inputs, of unknown phase and amplitude."""

    variance: jax.Array = positive(output=2)
    period: jax.Array = positive(input=1)

    def cross(self, X, Z):
        phase = 2 * jnp.pi * (X[:, None, :] - Z[None, :, :]).sum(-1) / self.period
        return self.variance * jnp.cos(phase)

    def diag(self, X):
        return jnp.full(X.shape[0], self.variance)


each_check = pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__[6:])


@pytest.mark.sampled(14, "active-expectations")
@each_check
@pytest.mark.parametrize("name", KERNELS)
def test_kernel(name, check):
    check(KERNELS[name], D)


@each_check
def test_kernel_of_ones_own(check):
    check(Wave(1.3, 2.5), D)


def test_kernel_of_ones_own_is_short():
    assert len(inspect.getsource(Wave).splitlines()) <= 15


def concrete(kind):
    """The classes below a class that are not abstract."""
    below = kind.__subclasses__()
    found = {k for k in below if not inspect.isabstract(k)}
    return found.union(*(concrete(k) for k in below))


def test_no_kernel_is_missing():
    for module in pkgutil.iter_modules(cavity.kernels.__path__, "cavity.kernels."):
        importlib.import_module(module.name)
    every = {k for k in concrete(AbstractKernel) if k.__module__.startswith("cavity.kernels")}
    missing = every - {type(kernel) for kernel in KERNELS.values()}
    assert not missing, f"add these to KERNELS: {sorted(k.__name__ for k in missing)}"
