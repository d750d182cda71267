"""The text form of kernels: what it reads, what it writes, what it refuses."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cavity.columns.kernel_columns import with_numbers
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
from cavity.kernels.text_form import parse, read
from cavity.kernels.text_syntax import Mentioned
from cavity.kernels.text_writing import text
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
    "rbf(lengthscale=2)",
    "rbf(variance=0.1, lengthscale=(1, 2.5, 1e-05))",
    "0.30000000000000004 * periodic(period=365.25)[1] * rbf(lengthscale=1000)[1] + linear",
    "linear(centre=-1) + constant(variance=4) + white(variance=0.25)",
    "polynomial3(offset=2)",
    "spectral_mixture2(weights=(1, 2), frequencies=((0.1, 0.2, 0.3), (1, 2, 3)))",
    "rational_quadratic(shape=3)[2]",
    "fourier(rbf(lengthscale=(3, 4))[1,0], 20)",
]


def structure(kernel):
    """The classes, static fields and shapes of a kernel."""
    return str(jax.tree.structure(kernel)), [np.shape(leaf) for leaf in jax.tree.leaves(kernel)]


def same(kernel, other):
    """Asserts that two kernels are equal to the last bit."""
    assert structure(kernel) == structure(other)
    for a, b in zip(jax.tree.leaves(kernel), jax.tree.leaves(other), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("written", CANONICAL)
def test_writing_gives_back_what_was_read(written):
    kernel = parse(written, 3)
    assert text(kernel) == written
    same(parse(text(kernel), 3), kernel)


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
        ("rbf[2](lengthscale=3)", "rbf(lengthscale=3)[2]"),
        ("rbf(lengthscale=(2, 2.0, 2e0), variance=1)", "rbf(lengthscale=2)"),
        ("rbf()", "rbf"),
        ("rbf\n  + linear\n", "rbf + linear"),
        ("rbf # waves", "rbf"),
        ("polynomial03", "polynomial3"),
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
    kernel = parse('rbf[age, "body mass index"] + linear[2]', 3, NAMES)
    assert text(kernel) == "rbf[0,1] + linear[2]"
    assert text(kernel, NAMES) == 'rbf[age,"body mass index"] + linear[bmi]'
    same(parse(text(kernel, NAMES), 3, NAMES), kernel)


def test_names_of_any_kind_are_read_back():
    names = ["a,b", 'c]"', "\r\0", "class", "e\\\n'", "ﬁ", "colour=red", "7", "True", "f"]
    kernel = parse(" + ".join(f"rbf[{i}]" for i in range(10)), 10)
    assert text(kernel, names).endswith('rbf["colour=red"] + rbf[7] + rbf["True"] + rbf[f]')
    same(parse(text(kernel, names), 10, names), kernel)


def test_names_that_two_columns_have_are_written_as_numbers():
    kernel = parse("rbf[0] + rbf[1] + rbf[2]", 3)
    assert text(kernel, ["e", "e", ""]) == text(kernel)


def test_what_a_text_gives_and_holds_has_dotted_names():
    found = read("periodic(period=2, fixed=True)[0] * rbf(lengthscale=3) + 2 * linear", 2)
    assert found.given == ("first.first.kernel.period", "first.second.lengthscale")
    assert found.fixed == ("first.first.kernel.period",)
    np.testing.assert_array_equal(found.kernel.first.second.lengthscale, [3.0, 3.0])
    grouped = read("rbf(lengthscale=(2, 3))", 3, groups=(0, 1, 1))
    np.testing.assert_array_equal(grouped.kernel.lengthscale, [2.0, 3.0])
    with pytest.raises(ValueError, match=r'fixed=True .* fixed=\{"kernel.lengthscale": None\}'):
        parse("rbf(lengthscale=2, fixed=True)", 2)


def test_names_in_a_text():
    given = 'rbf(lengthscale=2)[age, "b c"] + conv(rbf[pixels], (1, 1), image=(2, 2)) * linear[3]'
    assert set(Mentioned(given).columns) == {"age", "b c", "pixels", "3"}
    assert Mentioned(given).words == {"rbf", "conv", "linear"}


def test_values_are_left_out_where_the_structure_is_asked_for():
    kernel = parse("0.123456789 * rbf(lengthscale=2)[0] + spectral_mixture2(weights=(1, 2))", 2)
    assert text(kernel, values=False) == "0.123457 * rbf[0] + spectral_mixture2"


def test_columns_chosen_for_a_whole_sum_are_written_on_its_parts():
    assert text((RBF() + Linear().on(1)).on(2, 0)) == "rbf[2,0] + linear[0]"
    assert text((RBF() + Linear()).on(1) * RBF()) == "(rbf[1] + linear[1]) * rbf"


@pytest.mark.parametrize("text", ["rbf", "rbf +\nlinear[0]", "rbf['a b'] # c"])
def test_places_are_found_in_what_is_read(text):
    found = with_numbers(text, {"a b": [1, 2]})
    assert "\n" not in found
    assert found == text.replace("\n", " ").replace("'a b'] # c", "1, 2]")


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("", "expected a kernel's name.*found the end"),
        ("rbf +", "expected a kernel's name.*found the end"),
        ("rbf[ ]", "no column is named in \\[\\]"),
        ("rbf linear", "invalid syntax"),
        ("(rbf", "never closed"),
        ("rbf)", "unmatched '\\)'"),
        ("rbf - linear", "found 'rbf - linear'; kernels combine with"),
        ("-1 * rbf", "positive number.*found '-1'"),
        ("0 * rbf", "must be positive and finite, given 0"),
        ("1e999 * rbf", "must be positive and finite"),
        ("1e300 * 1e300 * rbf", "must be positive and finite, given inf"),
        ("1e-300 * 1e-300 * rbf", "must be positive and finite, given 0"),
        ("True * rbf", "found 'True'"),
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
        ("rbf[()]", "no column is given"),
        ("rbf[0,0]", "twice"),
        ("rbf[0:2]", "no column '0:2'"),
        ("rbf[age]", "no column 'age'; columns are numbered"),
        ("rbf[body mass index]", 'write rbf\\["body mass index"\\]$'),
        ("2 * rbf[a=b, c]", 'write 2 \\* rbf\\["a=b", c\\]$'),
        ("rbf['٣']", "no column '٣'"),
        (f"rbf['{'9' * 5000}']", "no column '999"),
        (f"polynomial{'9' * 5000}", "the number after polynomial is 9999 at the most"),
        ("spectral_mixture99999999", "9999 at the most"),
        ("9" * 400 + " * rbf", "positive and finite, given inf"),
        (f"rbf(lengthscale={'9' * 400})", "must lie in"),
        (f"rbf(lengthscale={'(' * 100}2{',)' * 100})", "a number or a tuple of numbers"),
        ("fourier(rbf, True)", "fourier\\(rbf, 200\\)"),
        ("fourier(rbf, 99999999999)", "fourier\\(rbf, 200\\)"),
        ("rbf[0][1]", "follow the name of a kernel, once"),
        ("(rbf + linear)[0]", "found '\\(rbf \\+ linear\\)\\[0\\]'"),
        ("rbf(2)", "by its name, such as variance=2; found '2'"),
        ("rbf(lenghtscale=2)", "rbf has no 'lenghtscale'; did you mean 'lengthscale'"),
        ("rbf(period=2)", "rbf has no 'period'; known: variance, lengthscale, fixed"),
        ("rbf(**x)", "rbf has no '\\*\\*'"),
        ("rbf(lengthscale=0)", "lengthscale of rbf must lie in \\(0, inf\\)"),
        ("rbf(lengthscale=1e999)", "must lie in"),
        ("rbf(lengthscale=-1)", "must lie in"),
        (
            "rbf(lengthscale=(1, 2))",
            "one number, or an array of shape \\(3,\\); given shape \\(2,",
        ),
        ("rbf(lengthscale=((1, 2), 3))", "a number or a tuple of numbers"),
        ("rbf(lengthscale=True)", "a number or a tuple of numbers, found 'True'"),
        ("rbf(lengthscale='2')", "a number or a tuple of numbers"),
        ("rbf(lengthscale=2 + 2)", "a number or a tuple of numbers, found '2 \\+ 2'"),
        ("rbf(lengthscale=[x for x in y])", "a number or a tuple of numbers"),
        ("rbf(fixed=True)", "rbf is given no value"),
        ("rbf(lengthscale=2, fixed=1)", "fixed is True or False"),
        ("__import__('os')", "unknown kernel"),
        ("rbf.__class__", "found 'rbf.__class__'"),
        ("(lambda: rbf)()", "follow the name of a kernel"),
        ("[rbf]", "found '\\[rbf\\]'"),
        ("rbf if rbf else rbf", "found 'rbf if rbf else rbf'"),
        ("rbf" + " + rbf" * 400, "more than 300 parts within parts"),
        ("(" * 1000 + "rbf" + ")" * 1000, "parentheses"),
        ("rbf" * 50_000, "of 150000 characters: the limit is 100000"),
        ("fourier", "fourier\\(rbf, 200\\)"),
        ("fourier(rbf)", "fourier\\(rbf, 200\\)"),
        ("fourier(rbf, 2.5)", "fourier\\(rbf, 200\\)"),
        ("fourier(rbf, 20)[0]", "after it; fourier is written"),
        ("fourier(fourier(rbf, 2), 3)", "RBF; given RandomFourier"),
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


@pytest.mark.parametrize("name", ["Sepal.Length", "body-mass", "income (k)"])
def test_names_that_are_expressions_stand_in_quotes(name):
    with pytest.raises(ValueError, match=re.escape(f'stands in quotes: ["{name}"]')):
        parse(f"rbf + linear[{name}]", 1, [name])


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
