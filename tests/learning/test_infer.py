"""Inference at fixed parameters: refusals, jitter, precision, hard but legitimate data."""

import jax
import numpy as np
import pytest

import cavity
from cavity import diagnostics, fitting
from cavity.kernels import AbstractKernel
from cavity.learning.data.arrays import check_power
from cavity.learning.dispatch import dispatch
from tests.equivalence.problem import ROWS, problem
from tests.tolerances import assert_close, relative

P = problem()


class AlmostKernel(AbstractKernel):
    """An RBF less a little of the diagonal: not quite positive semi-definite."""

    kernel: AbstractKernel
    lacking: float

    def cross(self, X, Z):
        white = cavity.kernels.White(1.0)
        return self.kernel.cross(X, Z) - self.lacking * white.cross(X, Z)

    def diag(self, X):
        return self.kernel.diag(X) - self.lacking


def almost(lacking, *, full=False, noise=0.1):
    kernel = AlmostKernel(cavity.kernels.RBF(1.0, 5.0), lacking)
    inducing = None if full else cavity.inducing.Points(P.X)
    return cavity.GP(kernel, cavity.likelihoods.Gaussian(noise), inducing)


def test_jitter_is_raised_where_needed_and_reported():
    result = cavity.infer(almost(1e-6), P.X, P.y)
    assert 1e-7 < result.jitter <= 1.1e-5
    assert np.isfinite(result.log_evidence)
    assert np.all(np.isfinite(result.posterior.marginals(P.S).mean))
    assert cavity.infer(P.model, P.X, P.y).jitter == 1e-8
    assert cavity.infer(P.model, P.X, P.y, jitter=1e-6).jitter == 1e-6


def test_a_full_model_starts_without_jitter():
    assert cavity.infer(almost(1e-6, full=True), P.X, P.y).jitter == 0.0
    result = cavity.infer(almost(1e-4, full=True, noise=1e-6), P.X, P.y)
    assert 1e-5 < result.jitter <= 1.1e-3
    assert np.isfinite(result.log_evidence)


def test_learning_raises_the_jitter_too():
    result = cavity.fit(almost(1e-6), P.X, P.y, max_iterations=5)
    assert result.jitter > 1e-8
    assert np.isfinite(result.log_evidence)
    assert result.log_evidence >= cavity.infer(almost(1e-6), P.X, P.y).log_evidence


@pytest.mark.parametrize("run", [cavity.infer, cavity.fit])
def test_what_no_jitter_mends_names_a_culprit(run):
    with pytest.raises(fitting.NumericalError, match=r"not positive definite even .* kernel that"):
        run(almost(0.5), P.X, P.y)


def test_a_parameter_without_a_domain_can_still_be_the_culprit():
    class Bare(AbstractKernel):
        variance: float

        def cross(self, X, Z):
            return cavity.kernels.RBF().cross(X, Z) / self.variance

        def diag(self, X):
            return cavity.kernels.RBF().diag(X) / self.variance

    zero = cavity.GP(Bare(0.0), cavity.likelihoods.Gaussian())
    with pytest.raises(fitting.NumericalError, match=r"parameter kernel\.variance is zero"):
        cavity.infer(zero, P.X, P.y)


@pytest.mark.parametrize("run", [cavity.infer, cavity.fit])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"X": P.X[:, 0]}, r"X must be a matrix .* given shape \(17,\)"),
        ({"X": P.X[:0], "y": P.y[:0]}, "X has no rows"),
        ({"y": P.y[:5]}, "X has 17 rows but y has 5"),
        ({"y": np.zeros((17, 2, 2))}, r"y must have shape \(rows,\) or \(rows, outputs\)"),
        ({"y": np.zeros((17, 0))}, "y has no output columns"),
        ({"X": np.where(P.X > 3, np.nan, P.X)}, "X has .* entries that are NaN or infinite"),
        ({"y": np.where(P.y > 0, np.inf, P.y)}, "y has .* entries that are NaN or infinite"),
        ({"y": np.full(17, np.nan), "missing": "skip"}, "every output is missing"),
        ({"missing": "drop"}, r'missing must be "error" or "skip", given \'drop\''),
        ({"power": 1.5}, r"power must lie in \[0, 1\]"),
        ({"power": -0.1}, r"power must lie in \[0, 1\]"),
        ({"power": np.nan}, r"power must lie in \[0, 1\]"),
        ({"power": np.ones(3)}, r"one number or one per row, \(17,\), given shape \(3,\)"),
        ({"jitter": 0.1}, r"jitter must lie in \[0, 0\.001\], given 0\.1"),
        ({"blocks": np.zeros(3, int)}, "blocks must be one integer label per row"),
        ({"blocks": np.zeros(17)}, "blocks must be one integer label per row"),
        (
            {"blocks": np.zeros(17, int), "power": np.linspace(0, 1, 17)},
            "the rows of a block must share one power",
        ),
        ({"rows": {"weights": np.ones(17)}}, r"unknown side data \['weights'\]"),
        ({"rows": {"noise_variance": np.ones(4)}}, r"one value per row, \(17,\)"),
        ({"rows": {"noise_variance": np.zeros(17)}}, "must be positive and finite"),
    ],
    ids=lambda value: ", ".join(value) if isinstance(value, dict) else "",
)
def test_unusable_data_are_refused(run, change, message):
    options = {"X": P.X, "y": P.y} | change
    with pytest.raises(ValueError, match=message):
        run(P.model, options.pop("X"), options.pop("y"), **options)


