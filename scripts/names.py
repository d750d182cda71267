"""Writes the page of all kernels, likelihoods, means and priors by name, with pictures of draws.

    python -m scripts.names

The names come from the tables by which the library reads them; draws of kernels, likelihoods and
means are made by the library.
`make examples` runs this too; a test says which names the page lacks.
"""

import inspect
import io
from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib
import numpy as np
from scripts.examples import shorter

from cavity import kernels, likelihoods, means, weights
from cavity.estimators.registry import LIKELIHOODS
from cavity.families.weights import PRIORS as WEIGHT_PRIORS
from cavity.kernels.words import WORDS
from cavity.likelihoods.latent_values import sample
from cavity.parameters import priors
from cavity.parameters.priors_text import NAMES

ROOT = Path(__file__).resolve().parent.parent
PAGE, PICTURES = ROOT / "docs" / "names.md", ROOT / "docs" / "names"
COLOURS = ("#0072b2", "#d55e00", "#009e73")
STYLE = {"svg.fonttype": "none", "svg.hashsalt": "cavity", "font.size": 8}
SMALL = 1e-8
KEY = jax.random.key(0)
LINE = jnp.linspace(-3.0, 3.0, 70)[:, None]
SIDE = 24
SQUARE = jnp.asarray(np.stack(np.meshgrid(*[np.linspace(-2, 2, SIDE)] * 2), -1).reshape(-1, 2))
SWAPPED = kernels.Orbit([[0, 1], [1, 0]])

# Kernels that have no name of their own in texts: how to write each, and the kernel to draw.
FURTHER = {
    "Sum": ("`rbf + linear`", kernels.RBF(0.1, 0.3) + kernels.Linear()),
    "Product": ("`periodic * rbf`", kernels.Periodic(1.0, 1.0, 1.0) * kernels.RBF(1.0, 2.0)),
    "Scaled": ("`0.5 * rbf`", 0.5 * kernels.RBF()),
    "Active": ("`rbf[0]`, of two columns", kernels.RBF().on(0)),
    "RandomFourier": ("`fourier(rbf, 200)`", kernels.parse("fourier(rbf, 50)", 1)),
    "Nystrom": (
        "an object: `kernels.Nystrom(kernel, Z)`",
        kernels.Nystrom(kernels.RBF(), LINE[::14]),
    ),
    "SumOver": (
        "`conv(rbf, (5, 5), image=(28, 28))` of patches; here of two columns and their swap",
        kernels.SumOver(SWAPPED, kernels.RBF()),
    ),
}
# Likelihoods that have no name for estimators.
OBJECTS = {"OrdinalProbit": likelihoods.OrdinalProbit([-1.0, 1.0])}
# Made for the drawing; what is not here has values of its own.
VALUES = {
    "gaussian": likelihoods.Gaussian(0.1),
    "student_t": likelihoods.StudentT(scale=0.2, df=2.0),
    "laplace": likelihoods.Laplace(0.3),
    "beta": likelihoods.Beta(20.0),
}
MEANS = {
    "Zero": ('`mean="zero"`', means.Zero()),
    "Constant": ('`mean="constant"`, the default', means.Constant(2.0)),
    "Linear": ('`mean="linear"` with inducing points', means.Linear([1.0], 0.0)),
    "BayesianLinear": (
        '`mean="linear"` of a full GP',
        means.BayesianLinear([0.0], 0.0, [1.0], 1.0),
    ),
    "Identity": ("an object, for hidden layers", means.Identity()),
    "Columns": (
        "an object, one mean for each of several outputs",
        means.Columns((means.Zero(), means.Constant(3.0))),
    ),
}
PRIORS = {
    "flat": (priors.Flat(), (-1, 1)),
    "normal": (priors.Normal(0.0, 1.0), (-4, 4)),
    "lognormal": (priors.LogNormal(1.0, 0.5), (0, 5)),
    "logitnormal": (priors.LogitNormal(0.3, 1.0), (0, 1)),
    "halfnormal": (priors.HalfNormal(1.0), (0, 4)),
    "gamma": (priors.Gamma(2.0, 1.0), (0, 8)),
    "inversegamma": (priors.InverseGamma(2.0, 1.0), (0, 5)),
    "beta": (priors.Beta(2.0, 5.0), (0, 1)),
    "logstudentt": (priors.LogStudentT(1.0, 0.5), (0, 5)),
    "loginversegamma": (priors.LogInverseGamma(1.0, 1.0), (0, 5)),
}
# Of coefficients: the class, and forty draws from uniform, normal and Student-t random numbers.
COEFFICIENTS = {
    "spike_slab": ("SpikeSlab", lambda r: r.normal(size=40) * (r.uniform(size=40) < 0.1)),
    "horseshoe": ("Horseshoe", lambda r: 0.1 * r.normal(size=40) * np.abs(r.standard_t(1, 40))),
    "laplace": ("Laplace", lambda r: r.laplace(0.0, 0.3, 40)),
    "student_t": ("StudentT", lambda r: 0.3 * r.standard_t(4, 40)),
    "gaussian": ("Gaussian", lambda r: 0.3 * r.normal(size=40)),
    "ard": ("Gaussian", lambda r: r.normal(size=40) * 0.3 * np.exp(r.normal(size=40))),
}


