"""Constraints by dotted names: what they make of models, and what is refused."""

import numpy as np
import pytest

import cavity
from cavity.kernels import RBF, Linear
from cavity.likelihoods import Gaussian
from cavity.means import Constant
from cavity.numerics.tree import named, with_named
from cavity.parameters import FIXED, INTEGRATED, Positive, bijections, priors
from cavity.parameters.constraints import Constraints, asked_constraints
from cavity.parameters.priors_text import NAMES, prior_of
from tests.tolerances import assert_close

MODEL = cavity.GP(
    RBF(2.0, [1.0, 3.0]) + Linear([1.0, 1.0], [0.0, 0.0]), Gaussian(0.5), None, Constant(0.0)
)
X = np.random.default_rng(0).normal(size=(12, 2))
Y = np.sin(X[:, 0])
LENGTH = "kernel.first.lengthscale"


def test_values_domains_and_priors():
    prior = priors.Normal(1.0, 0.5)
    fixed = {LENGTH: 4.0, "likelihood.variance": None}
    said = Constraints(fixed, {"kernel.first.variance": (0.1, None)}, {"mean.value": prior})
    own = named(said.model(MODEL))
    assert_close(own[LENGTH], [4.0, 4.0])
    assert_close(own["likelihood.variance"], 0.5)
    maps = named(said.maps(MODEL, None))
    assert maps[LENGTH] == maps["likelihood.variance"] == FIXED
    assert maps["kernel.first.variance"] == Positive(0.1, np.inf)
    found = named(said.densities(MODEL, None))
    assert found["mean.value"] == prior
    assert str(found[LENGTH]) == "flat"


def test_a_fixed_parameter_loses_its_prior():
    trees = priors.flat(MODEL)
    trees = Constraints(priors={LENGTH: priors.LogNormal(1.0, 1.0)}).densities(MODEL, trees)
    assert str(named(Constraints({LENGTH: 1.0}).densities(MODEL, trees))[LENGTH]) == "flat"


@pytest.mark.parametrize(
    ("bounds", "start", "expected"),
    [
        ((4.0, 8.0), 1.0, 4.4),
        ((0.1, 0.2), 1.0, 0.19),
        ((5.0, None), 1.0, 5.5),
        ((None, 0.5), 1.0, 0.45),
        ((0.5, 2.0), 1.0, 1.0),
    ],
)
def test_starts_are_moved_to_within_bounds(bounds, start, expected):
    model = cavity.GP(RBF(start), Gaussian())
    found = Constraints(bounds={"kernel.variance": bounds}).started(model)
    assert_close(found.kernel.variance, expected)


def test_a_fit_keeps_what_is_fixed_and_stays_within_bounds():
    bounds = {"kernel.variance": (0.1, 0.5), "kernel.lengthscale": (None, 0.8)}
    model = cavity.GP(RBF(0.2, 0.5), Gaussian(1.0))
    free = cavity.fit(model, X[:, :1], Y, max_iterations=30)
    assert free.model.kernel.variance > 0.5
    assert free.model.kernel.lengthscale > 0.8
    known = {"likelihood.variance": 0.01}
    held = cavity.fit(model, X[:, :1], Y, fixed=known, bounds=bounds, max_iterations=30)
    assert_close(held.model.likelihood.variance, 0.01)
    assert 0.1 < held.model.kernel.variance < 0.5
    assert held.model.kernel.lengthscale < 0.8
    prior = priors.LogNormal(0.3, 0.01)
    told = cavity.fit(model, X[:, :1], Y, priors={"kernel.lengthscale": prior}, max_iterations=30)
    assert 0.28 < told.model.kernel.lengthscale < 0.32


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"fixed": {"kernel.lengthscale": 1.0}},
            "no parameter 'kernel.lengthscale': did you mean",
        ),
        ({"bounds": {"nothing": (1, 2)}}, "no parameter 'nothing': known: kernel.first.variance"),
        ({"priors": {"noise": priors.Flat()}}, "no parameter 'noise'"),
        (
            {"priors": {LENGTH: "normal"}},
            "must be one of cavity.parameters.priors, given 'normal'",
        ),
        ({"fixed": {LENGTH: [1.0, 2.0, 3.0]}}, "array of shape \\(2,\\), given \\[1"),
        ({"fixed": {LENGTH: "long"}}, "fixed at a number"),
        ({"bounds": {LENGTH: (2.0, 1.0)}}, "in order and leave a part of \\(0, inf\\)"),
        ({"bounds": {LENGTH: (-2.0, -1.0)}}, "in order and leave a part of \\(0, inf\\)"),
        ({"bounds": {LENGTH: 2.0}}, "a pair of numbers, one of which may be None; given 2.0"),
        ({"bounds": {LENGTH: (1.0, 2.0, 3.0)}}, "a pair of numbers"),
        ({"bounds": {LENGTH: (np.nan, 3.0)}}, "in order"),
        ({"bounds": {"kernel.second.centre": (0, 1)}}, "centre is not learned: leave its bounds"),
        (
            {"bounds": {"mean.value": (0.0, None)}, "fixed": {"mean.value": 1.0}},
            "leave one of them",
        ),
        ({"bounds": {"mean.value": (-1.0, None)}}, "give a lower and an upper bound"),
        ({"priors": {LENGTH: priors.Flat()}, "fixed": {LENGTH: 1.0}}, "leave its prior out"),
        ({"bounds": {LENGTH: (5.0, 6.0)}}, "kernel.first.lengthscale.* starts at 1"),
        ({"fixed": {"likelihood.variance": -1.0}}, "likelihood.variance is -1, but its domain"),
        ({"bounds": {LENGTH: "19"}}, "a pair of numbers.*given '19'"),
        ({"bounds": {LENGTH: {1: 0, 9: 0}}}, "a pair of numbers"),
        ({"bounds": {LENGTH: (None, None)}}, "one of which may be None"),
        ({"priors": {LENGTH: priors.LogNormal((1, 2, 3))}}, "a tuple of the shape \\(2,\\)"),
        ({"priors": {LENGTH: priors.Beta(2.0, 2.0)}}, "starts at 1, where its prior beta"),
        ({"priors": {"mean.value": priors.Gamma(2.0, 2.0)}}, "starts at 0, where its prior gamma"),
    ],
)
def test_what_is_refused(given, message):
    with pytest.raises(ValueError, match=message):
        cavity.fit(MODEL, X, Y, max_iterations=0, **given)


