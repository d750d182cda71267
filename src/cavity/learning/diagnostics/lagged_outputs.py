"""A yardstick for forecasts: a linear model of lagged outputs and controls, simulated freely."""

import dataclasses

import numpy as np

# Numbers of lags that are tried, and rows that there are for each weight at the least.
LAGS = (1, 2, 3, 4, 6, 8, 10)
ROWS_PER_WEIGHT = 4
# The penalty on squared weights, as a share of the mean square of the columns.
RIDGE = 1e-6
# Values beyond this many deviations of the outputs end a path that explodes.
FARTHEST = 1e6


@dataclasses.dataclass(frozen=True, eq=False)
class LaggedOutputs:
    """Outputs that are linear in the last ones and in controls, plus Gaussian noise.

    Attributes:
        lags: rows that are looked back on; of controls the row's own is the first of as many.
        weights: of the outputs before, newest first, the controls, newest first, and one.
        noise: root of the covariance of what these leave, (P, P).
        last: the last outputs, (lags, P), newest last, those that are missing filled in.
        controls: the last controls, (lags - 1, C).
    """

    lags: int
    weights: np.ndarray
    noise: np.ndarray
    last: np.ndarray
    controls: np.ndarray

    @staticmethod
    def learn(Y: np.ndarray, filled: np.ndarray, X: np.ndarray) -> "LaggedOutputs":
        """Fit by least squares; the Bayesian information criterion chooses the number of lags.

        Args:
            Y: outputs (T, P), NaN where missing: these are no targets.
            filled: the same with values in their place.
            X: controls (T, C).
        """
        width = Y.shape[1] + X.shape[1]
        usable = [L for L in LAGS if ROWS_PER_WEIGHT * (L * width + 1) <= len(Y) - LAGS[-1]]
        most = max(usable, default=1)
        found = []
        for lags in usable or [1]:
            rows = np.arange(most, len(Y))
            rows = rows[~np.isnan(Y[rows]).any(axis=1)]
            inputs = _windows(filled, X, lags)[rows - lags]
            weights = _least_squares(inputs, Y[rows])
            left = Y[rows] - inputs @ weights
            cov = left.T @ left / max(len(rows) - len(weights), 1)
            cov += 1e-12 * np.eye(Y.shape[1])
            fit = len(rows) * np.linalg.slogdet(cov)[1] + np.log(max(len(rows), 1)) * weights.size
            found.append((fit, lags, weights, np.linalg.cholesky(cov)))
        _, lags, weights, noise = min(found, key=lambda each: each[0])
        return LaggedOutputs(lags, weights, noise, filled[-lags:], X[len(X) - lags + 1 :])

    def simulated(self, X: np.ndarray, paths: int, seed: int = 0) -> np.ndarray:
        """Paths of the outputs that follow, (paths, K, P): each is fed back, noise and all.

        Args:
            X: controls of the K rows (K, C).
            paths: how many.
            seed: of their noise.
        """
        random = np.random.default_rng(seed)
        size = self.last.shape[1]
        known = np.concatenate([self.controls, X])
        past = np.tile(self.last[::-1].ravel(), (paths, 1))
        out = np.empty((paths, len(X), size))
        for step in range(len(X)):
            window = np.append(known[step : step + self.lags][::-1].ravel(), 1.0)
            inputs = np.concatenate([past, np.tile(window, (paths, 1))], axis=1)
            noise = random.standard_normal((paths, size)) @ self.noise.T
            out[:, step] = np.clip(inputs @ self.weights + noise, -FARTHEST, FARTHEST)
            past = np.concatenate([out[:, step], past[:, :-size]], axis=1)
        return out


def _windows(filled: np.ndarray, X: np.ndarray, lags: int) -> np.ndarray:
    """Regressors of the rows from number `lags` on."""
    rows = np.arange(lags, len(filled))[:, None]
    back = np.arange(lags)
    before, beside = filled[rows - 1 - back], X[rows - back]
    ones = np.ones((len(rows), 1))
    return np.concatenate([a.reshape(len(rows), -1) for a in (before, beside)] + [ones], axis=1)


def _least_squares(inputs: np.ndarray, outputs: np.ndarray) -> np.ndarray:
    size = RIDGE * np.sum(inputs**2) / inputs.shape[1] + np.finfo(float).tiny
    gram = inputs.T @ inputs + size * np.eye(inputs.shape[1])
    return np.linalg.solve(gram, inputs.T @ outputs)