def gaussian(K, n=3, seed=0):
    """Draws of a normal vector with that covariance."""
    K = np.asarray(K)
    values, vectors = np.linalg.eigh(K + SMALL * np.eye(len(K)) * np.trace(K) / len(K))
    z = np.random.default_rng(seed).standard_normal((len(K), n))
    return vectors @ (np.sqrt(np.maximum(values, 0.0))[:, None] * z)


def axes_of(name):
    """A small picture that is written at the end."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(2.4, 1.4), layout="constrained")
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    yield axes
    drawn = io.StringIO()
    figure.savefig(drawn, metadata={"Date": None})
    (PICTURES / f"{name}.svg").write_text(shorter(drawn.getvalue()))
    plt.close(figure)


def draw_kernel(name, kernel):
    """Three functions of one column, or one of two."""
    two = name in ("Active", "SumOver")
    rows = SQUARE if two else LINE
    draws = gaussian(kernel.cross(rows, rows), 1 if two else 3)
    for axes in axes_of(name):
        if two:
            shown = draws.reshape(SIDE, SIDE)
            axes.contourf(np.linspace(-2, 2, SIDE), np.linspace(-2, 2, SIDE), shown, 8)
        for draw, colour in zip(draws.T if not two else [], COLOURS, strict=False):
            marks = "." if name == "white" else "-"
            axes.plot(np.asarray(LINE)[:, 0], draw, marks, color=colour, lw=1, ms=2)


def draw_likelihood(name, likelihood):
    """Outputs drawn about a function, or about one for each class."""
    f = gaussian(kernels.RBF(1.5, 1.2).cross(LINE, LINE), likelihood.latents, seed=4)
    latent = jnp.asarray(f[:, 0] if likelihood.latents == 1 else f.T)
    y = np.asarray(sample(likelihood, KEY, latent, {}))
    for axes in axes_of(f"likelihood_{name}"):
        axes.plot(np.asarray(LINE)[:, 0], f, color="grey", lw=0.8)
        axes.plot(np.asarray(LINE)[:, 0], y, ".", color=COLOURS[0], ms=3)


def draw_mean(name, mean):
    """Functions of which this is the mean, and the mean."""
    x = np.asarray(LINE)[:, 0]
    for axes in axes_of(f"mean_{name}"):
        known = np.asarray(mean(LINE)).reshape(len(x), -1)
        K = kernels.RBF(0.3, 0.7).cross(LINE, LINE)
        if mean.covariance is not None:
            K = K + mean.covariance.cross(LINE, LINE)
        for column in known.T:
            axes.plot(x, column[:, None] + gaussian(K), color=COLOURS[0], lw=0.7)
            axes.plot(x, column, "--", color="black", lw=1)


def draw_prior(name, prior, ends):
    """The density, and thirty draws below it."""
    x = np.linspace(*ends, 202)[1:-1]
    density = np.exp(np.asarray(prior.log_prob(jnp.asarray(x))))
    shares = np.cumsum(density) / np.sum(density)
    draws = np.interp(np.random.default_rng(1).uniform(size=30), shares, x)
    for axes in axes_of(f"prior_{name}"):
        axes.fill_between(x[::2], density[::2], color=COLOURS[0], alpha=0.3, lw=0)
        axes.plot(draws, np.full(30, -0.08 * density.max()), "|", color=COLOURS[1], ms=6)
        axes.set_yticks([])


def sentence(thing):
    """The first sentence of a docstring."""
    text = inspect.getdoc(thing) or ""
    return text.split("\n\n")[0].replace("\n", " ")


def card(title, picture, lines):
    """One name, with its picture above."""
    above = [f":img-top: names/{picture}.svg"] if picture else []
    return [f":::{{grid-item-card}} {title}", *above, "", *lines, ":::", ""]


def grid(cards):
    return [
        "::::{grid} 1 2 3 3",
        ":gutter: 2",
        "",
        *[line for each in cards for line in each],
        "::::",
        "",
    ]


def parameters(module):
    """The learned numbers of a kernel or likelihood, by name."""
    names = [field for field in getattr(module, "__annotations__", {}) if hasattr(module, field)]
    arrays = [name for name in names if isinstance(getattr(module, name), np.ndarray | jax.Array)]
    return "Parameters: " + ", ".join(f"`{name}`" for name in arrays) + "." if arrays else ""


def kernel_cards():
    for word, entry in WORDS.items():
        kernel = entry.build(1, entry.default or 0)
        draw_kernel(word, kernel)
        number = f"; also `{word}{entry.default + 1}` and so on" if entry.default else ""
        cls = entry.kernel.__name__
        lines = [
            f"{sentence(entry.kernel)}",
            "",
            f"{{py:class}}`kernels.{cls} <cavity.kernels.{cls}>`{number}. {parameters(kernel)}",
        ]
        yield card(f"`{word}`", word, lines)
    for cls, (text, kernel) in FURTHER.items():
        draw_kernel(cls, kernel)
        lines = [
            f"{text}",
            "",
            f"{{py:class}}`kernels.{cls} <cavity.kernels.{cls}>`: "
            f"{sentence(getattr(kernels, cls))}",
        ]
        yield card(f"`{cls}`", cls, lines)


def likelihood_cards():
    for name, entry in LIKELIHOODS.items():
        likelihood = VALUES.get(name, entry.build(3 if "multinomial" in name else 2))
        if name in ("softmax", "robust_max"):
            likelihood = entry.build(3)
        draw_likelihood(name, likelihood)
        cls = type(likelihood)
        role = f"{{py:class}}`likelihoods.{cls.__name__} <cavity.likelihoods.{cls.__name__}>`"
        lines = [sentence(cls), "", f"For {entry.task}. {role}. {parameters(likelihood)}"]
        yield card(f"`{name}`", f"likelihood_{name}", lines)
    for cls, likelihood in OBJECTS.items():
        draw_likelihood(cls, likelihood)
        lines = [
            sentence(type(likelihood)),
            "",
            f"An object: {{py:class}}`likelihoods.{cls} <cavity.likelihoods.{cls}>`.",
        ]
        yield card(f"`{cls}`", f"likelihood_{cls}", lines)


def mean_cards():
    for cls, (how, mean) in MEANS.items():
        draw_mean(cls, mean)
        lines = [
            sentence(type(mean)),
            "",
            f"{how}. {{py:class}}`means.{cls} <cavity.means.{cls}>`.",
        ]
        yield card(f"`{cls}`", f"mean_{cls}", lines)


def prior_cards():
    for name, made in NAMES.items():
        prior, ends = PRIORS[name]
        draw_prior(name, prior, ends)
        takes = ", ".join(inspect.signature(made).parameters)
        form = f"`{name}({takes})`" if takes else f"`{name}`"
        cls = made.__name__
        role = f"{{py:class}}`priors.{cls} <cavity.parameters.priors.{cls}>`"
        yield card(
            f"`{name}`", f"prior_{name}", [sentence(made), "", f"{form}; {role}; here `{prior}`."]
        )


def coefficient_cards():
    for name in WEIGHT_PRIORS:
        cls, draw = COEFFICIENTS[name]
        drawn = draw(np.random.default_rng(3))
        for axes in axes_of(f"coefficients_{name}"):
            axes.vlines(np.arange(40), 0.0, drawn, color=COLOURS[0], lw=1.5)
            axes.axhline(0.0, color="grey", lw=0.5)
            axes.set_xticks([])
        role = f"{{py:class}}`weights.{cls} <cavity.weights.{cls}>`"
        yield card(
            f"`{name}`", f"coefficients_{name}", [sentence(getattr(weights, cls)), "", f"{role}."]
        )


HEAD = """# Names of kernels, likelihoods, means and priors

