"""The pictures that there are of each kind of model, and the refusals of others."""

from typing import Any

from cavity.families.base import Family
from cavity.families.table import FAMILIES

_OF_ROWS = ("gp", "deep", "linear", "network")
# Words of families (`Family.word`) by picture.
KINDS: dict[str, tuple[str, ...]] = {
    "function": _OF_ROWS,
    "slices": _OF_ROWS,
    "partial_effects": _OF_ROWS,
    "predictions": _OF_ROWS,
    "residuals": _OF_ROWS,
    "calibration": (*_OF_ROWS, "image-shape"),
    "relevance": ("gp", "linear", "network", "latent"),
    "evidence": (*_OF_ROWS, "image-shape", "latent", "state-space"),
    "inducing_points": ("gp", "deep"),
    "components": ("gp",),
    "forecast": ("state-space",),
    "embedding": ("latent",),
    "patches": ("image-shape", "gp"),
}
NEEDED = {
    "predictions": "predictions beside what was observed",
    "residuals": "what was observed less what was predicted",
}


def check_kind(kind: str, word: str, called: str) -> None:
    """Refuses a picture that a family has no meaning for.

    Args:
        kind: of picture.
        word: of the family.
        called: one of its models in words.

    Raises:
        ValueError: with the families that have it, and the pictures that the model has.
    """
    if word in KINDS[kind]:
        return
    families = [each for each in FAMILIES if each.word in KINDS[kind]]
    has = [name for name, words in KINDS.items() if word in words]
    raise ValueError(
        f"cavity.plots.{kind} is for {_listed([_named(each) for each in families])}, and this is "
        f"{called}, which has {_listed(has)}"
    )


def _named(family: Family) -> str:
    """The models of a family in words, with the names of its estimators."""
    names = [path.partition(":")[2] for path in family.estimators.values()]
    return f"{family.several} ({', '.join(names)})"


def _listed(words: list[str]) -> str:
    """Words with an "and" before the last."""
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


def family_of_word(word: str) -> Any:
    """The family that files know by a word."""
    return next(each for each in FAMILIES if each.word == word)