@pytest.mark.parametrize("run", [cavity.infer, cavity.fit])
@pytest.mark.parametrize(
    ("power", "said"),
    [
        ("abc", "'abc'"),
        ("0.5", "'0.5'"),
        (1j, "1j"),
        (["a"] * 17, r"\['a', 'a'"),
        ([[0.1], [0.1, 0.2]], r"\[\[0\.1\], \[0\.1, 0\.2\]\]"),
    ],
)
def test_powers_that_are_no_numbers_are_refused(run, power, said):
    words = rf"power must be a number in \[0, 1\], or one per row; given {said}"
    with pytest.raises(ValueError, match=words):
        run(P.model, P.X, P.y, power=power)
    with pytest.raises(ValueError, match="or one per row; given None"):
        check_power(None, ROWS)


def test_blocks_of_a_full_model_are_refused():
    with pytest.raises(ValueError, match="blocks change nothing in a full GP"):
        P.but(Z=None).infer(0.5, np.zeros(ROWS, int))


def test_text_is_refused():
    with pytest.raises(TypeError, match="X must hold numbers, given values of type <U1"):
        cavity.infer(P.model, np.full((17, 2), "a"), P.y)


def test_arrays_of_any_kind():
    """JAX arrays, lists, integers and data frames give what numpy gives."""
    import pandas as pd

    X, y = np.round(P.X), np.round(3 * P.y)
    expected = cavity.infer(P.model, X, y).log_evidence
    for made in (
        (jax.numpy.asarray(X), jax.numpy.asarray(y)),
        (X.tolist(), y.tolist()),
        (X.astype(int), y.astype(int)),
        (pd.DataFrame(X), pd.Series(y)),
    ):
        assert cavity.infer(P.model, *made).log_evidence == expected


def test_a_result_prints_as_a_line_and_the_parameters():
    result = P.infer(0.5)
    lines = str(result).splitlines()
    assert lines[0] == f"log evidence {result.log_evidence:.4f} nats, converged: closed form"
    assert "\n".join(lines[1:]) == str(P.model)
    stopped = P.infer(0.5, method=cavity.PowerEP(exact=False, max_sweeps=1, fallback=False))
    assert " nats, not converged: sites did not converge: 1 sweep left" in str(stopped)


def test_the_data_are_not_kept_by_reference():
    """Changing X in place afterwards changes nothing."""
    X, y = P.X.copy(), P.y.copy()
    posterior = cavity.infer(P.but(Z=None).model, X, y).posterior
    before = np.asarray(posterior.marginals(P.S).mean)
    X[:], y[:] = 0.0, 0.0
    np.testing.assert_array_equal(posterior.marginals(P.S).mean, before)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("power", [0.0, 0.5, 1.0])
@pytest.mark.parametrize(
    "change",
    [
        {"X": P.X[:1], "y": P.y[:1]},
        {"X": P.X[:2], "y": P.y[:2]},
        {"X": np.repeat(P.X[:1], 17, axis=0)},
        {"X": P.X * [1.0, 0.0]},
        {"y": np.zeros(17)},
        {"Z": np.repeat(P.Z, 8, axis=0)},
        {"Z": np.repeat(P.Z, 8, axis=0), "X": P.X[:1], "y": P.y[:1]},
    ],
    ids=["N=1", "N=2", "equal rows", "constant column", "constant output", "M>N", "N=1, M=40"],
)
def test_hard_but_legitimate_data(change, power):
    p = P.but(**change)
    for setting in (p, p.but(Z=None)):
        result = setting.infer(power)
        assert np.isfinite(result.log_evidence)
        mean, var = result.posterior.marginals(p.S)
        assert np.all(np.isfinite(mean))
        assert np.all(var >= 0.0)


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0])
def test_units_and_origin_are_only_units(power):
    """Inputs a million away, outputs of scale 1e-9 or 1e9: the same problem."""
    here = P.infer(power)
    shift = 2.0**20
    away = P.but(X=P.X + shift, Z=P.Z + shift).infer(power)
    assert_close(away.log_evidence, here.log_evidence, "fixed_point")
    for scale in (1e-9, 1e9):
        q = P.but(y=scale * P.y, variance=scale**2 * P.variance, noise=scale**2 * P.noise)
        value = q.infer(power).log_evidence + ROWS * np.log(scale)
        assert_close(value, here.log_evidence, "factorised")


