"""Bounds of deep models with hidden values, in plain numpy, one row at a time.

A layer is a dictionary: points Z, variance and lengthscale of a squared exponential, noise, and it
may be the weights of a linear mean, and `skips` where the inputs of the model follow the values
below. Inducing variables are whitened. Expectations over hidden values are sums over nodes.
"""

import numpy as np

JITTER = 1e-9


def rbf(X, Z, layer):
    square = ((X[:, None] - Z[None]) / layer["lengthscale"]) ** 2
    return layer["variance"] * np.exp(-0.5 * square.sum(-1))


def loadings(H, layer):
    """Those of whitened inducing variables at some inputs, (inputs, M)."""
    Z = layer["Z"]
    K = rbf(Z, Z, layer) + JITTER * layer["variance"] * np.eye(len(Z))
    return np.linalg.solve(np.linalg.cholesky(K), rbf(Z, H, layer)).T


def prior_mean(H, layer, width):
    return H @ layer["weights"] if "weights" in layer else np.zeros((len(H), width))


def nodes_of(mean, cov, count):
    """Nodes and weights of a Gaussian."""
    z, w = np.polynomial.hermite_e.hermegauss(count)
    grid = np.stack(np.meshgrid(*[z] * len(mean), indexing="ij"), -1).reshape(-1, len(mean))
    weights = np.prod(np.meshgrid(*[w / w.sum()] * len(mean), indexing="ij"), axis=0).ravel()
    values, vectors = np.linalg.eigh(cov)
    return mean + grid @ (vectors * np.sqrt(np.maximum(values, 0.0))).T, weights


def divergence(mean, cov):
    """From a standard normal."""
    return 0.5 * (np.trace(cov) + mean @ mean - len(mean) - np.linalg.slogdet(cov)[1])


def hidden_given(layer, moments, family, first, away, A, w, prior):
    """Values of one row at nodes of the layer below, their variances, and slopes in two kinds."""
    width = prior.shape[1]
    T = np.zeros((A.shape[1], width))
    if family == "nested":
        mean = w @ prior + 0.0 * prior
        return mean, np.full(width, layer["noise"]), np.repeat((w @ A)[:, None], width, 1), None
    mean, var, slopes = moments
    values = mean + 0.0 * prior
    if family == "chain" and not first:
        return values + away @ slopes, var, T, slopes
    return values, var, slopes if family.startswith("conditional") else T, None


def row_terms(layer, A, w, values, prior, var, T, power):
    """Precision, shift and constant that one row has for every function; none where it is NaN."""
    noise = layer["noise"]
    d = w @ (layer["variance"] - np.sum(A * A, axis=1))
    precision = 1.0 / (noise + power * d)
    lost = d / noise if power == 0.0 else np.log1p(power * d / noise) / power
    width, size = len(var), A.shape[1]
    P, h, c = np.zeros((width, size, size)), np.zeros((width, size)), np.zeros(width)
    for p in np.flatnonzero(~np.isnan(values[0])):
        e, B = values[:, p] - prior[:, p], A - T[:, p]
        P[p] = precision * (w[:, None] * B).T @ B
        h[p] = precision * B.T @ (w * e)
        c[p] = -0.5 * (np.log(2.0 * np.pi * noise) + lost + precision * (w @ e**2 + var[p]))
    return P, h, c


def value_of(P, h, c, given):
    """The value of one function, inducing variables integrated out or as given; their belief."""
    if given is not None:
        m, S = given
        quadratic = h @ m - 0.5 * np.trace(P @ (S + np.outer(m, m)))
        return c + quadratic - divergence(m, S), (m, S)
    S = np.linalg.inv(np.eye(len(h)) + P)
    m = S @ h
    return c + 0.5 * h @ m + 0.5 * np.linalg.slogdet(S)[1], (m, S)


