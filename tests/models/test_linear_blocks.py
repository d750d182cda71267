"""Blocks of weights that share a scale: against enumerated models and the plain prior."""

import itertools
from typing import Any

import equinox as eqx
import numpy as np
import pytest
from scipy import stats

import cavity
from cavity import likelihoods, parameters, weights
from cavity.parameters import priors
from tests.models.linear_slopes import assert_slopes_are_differences
from tests.tolerances import assert_close

THREES = tuple((3 * i, 3 * i + 1, 3 * i + 2) for i in range(5))
# beside two columns without a block
UNEQUAL = ((0, 4), (1,), (2, 3, 5, 7))
SHARE, SLAB, NOISE = 0.3, 1.0, 0.25


def table(columns, rows=25, seed=3):
    """Neighbours are correlated by 0.6; some coefficients are of the size of their error."""
    rng = np.random.default_rng(seed)
    root = np.linalg.cholesky(0.6 ** np.abs(np.subtract.outer(*[np.arange(columns)] * 2)))
    X = rng.standard_normal((rows, columns)) @ root.T
    w = np.zeros(columns)
    w[[0, 2, 4]] = 0.5, -0.3, 0.3
    return X, X @ w + np.sqrt(NOISE) * rng.standard_normal(rows)


def enumerated(X, y, units, noise=NOISE):
    """Evidence, the odds of all sets of units, their columns, and mean coefficients."""
    logs, means, sets = [], [], []
    for chosen in itertools.product([False, True], repeat=max(units) + 1):
        inside = np.array(chosen)[units]
        A = X[:, inside]
        K = SLAB * A @ A.T + noise * np.eye(len(y))
        prior = np.sum(np.where(chosen, np.log(SHARE), np.log1p(-SHARE)))
        logs.append(prior + stats.multivariate_normal(np.zeros(len(y)), K).logpdf(y))
        mean = np.zeros(X.shape[1])
        mean[inside] = SLAB * A.T @ np.linalg.solve(K, y)
        means.append(mean)
        sets.append(inside)
    log_z = np.logaddexp.reduce(logs)
    odds = np.exp(np.array(logs) - log_z)
    return log_z, odds, np.array(sets), odds @ np.array(means)


def linear(blocks, prior=None, **settings):
    prior = weights.SpikeSlab(SHARE, SLAB) if prior is None else prior
    settings = {"likelihood": likelihoods.Gaussian(NOISE), "intercept": False} | settings
    return cavity.LinearModel(prior, blocks=blocks, **settings)


@pytest.mark.sampled(1, "blocks1-9")
@pytest.mark.parametrize(("blocks", "columns"), [(THREES, 15), (UNEQUAL, 9)])
def test_blocks_against_all_models(blocks, columns):
    """Five blocks of three; three of unequal widths, beside two columns without one."""
    X, y = table(columns)
    model = linear(blocks)
    log_z, odds, sets, mean = enumerated(X, y, model.units(columns))
    result = cavity.infer(model, X, y, power=1.0)
    found: Any = cavity.diagnostics.coefficients(result.posterior)
    assert result.converged
    assert abs(result.log_evidence - log_z) < 0.02
    np.testing.assert_allclose(found.inclusion, odds @ sets, atol=0.02)
    np.testing.assert_allclose(found.mean, mean, atol=0.01)
    for block in blocks:
        assert_close(found.inclusion[list(block)], found.inclusion[block[0]] * np.ones(len(block)))
    assert_close(found.negative + found.positive, found.inclusion)
    out = [*blocks[0], *blocks[2]]
    zero = odds @ ~np.any(sets[:, out], axis=1)
    assert abs(cavity.diagnostics.probability_zero(result, out) - zero) < 0.01
    with pytest.raises(ValueError, match="are a block"):
        cavity.diagnostics.probability_zero(result, [blocks[0][0]])


def test_categories_of_which_data_see_differences_alone():
    """0/1 columns about their means add up to nothing; the block is judged as if one were out."""
    rng = np.random.default_rng(1)
    kind = rng.integers(0, 3, 30)
    X = (kind[:, None] == np.arange(3)).astype(float)
    X = np.column_stack([X - X.mean(axis=0), rng.standard_normal((30, 2))])
    y = 0.4 * X[:, 0] + np.sqrt(NOISE) * rng.standard_normal(30)
    model = linear([[0, 1, 2]])
    log_z, odds, sets, mean = enumerated(X, y, model.units(5))
    result = cavity.infer(model, X, y, power=1.0)
    found: Any = cavity.diagnostics.coefficients(result.posterior)
    assert result.converged
    assert abs(result.log_evidence - log_z) < 1e-3
    np.testing.assert_allclose(found.inclusion, odds @ sets, atol=1e-3)
    np.testing.assert_allclose(found.mean, mean, atol=1e-3)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("noise", [1e-2, 1e-6])
