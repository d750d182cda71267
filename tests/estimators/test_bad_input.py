"""Bad input is refused before any work, by a sentence that says what was given and expected."""

import jax
import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

import cavity
from cavity.estimators import settings as build
from cavity.initialisation import Inducing
from cavity.learning.initialisation import models as starts
from tests.estimators.problem import problem

X, Y = problem()
NAN, INFINITE = X.copy(), X.copy()
NAN[3, 1], INFINITE[5, 0] = np.nan, np.inf
HOLES = np.where(np.arange(60) == 4, np.nan, Y)
TEXT = pd.DataFrame({"size": X[:, 0], "colour": ["red"] * 60})


@pytest.fixture
def no_work(monkeypatch):
    """Fails when starting values are looked for or learning starts."""

    def refuse(*_, **__):
        pytest.fail("work began before the input was checked")

    monkeypatch.setattr(starts, "screen", refuse)
    monkeypatch.setattr(build, "initial_inducing", refuse)
    monkeypatch.setattr("cavity.learning.objectives.evidence.value_and_grad", refuse)


# ------------------------------------------------------------------------ the estimator

DATA = {
    "nan": (NAN, Y, "X contains NaN"),
    "infinity": (INFINITE, Y, "X contains infinity"),
    "nan in y": (X, HOLES, "y contains NaN"),
    "infinity in y": (X, np.where(HOLES == Y, Y, np.inf), "y contains infinity"),
    "text": (TEXT.to_numpy(), Y, "array with text, such as 'red': give a data frame"),
    "text in y": (X, np.array(["a"] * 60), "could not convert string|dtype"),
    "lengths": (X, Y[:-1], r"inconsistent numbers of samples: \[60, 59\]"),
    "no rows": (X[:0], Y[:0], r"0 sample\(s\).*minimum of 1"),
    "no columns": (X[:, :0], Y, r"0 feature\(s\).*minimum of 1"),
    "vector": (X[:, 0], Y, "Expected 2D array, got 1D array.*reshape"),
    "no y": (X, None, "requires y"),
    "too large": (X, Y * 1e200, "y is .*too large.*change its units"),
    "too small": (X, Y * 1e-200, "y is .*too small.*change its units"),
    "complex": (X, Y * 1j, "[Cc]omplex"),
}


@pytest.mark.x32
@pytest.mark.parametrize(("inputs", "outputs", "message"), DATA.values(), ids=DATA.keys())
def test_data(no_work, inputs, outputs, message):
    with pytest.raises(ValueError, match=f"(?s){message}"):
        cavity.GPRegressor().fit(inputs, outputs)


