"""Bounds of deep models whose inducing variables depend on each other, in plain numpy.

Layers are those of `tests.oracle.deep`. Here a row's values may depend on each other as well, and
inducing variables may be a chain over layers for each function.
"""

import numpy as np

from tests.oracle import deep


def sampled_bound(layers, X, Y, hidden, stacked, draws, seed=0):
    """The bound by its definition, the mean of log p - log q over draws, and its standard error.

    What functions and hidden noise add given inducing variables and values is averaged exactly.

    Args:
        layers: the layers, without skip connections.
        X: inputs.
        Y: outputs, none missing.
        hidden: for each inner layer means, covariances between the values of a row and slopes in
            the inducing variables of all functions of the layer.
        stacked: mean and covariance of the inducing variables, one function after another.
        draws: how many.
        seed: of the draws.
    """
    random, (m, S) = np.random.default_rng(seed), stacked
    v = m + random.standard_normal((draws, len(m))) @ np.linalg.cholesky(S).T
    logs = np.full(draws, -deep.divergence(m, S))
    values, first = np.repeat(X[None], draws, axis=0), 0
    for i, layer in enumerate(layers):
        width, size = Y.shape[1] if i + 1 == len(layers) else layer["width"], len(layer["Z"])
        own = v[:, first : first + width * size]
        first += width * size
        inputs = values.reshape(-1, values.shape[2])
        A = deep.loadings(inputs, layer).reshape(draws, len(X), size)
        f = deep.prior_mean(inputs, layer, width).reshape(draws, len(X), width)
        f = f + np.einsum("snm,spm->snp", A, own.reshape(draws, width, size))
        spread = np.maximum(layer["variance"] - np.sum(A * A, axis=2), 0.0)
        if i + 1 == len(layers):
            values = np.repeat(Y[None], draws, axis=0)
        else:
            M, C, T = hidden[i]
            noise = random.standard_normal(f.shape)
            values = M + np.einsum("nmp,sm->snp", T, own)
            values = values + np.einsum("npq,snq->snp", np.linalg.cholesky(C), noise)
            logs += 0.5 * np.sum(np.linalg.slogdet(2.0 * np.pi * np.e * C)[1])
        square = ((values - f) ** 2 + spread[:, :, None]) / layer["noise"]
        square = square + np.log(2.0 * np.pi * layer["noise"])
        logs -= 0.5 * np.sum(square, axis=(1, 2))
    return logs.mean(), logs.std() / np.sqrt(draws)


def chained_bound(layers, X, Y, hidden, chains, count=16):
    r"""Chamberlin S23: $q(u^{ld} | u^{l-1, d})\, q(h^{ld} | u^{ld})$, no variable whitened.

    Args:
        layers: the layers, all of one width, with neither means nor skip connections.
        X: inputs.
        Y: outputs, none missing.
        hidden: for each inner layer slopes (N, M, W), means and variances of values, given the
            inducing variables of their functions.
        chains: for each layer and function slopes in the inducing variables of the same function
            of the layer below, mean and covariance.
        count: nodes for each hidden value.
    """
    width, total = Y.shape[1], 0.0
    # of every function of the layer below: moments of inducing variables; slopes and moments of
    # the values of rows
    mu, Sigma, below = [np.zeros(0)] * width, [np.zeros((0, 0))] * width, None
    for i, layer in enumerate(layers):
        K, last = prior(layer), i + 1 == len(layers)
        zero = np.zeros_like(Y)
        A, B, C = (np.zeros((len(X), len(K), width)), Y, zero) if last else hidden[i]
        total += 0.0 if last else 0.5 * np.sum(np.log(2.0 * np.pi * np.e * C))
        here = []
        for d, (U, V, W) in enumerate(chains[i]):
            total -= expected_divergence(K, U, V, W, mu[d], Sigma[d])
            m, S = U @ mu[d] + V, U @ Sigma[d] @ U.T + W
            here.append((m, S))
            for n, x in enumerate(X):
                slopes = A[n, :, d]
                value = slopes @ m + B[n, d], slopes @ S @ slopes + C[n, d]
                own = None if below is None else [each[n] for each in below]
                seen = conditioned(x, U @ Sigma[d], own, d, count)
                total += expected_log_density(layer, value, slopes, (m, S), seen)
        mu, Sigma = [m for m, _ in here], [S for _, S in here]
        means = [A[:, :, d] @ mu[d] + B[:, d] for d in range(width)]
        spread = [
            np.einsum("nm,mk,nk->n", A[:, :, d], S, A[:, :, d]) for d, (_, S) in enumerate(here)
        ]
        below = A, np.stack(means, axis=1), np.stack(spread, axis=1) + C
    return total


