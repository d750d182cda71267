"""Classification of images by convolutional Gaussian processes."""

import jax
import numpy as np
import pytest

import cavity
from cavity import ConvGPClassifier, kernels
from cavity.learning.infer import infer
from cavity.learning.optimisers.lbfgs import GracefulStop
from cavity.learning.plans import images as learning
from cavity.numerics.tree import named


def bars(n, seed, classes=2, side=7):
    """Images with a bar of three pixels: across, down, or along a diagonal."""
    random = np.random.default_rng(seed)
    images, labels = 0.1 * random.normal(size=(n, side, side)), random.integers(0, classes, n)
    for image, label in zip(images, labels, strict=True):
        row, column = random.integers(0, side - 2, 2)
        i = np.arange(3)
        where = [(row, column + i), (row + i, column), (row + i, column + i)][label]
        image[where] += 1.0
    return images, labels


SMALL = {"kernel": "conv3", "n_inducing": 8, "max_iterations": 5, "random_state": 0}
X, Y = bars(40, 0)
X_TEST, Y_TEST = bars(200, 1)


@pytest.fixture
def short(monkeypatch):
    """The scale of the functions is learned for two iterations."""
    monkeypatch.setattr("cavity.estimators.images.SCALE_ITERATIONS", 2)


@pytest.fixture(scope="module")
def fitted():
    return ConvGPClassifier(**SMALL, parts="invariant").fit(X, Y)


def test_patches_tell_what_pixels_do_not(fitted):
    assert fitted.score(X_TEST, Y_TEST) > 0.95
    probability = fitted.predict_proba(X_TEST)
    assert probability.shape == (200, 2)
    np.testing.assert_allclose(probability.sum(axis=1), 1.0)
    assert np.isfinite(fitted.log_evidence_)
    assert "kernel learned on 32 images" in fitted.message_


@pytest.mark.usefixtures("short")
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_how_patches_count_is_chosen_by_the_evidence():
    """Of bars anywhere: patches near each other are not more alike than others."""
    settings = SMALL | {"max_iterations": 3}
    model = ConvGPClassifier(**settings).fit(X, Y)
    chosen, _, rest = model.message_.partition(", chosen by log evidence: ")
    each = dict(pair.rsplit(" ", 1) for pair in rest.split("; ")[0].split(", "))
    assert set(each) == {
        f"{parts}{plus}"
        for parts in ("position", "weighted", "invariant")
        for plus in ("", " + rbf")
    }
    assert chosen == max(each, key=lambda form: float(each[form]))
    assert chosen == model.parts_ + (f" + {model.plus_}" if model.plus_ else "")
    assert model.parts_ != "position"
    given = ConvGPClassifier(**settings, parts="weighted").fit(X, Y)
    assert given.parts_ == "weighted"
    assert "chosen by log evidence" not in given.message_


def test_rows_of_pixels_are_the_same_images(fitted):
    flat = fitted.predict_proba(X_TEST[:5].reshape(5, -1))
    np.testing.assert_array_equal(flat, fitted.predict_proba(X_TEST[:5]))
    again = ConvGPClassifier(**SMALL, parts="invariant", image_shape=(7, 7))
    again.fit(X.reshape(40, -1), Y)
    np.testing.assert_allclose(again.predict_proba(X_TEST[:5]), flat, rtol=1e-6)


@pytest.mark.usefixtures("short")
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_counted_patches_are_those_of_the_images(monkeypatch):
    """Clean images have few distinct patches: the fit is that of all of them."""
    clean = np.round(X)
    settings = SMALL | {"parts": "invariant", "max_iterations": 3}
    counted = ConvGPClassifier(**settings).fit(clean, Y)
    monkeypatch.setattr("cavity.estimators.images.FEW", 0.0)
    plain = ConvGPClassifier(**settings).fit(clean, Y)
    np.testing.assert_allclose(counted.log_evidence_, plain.log_evidence_, rtol=1e-4)
    found, expected = (m.predict_proba(np.round(X_TEST[:9])) for m in (counted, plain))
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-5)


def test_the_model_is_a_model_that_files_keep(fitted, tmp_path):
    cavity.fitting.save_module(tmp_path / "images.cavity", fitted.posterior_, {})
    loaded, _ = cavity.fitting.load_module(tmp_path / "images.cavity")
    flat = X_TEST[:4].reshape(4, -1)
    wanted = fitted.posterior_.marginals(flat)
    np.testing.assert_array_equal(loaded.marginals(flat).mean, wanted.mean)


@pytest.mark.usefixtures("short")
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    "settings",
    [
        {"parts": "weighted"},
        {"parts": "position", "kernel": "conv3 + rbf", "power": 0.0, "n_inducing": 20},
    ],
)
def test_three_classes_by_every_sum(settings):
    images, labels = bars(60, 2, classes=3, side=5)
    names = np.array(["across", "down", "diagonal"])[labels]
    model = ConvGPClassifier(**(SMALL | settings | {"max_iterations": 3}))
    model.fit(images, names)
    assert list(model.classes_) == ["across", "diagonal", "down"]
    assert model.score(images, names) > 0.7


QUICK = {"max_iterations": 0, "n_inducing": 6, "parts": "invariant"}


