"""Gibbs samplers of sparse linear models with Gaussian noise of known variance, in plain numpy.

Nothing here comes from the library: these are what its approximations are compared with.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.special import expit, logit


class Marginals(NamedTuple):
    """What a chain says of each coefficient.

    Attributes:
        mean: means, (p,).
        deviation: standard deviations, (p,).
        inclusion: probabilities that they are not zero, (p,); ones under priors without a spike.
        log_joint: under a prior with a spike, the mean over draws of the log joint density of the
            outputs and of which coefficients are not zero, less a constant. Of chains that stay
            in different places, the one that is higher by far is the one to believe. 0 otherwise.
    """

    mean: np.ndarray
    deviation: np.ndarray
    inclusion: np.ndarray
    log_joint: float = 0.0


class Chain(NamedTuple):
    """Settings of a chain.

    Attributes:
        draws: sweeps that count.
        burn_in: sweeps before these.
        seed: of the random numbers.
        wide: whether it starts from coefficients that fit every row, not from zero.
    """

    draws: int = 4000
    burn_in: int = 1000
    seed: int = 0
    wide: bool = False


def laplace(X: np.ndarray, y: np.ndarray, noise: float, scale: float, chain: Chain) -> Marginals:
    """Under a Laplace prior: Gaussians whose variances are exponential.

    References:
        Park and Casella (2008), without the deviation of the noise in the prior.
    """

    def variances(w: np.ndarray, _: np.ndarray, random: np.random.Generator) -> np.ndarray:
        # the inverse of a variance is inverse Gaussian given its coefficient
        size = np.maximum(np.abs(w), 1e-12 * scale)
        return 1.0 / random.wald(1.0 / (scale * size), 1.0 / scale**2)

    return _scale_mixture(X, y, noise, variances, 2.0 * scale**2, chain)


def horseshoe(X: np.ndarray, y: np.ndarray, noise: float, scale: float, chain: Chain) -> Marginals:
    """Under the horseshoe with its global scale given: two inverse gamma draws for each variance.

    References:
        Makalic and Schmidt (2016).
    """

    def variances(w: np.ndarray, old: np.ndarray, random: np.random.Generator) -> np.ndarray:
        auxiliary = (1.0 + scale**2 / old) / random.exponential(size=w.shape)
        local = (1.0 / auxiliary + 0.5 * (w / scale) ** 2) / random.exponential(size=w.shape)
        return scale**2 * local

    return _scale_mixture(X, y, noise, variances, scale**2, chain)


def _scale_mixture(
    X: np.ndarray,
    y: np.ndarray,
    noise: float,
    variances: Callable[[np.ndarray, np.ndarray, np.random.Generator], np.ndarray],
    narrow: float,
    chain: Chain,
) -> Marginals:
    """All coefficients given their variances, by a solve of n by n, then the variances given them.

    Means are averages of conditional ones.

    References:
        Bhattacharya, Chakraborty and Mallick (2016).
    """
    random = np.random.default_rng(chain.seed)
    n, p = X.shape
    d = np.full(p, 1.0 if chain.wide else narrow)
    total, first, second = np.zeros((3, p))
    for sweep in range(chain.burn_in + chain.draws):
        u = np.sqrt(d) * random.normal(size=p)
        noisy = X @ u + np.sqrt(noise) * random.normal(size=n)
        scaled = X * d
        covariance = scaled @ X.T + noise * np.eye(n)
        solved = scaled.T @ np.linalg.solve(covariance, np.column_stack([y, y - noisy]))
        w = u + solved[:, 1]
        if sweep >= chain.burn_in:
            total, first, second = total + solved[:, 0], first + w, second + w**2
        d = variances(w, d, random)
    total, first, second = total / chain.draws, first / chain.draws, second / chain.draws
    return Marginals(total, np.sqrt(second - first**2), np.ones(p))


def spike_slab(
    X: np.ndarray, y: np.ndarray, noise: float, share: float, slab: float, chain: Chain
) -> Marginals:
    """Under a mixture of a point at zero and a Gaussian: one coefficient after the other.

    Whether a coefficient is zero is drawn with its value integrated out. Of a run of coefficients
    that are zero and stay so, all are passed at once: what is drawn is the same. After each sweep
    coefficients may move to columns nearby, without which chains stay for long with one of two
    that are alike. Moments are averages of conditional ones, given all other coefficients.

    References:
        George and McCulloch (1997).
    """
    random = np.random.default_rng(chain.seed)
    w = np.linalg.lstsq(X, y)[0] if chain.wide else np.zeros(X.shape[1])
    state = _SpikeSlabState(X, y, noise, share, slab, w)
    inclusion, first, second = np.zeros((3, X.shape[1]))
    log_joint = []
    for sweep in range(chain.burn_in + chain.draws):
        state.draw_each(random)
        state.move_to_neighbours(random)
        if sweep >= chain.burn_in:
            mean, odds = state.conditional()
            within = expit(odds)
            inclusion, first = inclusion + within, first + within * mean
            second = second + within * (mean**2 + 1.0 / state.precision)
        if sweep >= chain.burn_in and sweep % 10 == 0:
            log_joint.append(_log_joint(X[:, state.w != 0.0], y, noise, share, slab))
    inclusion, first, second = (x / chain.draws for x in (inclusion, first, second))
    return Marginals(first, np.sqrt(second - first**2), inclusion, float(np.mean(log_joint)))


class _SpikeSlabState:
    """Coefficients of which many are zero, and the products of columns with the residual.

    Attributes:
        w: the coefficients, (p,).
        precision: of each that is not zero, given all others.
    """

    def __init__(
        self,
        X: np.ndarray,
        y: np.ndarray,
        noise: float,
        share: float,
        slab: float,
        w: np.ndarray,
    ):
        self.w, self.noise = w, noise
        self.gram = X.T @ X
        self.squares = np.diag(self.gram).copy()
        self.precision = self.squares / noise + 1.0 / slab
        self.log_odds = logit(share) - 0.5 * np.log(slab * self.precision)
        self.product = X.T @ y - self.gram @ w

    def conditional(self, at: slice | np.ndarray = slice(None)) -> tuple[np.ndarray, np.ndarray]:
        """Means of coefficients in the slab, and log odds of that, given all others."""
        alone = self.product[at] + self.squares[at] * self.w[at]
        mean = alone / (self.noise * self.precision[at])
        return mean, self.log_odds[at] + 0.5 * self.precision[at] * mean**2

    def put(self, j: int, value: float) -> None:
        """Gives a coefficient a value."""
        self.product -= self.gram[:, j] * (value - self.w[j])
        self.w[j] = value

    def draw_each(self, random: np.random.Generator) -> None:
        """Draws each coefficient given all others."""
        p = len(self.w)
        uniform, normal = random.random(p), random.normal(size=p)
        j = 0
        while j < p:
            mean, odds = self.conditional(slice(j, p))
            enters = uniform[j:] < expit(odds)
            changes = np.flatnonzero(enters | (self.w[j:] != 0.0))
            if not len(changes):
                return
            k = changes[0]
            j += int(k)
            self.put(j, mean[k] + normal[j] / np.sqrt(self.precision[j]) if enters[k] else 0.0)
            j += 1

    def move_to_neighbours(self, random: np.random.Generator) -> None:
        """Draws which of two columns nearby has the coefficient that one of them has."""
        for _ in range(np.count_nonzero(self.w)):
            j = int(random.choice(np.flatnonzero(self.w)))
            k = j + int(random.choice([-3, -2, -1, 1, 2, 3]))
            if not 0 <= k < len(self.w) or self.w[k] != 0.0:
                continue
            self.put(j, 0.0)
            pair = np.array([j, k])
            mean, odds = self.conditional(pair)
            chosen = int(random.random() < expit(odds[1] - odds[0]))
            deviation = 1.0 / np.sqrt(self.precision[pair[chosen]])
            self.put(int(pair[chosen]), mean[chosen] + deviation * random.normal())


def _log_joint(X: np.ndarray, y: np.ndarray, noise: float, share: float, slab: float) -> float:
    """Log density of outputs and of these columns alone, over that of no column."""
    k = X.shape[1]
    precision = slab * X.T @ X / noise + np.eye(k)
    product = np.sqrt(slab) * X.T @ y / noise
    fit = product @ np.linalg.solve(precision, product)
    return float(k * logit(share) + 0.5 * fit - 0.5 * np.linalg.slogdet(precision)[1])
