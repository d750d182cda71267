"""Embeddings in model files."""

from typing import TYPE_CHECKING, Any

import numpy as np

from cavity.estimators.kept import Kept, estimator_from
from cavity.estimators.latent_map import LatentMap, Standardised
from cavity.estimators.rows_of_fit import columns_of
from cavity.families.base import Family
from cavity.tables.contents import AbstractFiles, Held
from cavity.tables.embedding import TableEmbedding, latent_parameters
from cavity.tables.records import kernel_in_words, learning_record, likelihood_word
from cavity.tables.schema import Schema

if TYPE_CHECKING:
    from cavity.estimators.embedding import GPEmbedding
else:
    GPEmbedding = Any


class EmbeddingFiles(AbstractFiles[GPEmbedding, TableEmbedding]):
    """Files of embeddings."""

    def read(self, held: Held) -> TableEmbedding:
        """Contents of a file; see `AbstractFiles`."""
        return TableEmbedding.described(held)

    def contents(
        self,
        estimator: GPEmbedding,
        schema: Schema | None = None,
        *,
        kept: Kept | None = None,
    ) -> TableEmbedding:
        """Contents of the file of a fitted embedding.

        Args:
            estimator: fitted.
            schema: which columns of a table it reads; None for those that it knows itself.
            kept: what the file is to hold of it beside its posterior; None of what is no file.
        """
        names = estimator._input_names
        known = schema is not None or names is not None
        if schema is None:
            columns = columns_of(None, names, len(estimator.column_mean_))
            schema = Schema((), columns.columns)
        scales = Standardised(estimator.column_mean_, estimator.column_scale_)
        latent = LatentMap(estimator.posterior_, scales)
        called = tuple(column.name for column in schema.targets)
        if kept is not None:
            kept = kept.also(feature_names=called if known else None)
        record = _record(estimator, latent, called)
        return TableEmbedding(latent.posterior, schema, record, scales, kept=kept)

    def estimator(self, contents: TableEmbedding, family: Family, kept: Kept) -> GPEmbedding:
        """The embedding of a file; see `AbstractFiles`."""
        known: dict[str, Any] = {
            "n_features_in_": len(contents.columns),
            "column_mean_": contents.standardised.mean,
            "column_scale_": contents.standardised.scale,
        }
        if kept.fitted.get("feature_names") is not None:
            known["feature_names_in_"] = np.array(contents.columns, object)
        return estimator_from(family, family.task, kept, contents.posterior, **known)


def _record(estimator: GPEmbedding, latent: LatentMap, names: tuple[str, ...]) -> dict[str, Any]:
    """Record of the fit of an embedding, as JSON values."""
    scales, likelihood = latent.columns.scale, likelihood_word(estimator.likelihood, 2)
    return {
        "model": None,
        "task": estimator.family.task,
        "likelihood": likelihood,
        "kernel": kernel_in_words(estimator.kernel),
        "method": "power_ep" if likelihood == "gaussian" else "tied",
        "power": float(estimator.power),
        "components": latent.posterior.n_inputs,
        "n_inducing": latent.posterior.size,
        "n_rows": int(estimator.n_rows_),
        "columns": [*names],
        "constant": [n for n, scale in zip(names, scales, strict=True) if scale == 0.0],
        "missing": estimator.n_missing_,
        "relevance": estimator.relevance_.tolist(),
        **learning_record(estimator),
        "parameters": latent_parameters(latent),
    }
