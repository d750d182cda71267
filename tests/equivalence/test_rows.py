"""Chunks, padding and presence: how rows are worked on changes no number."""

import dataclasses

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

import cavity
from cavity.inference.energy import Graph, beliefs, empty_sites, energy, marginals
from cavity.inference.graph.rows import Rows
from cavity.learning.data.arrays import prepare
from cavity.learning.infer import as_dtype, infer_from
from cavity.numerics.chunking import padded_size
from cavity.parameters import bijections, to_real
from tests.equivalence.problem import (
    BLOCKS,
    EACH_ROW,
    JITTER,
    ROWS,
    SWEEPS,
    energy_and_gradient_of,
    energy_at,
    known_noise,
    laid_out,
    problem,
    settled,
    sweep_once,
)
from tests.tolerances import assert_close


def energy_and_gradient(model, data, method):
    real = to_real(model, bijections(model))
    return energy_and_gradient_of(real, model, data, method, jnp.asarray(JITTER))


CASES = {
    "exact": (cavity.PowerEP(), {"power": 0.5, "rows": {"noise_variance": known_noise()}}),
    "exact, a power per row": (cavity.PowerEP(), {"power": EACH_ROW}),
    "swept": (SWEEPS, {"power": 0.5, "rows": {"noise_variance": known_noise()}}),
    "blocks": (cavity.PowerEP(), {"power": 0.5, "blocks": BLOCKS}),
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("method", "options"), CASES.values(), ids=CASES)
def test_chunks_change_nothing(method, options):
    """Energy, gradient and posterior, a few rows (or blocks) at a time or all at once."""
    p = problem()
    data = prepare(p.X, p.y, **options)
    count = data.rows.y.shape[0]
    small = dataclasses.replace(data, chunk=count // 4)
    assert small.chunk < data.chunk == count
    model = as_dtype(p.model, data)
    (value, gradient), (again, other) = (
        energy_and_gradient(model, d, method) for d in (data, small)
    )
    assert_close(again, value, "factorised")
    assert_close(other, gradient, "fixed_point")
    one, two = (
        infer_from(model, d, method, JITTER).posterior.marginals(p.S) for d in (data, small)
    )
    assert_close(two.mean, one.mean, "factorised", scale=1.0)
    assert_close(two.var, one.var, "factorised", scale=1.0)


@pytest.mark.parametrize("power", [0.0, 0.5])
def test_many_rows_are_their_statistics(power):
    """More rows than fit one chunk: 9000 repeats of 9 rows, known in closed form.

    Repeats of a row are one row with their mean and less noise, up to constants.
    """
    p = problem()
    n, copies = 9, 1000
    rng = np.random.default_rng(0)
    y = rng.normal(size=(copies, n))
    X = np.tile(p.X[:n], (copies, 1))
    assert padded_size(n * copies) > 8192
    # at power 0 the bound of repeats is that of their means with noise over copies
    many = cavity.infer(p.model, X, y.ravel(), power=0.0)
    few = p.but(X=p.X[:n], y=y.mean(axis=0), noise=p.noise / copies).infer(0.0)
    spread = -0.5 * np.sum((y - y.mean(axis=0)) ** 2) / p.noise
    constant = -0.5 * n * ((copies - 1) * np.log(2 * np.pi * p.noise) + np.log(copies))
    assert_close(many.log_evidence, few.log_evidence + spread + constant, "factorised")
    assert_close(
        many.posterior.marginals(p.S).mean, few.posterior.marginals(p.S).mean, "fixed_point"
    )
    # at other powers, rows of power 0 beside them
    mixed = cavity.infer(p.model, X, y.ravel(), power=np.full(n * copies, power))
    whole = cavity.infer(p.model, X, y.ravel(), power=power)
    assert_close(mixed.log_evidence, whole.log_evidence)


FILLER = {"presence": 0.0, "x": 7.0, "y": -3.0, "noise_variance": 0.2, "power": 0.9}


def padded(rows, more):
    """The same rows with more padding, its values arbitrary."""

    def extend(name, value):
        if value is None:
            return None
        if isinstance(value, dict):
            return {inner: extend(inner, each) for inner, each in value.items()}
        extra = jnp.full((more, *value.shape[1:]), FILLER[name], value.dtype)
        return jnp.concatenate([value, extra])

    fields = {f.name: getattr(rows, f.name) for f in dataclasses.fields(Rows)}
    return Rows(**{name: extend(name, value) for name, value in fields.items()})


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("case", "full"),
    [("exact, a power per row", False), ("swept", False), ("blocks", False), ("exact", True)],
)
def test_padding_changes_nothing(case, full):
    """Whatever stands in padding rows, and however many there are: energy and gradient."""
    p = problem()
    p = p.but(Z=None) if full else p
    method, options = CASES[case]
    data = prepare(p.X, p.y, **options)
    more = dataclasses.replace(data, rows=padded(data.rows, 6), chunk=data.chunk + 6)
    model = as_dtype(p.model, data)
    (value, gradient), (again, other) = (
        energy_and_gradient(model, d, method) for d in (data, more)
    )
    assert_close(again, value, "factorised")
    assert_close(other, gradient, "fixed_point")


