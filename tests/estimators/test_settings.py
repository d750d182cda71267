"""What each setting of the regressor does."""

import warnings

import equinox as eqx
import jax
import numpy as np
import pytest

import cavity
from cavity import kernels, likelihoods, means
from cavity.estimators import settings as build
from cavity.initialisation import Inducing
from tests.estimators.problem import problem, wave

pytestmark = pytest.mark.x32

SPARSE = {"n_inducing": 10, "random_state": 0}
NEW = problem(seed=9, rows=25)[0]


def test_known_noise_takes_the_place_of_a_learned_one():
    X, y = problem()
    noise = np.where(np.arange(60) < 30, 1e-4, 4.0)
    model = cavity.GPRegressor().fit(X, y, noise_variance=noise)
    trusted = np.abs(model.predict(X) - y)
    assert np.mean(trusted[:30]) < 0.3 * np.mean(trusted[30:])
    latent = model.predict_latent(NEW, return_std=True)[1]
    std = model.predict(NEW, return_std=True, noise_variance=np.full(25, 0.5))[1]
    np.testing.assert_allclose(std**2, latent**2 + 0.5, rtol=1e-10)
    assert model.sample_y(NEW, 3, noise_variance=np.full(25, 0.5)).shape == (25, 3)
    assert model.predict(NEW).shape == (25,)
    with pytest.raises(ValueError, match="known noise variance per row"):
        model.predict(NEW, return_std=True)


@pytest.mark.slow
def test_the_number_of_inducing_points():
    X, y = problem()
    distinct = np.concatenate([X[:20]] * 3)
    for count, expected in ((10, 10), (20, 20), (1000, 20)):
        model = cavity.GPRegressor(n_inducing=count, max_iterations=0).fit(distinct, y)
        assert model.inducing_.size == expected
    model = cavity.GPRegressor(n_inducing=None, max_iterations=0).fit(X, y)
    assert model.inducing_ is None


@pytest.mark.slow
def test_all_rows_as_inducing_points_give_the_full_gp():
    X, y = problem()
    full = cavity.GPRegressor().fit(X, y)
    sparse = cavity.GPRegressor(n_inducing=60).fit(X, y)
    assert sparse.log_evidence_ == pytest.approx(full.log_evidence_, abs=1e-2)
    np.testing.assert_allclose(sparse.predict(NEW), full.predict(NEW), atol=1e-3)
    np.testing.assert_array_equal(sparse.inducing_.Z, np.unique(X, axis=0))


def test_auto_is_the_full_gp_up_to_a_number_of_rows(monkeypatch):
    X, y = problem()
    monkeypatch.setattr(build, "FULL_ROWS", 59)
    monkeypatch.setattr(build, "AUTO_INDUCING", 10)
    auto = cavity.GPRegressor(max_iterations=0)
    assert auto.fit(X, y).inducing_.size == 10
    assert auto.fit(X[:59], y[:59]).inducing_ is None
    assert auto.set_params(n_inducing=None).fit(X, y).inducing_ is None


@pytest.mark.slow
def test_as_many_points_as_are_enough(monkeypatch):
    """The bracket and the verdict are of the final model, in the units of the data."""
    monkeypatch.setattr(build, "FULL_ROWS", 59)
    monkeypatch.setattr(build, "FIRST", 6)
    X, y = problem()
    pair = np.stack([y, 100.0 * y], axis=1)
    grown = cavity.GPRegressor(n_inducing="enough", random_state=0).fit(X, pair)
    assert grown.verdict_.startswith("enough, for the exact evidence is known to")
    assert grown.n_inducing_ == grown.inducing_.size > 6
    parts = {"kernel": grown.kernel_, "likelihood": grown.likelihood_, "mean": grown.mean_}
    exact = cavity.GPRegressor(**parts, n_inducing=None, max_iterations=0).fit(X, pair)
    assert grown.bracket_.lower <= exact.log_evidence_ <= grown.bracket_.upper
    assert grown.bracket_.log_evidence == pytest.approx(grown.log_evidence_, rel=1e-6)
    full = cavity.GPRegressor(n_inducing="enough", random_state=0).fit(X[:59], y[:59])
    assert full.n_inducing_ is full.inducing_ is None
    assert full.verdict_ == "a full GP, which needs no inducing points"
    assert full.bracket_.upper == pytest.approx(full.log_evidence_, rel=1e-12)
    batches = cavity.fitting.Batches([(X, y)])
    with pytest.raises(ValueError, match="judges points by rows in memory"):
        cavity.GPRegressor(n_inducing="enough").fit(X, y, batches=batches)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("choice", ["kmeans", "random"])
