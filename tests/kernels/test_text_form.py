"""The text form of kernels: what it reads, what it writes, what it refuses."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cavity.kernels import (
    RBF,
    AbstractKernel,
    Active,
    ArcCosine,
    Linear,
    Periodic,
    Polynomial,
    Product,
    Scaled,
    SpectralMixture,
    Sum,
)
from cavity.kernels.text_form import parse, text
from tests.tolerances import assert_close

NAMES = ["age", "body mass index", "bmi"]
WORDS = [
    "rbf",
    "matern12",
    "matern32",
    "matern52",
    "rational_quadratic",
    "periodic",
    "spectral_mixture3",
    "linear",
    "polynomial2",
    "arccosine1",
    "neural_network",
    "constant",
    "white",
]
CANONICAL = [
    *WORDS,
    "rbf[0,2]",
    "polynomial3",
    "arccosine0[1]",
    "spectral_mixture5",
    "rbf + linear + white",
    "rbf + (linear + white)",
    "rbf * linear * periodic[1]",
    "rbf * (linear * periodic)",
    "0.5 * rbf * linear",
    "rbf * (0.5 * linear)",
    "0.5 * (rbf * linear)",
    "0.5 * (2 * rbf)",
    "1e-05 * (rbf + 0.25 * linear) * (matern52 + white)",
    "fourier(rbf, 20)",
    "0.5 * fourier(matern32[0,2], 3) + constant",
]


def structure(kernel):
    """The classes, static fields and shapes of a kernel."""
    return str(jax.tree.structure(kernel)), [np.shape(leaf) for leaf in jax.tree.leaves(kernel)]


@pytest.mark.parametrize("written", CANONICAL)
def test_writing_gives_back_what_was_read(written):
    kernel = parse(written, 3)
    assert text(kernel) == written
    assert structure(parse(text(kernel), 3)) == structure(kernel)


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        ("polynomial", "polynomial2"),
        ("arccosine", "arccosine1"),
        ("spectral_mixture", "spectral_mixture3"),
        (" ( (rbf) )*linear+white ", "rbf * linear + white"),
        ("rbf * .5", "0.5 * rbf"),
        ("2 * 3.0 * rbf", "6 * rbf"),
        ("rbf * 1e-2 * linear", "0.01 * rbf * linear"),
        ("rbf[ 0 , 2 ]", "rbf[0,2]"),
    ],
)
def test_other_ways_of_writing(written, canonical):
    assert text(parse(written, 3)) == canonical


def test_meaning():
    kernel = parse("0.5 * rbf[0] + linear * periodic", 3)
    assert isinstance(kernel, Sum)
    assert isinstance(kernel.first, Scaled)
    assert isinstance(kernel.first.kernel, Active)
    assert isinstance(kernel.second, Product)
    X = jnp.array(np.random.default_rng(0).normal(size=(4, 3)))
    expected = 0.5 * RBF().cross(X[:, :1], X[:, :1]) + Linear().cross(X, X) * Periodic().cross(
        X, X
    )
    assert_close(kernel.cross(X, X), expected)


def test_one_value_per_column_the_kernel_sees():
    assert parse("rbf", 3).lengthscale.shape == (3,)
    assert parse("rbf[2,0]", 3).kernel.lengthscale.shape == (2,)
    assert parse("periodic", 3).period.shape == (3,)
    assert parse("linear", 3).variance.shape == parse("linear", 3).centre.shape == (3,)
    for word in ("polynomial", "arccosine", "neural_network"):
        assert parse(word, 3).weight_variance.shape == (3,)


def test_every_parameter_starts_at_one_and_every_centre_at_zero():
    for word in set(WORDS) - {"spectral_mixture3"}:
        kernel = parse(word, 2)
        values = {name: value for name, value in vars(kernel).items() if np.ndim(value) == 1}
        for name, value in values.items():
            np.testing.assert_array_equal(value, np.full(2, 0.0 if name == "centre" else 1.0))


def test_numbers_in_names():
    assert parse("polynomial4", 1).degree == 4
    assert parse("arccosine2", 1).order == 2
    assert parse("spectral_mixture2", 3).frequencies.shape == (2, 3)
    assert isinstance(parse("arccosine", 1), ArcCosine)
    assert isinstance(parse("polynomial", 1), Polynomial)


def test_components_of_a_mixture_start_apart():
    mixture = parse("spectral_mixture4", 2)
    assert isinstance(mixture, SpectralMixture)
    assert len(np.unique(mixture.frequencies[:, 0])) == 4
    assert_close(mixture.diag(jnp.zeros((1, 2))), [1.0])


def test_columns_by_name():
    kernel = parse("rbf[age, body mass index] + linear[2]", 3, NAMES)
    assert text(kernel) == "rbf[0,1] + linear[2]"
    assert text(kernel, NAMES) == "rbf[age,body mass index] + linear[bmi]"
    assert structure(parse(text(kernel, NAMES), 3, NAMES)) == structure(kernel)


def test_names_that_cannot_be_read_back_are_written_as_numbers():
    kernel = parse("rbf[0] + rbf[1] + rbf[2] + rbf[3] + rbf[4]", 5)
    assert text(kernel, ["a,b", "c]", " d", "e", "e"]) == text(kernel)


def test_columns_chosen_for_a_whole_sum_are_written_on_its_parts():
    assert text((RBF() + Linear().on(1)).on(2, 0)) == "rbf[2,0] + linear[0]"
    assert text((RBF() + Linear()).on(1) * RBF()) == "(rbf[1] + linear[1]) * rbf"


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("", "expected a kernel's name.*found the end"),
        ("rbf +", "found the end"),
        ("rbf linear", "expected \\+ or \\* or the end, found 'linear'"),
        ("(rbf", "no '\\)'"),
        ("rbf)", "found '\\)'"),
        ("rbf - linear", "found '-'"),
        ("-1 * rbf", "positive number.*found '-'"),
        ("0 * rbf", "must be positive and finite, given 0"),
        ("1e999 * rbf", "must be positive and finite"),
        ("0.5", "0.5 stands alone.*0.5 \\* constant"),
        ("rbf + 2", "2 stands alone"),
        ("2 * 3", "6 stands alone"),
        ("materm52", "unknown kernel 'materm52'; did you mean 'matern52'\\? known: rbf, "),
        ("RBF", "did you mean 'rbf'"),
        ("rbf3", "unknown kernel 'rbf3'"),
        ("qqq", "unknown kernel 'qqq'; known: rbf, .*, white"),
        ("polynomial0", "degree .* given 0"),
        ("arccosine7", "0, 1 or 2, given 7"),
        ("spectral_mixture0", "at least 1 component"),
        ("rbf[3]", "no column '3'; columns are numbered 0 to 2"),
        ("rbf[-1]", "no column '-1'; columns are numbered 0 to 2"),
        ("rbf[]", "no column ''"),
        ("rbf[0,0]", "twice"),
        ("rbf[age]", "no column 'age'; columns are numbered"),
        ("(rbf)[0]", "found '\\[0\\]'"),
        ("__import__('os')", "unknown kernel"),
        ("fourier", "fourier\\(rbf, 200\\)"),
        ("fourier(rbf)", "fourier\\(rbf, 200\\)"),
        ("fourier(rbf, 2.5)", "fourier\\(rbf, 200\\)"),
        ("fourier(rbf, 20", "fourier\\(rbf, 200\\)"),
        ("fourier(fourier(rbf, 2), 3)", "fourier\\(rbf, 200\\)"),
        ("fourier(rbf, 0)", "R must be a whole number of at least 1"),
        ("fourier(periodic, 20)", "RBF; given Periodic"),
    ],
)
def test_what_cannot_be_read_is_refused(written, message):
    with pytest.raises(ValueError, match=message):
        parse(written, 3)


def test_unknown_column_name_suggests_the_closest():
    with pytest.raises(ValueError, match=r"'agee'; did you mean 'age'\? known: age, body"):
        parse("rbf[agee]", 3, NAMES)


def test_names_must_fit_the_inputs():
    with pytest.raises(ValueError, match="3 names were given for 2 input columns"):
        parse("rbf", 2, NAMES)
    with pytest.raises(ValueError, match="at least one input column, given 0"):
        parse("rbf", 0)


def test_kernel_without_a_name_has_no_text():
    class Nameless(AbstractKernel):
        def cross(self, X, Z):
            return jnp.zeros((len(X), len(Z)))

        def diag(self, X):
            return jnp.zeros(len(X))

    with pytest.raises(ValueError, match=r"Nameless has no text form; .*: rbf, "):
        text(RBF() + Nameless())