def layered_bound(layers, X, Y, hidden, family, power=0.0, direct=(), count=16):
    """The bound, and every layer's beliefs about inducing variables.

    Args:
        layers: the layers.
        X: inputs.
        Y: outputs, NaN where missing.
        hidden: for each inner layer: means, variances and slopes, or None.
        family: as the setting of a method.
        power: of all rows.
        direct: for each inner layer, means and covariances of inducing variables; or nothing.
        count: nodes for each hidden value.
    """
    used = ~np.isnan(Y).all(1)
    X, Y = X[used], Y[used]
    below, total, functions = [(None, None)] * len(X), 0.0, []
    for i, layer in enumerate(layers):
        last = i + 1 == len(layers)
        width, terms, rows = Y.shape[1] if last else layer["width"], [], []
        for n, (mean, cov) in enumerate(below):
            H, w = (X[n][None], np.ones(1)) if i == 0 else nodes_of(mean, cov, count)
            away = 0.0 if i == 0 else H - mean
            if layer.get("skips"):
                H = np.column_stack([H, np.repeat(X[n][None], len(H), axis=0)])
            A, prior = loadings(H, layer), prior_mean(H, layer, width)
            if last:
                values, var = np.repeat(Y[n][None], len(H), axis=0), np.zeros(width)
                T, chain = np.zeros((A.shape[1], width)), None
            else:
                moments = (
                    [None if a is None else a[used][n] for a in hidden[i]] if hidden else None
                )
                seen = (i == 0, away, A, w, prior)
                values, var, T, chain = hidden_given(layer, moments, family, *seen)
                total += 0.5 * np.sum(np.log(2.0 * np.pi * np.e * var))
            terms.append(row_terms(layer, A, w, values, prior, var, T, power))
            rows.append((w @ values, var, T, chain, cov))
        sums = [np.sum(each, axis=0) for each in zip(*terms, strict=True)]
        given = list(zip(*direct[i], strict=True)) if i < len(direct) else [None] * width
        answers = [value_of(*each, g) for *each, g in zip(*sums, given, strict=True)]
        total += sum(value for value, _ in answers)
        functions.append([belief for _, belief in answers])
        below = [marginal_of(*row, functions[-1]) for row in rows]
    return total, functions


def coupled_bound(layers, X, Y, hidden, stacked, power, count=16):
    """The bound with one joint Gaussian for the inducing variables of all layers.

    Given the inputs of a function at a node its inducing variables are Gaussian.

    Args:
        layers: the layers.
        X: inputs.
        Y: outputs, NaN where missing.
        hidden: for each inner layer means, variances and slopes in the inducing variables of their
            own functions; or means, covariances and slopes in those of all functions of the layer.
        stacked: mean and covariance of the inducing variables, one function after another.
        power: of all rows.
        count: nodes for each hidden value.
    """
    m, S = stacked
    total, first = -divergence(m, S), 0
    used = np.flatnonzero(~np.isnan(Y).all(1))
    # of every row: means and covariances of values, and these with all inducing variables
    below = [(np.zeros(0), np.zeros((0, 0)), np.zeros((len(m), 0)))] * len(used)
    for i, layer in enumerate(layers):
        last = i + 1 == len(layers)
        width, size = Y.shape[1] if last else layer["width"], len(layer["Z"])
        parts = [slice(first + p * size, first + (p + 1) * size) for p in range(width)]
        first, above = first + width * size, []
        for n, (mean, cov, cross) in zip(used, below, strict=True):
            H, w = (np.zeros((1, 0)), np.ones(1)) if i == 0 else nodes_of(mean, cov, count)
            gain = cross @ np.linalg.inv(cov) if i else cross
            seen = np.repeat(X[n][None], len(H), axis=0)
            inputs = seen if i == 0 else np.column_stack([H, seen]) if layer.get("skips") else H
            A, prior = loadings(inputs, layer), prior_mean(inputs, layer, width)
            M, s, T = (Y[n], np.zeros(width), np.zeros((size, width))) if last else (
                each[n] for each in hidden[i]
            )  # fmt: skip
            loads = all_slopes(T, parts, len(m))
            s = np.diag(s) if s.ndim == 1 else s
            given, spread = m + (H - mean) @ gain.T, S - gain @ cross.T
            d = w @ (layer["variance"] - np.sum(A * A, axis=1))
            for p in np.flatnonzero(~np.isnan(M)):
                B = np.repeat(loads[None, :, p], len(H), axis=0)
                B[:, parts[p]] -= A
                square = (M[p] - prior[:, p] + np.sum(B * given, axis=1)) ** 2
                square = square + np.sum(B * (B @ spread), axis=1) + s[p, p]
                total += site_value(layer, d, w @ square, power)
            above.append((M + loads.T @ m, loads.T @ S @ loads + s, S @ loads))
            total += 0.0 if last else 0.5 * np.linalg.slogdet(2.0 * np.pi * np.e * s)[1]
        below = above
    return total


