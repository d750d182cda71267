"""Deep GPs with posteriors of hidden values: families, their bounds, and how these are ordered."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import optimize
from scipy.special import logsumexp

import cavity
from cavity import inducing, kernels, likelihoods, means
from cavity.inference.factors.tied import TiedSite
from cavity.inference.variables.layered import LayeredMoments
from tests.models.deep_toy import (
    EVIDENCE,
    FAMILIES,
    GOLDEN,
    TIED_TO_MODEL,
    compiled_beliefs,
    compiled_energy,
    compiled_slopes,
    direct_of,
    hidden_of,
    model_of,
    problem_of,
    random_sites,
    tied,
    toy,
    wide,
)
from tests.oracle import deep
from tests.tolerances import assert_close

# ---- the toy of the thesis: a step, two layers


@pytest.mark.parametrize(
    "family",
    ["factorised", "conditional", pytest.param("conditional_local", marks=pytest.mark.slow)],
)
def test_bounds_of_the_toy(family):
    """Chamberlin 0.3, from the default start at fixed parameters; identities 13 and 16."""
    x, y, _, model = toy()
    method = cavity.PowerEP(hidden=family)
    result = cavity.infer(model, x, y, power=0.0, method=method, jitter=deep.JITTER)
    assert result.converged
    assert result.log_evidence == pytest.approx(GOLDEN[family], abs=5e-3)
    mean, var = result.posterior.marginals(x)
    assert np.all(var > 0.0)
    assert mean[0] < -0.5 < 0.5 < mean[-1]


@pytest.mark.slow
def test_hidden_values_that_follow_the_model_lose_most():
    """Chamberlin 0.3: slopes held at the model's conditional, with means zero."""
    x, y, specs, model = toy()
    problem = problem_of(model, x, y, "conditional")
    ((site, _, store),) = problem.empty_sites()
    A = deep.loadings(np.asarray(problem.build.rows.x), specs[0]).T[:, :, None]
    (layer,) = store.layers
    layer = dataclasses.replace(layer, mean=0.0 * layer.mean, slopes=(jnp.asarray(A),))
    raw = np.tril_indices(4)
    sizes = np.cumsum([4, len(raw[0])])

    def objective(numbers):
        mean, lower, deviation = np.split(numbers, sizes)
        moved = TiedSite(jnp.asarray(mean[None]), jnp.zeros((1, 4, 4)).at[0, *raw].set(lower))
        log_deviation = layer.log_deviation.at[:7, 0].set(deviation)
        hidden = dataclasses.replace(layer, log_deviation=log_deviation)
        sites = ((moved, None, LayeredMoments((hidden,))),)
        value, ((by_site, _, by_store),) = compiled_slopes(problem, sites)
        gradient = [by_site.mean[0], by_site.raw[0][raw], by_store.layers[0].log_deviation[:7, 0]]
        return float(value), np.concatenate([np.asarray(g) for g in gradient])

    start = np.concatenate([site.mean[0], site.raw[0][raw], layer.log_deviation[:7, 0]])
    found = optimize.minimize(objective, start, jac=True, method="L-BFGS-B")
    assert -found.fun == pytest.approx(TIED_TO_MODEL, abs=5e-3)


@pytest.mark.slow
def test_a_chain_gains_with_two_hidden_layers():
    """Identity chamberlin 19: strictly so, where hidden noise is small."""
    x, y, specs, _ = toy()
    middle = specs[1] | {"noise": 0.03, "width": 1}
    model = model_of([specs[0] | {"noise": 0.03}, middle, specs[1]])
    bounds = {}
    for family in ("factorised", "chain", "conditional"):
        method = cavity.PowerEP(hidden=family)
        bounds[family] = cavity.infer(model, x, y, power=0.0, method=method).log_evidence
    assert bounds["factorised"] + 0.3 < bounds["chain"] < bounds["conditional"]