def test_categories_of_which_data_know_all_but_one_direction(noise):
    """Precisions of the data are up to 1e8 times that of the slab, and 1e-2 of the spike's."""
    rng = np.random.default_rng(2)
    kinds = rng.integers(0, 3, (2, 300))
    X = np.concatenate([kind[:, None] == np.arange(3) for kind in kinds], axis=1).astype(float)
    X = X - X.mean(axis=0)
    y = X @ [0.7, -0.2, 0.1, 0.0, 0.0, 0.0] + np.sqrt(noise) * rng.standard_normal(300)
    model = linear([[0, 1, 2], [3, 4, 5]], likelihood=likelihoods.Gaussian(noise))
    log_z, odds, sets, mean = enumerated(X, y, model.units(6), noise)
    result = cavity.infer(model, X, y, power=1.0)
    found: Any = cavity.diagnostics.coefficients(result.posterior)
    assert result.message.startswith("sites converged after")
    assert int(result.message.split()[3]) < 10
    # the spike's variance of 1e-10 is a hundredth of what the data leave open, or less
    np.testing.assert_allclose(result.log_evidence, log_z, rtol=0.0, atol=0.01)
    np.testing.assert_allclose(found.inclusion, odds @ sets, atol=1e-4)
    np.testing.assert_allclose(found.mean, mean, atol=1e-5)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("unit", [1e-9, 1e9])
@pytest.mark.parametrize("name", ["spike and slab", "student-t"])
def test_units_of_unequal_blocks_change_nothing_but_units(name, unit):
    """Outputs and weights in another unit: densities are divided by it, once for each row."""
    X, y = table(9)
    priors_in = {
        "spike and slab": lambda u: weights.SpikeSlab(SHARE, SLAB * u**2),
        "student-t": lambda u: weights.StudentT(0.3 * u, 4.0),
    }[name]
    one, other = (
        cavity.infer(
            linear(UNEQUAL, priors_in(u), likelihood=likelihoods.Gaussian(NOISE * u**2)),
            X,
            u * y,
            power=1.0,
        )
        for u in (1.0, unit)
    )
    np.testing.assert_allclose(
        other.log_evidence + len(y) * np.log(unit), one.log_evidence, atol=1e-6
    )
    found: Any = [cavity.diagnostics.coefficients(result.posterior) for result in (one, other)]
    np.testing.assert_allclose(found[1].upper / unit, found[0].upper, rtol=1e-6, atol=1e-9)
    if found[0].inclusion is not None:
        np.testing.assert_allclose(found[1].inclusion, found[0].inclusion, rtol=1e-6)


def test_a_block_that_no_row_sees():
    """It keeps its prior; cavities of others are improper on the way, and their sites move on."""
    X, y = table(15)
    X[:, :3] = 0.0
    result = cavity.infer(linear(THREES), X, y, power=1.0)
    found: Any = cavity.diagnostics.coefficients(result.posterior)
    assert result.converged
    np.testing.assert_allclose(found.inclusion[:3], SHARE, atol=1e-6)
    log_z = enumerated(X, y, linear(THREES).units(15))[0]
    assert abs(result.log_evidence - log_z) < 0.3