def test_inducing_points_move_unless_they_are_held(choice):
    X, y = problem()
    setting = {"n_inducing": 10, "random_state": 0}
    held = cavity.GPRegressor(inducing=Inducing(choice, learn=False), **setting).fit(X, y)
    moved = cavity.GPRegressor(inducing=choice, **setting).fit(X, y)
    assert np.max(np.abs(moved.inducing_.Z - held.inducing_.Z)) > 1e-3
    assert moved.log_evidence_ > held.log_evidence_ - 1e-3
    if choice != "kmeans":
        assert all(np.any(np.all(z == X, axis=1)) for z in held.inducing_.Z)


def test_inducing_points_may_be_given():
    X, y = problem()
    Z = np.random.default_rng(0).uniform(-2, 2, (10, 2))
    for given in (Z, Z.tolist(), cavity.inducing.Points(Z)):
        model = cavity.GPRegressor(inducing=given, max_iterations=0).fit(X, y)
        np.testing.assert_array_equal(model.inducing_.Z, Z)
    assert not np.array_equal(cavity.GPRegressor(inducing=Z).fit(X, y).inducing_.Z, Z)


@pytest.mark.parametrize("power", [0, 0.3, 1, np.float64(1.0)])
def test_powers(power):
    X, y = problem()
    setting = {"n_inducing": 10, "max_iterations": 0, "random_state": 0}
    model = cavity.GPRegressor(power=power, **setting).fit(X, y)
    assert model.score(X, y) > 0.9
    assert model.jitter_ == 1e-8


def test_the_evidence_rises_with_the_power():
    """At fixed parameters, here those of power 0; power 0 bounds the exact evidence."""
    X, y = problem()
    setting = {"inducing": Inducing(X[:10], learn=False), "max_iterations": 0}
    exact = cavity.GPRegressor().fit(X, y)
    setting |= {"kernel": exact.kernel_, "likelihood": exact.likelihood_, "mean": exact.mean_}
    found = [
        cavity.GPRegressor(power=power, **setting).fit(X, y).log_evidence_
        for power in (0.0, 0.3, 0.7, 1.0)
    ]
    assert np.all(np.diff(found) > 0.0)
    assert found[0] < exact.log_evidence_


def test_one_power_for_each_row():
    X, y = problem()
    setting = {"inducing": X[:10], "max_iterations": 0, "random_state": 0}
    mixed = cavity.GPRegressor(power=np.linspace(0.0, 1.0, 60), **setting).fit(X, y)
    even = cavity.GPRegressor(power=np.full(60, 0.5), **setting).fit(X, y)
    half = cavity.GPRegressor(power=0.5, **setting).fit(X, y)
    assert even.log_evidence_ == pytest.approx(half.log_evidence_, rel=1e-10)
    assert mixed.log_evidence_ != pytest.approx(half.log_evidence_, abs=1e-3)


@pytest.mark.slow
def test_a_power_chosen_by_densities_of_rows_that_were_left_out():
    """Densities are in the units of the data; leave_one_out is made at the chosen power."""
    X, y = problem()
    setting = {"inducing": Inducing(X[:5], learn=False), "max_iterations": 0}
    setting |= {"random_state": 0}
    pair = np.stack([y, 100.0 * y], axis=1)
    chosen = cavity.GPRegressor(power="auto", **setting).fit(X, pair)
    assert [trial.power for trial in chosen.power_table_] == [1.0, 0.5, 0.0]
    (used,) = (trial for trial in chosen.power_table_ if trial.chosen)
    assert chosen.power_ == used.power
    same = cavity.GPRegressor(power=used.power, **setting).fit(X, pair)
    assert (same.power_, same.power_table_) == (used.power, None)
    assert chosen.log_evidence_ == pytest.approx(same.log_evidence_, rel=1e-8)
    assert used.log_evidence == pytest.approx(same.log_evidence_, rel=1e-8)
    assert used.log_density == pytest.approx(np.mean(same.leave_one_out(X, pair)), rel=1e-8)
    np.testing.assert_allclose(chosen.leave_one_out(X, pair), same.leave_one_out(X, pair))


def test_a_power_is_not_chosen_from_batches():
    X, y = problem()
    batches = cavity.fitting.Batches([(X, y)])
    with pytest.raises(ValueError, match="compares fits to rows in memory"):
        cavity.GPRegressor(power="auto", n_inducing=5).fit(X, y, batches=batches)


@pytest.mark.slow
def test_blocks():
    X, y = problem()
    model = cavity.GPRegressor(block_size=10, n_inducing=10, power=1.0).fit(X, y)
    assert model.score(X, y) > 0.95


