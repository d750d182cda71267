"""Sums over parts against sums written out: convolutional kernels and invariant functions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import signal

import cavity
from cavity import kernels, likelihoods
from cavity.inducing import InBase, OfParts, Points, covariance
from cavity.inducing.base import variances_from
from cavity.kernels import Orbit, Patches, SumOver
from tests.oracle import dense
from tests.tolerances import assert_close

RANDOM = np.random.default_rng(0)
SHAPE = (5, 4)
X = RANDOM.normal(size=(6, 20))
VARIANCE, LENGTHSCALE = 1.3, 0.9
BASE = kernels.RBF(VARIANCE, LENGTHSCALE)
WEIGHTS = RANDOM.normal(size=6)
PATCHES = Patches(SHAPE, (3, 2), 1)  # 3 x 3 places


def patches_of(x, shape=SHAPE, patch=(3, 2), stride=1):
    """Explicit extraction."""
    image = x.reshape(shape)
    rows = range(0, shape[0] - patch[0] + 1, stride)
    columns = range(0, shape[1] - patch[1] + 1, stride)
    return np.stack(
        [image[i : i + patch[0], j : j + patch[1]].ravel() for i in rows for j in columns]
    )


def by_pairs(A, B, weights=None):
    """The double sum, one pair of parts at a time."""
    value = np.zeros((len(A), len(B)))
    for n, a in enumerate(A):
        for m, b in enumerate(B):
            K = dense.rbf(a, b, VARIANCE, LENGTHSCALE)
            w = np.ones(len(a)) if weights is None else weights
            value[n, m] = w @ K @ w
    return value


@pytest.mark.parametrize("stride", [1, 2])
def test_patches_are_those_of_explicit_extraction(stride):
    parts = Patches(SHAPE, (3, 2), stride)
    expected = np.stack([patches_of(x, stride=stride) for x in X])
    assert parts.size == expected.shape[1]
    np.testing.assert_array_equal(parts.of(X), expected)
    placed = Patches(SHAPE, (3, 2), stride, positions=True).of(X)[0, :, 6:]
    np.testing.assert_array_equal(placed, np.mgrid[:3:stride, :3:stride].reshape(2, -1).T)


@pytest.mark.parametrize("weighted", [False, True])
def test_covariances_and_variances_are_double_sums(weighted):
    parts = np.stack([patches_of(x) for x in X])
    w = RANDOM.normal(size=9) if weighted else None
    kernel = SumOver(PATCHES, BASE, w)
    expected = by_pairs(parts, parts, w)
    assert_close(kernel.cross(X[:2], X), expected[:2], "factorised")
    assert_close(kernel.diag(X), np.diag(expected), "factorised")


def test_covariances_with_patches_are_those_of_distances_by_convolution():
    """T61: |x|² - 2 x'z + |z|² of all patches, by correlating images with z and with ones.

    Every pixel of a patch has a lengthscale of its own here, by which all three are weighed.
    """
    Z = np.random.default_rng(10).normal(size=(4, 6))
    scales = np.array([0.8, 1.1, 0.9, 1.4, 1.0, 0.7])  # of the pixels of a patch
    expected = np.zeros((4, 6))
    for n, image in enumerate(X.reshape(-1, *SHAPE)):
        own = signal.correlate2d(image**2, (scales**-2.0).reshape(3, 2), "valid")
        for m, z in enumerate(Z):
            products = signal.correlate2d(image, (z / scales**2).reshape(3, 2), "valid")
            r2 = np.maximum(own - 2.0 * products + np.sum((z / scales) ** 2), 0.0)
            expected[m, n] = np.sum(np.arange(9.0) * VARIANCE * np.exp(-0.5 * r2.ravel()))
    kernel = SumOver(PATCHES, kernels.RBF(VARIANCE, scales), np.arange(9.0))
    assert_close(covariance(kernel, InBase(Points(Z)), Points(X)), expected, "factorised")


def test_random_convolutional_networks_have_the_covariance_of_arc_cosines():
    """T62: rectified filters at all patches, of which each place has a weight that is known.

    The covariance over output weights tends to it as filters become many; over networks of three
    filters it is right on average. Both within five standard errors.
    """
    random = np.random.default_rng(11)
    places, filters = random.normal(size=9), random.normal(size=(90_000, 7))
    hidden = np.empty((90_000, 3))
    for n, image in enumerate(X[:3]):
        inside = np.maximum(filters[:, :6] @ patches_of(image).T + filters[:, 6:], 0.0)
        hidden[:, n] = inside @ places
    weights = np.sqrt(2.0 / 3.0) * random.normal(size=(90_000, 1))
    networks = np.sum((weights * hidden).reshape(30_000, 3, 3), axis=1)
    expected = SumOver(PATCHES, kernels.ArcCosine(order=1), places).cross(X[:3], X[:3])
    for values in (np.sqrt(2.0) * hidden, networks):
        products = values[:, :, None] * values[:, None]
        errors = np.std(products, axis=0) / np.sqrt(len(values))
        assert np.all(np.abs(np.mean(products, axis=0) - expected) < 5.0 * errors)
        assert np.all(errors < 0.03 * np.max(expected))


def test_weights_of_one_are_none_and_their_sign_changes_nothing():
    """T52."""
    plain, signed = SumOver(PATCHES, BASE), SumOver(PATCHES, BASE, -np.ones(9))
    assert_close(signed.cross(X, X), plain.cross(X, X))
    only = np.zeros(9)
    only[4] = 1.0
    middle = np.stack([patches_of(x)[4] for x in X])
    expected = dense.rbf(middle, middle, VARIANCE, LENGTHSCALE)
    assert_close(SumOver(PATCHES, BASE, only).cross(X, X), expected, "factorised")


def test_one_part_is_the_base_kernel():
    """T50, T48: patches as large as the image, and the group of the identity."""
    for parts in (Patches(SHAPE, SHAPE), Orbit(np.arange(20)[None])):
        kernel = SumOver(parts, BASE)
        assert_close(kernel.cross(X, X), BASE.cross(X, X))
        assert_close(kernel.diag(X), BASE.diag(X))
        a, b = InBase(Points(X[:3])), Points(X)
        assert_close(covariance(kernel, a, b), BASE.cross(X[:3], X))


GROUPS = {
    "flips": Orbit.flips(SHAPE),
    "turns": Orbit.quarter_turns((3, 3)),
    "shifts": Orbit.shifts(6),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", GROUPS)
def test_functions_of_an_orbit_do_not_change_under_the_group(name):
    """T47: the difference of f at an input and at its image has variance zero."""
    group = GROUPS[name]
    kernel = SumOver(group, BASE)
    x = RANDOM.normal(size=(1, group.columns))
    images = np.asarray(group.of(x))[0]
    K = np.asarray(kernel.cross(images, images))
    assert_close(K, np.full_like(K, K[0, 0]), "factorised")
    other = RANDOM.normal(size=(1, group.columns))
    assert_close(kernel.cross(images, other), np.full((len(images), 1), kernel.cross(x, other)))


def test_moving_an_object_on_a_blank_background_changes_nothing_far_from_borders():
    """T51."""
    parts = Patches((9, 9), (3, 3))
    kernel = SumOver(parts, BASE)

    def image(row, column):
        blank = np.zeros((9, 9))
        blank[row : row + 2, column : column + 2] = [[1.0, 0.5], [0.2, 0.8]]
        return blank.reshape(1, -1)

    away = image(2, 2)
    assert_close(kernel.cross(image(4, 3), away), kernel.cross(away, away), "factorised")
    assert abs(kernel.cross(image(0, 0), away) - kernel.cross(away, away))[0, 0] > 0.1


def test_covariances_follow_from_counts_of_distinct_patches():
    """T53, with multiplicities (X-13): the images are blank but for one pixel."""
    parts = Patches((4, 4), (2, 2))
    images = np.eye(16)
    distinct = kernels.distinct_parts(parts, images)
    assert len(distinct) == 5  # four places of the pixel, and the blank one
    found = np.asarray(parts.of(images))
    W = np.array([[np.sum(np.all(p == d, axis=1)) for d in distinct] for p in found])
    inside = dense.rbf(distinct, distinct, VARIANCE, LENGTHSCALE)
    kernel = SumOver(parts, BASE)
    assert_close(kernel.cross(images, images), W @ inside @ W.T, "factorised")
    a = InBase(Points(distinct))
    assert_close(covariance(kernel, Points(images), a), W @ inside, "factorised")
    assert np.linalg.matrix_rank(np.asarray(kernel.cross(images, images)), tol=1e-8) == 5
    images[3, 2] = np.nan
    with pytest.raises(ValueError, match=r"X has 1 entry that is NaN .* index \[3, 2\]"):
        kernels.distinct_parts(parts, images)


@pytest.mark.parametrize("weighted", [False, True])
def test_images_with_one_pixel_have_the_rank_of_their_distinct_patches(weighted):
    """T58 with X-20: 25 places of the pixel in a patch, and the blank patch.

    Nine pixels a side are the fewest with one that all 25 places see. Those of larger images see
    the same 26 patches, which bound the rank whatever the weights: it is 26 with 28 a side, too.
    """
    parts, images = Patches((9, 9), (5, 5)), np.eye(81)
    weights = np.random.default_rng(12).normal(size=25) if weighted else None
    values = np.linalg.svd(np.asarray(SumOver(parts, BASE, weights).cross(images, images)))[1]
    assert len(kernels.distinct_parts(parts, images)) == 26
    assert np.sum(values > 1e-12 * values[0]) == 26
    assert values[25] > 1e-6 * values[0]


def test_sums_over_parts_of_some_columns_say_what_inducing_patches_need():
    kernel = SumOver(Patches((4, 4), (2, 2)), BASE).on(*range(16))
    with pytest.raises(ValueError, match=r"leave .on\(...\) out"):
        covariance(kernel, InBase(Points(np.zeros((2, 4)))), Points(np.zeros((3, 16))))
    # points see the columns that the kernel does
    assert covariance(kernel, Points(np.zeros((2, 16))), Points(np.zeros((3, 16)))).shape == (2, 3)


def test_additive_kernel_is_that_of_equal_positions():
    """T63: one-pixel patches that know where they are, with positions far apart."""
    pixels = kernels.RBF(VARIANCE, LENGTHSCALE).on(0)
    base = pixels * kernels.RBF(1.0, 1e-3).on(1, 2)
    kernel = SumOver(Patches(SHAPE, (1, 1), positions=True), base)
    expected = sum(dense.rbf(X[:, [d]], X[:, [d]], VARIANCE, LENGTHSCALE) for d in range(20))
    assert_close(kernel.cross(X, X), expected, "factorised")


def test_known_positions_run_from_the_invariant_kernel_to_equal_positions():
    pixels = kernels.RBF(VARIANCE, LENGTHSCALE).on(*range(6))

    def kernel(lengthscale):
        base = pixels * kernels.Matern32(1.0, lengthscale).on(6, 7)
        return SumOver(Patches(SHAPE, (3, 2), positions=True), base)

    invariant = SumOver(PATCHES, BASE).cross(X, X)
    np.testing.assert_allclose(kernel(1e9).cross(X, X), invariant, rtol=1e-7)
    parts = np.stack([patches_of(x) for x in X])
    equal = sum(dense.rbf(parts[:, p], parts[:, p], VARIANCE, LENGTHSCALE) for p in range(9))
    assert_close(kernel(1e-3).cross(X, X), equal, "factorised")


COLOUR = RANDOM.normal(size=(4, 24))  # 4 x 3 pixels, two channels


def test_channels():
    """T60, item 67: pooled, joint, one channel; additive weights are an additive base kernel."""
    each = [Patches((4, 3, 2), (2, 2), channels=c) for c in range(2)]
    images = COLOUR.reshape(4, 4, 3, 2)
    for c, parts in enumerate(each):
        plain = np.stack([patches_of(x[..., c].ravel(), (4, 3), (2, 2)) for x in images])
        np.testing.assert_array_equal(parts.of(COLOUR), plain)
    pooled = Patches((4, 3, 2), (2, 2), channels="pooled")
    np.testing.assert_array_equal(
        pooled.of(COLOUR), np.concatenate([parts.of(COLOUR) for parts in each], axis=1)
    )
    w, share = RANDOM.normal(size=6), np.array([0.7, -1.2])
    multi = SumOver(each[0], BASE, w * share[0]) + SumOver(each[1], BASE, w * share[1])
    columns = [tuple(range(c, 8, 2)) for c in range(2)]
    additive = share[0] ** 2 * BASE.on(*columns[0]) + share[1] ** 2 * BASE.on(*columns[1])
    joint = SumOver(Patches((4, 3, 2), (2, 2)), additive, w)
    assert_close(joint.cross(COLOUR, COLOUR), multi.cross(COLOUR, COLOUR), "factorised")


def test_variables_of_the_terms_of_a_sum_are_independent():
    """T59, T60: covariances block by block, with the whole one row above the other."""
    conv = SumOver(PATCHES, BASE, np.arange(9.0))
    kernel = conv + kernels.RBF(0.7, 2.0) + kernels.Linear(0.1)
    each = (InBase(Points(RANDOM.normal(size=(3, 6)))), Points(X[:2]), Points(X[2:4]))
    a, terms = OfParts(each), (conv, kernels.RBF(0.7, 2.0), kernels.Linear(0.1))
    inside = np.asarray(covariance(kernel, a, a))
    crossed = np.asarray(covariance(kernel, a, Points(X)))
    at = np.cumsum([0, 3, 2, 2])
    outside = np.ones((7, 7), bool)
    for i, (part, term) in enumerate(zip(each, terms, strict=True)):
        here = slice(at[i], at[i + 1])
        assert_close(inside[here, here], covariance(term, part, part))
        assert_close(crossed[here], covariance(term, part, Points(X)))
        outside[here, here] = False
    assert np.all(inside[outside] == 0.0)
    assert_close(variances_from(a, kernel), np.diag(inside))
    assert_close(covariance(kernel, Points(X), a), crossed.T)


def test_a_scaled_sum_scales_its_base():
    kernel, a = SumOver(PATCHES, BASE), InBase(Points(RANDOM.normal(size=(3, 6))))
    for b in (a, Points(X)):
        assert_close(covariance(2.5 * kernel, a, b), 2.5 * covariance(kernel, a, b))


NAMES = {"gaussian": likelihoods.Gaussian(0.05), "bernoulli": likelihoods.Bernoulli()}


@pytest.mark.slow
@pytest.mark.parametrize("power", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("name", NAMES)
def test_all_distinct_patches_give_the_full_gp(name, power):
    """T54, T49, at every power: the function at the images is a function of the variables."""
    random = np.random.default_rng(1)
    images = (random.uniform(size=(12, 12)) > 0.5).astype(float)
    y = images[:, :6].sum(1) - 3.0
    y = np.where(y > 0, 1.0, 0.0) if name == "bernoulli" else y
    parts = Patches((4, 3), (2, 2))
    kernel = SumOver(parts, kernels.RBF(0.3, 1.1))
    Z = np.stack(np.meshgrid(*[[0.0, 1.0]] * 4), -1).reshape(-1, 4)
    assert len(kernels.distinct_parts(parts, images)) <= len(Z) == 16
    full = cavity.infer(cavity.GP(kernel, NAMES[name]), images, y, power=power)
    sparse = cavity.infer(
        cavity.GP(kernel, NAMES[name], InBase(Points(Z))), images, y, power=power
    )
    np.testing.assert_allclose(sparse.log_evidence, full.log_evidence, rtol=2e-6)
    new = (random.uniform(size=(5, 12)) > 0.5).astype(float)
    wanted, found = full.posterior.marginals(new), sparse.posterior.marginals(new)
    np.testing.assert_allclose(found.mean, wanted.mean, atol=1e-5)
    np.testing.assert_allclose(found.var, wanted.var, atol=1e-5)


def test_slopes_in_all_parameters_are_finite_differences():
    Z = RANDOM.normal(size=(3, 6))
    S = RANDOM.normal(size=(3, 6)), RANDOM.normal(size=6), RANDOM.normal(size=(2, 6))

    def value(p):
        kernel = SumOver(PATCHES, kernels.RBF(p[0], p[1]), p[2:11])
        a = InBase(Points(p[11:].reshape(3, 6)))
        whole = jnp.sum(S[0] * covariance(kernel, a, Points(X)))
        return whole + jnp.sum(S[1] * kernel.diag(X)) + jnp.sum(S[2] * kernel.cross(X[:2], X))

    at = np.concatenate([[1.2, 1.5], RANDOM.normal(size=9), Z.ravel()])
    value_and_slope = jax.jit(jax.value_and_grad(value))
    slope = value_and_slope(at)[1]
    for i in (0, 1, 4, 13):
        h = 1e-5 * np.eye(len(at))[i]
        difference = (value_and_slope(at + h)[0] - value_and_slope(at - h)[0]) / 2e-5
        assert abs(slope[i] - difference) < 1e-6 * max(1.0, abs(difference))


@pytest.mark.sampled(8)
@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Patches((4, 4), (5, 5)), "larger than the image"),
        (lambda: Patches((4, 4), (2, 2), 9), "a stride of 9"),
        (lambda: Patches((4, 0), (2, 2)), "positive whole numbers"),
        (lambda: Patches((4, 4.5), (2, 2)), "positive whole numbers"),
        (lambda: Patches((4, 4), (2, 2), 0), "stride must be"),
        (lambda: Patches((4, 4, 2), (2, 2), channels=1.0), "channels must be"),
        (lambda: Patches((4, 4, 2), (2, 2), channels=True), "channels must be"),
        (lambda: Patches((4, 4), (2, 2), positions="no"), "True or False"),
        (lambda: Patches((4, 4), (2, 2), channels=1), "0 to 0"),
        (lambda: Patches((4, 4), (2, 2), channels="red"), "joint"),
        (lambda: SumOver(PATCHES, BASE, np.ones(4)), "9 parts"),
        (lambda: SumOver(PATCHES, BASE).cross(X[:, :5], X[:, :5]), "20 columns"),
        (lambda: Orbit([[0, 1, 2], [1, 2, 0]]), "permutation 1 after permutation 1"),
        (lambda: Orbit([[0, 1], [0, 1]]), "are the same"),
        (lambda: Orbit([[0, 0]]), "row 0"),
        (lambda: Orbit([[0.5, 1.0]]), "column numbers"),
        (lambda: Orbit.quarter_turns((3, 4)), "square"),
        (lambda: Orbit.flips(4), "image_shape must be"),
        (lambda: Orbit.shifts(0), "columns must be"),
        (lambda: covariance(BASE, InBase(Points(X)), Points(X)), "SumOver"),
        (lambda: covariance(BASE + BASE, OfParts([Points(X)] * 3), Points(X)), "2 terms"),
        (lambda: OfParts([Points(X)]), "two sets or more"),
    ],
)
def test_what_makes_no_sense_is_refused(build, message):
    with pytest.raises(ValueError, match=message):
        build()


@pytest.mark.parametrize(
    "build",
    [
        lambda: SumOver(BASE, PATCHES),
        lambda: SumOver(PATCHES, "rbf"),
        lambda: InBase("points"),
        lambda: OfParts(Points(X)),
    ],
)
def test_other_parts_are_refused(build):
    with pytest.raises(TypeError, match="takes"):
        build()


def test_an_array_of_points_is_points():
    np.testing.assert_array_equal(InBase(X).inner.Z, X)


def test_permutations_that_change_nothing_count_once():
    assert Orbit.flips((1, 4)).size == 2
    assert Orbit.quarter_turns((1, 1)).size == 1


def test_a_set_that_is_no_group_may_be_asked_for():
    assert Orbit([[0, 1, 2], [1, 2, 0]], closed=False).size == 2


@pytest.mark.slow
def test_a_gpu_sees_several_inputs_at_a_time(monkeypatch):
    """More and fewer inputs than it sees together, and a number that does not divide them."""
    monkeypatch.setattr("cavity.kernels.sum_over.TOGETHER", 4)
    kernel, Z = SumOver(PATCHES, BASE), InBase(Points(RANDOM.normal(size=(5, 6))))

    def found(X):
        cross = covariance(kernel, Z, Points(X))
        slope = jax.grad(lambda X: covariance(kernel, Z, Points(X)).sum())(X)
        return kernel.diag(X), kernel.cross(X, X[:3]), cross, slope

    expected = [found(jnp.asarray(rows)) for rows in (X, X[:2])]
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    for one, other in zip(expected, (found(jnp.asarray(r)) for r in (X, X[:2])), strict=True):
        for a, b in zip(one, other, strict=True):
            assert_close(a, b)
