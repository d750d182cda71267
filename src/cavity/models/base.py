"""Base classes of models: what inference and learning need of them."""

import abc
import typing
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple, TypeVar

import equinox as eqx
from numpy.typing import ArrayLike

from cavity.inducing.base import AbstractInducing
from cavity.inducing.features import Features
from cavity.inference.approximations.approximations import AbstractApproximation
from cavity.inference.energy import Beliefs, Graph
from cavity.inference.factors.base import Edge
from cavity.inference.factors.exact import ExactRegression
from cavity.inference.factors.local import LocalFactor
from cavity.inference.factors.slots import ObservedRows, observed_rows
from cavity.inference.graph.rows import Rows
from cavity.kernels.base import AbstractKernel
from cavity.kernels.random_fourier import feature_count
from cavity.likelihoods.base import AbstractLikelihood
from cavity.likelihoods.capabilities import GaussianInLatent, HasHeldParameters, capability
from cavity.likelihoods.integrated import Integrated
from cavity.means import AbstractMean
from cavity.models.drawn_weights import HasWeightParts
from cavity.models.latent_gp import LatentGP, shared_parameters
from cavity.numerics.power_limits import Power
from cavity.numerics.text import plural
from cavity.numerics.types import Scalar
from cavity.parameters.priors import Prior
from cavity.parameters.table import Tabled
from cavity.weights.base import AbstractWeightPrior

Part = TypeVar("Part")


# What parts of models may be, in messages.
EXAMPLES: dict[type, str] = {
    AbstractKernel: "kernels, such as RBF()",
    AbstractLikelihood: "likelihoods, such as Gaussian()",
    AbstractInducing: "inducing, such as Points(Z)",
    AbstractMean: "means, such as Constant()",
    AbstractWeightPrior: "weights, such as Laplace()",
}


def check_part(what: str, part: Any, kind: type) -> None:
    """Raises TypeError for a part of a model that is of another kind."""
    if not isinstance(part, kind):
        raise TypeError(
            f"{what} must be an object of cavity.{EXAMPLES[kind]}; given {type(part).__name__}"
        )


def each_of(part: Part | tuple[Part, ...]) -> tuple[Part, ...]:
    """The parts of all latent functions, or the one that they share."""
    return part if isinstance(part, tuple) else (part,)


def check_each(name: str, part: Any, functions: int, likelihood: AbstractLikelihood) -> None:
    """Raises ValueError for a tuple of parts of another number of latent functions."""
    given = each_of(part)
    if given is part and len(given) != functions:
        raise ValueError(
            f"{type(likelihood).__name__} has {plural(functions, 'latent function')}, given a "
            f"tuple of {plural(len(given), name)}"
        )


class GraphSettings(NamedTuple):
    """Settings of the layout of a model on rows.

    Attributes:
        power: the power of all rows (`rows.power` takes its place).
        approximation: what stands in the place of the likelihood terms.
        jitter: share of the mean prior variance added to the diagonal of a covariance.
        chunk: rows worked on at a time.
        total: the number of observed rows in all the data, where the rows are some of them.
        scale: rows in all the data for each of the rows.
    """

    power: Power
    approximation: AbstractApproximation
    jitter: float | Scalar
    chunk: int
    total: ObservedRows | None = None
    scale: Scalar | float = 1.0

    def observed(self, rows: Rows) -> ObservedRows:
        """The number of observed rows in all the data."""
        return observed_rows(rows) if self.total is None else self.total


class DataTerms(NamedTuple):
    """The term of the rows of a table.

    Attributes:
        regressions: of Gaussian noise, where the approximation has closed forms.
        factors: of any other likelihood.
    """

    regressions: tuple[ExactRegression, ...]
    factors: tuple[LocalFactor, ...]