@pytest.mark.slow
def test_blocks_come_closer_to_the_exact_evidence():
    """At equal parameters PITC keeps more of the covariance than FITC; one block keeps all."""
    X, y = problem()
    exact = cavity.GPRegressor().fit(X, y)
    setting = {"inducing": Inducing(X[:4], learn=False), "power": 1.0, "max_iterations": 0}
    setting |= {"kernel": exact.kernel_, "likelihood": exact.likelihood_, "mean": exact.mean_}
    blocks = [cavity.GPRegressor(block_size=size, **setting).fit(X, y) for size in (1, 60)]
    gap = [abs(model.log_evidence_ - exact.log_evidence_) for model in blocks]
    assert gap[1] < 1e-5 < gap[0]


@pytest.mark.slow
def test_means():
    X, y = problem()
    y = y + 3.0 * X[:, 1] + 50.0
    models = {
        mean: cavity.GPRegressor(mean=mean).fit(X, y) for mean in ("zero", "constant", "linear")
    }
    assert isinstance(models["zero"].mean_, means.Zero)
    assert models["constant"].mean_.value.shape == ()
    assert models["linear"].mean_.weights[1] == pytest.approx(3.5, abs=0.5)
    for model in models.values():
        assert model.score(X, y) > 0.99
    given = cavity.GPRegressor(mean=means.Constant(7.0)).fit(X, y)
    assert float(given.mean_.value) != 7.0
    assert given.log_evidence_ == pytest.approx(models["constant"].log_evidence_, abs=0.1)


def test_objects_are_taken_as_they_are():
    X, y = problem()
    kernel = kernels.RBF(2.0, [0.7, 3.0]) + kernels.Constant(0.5)
    setting = {"kernel": kernel, "likelihood": likelihoods.Gaussian(0.05), "max_iterations": 0}
    model = cavity.GPRegressor(mean=means.Constant(0.25), **setting).fit(X, y)
    assert eqx.tree_equal(model.kernel_, kernel, rtol=1e-12)
    assert float(model.likelihood_.variance) == pytest.approx(0.05, rel=1e-12)
    assert float(model.mean_.value) == 0.25
    assert model.converged_
    assert model.message_ == "nothing learned, as asked for"
    alone = cavity.GPRegressor(kernel=kernel, max_iterations=0).fit(X, y)
    assert eqx.tree_equal(alone.kernel_, kernel, rtol=1e-12)
    learned = cavity.GPRegressor(kernel=kernel).fit(X, y)
    assert learned.log_evidence_ > model.log_evidence_
    np.testing.assert_array_equal(kernel.first.lengthscale, [0.7, 3.0])


def test_noise_has_the_units_of_the_data_beside_a_kernel_object():
    """A named likelihood starts from the data also where the kernel is given."""
    X, y = problem()
    model = cavity.GPRegressor(kernel=kernels.RBF(1e18, [1.0, 1.0])).fit(X, y * 1e9)
    assert model.score(X, y * 1e9) > 0.95
    assert 1e15 < float(model.likelihood_.variance) < 1e17


RARER = [
    "matern12",
    "rational_quadratic",
    "rbf + rbf",
    "polynomial",
    "neural_network",
    "arccosine",
    "spectral_mixture2",
]


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "kernel",
    [
        "matern32 + white",
        "rbf * periodic[0]",
        "2.0 * rbf[0] + linear[1] + constant",
        *(pytest.param(kernel, marks=pytest.mark.slow) for kernel in RARER),
    ],
)
def test_kernels_as_text(kernel):
    X, y = problem()
    model = cavity.GPRegressor(kernel=kernel).fit(X, y)
    assert model.score(X, y) > (0.4 if kernel == "polynomial" else 0.9)
    assert np.isfinite(model.log_evidence_)


def test_without_standardising_values_start_at_one():
    X, y = problem()
    model = cavity.GPRegressor(standardise=False, max_iterations=0).fit(X + 5.0, y)
    np.testing.assert_array_equal(model.kernel_.lengthscale, [1.0, 1.0])
    assert float(model.kernel_.variance) == 1.0
    assert float(model.likelihood_.variance) == pytest.approx(0.1, rel=1e-12)
    assert float(model.mean_.value) == 0.0
    learned = cavity.GPRegressor(standardise=False).fit(X, y)
    assert learned.log_evidence_ == pytest.approx(
        cavity.GPRegressor().fit(X, y).log_evidence_, abs=0.1
    )


