"""Embeddings: Gaussian-process latent-variable models."""

from cavity.families.base import Family, Option, Setting
from cavity.families.options import (
    JITTER,
    KERNEL,
    LIKELIHOOD,
    MAX_ITERATIONS,
    NO_DRAWS,
    POWER,
    RANDOM_STATE,
    inducing,
)
from cavity.families.values import Number, Truth, Whole

EMBEDDING = Family(
    name="latent",
    called="an embedding",
    several="embeddings",
    about="an embedding of all columns",
    estimators={"embedding": "cavity.estimators.embedding:GPEmbedding"},
    fitting="cavity.cli.latent:FitEmbedding",
    files="cavity.tables.embedding_files:EmbeddingFiles",
    report="cavity.report.of_estimators:embedding_report",
    in_words="cavity.cli.text:describe_embedding",
    page="cavity.cli.pages:embedding_page",
    commands=("embed", "impute", "report", "show"),
    settings=(
        Setting(
            "n_components",
            2,
            Whole(1),
            Option("--components", "N", "Latent dimensions.", "whole"),
        ),
        KERNEL,
        LIKELIHOOD,
        inducing(50, "an embedding", "Of an embedding 50."),
        Setting("power", 0.0, Number(1.0), POWER.option),
        Setting("method", "auto"),
        Setting("encoder", False, Truth()),
        Setting("batch"),
        Setting("standardise", True, Truth()),
        MAX_ITERATIONS,
        JITTER,
        RANDOM_STATE,
    ),
    command=(
        Setting(
            "columns",
            option=Option(
                "--column", "COLUMN", "Column to embed; repeatable; without it all are.", "texts"
            ),
        ),
    ),
    unused=NO_DRAWS
    | {
        "--target": "an embedding has no target: give --ignore to leave a column out",
        "--task": "an embedding has no target, so no task: leave it out",
        "--test": "an embedding has no target to compare with: leave it out",
        "--noise-column": "an embedding learns its noise: leave it out",
        "--exposure-column": "an embedding takes no exposures: leave it out",
        "--weight-column": "rows of an embedding have no weights: leave it out",
        "--class-weight": "an embedding has no classes: leave it out",
        "--drop-missing": "missing cells are allowed in an embedding: leave it out",
        "--batch-rows": "an embedding needs all rows in memory: leave it out",
        "--restarts": "an embedding tries several starts anyway: leave it out",
        "--method": "an embedding chooses its method by its likelihood: leave it out",
        "--mean": "the functions of an embedding have mean zero: leave it out",
    },
    needs_target="",
)
