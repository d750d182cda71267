"""Fixed points of Power EP and modes of Laplace's method, checked by dense quadrature.

The beliefs follow from the sites by plain linear algebra; tilted distributions by quadrature.
"""

from typing import Any, NamedTuple

import numpy as np

from benchmarks.fuzz import gaussian
from benchmarks.fuzz.cases import Case
from benchmarks.fuzz.covariances import WIDE, covariance, mean_at, wide
from benchmarks.fuzz.densities import expected, log_density, tilted

TINY = 1e-9  # share of a variance that counts as none


class Prior(NamedTuple):
    """What rows see: projections z = A w of standard normal w, plus a residual and the mean."""

    A: np.ndarray
    residual: np.ndarray
    mean: np.ndarray


def prior_of(model: Any, X: np.ndarray, jitter: float) -> Prior:
    """The prior at rows; of a full GP the whole covariance, by its eigenvectors."""
    mean = mean_at(model.mean, wide(X)).astype(float)
    K = covariance(model.kernel, wide(X), wide(X))
    if model.inducing is None:
        values, vectors = np.linalg.eigh(K.astype(float))
        A = vectors * np.sqrt(np.maximum(values, 0.0))
        return Prior(A, np.zeros(len(X)), mean)
    Z = wide(model.inducing.Z)
    Kuu = covariance(model.kernel, Z, Z)
    share = jitter * np.mean(np.diag(Kuu)) * np.eye(len(Kuu), dtype=WIDE)
    A = gaussian.forward(gaussian.cholesky(Kuu + share), covariance(model.kernel, Z, wide(X)))
    residual = np.maximum(np.diag(K) - np.sum(A**2, axis=0), WIDE(0))
    return Prior(A.T.astype(float), residual.astype(float), mean)


class Judgement(NamedTuple):
    """How far sites are from a fixed point, in deviations, and the log evidence there."""

    gap: float
    log_evidence: float


def judge(case: Case, shift: np.ndarray, precision: np.ndarray, jitter: float) -> Judgement:
    """The sites of a case, one output, beside moments by quadrature."""
    prior = prior_of(case.model, case.X, jitter)
    power = np.broadcast_to(np.asarray(case.power, float), len(case.X))
    P = np.eye(prior.A.shape[1]) + prior.A.T @ (precision[:, None] * prior.A)
    sign, log_det = np.linalg.slogdet(P)
    if sign <= 0 or not np.all(np.isfinite(P)):
        return Judgement(np.inf, np.nan)
    solved = np.linalg.solve(P, prior.A.T)
    m, v = solved.T @ (prior.A.T @ shift), np.sum(prior.A * solved.T, axis=1)
    pushed = prior.A.T @ shift
    total = 0.5 * pushed @ np.linalg.solve(P, pushed) - 0.5 * log_det
    worst = 0.0
    for n, a in enumerate(power):
        row = _Row(case, prior.mean[n], prior.residual[n], float(case.y.ravel()[n]))
        if case.kind == "laplace":
            gap, part = row.mode(m[n], v[n], shift[n], precision[n])
        elif a == 0.0:
            gap, part = row.variational(m[n], v[n], shift[n], precision[n])
        else:
            gap, part = row.matched(m[n], v[n], shift[n], precision[n], a)
        worst, total = max(worst, gap), total + part
    return Judgement(worst, total)


class _Row(NamedTuple):
    case: Case
    offset: float
    residual: float
    y: float

    def density(self, z: np.ndarray) -> np.ndarray:
        return log_density(self.case.model.likelihood, z + self.offset, self.y)

    def features(self, mean: float, var: float) -> list[tuple[float, float]]:
        """Places and widths of a Gaussian and of the density."""
        scale = float(getattr(self.case.model.likelihood, "scale", 0.3))
        centre = self.y if hasattr(self.case.model.likelihood, "scale") else 0.0
        return [(mean, np.sqrt(var)), (centre - self.offset, scale)]

    def matched(self, m: float, v: float, nu: float, tau: float, a: float) -> tuple[float, float]:
        left = 1.0 - a * tau * v
        if left <= 0.0:
            return np.inf, np.nan
        cm, cv = (m - a * v * nu) / left, v / left
        f = tilted(self.density, self.features(cm, cv + self.residual), a)
        gain = cv / (cv + self.residual) if cv > 0.0 else 0.0
        mean, var = cm + gain * (f.mean - cm), cv - gain * cv + gain**2 * f.var
        ratio = -np.log1p(-a * tau * v) / (2.0 * a)
        ratio += (0.5 * tau * m**2 - nu * m + 0.5 * a * nu**2 * v) / left
        gap = max(abs(mean - m) / np.sqrt(v), abs(var - v) / v) if v > 0.0 else 0.0
        return gap, f.log_integral / a + ratio

    def variational(self, m: float, v: float, nu: float, tau: float) -> tuple[float, float]:
        if v <= 0.0 and self.residual <= 0.0:
            return 0.0, float(self.density(np.array(m)))
        value, slope, bend = expected(self.density, self.features(m, v + self.residual))
        gap = max(abs(tau + bend) * v, abs(nu - tau * m - slope) * np.sqrt(v))
        # D₀ is the derivative of the log-partition: -E_q log t
        return gap, value + 0.5 * tau * (v + m**2) - nu * m

    def mode(self, m: float, v: float, nu: float, tau: float) -> tuple[float, float]:
        """At the mode the site has the slope and the curvature of the log density."""
        step = 1e-3 * min(np.sqrt(v), float(getattr(self.case.model.likelihood, "scale", 0.3)))
        at = m + step * np.arange(-3.0, 4.0)
        values = self.density(at)
        slope = np.array([-1, 9, -45, 0, 45, -9, 1]) @ values / (60.0 * step)
        gap = abs(nu - tau * m - slope) * np.sqrt(v)
        return gap, values[3] + 0.5 * tau * m**2 - nu * m
