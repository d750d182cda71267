"""Parameters that are integrated out: learned first, and released when all else has settled."""

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from cavity.inference.energy import Sites
from cavity.inference.problem import has_sites
from cavity.inference.released_sites import released_sites
from cavity.learning.data.given import check_streamed
from cavity.learning.data.training_data import AbstractTrainingData, Data
from cavity.learning.data.validation import check_shapes
from cavity.learning.integration.integrate import integrated_over
from cavity.learning.methods.base import AbstractMethod
from cavity.learning.results.result import FitResult
from cavity.learning.run.stages import Run
from cavity.models.base import AbstractModel
from cavity.numerics.tree import named, with_named
from cavity.parameters import FIXED, IntegratedOut, bijections, entries
from cavity.parameters.priors import Flat, Prior, flat

# The stage in which all parameters are learned.
LEARNED = "learned"


class Released(NamedTuple):
    """A model with parameters integrated out.

    Attributes:
        model: the model.
        maps: bijections of what is still learned.
        densities: priors of that.
    """

    model: AbstractModel
    maps: AbstractModel
    densities: AbstractModel


@dataclasses.dataclass(frozen=True)
class Release:
    """Parameters of a model that are integrated out, and what is learned before that.

    Attributes:
        priors: priors of these parameters by dotted name.
        maps: bijections by which they are learned first, with all others.
        densities: priors of all parameters.
    """

    priors: dict[str, Prior]
    maps: AbstractModel
    densities: AbstractModel

    @property
    def settings(self) -> dict[str, object]:
        """Settings that identify it in a checkpoint."""
        return {"integrated": tuple(self.priors.items())}

    def of(self, model: AbstractModel) -> Released:
        """The model with these parameters integrated out."""
        released = model.integrating(self.priors)
        maps, densities = named(self.maps), named(self.densities)
        maps |= dict.fromkeys(self.priors, FIXED)
        densities |= dict.fromkeys(self.priors, Flat())

        def moved(shadow: AbstractModel, old: dict[str, Any]) -> AbstractModel:
            names = named(shadow)
            renamed = {n if n in names else f"likelihood.{n}": entry for n, entry in old.items()}
            return with_named(shadow, renamed)

        return Released(
            released, moved(bijections(released), maps), moved(flat(released), densities)
        )

    def sites(
        self,
        result: FitResult,
        released: AbstractModel,
        data: AbstractTrainingData,
        method: AbstractMethod,
    ) -> Sites | None:
        """Sites of the released model to start from; None where it starts from none."""
        whole = data.in_memory
        if whole is None or method.approximation.tied:
            return None
        after, held, before = (
            whole.problem(m, method.approximation, result.jitter)
            for m in (released, released.holding(), result.model)
        )
        settled = before.empty_sites() if result.found is None else result.found
        sites = released_sites(after, held, before, settled)
        finite = all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(sites))
        return sites if finite and has_sites(sites) else None


def integrated_names(model: AbstractModel, maps: AbstractModel) -> list[str]:
    """Dotted names of the parameters that a tree of bijections integrates out."""
    return [name for name, _, entry in entries(model, maps) if isinstance(entry, IntegratedOut)]


def check_schedule(model: AbstractModel, schedule: Sequence[AbstractModel]) -> None:
    """Raises ValueError for parameters that are integrated out in an early stage."""
    for maps in schedule:
        if integrated_names(model, maps):
            raise ValueError("INTEGRATED belongs in bijections=, not in a schedule")


def release_of(
    model: AbstractModel,
    data: AbstractTrainingData,
    method: AbstractMethod,
    maps: AbstractModel | None,
    densities: AbstractModel | None,
) -> Release | None:
    """The parameters to integrate out in a tree of bijections; None where there are none.

    Raises:
        ValueError: for parameters that cannot be integrated, priors that are not Gaussian on any
            scale, and data and methods that the model with these parameters does not suit.
    """
    if maps is None:
        return None
    chosen = integrated_names(model, maps)
    if not chosen:
        return None
    every = flat(model) if densities is None else densities
    known, domains = named(every), named(bijections(model))
    learned = with_named(maps, {name: domains[name] for name in chosen})
    found = Release({name: known[name] for name in chosen}, learned, every)
    released = found.of(model).model  # refuses what cannot be
    side = data.exemplar.rows.side
    if "noise_variance" in side and any(name.startswith("likelihood.") for name in chosen):
        raise ValueError(
            "the rows have noise variances of their own, so that parameters of the likelihood "
            "play no part: leave out INTEGRATED"
        )
    method.check(released.likelihood)
    if data.exemplar.rows.blocked:
        raise ValueError("rows of a block share a site, so that no parameter can be INTEGRATED")
    if data.in_memory is None:
        check_streamed(released, method)
    check_shapes(released, data.exemplar)
    return found


def released_plan(
    run: Run,
    start: AbstractModel,
    release: Release,
    data: AbstractTrainingData,
    method: AbstractMethod,
) -> FitResult:
    """A fit with parameters integrated out, from one in which they are learned with all others.

    Args:
        run: whose stages are searches.
        start: the model with the parameters that learning starts from.
        release: what is integrated out.
        data: the data.
        method: the method.
    """
    learned = run.stage(LEARNED, start)
    released = release.of(learned.model)
    after = run.stage(
        "released",
        released.model,
        sites=release.sites(learned, released.model, data, method),
        after=learned,
        maps=released.maps,
        densities=released.densities,
        jitter=learned.jitter,
    )
    whole = data.in_memory
    settled = after.sites.converged or method.approximation.tied
    if whole is not None and not settled:
        return _averaged_at_mode(run.best([learned]), release, whole, method)
    message = after.message if learned.converged else f"{learned.message}; {after.message}"
    return after.judged(message, converged=learned.converged and after.converged)


def _averaged_at_mode(
    result: FitResult, release: Release, data: Data, method: AbstractMethod
) -> FitResult:
    """The parameters integrated out about their mode, where sites on them do not settle."""
    found = integrated_over(result, data, method, tuple(release.priors), "auto")
    return dataclasses.replace(
        result,
        posterior=found.posterior,
        log_evidence=found.log_evidence,
        converged=result.converged and found.converged,
        message=f"sites on the integrated parameters did not settle: instead, {found.message}",
    )