class AbstractModel(Tabled, eqx.Module):
    """Gaussian variables with priors, and how outputs depend on them. Holds no data.

    To implement:
        `graph`, which lays the model out on data as variables and factors, and `posterior`,
        which makes a process of their beliefs; the field `likelihood`, `sparse`,
        `check(rows)` and `check_approximation(approximation)`. Inference and learning follow.

    Attributes:
        likelihood: the density of outputs, by which data are checked and scaled.
        latent_rows: whether rows have latent variables of their own, which learning finds first.
        ordered: whether rows are times, which keep their place where nothing is observed.
        hidden_posteriors: names of the posteriors of hidden values that the model may have.
        volumes: whether residuals of the model may have a volume of their own.
        integrates: whether parameters of the likelihood may be latent values that rows share.
    """

    likelihood: eqx.AbstractVar[AbstractLikelihood]
    latent_rows: ClassVar[bool] = False
    ordered: ClassVar[bool] = False
    hidden_posteriors: ClassVar[tuple[str, ...]] = ()
    volumes: ClassVar[bool] = False
    integrates: ClassVar[bool] = False

    @property
    def separable(self) -> bool:
        """True if there are terms that may be independent in the posterior."""
        return False

    @property
    def takes_inputs(self) -> bool:
        """True if rows have known inputs; X is None otherwise."""
        return True

    @property
    def input_kernels(self) -> dict[str, AbstractKernel]:
        """Kernels of functions of the inputs, by dotted name; none for other models."""
        return {}

    @property
    def drawn_weights(self) -> HasWeightParts | None:
        """The model, where Markov chains draw its weights; None where they draw functions."""
        return capability(self, HasWeightParts)

    @property
    def side(self) -> tuple[str, ...]:
        """Names of the side data that rows may have."""
        return self.likelihood.side

    def row_data(self, rows: Mapping[str, ArrayLike] | None, count: int) -> dict[str, Any]:
        """Side data of the rows as given, checked and completed.

        Args:
            rows: side data by name.
            count: the number of rows.
        """
        return dict(rows or {})

    def check_power(self, rows: Rows, power: Power, approximation: AbstractApproximation) -> None:
        """Raises ValueError for rows that the method is not for.

        The power may leave them without proper cavities, or their sites take too much memory.

        Args:
            rows: padded data.
            power: the power of all rows.
            approximation: what stands in the place of the likelihood terms.
        """

    def integrating(self, priors: Mapping[str, Prior]) -> "AbstractModel":
        """The model with some of its parameters integrated out.

        Args:
            priors: their priors by dotted name.

        Raises:
            ValueError: for parameters that rows do not see one by one.
        """
        others = [name for name in priors if not name.startswith("likelihood.")]
        if not self.integrates:
            raise ValueError(
                f"parameters of {type(self).__name__} cannot be INTEGRATED: give the fitted model "
                "to cavity.integrate"
            )
        if others:
            raise ValueError(
                f"{others[0]} cannot be INTEGRATED, which is for parameters of the likelihood and "
                "of the prior of a LinearModel: give the fitted model to cavity.integrate"
            )
        own = {name.removeprefix("likelihood."): prior for name, prior in priors.items()}
        changed = Integrated(self.likelihood, own)
        return eqx.tree_at(lambda model: model.likelihood, self, changed)

    def holding(self) -> "AbstractModel":
        """The model with its integrated parameters all but held at the values that it has."""
        held = capability(self.likelihood, HasHeldParameters)
        if held is None:
            return self
        return eqx.tree_at(lambda model: model.likelihood, self, held.holding())

    @property
    @abc.abstractmethod
    def sparse(self) -> bool:
        """True if rows depend on variables whose size does not grow with the number of rows."""

    @property
    def approximate(self) -> bool:
        """True if inducing variables leave part of the functions unexplained."""
        return self.sparse

    @abc.abstractmethod
    def check(self, rows: Rows) -> None:
        """Raises ValueError where parts of the model have other numbers of columns than rows."""

    @abc.abstractmethod
    def check_approximation(self, approximation: AbstractApproximation, *, natural: bool) -> None:
        """Raises ValueError for an approximation that the model is not for.

        Args:
            approximation: what stands in the place of the likelihood terms.
            natural: whether tied sites move by natural-gradient steps.
        """

    @abc.abstractmethod
    def graph(self, rows: Rows, settings: GraphSettings) -> Graph:
        """The model laid out for inference on these rows, which are padded data."""

    @typing.final
    def mixed_signs(self, settings: GraphSettings) -> bool:
        """True if sites of rows may have negative precisions."""
        concave = self.likelihood.log_concave and not self.likelihood.sampled(settings.power)
        return not (concave or settings.approximation.convex)

    @typing.final
    def data_terms(
        self,
        edges: tuple[Edge, ...],
        rows: Rows,
        settings: GraphSettings,
        *,
        exact: bool,
        common_mode: bool = False,
    ) -> DataTerms:
        """The term of rows that see the functions of the likelihood.

        Args:
            edges: views of the functions.
            rows: padded data.
            settings: how the model is laid out on them.
            exact: whether rows see all of the functions.
            common_mode: whether the likelihood depends on differences of alike functions.
        """
        power, approximation = settings.power, settings.approximation
        noise = capability(self.likelihood, GaussianInLatent)
        if approximation.closed_form and noise is not None:
            variance, volume = noise.noise_variance, None if exact else approximation.volume
            own = ExactRegression(edges, rows, settings.chunk, variance, power, volume)
            return DataTerms((own,), ())
        local = LocalFactor(
            edges=edges,
            rows=rows,
            chunk=settings.chunk,
            term=approximation.term(self.likelihood, exact=exact),
            power=power,
            evaluation_point=approximation.evaluation_point,
            common_mode=common_mode,
            scale=settings.scale,
        )
        return DataTerms((), (local,))

    @abc.abstractmethod
    def posterior(self, graph: Graph, q: Beliefs, rows: Rows, *, single: bool) -> Any:
        """The posterior process.

        Args:
            graph: the model laid out on the data.
            q: the posteriors of its variables.
            rows: the data.
            single: whether outputs were given as a vector.
        """


