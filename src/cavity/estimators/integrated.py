"""Parameters of linear models that estimators average over, by words."""

from collections.abc import Sequence

from cavity.estimators.registry import one_of

# What can be averaged over, and how the names of these parameters begin.
PARTS = {"noise": "likelihood.", "prior": "prior."}
WORDS = ("all", "none", *PARTS)


def asked_parts(integrate: object) -> tuple[str, ...]:
    """The parts whose parameters are to be averaged over.

    Args:
        integrate: "all", "noise", "prior", a list of the latter; "none" or None for none.

    Raises:
        ValueError: for anything else.
    """
    if integrate is None:
        return ()
    words = [integrate] if isinstance(integrate, str) else integrate
    if not isinstance(words, Sequence):
        raise ValueError(
            f"integrate must be 'all', 'none', 'noise', 'prior' or both of these, given "
            f"{integrate!r}"
        )
    found = [one_of("integrate", word, WORDS) for word in words]
    if len(found) > 1 and not set(found) <= set(PARTS):
        raise ValueError(f"'all' and 'none' stand alone in integrate, given {integrate!r}")
    if "all" in found:
        return tuple(PARTS)
    return tuple(dict.fromkeys(word for word in found if word != "none"))
