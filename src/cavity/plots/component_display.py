"""The components of a function whose kernel is a sum."""

import dataclasses
from collections.abc import Sequence

import jax
import numpy as np

from cavity import drawing
from cavity.drawing.axes import Axes
from cavity.kernels.base import AbstractKernel, Active
from cavity.learning.diagnostics.kernel_components import KernelComponents, kernel_components
from cavity.learning.double_precision import in_double
from cavity.likelihoods.support import Support
from cavity.plots.base import AbstractDisplay, on_one_scale
from cavity.plots.curves import Curve, check_level
from cavity.plots.function_display import draw_bands
from cavity.plots.subjects import check_no_pixels, place_among, subject_of, target_of
from cavity.report.figure_data import along_only_input
from cavity.report.figures import MOST_TICKS, thinned
from cavity.report.slices import Slice, blocks
from cavity.report.slices import slices as slices_along
from cavity.report.subject import Subject

POINTS = 200


@dataclasses.dataclass(eq=False, repr=False)
class ComponentDisplay(AbstractDisplay):
    """The posterior of each component of a function, in a panel of its own; one scale for all.

    Made by `from_estimator`.

    Attributes:
        names: of the components, as kernels are written.
        cuts: where each is drawn: `cuts[i].places` are values of the column
            `cuts[i].column.name`, (n,).
        curves: of each component `mean` (n,) and `function`, the ends of its band (2, n), in the
            units of the target; where outputs are no real numbers in those of the function.
        level: share of the bands.
        y_name: name of the target.
    """

    names: list[str]
    cuts: list[Slice]
    curves: list[Curve]
    level: float = 0.9
    y_name: str = "y"

    @classmethod
    @in_double
    def from_estimator(
        cls,
        model: object,
        X: object = None,
        *,
        column: object = None,
        target: object = None,
        level: float = 0.9,
        ax: object = None,
    ) -> "ComponentDisplay":
        """Draws each component of a function whose kernel is a sum, such as "rbf + periodic".

        Components are functions about zero. With the prior mean they add up to the function, and
        their bands say how far the data tell them apart; see `cavity.diagnostics`.

        Args:
            model: a fitted estimator, a result of `cavity.fit` or `cavity.infer`, or a posterior.
            X: inputs, (n, D); None for those of a result, or for the range of the fit of an
                estimator of one column.
            column: name or place of the column along which components are drawn that see several
                columns, the others at typical values; those that see one are drawn along it.
            target: name or place of the output, or of the class, where there are several.
            level: share of the bands.
            ax: matplotlib's axes, which the panels divide among themselves, or an array with one
                for each panel; None for a new figure.

        Returns:
            The display, drawn.

        Raises:
            TypeError: for what is no fitted model, and an `ax` that is no axes.
            NotFittedError: for an estimator before `fit`.
            ValueError: for kernels that are no sum; where a column has to be chosen; for columns
                and targets that are not there, for other models and unusable data.
        """
        check_level(level)
        subject = subject_of(model, "components", X)
        check_no_pixels(subject.fitted, "components")
        fitted = subject.fitted
        place, y_name = _target(subject, target)
        names = fitted.schema.features
        posterior = jax.tree.map(jax.numpy.asarray, fitted.posterior)
        first = kernel_components(posterior, np.zeros((1, len(names))), names)
        cuts = [_cut(subject, kernel, column) for kernel in first.kernels]
        scale = fitted.output_scale[place if len(fitted.output_scale) > 1 else 0]
        each = [kernel_components(posterior, cut.X, names) for cut in cuts]
        found = [_curve(own, i, place, scale, level) for i, own in enumerate(each)]
        return cls([*first.names], cuts, found, level, y_name).plot(ax)

    @property
    def panels(self) -> int:
        """A panel for each component."""
        return len(self.names)

    def _draw(self, axes: list[Axes]) -> None:
        for ax, cut, curve in zip(axes, self.cuts, self.curves, strict=True):
            draw_bands(ax, cut.places, curve, self.level)
        on_one_scale(axes)
        for ax, name, cut in zip(axes, self.names, self.cuts, strict=True):
            ax.axhline(0.0, color=drawing.FAINT, linewidth=0.8, linestyle=drawing.DASHES)
            if len(cut.data):
                drawing.rug(ax, cut.data[thinned(len(cut.data), MOST_TICKS)])
            ax.set(xlabel=drawing.label(cut.column.name, 30), title=drawing.label(name, 36))
            drawing.space_dates(ax)
        for ax in axes[:: self.shape[1]]:
            ax.set_ylabel(f"part of {drawing.label(self.y_name, 24)}")
        self._legend()


