"""Deep GPs whose hidden values depend on all functions of their layer, and on each other."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import cavity
from cavity import inducing, kernels, likelihoods
from cavity.inference.variables.layered import LayeredMoments, LayerMoments
from tests.models.deep_toy import (
    compiled_energy,
    model_of,
    problem_of,
    random_sites,
    tied,
    toy,
    wide,
)
from tests.oracle import coupled_layers, deep
from tests.tolerances import assert_close


def two_functions(**options):
    """Two layers of two functions; of the first, each has a kernel and points of its own."""
    random = np.random.default_rng(4)
    first = cavity.Layer(
        (kernels.RBF(1.2, 0.9), kernels.RBF(0.7, 0.5)),
        tuple(inducing.Points(random.standard_normal((size, 1))) for size in (3, 4)),
        2,
        noise_variance=[0.2, 0.3],
        **options,
    )
    last = cavity.Layer(kernels.RBF(1.0, 1.1), inducing.Points(random.standard_normal((3, 2))), 2)
    return cavity.DeepGP([first, last], likelihoods.Gaussian(0.1))


def as_joint(layer):
    """The same values with slopes of zero in other functions, and no covariances."""
    count, width = layer.mean.shape
    blocks = [np.asarray(T)[:, :, p] for T in layer.slopes for p in range(T.shape[2])]
    slopes = np.zeros((sum(len(T) for T in blocks), count, width))
    first = 0
    for p, block in enumerate(blocks):
        slopes[first : first + len(block), :, p] = block
        first += len(block)
    lower = jnp.zeros((count, width, width))
    return LayerMoments(layer.mean, layer.log_deviation, (jnp.asarray(slopes),), lower)


@pytest.mark.parametrize("depth", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_values_that_depend_on_their_own_functions_only(depth):
    """Identity chamberlin 17: with slopes and covariances of zero, where coupled layers are."""
    X, Y, _, model = wide()
    model = two_functions() if depth == 2 else model
    problems = [
        problem_of(model, X, Y, f, 0.4, missing="skip") for f in ("coupled", "coupled_values")
    ]
    sites = random_sites(problems[0])
    ((site, store),) = sites
    joint = LayeredMoments(tuple(as_joint(layer) for layer in store.layers))
    values = compiled_energy(problems[0], sites), compiled_energy(problems[1], ((site, joint),))
    assert_close(float(values[1]), float(values[0]), "algebra")
    # a search starts where that of coupled layers does
    starts = [float(compiled_energy(problem, problem.empty_sites())) for problem in problems]
    assert_close(starts[1], starts[0], "algebra")


@pytest.mark.slow
def test_functions_with_equal_points_are_functions_that_share_them():
    """Slopes are in the order of functions, however these are grouped."""
    X, Y, specs, model = wide()
    model = model_of([specs[0], specs[2] | {"skips": False, "Z": specs[2]["Z"][:, :2]}])
    first = model.layers[0]
    apart = cavity.Layer(
        (first.kernel,) * 2, (first.inducing,) * 2, 2, noise_variance=first.noise_variance
    )
    apart = cavity.DeepGP([apart, model.layers[1]], model.likelihood)
    problems = [problem_of(m, X, Y, "coupled_values", missing="skip") for m in (model, apart)]
    sites = random_sites(problems[0])
    values = [float(compiled_energy(problem, sites)) for problem in problems]
    assert_close(values[1], values[0], "factorised")


@pytest.mark.slow
def test_one_function_has_nothing_to_depend_on():
    """With one function in each hidden layer the family is that of coupled layers."""
    x, y, _, model = toy()
    problems = [problem_of(model, x, y, f) for f in ("coupled", "coupled_values")]
    sites = random_sites(problems[0])
    assert jax.tree.structure(sites) == jax.tree.structure(problems[1].empty_sites())
    values = [float(compiled_energy(problem, sites)) for problem in problems]
    assert values[0] == values[1]


def test_bound_is_the_mean_of_its_definition():
    """Chamberlin S20 and S24 with two hidden layers: draws of all variables."""
    X, Y, specs, _ = wide()
    X, Y, random = X[:3], Y[[0, 1, 3]], np.random.default_rng(6)
    specs = [specs[0], specs[1], specs[2] | {"skips": False, "Z": specs[2]["Z"][:, :2]}]
    hidden = []
    for spec in specs[:2]:
        root = 0.3 * np.tril(random.standard_normal((3, 2, 2)), -1) + 0.25 * np.eye(2)
        slopes = 0.4 * random.standard_normal((3, 2 * len(spec["Z"]), 2))
        hidden.append((0.5 * random.standard_normal((3, 2)), root @ root.swapaxes(1, 2), slopes))
    size = sum(2 * len(spec["Z"]) for spec in specs)
    half = 0.15 * random.standard_normal((size, size))
    stacked = 0.5 * random.standard_normal(size), half @ half.T + 0.02 * np.eye(size)
    bound = deep.coupled_bound(specs, X, Y, hidden, stacked, 0.0, 24)
    value, error = coupled_layers.sampled_bound(specs, X, Y, hidden, stacked, 100_000)
    assert error < 0.13
    assert abs(value - bound) < 4.0 * error


@pytest.mark.parametrize("depth", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_coupled_layers_hold_a_chain_over_layers(depth):
    """Chamberlin S23 is a case of coupled layers: inducing variables of a function from those
    of the same function of the layer below, their divergence and expected squares as printed
    there, with the corrections."""
    random, x = np.random.default_rng(7), np.linspace(-1.0, 1.0, 4)[:, None]
    Y = random.standard_normal((4, 2))
    specs = [
        {"Z": random.standard_normal((size, 1 if i == 0 else 2)), "variance": 1.2, "width": 2}
        | {"lengthscale": 0.9, "noise": noise}
        for i, (size, noise) in enumerate([(3, 0.2), (4, 0.3), (3, 0.1)][3 - depth :])
    ]
    chains, hidden, sizes = [], [], [0, *(len(spec["Z"]) for spec in specs)]
    for spec, before, size in zip(specs, sizes, sizes[1:], strict=False):
        root = np.linalg.cholesky(coupled_layers.prior(spec))
        own = [0.3 * root @ random.standard_normal((size, size)) for _ in range(2)]
        chains.append(
            [
                (0.5 * random.standard_normal((size, before)), random.standard_normal(size))
                + (half @ half.T + 0.01 * root @ root.T,)
                for half in own
            ]
        )
        slopes = 0.3 * random.standard_normal((4, size, 2))
        hidden.append((slopes, random.standard_normal((4, 2)), random.uniform(0.02, 0.1, (4, 2))))
    expected = coupled_layers.chained_bound(specs, x, Y, hidden[:-1], chains, 24)
    problem = problem_of(model_of(specs), x, Y, "coupled")
    ((_, store),) = problem.empty_sites()
    layers = []
    for spec, (A, B, C), layer in zip(specs, hidden, store.layers, strict=False):
        root = np.linalg.cholesky(coupled_layers.prior(spec))
        T = np.zeros(layer.slopes[0].shape)
        T[:, :4] = np.moveaxis(np.einsum("nmd,mk->nkd", A, root), 0, 1)
        moments = [layer.mean.at[:4].set(B), layer.log_deviation.at[:4].set(0.5 * np.log(C))]
        layers.append(LayerMoments(*moments, (jnp.asarray(T),)))
    mean, cov = coupled_layers.stacked_chain(specs, chains)
    sites = ((tied(mean[None], cov[None]), LayeredMoments(tuple(layers))),)
    assert_close(-float(compiled_energy(problem, sites)), expected, "quadrature")


@pytest.mark.slow
def test_two_functions_whose_sum_is_seen():
    """With points at all rows and a linear last layer the posterior is in the family, so that the
    bound is the evidence. Independent values, and values that depend on their own function alone,
    are not, and nested families are in order."""
    x, y, specs, _ = toy()
    x, y = x[::2], y[::2]
    last = {"Z": np.array([[-1.0, -1.0], [1.0, 1.0]]), "weights": np.ones((2, 1))}
    specs = [specs[0] | {"width": 2, "Z": x}, specs[1] | last | {"variance": 1e-8}]
    model, results = model_of(specs), {}
    for family in ("factorised", "coupled", "coupled_values"):
        method = cavity.PowerEP(hidden=family)
        results[family] = cavity.infer(model, x, y, power=0.0, method=method, jitter=deep.JITTER)
    sums = 2.0 * deep.rbf(x, x, specs[0])
    cov = sums + (2.0 * specs[0]["noise"] + specs[1]["noise"]) * np.eye(len(x))
    evidence = stats.multivariate_normal(np.zeros(len(x)), cov).logpdf(y[:, 0])
    bounds = {family: result.log_evidence for family, result in results.items()}
    assert bounds["factorised"] + 1.0 < bounds["coupled"] < bounds["coupled_values"] - 1.0
    assert evidence - 1e-3 < bounds["coupled_values"] < evidence
    mean, _ = results["coupled_values"].posterior.marginals(x)
    np.testing.assert_allclose(mean, sums @ np.linalg.solve(cov, y), atol=1e-3)