SETTINGS = [
    ({"kernel": "rfb"}, "(?s)rfb.*did you mean.*rbf"),
    ({"kernel": "matern5"}, "(?s)matern5.*matern52"),
    ({"kernel": "rbf + "}, "rbf"),
    ({"kernel": "rbf[7]"}, "7"),
    ({"kernel": 3}, r"kernel must be text such as 'rbf.*or a kernel.*given 3"),
    ({"kernel": cavity.kernels.RBF}, r"a kernel such as cavity.kernels.RBF\(\).*given <class"),
    ({"likelihood": "gausian"}, r"likelihood must be one of \['beta'.*given 'gausian'"),
    ({"likelihood": 3}, r"or a likelihood such as cavity.likelihoods.Gaussian\(\), given 3"),
    ({"likelihood": "bernoulli"}, "'bernoulli' is for classification: use GPClassifier"),
    ({"likelihood": cavity.likelihoods.Bernoulli()}, "Bernoulli is for classification: use GPCl"),
    ({"likelihood": "laplace", "block_size": 5, "n_inducing": 9}, "block_size is for Gaussian"),
    ({"method": "ep"}, r"method must be one of \['laplace', .*'tied'\], given 'ep'"),
    ({"mean": "average"}, "mean must be one of .*constant.*given 'average'"),
    ({"missing": "drop"}, "missing must be one of .*skip.*given 'drop'"),
    ({"inducing": "grid"}, "inducing must be one of .*greedy.*given 'grid'"),
    ({"inducing": np.ones((3, 5))}, r"inducing must be .*shape \(M, 2\), given"),
    ({"inducing": np.zeros((0, 2))}, r"inducing must be .*shape \(M, 2\), given"),
    ({"inducing": np.full((3, 2), np.nan)}, r"finite points of shape \(M, 2\), given"),
    ({"inducing": None}, "inducing must be one of .*given None"),
    ({"power": 1.5}, r"power must lie in \[0, 1\].*given 1.5"),
    ({"power": -0.1}, r"power must lie in \[0, 1\].*given -0.1"),
    ({"power": np.nan}, r"power must lie in \[0, 1\].*given nan"),
    (
        {"power": "half"},
        r'power must be a number in \[0, 1\], one per row, or "auto", given \'half\'',
    ),
    ({"power": "auto", "method": "mcmc"}, "'mcmc' draws at no power: leave power at a number"),
    ({"power": np.full(7, 0.5)}, r"one number or one per row, \(60,\), given shape \(7,\)"),
    ({"n_inducing": 0}, "n_inducing must be .*at least 1, given 0"),
    ({"n_inducing": -5}, "n_inducing must be .*at least 1, given -5"),
    ({"n_inducing": 2.5}, "n_inducing must be .*whole number.*given 2.5"),
    ({"n_inducing": "many"}, "n_inducing must be one of .*auto.*enough.*given 'many'"),
    ({"n_inducing": "enuogh"}, "n_inducing must be one of .*auto.*enough.*given 'enuogh'"),
    ({"inducing": Inducing(most=0)}, "most of Inducing, must be a whole .* given 0"),
    ({"inducing": Inducing(most=2.5)}, "must be a whole number of at least 1, given 2.5"),
    ({"n_inducing": "enough", "method": "tied"}, "needs a site for every row"),
    ({"n_inducing": "enough", "block_size": 5}, "needs a site for every row"),
    (
        {"n_inducing": "enough", "likelihood": "heteroscedastic"},
        "of one latent function, and Het",
    ),
    ({"n_inducing": True}, "n_inducing must be .*whole number.*given True"),
    ({"n_restarts": -1}, "n_restarts must be a whole number of at least 0, given -1"),
    ({"max_iterations": 1.5}, "max_iterations must be a whole number of at least 0, given 1.5"),
    ({"tolerance": -1.0}, r"tolerance must be a number in \[0, inf\], given -1.0"),
    ({"tolerance": "small"}, r"tolerance must be a number in \[0, inf\], given 'small'"),
    ({"jitter": 0.5}, r"jitter must be a number in \[0, 0.001\], given 0.5"),
    ({"jitter": np.nan}, r"jitter must be a number in \[0, 0.001\], given nan"),
    ({"block_size": 0, "n_inducing": 5}, "block_size must be None or .*at least 1, given 0"),
    ({"block_size": 5}, "block_size changes nothing in a full GP.*set n_inducing"),
    ({"random_state": "dice"}, "dice"),
]


@pytest.mark.x32
@pytest.mark.parametrize(("setting", "message"), SETTINGS, ids=lambda value: str(value)[:40])
def test_settings(no_work, setting, message):
    with pytest.raises(ValueError, match=message):
        cavity.GPRegressor(**setting).fit(X, Y)


@pytest.mark.x32
def test_a_full_gp_of_too_many_rows_names_the_memory(no_work):
    many = np.zeros((20_001, 1))
    with pytest.raises(ValueError, match=r"20001 rows needs about 32 GB.*set n_inducing to"):
        cavity.GPRegressor(n_inducing=None).fit(many, many[:, 0])


@pytest.mark.x32
@pytest.mark.parametrize(
    ("noise", "message"),
    [
        (np.ones(7), r"one value per row, \(60,\), given shape \(7,\)"),
        (np.zeros(60), "positive and finite in every row"),
        (np.full(60, np.nan), "positive and finite in every row"),
        (["loud"] * 60, "noise_variance must hold numbers"),
    ],
    ids=["length", "zero", "nan", "text"],
)
def test_known_noise(no_work, noise, message):
    with pytest.raises((ValueError, TypeError), match=message):
        cavity.GPRegressor().fit(X, Y, noise_variance=noise)


