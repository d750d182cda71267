"""A small problem of every family and method, at parameters written down here."""

from typing import Any, NamedTuple

import numpy as np

import cavity
from cavity import inducing, kernels, likelihoods, means, weights


class Case(NamedTuple):
    """A model, data, and how inference goes.

    Attributes:
        model: at its parameters.
        X: inputs; None where the model has none.
        y: outputs.
        options: of `cavity.infer`: power, method, blocks, side data of rows, what is missing.
        new: inputs at which marginals are recorded; None where it is rows that have them.
    """

    model: Any
    X: np.ndarray | None
    y: np.ndarray
    options: dict[str, Any]
    new: np.ndarray | None


ROWS = 12
random = np.random.default_rng(20)
X = random.uniform(-2.0, 2.0, (ROWS, 2))
F = np.sin(1.5 * X[:, 0]) + 0.5 * X[:, 1]
Y = F + 0.3 * random.standard_normal(ROWS)
SIGNS = np.where(Y > 0.2, 1.0, 0.0)
CLASSES = np.digitize(Y, [-0.4, 0.6]).astype(float)
COUNTS = np.round(np.exp(F + 0.3))
NEW = np.array([[0.3, -0.7], [1.9, 1.1], [-2.5, 0.4]])
Z = inducing.Points(np.array([[-1.5, 0.5], [-0.4, -1.2], [0.6, 0.9], [1.4, -0.3]]))
RBF = kernels.RBF(1.3, [0.9, 1.6])
NOISE = likelihoods.Gaussian(0.15)
IMAGES = random.uniform(0.0, 1.0, (ROWS, 16))


def of_gp(
    likelihood: Any,
    y: np.ndarray = Y,
    *,
    power: float = 0.5,
    kernel: Any = RBF,
    points: Any = None,
    mean: Any = None,
    method: Any = None,
    **options: Any,
) -> Case:
    """A Gaussian process on the two columns."""
    parts = {} if mean is None else {"mean": mean}
    model = cavity.GP(kernel, likelihood, points, **parts)
    method = cavity.PowerEP() if method is None else method
    return Case(model, X, y, {"power": power, "method": method} | options, NEW)


def of_weights(prior: Any, likelihood: Any = NOISE, y: np.ndarray = Y, **parts: Any) -> Case:
    """A linear model of four columns."""
    columns = np.column_stack([X, X**2])
    model = cavity.LinearModel(prior, likelihood, **parts)
    method = cavity.PowerEP(coupled=False)
    new = np.column_stack([NEW, NEW**2])
    return Case(model, columns, y, {"power": 1.0, "method": method}, new)


def of_latent(method: Any, power: float) -> Case:
    """Three outputs of one latent input."""
    x = X[:, 0]
    outputs = np.column_stack([np.sin(x), 0.5 * x, np.cos(x)])
    points = inducing.Points(np.array([[-1.6], [-0.5], [0.6], [1.5]]))
    model = cavity.GPLVM(kernels.RBF(1.2, 0.8), likelihoods.Gaussian(0.1), points)
    return Case(model, None, outputs, {"power": power, "method": method}, NEW[:, :1])


