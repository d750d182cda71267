"""Inducing points that grow until they are enough."""

import re

import numpy as np
import pytest

import cavity
from cavity.learning.plans import growth
from cavity.learning.plans.growth import judge, sample, verdict
from cavity.learning.run.fits import fits
from cavity.parameters import bijections

random = np.random.default_rng(0)
X = random.uniform(-3, 3, (120, 1))
Y = np.sin(3 * X[:, 0]) + 0.1 * random.standard_normal(120)
KERNEL = cavity.kernels.RBF(1.0, [0.5])


def start(likelihood=cavity.likelihoods.Gaussian(0.01), points=4):
    Z = cavity.initialisation.select_inducing(KERNEL, X, points)
    return cavity.GP(KERNEL, likelihood, cavity.inducing.Points(Z))


def run(y=Y, X=X, **options):
    return fits(X, y, {"power": 0.5, "seed": 0} | options)


def grow(gp, y=Y, *, X=X, most=1_000, budget=25, **options):
    how = {"bijections": bijections(gp), "most": most, "budget": budget}
    return run(y, X, **options).carry_out(lambda run: growth.grow(run, [gp], **how))


def squared_exponential(gp, A, B):
    scaled = (A[:, None] - B[None]) / np.asarray(gp.kernel.lengthscale)
    return float(gp.kernel.variance) * np.exp(-0.5 * np.sum(scaled**2, axis=-1))


def dense(gp, y):
    """Log evidence of the full GP, that of the tight bound, and lost variances, densely."""
    noise = float(gp.likelihood.variance)
    K, Z = squared_exponential(gp, X, X), np.asarray(gp.inducing.Z)
    Kzz = squared_exponential(gp, Z, Z) + 1e-8 * float(gp.kernel.variance) * np.eye(len(Z))
    Q = squared_exponential(gp, X, Z) @ np.linalg.solve(Kzz, squared_exponential(gp, Z, X))
    lost = np.maximum(np.diagonal(K - Q), 0.0)

    def normal(cov):
        _, volume = np.linalg.slogdet(2 * np.pi * cov)
        return -0.5 * (volume + y @ np.linalg.solve(cov, y))

    eye = noise * np.eye(len(y))
    return normal(K + eye), normal(Q + eye) - 0.5 * np.sum(np.log1p(lost / noise)), lost


def left_out(gp, y, power=0.5):
    """Mean log density of each output given all others, densely: those of noise and residuals."""
    noise = float(gp.likelihood.variance)
    Z = np.asarray(gp.inducing.Z)
    Kzz = squared_exponential(gp, Z, Z) + 1e-8 * float(gp.kernel.variance) * np.eye(len(Z))
    Kxz = squared_exponential(gp, X, Z)
    Q = Kxz @ np.linalg.solve(Kzz, Kxz.T)
    lost = np.maximum(float(gp.kernel.variance) - np.diagonal(Q), 0.0)
    P = np.linalg.inv(Q + np.diag(noise + power * lost))
    error = P @ y / np.diagonal(P)
    variance = 1.0 / np.diagonal(P) + (1.0 - power) * lost
    return np.mean(-0.5 * (np.log(2 * np.pi * variance) + error**2 / variance))


def test_the_usual_starts_get_as_many_points_as_have_grown():
    """On kin40k the end of growth alone was 0.13 nats a row behind a direct fit."""
    usual = [start(points=4), start(cavity.likelihoods.Gaussian(0.5), points=4)]
    found = growth.at_points_of(start(points=11), usual, X, 0)
    assert [gp.inducing.size for gp in found] == [11, 11]
    assert [float(gp.likelihood.variance) for gp in found] == [0.01, 0.5]
    Z = cavity.initialisation.select_inducing(KERNEL, X, 11)
    np.testing.assert_array_equal(found[0].inducing.Z, Z)
    # not where there are too few distinct rows
    assert growth.at_points_of(start(points=11), usual, X[:5], 0) == []


@pytest.mark.slow
def test_growth_ends_where_the_bracket_is_narrow():
    """Beside dense algebra."""
    found = grow(start())
    gp, judged = found.model, found.judgement
    assert judged.enough
    assert gp.inducing.size in (8, 16, 32)
    assert all(np.any(np.all(z == X, axis=1)) for z in np.asarray(gp.inducing.Z))
    exact, tight, _ = dense(gp, Y)
    assert judged.bracket.lower <= exact <= judged.bracket.upper
    assert judged.bracket.lower >= tight - 1e-6
    noise = -0.5 * len(Y) * (np.log(2 * np.pi * np.var(Y)) + 1.0)
    assert judged.bracket.width <= 0.03 * (judged.bracket.lower - noise)


