"""The Gaussian process latent-variable model."""

import dataclasses
from typing import Any, ClassVar, cast

import equinox as eqx
import jax.numpy as jnp

from cavity.inducing.base import AbstractInducing, Points, input_columns
from cavity.inference.approximations.approximations import (
    AbstractApproximation,
    TiedPowerMeans,
)
from cavity.inference.approximations.local_terms import EvaluationPoint
from cavity.inference.energy import Beliefs, Graph
from cavity.inference.factors.base import Edge
from cavity.inference.factors.local import LocalFactor
from cavity.inference.factors.slots import (
    Private,
    Variational,
)
from cavity.inference.factors.stored import StoredInputs
from cavity.inference.graph.rows import Rows
from cavity.inference.propagation import AbstractPropagation, Moments
from cavity.inference.variables.given import Given
from cavity.inference.variables.inducing import WhitenedInducing
from cavity.inference.variables.inducing_view import InducingView
from cavity.inference.variables.inputs import InputBelief, Inputs, no_beliefs
from cavity.kernels.base import AbstractKernel
from cavity.likelihoods.base import AbstractLikelihood
from cavity.likelihoods.capabilities import GaussianInLatent, capability
from cavity.likelihoods.gaussian import Gaussian
from cavity.means import AbstractMean, Zero
from cavity.models.base import AbstractModel, GraphSettings
from cavity.models.deep.function_edges import (
    check_memory,
    messages_around,
    private_edges,
    tied_edges,
)
from cavity.models.deep.layer import Layer
from cavity.models.deep.posterior import DeepPosterior
from cavity.models.deep.regression import regression
from cavity.models.inputs.encoder import SiteEncoder
from cavity.models.inputs.views import EncodedInputs, FreeInputs, KnownOutputs, standardised
from cavity.models.latent.posterior import LatentPosterior
from cavity.models.latent.term import LatentInputTerm
from cavity.numerics.power_limits import Power
from cavity.numerics.text import plural
from cavity.numerics.types import Array, Float

# Tied sites start from means that Gaussian noise of this variance would give for standardised
# outputs, where the likelihood is another, and from this deviation.
START_NOISE, START_DEVIATION = 0.1, 0.1