def named_kernels(
    name: str, kernel: AbstractKernel | tuple[AbstractKernel, ...]
) -> dict[str, AbstractKernel]:
    """A kernel by its name, or several by their numbers."""
    if isinstance(kernel, tuple):
        return {f"{name}.{i}": one for i, one in enumerate(kernel)}
    return {name: kernel}


class AbstractGP(AbstractModel):
    """A model of latent functions with Gaussian process priors.

    To implement:
        what every model needs, and the fields.

    Attributes:
        kernel: covariance function, or a tuple with one per latent function.
        inducing: inducing variables of every latent function; None for the full GP.
        mean: prior mean function, or a tuple with one per latent function.
    """

    volumes: ClassVar[bool] = True
    integrates: ClassVar[bool] = True
    kernel: eqx.AbstractVar[AbstractKernel | tuple[AbstractKernel, ...]]
    inducing: eqx.AbstractVar[AbstractInducing | None]
    mean: eqx.AbstractVar[AbstractMean | tuple[AbstractMean, ...]]

    @property
    @typing.final
    def kernels(self) -> tuple[AbstractKernel, ...]:
        """The kernel of every latent function, or one that all share."""
        return each_of(self.kernel)

    @property
    @typing.final
    def covariances(self) -> tuple[AbstractKernel, ...]:
        """The kernel of every latent function plus what its mean adds, or one that all share."""
        added = tuple(mean.covariance for mean in self.means)
        if not any(added):
            return self.kernels
        count = max(len(self.kernels), len(added))
        kernels = self.kernels if len(self.kernels) == count else self.kernels * count
        added = added if len(added) == count else added * count
        pairs = zip(kernels, added, strict=True)
        return tuple(kernel if own is None else kernel + own for kernel, own in pairs)

    @property
    def input_kernels(self) -> dict[str, AbstractKernel]:
        """The kernels by their dotted names."""
        return named_kernels("kernel", self.kernel)

    @property
    @typing.final
    def means(self) -> tuple[AbstractMean, ...]:
        """The mean function of every latent function, or one that all share."""
        return each_of(self.mean)

    @property
    @typing.final
    def latents(self) -> tuple[LatentGP, ...]:
        """Every latent function with covariance and mean; parameters that rows share last."""
        parameters = shared_parameters(self.likelihood)
        count = self.likelihood.latents - len(parameters)
        kernels = self.covariances
        kernels = kernels if len(kernels) == count else kernels * count
        means = self.means if len(self.means) == count else self.means * count
        functions = tuple(
            LatentGP(kernel, mean, self._functionals(kernel))
            for kernel, mean in zip(kernels, means, strict=True)
        )
        return functions + parameters

    @property
    @typing.final
    def functionals(self) -> AbstractInducing | None:
        """The variables that stand for each function; None where it is its values at the data.

        They are the inducing variables, or weights of features where kernels have explicit ones.
        """
        each = [self._functionals(kernel) for kernel in self.covariances]
        sizes = {None if functionals is None else functionals.size for functionals in each}
        return each[0] if len(sizes) == 1 else None

    def _functionals(self, kernel: AbstractKernel) -> AbstractInducing | None:
        count = feature_count(kernel)
        return Features(count) if self.inducing is None and count is not None else self.inducing