def test_constraints_are_dicts_of_names():
    assert not asked_constraints(None, {}, None)
    with pytest.raises(ValueError, match="fixed is a dict by dotted name, such as"):
        asked_constraints([LENGTH], None, None)
    with pytest.raises(ValueError, match="bounds is a dict by dotted name, such as"):
        asked_constraints(None, (0.1, 10.0), None)


def test_what_an_early_stage_freezes_has_bounds_in_a_later_one():
    said = Constraints(bounds={LENGTH: (0.5, 4.0)})
    learned = named(said.maps(MODEL, None))
    frozen = with_named(bijections(MODEL), {LENGTH: FIXED})
    early = named(said.maps(MODEL, frozen, stage=True))
    assert learned[LENGTH] == Positive(0.5, 4.0)
    assert early[LENGTH] == FIXED
    with pytest.raises(ValueError, match="not learned: leave its bounds out"):
        said.maps(MODEL, frozen)


def test_what_bijections_freeze_has_no_prior():
    said = Constraints(priors={LENGTH: priors.LogNormal(1.0, 1.0)})
    for domain in (FIXED, INTEGRATED):
        maps = with_named(bijections(MODEL), {LENGTH: domain})
        if domain is INTEGRATED:
            assert named(said.densities(MODEL, None, maps))[LENGTH] == said.priors[LENGTH]
            continue
        with pytest.raises(ValueError, match="not learned: leave its prior out"):
            said.densities(MODEL, None, maps)


@pytest.mark.parametrize(
    "prior",
    [
        priors.Flat(),
        priors.Normal(-1.0, 2.0),
        priors.LogNormal((1.0, 2.0), 0.5),
        priors.LogitNormal(0.25, 1.0),
        priors.HalfNormal(3.0),
        priors.Gamma(2.0, 0.1),
        priors.InverseGamma(2.0, 0.1),
        priors.Beta(2.0, 3.0),
        priors.LogStudentT(1.0, 2.0, 4.0),
        priors.LogInverseGamma(1.0, 2.0),
    ],
)
def test_priors_are_read_as_they_print(prior):
    for text in (str(prior), str(prior).replace("[", "(").replace("]", ")")):
        assert str(prior_of(text)) == str(prior)
    assert type(prior) in NAMES.values()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("normal(", "is no prior, such as lognormal"),
        ("lognorm(1, 2)", "there is no prior 'lognorm'; known: flat, normal"),
        ("gamma(1)", "gamma takes shape, rate, given 'gamma\\(1\\)'"),
        ("normal(1, 2, 3)", "normal takes mean, std"),
        ("normal(mean=x)", "'x' is no number"),
        ("normal(1, -2)", "std of a prior must be positive"),
        ("normal(1, 1e999)", "no number"),
        (f"normal(1, {'9' * 400})", "no number"),
        ("lognormal((1, x), 2)", "no number"),
        ("__import__('os')", "there is no prior '__import__'"),
        ("a.b(1)", "is no prior"),
    ],
)
def test_texts_of_no_prior_are_refused(text, message):
    with pytest.raises(ValueError, match=message):
        prior_of(text)
