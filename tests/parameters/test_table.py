"""Names of parameters, and the table that printing a model shows."""

import re

import equinox as eqx
import jax
import numpy as np

import cavity
from cavity import kernels, likelihoods, parameters
from cavity.numerics.tree import named
from cavity.parameters import priors


def model(M=3):
    Z = np.linspace(0.0, 1.0, 2 * M).reshape(M, 2)
    kernel = cavity.kernels.RBF(1.5, [0.5, 2.0]) + cavity.kernels.Linear().on(1)
    return cavity.GP(kernel, cavity.likelihoods.Gaussian(0.01), cavity.inducing.Points(Z))


def test_names_are_dotted_and_in_the_order_of_the_leaves():
    names = named(model())
    assert list(names)[:2] == ["kernel.first.variance", "kernel.first.lengthscale"]
    assert "likelihood.variance" in names
    assert "inducing.Z" in names
    for value, leaf in zip(names.values(), jax.tree.leaves(model()), strict=True):
        np.testing.assert_array_equal(value, leaf)


def test_print_is_a_table_with_values_domains_and_priors():
    m = model(M=6)
    maps = parameters.bijections(m)
    maps = eqx.tree_at(lambda b: b.likelihood.variance, maps, parameters.FIXED)
    maps = eqx.tree_at(lambda b: b.kernel.first.variance, maps, parameters.Positive(0.1, 10.0))
    densities = eqx.tree_at(
        lambda p: p.kernel.first.lengthscale, priors.flat(m), priors.LogNormal(1.0, 0.5)
    )
    from cavity.parameters.table import table

    rows = {line.split()[0]: line for line in table(m, maps, densities).splitlines()}
    assert rows["parameter"].split() == ["parameter", "value", "domain", "prior"]
    assert rows["kernel.first.variance"].split()[1:] == ["1.5", "(0.1,", "10)", "flat"]
    assert "[0.5, 2. ]" in rows["kernel.first.lengthscale"]
    assert "lognormal(1, 0.5)" in rows["kernel.first.lengthscale"]
    assert rows["likelihood.variance"].split()[1:] == ["0.01", "fixed", "flat"]
    assert "[6 x 2] from 0 to 1" in rows["inducing.Z"]
    assert str(m).splitlines()[2].split()[-1] == "flat"


def test_a_model_can_be_printed_while_it_is_traced():
    seen = []

    @jax.jit
    def f(m):
        seen.append(str(m))
        return m.likelihood.variance

    f(jax.tree.map(np.asarray, model()))
    assert "traced" in seen[0]


def test_bijections_and_priors_can_be_printed():
    noise = cavity.likelihoods.StudentT(1.0, 4.0)
    lines = str(parameters.bijections(noise)).splitlines()
    assert [line.split()[0] for line in lines] == ["scale", "df"]
    assert "positive" in lines[0]
    assert "flat" in str(priors.flat(noise))


def test_notebooks_show_the_same_cells():
    """Of models, kernels, likelihoods, bijections, posteriors and results; with words escaped."""
    model = cavity.GP(kernels.RBF(1.0, [1.0, 2.0]), likelihoods.Gaussian(0.1))
    for shown in (model, model.kernel, model.likelihood, parameters.bijections(model)):
        html = shown._repr_html_()
        for cell in re.split(r"\s{2,}|\n", str(shown)):
            assert cell.startswith("---") or f">{cell}<" in html
    result = cavity.infer(model, np.zeros((3, 2)), np.zeros(3))
    result = result.saying("a < b & c")
    assert "a &lt; b &amp; c</p><table>" in result._repr_html_()
    assert result._repr_html_().endswith(result.posterior._repr_html_())
