"""`fixed`, `bounds` and `priors` of estimators, in units of the data."""

import numpy as np
import pytest

import cavity
from cavity import GPClassifier, GPRegressor, LinearRegressor
from cavity.parameters import priors
from cavity.tables.table_model import TableModel

pytestmark = pytest.mark.filterwarnings("ignore:not converged")

RNG = np.random.default_rng(0)
X = np.sort(RNG.uniform(0.0, 10.0, 30))[:, None]
HELD = "rbf(lengthscale=2, fixed=True)"
Y = 50.0 + 20.0 * np.sin(X[:, 0]) + 2.0 * RNG.normal(size=30)


@pytest.mark.parametrize("n_inducing", [None, 8])
def test_constraints_are_in_the_units_of_the_data(n_inducing):
    prior = priors.LogNormal(1.5, 0.02)
    model = GPRegressor(
        n_inducing=n_inducing,
        fixed={"likelihood.variance": 9.0, "mean.value": None},
        bounds={"kernel.variance": (1000.0, 2000.0)},
        priors={"kernel.lengthscale": prior},
        max_iterations=60,
    ).fit(X, Y)
    assert float(model.likelihood_.variance) == 9.0
    assert float(model.mean_.value) == pytest.approx(Y.mean())
    assert 1000.0 < model.kernel_.variance < 2000.0
    assert model.kernel_.lengthscale[0] == pytest.approx(1.5, rel=0.1)


def test_values_of_a_kernel_are_known_to_what_starts_with_it():
    """With a lengthscale that is far too short the start has little left to call noise."""
    short = GPRegressor(fixed={"kernel.lengthscale": 1e-3}, max_iterations=0).fit(X, Y)
    text = GPRegressor(kernel="rbf(lengthscale=1e-3, fixed=True)", max_iterations=0).fit(X, Y)
    for model in (short, text):
        np.testing.assert_array_equal(model.kernel_.lengthscale, [1e-3])
    assert float(short.kernel_.variance) == float(text.kernel_.variance)


def test_classes_and_a_noise_function():
    labels = np.digitize(Y, [40.0, 60.0])
    model = GPClassifier(fixed={"kernel.lengthscale": 2.0}, max_iterations=2).fit(X, labels)
    np.testing.assert_array_equal(model.kernel_.lengthscale, [2.0])
    noisy = GPRegressor(
        likelihood="heteroscedastic", fixed={"kernel.0.variance": 400.0}, max_iterations=2
    ).fit(X, Y)
    assert float(noisy.kernel_[0].variance) == 400.0
    np.testing.assert_array_equal(noisy.output_scale_, 1.0)


def test_linear_models():
    columns = np.column_stack([X[:, 0], RNG.normal(size=30)])
    fixed, bounds = {"likelihood.variance": 4.0}, {"prior.share": (0.4, 0.6)}
    model = LinearRegressor(fixed=fixed, bounds=bounds, max_iterations=5).fit(columns, Y)
    assert float(model.likelihood_.variance) == 4.0
    assert 0.4 < float(model.prior_.share) < 0.6
    assert "likelihood.variance" not in model.integrated_parameters_
    with pytest.raises(ValueError, match="no parameter 'noise'"):
        LinearRegressor(fixed={"noise": 1.0}).fit(columns, Y)


def test_files_keep_them(tmp_path):
    prior = {"kernel.lengthscale": priors.LogNormal(1.5, 0.5)}
    asked = {"fixed": {"likelihood.variance": 9.0}, "bounds": {"kernel.variance": (1.0, None)}}
    model = GPRegressor(max_iterations=2, priors=prior, **asked).fit(X, Y)
    model.save(tmp_path / "m.cavity")
    again = cavity.load(tmp_path / "m.cavity")
    for name, value in (asked | {"priors": prior}).items():
        assert getattr(again, name) == value
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


def test_files_say_which_priors_there_are(tmp_path):
    prior = {"kernel.lengthscale": priors.LogNormal(1.5, 0.5)}
    for asked, word in ((None, "none"), ("weak", "weak"), (prior, "weak")):
        model = GPRegressor(max_iterations=0, priors=asked).fit(X, Y)
        model.save(tmp_path / "m.cavity")
        assert TableModel.load(tmp_path / "m.cavity").record["priors"] == word


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"fixed": ["likelihood.variance"]}, "fixed is a dict by dotted name, such as"),
        ({"bounds": (0.1, 10.0)}, "bounds is a dict by dotted name"),
        ({"fixed": {1: 1.0}}, "fixed is a dict by dotted name, .*; given {1: 1.0}"),
        ({"fixed": {"noise": 1.0}}, "no parameter 'noise': known: kernel.variance"),
        ({"priors": {"noise": priors.Flat()}}, "no parameter 'noise'"),
        (
            {"kernel": HELD, "priors": {"kernel.lengthscale": priors.LogNormal(1.0, 0.5)}},
            "kernel.lengthscale is not learned: leave its prior out",
        ),
        (
            {"kernel": HELD, "fixed": {"kernel.lengthscale": 5.0}},
            "kernel.lengthscale is fixed, and the text of the kernel holds it",
        ),
        ({"priors": "strong"}, r"priors must be one of \['none', 'weak'\]"),
        (
            {"kernel": "rbf(lengthscale=20)", "bounds": {"kernel.lengthscale": (1.0, 2.0)}},
            r"kernel.lengthscale\[0\] starts at 20, but its domain is \(1, 2\)",
        ),
        (
            {
                "likelihood": cavity.likelihoods.Gaussian(9.0),
                "bounds": {"likelihood.variance": (1, 2)},
            },
            "likelihood.variance starts at 9",
        ),
    ],
)
def test_what_is_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        GPRegressor(**settings).fit(X, Y)


@pytest.mark.parametrize(
    "settings",
    [
        {"fixed": {"likelihood.variance": 9.0}},
        {"bounds": {"kernel.variance": (1.0, None)}},
        {"kernel": "rbf(lengthscale=2)"},
        {"priors": {"kernel.variance": priors.LogNormal(1.0, 1.0)}},
    ],
)
def test_streams_learn_all_parameters(settings):
    with pytest.raises(ValueError, match="partial_fit learns all parameters again"):
        GPRegressor(**settings).partial_fit(X, Y)
