"""A fixed parameter, a bounded one, a prior on a third, and learning in two stages."""

import equinox as eqx
import jax
import numpy as np

import cavity
from cavity import inducing, kernels, likelihoods, parameters
from cavity.parameters import priors

rng = np.random.default_rng(1)
X = rng.uniform(-3, 3, (120, 1))
y = np.sinc(X[:, 0]) + 0.1 * rng.standard_normal(120)

with jax.enable_x64(True):
    model = cavity.GP(
        kernels.Matern52(1.0, 1.0), likelihoods.Gaussian(0.1), inducing.Points(X[:15])
    )
    domains = parameters.bijections(model)
    domains = eqx.tree_at(lambda m: m.kernel.variance, domains, parameters.FIXED)
    domains = eqx.tree_at(lambda m: m.kernel.lengthscale, domains, parameters.Positive(0.05, 5.0))
    beliefs = eqx.tree_at(
        lambda m: m.likelihood.variance, priors.flat(model), priors.LogNormal(0.01, 0.5)
    )
    # first the parameters with the inducing points frozen, then everything
    frozen_points = eqx.tree_at(lambda m: m.inducing.Z, domains, parameters.FIXED)
    result = cavity.fit(model, X, y, bijections=domains, priors=beliefs, schedule=[frozen_points])
    print(result)
    assert float(result.model.kernel.variance) == 1.0
