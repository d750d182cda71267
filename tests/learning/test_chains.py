"""Diagnostics of draws whose convergence is known, and their export."""

import numpy as np
import pytest

from cavity.learning.mcmc.chains import Chains, chains_of, diagnosed


def autoregressive(rng, rho, shape):
    noise = rng.standard_normal(shape) * np.sqrt(1.0 - rho**2)
    found = np.zeros(shape)
    found[:, 0] = rng.standard_normal(shape[0])
    for i in range(1, shape[1]):
        found[:, i] = rho * found[:, i - 1] + noise[:, i]
    return found


@pytest.fixture
def chains(rng):
    parameters = {
        "kernel.variance": rng.standard_normal((4, 300)),
        "kernel.lengthscale": rng.standard_normal((4, 300, 2)),
    }
    stats = {"lp": rng.standard_normal((4, 300)), "diverging": np.zeros((4, 300), bool)}
    return chains_of(parameters, rng.standard_normal((4, 300, 5)), stats)


def test_white_noise_has_converged(chains):
    assert chains.converged
    assert chains.worst[0] < 1.02
    assert chains.worst[1] > 700
    assert "4 chains of 300 draws" in chains.message


def test_effective_size_of_an_autoregression(rng):
    """(1 - rho) / (1 + rho) of the draws."""
    rhat, ess = diagnosed(autoregressive(rng, 0.8, (4, 4000)))
    assert rhat.shape == ess.shape == ()
    assert rhat < 1.02
    assert ess == pytest.approx(16_000 / 9.0, rel=0.15)


def test_chains_apart_have_not_converged(rng):
    values = rng.standard_normal((4, 200)) + np.array([0.0, 0.0, 0.0, 2.0])[:, None]
    chains = chains_of({"a": values}, values[..., None], {"lp": values})
    assert not chains.converged
    assert chains.rhat["a"] > 1.1
    assert "allow more draws" in chains.message


def test_a_value_that_is_not_finite_has_not_converged(rng):
    values = rng.standard_normal((4, 300))
    functions = values[..., None].copy()
    functions[0, 3, 0] = np.nan
    found = chains_of({"a": values}, functions, {"lp": values})
    assert not found.converged
    assert np.isnan(found.worst[0])


def test_divergences_count(chains):
    many = np.zeros((4, 300), bool)
    many[:, :10] = True
    parts = chains.parameters, chains.latents, chains.stats | {"diverging": many}
    found = Chains(*parts, chains.rhat, chains.ess)
    assert found.divergences == 40
    assert not found.converged
    assert "40 divergences" in found.message


def test_draws_that_never_move_have_not_converged(rng):
    still = np.ones((2, 50))
    assert not chains_of({"a": still}, rng.standard_normal((2, 50, 1)), {"lp": still}).converged


def test_table(chains):
    lines = str(chains).splitlines()
    assert lines[0].split() == ["parameter", "mean", "sd", "5", "%", "95", "%", "R-hat", "ESS"]
    assert [line.split()[0] for line in lines[1:5]] == [
        "kernel.variance",
        "kernel.lengthscale[0]",
        "kernel.lengthscale[1]",
        "functions,",
    ]


@pytest.mark.slow
def test_export(chains):
    """What `arviz.from_dict` takes, and loads where it is installed."""
    found = chains.to_arviz()
    assert set(found) == {"posterior", "sample_stats"}
    assert found["posterior"]["f"].shape == (4, 300, 5)
    assert {v.shape[:2] for group in found.values() for v in group.values()} == {(4, 300)}
    base = pytest.importorskip("arviz_base", reason="arviz is not installed")
    tree = base.from_dict(found)
    assert tree["posterior"]["kernel.variance"].shape == (4, 300)
