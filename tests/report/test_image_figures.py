"""Pictures of models of images: which there are, and that their numbers are those of the model."""

import dataclasses
from typing import Any

import numpy as np
import polars as pl
import pytest

import cavity
from cavity import kernels, likelihoods, means
from cavity.inducing import InBase, OfParts, Points
from cavity.numerics.tree import to_numpy
from cavity.report import page, targets
from cavity.report.image_figures import evidence_of, image_pictures, patch_model
from tests.report.fitting import fitted_to

RANDOM = np.random.default_rng(5)
ROWS = 24


def of_images(kernel, inducing, classes=2, columns=12, coupled=False):
    """A model of images with a kernel of sums over their parts, and its table.

    With one class it is a regression.
    """
    X = (RANDOM.uniform(size=(ROWS, columns)) > 0.5).astype(float) + 0.1 * np.arange(columns)
    labels = [str(n % classes) for n in range(ROWS)]
    y = np.sin(3.0 * X[:, 0]) + X[:, 5] if classes == 1 else labels
    table = pl.DataFrame({f"p{i:02}": x for i, x in enumerate(X.T)} | {"y": y})
    likelihood: Any = likelihoods.Gaussian(0.1) if classes == 1 else likelihoods.Bernoulli()
    if classes > 2:
        likelihood = likelihoods.MultinomialProbit(classes)
    fitted, encoded = fitted_to(table, ["y"], likelihood=likelihood)
    model = cavity.GP(kernel, likelihood, inducing, means.Constant(0.4))
    method = cavity.PowerEP(coupled=coupled)
    posterior = cavity.infer(model, encoded.X, encoded.y[:, 0], method=method).posterior
    return dataclasses.replace(fitted, posterior=to_numpy(posterior)), encoded


def pictures_of(kernel, inducing, **more):
    fitted, encoded = of_images(kernel, inducing, **more)
    pictures, notes = image_pictures(fitted, encoded, fitted.log_probabilities(encoded.X))
    assert not notes
    return pictures


def patches(count, size):
    return InBase(Points(RANDOM.uniform(size=(count, size))))


def names(pictures):
    return [picture.name for picture in pictures]


@pytest.mark.slow
@pytest.mark.parametrize("classes", [2, 3])
def test_evidence_adds_up_to_the_functions(classes):
    """Of one class rather than another; of two classes there is one function."""
    parts = kernels.Patches((4, 3), (2, 2))
    kernel = kernels.SumOver(parts, kernels.RBF(0.3, 1.0), RANDOM.normal(size=6))
    fitted, encoded = of_images(kernel, patches(5, 4), classes)
    found = patch_model(fitted)
    assert found is not None
    X, first = encoded.X[:4], np.array([0, 1, 1, classes - 1])
    second = np.array([1, 0, 0, 0])
    evidence = evidence_of(fitted, X, found, (first, second))
    assert evidence.shape == (4, 3, 2)
    whole = np.asarray(fitted.posterior.marginals(X).mean).reshape(4, -1)
    if classes == 2:
        expected = np.where(first == 1, 1.0, -1.0) * (whole[:, 0] - 0.4)
    else:
        expected = whole[np.arange(4), first] - whole[np.arange(4), second]
    np.testing.assert_allclose(evidence.sum(axis=(1, 2)), expected, atol=1e-8)


def test_means_are_those_of_images_of_one_patch():
    parts = kernels.Patches((3, 4), (3, 4), positions=True)  # one patch, the whole image
    Z = np.concatenate([RANDOM.uniform(size=(3, 12)), np.zeros((3, 2))], axis=1)
    base = kernels.RBF(1.0, 2.0).on(*range(12)) * kernels.RBF(1.0, 1.0).on(12, 13)
    fitted, _ = of_images(2.0 * kernels.SumOver(parts, base), InBase(Points(Z)))
    found = patch_model(fitted)
    assert found is not None
    np.testing.assert_array_equal(found.patches[..., 0].reshape(3, 12), Z[:, :12])
    whole = np.asarray(fitted.posterior.marginals(Z[:, :12]).mean) - 0.4
    np.testing.assert_allclose(found.means[:, 0], whole, atol=1e-10)