@pytest.mark.x32
def test_known_noise_with_outputs_of_different_scales(no_work):
    with pytest.raises(ValueError, match="outputs of one scale: set standardise=False"):
        cavity.GPRegressor().fit(X, np.column_stack([Y, 9 * Y]), noise_variance=np.ones(60))


@pytest.mark.x32
def test_all_outputs_missing(no_work):
    with pytest.raises(ValueError, match="every output is missing"):
        cavity.GPRegressor(missing="skip").fit(X, np.full(60, np.nan))
    with pytest.raises(ValueError, match="y contains infinity"):
        cavity.GPRegressor(missing="skip").fit(X, np.full(60, np.inf))
    with pytest.raises(ValueError, match="X contains NaN"):
        cavity.GPRegressor(missing="skip").fit(NAN, Y)
    with pytest.raises(ValueError, match="X has 60 rows but y has 59"):
        cavity.GPRegressor(missing="skip").fit(X, Y[:-1])


@pytest.mark.x32
def test_a_kernel_for_other_columns():
    for kernel in (cavity.kernels.RBF(1.0, np.ones(5)), cavity.kernels.RBF().on(4)):
        with pytest.raises(ValueError, match=r"kernel .*2 columns|2 *columns"):
            cavity.GPRegressor(kernel=kernel).fit(X, Y)


@pytest.mark.x32
def test_a_kernel_with_impossible_values():
    kernel = cavity.kernels.RBF(1.0, [1.0, -1.0])
    with pytest.raises(ValueError, match=r"kernel\.lengthscale\[1\] starts at -1, but its domain"):
        cavity.GPRegressor(kernel=kernel).fit(X, Y)


@pytest.fixture(scope="module")
def fitted():
    return cavity.GPRegressor(max_iterations=0).fit(X, Y)


@pytest.mark.x32
@pytest.mark.parametrize(
    "method",
    [
        lambda model, X: model.predict(X),
        lambda model, X: model.predict(X, return_cov=True),
        lambda model, X: model.predict_latent(X),
        lambda model, X: model.predict_quantiles(X, [0.5]),
        lambda model, X: model.log_predictive_density(X, Y),
        lambda model, X: model.sample_y(X),
        lambda model, X: model.score(X, Y),
    ],
    ids=["predict", "cov", "latent", "quantiles", "density", "sample", "score"],
)
def test_inputs_of_predictions(fitted, method):
    for inputs, message in (
        (X[:, :1], "1 features, but GPRegressor is expecting 2"),
        (NAN, "X contains NaN"),
        (X[0], "Expected 2D array, got 1D array"),
        (X[:0], "minimum of 1"),
        (TEXT.to_numpy(), "array with text, such as 'red': give a data frame"),
        (TEXT, "column 'colour' holds text, and the model was fitted to numbers"),
        (np.full_like(X, 1e160), r"largest entry of X is 1\.0e\+160, too large to compute with"),
    ):
        with pytest.raises(ValueError, match=message):
            method(fitted, inputs)
    with pytest.raises(NotFittedError, match="not fitted yet"):
        method(cavity.GPRegressor(), X)


@pytest.mark.x32
def test_arguments_of_predictions(fitted):
    for method in (fitted.predict, fitted.predict_latent):
        with pytest.raises(ValueError, match="either return_std or return_cov, not both"):
            method(X, return_std=True, return_cov=True)
    for q in (1.5, [0.1, 0.0], [[0.5]], -1):
        with pytest.raises(ValueError, match=r"probabilities in \(0, 1\), given"):
            fitted.predict_quantiles(X, q)
    with pytest.raises(ValueError, match=r"y must have shape \(60,\), as in fit, given \(60, 2\)"):
        fitted.log_predictive_density(X, np.column_stack([Y, Y]))
    with pytest.raises(ValueError, match="y contains NaN"):
        fitted.log_predictive_density(X, HOLES)
    with pytest.raises(ValueError, match="n_samples must be a whole number of at least 1"):
        fitted.sample_y(X, 0)
    with pytest.raises(ValueError, match="noise_variance must have one value per row"):
        fitted.predict(X, return_std=True, noise_variance=np.ones(3))