def of_states(method: Any, power: float, emission: Any = None) -> Case:
    """Two outputs of one state, in two series."""
    points = inducing.Points(np.array([[-1.5], [0.1], [1.4]]))
    transition = cavity.Layer(
        kernels.RBF(0.6, 1.1), points, 1, noise_variance=0.3, mean=means.Identity(1)
    )
    emission = means.Linear([[1.0, -0.5]]) if emission is None else emission
    model = cavity.GPSSM(transition, likelihoods.Gaussian(0.3), emission)
    outputs = np.column_stack([Y, -0.4 * Y + 0.1])
    rows = {"series": np.repeat([0, 1], ROWS // 2)}
    return Case(model, None, outputs, {"power": power, "method": method, "rows": rows}, None)


def of_layers(method: Any, power: float, y: np.ndarray = Y, likelihood: Any = NOISE) -> Case:
    """Two layers, the first with noise."""
    points = inducing.Points(np.array([[-1.1], [0.2], [1.3]]))
    layers = [
        cavity.Layer(kernels.RBF(0.9, [1.0, 1.4]), Z, 1, noise_variance=0.05),
        cavity.Layer(kernels.RBF(1.1, 0.7), points),
    ]
    model = cavity.DeepGP(layers, likelihood)
    return Case(model, X, y, {"power": power, "method": method}, NEW)


def of_images(power: float) -> Case:
    """A sum over the patches of small images, and a kernel of whole ones."""
    kernel = kernels.SumOver(kernels.Patches((4, 4), (2, 2)), kernels.RBF(0.4, 0.8))
    patches = np.random.default_rng(7).uniform(0.0, 1.0, (5, 4))
    whole = inducing.Points(0.5 * IMAGES[:3])
    model = cavity.GP(
        kernel + kernels.RBF(0.3, 2.0),
        likelihoods.Bernoulli(),
        inducing.OfParts((inducing.InBase(inducing.Points(patches)), whole)),
    )
    options = {"power": power, "method": cavity.PowerEP()}
    return Case(model, IMAGES, SIGNS, options, 0.5 * IMAGES[3:6])


def of_network(power: float) -> Case:
    """Two hidden units, from the weights of a mode."""
    model = cavity.Network(2, weights.Gaussian(0.5), "erf", NOISE)
    start = cavity.initialisation.network_at_mode(model, X, Y)
    return Case(start, X, Y, {"power": power, "method": cavity.PowerEP()}, NEW)


EP, TIED = cavity.PowerEP(), cavity.TiedPowerEP(max_sweeps=30)
MOMENTS = cavity.TiedPowerEP(propagation=cavity.fitting.Moments(), max_sweeps=30)
NOISE_OF_ROWS = {"noise_variance": np.linspace(0.05, 0.4, ROWS)}
EXPOSURE = {"exposure": np.linspace(0.5, 2.0, ROWS)}
MISSING = np.where(np.arange(ROWS)[:, None] == [3, 8], np.nan, np.column_stack([Y, F]))
BLOCKS = np.repeat(np.arange(4), 3)
SUM = kernels.Matern32(0.7, [1.1, 0.8]) + kernels.Linear(0.2) * kernels.Periodic(0.5, 1.0, 2.0)
WAVES = inducing.Waves(
    np.array([[0.4, 0.1], [1.2, -0.6], [-0.9, 0.5]]), 0.6, [[0.2, 0.1], [0.4, 0.0], [0.0, 0.3]]
)

# by family, likelihood, method and power
CASES = {
    "full": lambda: of_gp(NOISE),
    "full, sum of kernels": lambda: of_gp(NOISE, kernel=SUM, mean=means.Linear([0.3, -0.2], 0.1)),
    "full, linear mean integrated out": lambda: of_gp(
        NOISE, mean=means.BayesianLinear([0.1, 0.0], 0.2, [0.5, 0.8], 1.2, 0.3)
    ),
    "full, several outputs, missing": lambda: of_gp(NOISE, MISSING, missing="skip"),
    "full, noise of rows": lambda: of_gp(NOISE, rows=NOISE_OF_ROWS),
    "full, blocks": lambda: of_gp(NOISE, points=Z, power=1.0, blocks=BLOCKS),
    "sparse, 0": lambda: of_gp(NOISE, points=Z, power=0.0),
    "sparse, 0, tight": lambda: of_gp(
        NOISE, points=Z, power=0.0, method=cavity.PowerEP(tight=True)
    ),
    "sparse, 0.5": lambda: of_gp(NOISE, points=Z),
    "sparse, 1": lambda: of_gp(NOISE, points=Z, power=1.0),
    "sparse, waves": lambda: of_gp(NOISE, points=WAVES),
    "sparse, tied": lambda: of_gp(NOISE, points=Z, method=TIED),
    "sparse, by sweeps": lambda: of_gp(NOISE, points=Z, method=cavity.PowerEP(exact=False)),
    "probit, 0": lambda: of_gp(likelihoods.Bernoulli(), SIGNS, power=0.0),
    "probit, 0.5": lambda: of_gp(likelihoods.Bernoulli(), SIGNS, points=Z),
    "probit, 1": lambda: of_gp(likelihoods.Bernoulli(), SIGNS, power=1.0),
    "logit, Laplace": lambda: of_gp(
        likelihoods.Bernoulli("logit"), SIGNS, method=cavity.Laplace()
    ),
    "logit, local bound": lambda: of_gp(
        likelihoods.Bernoulli("logit"), SIGNS, method=cavity.LocalBound()
    ),
    "probit, tied": lambda: of_gp(likelihoods.Bernoulli(), SIGNS, points=Z, method=TIED),
    "probit classes": lambda: of_gp(likelihoods.MultinomialProbit(3), CLASSES),
    "probit classes, apart": lambda: of_gp(
        likelihoods.MultinomialProbit(3), CLASSES, method=cavity.PowerEP(coupled=False)
    ),
    "softmax, Laplace": lambda: of_gp(likelihoods.Softmax(3), CLASSES, method=cavity.Laplace()),
    "softmax": lambda: of_gp(likelihoods.Softmax(3), CLASSES, points=Z),
    "robust max, tied": lambda: of_gp(likelihoods.RobustMax(3), CLASSES, points=Z, method=TIED),
    "ordered classes": lambda: of_gp(likelihoods.OrdinalProbit([-0.4, 0.6]), CLASSES),
    "counts": lambda: of_gp(likelihoods.Poisson(), COUNTS, rows=EXPOSURE),
    "dispersed counts": lambda: of_gp(likelihoods.NegativeBinomial(0.4), COUNTS, points=Z),
    "outliers": lambda: of_gp(likelihoods.StudentT(0.3, 4.0), points=Z),
    "outliers, mean field": lambda: of_gp(
        likelihoods.StudentT(0.3, 4.0), method=cavity.MeanField(), power=0.0
    ),
    "positive": lambda: of_gp(likelihoods.Gamma(2.0), np.exp(Y), points=Z),
    "shares": lambda: of_gp(likelihoods.Beta(8.0), 1.0 / (1.0 + np.exp(-Y)), points=Z),
    "noise that varies": lambda: of_gp(likelihoods.HeteroscedasticGaussian(), points=Z),
    "images": lambda: of_images(0.5),
    "weights, spike and slab": lambda: of_weights(weights.SpikeSlab(0.4, 0.8)),
    "weights, horseshoe": lambda: of_weights(weights.Horseshoe(0.3)),
    "weights, blocks": lambda: of_weights(
        weights.SpikeSlab(0.4, 0.8), blocks=[[0, 2], [1, 3]], scale=np.ones(4)
    ),
    "weights of labels": lambda: of_weights(
        weights.Laplace(0.6), likelihoods.Bernoulli("logit"), SIGNS
    ),
    "network, 1": lambda: of_network(1.0),
    "latent inputs, 0": lambda: of_latent(EP, 0.0),
    "latent inputs, 0.5, moments": lambda: of_latent(MOMENTS, 0.5),
    "states, 0": lambda: of_states(EP, 0.0),
    "states, 0.5, tied": lambda: of_states(MOMENTS, 0.5),
    "layers, tied, 0.5": lambda: of_layers(MOMENTS, 0.5),
    "layers, tied, 0, nodes": lambda: of_layers(TIED, 0.0),
    "layers, factorised": lambda: of_layers(cavity.PowerEP(hidden="factorised"), 0.0),
    "layers, conditional": lambda: of_layers(cavity.PowerEP(hidden="conditional"), 0.0),
    "layers of labels": lambda: of_layers(MOMENTS, 0.5, SIGNS, likelihoods.Bernoulli()),
}
