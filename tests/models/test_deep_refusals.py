"""What does not fit a deep Gaussian process is refused in words that name it."""

import numpy as np
import pytest

import cavity
from cavity import inducing, kernels, likelihoods, means


def refusals():
    Z, points = np.zeros((3, 2)), inducing.Points(np.eye(3)[:, :2])
    layer = cavity.Layer(kernels.RBF(), points, 2)
    one = cavity.Layer(kernels.RBF(), points)
    gaussian = likelihoods.Gaussian()
    noisy = cavity.Layer(kernels.RBF(), inducing.Points(np.zeros((17, 2))), 2, noise_variance=0.1)
    tied = {"method": cavity.TiedPowerEP()}
    hidden = {"method": cavity.PowerEP(hidden="factorised")}
    return {
        "width": (lambda X, y: cavity.infer(cavity.DeepGP([layer, layer], gaussian), X, y, **tied),
                  "the last layer has 2 functions, but there are 1 output: give it width=1"),
        "points": (lambda X, y: cavity.infer(cavity.DeepGP([one, one], gaussian), X, y, **tied),
                   "inducing points of layer 2 of 2 have 2 columns, its inputs have 1"),
        "method": (lambda X, y: cavity.infer(cavity.DeepGP([layer, one], gaussian), X, y),
                   "give method=cavity.TiedPowerEP()"),
        "noise": (lambda X, y: cavity.DeepGP(
            [cavity.Layer(kernels.RBF(), points, noise_variance=0.1)], gaussian),
            "its noise is the likelihood's"),
        "power": (lambda X, y: cavity.infer(
            cavity.DeepGP([one], gaussian), X, y, power=np.full(len(y), 0.5), **tied),
            "one power for all rows"),
        "mean": (lambda X, y: cavity.infer(cavity.DeepGP(
            [cavity.Layer(kernels.RBF(), points, 3, means.Identity()), one], gaussian),
            X, y, **tied),
            "the mean of layer 1 of 2 has 2 columns, the layer has 3 functions"),
        "kernels": (lambda X, y: cavity.Layer((kernels.RBF(),), inducing.Points(Z), 2),
                    "takes one kernel or one per function, given 1"),
        "kernels of sizes": (lambda X, y: cavity.Layer((kernels.RBF(),), points, 2, sizes=(1, 1)),
                             "takes one kernel or one per entry of sizes, given 1"),
        "sizes": (lambda X, y: cavity.Layer((kernels.RBF(),) * 2, points, 3, sizes=(1, 1)),
                  "numbers of functions that make up the width 3, given (1, 1)"),
        "natural": (lambda X, y: cavity.infer(cavity.DeepGP([layer, one], gaussian), X, y,
            method=cavity.TiedPowerEP(batch=8, natural=0.1)), "leave natural=None"),
        "skip": (lambda X, y: cavity.DeepGP(
            [cavity.Layer(kernels.RBF(), points, skip_connection=True)], gaussian),
            "takes the inputs of the model already"),
        "lengthscales": (lambda X, y: cavity.infer(cavity.DeepGP(
            [cavity.Layer(kernels.RBF(1.0, [1.0, 1.0, 1.0]), points), one], gaussian),
            X, y, **tied), "layer 1 of 2: the kernel has 3 values of lengthscale"),
        "hidden noise": (lambda X, y: cavity.infer(
            cavity.DeepGP([layer, one], gaussian), X, y, **hidden),
            "layer 1 of 2 has no noise variance"),
        "hidden likelihood": (lambda X, y: cavity.infer(
            cavity.DeepGP([one], likelihoods.StudentT()), X, y, **hidden),
            "for StudentT give method=cavity.TiedPowerEP()"),
        "hidden batches": (lambda X, y: cavity.fit(
            cavity.DeepGP([one], gaussian), cavity.fitting.Batches(lambda: [(X, y)]), **hidden),
            "the rows must be in memory"),
        "hidden nodes": (lambda X, y: cavity.infer(cavity.DeepGP([noisy, one], gaussian), X, y,
            method=cavity.PowerEP(hidden="conditional_nodes")),
            "over the 34 inducing variables"),
        "hidden elsewhere": (lambda X, y: cavity.infer(
            cavity.GP(kernels.RBF(), gaussian), X, y, **hidden),
            "GP has no posterior hidden='factorised': leave hidden=None"),
        "hidden of states": (lambda X, y: cavity.infer(
            cavity.GPSSM(noisy, gaussian), None, np.stack([y, y], axis=1),
            method=cavity.PowerEP(hidden="nested")), "give one of 'chain', 'factorised'"),
        "hidden name": (lambda X, y: cavity.PowerEP(hidden="markov"),
                        "hidden must be one of factorised, chain"),
        "nodes": (lambda X, y: cavity.fitting.Nodes(0), "at least one point per row")}  # fmt: skip


@pytest.mark.parametrize("name", refusals())
def test_what_does_not_fit_is_named(rng, name):
    X, y = rng.standard_normal((24, 2)), rng.standard_normal(24)
    call, message = refusals()[name]
    with pytest.raises(ValueError, match=message.replace("(", r"\(").replace(")", r"\)")):
        call(X, y)
