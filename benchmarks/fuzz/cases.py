"""Random cases: a model with parameters, data, and how inference is to be done.

Cases in a row share their structure, and so their programs; shapes have few values. Everything is
drawn in standard units and then moved to units of inputs and outputs between 1e-12 and 1e12.
"""

import dataclasses
from typing import Any

import jax
import numpy as np

import cavity
from cavity import inducing, kernels, likelihoods, means
from cavity.parameters import units

# Cases in a row of the same structure.
SHARED = 10
ROWS, INPUTS, OUTPUTS, POINTS = (1, 2, 5, 9), (1, 2), (1, 2), (1, 3)
TEST_ROWS = 4
KINDS = ("full", "sparse", "sites", "sparse sites", "laplace", "bound", "tied", "classes")


@dataclasses.dataclass(frozen=True)
class Case:
    """A model, data, and options of inference.

    Attributes:
        kind: one of `KINDS`.
        model: the model.
        X: inputs, (N, D).
        y: outputs, (N,) or (N, P).
        test: inputs to predict at.
        method: the method.
        power: a number, or one per row.
        blocks: a label per row; None for none.
        known: noise variances of the rows; None for the likelihood's.
        unit: the units of inputs and outputs.
    """

    kind: str
    model: cavity.GP
    X: np.ndarray
    y: np.ndarray
    test: np.ndarray
    method: Any
    power: Any
    blocks: np.ndarray | None = None
    known: np.ndarray | None = None
    unit: tuple[float, float] = (1.0, 1.0)

    @property
    def data_options(self) -> dict[str, Any]:
        """The options that go with the data."""
        side = None if self.known is None else {"noise_variance": self.known}
        missing = "skip" if np.isnan(self.y).any() else "error"
        return {"power": self.power, "blocks": self.blocks, "rows": side, "missing": missing}

    def __str__(self) -> str:
        n, d = self.X.shape
        noise = type(self.model.likelihood).__name__
        kernel = self.model.kernel
        formula = "several" if isinstance(kernel, tuple) else kernels.text(kernel)
        return f"{self.kind} {formula} {noise} N={n} D={d}"