def all_slopes(T, parts, count):
    """Slopes of values in so many inducing variables, from those in the ones of their layer.

    Args:
        T: in those of their own functions, or of all functions of the layer.
        parts: where those of each function are.
        count: of all layers.
    """
    loads = np.zeros((count, len(parts)))
    if len(T) > parts[0].stop - parts[0].start:
        loads[parts[0].start : parts[-1].stop] = T
        return loads
    for p, part in enumerate(parts):
        loads[part, p] = T[:, p]
    return loads


def site_value(layer, d, square, power):
    """The averaged log site of one value, of which the mean square of the residual is known."""
    noise = layer["noise"]
    lost = d / noise if power == 0.0 else np.log1p(power * d / noise) / power
    return -0.5 * (np.log(2.0 * np.pi * noise) + lost + square / (noise + power * d))


def marginal_of(mean, var, T, chain, cov, beliefs):
    """Mean and covariance of the values of one row."""
    pairs = list(zip(T.T, beliefs, strict=True))
    total = np.diag(var + [t @ S @ t for t, (_, S) in pairs])
    total = total if chain is None else total + chain.T @ cov @ chain
    return mean + [t @ m for t, (m, _) in pairs], total


def sampled_bound(layers, X, Y, hidden, family, functions, draws, seed=0):
    """The bound by its definition, the mean of log p - log q over draws, and its standard error.

    For one function in every layer, and no prior means.

    Args:
        layers: the layers.
        X: inputs.
        Y: outputs, none missing.
        hidden: as in `layered_bound`; for "nested" variances and slopes of inducing variables.
        family: as the setting of a method.
        functions: for each layer the belief about its inducing variables.
        draws: how many.
        seed: of the draws.
    """
    random = np.random.default_rng(seed)
    logs, values, before = np.zeros(draws), np.repeat(X[None], draws, axis=0), None
    for i, layer in enumerate(layers):
        ((m, S),) = functions[i]
        v = m + random.standard_normal((draws, len(m))) @ np.linalg.cholesky(S).T
        logs -= divergence(m, S)
        A = loadings(values.reshape(-1, values.shape[2]), layer).reshape(*values.shape[:2], -1)
        var = layer["variance"] - np.sum(A * A, axis=2)
        f = np.einsum("snm,sm->sn", A, v)
        f = f + np.sqrt(np.maximum(var, 0.0)) * random.standard_normal(var.shape)
        if i + 1 == len(layers):
            h = np.repeat(Y.T, draws, axis=0)
        else:
            mean, s, slopes = (None if a is None else a[:, ..., 0] for a in hidden[i])
            if family == "chain" and i > 0:
                mean = mean + slopes[:, 0] * (values[:, :, 0] - before)
            if family in ("conditional", "conditional_local", "nested"):
                mean = mean + v @ slopes.T
            noise = random.standard_normal((draws, len(X)))
            h = mean + np.sqrt(s) * noise
            logs += 0.5 * np.sum(np.log(2.0 * np.pi * s) + noise**2, axis=1)
            before = hidden[i][0][:, 0]
        square = (h - f) ** 2 / layer["noise"] + np.log(2.0 * np.pi * layer["noise"])
        logs -= 0.5 * np.sum(square, axis=1)
        values = h[:, :, None]
    return logs.mean(), logs.std() / np.sqrt(draws)
