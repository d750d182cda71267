"""Kernels from their textbook definitions, one pair of inputs at a time, in plain numpy."""

import math

import numpy as np


def matrix(pointwise, X, Z):
    """The matrix of a function of two inputs."""
    return np.array([[pointwise(x, z) for z in Z] for x in X])


def distance(x, z, lengthscale):
    return math.sqrt(sum(((x - z) / (lengthscale * np.ones(len(x)))) ** 2))


def rbf(x, z, variance, lengthscale):
    return variance * math.exp(-(distance(x, z, lengthscale) ** 2) / 2)


def matern12(x, z, variance, lengthscale):
    return variance * math.exp(-distance(x, z, lengthscale))


def matern32(x, z, variance, lengthscale):
    r = math.sqrt(3) * distance(x, z, lengthscale)
    return variance * (1 + r) * math.exp(-r)


def matern52(x, z, variance, lengthscale):
    r = math.sqrt(5) * distance(x, z, lengthscale)
    return variance * (1 + r + r**2 / 3) * math.exp(-r)


def rational_quadratic(x, z, variance, lengthscale, shape):
    return variance * (1 + distance(x, z, lengthscale) ** 2 / (2 * shape)) ** -shape


def periodic(x, z, variance, lengthscale, period):
    lengthscale, period = lengthscale * np.ones(len(x)), period * np.ones(len(x))
    terms = [
        math.sin(math.pi * (a - b) / p) ** 2 / l**2
        for a, b, l, p in zip(x, z, lengthscale, period, strict=True)
    ]
    return variance * math.exp(-2 * sum(terms))


def spectral_mixture(x, z, weights, frequencies, bandwidths):
    total = 0.0
    for w, mu, b in zip(weights, frequencies, bandwidths, strict=True):
        envelope = math.exp(-2 * math.pi**2 * sum((b * (x - z)) ** 2))
        total += w * envelope * math.cos(2 * math.pi * sum(mu * (x - z)))
    return total


def constant(x, z, variance):
    return variance


def white(x, z, variance):
    return variance if tuple(x) == tuple(z) else 0.0


def linear(x, z, variance, centre):
    return float(sum(variance * (x - centre) * (z - centre)))


def polynomial(x, z, variance, weight_variance, offset, degree, centre):
    return variance * (offset + linear(x, z, weight_variance, centre)) ** degree


def arc_cosine(x, z, variance, weight_variance, bias_variance, order, centre):
    x = np.append(np.sqrt(weight_variance) * (x - centre), math.sqrt(bias_variance))
    z = np.append(np.sqrt(weight_variance) * (z - centre), math.sqrt(bias_variance))
    lengths = np.linalg.norm(x) * np.linalg.norm(z)
    # from a chord and its complement, which keeps small angles (Kahan)
    u, v = x / np.linalg.norm(x), z / np.linalg.norm(z)
    angle = 2 * math.atan2(np.linalg.norm(u - v), np.linalg.norm(u + v))
    rest = math.pi - angle
    J = [
        rest,
        math.sin(angle) + rest * math.cos(angle),
        3 * math.sin(angle) * math.cos(angle) + rest * (1 + 2 * math.cos(angle) ** 2),
    ][order]
    return variance / math.pi * lengths**order * J


def neural_network(x, z, variance, weight_variance, bias_variance, centre):
    def s(a, b):
        return bias_variance + linear(a, b, weight_variance, centre)

    inside = 2 * s(x, z) / math.sqrt((1 + 2 * s(x, x)) * (1 + 2 * s(z, z)))
    return variance * 2 / math.pi * math.asin(inside)
