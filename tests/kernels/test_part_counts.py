"""Counted rows against plain ones: sums over distinct parts with their weights added up."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import cavity
from cavity import kernels, likelihoods
from cavity.inducing import InBase, Points, covariance
from cavity.kernels import Orbit, Patches, SumOver, count_parts
from tests.tolerances import assert_close

RANDOM = np.random.default_rng(0)
SHAPE = (5, 4)
IMAGES = (RANDOM.uniform(size=(6, 20)) > 0.7).astype(float)
IMAGES[0] = 0.0  # one distinct patch
PARTS = {
    "patches": Patches(SHAPE, (3, 2)),
    "strided": Patches(SHAPE, (2, 2), 2),
    "pooled": Patches((5, 2, 2), (3, 2), channels="pooled"),
    "orbit": Orbit.flips(SHAPE),
    "positions": Patches(SHAPE, (3, 2), positions=True),
}


@pytest.mark.sampled(1, "patches-False")
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", PARTS)
def test_counted_rows_have_the_covariances_of_plain_ones(name, weighted):
    """T53: every distinct part once, with the weights of its places added up."""
    parts = PARTS[name]
    counted = count_parts(parts, IMAGES)
    distinct = [len(kernels.distinct_parts(parts, x[None])) for x in IMAGES]
    assert counted.shape[1] == 20 + 1 + parts.size + max(distinct)
    width = parts.of(IMAGES).shape[2]
    w = RANDOM.normal(size=parts.size) if weighted else None
    Z, S = RANDOM.normal(size=(3, width)), RANDOM.normal(size=(3, 6))

    def values(w, X):
        kernel = SumOver(parts, kernels.RBF(1.3, 0.9), w)
        with_points = covariance(kernel, InBase(Points(Z)), Points(X))
        return kernel.cross(X[:2], X), kernel.diag(X), with_points

    def slope(w, X):
        _, diag, with_points = values(w, X)
        return jnp.sum(S * with_points) + jnp.sum(diag)

    @jax.jit
    def both(w, X):
        return values(w, X), None if w is None else jax.grad(slope)(w, X)

    found, expected = (jax.tree.leaves(both(w, X)) for X in (counted, IMAGES))
    for one, other in zip(found, expected, strict=True):
        assert_close(one, other, "factorised")


def test_rows_may_have_room_for_more_parts():
    parts = PARTS["patches"]
    kernel = SumOver(parts, kernels.RBF(1.3, 0.9), RANDOM.normal(size=9))
    roomy = count_parts(parts, IMAGES, parts.size)
    assert_close(kernel.diag(jnp.asarray(roomy)), kernel.diag(jnp.asarray(IMAGES)), "factorised")


@pytest.mark.slow
@pytest.mark.parametrize("power", [0.0, 0.5])
def test_models_of_counted_rows_are_those_of_images(power):
    parts = Patches((4, 3), (2, 2))
    images = (RANDOM.uniform(size=(14, 12)) > 0.5).astype(float)
    y = (images[:, :6].sum(1) > 3.0).astype(float)
    counted, new = count_parts(parts, images[:12], 6), images[12:]
    model = cavity.GP(
        SumOver(parts, kernels.RBF(0.3, 1.1)),
        likelihoods.Bernoulli(),
        InBase(Points(kernels.distinct_parts(parts, images)[:5])),
    )
    plain, found = (cavity.infer(model, X, y[:12], power=power) for X in (images[:12], counted))
    assert_close(found.log_evidence, plain.log_evidence, "factorised")
    found, plain = (
        found.posterior.marginals(count_parts(parts, new, 6)),
        plain.posterior.marginals(new),
    )
    assert_close(found.mean, plain.mean, "factorised")
    assert_close(found.var, plain.var, "factorised")


def test_rows_counted_for_other_parts_have_no_covariances():
    counted = count_parts(Patches((4, 4, 2), (2, 2), channels=0), np.zeros((1, 32)))
    kernel = SumOver(Patches((4, 4, 2), (2, 2), channels=1), kernels.RBF())
    assert np.all(np.isnan(kernel.diag(jnp.asarray(counted))))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: count_parts(PARTS["patches"], IMAGES, 1), "distinct parts of 9"),
        (lambda: count_parts(PARTS["patches"], IMAGES, 10), "to 9, given 10"),
        (lambda: count_parts(PARTS["patches"], IMAGES[:, 1:]), "20 columns"),
        (lambda: SumOver(PARTS["patches"], kernels.RBF()).diag(jnp.zeros((1, 30))), "20 columns"),
        (lambda: SumOver(PARTS["patches"], kernels.RBF()).diag(jnp.zeros((1, 40))), "20 columns"),
    ],
)
def test_what_makes_no_sense_is_refused(build, message):
    with pytest.raises(ValueError, match=message):
        build()