# -------------------------------------------------------------------------- the library

LIBRARY = {
    "nan": ((NAN, Y), {}, ValueError, r"X has 1 entry .*, at index \[3, 1\]; remove or"),
    "infinity": ((INFINITE, Y), {}, ValueError, r"X has 1 entry .*index \[5, 0\]"),
    "nan in y": ((X, HOLES), {}, ValueError, r"y has 1 entry .*index \[4"),
    "text": ((TEXT.to_numpy(), Y), {}, TypeError, "X must hold numbers.*encode text"),
    "lengths": ((X, Y[:-1]), {}, ValueError, "X has 60 rows but y has 59; they must match"),
    "no rows": ((X[:0], Y[:0]), {}, ValueError, "X has no rows; at least one is needed"),
    "vector": ((X[:, 0], Y), {}, ValueError, r"matrix of shape .*given shape \(60,\).*X\[:, None"),
    "power": ((X, Y), {"power": 2}, ValueError, r"power must lie in \[0, 1\].*given 2"),
    "jitter": ((X, Y), {"jitter": 1.0}, ValueError, r"jitter must lie in \[0, 0.001\], given 1"),
    "blocks": ((X, Y), {"blocks": np.zeros(60, int)}, ValueError, "blocks change nothing in a f"),
    "rows": ((X, Y), {"rows": {"age": Y}}, ValueError, r"unknown side data \['age'\]; known"),
    "noise": ((X, Y), {"rows": {"noise_variance": -(Y**2)}}, ValueError, "positive and finite"),
    "missing": ((X, Y), {"missing": "drop"}, ValueError, "must be .*skip.*given 'drop'"),
    "all missing": ((X, np.full(60, np.nan)), {"missing": "skip"}, ValueError, "every output is"),
    "outputs": ((X, np.zeros((60, 0))), {}, ValueError, "y has no output columns"),
    "too large": ((X * 1e200, Y), {}, ValueError, "X is .*too large.*change its units"),
    "kernel": ((np.ones((60, 1)), Y), {}, ValueError, "2 values of lengthscale.*1 *column;"),
}


@pytest.mark.parametrize("function", [cavity.infer, cavity.fit], ids=["infer", "fit"])
@pytest.mark.parametrize(("data", "options", "error", "words"), LIBRARY.values(), ids=LIBRARY)
def test_the_library(no_work, monkeypatch, function, data, options, error, words):
    if options or data[0].shape[-1] != 1:
        monkeypatch.setattr(
            "cavity.learning.infer.posterior_at", lambda *_: pytest.fail("work began")
        )
    else:
        monkeypatch.undo()
    model = cavity.GP(cavity.kernels.RBF(1.0, [1.0, 1.0]), cavity.likelihoods.Gaussian())
    with pytest.raises(error, match=words):
        function(model, *data, **options)


@pytest.mark.x32
def test_the_library_refuses_float64_in_32_bit_mode(no_work):
    model = cavity.GP(cavity.kernels.RBF(), cavity.likelihoods.Gaussian())
    for function in (cavity.infer, cavity.fit):
        with pytest.raises(TypeError, match=r"X is float64.*jax.enable_x64\(True\)"):
            function(model, X, Y)


def test_the_library_s_predictions_check_their_inputs():
    model = cavity.GP(cavity.kernels.RBF(), cavity.likelihoods.Gaussian())
    posterior = cavity.infer(model, X, Y).posterior
    for method in (posterior.marginals, posterior.joint, posterior.predict):
        with pytest.raises(ValueError, match="X has 1 column, the model was fitted with 2"):
            method(X[:, :1])
        with pytest.raises(ValueError, match="X has 1 entry that is NaN or infinite"):
            method(NAN)
    with pytest.raises(ValueError, match="X has 3 columns"):
        posterior.sample(np.ones((4, 3)), 2, key=jax.random.key(0))
