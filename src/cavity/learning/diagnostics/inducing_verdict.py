"""Verdict on the number of inducing variables: a bracket beside the evidence of noise alone."""

import dataclasses
import math

from cavity.learning.diagnostics.bracket import Bracket

# Enough is a bracket narrower than this share of what the model explains over noise alone.
ENOUGH = 0.05
# Evidences closer than this do not differ: odds of one to twenty.
EQUAL = 3.0


@dataclasses.dataclass(frozen=True)
class InducingVerdict:
    """Verdict on a bracket: its width beside the evidence gained over noise alone.

    A bracket alone is not enough: a model that takes everything for noise has one of width zero.

    Attributes:
        enough: whether the width is at most `ENOUGH` of `explained`; also where the upper bound
            is as good as noise alone, so that more inducing variables cannot help at these
            parameters; False where nothing is shown, and where both are below noise alone.
        more_than_noise: whether the lower bound is above noise alone; None where noise alone lies
            within the bracket, so that it is not known.
        explained: the lower bound minus the evidence of noise alone, nats.
        share: the width over `explained`; infinite where nothing is explained.
        text: the verdict in a sentence.
    """

    enough: bool
    more_than_noise: bool | None
    explained: float
    share: float
    text: str

    def __str__(self) -> str:
        return self.text


def judge_inducing(bracket: Bracket, noise: float, least: float = EQUAL) -> InducingVerdict:
    """The verdict on the number of inducing variables.

    Args:
        bracket: of the exact evidence.
        noise: the evidence of noise alone, by `noise_alone` on the same data.
        least: nats over noise alone below which nothing was found.
    """
    explained, most = bracket.lower - noise, bracket.upper - noise
    share = bracket.width / explained if explained > 0.0 else math.inf
    if noise == math.inf:
        text = "the outputs do not vary, so that there is nothing to explain"
        return InducingVerdict(True, False, -math.inf, math.inf, text)
    if bracket.level == "exact":
        known = explained > least
        text = "none, the function is not approximated"
        return InducingVerdict(True, known, explained, share, text)
    if most < -least:
        text = (
            f"not judged, for the exact evidence of these parameters is {-most:.4g} nats or more "
            "below that of noise alone: the parameters are at fault"
        )
        return InducingVerdict(False, False, explained, share, text)
    if most <= least and bracket.width <= least:
        text = (
            f"enough, for the exact evidence is at the most {max(most, 0.0):.3g} nats over that "
            "of noise alone: at these parameters more inducing variables cannot help"
        )
        return InducingVerdict(True, False, explained, share, text)
    known = True if explained > least else None
    width = f"the exact evidence is known to {bracket.width:.3g} nats"
    if not bracket.proved:
        width = f"the exact evidence is estimated to {bracket.width:.3g} nats"
    beside = f"{width}, {_share(share)} the {explained:.4g} that the model explains over noise"
    if explained <= 0.0:
        beside = f"{width}, and its lower bound is no better than noise alone"
    if share <= ENOUGH:
        return InducingVerdict(True, known, explained, share, f"enough, for {beside}")
    if bracket.level in ("trace", "row sums"):
        text = f"not shown to be enough by this cheap and wide bracket, for {beside}"
        return InducingVerdict(False, known, explained, share, text)
    return InducingVerdict(False, known, explained, share, f"not enough, for {beside}")


def _share(share: float) -> str:
    return f"{100.0 * share:.2g} % of" if share < 0.995 else f"{share:.3g} times"