def conditioned(x, by_below, below, d, count):
    """Values of a row below at nodes, their weights, the way from their means, and gains.

    Args:
        x: the inputs of the row, which are what the first layer sees.
        by_below: covariances of the inducing variables of a function with those of the same
            function of the layer below.
        below: slopes, means and variances of the values of the row there; None for no layer.
        d: the function.
        count: nodes for each value.
    """
    if below is None:
        return x[None], np.ones(1), np.zeros((1, 1)), np.zeros((len(by_below), 1))
    slopes, means, variances = below
    H, w = deep.nodes_of(means, np.diag(variances), count)
    # inducing variables vary with the value of their own function alone
    gain = np.zeros((len(by_below), len(means)))
    gain[:, d] = by_below @ slopes[:, d] / variances[d]
    return H, w, H - means, gain


def expected_log_density(layer, value, slopes, belief, seen):
    r"""The expected log density of a value, given its function at the values below.

    Args:
        layer: of the value.
        value: its mean and variance.
        slopes: in the inducing variables of its function.
        belief: mean and covariance of these.
        seen: as `conditioned` gives it.
    """
    (h, var), (m, S), (H, w, away, gain), K = value, belief, seen, prior(layer)
    alpha = np.linalg.solve(K, deep.rbf(layer["Z"], H, layer)).T
    given_u, given_h = m + away @ gain.T, h + away @ gain.T @ slopes
    # the variance of values below at these nodes
    spread = np.einsum("n,np,nq->pq", w, away, away)
    rest = S - gain @ spread @ gain.T
    # <h alpha u> and <u' alpha' alpha u>, by conditioning on the values below
    product = alpha @ rest @ slopes + np.sum(alpha * given_u, axis=1) * given_h
    square = np.sum(alpha @ rest * alpha, axis=1) + np.sum(alpha * given_u, axis=1) ** 2
    left = layer["variance"] - np.sum(alpha @ K * alpha, axis=1)
    mean = var + h**2 + w @ (square - 2.0 * product + left)
    return -0.5 * (np.log(2.0 * np.pi * layer["noise"]) + mean / layer["noise"])


def prior(layer):
    """The covariance of the inducing variables of a function."""
    Z = layer["Z"]
    return deep.rbf(Z, Z, layer) + deep.JITTER * layer["variance"] * np.eye(len(Z))


def expected_divergence(K, U, V, W, mu, Sigma):
    """Chamberlin A.5.2: of q(u | u below) from the prior, averaged over the layer below."""
    solved, second = np.linalg.solve(K, U), Sigma + np.outer(mu, mu)
    volume = np.linalg.slogdet(K)[1] - np.linalg.slogdet(W)[1] - len(K)
    squares = np.trace(np.linalg.solve(K, W)) + np.trace(U.T @ solved @ second)
    return 0.5 * (volume + squares + V @ np.linalg.solve(K, V) + 2.0 * V @ solved @ mu)


def stacked_chain(layers, chains):
    """Mean and covariance of the whitened inducing variables of all functions of a chain."""
    width, sizes = len(chains[0]), [len(layer["Z"]) for layer in layers]
    starts = np.cumsum([0, *(width * size for size in sizes)])
    mean, cov = np.zeros(starts[-1]), np.zeros((starts[-1], starts[-1]))
    roots = [np.linalg.cholesky(prior(layer)) for layer in layers]
    for d in range(width):
        # u = L v for all layers, in terms of independent standard normal numbers
        m, half, parts = np.zeros(0), np.zeros((0, sum(sizes))), []
        for i, size in enumerate(sizes):
            U, V, W = chains[i][d]
            m, half = U @ m + V, U @ half
            first = sum(sizes[:i])
            half[:, first : first + size] += np.linalg.cholesky(W)
            white = np.linalg.solve(roots[i], np.column_stack([m, half]))
            parts.append((starts[i] + d * size + np.arange(size), white))
        places = np.concatenate([place for place, _ in parts])
        every = np.concatenate([white for _, white in parts])
        mean[places], cov[np.ix_(places, places)] = every[:, 0], every[:, 1:] @ every[:, 1:].T
    return mean, cov