@pytest.mark.parametrize("method", [cavity.PowerEP(), SWEEPS], ids=["exact", "swept"])
def test_presence_picks_rows(method):
    """A minibatch by presence: rows of presence 0 count neither in the energy nor in beliefs."""
    p = problem()
    data = prepare(p.X, p.y, power=0.5)
    model = as_dtype(p.model, data)
    batch = np.random.default_rng(1).permutation(ROWS)[:7]
    presence = jnp.zeros_like(data.rows.presence).at[batch].set(1.0)
    picked = eqx.tree_at(lambda d: d.rows.presence, data, presence)
    part = infer_from(model, picked, method, JITTER)
    alone = p.but(X=p.X[batch], y=p.y[batch]).infer(0.5)
    assert_close(part.log_evidence, alone.log_evidence, "factorised")
    for a, b in zip(part.posterior.marginals(p.S), alone.posterior.marginals(p.S), strict=True):
        assert_close(a, b, "factorised", scale=1.0)


@pytest.mark.parametrize("method", [cavity.PowerEP(), SWEEPS], ids=["exact", "swept"])
def test_jylanki_14_order_and_splitting_of_rows(method):
    """jylanki 14: sites in another order, or a site t as t^s and t^(1-s) with power 1 each.

    A power s of Gaussian noise is noise of variance 1/s times as large, and a constant.
    """
    p = problem(known=known_noise()).but(Z=None)
    order = np.random.default_rng(4).permutation(ROWS)
    share = np.random.default_rng(5).uniform(0.2, 0.8, ROWS)
    twice = np.concatenate([order, order])
    shares = np.concatenate([share, 1.0 - share])
    noise = p.known[twice] / shares
    changed = p.but(X=p.X[order], y=p.y[order], known=p.known[order])
    split = p.but(X=p.X[twice], y=p.y[twice], known=noise)
    # log N(r; 0, σ²)^s - log N(r; 0, σ²/s)
    constants = 0.5 * np.log(2 * np.pi * noise) - 0.5 * shares * np.log(2 * np.pi * noise * shares)
    for other, constant in ((changed, 0.0), (split, np.sum(constants))):
        found = other.infer(1.0, method=method)
        assert_close(found.log_evidence + constant, p.exact(), "factorised")
        for a, b in zip(found.posterior.joint(p.S), p.exact_posterior(), strict=True):
            assert_close(a, b, "factorised", scale=1.0)


def test_two_factors_may_share_precisions_differently():
    """One has outputs with holes, whose precisions differ; the other shares them."""
    p = problem()
    rng = np.random.default_rng(0)
    y = rng.normal(size=(ROWS, 3))
    y[np.arange(9), rng.integers(3, size=9)] = np.nan
    graphs = []
    for rows in (slice(0, 9), slice(9, None)):
        graphs.append(laid_out(p.model, p.X[rows], y[rows], power=0.5, missing="skip")[0])
    for order in (graphs, graphs[::-1]):
        both = Graph(graphs[0].variables, tuple(g.regressions[0] for g in order))
        whole = cavity.infer(p.model, p.X, y, power=0.5, missing="skip").log_evidence
        assert_close(-energy_at(both, empty_sites(both)), whole, "factorised")


def test_two_factors_on_one_variable_are_one():
    """Messages add: half the rows exact and half swept is the same model."""
    p = problem()
    halves = [(cavity.PowerEP(), slice(0, 9)), (SWEEPS, slice(9, None))]
    graphs = []
    for method, rows in halves:
        graphs.append(laid_out(p.model, p.X[rows], p.y[rows], method, power=0.5)[0])
    both = Graph(graphs[0].variables, graphs[0].regressions, factors=graphs[1].factors)
    sites, record = settled(both, SWEEPS)
    assert record.converged
    assert_close(-energy_at(both, sites), p.oracle(0.5), "factorised")


def test_fixed_marginals_go_to_their_factor():
    """Those of the beliefs give the energy itself, where rows of two factors differ.

    Away from a fixed point, where scales depend on marginals even with Gaussian noise.
    """
    p = problem()
    graphs = [
        laid_out(p.model, p.X[rows], p.y[rows], SWEEPS, power=0.5)[0]
        for rows in (slice(0, 8), slice(8, 16))
    ]
    both = Graph(graphs[0].variables, factors=(graphs[0].factors[0], graphs[1].factors[0]))
    sites, _, _ = sweep_once(both, empty_sites(both), 0.5)

    @eqx.filter_jit
    def energies(graph, sites):
        fixed = marginals(graph, beliefs(graph, sites))
        return energy(graph, sites), energy(graph, sites, fixed)

    assert_close(*energies(both, sites))