@pytest.mark.slow
def test_an_output_that_does_not_vary_leaves_the_others_to_say_what_is_enough():
    """Points are judged as if it were not there, whatever noise it has."""
    both = np.column_stack([Y, np.full(120, 0.1)])
    one = start(points=12)
    two = cavity.GP(KERNEL, cavity.likelihoods.Gaussian([0.01, 1e-6]), one.inducing)
    alone, beside = (judge(run(y), gp, None) for gp, y in ((one, Y), (two, both)))
    assert alone.share == pytest.approx(beside.share)
    assert (alone.enough, alone.noise, alone.text) == (beside.enough, beside.noise, beside.text)


def test_growth_ends_where_more_points_bring_nothing_to_outputs_left_out():
    """The gain of the last step beside dense algebra; with fewer points it was larger."""
    found = grow(start(), most=64)
    step = found.judgement.step
    gp, before = found.model, step.before
    assert (before.inducing.size, gp.inducing.size) == (step.points, step.now)
    assert step.now == 2 * step.points
    gain = left_out(gp, Y) - left_out(before, Y)
    assert step.gain == pytest.approx(gain, abs=1e-6)
    assert step.settled == (gain <= 0.01)
    assert found.judgement.text.endswith("nats per doubling")


def test_points_that_still_gain_are_not_enough_though_the_bracket_is_narrow():
    """A bracket at the parameters of a few points says nothing of better parameters."""
    start_gp = start(points=8)
    narrow = growth.Judgement(True, False, 0.01, None, "enough, for so be it", np.array([120]))
    said = narrow.after(growth.Step(start_gp, 50, 100, 0.02))
    assert not said.enough
    assert said.text == (
        "not enough, for in the step from 50 to 100 points the log density of an output given "
        "all others rose by 0.02 nats per doubling, though so be it"
    )
    assert narrow.after(growth.Step(start_gp, 50, 100, 0.01)).enough
    assert narrow.after(None) == narrow


@pytest.mark.slow
def test_a_cap_that_ends_it_says_what_more_points_would_buy(monkeypatch):
    monkeypatch.setattr(growth, "MORE", 9)
    found = grow(start(), most=6)
    assert found.model.inducing.size == 6
    assert not found.judgement.enough
    result = cavity.fit(found.model, X, Y, max_iterations=0)
    last = verdict(run(), result, found.judgement)
    said = re.fullmatch(
        r"not enough, for .*; 9 more points would raise the bound of power 0 by about (\S+) nats",
        last.text,
    )
    Z = np.asarray(found.model.inducing.Z)
    added = cavity.initialisation.select_inducing(found.model.kernel, X, 15)[6:]
    more = growth.with_points(found.model, np.concatenate([Z, added]))
    bounds = [cavity.infer(gp, X, Y, power=0).log_evidence for gp in (found.model, more)]
    assert said is not None
    assert float(said[1]) == pytest.approx(bounds[1] - bounds[0], rel=1e-2)


@pytest.mark.slow
def test_noise_is_not_believed_of_a_few_points():
    """Where nothing is found points grow all the same, to the cap or as many as are believed."""
    noise = np.random.default_rng(3).standard_normal(120)
    found = grow(start(), noise, most=8)
    assert found.model.inducing.size == 8


@pytest.mark.slow
def test_other_noise_ends_by_the_gain_of_the_last_step():
    counts = np.random.default_rng(1).poisson(np.exp(1.5 + Y)).astype(float)
    found = grow(start(cavity.likelihoods.Poisson()), counts, most=30)
    assert found.judgement.enough
    assert found.judgement.bracket is None
    assert found.judgement.text.startswith("enough, for the last step in the number of points")


@pytest.mark.slow
def test_all_distinct_rows_end_it():
    same = np.repeat(X[:5], 24, axis=0)
    gp = cavity.GP(KERNEL, cavity.likelihoods.Gaussian(1e-6), cavity.inducing.Points(X[:2]))
    found = grow(gp, X=same, budget=2)
    assert found.model.inducing.size <= 5


def test_a_sample_of_the_rows_keeps_their_side_data():
    rows = run(rows={"noise_variance": X[:, 0] ** 2})
    some = sample(rows, 30)
    assert len(some.X) == len(some.y) == 30
    np.testing.assert_array_equal(some.options["rows"]["noise_variance"], some.X[:, 0] ** 2)
    assert sample(rows, 120) is rows


def test_a_power_for_each_row_goes_with_the_rows():
    rows = run(power=np.linspace(0.0, 1.0, 120), rows=None)
    some = sample(rows, 30)
    kept = [int(np.flatnonzero(np.all(x == X, axis=1))[0]) for x in some.X]
    np.testing.assert_array_equal(some.options["power"], rows.options["power"][kept])


def test_outputs_that_do_not_vary_need_no_growth():
    found = grow(start(), np.ones(120))
    assert found.model.inducing.size == 4
    assert found.judgement.enough


def test_an_interruption_ends_growth():
    def interrupt(progress):
        raise KeyboardInterrupt

    found = grow(start(), callback=interrupt)
    assert found.result.interrupted
    assert found.model.inducing.size == 4