PRIORS = {
    "spike and slab": weights.SpikeSlab(SHARE, SLAB),
    "horseshoe": weights.Horseshoe(0.2),
    "student-t": weights.StudentT(0.3, 4.0),
    "gaussian": weights.Gaussian(0.5),
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", PRIORS)
def test_blocks_of_one_column_are_the_plain_prior(name):
    X, y = table(8, rows=30)
    both = np.column_stack([y, y[::-1]])
    pair = [
        cavity.infer(linear(blocks, PRIORS[name], intercept=True), X, both, power=1.0)
        for blocks in ([[i] for i in (5, 0, 2)], None)
    ]
    assert_close(pair[0].log_evidence, pair[1].log_evidence, "factorised")
    one, other = (cavity.diagnostics.coefficients(result.posterior) for result in pair)
    for part in ("mean", "deviation", "lower", "upper", "negative", "positive", "inclusion"):
        if getattr(other, part) is not None:
            np.testing.assert_allclose(getattr(one, part), getattr(other, part), atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["spike and slab", "horseshoe", "student-t"])
def test_gradients_are_differences_of_settled_energies(name):
    X, y = table(15)
    own = "slab" if name == "spike and slab" else "scale"
    model = linear(THREES, PRIORS[name])
    assert_slopes_are_differences(model, X, y, lambda prior: getattr(prior, own))


def test_a_gaussian_prior_has_groups_in_the_place_of_blocks():
    """Weights of one variance are independent; blocks name who shares it."""
    X, y = table(9)
    variance = np.array([1.0, 0.1, 0.5, 0.2, 0.3])
    blocks = linear(UNEQUAL, weights.Gaussian(variance))
    groups = linear(None, weights.Gaussian(variance), groups=[0, 1, 2, 2, 0, 2, 3, 2, 4])
    one, other = (cavity.infer(model, X, y) for model in (blocks, groups))
    assert one.message == "closed form"
    assert_close(one.log_evidence, other.log_evidence)


@pytest.mark.slow
def test_parameters_have_a_value_for_each_block():
    """And for each column without one: a share of nothing leaves a block out."""
    X, y = table(9)
    share = np.array([0.3, 0.3, 1e-9, 0.3, 1e-9])
    out = cavity.infer(linear(UNEQUAL, weights.SpikeSlab(share, SLAB)), X, y, power=1.0)
    kept = cavity.infer(linear([[0, 2], [1]]), X[:, [0, 1, 4, 6]], y, power=1.0)
    assert abs(out.log_evidence - kept.log_evidence) < 1e-5
    found: Any = cavity.diagnostics.coefficients(out.posterior)
    assert np.max(found.inclusion[[2, 3, 5, 7, 8]]) < 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("likelihood", [likelihoods.Bernoulli(), likelihoods.Softmax(3)])
def test_labels(likelihood):
    """More columns than rows too; of classes each has blocks of its own."""
    X, _ = table(60, rows=50)
    cuts = [0.0] if likelihood.latents == 1 else [-0.7, 0.7]
    labels = np.digitize(X[:, 3] - X[:, 5], cuts).astype(float)
    blocks = [range(3 * i, 3 * i + 3) for i in range(20)]
    model = linear(blocks, weights.SpikeSlab(0.1, 0.3), likelihood=likelihood, intercept=True)
    method = cavity.PowerEP(coupled=False)
    result = cavity.infer(model, X, labels, power=1.0, method=method)
    assert result.converged
    found: Any = cavity.diagnostics.coefficients(result.posterior)
    inclusion = found.inclusion.reshape(20, 3, -1)
    assert np.ptp(inclusion, axis=1).max() < 1e-9
    assert np.argmax(inclusion.max(axis=(1, 2))) == 1


@pytest.mark.slow
def test_learning_and_integrating():
    X, y = table(15, rows=40)
    result = cavity.fit(linear(THREES), X, y, power=1.0)
    assert result.converged
    model: Any = result.model
    assert model.blocks == THREES
    mixture = cavity.integrate(result, X, y).posterior
    found: Any = cavity.diagnostics.coefficients(mixture)
    alone: Any = cavity.diagnostics.coefficients(result.posterior)
    assert np.ptp(found.inclusion.reshape(5, 3), axis=1).max() < 1e-9
    np.testing.assert_allclose(found.mean, alone.mean, atol=0.1)


def test_files_keep_blocks(tmp_path):
    X, y = table(9)
    posterior: Any = cavity.infer(linear(UNEQUAL), X, y, power=1.0).posterior
    cavity.fitting.save_module(tmp_path / "blocks.cavity", posterior, {})
    again: Any = cavity.fitting.load_module(tmp_path / "blocks.cavity")[0]
    assert again.model.blocks == UNEQUAL
    pair: Any = cavity.diagnostics.coefficients(again), cavity.diagnostics.coefficients(posterior)
    for part in ("mean", "inclusion", "upper"):
        assert_close(getattr(pair[0], part), getattr(pair[1], part))


REFUSED: dict[str, dict[str, Any]] = {
    "column 1 is in two blocks": {"blocks": [[0, 1], [1, 2]]},
    "in one twice": {"blocks": [[0, 0]]},
    "at least one": {"blocks": [[0], []]},
    "the numbers of its columns": {"blocks": [["a"]]},
    "counted from 0, given -1": {"blocks": [[-1, 0]]},
    "leave groups=None": {"blocks": [[0, 1]], "groups": [0, 1]},
    "scale mixture": {"blocks": [[0, 1]], "prior": weights.Laplace()},
    "leave prior_power=1": {
        "blocks": [[0, 1]],
        "prior": weights.StudentT(),
        "prior_power": 0.5,
    },
    "cannot be integrated out": {
        "blocks": [[0, 1]],
        "integrated": {"slab": priors.LogNormal(1.0, 1.0)},
    },
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("message", REFUSED)
def test_misuse_says_what_to_do(message):
    with pytest.raises(ValueError, match=message):
        linear(**REFUSED[message])


def test_misuse_that_data_show():
    X, y = table(6)
    with pytest.raises(ValueError, match="blocks have column 7, X has 6 columns"):
        cavity.infer(linear([[0, 7]]), X, y)
    with pytest.raises(ValueError, match="6 values for 5 blocks and other columns"):
        cavity.infer(linear([[0, 1]], weights.SpikeSlab(np.full(6, 0.1), 1.0)), X, y)
    model = linear([[0, 1]])
    moves = eqx.tree_at(
        lambda m: m.prior.share, parameters.bijections(model), parameters.INTEGRATED
    )
    beliefs = eqx.tree_at(
        lambda m: m.prior.share, priors.flat(model), priors.LogitNormal(0.1, 1.0)
    )
    with pytest.raises(ValueError, match="cannot be integrated out"):
        cavity.fit(model, X, y, bijections=moves, priors=beliefs)