@pytest.mark.slow
@pytest.mark.parametrize("family", [*FAMILIES, "coupled"])
def test_parameters_are_learned(family):
    """A step that a sparse GP cannot follow."""
    random = np.random.default_rng(0)
    X = random.uniform(0.0, 1.0, (60, 1))
    y = 0.5 * np.sign(X[:, 0] - 0.5) + 0.02 * random.standard_normal(60)
    Z = inducing.Points(np.linspace(0.0, 1.0, 8)[:, None])
    first = cavity.Layer(kernels.RBF(0.03, 0.3), Z, mean=means.Identity(), noise_variance=1e-3)
    layers = [first, cavity.Layer(kernels.RBF(0.5, 0.1), Z)]
    model, method = (
        cavity.DeepGP(layers, likelihoods.Gaussian(0.01)),
        cavity.PowerEP(hidden=family),
    )
    result = cavity.fit(model, X, y, power=0.0, method=method, max_iterations=150)
    single = cavity.GP(kernels.RBF(0.3, 0.2), likelihoods.Gaussian(0.01), Z)
    assert result.log_evidence > cavity.fit(single, X, y, power=0.0).log_evidence
    fixed = cavity.infer(result.model, X, y, power=0.0, method=method)
    assert fixed.log_evidence > result.log_evidence - 1.0


def test_bounds_are_below_the_evidence():
    """By importance sampling from the prior of the hidden values."""
    x, y, specs, _ = toy()
    random, first, second = np.random.default_rng(0), *specs
    root = np.linalg.cholesky(deep.rbf(x, x, first) + first["noise"] * np.eye(7))
    h = random.standard_normal((40_000, 7)) @ root.T
    square = ((h[:, :, None] - h[:, None]) / second["lengthscale"]) ** 2
    K = second["variance"] * np.exp(-0.5 * square) + second["noise"] * np.eye(7)
    solved = np.linalg.solve(K, np.repeat(y[None], len(h), axis=0))[:, :, 0]
    logs = -0.5 * (solved @ y[:, 0] + np.linalg.slogdet(2.0 * np.pi * K)[1])
    evidence = logsumexp(logs) - np.log(len(h))
    assert evidence == pytest.approx(EVIDENCE, abs=0.1)
    assert max(GOLDEN.values()) < evidence


# ---- three layers, against sums over nodes


SLOW = [("factorised", 0.0), ("chain", 1.0), ("conditional_local", 0.4)]


@pytest.mark.parametrize(
    ("family", "power"),
    [("factorised", 0.4), ("chain", 0.0), ("conditional", 0.0), ("nested", 0.0)]
    + [pytest.param(*case, marks=pytest.mark.slow) for case in SLOW],
)
def test_bound_is_that_of_a_dense_sum_over_nodes(family, power):
    """Chamberlin S10, S19 and S22, Bui S56, S57 and S63."""
    X, Y, specs, model = wide()
    problem = problem_of(model, X, Y, family, power, missing="skip")
    sites = random_sites(problem)
    hidden, direct = hidden_of(sites, len(X), family), direct_of(sites)
    expected, _ = deep.layered_bound(specs, X, Y, hidden, family, power, direct)
    assert_close(-float(compiled_energy(problem, sites)), expected, "quadrature")


@pytest.mark.parametrize("family", FAMILIES)
def test_bound_is_the_mean_of_its_definition(family):
    """Identity bui 41, and the like for the other families: draws of all variables."""
    X, Y, specs, _ = wide()
    X, Y, random = X[:3], Y[[0, 1, 3], :1], np.random.default_rng(5)
    specs = [
        {"variance": 1.2, "lengthscale": 0.9, "noise": noise, "width": 1}
        | {"Z": random.standard_normal((3, 1))}
        for noise in (0.2, 0.3, 0.1)
    ]
    hidden, direct = [], []
    for i in range(2):
        size = 1 if family == "chain" else 3
        slopes = None if family == "factorised" or (family == "chain" and i == 0) else (
            0.4 * random.standard_normal((3, size, 1))
        )  # fmt: skip
        hidden.append([random.standard_normal((3, 1)), np.full((3, 1), 0.05), slopes])
        direct.append((random.standard_normal((1, 3)), 0.1 * np.eye(3)[None]))
    given = direct if family in ("conditional", "nested") else []
    bound, functions = deep.layered_bound(specs, X, Y, hidden, family, direct=given)
    if family == "nested":
        hidden = nested_conditionals(specs, X, functions)
    value, error = deep.sampled_bound(specs, X, Y, hidden, family, functions, 100_000)
    assert error < 0.2
    assert abs(value - bound) < 4.0 * error


