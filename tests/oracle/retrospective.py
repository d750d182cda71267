"""The posterior of a latent-variable model by Metropolis-within-Gibbs with retrospective sampling.

Nothing here imports the package. One latent dimension, Gaussian noise, a few rows, many chains
at a time. The function itself is held fixed while latent inputs move: its values at proposed
inputs are drawn from the conditional of the process when they are first needed. Item 78 of
spec/vanderwilk.md, whose printed acceptance ratio lacks the prior of the inputs (X-22).
"""

import numpy as np

# Put on the diagonal of covariances that are factorised.
JITTER = 1e-9


class Sampler:
    """Chains whose state is the latent inputs and the functions' values there.

    Args:
        Y: outputs (N, P), all observed.
        kernel: covariances of two tables of numbers, in batches: (R, N), (R, M) to (R, N, M).
        noise: variance.
        chains: how many, R.
        start: latent inputs to start from (N,); None for the prior.
        seed: of all draws.
    """

    def __init__(self, Y, kernel, noise, chains, start=None, seed=0):
        self.Y, self.kernel, self.noise = Y, kernel, noise
        self.random = np.random.default_rng(seed)
        self.X = self.random.standard_normal((chains, len(Y)))
        if start is not None:
            self.X = start + 0.1 * self.X
        self.resample_functions()

    def sweep(self):
        """Every input by a random walk and by a draw from the prior, then the functions."""
        for n in range(len(self.Y)):
            for independent in (False, True):
                self.move(n, independent=independent)
        self.resample_functions()

    def move(self, n, *, independent):
        """Steps 1 to 3: an input, with the function's value at the proposed place."""
        chains = len(self.X)
        step = self.random.standard_normal(chains)
        proposed = step if independent else self.X[:, n] + 0.5 * step
        values = self.at(proposed[:, None])[:, 0]
        old, new = self.log_likelihood(n, self.F[:, n]), self.log_likelihood(n, values)
        # a draw from the prior has its density in the proposal, which cancels the ratio of priors
        prior = 0.0 if independent else 0.5 * (self.X[:, n] ** 2 - proposed**2)
        accepted = np.log(self.random.random(chains)) < new - old + prior
        self.X[accepted, n] = proposed[accepted]
        self.F[accepted, n] = values[accepted]

    def log_likelihood(self, n, values):
        return -0.5 * np.sum((self.Y[n] - values) ** 2, 1) / self.noise

    def at(self, Z):
        """The functions at other inputs (R, M), given their values at the latent ones."""
        cross = self.kernel(self.X, Z)
        own = self.kernel(self.X, self.X) + JITTER * np.eye(self.X.shape[1])
        gain = np.linalg.solve(own, cross).swapaxes(1, 2)
        mean = gain @ self.F
        cov = self.kernel(Z, Z) - gain @ cross
        return mean + self._noise(cov, mean.shape)

    def resample_functions(self):
        """Step 4: their values at the latent inputs, given these and the outputs."""
        own = self.kernel(self.X, self.X)
        eye = np.eye(self.X.shape[1])
        gain = np.linalg.solve(own + self.noise * eye, own).swapaxes(1, 2)
        self.F = gain @ self.Y
        self.F = self.F + self._noise(own - gain @ own, self.F.shape)

    def _noise(self, cov, shape):
        cov = 0.5 * (cov + cov.swapaxes(1, 2))
        values, vectors = np.linalg.eigh(cov)
        root = vectors * np.sqrt(np.maximum(values, 0.0))[:, None]
        return root @ self.random.standard_normal(shape)


def rbf(variance, lengthscale):
    """A kernel for tables of numbers in batches."""

    def kernel(X, Z):
        square = ((X[:, :, None] - Z[:, None, :]) / lengthscale) ** 2
        return variance * np.exp(-0.5 * square)

    return kernel
