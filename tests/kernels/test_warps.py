"""Warped images against interpolation and affine maps written out, and learned ranges."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import cavity
from cavity import kernels, likelihoods
from cavity.inducing import InBase, Points, covariance
from cavity.kernels import SumOver, Warps, count_parts
from cavity.learning.data.validation import all_fixed
from cavity.parameters import bijections
from tests.oracle import dense
from tests.tolerances import assert_close

RANDOM = np.random.default_rng(0)
SHAPE = (5, 4)
X = RANDOM.normal(size=(3, 20))
RANGES = {"rotation": 40.0, "shift": 1.3, "scale": 0.2, "shear": 0.3}
BASE = kernels.RBF(1.3, 2.0)


def interpolated(image, row, column):
    """The value between four pixels, those beyond the border being 0."""
    i, j = int(np.floor(row)), int(np.floor(column))
    total = 0.0
    for k, weight_k in ((i, 1.0 - row + i), (i + 1, row - i)):
        for m, weight_m in ((j, 1.0 - column + j), (j + 1, column - j)):
            inside = 0 <= k < image.shape[0] and 0 <= m < image.shape[1]
            total = total + (weight_k * weight_m * image[k, m] if inside else 0.0)
    return total


def warped(image, share, rotation, shift, scale, shear):
    """Sheared, scaled and turned about the centre, then moved; (rows, columns) are a vector."""
    angle = np.deg2rad(rotation * share[0])
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    forth = np.exp(scale * share[3]) * turn @ np.array([[1.0, 0.0], [shear * share[4], 1.0]])
    centre = (np.array(image.shape[:2]) - 1.0) / 2.0
    found = np.zeros_like(image)
    for place in np.ndindex(*image.shape[:2]):
        away = np.array(place) - centre - shift * share[1:3]
        found[place] = interpolated(image, *(np.linalg.solve(forth, away) + centre))
    return found


@pytest.mark.parametrize("shape", [SHAPE, (5, 2, 2)])
def test_parts_are_affine_maps_of_interpolated_images(shape):
    warps = Warps(shape, **RANGES, count=5)
    wanted = np.array(
        [[warped(x.reshape(shape), u, **RANGES).ravel() for u in warps.shares()] for x in X]
    )
    assert_close(warps.of(X), wanted)
    assert_close(warps(X[0], np.array([3, 1])), wanted[0, [3, 1]])
    assert np.max(np.abs(wanted - X[:, None])) > 0.5


def test_covariances_and_variances_are_double_sums():
    warps = Warps(SHAPE, **RANGES, count=3)
    parts = np.asarray(warps.of(X)).reshape(-1, 20)
    wanted = dense.rbf(parts, parts, 1.3, 2.0).reshape(3, 3, 3, 3).sum(axis=(1, 3))
    kernel = SumOver(warps, BASE)
    assert_close(kernel.cross(X[:2], X), wanted[:2], "factorised")
    assert_close(kernel.diag(X), np.diag(wanted), "factorised")


def test_ranges_of_zero_are_copies():
    kernel = SumOver(Warps(SHAPE, **dict.fromkeys(RANGES, 0.0), count=3), BASE)
    assert_close(kernel.cross(X, X), 9.0 * BASE.cross(X, X), "factorised")


def test_a_quarter_turn_is_that_of_numpy():
    """Two shares of a half turn are 90 degrees to both sides."""
    image = RANDOM.normal(size=(7, 7))
    found = np.asarray(Warps((7, 7), rotation=180.0, count=2)(image.ravel()))
    assert_close(found[1].reshape(7, 7), np.rot90(image))
    assert_close(found[0].reshape(7, 7), np.rot90(image, -1))


def test_whole_pixels_move_and_zeros_come_in():
    found = Warps((3, 3), shift=2.0, count=1)
    (share,) = found.shares()
    assert_close(share[1:3], [0.0, 0.0])  # one warp is in the middle
    moved = Warps((3, 3), shift=2.0, count=4)
    at = moved.shares()[0, 1:3]
    assert_close(at, [-0.75, 0.0])
    image = RANDOM.normal(size=(3, 3))
    wanted = np.zeros((3, 3))
    wanted[:2] = 0.5 * image[1:]
    wanted[:1] += 0.5 * image[2:]  # one and a half pixels towards the first row
    assert_close(moved(image.ravel())[0].reshape(3, 3), wanted)


def test_shares_stay_what_files_were_written_with():
    """The first range has evenly spaced shares; unused ones have none."""
    assert_close(Warps(SHAPE, scale=0.1, count=4).shares()[:, 3], [-0.75, -0.25, 0.25, 0.75])
    both = Warps(SHAPE, rotation=10.0, shear=0.1, count=4).shares()
    assert_close(both[:, 0], [-0.75, -0.25, 0.25, 0.75])
    golden = (np.sqrt(5.0) - 1.0) / 2.0
    assert_close(both[:, 4], 2.0 * ((0.5 + golden * np.arange(4)) % 1.0) - 1.0)
    assert not np.any(both[:, 1:4])


def test_twice_as_many_warps_are_nearly_the_same_kernel():
    smooth = np.exp(-0.1 * np.sum((np.indices((9, 9)) - [[[3.0]], [[5.0]]]) ** 2, axis=0))
    images = np.stack([smooth.ravel(), smooth.T.ravel(), smooth[::-1].ravel()])
    few, many = (
        np.asarray(SumOver(Warps((9, 9), **RANGES, count=S), BASE).cross(images, images)) / S**2
        for S in (32, 64)
    )
    np.testing.assert_allclose(few, many, rtol=0.03)


# the number of lengthscales, and whether inducing images are learned
FORMS = {"all": (1, True), "held": (1, False), "own held": (20, False)}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("form", FORMS)
def test_slopes_in_ranges_are_differences_and_those_of_plain_derivatives(form):
    scales, learned = FORMS[form]
    S, Z = RANDOM.normal(size=(2, 3)), X[:2] + 0.1
    at = [40.0, 1.3, 0.2, 0.3, 1.2, *np.linspace(1.5, 2.5, scales)]
    at = np.array([*at, *Z.ravel()] if learned else at)

    def value(p, plain):
        base = kernels.RBF(p[4], p[5 : 5 + scales] if scales > 1 else p[5])
        base = base * kernels.Constant(1.0) if plain else base  # which has no formulas of its own
        warps = Warps(SHAPE, rotation=p[0], shift=p[1], scale=p[2], shear=p[3], count=3)
        kernel = SumOver(warps, base)
        a = InBase(Points(p[5 + scales :].reshape(2, 20) if learned else Z))
        return jnp.sum(S * covariance(kernel, a, Points(X))) + jnp.sum(S[0] * kernel.diag(X))

    both = jax.jit(jax.value_and_grad(value), static_argnums=1)
    slope = both(at, False)[1]
    assert_close(slope, both(at, True)[1], "factorised")
    for i in (0, 1, 2, 3, 5):
        h = 1e-6 * max(1.0, at[i]) * np.eye(len(at))[i]
        difference = (both(at + h, False)[0] - both(at - h, False)[0]) / (2.0 * h[i])
        assert abs(slope[i] - difference) < 1e-6 * max(1.0, abs(difference))


def bars(n, side=7):
    """Images with a bar through their centre, with its length and its angle in radians."""
    random = np.random.default_rng(0)
    angle, length = random.uniform(-np.pi / 2, np.pi / 2, n), random.uniform(1.0, 3.0, n)
    row, column = np.indices((side, side)) - (side - 1) / 2.0
    along = np.cos(angle)[:, None, None] * row + np.sin(angle)[:, None, None] * column
    across = np.cos(angle)[:, None, None] * column - np.sin(angle)[:, None, None] * row
    images = np.exp(-(across**2)) / (1.0 + np.exp(4.0 * (np.abs(along) - length[:, None, None])))
    return images.reshape(n, -1), length, angle


@pytest.mark.slow
def test_the_evidence_chooses_the_range():
    """It grows where outputs do not depend on the angle, and shrinks where they do."""
    images, length, angle = (each[:12] for each in bars(40))
    unit = SumOver(Warps((7, 7), rotation=15.0, count=8), kernels.RBF(1.0, 1.5))
    kernel = 1.0 / float(jnp.mean(unit.diag(jnp.asarray(images)))) * unit
    inside = InBase(Points(bars(120)[0][40:]))
    model = cavity.GP(kernel, likelihoods.Gaussian(0.01), inside)
    free = bijections(model)
    maps = eqx.tree_at(
        lambda m: (m.kernel.kernel.parts, m.kernel.factor),
        all_fixed(free),
        (free.kernel.kernel.parts, free.kernel.factor),
    )
    learned = {}
    for name, y in (("length", length), ("angle", np.sin(4.0 * angle))):
        y = (y - y.mean()) / y.std()
        result = cavity.fit(model, images, y, power=0.5, bijections=maps, max_iterations=12)
        learned[name] = float(result.model.kernel.kernel.parts.rotation)
    assert learned["length"] > 45.0
    assert learned["angle"] < 5.0


def test_ranges_are_parameters_that_files_keep(tmp_path):
    model = cavity.GP(
        0.5 * SumOver(Warps(SHAPE, rotation=20.0, shear=0.1, count=7), BASE),
        likelihoods.Gaussian(0.1),
        InBase(Points(X)),
    )
    printed = str(model)
    assert "kernel.kernel.parts.rotation" in printed
    assert "parts.shift" not in printed
    cavity.fitting.save_module(tmp_path / "warps.cavity", model, {})
    loaded, _ = cavity.fitting.load_module(tmp_path / "warps.cavity")
    assert loaded.kernel.kernel.parts.count == 7
    assert str(loaded) == printed
    assert_close(loaded.kernel.cross(X, X), model.kernel.cross(X, X))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Warps(SHAPE), "no range is given"),
        (lambda: Warps(SHAPE, rotation=-1.0), "rotation must be a number of 0 or more"),
        (lambda: Warps(SHAPE, shift=[1.0, 2.0]), "shift must be"),
        (lambda: Warps(SHAPE, scale=np.nan), "scale must be"),
        (lambda: Warps(SHAPE, shear="0.1"), "shear must be"),
        (lambda: Warps(SHAPE, shear=0.1, count=0), "count must be"),
        (lambda: Warps((5, 4.5), shear=0.1), "image_shape must be"),
        (lambda: SumOver(Warps((5, 5), shear=0.1), BASE).diag(X), "25 columns"),
        (lambda: Warps((5, 5), shear=0.1).of(X), "25 columns"),
        (lambda: count_parts(Warps(SHAPE, shear=0.1), X), "cannot be counted"),
        (lambda: SumOver(Warps(SHAPE, shear=0.1), BASE).diag(jnp.zeros((1, 50))), "20 columns"),
    ],
)
def test_what_makes_no_sense_is_refused(build, message):
    with pytest.raises(ValueError, match=message):
        build()