def nested_conditionals(specs, X, functions):
    """What hidden values are given inducing variables, one function a layer."""
    hidden, below = [], [(x, np.zeros((1, 1))) for x in X]
    for spec, ((m, S),) in zip(specs[:-1], functions[:-1], strict=True):
        nodes = [deep.nodes_of(mean, cov, 30) for mean, cov in below]
        T = np.stack([w @ deep.loadings(H, spec) for H, w in nodes])
        var = np.full((len(X), 1), spec["noise"])
        hidden.append([np.zeros((len(X), 1)), var, T[:, :, None]])
        below = [(np.array([t @ m]), np.array([[t @ S @ t + spec["noise"]]])) for t in T]
    return hidden


# ---- limits


@pytest.mark.slow
@pytest.mark.parametrize("power", [0.0, 0.5])
def test_one_layer_is_the_sparse_gp(rng, power):
    """Identities chamberlin 13 and bui 38: for every family, as nothing is hidden."""
    X, Z = rng.standard_normal((20, 2)), rng.standard_normal((5, 2))
    y = np.sin(X[:, 0]) + 0.1 * rng.standard_normal(20)
    kernel, points = kernels.RBF(1.2, [0.7, 1.5]), inducing.Points(Z)
    layer = cavity.Layer(kernel, points, mean=means.Constant(0.3))
    model = cavity.DeepGP([layer], likelihoods.Gaussian(0.2))
    single = cavity.GP(kernel, likelihoods.Gaussian(0.2), points, means.Constant(0.3))
    problem = problem_of(model, X, y, "factorised", power)
    expected = cavity.infer(single, X, y, power=power, jitter=deep.JITTER).log_evidence
    assert_close(-float(compiled_energy(problem, problem.empty_sites())), expected, "factorised")


@pytest.mark.slow
def test_values_that_depend_on_nothing_are_independent():
    """Identities chamberlin 15 and 19, with slopes of zero; the free belief at its optimum."""
    X, Y, _, model = wide()
    problems = {f: problem_of(model, X, Y, f, missing="skip") for f in FAMILIES[:4]}
    sites = random_sites(problems["factorised"])
    expected = float(compiled_energy(problems["factorised"], sites))
    ((*_, store),) = sites
    q = compiled_beliefs(problems["factorised"], sites)
    for family in FAMILIES[1:4]:
        ((*start, empty),) = problems[family].empty_sites()
        layers = [
            dataclasses.replace(layer, slopes=jax.tree.map(jnp.zeros_like, own.slopes))
            for layer, own in zip(store.layers, empty.layers, strict=True)
        ]
        functions = [None if s is None else tied(*b.dense()) for s, b in zip(start, q[:3])]  # noqa: B905
        value = compiled_energy(problems[family], ((*functions, LayeredMoments(tuple(layers))),))
        assert_close(float(value), expected, "factorised")


@pytest.mark.slow
def test_the_belief_of_a_layer_alone_is_no_optimum():
    """Identity chamberlin 16: the free bound at the belief of the layer alone has a slope."""
    x, y, _, model = toy()
    local = problem_of(model, x, y, "conditional_local")
    sites = random_sites(local)
    ((*_, store),) = sites
    q = compiled_beliefs(local, sites)
    free = ((tied(*q[0].dense()), None, store),)
    value, ((slope, _, _),) = compiled_slopes(problem_of(model, x, y, "conditional"), free)
    assert_close(float(value), float(compiled_energy(local, sites)), "factorised")
    assert np.abs(slope.mean).max() > 1e-2


@pytest.mark.slow
def test_order_of_rows_does_not_matter():
    """Identity chamberlin 23."""
    X, Y, _, model = wide()
    order = np.random.default_rng(0).permutation(len(X))
    values = []
    for rows in (np.arange(len(X)), order):
        problem = problem_of(model, X[rows], Y[rows], "factorised", missing="skip")
        ((*functions, store),) = problem.empty_sites()
        layers = tuple(
            jax.tree.map(lambda a: a.at[: len(X)].set(a[: len(X)]), layer)
            for layer in store.layers
        )
        values.append(float(compiled_energy(problem, ((*functions, LayeredMoments(layers)),))))
    assert_close(*values, "factorised")
