"""Embeddings: Gaussian-process latent-variable models."""

from cavity.families.base import Family, Rule

EMBEDDING = Family(
    name="latent",
    called="an embedding",
    several="embeddings",
    options={"components": "--components", "columns": "--column"},
    unused={
        "targets": "an embedding has no target: give --ignore to leave a column out",
        "task": "an embedding has no target, so no task: leave it out",
        "test": "an embedding has no target to compare with: leave it out",
        "noise_column": "an embedding learns its noise: leave it out",
        "exposure_column": "an embedding takes no exposures: leave it out",
        "drop_missing": "missing cells are allowed in an embedding: leave it out",
        "batch_rows": "an embedding needs all rows in memory: leave it out",
        "restarts": "an embedding tries several starts anyway: leave it out",
        "draws": "draws are made with --method mcmc only",
        "method": "an embedding chooses its method by its likelihood: leave it out",
        "mean": "the functions of an embedding have mean zero: leave it out",
    },
    rules=(
        Rule(
            lambda asked: asked.inducing == "full",
            "--inducing",
            "an embedding needs inducing points: a number, or auto",
        ),
    ),
    needs_target="",
)