@pytest.mark.slow
def test_which_pictures_there_are():
    plain = kernels.RBF(0.3, 1.0)
    parts = kernels.Patches((4, 3), (2, 2))
    found = pictures_of(kernels.SumOver(parts, plain), patches(5, 4), classes=3)
    assert names(found) == ["inducing_patches", "least_expected"]
    found = pictures_of(kernels.SumOver(parts, plain, np.arange(6.0) - 2.0), patches(12, 4))
    assert names(found) == ["inducing_patches", "weights", "least_expected"]
    assert "row 3 and column 2" in found[1].alt
    placed = kernels.Patches((4, 3), (2, 2), positions=True)
    base = plain.on(0, 1, 2, 3) * kernels.Matern32(1.0, 2.0).on(4, 5)
    kernel, images = kernels.SumOver(placed, base) + plain, Points(RANDOM.uniform(size=(3, 12)))
    found = pictures_of(kernel, OfParts((patches(5, 6), images)))
    assert names(found) == ["inducing_patches", "places", "least_expected"]
    # from the middle, place (1, 1) of 3 x 2, to the corner (0, 0)
    r = np.sqrt(3.0) * np.sqrt(2.0) / 2.0
    assert f"smallest is {(1.0 + r) * np.exp(-r):.2f}" in found[1].alt
    assert "explains the classes" in found[0].caption


@pytest.mark.slow
@pytest.mark.parametrize(("channels", "size"), [("joint", 12), ("pooled", 4), (1, 4)])
def test_images_with_colours(channels, size):
    parts = kernels.Patches((3, 3, 3), (2, 2), channels=channels)
    weights = np.arange(float(parts.size))
    kernel = kernels.SumOver(parts, kernels.RBF(0.1, 1.0), weights)
    found = pictures_of(kernel, patches(4, size), columns=27)
    assert names(found) == ["inducing_patches", "weights", "least_expected"]
    assert f"{parts.size} places" in found[1].alt


@pytest.mark.slow
def test_models_without_inducing_patches_have_none():
    flips = kernels.Orbit.flips((4, 3))
    base = kernels.RBF(0.3, 1.0)
    assert not pictures_of(kernels.SumOver(flips, base), patches(3, 12))
    images = Points(RANDOM.uniform(size=(3, 12)))
    assert not pictures_of(kernels.SumOver(kernels.Patches((4, 3), (2, 2)), base), images)
    assert not pictures_of(base, None)


@pytest.mark.slow
@pytest.mark.parametrize("weights", [None, np.arange(6.0)])
def test_a_regression_has_the_places_alone(weights, tmp_path):
    kernel = kernels.SumOver(kernels.Patches((4, 3), (2, 2)), kernels.RBF(0.3, 1.0), weights)
    fitted, encoded = of_images(kernel, patches(5, 4), classes=1)
    found, notes = image_pictures(fitted, encoded, None)
    assert names(found) == ([] if weights is None else ["weights"])
    assert not notes
    written = page.write_report(tmp_path / "report.html", fitted, encoded)
    assert "residuals" in written
    assert ("weights" in written) == (weights is not None)
    assert targets.PIXELS in (tmp_path / "report.html").read_text(encoding="utf-8")


@pytest.mark.slow
def test_functions_that_depend_on_each_other_are_said_to():
    kernel = kernels.SumOver(kernels.Patches((4, 3), (2, 2)), kernels.RBF(0.3, 1.0))
    fitted, encoded = of_images(kernel, patches(5, 4), classes=3, coupled=True)
    found, notes = image_pictures(fitted, encoded, fitted.log_probabilities(encoded.X))
    assert not found
    assert "no pictures of the inducing patches" in notes[0]
    assert "coupled=False" in notes[0]
