"""Every likelihood of the package is in the list, and passes the shared checks."""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.stats import norm

import cavity
import cavity.likelihoods
from cavity.likelihoods import (
    AbstractLikelihood,
    AbstractQuadratureLikelihood,
    Bernoulli,
    Beta,
    Exponential,
    Gamma,
    Gaussian,
    Laplace,
    NegativeBinomial,
    OrdinalProbit,
    Poisson,
    StudentT,
    Support,
)
from cavity.likelihoods.base import ONE_LATENT
from cavity.parameters import positive
from tests.conformance.likelihood_checks import CHECKS
from tests.conformance.test_kernels import concrete

LIKELIHOODS = {
    "gaussian": Gaussian(0.2),
    "probit": Bernoulli(),
    "logit": Bernoulli("logit"),
    "student_t": StudentT(0.3, 4.0),
    "laplace": Laplace(0.3),
    "poisson": Poisson(),
    "negative_binomial": NegativeBinomial(0.4),
    "gamma": Gamma(2.0),
    "exponential": Exponential(),
    "beta": Beta(8.0),
    "ordinal": OrdinalProbit([-0.8, 0.3, 1.5]),
}


class Contaminated(AbstractQuadratureLikelihood):
    """Gaussian noise, a tenth of it five times as wide."""

    scale: jax.Array = positive(output=1)
    support = Support.REAL

    def log_prob(self, f, y, **side):
        narrow, wide = (norm.logpdf(y, f, k * self.scale) for k in (1.0, 5.0))
        return jnp.logaddexp(narrow + jnp.log(0.9), wide + jnp.log(0.1))


each_check = pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__[6:])


@pytest.mark.sampled(
    8, "beta-support", "beta-predictive", "gamma-predictive", "student_t-predictive"
)
@each_check
@pytest.mark.parametrize("name", LIKELIHOODS)
def test_likelihood(name, check):
    check(LIKELIHOODS[name])


SLOW = {"check_predictive", "check_predictive_refuses"}  # a grid of outputs takes long to compile


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "check",
    [pytest.param(c, marks=pytest.mark.slow) if c.__name__ in SLOW else c for c in CHECKS],
    ids=lambda check: check.__name__[6:],
)
def test_likelihood_of_ones_own(check):
    check(Contaminated(0.3))


def test_likelihood_of_ones_own_is_short():
    assert len(inspect.getsource(Contaminated).splitlines()) <= 10


@pytest.mark.slow
def test_likelihood_of_ones_own_trains():
    X = np.linspace(0.0, 5.0, 12)[:, None]
    y = np.sin(X[:, 0]) + np.where(np.arange(12) == 4, 5.0, 0.0)
    with jax.enable_x64(True):
        model = cavity.GP(cavity.kernels.RBF(1.0, [1.0]), Contaminated(0.3))
        result = cavity.fit(model, X, y, max_iterations=3)
    assert np.isfinite(result.log_evidence)
    assert float(result.model.likelihood.scale) != 0.3


def test_no_likelihood_is_missing():
    """But for those of several latent values, which have checks of their own."""
    public = {vars(cavity.likelihoods)[name] for name in cavity.likelihoods.__all__}
    every = concrete(AbstractLikelihood) & public
    every = {kind for kind in every if kind.latent_functions is ONE_LATENT}
    missing = every - {type(likelihood) for likelihood in LIKELIHOODS.values()}
    assert not missing, f"add these to LIKELIHOODS: {sorted(k.__name__ for k in missing)}"


def test_a_class_without_moments_names_the_class_to_derive_from():
    body = {"support": Support.REAL, "log_prob": Contaminated.log_prob}
    with pytest.raises(
        TypeError,
        match=r"Noise defines no log_power_mean, tilted, predictive: .*"
        r"AbstractQuadratureLikelihood",
    ):
        type(AbstractLikelihood)("Noise", (AbstractLikelihood,), body)


@pytest.mark.parametrize(("old", "new"), [("guess", "initial_latents"), ("landmarks", "features")])
def test_a_renamed_method_is_refused_with_its_new_name(old, new):
    body = {old: lambda self, y: y}
    with pytest.raises(TypeError, match=f"Noise.{old} is called {new} now"):
        type(AbstractLikelihood)("Noise", (Contaminated,), body)
