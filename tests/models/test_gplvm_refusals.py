"""What does not fit a latent-variable model is refused in words that name it, and extreme
outputs give finite results."""

import re

import numpy as np
import pytest

import cavity
from cavity import inducing, kernels, likelihoods, means
from cavity.models.inputs.encoder import linear_encoder
from tests.models import latent_toy as toy

Y = toy.outputs()[0]
TIED = {"method": cavity.TiedPowerEP(propagation=toy.MOMENTS)}
SITES = {"method": cavity.TiedPowerEP(propagation=toy.MOMENTS, input_sites=True, max_sweeps=2)}


def infer(Y=Y, *, options=None, **parts):
    return cavity.infer(toy.model(**parts), None, Y, **(options or {}))


def without(*index):
    absent = Y.copy()
    absent[index] = np.nan
    return absent


REFUSALS = {
    "inputs": (lambda: cavity.infer(toy.model(), Y[:, :1], Y), "this model has no inputs"),
    "no outputs": (lambda: cavity.infer(toy.model(), None), "as in cavity.fit(model, None, Y)"),
    "outputs as inputs": (lambda: cavity.fit(toy.model(), Y), "as in cavity.fit(model, None, Y)"),
    "row": (lambda: infer(without(2), options={"missing": "skip"}), "row 2 of Y (counted from 0)"),
    "column": (
        lambda: infer(without(slice(None), 1), options={"missing": "skip"}),
        "column 1 of Y (counted from 0) has no observed value",
    ),
    "not a number": (lambda: infer(without(0, 0)), "y has 1 entry that is NaN or infinite"),
    "infinite": (lambda: infer(np.where(Y[0, 0] == Y, np.inf, Y)), "NaN or infinite"),
    "no rows": (lambda: infer(np.zeros((0, 3))), "a row and an output at least, given (0, 3)"),
    "no columns": (lambda: infer(np.zeros((3, 0))), "a row and an output at least, given (3, 0)"),
    "one number": (lambda: infer(3.0), "a row and an output at least, given ()"),
    "dimensions": (
        lambda: infer(inducing=inducing.Points(np.eye(5))),
        "5 latent dimensions, more than the 3 outputs of Y",
    ),
    "several functions": (
        lambda: toy.model(likelihood=likelihoods.Softmax(3)),
        "Softmax has 3 latent functions; a GPLVM takes likelihoods of one",
    ),
    "closed form": (
        lambda: infer(likelihood=likelihoods.StudentT(0.1, 4.0)),
        "a GPLVM with the likelihood StudentT needs method=cavity.TiedPowerEP()",
    ),
    "natural": (
        lambda: infer(options={"method": cavity.TiedPowerEP(batch=4, natural=0.1)}),
        "or leave natural=None",
    ),
    "batches with sites": (
        lambda: cavity.TiedPowerEP(batch=4, input_sites=True),
        "sites of latent inputs need all rows at a time: leave batch=None",
    ),
    "blocks": (lambda: infer(options={"blocks": np.zeros(8, int)}), "leave blocks=None"),
    "powers": (lambda: infer(options={"power": np.full(8, 0.5)}), "one power for all rows"),
    "mean": (
        lambda: infer(mean=means.Linear([1.0])),
        "for a mean that is the same everywhere",
    ),
    "columns of a mean": (
        lambda: infer(mean=means.Linear(np.ones((1, 2))), options=TIED),
        "the mean of the layer has 2 columns, the layer has 3 functions",
    ),
    "lengthscales": (
        lambda: infer(kernel=kernels.RBF(1.0, [1.0, 1.0])),
        "the kernel has 2 values of lengthscale, the inputs have 1 column",
    ),
    "noise": (lambda: infer(likelihood=likelihoods.Gaussian([1.0, 1.0])), "2 noise variances"),
    "encoder's dimensions": (
        lambda: toy.model(encoder=linear_encoder(Y, 2)),
        "the encoder gives 2 latent dimensions, the inducing points have 1",
    ),
    "encoder's outputs": (
        lambda: infer(encoder=linear_encoder(Y[:, :2], 1)),
        "the encoder takes 2 outputs, Y has 3",
    ),
    "encoder's sites": (
        lambda: infer(encoder=linear_encoder(Y, 1), options=SITES),
        "leave input_sites=False",
    ),
    "values of outputs": (
        lambda: infer(likelihood=likelihoods.Bernoulli(), options=TIED),
        "it takes the labels 0 and 1",
    ),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_what_does_not_fit_is_named(name):
    call, message = REFUSALS[name]
    with pytest.raises(ValueError, match=re.escape(message)):
        call()


@pytest.mark.parametrize("part", ["kernel", "likelihood", "inducing", "mean", "encoder"])
def test_parts_of_other_kinds_are_named(part):
    with pytest.raises(TypeError, match=rf"{part}"):
        toy.model(**{part: 3})


def test_new_rows_that_do_not_fit_are_named():
    result = infer(options={"power": 0.0, "jitter": toy.JITTER})
    posterior = result.posterior
    refusals = {
        "Y has 2 columns, the model was fitted with 3": Y[:, :2],
        "Y must be a matrix": Y[0],
        "the largest entry of Y is inf": np.full((1, 3), np.inf),
        "Y has no rows": np.zeros((0, 3)),
    }
    for message, rows in refusals.items():
        for method in (posterior.transform, posterior.reconstruct, posterior.log_density):
            with pytest.raises(ValueError, match=message):
                method(rows)
    with pytest.raises(ValueError, match="X has 2 columns, the model was fitted with 1"):
        posterior.predict(np.zeros((1, 2)))
    with pytest.raises(ValueError, match="single rows cannot be left out"):
        result.leave_one_out()
    with pytest.raises(ValueError, match="of latent inputs"):
        result.site_precisions()


@pytest.mark.slow
def test_rows_far_away_have_finite_inputs():
    posterior = infer(options={"power": 0.0, "jitter": toy.JITTER}).posterior
    far = posterior.transform(1e8 * Y)
    assert np.all(np.isfinite(far.mean))
    assert np.all(far.var > 0.0)


EXTREMES = {
    "one row": Y[:1],
    "duplicates": np.repeat(Y[:1], 8, 0),
    "constant": np.ones((8, 3)),
    "large": 1e8 * Y,
    "far from zero": 1e8 + Y,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", EXTREMES)
@pytest.mark.parametrize("family", ["collapsed", "sites"])
def test_extreme_outputs_give_finite_results(name, family):
    """Where they are too large for the noise, the search says that it did not converge."""
    options = {"jitter": toy.JITTER} | (SITES if family == "sites" else {})
    result = infer(EXTREMES[name], options=options)
    latent = result.posterior.latent
    assert latent.mean.shape == (len(EXTREMES[name]), 1)
    assert np.all(np.isfinite(latent.mean))
    assert np.all(latent.var > 0.0)
    assert np.isfinite(result.log_evidence)
    if name in ("large", "far from zero"):
        assert not result.converged