def test_restarts_never_make_it_worse():
    X, y = wave(noise=1.0)
    start = {"kernel": kernels.RBF(1.0, 8.0), "random_state": 0}
    once = cavity.GPRegressor(**start).fit(X, y)
    more = cavity.GPRegressor(n_restarts=5, **start).fit(X, y)
    assert more.log_evidence_ >= once.log_evidence_ - 1e-6
    assert more.n_evaluations_ > once.n_evaluations_


def test_jitter_is_used_and_reported():
    X, y = problem()
    setting = {"jitter": 1e-5, "max_iterations": 0}
    assert cavity.GPRegressor(n_inducing=10, **setting).fit(X, y).jitter_ == 1e-5
    assert cavity.GPRegressor(**setting).fit(X, y).jitter_ == 0.0


def test_stopping_early_is_said_aloud():
    X, y = problem()
    with pytest.warns(match="not converged: stopped at the limit of 3 iterations"):
        model = cavity.GPRegressor(max_iterations=3).fit(X, y)
    assert not model.converged_
    assert model.n_iter_ == 3
    assert model.score(X, y) > 0.5


def test_progress_is_reported_and_an_interrupt_keeps_the_best():
    X, y = problem()
    seen = []

    def interrupt(progress):
        seen.append(progress)
        if len(seen) == 4:
            raise KeyboardInterrupt

    model = cavity.GPRegressor(priors="none").fit(X, y, callback=interrupt)
    assert [p.iteration for p in seen] == [1, 2, 3, 4]
    assert model.interrupted_
    assert not model.converged_
    assert "interrupted" in model.message_
    assert model.log_evidence_ == pytest.approx(-seen[-1].objective, abs=1e-6)
    assert model.score(X, y) > 0.5


def test_second_fits_of_a_similar_shape_compile_nothing(compilations):
    X, y = problem(rows=63)
    for setting in ({}, SPARSE):
        cavity.GPRegressor(**setting).fit(X, y).predict(X, return_std=True)
        before = len(compilations)
        for rows in (63, 60, 50):
            cavity.GPRegressor(**setting).fit(X[:rows] * 7.0, y[:rows] * 3.0)
        assert len(compilations) == before


@pytest.fixture
def compilations():
    """Grows by one with every program that is compiled."""
    found = []

    def note(event, _seconds, **_):
        if event == "/jax/core/compile/backend_compile_duration":
            found.append(event)

    jax.monitoring.register_event_duration_secs_listener(note)
    yield found
    jax.monitoring.unregister_event_duration_listener(note)


def test_enough_points_where_there_are_none_or_points_of_ones_own():
    """Kernels with features have no inducing points; points of one's own do not grow."""
    x = np.random.default_rng(0).uniform(0, 6, (30, 1))
    y = np.sin(x[:, 0])
    model = cavity.GPRegressor(kernel="fourier(rbf, 3)", n_inducing="enough", max_iterations=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(x, y)
    assert model.verdict_
    with pytest.raises(ValueError, match="chooses the points"):
        cavity.GPRegressor(n_inducing="enough", inducing=x[:5]).fit(x, y)


@pytest.mark.slow
def test_the_power_of_three_rows_is_chosen():
    x = np.arange(3.0)[:, None]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = cavity.GPRegressor(n_inducing=2, power="auto", max_iterations=3).fit(x, x[:, 0])
    assert model.power_ in (0, 0.5, 1)


@pytest.mark.slow
def test_densities_by_power_are_in_the_units_of_the_outputs_that_count():
    """A hundredfold second output, seldom observed, moves the mean by its share of the outputs."""
    random = np.random.default_rng(0)
    x = random.uniform(0, 6, (40, 1))
    y = np.column_stack([np.sin(x[:, 0]), np.cos(x[:, 0])]) + 0.1 * random.normal(size=(40, 2))
    y[np.arange(40) % 5 > 0, 1] = np.nan
    options = {"n_inducing": 5, "inducing": Inducing(learn=False), "power": "auto"}
    options |= {"missing": "skip"}
    tables = []
    for factor in (1.0, 100.0):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = cavity.GPRegressor(**options, max_iterations=2, random_state=0)
            model.fit(x, y * [1.0, factor])
        tables.append(model.power_table_)
    for small, large in zip(*tables, strict=True):
        assert small.tested == (40, 8)
        moved = small.log_density - large.log_density
        assert moved == pytest.approx(8 / 48 * np.log(100.0), rel=1e-6)
        assert small.log_evidence - large.log_evidence == pytest.approx(
            8 * np.log(100.0), rel=1e-6
        )


def test_the_tighter_bound_has_no_power_to_choose():
    method = cavity.PowerEP(tight=True)
    with pytest.raises(ValueError, match="give power=0"):
        cavity.GPRegressor(power="auto", method=method).fit(np.eye(4), np.arange(4.0))
