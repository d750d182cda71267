"""A user-defined inducing variable: local averages of the function instead of its values."""

import jax
import jax.numpy as jnp
import numpy as np

import cavity
from cavity import inducing, kernels, likelihoods
from cavity.parameters import real


class Averages(inducing.AbstractInducing):
    """Means of the function over five points around each centre."""

    centres: jax.Array = real(input=1, location=True)

    def __call__(self, g):
        offsets = jnp.linspace(-0.3, 0.3, 5)[:, None]
        return jnp.mean(jax.vmap(lambda d: jax.vmap(g)(self.centres + d))(offsets), axis=0)

    @property
    def size(self):
        return self.centres.shape[0]


rng = np.random.default_rng(4)
X = rng.uniform(0, 10, (200, 1))
y = np.sin(X[:, 0]) + 0.1 * rng.standard_normal(200)

with jax.enable_x64(True):
    centres = np.linspace(0, 10, 12)[:, None]
    for variables in (Averages(centres), inducing.Points(centres)):
        model = cavity.GP(kernels.RBF(1.0, 1.0), likelihoods.Gaussian(0.05), variables)
        result = cavity.fit(model, X, y, power=0.0)
        print(f"{type(variables).__name__:9s} bound {result.log_evidence:.2f} nats")
