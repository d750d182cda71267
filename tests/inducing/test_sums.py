"""Inducing patches and inducing images, against bounds in terms of counts in plain numpy.

Images have one of three patches twice and one of three others once: nine images have six
distinct patches, and their counts have rank five.
"""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import optimize, stats

import cavity
from cavity import kernels, likelihoods
from cavity.inducing import InBase, Points
from cavity.inference.factors.tied import TiedSite
from cavity.learning.data.arrays import prepare
from cavity.learning.infer import as_dtype
from cavity.learning.objectives.evidence import Objective
from tests.oracle import dense
from tests.tolerances import assert_close

RANDOM = np.random.default_rng(4)
VARIANCE, LENGTHSCALE, NOISE, JITTER = 0.4, 1.5, 0.05, 1e-11
PARTS = kernels.Patches((2, 6), (2, 2), 2)
PATCHES = RANDOM.normal(size=(6, 4))
PAIRS = [(a, b) for a in range(3) for b in range(3, 6)]
X = np.stack([np.hstack(PATCHES.reshape(6, 2, 2)[[a, b, a]]).ravel() for a, b in PAIRS])
COUNTS = np.stack([2.0 * np.eye(6)[a] + np.eye(6)[b] for a, b in PAIRS])
BASE = dense.rbf(PATCHES, PATCHES, VARIANCE, LENGTHSCALE)
Y = {"gaussian": RANDOM.normal(size=9), "bernoulli": np.array([1.0, 0, 1, 1, 1, 0, 0, 0, 1])}
LIKELIHOODS = {"gaussian": likelihoods.Gaussian(NOISE), "bernoulli": likelihoods.Bernoulli()}
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(40)

# W = U S Vᵀ: the directions of patch space that images see, and the one that they do not
U, S, V = np.linalg.svd(COUNTS)
RANK = int(np.sum(S > 1e-10))
SEEN, UNSEEN = V[:RANK].T, V[RANK:].T
LOADINGS = U[:, :RANK] * S[:RANK]
PRIOR = SEEN.T @ BASE @ SEEN


def compressed_bound(mean, cov, name):
    """The variational bound of a belief about what images see (eq. 5.42), by quadrature."""
    m, v = LOADINGS @ mean, np.sum(LOADINGS * (LOADINGS @ cov), axis=1)
    f, y = m[:, None] + np.sqrt(v)[:, None] * NODES, Y[name][:, None]
    if name == "gaussian":
        logs = stats.norm.logpdf(y, f, np.sqrt(NOISE))
    else:
        logs = stats.norm.logcdf((2.0 * y - 1.0) * f)
    return np.sum(logs @ WEIGHTS) / WEIGHTS.sum() - dense.gaussian_kl(mean, cov, PRIOR)


def best_bound(name):
    """The largest compressed bound: log evidence of Gaussian noise, otherwise by search."""
    if name == "gaussian":
        return dense.exact_log_evidence(COUNTS @ BASE @ COUNTS.T, Y[name], NOISE)
    start = np.linalg.cholesky(PRIOR)
    below = np.tril_indices(RANK)

    def energy(numbers):
        root = np.zeros((RANK, RANK))
        root[below] = numbers[RANK:]
        return -compressed_bound(start @ numbers[:RANK], start @ root @ root.T @ start.T, name)

    first = np.concatenate([np.zeros(RANK), np.eye(RANK)[below]])
    return -optimize.minimize(energy, first).fun


def model(name, inducing):
    kernel = kernels.SumOver(PARTS, kernels.RBF(VARIANCE, LENGTHSCALE))
    return cavity.GP(kernel, LIKELIHOODS[name], inducing)


def bound(name, inducing):
    whole = model(name, inducing)
    return cavity.infer(whole, X, Y[name], power=0.0, jitter=JITTER).log_evidence


MORE = {
    "patches": InBase(np.concatenate([PATCHES, RANDOM.normal(size=(2, 4))])),
    "images": Points(np.concatenate([X, RANDOM.normal(size=(2, 12))])),
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", MORE)
@pytest.mark.parametrize("name", LIKELIHOODS)
def test_variables_beyond_all_patches_or_all_images_add_nothing(name, kind):
    """vanderwilk T55, T54 (Lemmas 1 and 3): the bound stays at the best that any belief has."""
    assert bound(name, MORE[kind]) == pytest.approx(best_bound(name), abs=1e-6)


def test_as_many_images_as_the_rank_of_the_counts_are_enough():
    """vanderwilk T56: where their counts are independent; as many others are not enough."""
    chosen, others = [0, 1, 2, 3, 6], [0, 1, 3, 4, 8]
    assert np.linalg.matrix_rank(COUNTS[chosen]) == RANK == 5 < len(PATCHES) < len(X)
    assert np.linalg.matrix_rank(COUNTS[others]) == 4
    expected = best_bound("gaussian")
    assert bound("gaussian", Points(X[chosen])) == pytest.approx(expected, abs=1e-6)
    assert bound("gaussian", Points(X[others])) < expected - 1.0


@pytest.mark.slow
def test_beliefs_about_what_images_see_extend_to_all_patches():
    """vanderwilk T57 with X-14 (eqs. 5.39 to 5.41): the same divergence and bound.

    With another mean or variance in the direction that images do not see the bound is lower.
    """
    random = np.random.default_rng(5)
    mean, root = random.normal(size=RANK), 0.3 * random.normal(size=(RANK, RANK))
    cov = root @ root.T + 0.05 * np.eye(RANK)
    along = UNSEEN.T @ BASE @ SEEN @ np.linalg.inv(PRIOR)
    between = along @ cov
    rest = UNSEEN.T @ BASE @ UNSEEN - along @ SEEN.T @ BASE @ UNSEEN
    beyond = between @ np.linalg.solve(cov, mean), rest + between @ np.linalg.solve(cov, between.T)

    def belief(shift=0.0, scale=1.0):
        m = SEEN @ mean + UNSEEN @ (beyond[0] + shift)
        both = SEEN @ cov @ SEEN.T + UNSEEN @ (beyond[1] * scale) @ UNSEEN.T
        return m, both + SEEN @ between.T @ UNSEEN.T + UNSEEN @ between @ SEEN.T

    m, whole = belief()
    assert_close(
        dense.gaussian_kl(m, whole, BASE), dense.gaussian_kl(mean, cov, PRIOR), "factorised"
    )
    data = prepare(X, Y["bernoulli"], power=0.0)
    whole_model = as_dtype(model("bernoulli", InBase(PATCHES)), data)
    energy = Objective(whole_model, data, method=cavity.TiedPowerEP(), jitter=JITTER)

    def bound_at(m, whole):
        L = np.linalg.cholesky(BASE)
        root = np.linalg.solve(L, np.linalg.cholesky(whole))
        raw = np.tril(root, -1) + np.diag(np.log(np.diag(root)))
        site = TiedSite(jnp.asarray(np.linalg.solve(L, m))[None], jnp.asarray(raw)[None])
        return -energy(energy.coordinates.at_tied(((site,),), energy.first))[0]

    expected = compressed_bound(mean, cov, "bernoulli")
    assert_close(bound_at(m, whole), expected, "factorised")
    for other in (belief(shift=0.1), belief(scale=1.2)):
        assert bound_at(*other) < expected - 1e-3
