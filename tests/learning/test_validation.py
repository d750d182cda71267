"""A model that cannot be worked with is refused by a sentence that names what is wrong."""

import equinox as eqx
import jax
import numpy as np
import pytest

import cavity
from cavity.parameters import FIXED, Interval, Positive, Real, bijections, interval
from tests.equivalence.problem import problem

P = problem()
BOTH = pytest.mark.parametrize("run", [cavity.infer, cavity.fit])


def linear(**changes):
    """The problem with a linear mean, which has parameters on the whole line."""
    return P.but(weights=np.array([0.3, -0.2]), **changes).model


@BOTH
@pytest.mark.parametrize(
    ("model", "message"),
    [
        (P.but(variance=-1.3).model, r"kernel\.variance \S+ -1\.3, but its domain is positive: "),
        (P.but(variance=0.0).model, r"kernel\.variance \S+ 0, but its domain is positive: "),
        (P.but(lengthscale=np.array([1.0, -2.0])).model, r"kernel\.lengthscale\[1\] \S+ -2, but"),
        (P.but(lengthscale=np.array([1.0, np.nan])).model, r"lengthscale\[1\] .*nan, .* finite"),
        (P.but(noise=-0.1).model, r"likelihood\.variance \S+ -0\.1, but its domain is positive"),
        (linear(bias=np.inf), r"mean\.bias .*inf, but its domain is real: give it a finite value"),
        (P.but(Z=np.where(P.Z > 3, np.nan, P.Z)).model, r"inducing\.Z\[\d, \d\] .*nan, .*finite"),
    ],
    ids=["negative", "zero", "one of several", "nan", "noise", "mean", "points"],
)
def test_values_outside_their_domains_are_named(run, model, message):
    message = message.replace(r"\S+", "(is|starts at)")
    with pytest.raises(ValueError, match=f"the parameter .*{message}"):
        run(model, P.X, P.y)


def test_fixed_values_outside_their_declared_domains_are_named():
    model = P.but(lengthscale=-1.0).model
    maps = eqx.tree_at(lambda b: b.kernel.lengthscale, bijections(model), FIXED)
    with pytest.raises(ValueError, match=r"kernel\.lengthscale is -1, .* give it a value inside"):
        cavity.fit(model, P.X, P.y, bijections=maps)


class Faded(cavity.kernels.AbstractKernel):
    """A kernel times a share between 0 and 1."""

    kernel: cavity.kernels.AbstractKernel
    share: jax.Array | np.ndarray = interval(0.0, 1.0)

    def cross(self, X, Z):
        return self.share * self.kernel.cross(X, Z)

    def diag(self, X):
        return self.share * self.kernel.diag(X)


def test_a_value_on_the_bound_of_an_interval_is_only_not_learned():
    model = cavity.GP(Faded(P.model.kernel, 1.0), cavity.likelihoods.Gaussian(0.1))
    assert np.isfinite(cavity.infer(model, P.X, P.y).log_evidence)
    maps = eqx.tree_at(lambda b: b.kernel.share, bijections(model), FIXED)
    cavity.fit(model, P.X, P.y, bijections=maps, max_iterations=1)
    with pytest.raises(ValueError, match=r"kernel\.share starts at 1, .*\(0, 1\): start inside"):
        cavity.fit(model, P.X, P.y)


def test_starts_outside_edited_domains_are_named():
    maps = eqx.tree_at(lambda b: b.kernel.variance, bijections(P.model), Positive(2.0, 3.0))
    words = (
        r"the parameter kernel\.variance starts at 1\.3, but its domain is \(2, 3\): start inside "
        "it, or freeze it with FIXED"
    )
    with pytest.raises(ValueError, match=words):
        cavity.fit(P.model, P.X, P.y, bijections=maps)


def test_the_stages_of_a_schedule_are_checked_before_the_work(monkeypatch):
    monkeypatch.setattr(
        "cavity.learning.search.restarts.Objective", lambda *_, **__: pytest.fail("work")
    )
    fine = bijections(P.model)
    narrow = eqx.tree_at(lambda b: b.kernel.lengthscale, fine, Interval(1.0, 9.0))
    words = (
        r"kernel\.lengthscale\[0\] starts stage 2 of the schedule at 0\.8, .* is \(1, 9\): .*FIX"
    )
    with pytest.raises(ValueError, match=words):
        cavity.fit(P.model, P.X, P.y, schedule=(fine, narrow))


def test_a_value_that_an_early_stage_led_out_of_a_later_domain_is_named():
    wide = bijections(P.model)
    narrow = eqx.tree_at(lambda b: b.likelihood.variance, wide, Positive(0.0999, 0.1001))
    words = r"likelihood\.variance starts stage 2 of the schedule at 0\.\d+, .* \(0\.0999, 0\.10"
    with pytest.raises(ValueError, match=words):
        cavity.fit(P.model, P.X, P.y, schedule=(wide, narrow), max_iterations=5)
    words = r"likelihood\.variance starts the last stage at 0\.\d+"
    with pytest.raises(ValueError, match=words):
        cavity.fit(P.model, P.X, P.y, schedule=(wide,), bijections=narrow, max_iterations=5)


def test_a_restart_outside_the_domain_of_a_stage_is_left_out():
    """Perturbed starts are drawn in the last domain, which may be wider than an earlier one."""
    wide = bijections(P.model)
    narrow = eqx.tree_at(lambda b: b.likelihood.variance, wide, Positive(0.0999, 0.1001))
    options = {"schedule": (narrow,), "max_iterations": 3}
    alone = cavity.fit(P.model, P.X, P.y, **options)
    several = cavity.fit(P.model, P.X, P.y, n_restarts=2, **options)
    assert several.objective == alone.objective


def test_a_domain_may_be_wider_than_the_declared_one():
    maps = eqx.tree_at(lambda b: b.likelihood.variance, bijections(P.model), Real())
    assert np.isfinite(cavity.fit(P.model, P.X, P.y, bijections=maps, max_iterations=1).objective)


@BOTH
def test_inducing_points_of_other_columns_are_refused(run):
    model = P.but(Z=np.zeros((4, 3)), lengthscale=1.0).model
    with pytest.raises(ValueError, match="the inducing points have 3 columns, X has 2"):
        run(model, P.X, P.y)
    model = P.but(Z=np.zeros((4, 1)), lengthscale=1.0).model
    with pytest.raises(ValueError, match="the inducing points have 1 column, X has 2"):
        run(model, P.X, P.y, blocks=np.zeros(17, int))


@pytest.mark.sampled(1)
@BOTH
@pytest.mark.parametrize("exact", [True, False])
def test_noise_variances_that_are_not_one_per_output_are_refused(run, exact):
    method = cavity.PowerEP(exact=exact)
    two = np.stack([P.y, -P.y], axis=1)
    for outputs, count, given in ((two, "2 outputs", 3), (P.y, "1 output", 17)):
        model = P.but(noise=np.full(given, 0.1)).model
        words = rf"the likelihood has {given} noise variances, y has {count}: .*noise_variance"
        with pytest.raises(ValueError, match=words):
            run(model, P.X, outputs, method=method)
    with pytest.raises(ValueError, match=r"noise variances of shape \(17, 2\), y has 2 outputs"):
        run(P.but(noise=np.full((17, 2), 0.1)).model, P.X, two, method=method)
    for fine in ([0.1], [0.1, 0.2]):
        run(P.but(noise=np.array(fine)).model, P.X, two, method=method)