class Draws:
    """Random choices of structure, which some cases share, and random numbers."""

    def __init__(self, seed: int, number: int):
        self.choices = np.random.default_rng([seed, number // SHARED])
        self.values = np.random.default_rng([seed, number, 1])

    def pick(self, values: Any) -> Any:
        """One of some values."""
        return values[self.choices.integers(len(values))]

    def chance(self, probability: float) -> bool:
        """Whether something is part of the structure."""
        return bool(self.choices.random() < probability)

    def scale(self, low: float, high: float, size: Any = None) -> Any:
        """Powers of ten."""
        return 10.0 ** self.values.uniform(low, high, size)


def draw(seed: int, number: int, kinds: tuple[str, ...] = KINDS) -> Case:
    """The case of a number."""
    rng = Draws(seed, number)
    kind = kinds[number // SHARED % len(kinds)]
    if kind in ("full", "sparse"):
        return _gaussian(rng, kind)
    return _with_sites(rng, kind)


# ---------------------------------------------------------------------------------- kernels


def _simple_kernel(rng: Draws, D: int) -> kernels.AbstractKernel:
    variance, length = rng.scale(-1, 1), rng.scale(-1, 1, D)
    weight, centre, bias = rng.scale(-1, 1, D), rng.values.normal(size=D), rng.scale(-1, 1)
    made = [
        *[
            kind(variance, length)
            for kind in (kernels.RBF, kernels.Matern12, kernels.Matern32, kernels.Matern52)
        ],
        kernels.RationalQuadratic(variance, length, rng.scale(-1, 1)),
        kernels.Periodic(variance, 3.0 * length, rng.scale(-0.5, 1, D)),
        kernels.SpectralMixture(
            rng.scale(-1, 1, 2), rng.values.normal(size=(2, D)), rng.scale(-1.5, 0, (2, D))
        ),
        kernels.Linear(weight, centre),
        kernels.Polynomial(variance, weight, bias, rng.pick((1, 2, 3)), centre),
        kernels.ArcCosine(variance, weight, bias, rng.pick((0, 1, 2)), centre),
        kernels.NeuralNetwork(variance, weight, bias, centre),
        kernels.Constant(variance),
        kernels.White(variance),
    ]
    return rng.pick(made)


def _kernel(rng: Draws, D: int) -> kernels.AbstractKernel:
    """A kernel, or a formula of two, one of them of one column, or scaled."""
    first, form = _simple_kernel(rng, D), rng.pick(range(8))
    if form < 3:
        return first
    second = _simple_kernel(rng, D)
    if form == 3:
        second = _simple_kernel(rng, 1).on(rng.pick(range(D)))
    if form == 4:
        second = rng.scale(-1, 1) * second
    return first + second if form % 2 else first * second


def _plain_kernel(rng: Draws) -> kernels.AbstractKernel:
    """One of two kernels, for cases whose programs are many already; often of low rank."""
    rough = kernels.Matern12(rng.scale(-1, 1), rng.scale(-1, 1, 1))
    linear = kernels.Linear(rng.scale(-1, 1, 1), rng.values.normal(size=1))
    smooth = kernels.RBF(rng.scale(-1, 1), rng.scale(-1, 1, 1))
    return rng.pick((rough, smooth + linear))


def _moved(module: Any, x: float, y: float) -> Any:
    """A module in other units; the second factor of a product has none of the output's."""
    if isinstance(module, kernels.Product):
        return kernels.Product(_moved(module.first, x, y), _moved(module.second, x, 1.0))
    if isinstance(module, kernels.Sum):
        return kernels.Sum(_moved(module.first, x, y), _moved(module.second, x, y))
    if isinstance(module, kernels.Scaled):
        return kernels.Scaled(_moved(module.kernel, x, y), module.factor)
    if isinstance(module, kernels.Active):
        return kernels.Active(_moved(module.kernel, x, y), module.dims)
    return jax.tree.map(
        lambda v, unit: np.asarray(v * x**unit.input * y**unit.output), module, units(module)
    )


def _units(rng: Draws) -> tuple[float, float]:
    """Units of inputs and output, ordinary ones most of the time."""
    x, y = (rng.scale(-12, 12) if rng.values.random() < 0.25 else 1.0 for _ in range(2))
    return float(x), float(y)


def _mean(rng: Draws, D: int) -> means.AbstractMean:
    made = (
        means.Zero(),
        means.Constant(rng.values.normal()),
        means.Linear(rng.values.normal(size=D), 0.3),
    )
    return rng.pick(made)


def _inputs(rng: Draws, n: int, D: int) -> np.ndarray:
    """Inputs, at times with rows that coincide or nearly do."""
    X = rng.values.normal(size=(n, D))
    if n > 1 and rng.values.random() < 0.3:
        X[-1] = X[0] + (rng.values.random() < 0.5) * rng.scale(-9, -1) * rng.values.normal(size=D)
    return X


# ---------------------------------------------------------------------- with Gaussian noise


def _gaussian(rng: Draws, kind: str) -> Case:
    n, D, P = int(rng.values.choice(ROWS)), rng.pick(INPUTS), rng.pick(OUTPUTS)
    x, y = _units(rng)
    X, test = _inputs(rng, n, D), 2.0 * rng.values.normal(size=(TEST_ROWS, D))
    outputs = rng.values.normal(size=(n, P))
    if rng.chance(0.3):
        gone = rng.values.random(outputs.shape) < 0.3
        gone[0] = False
        outputs[gone] = np.nan
    points, blocks, power = None, None, rng.pick((0.0, 0.5, 1.0, 0.1))
    if kind == "sparse":
        points = inducing.Points(x * rng.values.normal(size=(rng.pick(POINTS), D)))
        if rng.chance(0.3):
            blocks = rng.values.integers(2, size=n)
        if rng.chance(0.4):
            power = rng.pick((0.0, 0.3, 1.0)) * np.ones(n)
            same = np.zeros(n, int) if blocks is None else blocks
            power = np.where(same > 0, 0.6, power)
            if blocks is None:
                power = rng.values.choice([0.0, 0.4, 1.0], n)
    known = y**2 * rng.scale(-4, 1, n) if rng.chance(0.25) else None
    model = cavity.GP(
        _moved(_kernel(rng, D), x, y),
        likelihoods.Gaussian(y**2 * rng.scale(-5, 1)),
        points,
        _moved(_mean(rng, D), x, y),
    )
    if P == 1 and rng.chance(0.5):
        outputs = outputs[:, 0]
    options = {"blocks": blocks, "known": known, "unit": (x, y)}
    method = cavity.PowerEP()
    return Case(kind, model, x * X, y * outputs, x * test, method, power, **options)


# ------------------------------------------------------------------------------- with sites


LIKELIHOODS = {
    "student": lambda rng: likelihoods.StudentT(rng.scale(-2, 0.5), rng.scale(0.1, 1.5)),
    "laplace": lambda rng: likelihoods.Laplace(rng.scale(-2, 0.5)),
    "probit": lambda rng: likelihoods.Bernoulli("probit"),
    "logit": lambda rng: likelihoods.Bernoulli("logit"),
    "poisson": lambda rng: likelihoods.Poisson(),
    "negative": lambda rng: likelihoods.NegativeBinomial(rng.scale(-2, 1)),
    "gamma": lambda rng: likelihoods.Gamma(rng.scale(-0.5, 2)),
    "exponential": lambda rng: likelihoods.Exponential(),
    "beta": lambda rng: likelihoods.Beta(rng.scale(0, 2)),
    "ordinal": lambda rng: likelihoods.OrdinalProbit(np.cumsum(rng.scale(-1, 0.5, 2)) - 1.0),
}
# of several latent functions: how many classes there are, 0 for a real output
CLASSES = {
    "multinomial": lambda rng: (likelihoods.MultinomialProbit(3), 3),
    "softmax": lambda rng: (likelihoods.Softmax(3), 3),
    "robust max": lambda rng: (likelihoods.RobustMax(3), 3),
    "heteroscedastic": lambda rng: (likelihoods.HeteroscedasticGaussian(), 0),
}
BOUNDED, ROUGH = ("student", "laplace", "logit"), ("laplace",)


def _outputs(rng: Draws, name: str, n: int) -> np.ndarray:
    """Outputs in the support of a likelihood; counts up to a million."""
    match name:
        case "student" | "laplace" | "heteroscedastic":
            return rng.values.normal(size=n) + (rng.values.random(n) < 0.1) * 10.0
        case "probit" | "logit":
            return rng.values.integers(2, size=n).astype(float)
        case "poisson" | "negative":
            return np.floor(rng.scale(-1, rng.pick((1.0, 6.0)), n))
        case "gamma" | "exponential":
            return rng.scale(-2, 2, n)
        case "beta":
            return rng.values.beta(1.0, 1.0, n) * (1.0 - 2e-6) + 1e-6
        case _:
            return rng.values.integers(3, size=n).astype(float)


def _with_sites(rng: Draws, kind: str) -> Case:
    n, D = int(rng.values.choice(ROWS)), 1
    real = ("student", "laplace", "heteroscedastic")
    names = {"bound": BOUNDED, "laplace": tuple(set(LIKELIHOODS) - set(ROUGH))}
    name = rng.pick(sorted(names.get(kind, CLASSES if kind == "classes" else LIKELIHOODS)))
    x, y = _units(rng)
    y = y if name in real else 1.0
    likelihood = CLASSES[name](rng)[0] if kind == "classes" else LIKELIHOODS[name](rng)
    power = rng.pick((0.0, 0.5, 1.0, 0.1))
    sparse = kind in ("sparse sites", "tied") or (kind == "bound" and rng.chance(0.3))
    points = inducing.Points(x * rng.values.normal(size=(3, D))) if sparse else None
    if kind in ("sites", "sparse sites") and rng.chance(0.25):
        power = rng.values.choice([0.0, 0.4, 1.0], n)
    method: Any = {
        "laplace": cavity.Laplace(),
        "bound": cavity.LocalBound(),
        "tied": cavity.TiedPowerEP(),
    }.get(kind, cavity.PowerEP())
    parts = _moved(_plain_kernel(rng), x, y), _moved(likelihood, x, y)
    model = cavity.GP(*parts, points, _moved(_mean(rng, D), x, y))
    X, test = x * _inputs(rng, n, D), 2.0 * x * rng.values.normal(size=(TEST_ROWS, D))
    outputs = y * _outputs(rng, name, n)
    return Case(kind, model, X, outputs, test, method, power, unit=(x, y))