def test_many_columns():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(17, 200))
    kernel = cavity.kernels.RBF(1.0, np.full(200, 15.0))
    model = cavity.GP(kernel, cavity.likelihoods.Gaussian(0.1), cavity.inducing.Points(X[:5]))
    assert np.isfinite(cavity.infer(model, X, P.y).log_evidence)


@pytest.mark.sampled(2)
@pytest.mark.x32
@pytest.mark.parametrize("blocks", [None, np.arange(ROWS) // 4], ids=["rows", "blocks"])
@pytest.mark.parametrize("power", [0.0, 0.01, 1.0])
def test_single_precision(power, blocks):
    """float32 data work in a fresh session, to single precision."""
    X, y, S = (a.astype(np.float32) for a in (P.X, P.y, P.S))
    result = cavity.infer(P.model, X, y, power=power, blocks=blocks, jitter=1e-6)
    expected = P.but(jitter=1e-6).oracle(power, blocks)
    assert result.log_evidence == pytest.approx(expected, rel=relative("factorised", np.float32))
    mean, var = result.posterior.marginals(S)
    assert mean.dtype == var.dtype == np.float32
    exact = P.but(jitter=1e-6).oracle_predict(*P.but(jitter=1e-6).oracle_inducing(power, blocks))
    np.testing.assert_allclose(mean, exact[0], atol=2e-3)
    np.testing.assert_allclose(var, np.diag(exact[1]), atol=2e-3)


@pytest.mark.parametrize("single", ["X", "y"])
def test_single_precision_only_where_both_are(single):
    data = {"X": P.X, "y": P.y}
    data[single] = data[single].astype(np.float32)
    mean, _ = cavity.infer(P.model, data["X"], data["y"]).posterior.marginals(P.S)
    assert mean.dtype == np.float64


@pytest.mark.x32
def test_lists_in_32_bit_mode():
    result = cavity.infer(P.model, P.X.tolist(), P.y.tolist())
    assert result.log_evidence == pytest.approx(P.oracle(0.5), rel=1e-2)


@pytest.mark.x32
@pytest.mark.parametrize("run", [cavity.infer, cavity.fit])
def test_float64_in_32_bit_mode_is_refused(run):
    with pytest.raises(TypeError, match=r"X is float64, .* jax\.enable_x64"):
        run(P.model, P.X, P.y)
    posterior = cavity.infer(P.model, P.X.astype(np.float32), P.y.astype(np.float32)).posterior
    with pytest.raises(TypeError, match=r"jax\.enable_x64"):
        posterior.marginals(P.S)


CHAINS = cavity.MCMC()
OTHER_METHODS = {
    "chains for single rows": (diagnostics.improve_marginals, CHAINS, ValueError, "has no sites"),
    "tied sites for single rows": (
        diagnostics.improve_marginals,
        cavity.TiedPowerEP(),
        ValueError,
        "tied sites need|a site per row",
    ),
    "chains for two modes": (diagnostics.tierney_kadane, CHAINS, ValueError, r"is of Laplace\(\)"),
    "EP for two modes": (
        diagnostics.tierney_kadane,
        cavity.PowerEP(),
        ValueError,
        r"is of Laplace\(\)",
    ),
}


@pytest.mark.parametrize("case", OTHER_METHODS)
def test_methods_of_another_kind_are_refused_in_words(case):
    function, method, error, message = OTHER_METHODS[case]
    X, y = np.linspace(0.0, 1.0, 5)[:, None], np.array([0.0, 1.0, 0.0, 1.0, 1.0])
    model = cavity.GP(cavity.kernels.RBF(), cavity.likelihoods.Bernoulli())
    with pytest.raises(error, match=message):
        function(model, X, y, X, method=method)


def test_what_is_no_method_is_refused_in_words():
    with pytest.raises(TypeError, match=r"an object such as cavity.PowerEP\(\), given 'laplace'"):
        dispatch("laplace", lambda method: method, lambda sampler: sampler)