A list of all names that estimators and the command line take, with the class of each and draws
from it. `python -m scripts.names` makes this page from the tables by which names are read.
"""
KERNELS = """## Kernels

Kernel names stand in texts such as `"rbf + 0.5 * linear[age]"`, for `kernel=` in Python and
`--kernel` on the command line. These kernels are available; pictures have three functions of one
column. Kernels are added and multiplied; `[...]` chooses columns by number or name; values in
brackets, `periodic(period=365.25)`, are starting values, and `fixed=True` beside them holds them.
"""
LIKELIHOODS_TEXT = """## Likelihoods

Likelihood names are for `likelihood=` in Python and `--likelihood` on the command line. Pictures
have a function (grey; one for each class where there are several) and outputs drawn about it.
"""
MEANS_TEXT = """## Means

For `mean=` in Python and `--mean` on the command line. Pictures have functions about the mean
(dashed).
"""
PRIORS_TEXT = """## Priors

Of parameters: `priors={"kernel.lengthscale": priors.LogNormal(1.0, 0.5)}` in Python,
`--prior "kernel.lengthscale=lognormal(1, 0.5)"` on the command line. Pictures have the density
and thirty draws.
"""
COEFFICIENTS_TEXT = """## Priors of coefficients

For `prior=` of `LinearRegressor` and `LinearClassifier`. Pictures have draws of forty
coefficients. [More columns than rows](guides/sparse-linear.md#which-prior) says which is for what.
"""


def main():
    """Draws all pictures, and writes the page."""
    matplotlib.use("svg")
    PICTURES.mkdir(exist_ok=True)
    parts = (
        (KERNELS, kernel_cards()),
        (LIKELIHOODS_TEXT, likelihood_cards()),
        (MEANS_TEXT, mean_cards()),
        (PRIORS_TEXT, prior_cards()),
        (COEFFICIENTS_TEXT, coefficient_cards()),
    )
    lines = HEAD.splitlines()
    with jax.enable_x64(True), matplotlib.rc_context(STYLE):
        for text, cards in parts:
            lines += ["", *text.splitlines(), "", *grid(cards)]
    PAGE.write_text("\n".join(line.rstrip() for line in lines).rstrip() + "\n")


if __name__ == "__main__":
    main()
