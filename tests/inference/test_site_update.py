"""Site updates: what is skipped, what is left alone, what the records say."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import cavity
from cavity.inference.approximations.local_terms import differentiated
from cavity.inference.energy import empty_sites, marginals
from cavity.inference.graph.marginals import Latent
from cavity.inference.graph.rows import Rows
from cavity.inference.graph.sites import BlockSites, ScalarSites
from cavity.inference.solvers.driver import Limits
from cavity.inference.weights.whole_sites import WholeSites
from cavity.learning.methods.methods import PowerEP
from tests.equivalence.gauss_hermite import Probit
from tests.equivalence.problem import (
    SWEEPS,
    beliefs_at,
    energy_at,
    laid_out,
    problem,
    sweep_once,
    sweeps,
)
from tests.tolerances import assert_close


class Broken(Probit):
    """A likelihood whose log density is not finite for positive labels."""

    def log_prob(self, f, y):
        return Probit.log_prob(self, f, y) * jnp.where(y > 0.0, jnp.nan, 1.0)


@pytest.fixture(scope="module")
def labelled():
    p = problem()
    return p, np.where(p.y > 0.0, 1.0, -1.0)


def test_sites_that_are_not_finite_are_skipped_and_counted(labelled):
    """They stay where they are; sweeps do not converge in silence."""
    p, labels = labelled
    model = cavity.GP(p.model.kernel, Broken(0.7), p.model.inducing)
    graph, _ = laid_out(model, p.X, labels, power=0.5)
    sites, residual, skipped = sweep_once(graph, empty_sites(graph), 1.0)
    assert int(skipped) == np.sum(labels > 0)
    assert residual > 0.1
    ((store,),) = sites
    precision = np.asarray(store.precision)[: len(labels), 0]
    assert np.all(precision[labels > 0] == 0.0)
    assert np.all(precision[labels < 0] > 0.0)
    _, record = sweeps(graph, empty_sites(graph), Limits(1e-8, 8, step=0.5))
    assert not bool(record.converged)
    assert int(record.sweeps) == 8


def test_improper_cavities_are_skipped(labelled):
    """A site more certain than the belief leaves no cavity."""
    p, labels = labelled
    model = cavity.GP(p.model.kernel, Probit(0.7), p.model.inducing)
    graph, _ = laid_out(model, p.X, labels, power=1.0)
    ((store,),) = empty_sites(graph)
    # the messages of a site reach the belief; a belief that has not seen it stands for others'
    q = beliefs_at(graph, ((store,),))
    certain = ScalarSites(store.shift, store.precision.at[3].set(1e4))
    (factor,) = graph.factors
    update = eqx.filter_jit(lambda q, sites: factor.update(q, sites, 1.0))
    (new,), _, skipped, _ = update(q, (certain,))
    assert int(skipped) == 1
    assert new.precision[3, 0] == 1e4
    assert new.precision[4, 0] != 0.0


@pytest.mark.parametrize("full", [False, True], ids=["sparse", "full"])
def test_sites_of_absent_rows_stay_empty(full):
    """Their cavities need not be proper, so nothing may be stored for them."""
    p = problem()
    y = np.where(np.arange(len(p.y)) % 3 == 0, np.nan, p.y)
    model = p.but(Z=None).model if full else p.model
    graph, _ = laid_out(model, p.X, y, SWEEPS, power=1.0, missing="skip")
    sites, residual, _ = sweep_once(graph, empty_sites(graph), 1.0)
    ((store,),) = sites
    present = np.zeros(len(store.precision), bool)
    present[: len(y)] = ~np.isnan(y)
    assert np.all(np.asarray(store.precision)[~present] == 0.0)
    assert np.all(np.asarray(store.precision)[present] > 0.0)
    assert residual > 0.0
    assert np.isfinite(energy_at(graph, sites))


@pytest.mark.parametrize("blocked", [False, True], ids=["rows", "blocks"])
def test_energy_without_a_proper_cavity_is_not_a_number(blocked):
    """The belief is proper, but only with a site whose removal leaves negative precisions.

    In a block there are two of them, which make the determinant positive again.
    """
    p = problem()
    X, y = np.tile(p.X[:2], (2, 1)), np.zeros(4)
    options = {"blocks": np.array([0, 0, 1, 1])} if blocked else {}
    graph, _ = laid_out(p.model, X, y, SWEEPS, power=1.0, **options)
    ((store,),) = empty_sites(graph)
    shape = jnp.eye(2) if blocked else 1.0
    for against, proper in ((0.5, True), (-0.5, True), (-5e3, False)):
        precision = store.precision.at[0].set(8e3 * shape)
        precision = precision.at[1 if blocked else 2].set(against * shape)
        sites = ((type(store)(store.shift, precision),),)
        (q,) = beliefs_at(graph, sites)
        assert np.isfinite(q.log_normaliser)
        assert np.isfinite(energy_at(graph, sites)) == proper


@pytest.mark.parametrize("other", [3.0, 0.1])
def test_a_block_cavity_with_negative_eigenvalues_is_not_proper(other):
    """Two of them, whose product is positive, or one."""
    mean, var = jnp.zeros((1, 1, 2)), jnp.eye(2)[None, None]
    site = BlockSites(jnp.zeros((1, 1, 2)), jnp.diag(jnp.asarray([3.0, other]))[None, None])
    for power, proper in ((1.0, False), (0.5, False), (0.25, True), (0.0, True)):
        assert bool(site.cavity(mean, var, power)[2][0, 0]) == proper


@pytest.mark.slow
def test_halves_of_symmetric_precisions_are_sites_with_matrices():
    """All that sites do is what those with whole matrices do, and numbers count as their pairs."""
    random = np.random.default_rng(0)

    def symmetric(scale):
        half = scale * random.standard_normal((5, 2, 4, 4))
        return jnp.asarray(half + np.swapaxes(half, -1, -2))

    mean, slope, shift = jnp.asarray(random.standard_normal((3, 5, 2, 4)))
    var, curvature = jnp.eye(4) + symmetric(0.05), symmetric(0.1) - jnp.eye(4)
    whole = BlockSites(shift, symmetric(0.1))
    half = WholeSites.from_blocks(whole)
    assert half.precision.shape == (5, 2, 10)
    found, expected = (
        (
            site.cavity(mean, var, 0.5),
            site.log_normaliser_ratio(mean, var, 0.5),
            site.moment_change(site.moment_match(mean, var, slope, curvature, 0.5), var),
        )
        for site in (half, whole)
    )
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)
    moved = half.moment_match(mean, var, slope, curvature, 0.5)
    ok = jnp.asarray(random.random((5, 2)) < 0.5)
    chosen = whole.where(whole.moment_match(mean, var, slope, curvature, 0.5), ok)
    np.testing.assert_allclose(half.where(moved, ok).matrices().precision, chosen.precision)
    squares = [
        sum(jnp.sum((unit * number) ** 2) for unit, number in zip(*parts, strict=True))
        for parts in (
            (jax.tree.leaves(site.fisher_scale(var)), jax.tree.leaves(site))
            for site in (half, whole)
        )
    ]
    np.testing.assert_allclose(*squares, rtol=1e-12)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("power", [0.3, 1.0])
def test_jylanki_13_cavities_add_up(labelled, power):
    """jylanki 13: rows of one input see one value, and their cavities, in natural parameters,
    add up to N - a times the belief, and a times its prior, which no cavity lacks.
    """
    p, labels = labelled
    X, y = np.repeat(p.X[:1], 6, axis=0), labels[:6]
    model = cavity.GP(p.model.kernel, Probit(0.7), p.model.inducing)
    graph, _ = laid_out(model, X, y, power=power)
    sites = empty_sites(graph)
    for _ in range(2):
        sites, _, _ = sweep_once(graph, sites, 0.7)
    ((store,),) = sites
    ((prior,),), ((view,),) = (
        eqx.filter_jit(marginals)(graph, beliefs_at(graph, s)) for s in (empty_sites(graph), sites)
    )
    mean, var, proper = (a[:6, 0] for a in store.cavity(*view, power))
    assert np.all(proper)
    assert np.ptp(store.precision[:6, 0]) > 0.0
    cavities = np.array([np.sum(mean / var), np.sum(1.0 / var)])
    q, p0 = (np.array([m[0, 0], 1.0]) / v[0, 0] for m, v in (view, prior))
    assert_close(cavities, (6.0 - power) * q + power * p0, "factorised")


@pytest.mark.parametrize("power", [0.3, 1.0])
def test_curvatures_from_variances_are_those_of_an_exact_integral(power):
    """Gaussian noise: the log power mean is -(m - y)²/2(σ² + av) and a function of v."""
    noise, y = 0.2, jnp.asarray([[0.4], [-1.0]])
    mean, var = jnp.asarray([[0.1], [0.5]]), jnp.asarray([[0.7], [1.3]])

    def log_mean(latents, rows, power):
        ((m, v, _),) = latents
        total = noise + power * v
        return -0.5 * ((m - y) ** 2 / total + jnp.log1p(power * v / noise) / power)

    latents = (Latent(mean, var, jnp.zeros((2, 1))),)
    (found,) = differentiated(log_mean, latents, Rows(y, y, jnp.ones_like(y)), power)
    assert_close(found.slope, (y - mean) / (noise + power * var))
    assert_close(found.curvature, -1.0 / (noise + power * var))


class Louder(Probit):
    """A likelihood times a number that depends on the output."""

    def log_prob(self, f, y):
        return Probit.log_prob(self, f, y) + 0.3 + 0.2 * y


@pytest.mark.slow
@pytest.mark.parametrize("power", [0.0, 0.4, 1.0])
def test_jylanki_16_factors_of_densities_are_factors_of_the_evidence(labelled, power):
    """jylanki 16: constants in log densities add up in log Z, and change nothing else."""
    p, labels = labelled
    found = [
        cavity.infer(cavity.GP(p.model.kernel, kind(0.7)), p.X, labels, power=power)
        for kind in (Probit, Louder)
    ]
    gap = np.sum(0.3 + 0.2 * labels)
    assert_close(found[1].log_evidence - found[0].log_evidence, gap, "factorised")
    for a, b in zip(*(f.posterior.marginals(p.S) for f in found), strict=True):
        assert_close(a, b, "fixed_point")


@pytest.mark.slow
@pytest.mark.parametrize("power", [0.0, 0.5])
def test_bui_26_tied_sites_of_equal_rows_are_private_sites(power):
    """bui 26: with all rows alike, tied and private sites reach the same fixed point."""
    p = problem()
    X, y = np.repeat(p.X[:1], 6, axis=0), np.ones(6)
    model = cavity.GP(p.model.kernel, Probit(0.7), p.model.inducing)
    tied = cavity.TiedPowerEP(max_sweeps=500, tolerance=1e-12)
    private = cavity.infer(model, X, y, power=power)
    shared = cavity.infer(model, X, y, power=power, method=tied)
    assert shared.log_evidence == pytest.approx(private.log_evidence, abs=1e-9)
    for a, b in zip(*(f.posterior.marginals(p.S) for f in (private, shared)), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"step": 0.0}, r"step must lie in \(0, 1\]"),
        ({"step": 1.5}, "given 1.5"),
        ({"max_sweeps": 0}, "at least 1"),
    ],
)
def test_impossible_methods_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        PowerEP(**options)


def test_reports_of_sweeps(labelled):
    """An inference says how its sites came about, and when they did not converge."""
    p, labels = labelled
    model = cavity.GP(p.model.kernel, Probit(0.7), p.model.inducing)
    few = cavity.infer(model, p.X, labels, method=PowerEP(max_sweeps=2, fallback=False))
    assert not few.converged
    assert few.sites.sweeps == 2
    assert few.message.startswith("sites did not converge: 2 sweeps left a residual of")
    enough = cavity.infer(model, p.X, labels)
    assert enough.converged
    assert enough.sites.residual < 1e-8
    assert enough.sites.finished_by == "parallel sweeps"
    assert enough.message == f"sites converged after {enough.sites.sweeps} sweeps"