class GPLVM(AbstractModel):
    r"""Functions of latent inputs: every output of a row is a function of the same latent point.

    $\mathbf x_n \sim \mathcal N(0, \mathbf I)$, $f_p \sim \mathcal{GP}(m, k)$, $y_{np} \sim
    p(y \mid f_p(\mathbf x_n))$. It is for embeddings, densities and missing data:
    `cavity.fit(model, None, Y)`.

    With Gaussian noise and `method=cavity.PowerEP()` inducing variables are in closed form and an
    optimiser moves a Gaussian for every latent input; at power 0 the evidence is a lower bound.
    `cavity.TiedPowerEP()` takes every likelihood and minibatches; with `input_sites=True` it has
    a site on every latent input. `cavity.PowerEP(exact=False)` has sites of every row on the
    inducing variables as well, for comparison: with little noise its sweeps often do not settle,
    and the result says so.

    Args:
        kernel: covariance function of all outputs, of the latent inputs.
        likelihood: density of an output given its function, of one latent function.
        inducing: `cavity.inducing.Points(Z)` in the latent space; the columns of Z are the
            dimensions of that space.
        mean: prior mean function, with one column for all outputs or one per output; None for
            zero.
        encoder: posteriors of latent inputs as functions of the outputs, learned with the model;
            None for free ones, one per row.
        point_estimates: whether latent inputs have point estimates, maximum a posteriori, in the
            place of posteriors. They overfit where there are few outputs.

    Raises:
        TypeError: for parts that are not what they should be.
        ValueError: for a likelihood of several latent functions, and an encoder to another space.

    References:
        Lawrence (2005), by points; Titsias and Lawrence (2010); Bui (2017), S45 to S50.
    """

    kernel: AbstractKernel
    likelihood: AbstractLikelihood
    inducing: Points
    mean: AbstractMean
    encoder: SiteEncoder | None
    point_estimates: bool = eqx.field(static=True, default=False)

    latent_rows: ClassVar[bool] = True

    def __init__(
        self,
        kernel: AbstractKernel,
        likelihood: AbstractLikelihood,
        inducing: Points,
        mean: AbstractMean | None = None,
        encoder: SiteEncoder | None = None,
        *,
        point_estimates: bool = False,
    ):
        mean = Zero() if mean is None else mean
        kinds = {
            "kernel": (kernel, AbstractKernel, "kernels, such as RBF()"),
            "likelihood": (likelihood, AbstractLikelihood, "likelihoods, such as Gaussian()"),
            "inducing": (inducing, AbstractInducing, "inducing: Points(Z)"),
            "mean": (mean, AbstractMean, "means, such as Constant()"),
        }
        for name, (part, kind, examples) in kinds.items():
            if not isinstance(part, kind):
                raise TypeError(
                    f"{name} of a GPLVM must be an object of cavity.{examples}; given "
                    f"{type(part).__name__}"
                )
        columns = input_columns(inducing)
        if columns is None:
            raise ValueError(
                "a GPLVM needs inducing points, cavity.inducing.Points(Z), given "
                f"{type(inducing).__name__}"
            )
        if likelihood.latents > 1:
            raise ValueError(
                f"{type(likelihood).__name__} has "
                f"{plural(likelihood.latents, 'latent function')}; a GPLVM takes likelihoods of "
                "one, which every output has for itself"
            )
        if not isinstance(encoder, SiteEncoder | None):
            raise TypeError(
                f"encoder of a GPLVM must be a SiteEncoder or None, given {type(encoder).__name__}"
            )
        if encoder is not None and encoder.columns != columns:
            raise ValueError(
                f"the encoder gives {plural(encoder.columns, 'latent dimension')}, the inducing "
                f"points have {columns}"
            )
        if encoder is not None and point_estimates:
            raise ValueError("an encoder gives posteriors: leave point_estimates=False")
        self.kernel = kernel
        self.likelihood = likelihood
        self.inducing = inducing
        self.mean = mean
        self.encoder = encoder
        self.point_estimates = bool(point_estimates)

    @property
    def takes_inputs(self) -> bool:
        return False

    @property
    def latent_dims(self) -> int:
        """The number of latent dimensions."""
        return self.inducing.Z.shape[1]

    @property
    def sparse(self) -> bool:
        return True

    def check(self, rows: Rows) -> None:
        if rows.blocked or rows.power is not None:
            raise ValueError(
                "a GPLVM has one power for all rows and no blocks: give power as one number, and "
                "leave blocks=None"
            )
        outputs = rows.y.shape[-1]
        if self.latent_dims > outputs:
            raise ValueError(
                f"the model has {plural(self.latent_dims, 'latent dimension')}, more than the "
                f"{plural(outputs, 'output')} of Y: give inducing points fewer columns"
            )
        if self.encoder is not None and self.encoder.outputs != outputs:
            raise ValueError(
                f"the encoder takes {plural(self.encoder.outputs, 'output')}, Y has {outputs}"
            )
        self._layer(outputs).check("the layer", self.latent_dims)

    def check_approximation(self, approximation: AbstractApproximation, *, natural: bool) -> None:
        if natural and self.encoder is None:
            raise ValueError(
                "natural-gradient steps would leave free latent inputs where they are: give the "
                "model an encoder, or leave natural=None"
            )
        closed = self._closed_form(approximation)
        at_cavity = approximation.evaluation_point is EvaluationPoint.CAVITY
        if not closed and (approximation.closed_form or not at_cavity):
            why = ": closed forms are for Gaussian noise" if approximation.closed_form else ""
            raise ValueError(
                f"a GPLVM with the likelihood {type(self.likelihood).__name__} needs "
                "method=cavity.TiedPowerEP(), or cavity.PowerEP(exact=False) with sites of every "
                f"row{why}"
            )
        taken = self.encoder is not None or self.point_estimates
        if taken and self._input_sites(approximation):
            raise ValueError(
                "an encoder or point estimates take the place of sites on latent inputs: give "
                "TiedPowerEP() and leave input_sites=False"
            )
        if closed and not self.mean.constant:
            raise ValueError(
                "closed forms of a GPLVM are for a mean that is the same everywhere: give "
                "method=cavity.TiedPowerEP(propagation=cavity.fitting.Moments())"
            )

    def check_power(self, rows: Rows, power: Power, approximation: AbstractApproximation) -> None:
        if not self._input_sites(approximation):
            return
        if rows.weighted:
            raise ValueError(
                "a row that stands for several has one latent input for all of them, which a "
                "site of the row matches once: leave the weights out, or give TiedPowerEP() and "
                "leave input_sites=False"
            )
        if not approximation.tied:
            remedy = "method=cavity.TiedPowerEP(input_sites=True)"
            check_memory((self._layer(rows.y.shape[-1]),), rows.y.shape[0], remedy)

    def _closed_form(self, approximation: AbstractApproximation) -> bool:
        """True if rows send exact messages to the inducing variables."""
        gaussian = self.likelihood.gaussian_noise is not None
        return not approximation.tied and approximation.closed_form and gaussian

    def _input_sites(self, approximation: AbstractApproximation) -> bool:
        """True if latent inputs have sites in the place of variational posteriors."""
        if not approximation.tied:
            return not self._closed_form(approximation)
        return cast(TiedPowerMeans, approximation).input_sites

    def graph(self, rows: Rows, settings: GraphSettings) -> Graph:
        power, approximation, jitter, chunk, _, scale = settings
        rows = rows.numbered()
        layer = self._layer(rows.y.shape[-1])
        (view,) = layer.views(jitter)
        inputs = self._inputs()
        slots = Variational(self.point_estimates)
        if self._closed_form(approximation):
            noise = capability(self.likelihood, GaussianInLatent)
            assert noise is not None
            sight = KnownOutputs(inputs)
            return Graph(
                variables=(WhitenedInducing(self.inducing.size),),
                regressions=(
                    regression(layer, (view,), sight, noise.noise_variance, rows, power),
                ),
                stored=(StoredInputs(view=inputs, slots=slots, rows=rows),),
                functions=(view,),
            )
        start = self._start(rows, view, inputs)
        if approximation.tied:
            functions = tied_edges((view,), settings.observed(rows).per_output, [start])
            propagation = cast(TiedPowerMeans, approximation).propagation
        else:
            functions = private_edges((view,), [messages_around(start)])
            propagation = Moments()
        private = self._input_sites(approximation)
        edges = (*functions.edges, Edge(1, inputs, Private() if private else slots))
        term = LatentInputTerm(layer, (view,), self.likelihood, propagation, averaged=not private)
        size = rows.y.shape[0] if private else chunk
        factor = LocalFactor(edges, rows, size, term, power, scale=scale)
        variables = (*functions.variables, Inputs() if private else Given())
        return Graph(variables, factors=(factor,), functions=(view,))

    def posterior(self, graph: Graph, q: Beliefs, rows: Rows, *, single: bool) -> LatentPosterior:
        layer, (view,) = self._layer(rows.y.shape[-1]), graph.functions
        terms = [cast(LatentInputTerm, factor.term) for factor in graph.factors]
        propagation: AbstractPropagation = terms[0].propagation if terms else Moments()
        inputs = self._inputs()
        rows = rows.numbered()
        latent = inputs.marginal(cast(InputBelief, q[1]), rows)
        observed = jnp.max(rows.site_presence, axis=1) > 0.0
        shape: dict[str, Any] = {
            "model": self,
            "n_inputs": self.latent_dims,
            "outputs": layer.width,
            "single": single,
            "side": tuple(sorted(rows.side)),
        }
        process = layer.process((view,), graph.function_beliefs(q))
        return LatentPosterior(
            functions=DeepPosterior(layers=(process,), propagation=propagation, **shape),
            latent_mean=latent.mean,
            latent_var=latent.var,
            count=jnp.max(jnp.where(observed, jnp.arange(observed.shape[0]) + 1, 0)),
            kernel=self.kernel,
            encoder=self.encoder,
            **shape,
        )

    def _start(
        self, rows: Rows, view: InducingView, inputs: FreeInputs | EncodedInputs
    ) -> tuple[Float[Array, "P M"], float]:
        """Means of inducing variables at which functions agree with the starting inputs.

        Those of Gaussian noise; a search that starts from the prior would move all rows to the
        same input first.
        """
        start = inputs.start(rows)
        belief = no_beliefs() if start is None else start.belief()
        noise, mean = capability(self.likelihood, GaussianInLatent), self.mean
        if noise is None:  # outputs stand for values of the functions
            rows = dataclasses.replace(rows, y=standardised(rows), side={})
            noise, mean = Gaussian(START_NOISE), Zero()
        layer = Layer(self.kernel, self.inducing, rows.y.shape[-1], mean)
        sight = KnownOutputs(inputs)
        functions = regression(layer, (view,), sight, noise.noise_variance, rows, 0.0)
        ((_, messages),) = functions.averaged(belief)
        mean = WhitenedInducing(self.inducing.size).belief(messages).mean
        return jnp.nan_to_num(mean.reshape(rows.y.shape[-1], -1)), START_DEVIATION

    def _inputs(self) -> FreeInputs | EncodedInputs:
        """View that rows have of their inputs."""
        free = FreeInputs(self.latent_dims, self.point_estimates)
        return free if self.encoder is None else EncodedInputs(self.encoder)

    def _layer(self, outputs: int) -> Layer:
        return Layer(self.kernel, self.inducing, outputs, self.mean)
