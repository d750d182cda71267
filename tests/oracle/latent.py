"""Latent-variable models in plain numpy: dense sums over quadrature points, one row at a time.

Nothing here imports the package. Kernels are functions of two tables of points. `jitter` is
absolute. Log evidences are in nats. Missing outputs are NaN. Item numbers are those of
spec/bui.md unless another document is named.
"""

import numpy as np

LOG_2PI = np.log(2.0 * np.pi)


def hermite(count, columns):
    """Points and weights of a standard normal in some columns."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(count)
    weights = weights / weights.sum()
    points = np.stack(np.meshgrid(*[nodes] * columns, indexing="ij"), -1).reshape(-1, columns)
    products = np.stack(np.meshgrid(*[weights] * columns, indexing="ij"), -1)
    return points, products.reshape(-1, columns).prod(1)


def divergence(mean, var):
    """Of Gaussians from the standard normal, summed."""
    return 0.5 * np.sum(mean**2 + var - 1.0 - np.log(var))


def collapsed_bound(Y, mean, var, Z, kernel, noise, jitter, nodes=30):
    """The bound of the Bayesian GPLVM, expectations of the kernel by quadrature (S47).

    Args:
        Y: outputs (N, P).
        mean: of latent inputs (N, Q).
        var: of latent inputs (N, Q).
        Z: inducing inputs.
        kernel: covariance function.
        noise: variances, one per output.
        jitter: on the diagonal of Kuu.
        nodes: per coordinate.
    """
    points, weights = hermite(nodes, mean.shape[1])
    Kuu = kernel(Z, Z) + jitter * np.eye(len(Z))
    total = -divergence(mean, var)
    for y, s in zip(Y.T, noise, strict=True):
        rows = np.flatnonzero(~np.isnan(y))
        cross, outer, prior = np.zeros((len(rows), len(Z))), np.zeros_like(Kuu), 0.0
        for i, n in enumerate(rows):
            x = mean[n] + np.sqrt(var[n]) * points
            K = kernel(x, Z)
            cross[i] = weights @ K
            outer += K.T @ (weights[:, None] * K)
            prior += weights @ np.diag(kernel(x, x))
        b = cross.T @ y[rows]
        A = Kuu + outer / s
        total -= 0.5 * len(rows) * (LOG_2PI + np.log(s)) + 0.5 * np.sum(y[rows] ** 2) / s
        total -= 0.5 * (np.linalg.slogdet(A)[1] - np.linalg.slogdet(Kuu)[1])
        total += 0.5 * b @ np.linalg.solve(A, b) / s**2
        total -= 0.5 * (prior - np.trace(np.linalg.solve(Kuu, outer))) / s
    return total


def log_evidence(Y, kernel, noise, nodes=40):
    """The exact log evidence of a few rows with one latent dimension, by quadrature."""
    points, weights = hermite(nodes, len(Y))
    densities = np.empty(len(points))
    for i, x in enumerate(points):
        C = kernel(x[:, None], x[:, None]) + noise * np.eye(len(Y))
        quadratic = np.sum(Y * np.linalg.solve(C, Y))
        constant = len(Y) * LOG_2PI + np.linalg.slogdet(C)[1]
        densities[i] = -0.5 * (Y.shape[1] * constant + quadratic)
    return np.log(weights @ np.exp(densities - densities.max())) + densities.max()


def tied_cavity(m, S, power, total):
    """The cavity of N(m, SSᵀ) without a power of the site of `total` rows, and its log scale."""
    V = S @ S.T
    if power == 0.0:
        away = 0.5 * (np.trace(V) + m @ m - len(m) - np.linalg.slogdet(V)[1])
        return m, V, -away

    def log_partition(m, V):
        return 0.5 * m @ np.linalg.solve(V, m) + 0.5 * np.linalg.slogdet(V)[1]

    P, share = np.linalg.inv(V), power / total
    V_c = np.linalg.inv(P - share * (P - np.eye(len(m))))
    m_c = V_c @ ((1.0 - share) * P @ m)
    whole = log_partition(m, V)
    return m_c, V_c, whole + (log_partition(m_c, V_c) - whole) / share


def tied_terms(x, y, cavities, Z, kernel, noise, power, jitter):
    """Log power means of a row at known inputs, summed over its observed outputs."""
    L = np.linalg.cholesky(kernel(Z, Z) + jitter * np.eye(len(Z)))
    A = np.linalg.solve(L, kernel(Z, x))
    left = np.diag(kernel(x, x)) - np.sum(A**2, 0)
    total = np.zeros(len(x))
    for value, (m, V, _) in zip(y, cavities, strict=True):
        if np.isnan(value):
            continue
        away, v = value - A.T @ m, left + np.sum(A * (V @ A), 0)
        total -= 0.5 * (LOG_2PI + np.log(noise))
        if power == 0.0:
            total -= 0.5 * (away**2 + v) / noise
            continue
        wide = v + noise / power
        constant = LOG_2PI + np.log(noise) - np.log(power)
        total += 0.5 * (constant - LOG_2PI - np.log(wide) - away**2 / wide) / power
    return total


def tied_log_evidence(tied, inputs, Y, Z, kernel, noise, power, jitter, *, sites, nodes=40):
    """Of tied sites and latent inputs, at any power (S47 to S50), by quadrature.

    Args:
        tied: mean and root of the belief about the inducing variables, per output.
        inputs: means and variances of latent inputs (N, Q); with `sites` their shifts and
            precisions, about the standard normal prior.
        Y: outputs (N, P).
        Z: inducing inputs.
        kernel: covariance function.
        noise: variance.
        power: the power.
        jitter: on the diagonal of Kuu.
        sites: whether rows have sites, of which a power is taken out of their beliefs.
        nodes: per coordinate.
    """
    present = ~np.isnan(Y)
    totals = present.sum(0)
    cavities = [tied_cavity(*each, power, N) for each, N in zip(tied, totals, strict=True)]
    points, weights = hermite(nodes, inputs[0].shape[1])
    total = sum(scale for _, _, scale in cavities)
    for y, first, second in zip(Y, *inputs, strict=True):
        mean, var = (first / (1.0 + second), 1.0 / (1.0 + second)) if sites else (first, second)
        averaged = not sites or power == 0.0
        if averaged:
            total -= divergence(mean, var)
        else:  # of the belief, and of the cavity
            whole = 0.5 * np.sum(first**2 * var + np.log(var))
            shift, precision = (1.0 - power) * first, 1.0 + (1.0 - power) * second
            mean, var = shift / precision, 1.0 / precision
            rest = 0.5 * np.sum(shift**2 * var + np.log(var))
            total += whole + (rest - whole) / power
        x = mean + np.sqrt(var) * points
        terms = tied_terms(x, y, cavities, Z, kernel, noise, power, jitter)
        total += weights @ terms if averaged else np.log(weights @ np.exp(power * terms)) / power
    return total


def dual_components(Y, columns, noise):
    """The best latent inputs of linear functions with standard normal weights, and its evidence.

    Lawrence (2005): eigenvectors of the rows' covariances, in units of what noise leaves.
    """
    rows, outputs = Y.shape
    values, vectors = np.linalg.eigh(Y @ Y.T / outputs)
    values, vectors = values[::-1], vectors[:, ::-1]
    X = vectors[:, :columns] * np.sqrt(values[:columns] - noise)
    volume = np.sum(np.log(values[:columns])) + (rows - columns) * np.log(noise)
    quadratic = columns + np.sum(values[columns:]) / noise
    return X, -0.5 * outputs * (rows * LOG_2PI + volume + quadratic)