def _target(subject: Subject, target: object) -> tuple[int, str]:
    """The place of an output or of a class, and what its axis is called."""
    fitted, classes = subject.fitted, subject.fitted.classes
    if len(classes) > 2:
        if target is None:
            raise ValueError(
                f"the model has a function for each of {len(classes)} classes: choose one, such "
                f"as target={classes[0]!r}; there are {', '.join(classes[:20])}"
            )
        place = place_among("class", target, classes)
        return place, f"function of {classes[place]}"
    if classes:
        return 0, f"function of {classes[-1]}"
    place = target_of(fitted, target)
    real = fitted.posterior.model.likelihood.support is Support.REAL
    name = fitted.targets[place]
    return place, name if real else f"function of {name}"


def _cut(subject: Subject, kernel: AbstractKernel, column: object) -> Slice:
    """The cut along which a component is drawn.

    Raises:
        ValueError: where a column has to be chosen, and for one that is not there.
    """
    schema, X = subject.fitted.schema, subject.encoded.X
    names = [each.name for each in schema.inputs]
    if len(names) == 1 and schema.inputs[0].kind == "numeric":
        known = schema.ranges.get(names[0])
        if not len(X) and known is None:
            raise ValueError("give X, rows over whose range components are drawn")
        x = X[:, 0] if known is None or len(X) else np.array([known.low, known.high])
        cut, _ = along_only_input(subject.fitted, x)
        return cut if len(X) else dataclasses.replace(cut, data=np.zeros(0))
    if not len(X):
        raise ValueError(
            "cavity.plots.components needs X, rows, where a model has several columns: those of "
            "the fit, which an estimator does not hold, or others (on the command line name a "
            "table after the kind)"
        )
    seen = _columns_seen(kernel, blocks(schema))
    if len(seen) == 1:
        chosen = names[seen[0]]
    elif column is None:
        raise ValueError(
            f"a component of this kernel sees {len(seen)} columns: say along which it is drawn, "
            f"such as column={names[seen[0]]!r}; there are {', '.join(names[:20])}"
        )
    else:
        chosen = names[place_among("column", column, names)]
    (cut,) = slices_along(schema, X, POINTS, [chosen])
    if cut.levels:
        raise ValueError(
            f"components are drawn along columns of numbers, and {chosen!r} holds "
            f"{cut.column.kind} values: choose another column"
        )
    return cut


def _columns_seen(kernel: AbstractKernel, where: Sequence[slice]) -> list[int]:
    """Places of the columns that a component sees."""
    every = range(len(where))
    if not isinstance(kernel, Active):
        inner = getattr(kernel, "kernel", None)  # of a factor times a kernel
        return _columns_seen(inner, where) if isinstance(inner, AbstractKernel) else [*every]
    return [i for i in every if any(where[i].start <= d < where[i].stop for d in kernel.dims)]


def _curve(
    found: KernelComponents, component: int, place: int, scale: float, level: float
) -> Curve:
    """One component with its band."""
    from scipy.special import ndtri

    mean, std = found.mean[component], np.sqrt(found.var[component])
    if mean.ndim > 1:
        mean, std = mean[:, place], std[:, place]
    mean, reach = mean * scale, ndtri(0.5 + 0.5 * level) * std * scale
    return Curve(mean, np.stack([mean - reach, mean + reach]))


components = ComponentDisplay.from_estimator