@pytest.mark.usefixtures("short")
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("classes", [2, 3])
def test_minibatches_go_on_where_the_fit_ended(classes, monkeypatch):
    """Kernel and patches move and the evidence rises; where it would fall all stays as it was."""
    images, labels = bars(40, 3, classes=classes, side=5)
    first = ConvGPClassifier(**(SMALL | QUICK)).fit(images, labels)
    learned = ConvGPClassifier(**(SMALL | QUICK), steps=60, batch=20).fit(images, labels)
    assert "then 60 steps with 20 images each" in learned.message_
    assert learned.log_evidence_ > first.log_evidence_ + 1.0
    assert learned.n_iter_ == first.n_iter_
    for name in ("kernel_", "inducing_"):
        pairs = zip(*(jax.tree.leaves(getattr(m, name)) for m in (learned, first)), strict=True)
        assert all(np.any(moved != before) for moved, before in pairs)
    monkeypatch.setattr("cavity.learning.plans.images.RATE", 5.0)
    with pytest.warns(UserWarning, match="stays as it was: give larger batches, or fewer steps"):
        refused = ConvGPClassifier(**(SMALL | QUICK), steps=5, batch=100).fit(images, labels)
    np.testing.assert_array_equal(refused.predict_proba(images), first.predict_proba(images))
    assert "steps" not in refused.message_


@pytest.mark.usefixtures("short")
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_ranges_of_warps_are_learned():
    model = ConvGPClassifier(
        parts=kernels.Warps((7, 7), shift=1.0, count=4),
        n_inducing=30,
        max_iterations=5,
        random_state=0,
    )
    model.fit(X, Y)
    (found,) = (v for name, v in named(model.kernel_).items() if name.endswith("parts.shift"))
    assert found != 1.0
    assert model.score(X, Y) > 0.8


@pytest.mark.usefixtures("short")
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_colour_images_and_few_distinct_patches():
    random = np.random.default_rng(0)
    images = (random.uniform(size=(12, 4, 4, 2)) > 0.5).astype(float)
    labels = np.arange(12) % 2
    model = ConvGPClassifier(kernel="conv1", parts="invariant", n_inducing=30, max_iterations=0)
    model.fit(images, labels)
    assert "; 4 distinct patches are used" in model.message_


@pytest.mark.parametrize(
    ("images", "settings", "message"),
    [
        (X.reshape(40, -1), {}, "image_shape"),
        (X, {"image_shape": (6, 6)}, r"shape \(7, 7\)"),
        (X.reshape(40, -1), {"image_shape": (5, 5)}, "25 pixels"),
        (X, {"kernel": "conv9x3"}, "larger than the image"),
        (X, {"stride": 8}, "a stride of 8"),
        (X, {"parts": "some"}, "parts must be one of"),
        (X, {"parts": kernels.Warps((6, 7), shift=1.0)}, r"42 pixels; images are \(7, 7\)"),
        (X, {"parts": kernels.Warps((49, 1), shift=1.0)}, r"images are \(7, 7\): give parts"),
        (X, {"kernel": "conv3 + linear"}, "not a kernel of images"),
        (X, {"kernel": (3, 3)}, r"kernel must be text, .* given \(3, 3\)"),
        (X, {"n_inducing": 0}, "n_inducing"),
        (X, {"power": "auto"}, "not for images"),
        (X, {"method": "mcmc"}, "not for images"),
        (np.where(X > 1.2, np.nan, X), {}, "NaN"),
        (X[:, 0, 0], {}, "must be images"),
    ],
)
def test_what_makes_no_sense_is_refused(images, settings, message):
    with pytest.raises(ValueError, match=message):
        ConvGPClassifier(**(SMALL | settings)).fit(images, Y)


def test_one_class_and_other_shapes_are_refused(fitted):
    with pytest.raises(ValueError, match="one class"):
        ConvGPClassifier(**SMALL).fit(X, np.zeros(40))
    with pytest.raises(ValueError, match=r"\(7, 7\)"):
        fitted.predict(X[:, :5, :5])


@pytest.mark.slow
@pytest.mark.parametrize("stage", ["kernel", "classes"])
def test_an_interrupt_keeps_what_was_learned_and_no_steps_follow(stage, monkeypatch):
    """While the kernel is learned, and in the inference of the classes after it."""
    iterations, inferences = [], []

    def interrupt(progress):
        iterations.append(progress)
        if stage == "kernel" and len(iterations) == 2:
            raise GracefulStop

    def interrupted(*args, **options):
        inferences.append(args)
        if len(inferences) == 2:  # the first is with Gaussian noise, before learning
            raise GracefulStop
        return infer(*args, **options)

    monkeypatch.setattr(learning, "_together", None)  # steps of minibatches would be an error
    if stage == "classes":
        monkeypatch.setattr("cavity.learning.run.stages.infer", interrupted)
    model = ConvGPClassifier(**SMALL, parts="invariant", steps=5).fit(X, Y, callback=interrupt)
    assert model.interrupted_
    assert not model.converged_
    assert "interrupted; this is the best so far" in model.message_
    assert model.score(X_TEST, Y_TEST) > 0.9


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_an_interrupt_of_steps_with_minibatches_is_said():
    images, labels = bars(40, 3, side=5)
    seen = []

    def interrupt(progress):
        seen.append(progress)
        if progress.max_iterations == 60 and progress.iteration == 2:
            raise GracefulStop

    model = ConvGPClassifier(**(SMALL | QUICK), steps=60, batch=20)
    model.fit(images, labels, callback=interrupt)
    assert model.interrupted_
    assert "60 steps" not in model.message_
