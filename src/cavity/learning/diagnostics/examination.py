"""Results of an examination of a fit, and its verdicts in sentences."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from cavity.learning.diagnostics.bracket import Bracket
from cavity.learning.diagnostics.evidence_terms import EvidenceTerms, PointGains
from cavity.learning.diagnostics.function_parts import FunctionParts
from cavity.learning.diagnostics.inducing_verdict import EQUAL, InducingVerdict
from cavity.numerics.text import aligned, plural

# The residual share of the noise, and the squared error over it, up to which noise is trusted.
TRUSTED_SHARE, TRUSTED_ERROR = 0.1, 2.0


class Noise(NamedTuple):
    """The variance of Gaussian noise, beside what it may have been confused with.

    Attributes:
        variance: of the noise, the mean over the observed outputs.
        residual: what inducing variables leave unexplained, mean of K - Q over the rows.
        share: the mean of K - Q over the noise variance of the row.
        squared_error: mean square of outputs minus posterior means at the same rows.
        known: whether the variances of the rows were given.
        charged: whether the evidence of power 0 is charged for the residual, as by DTC it is not.
    """

    variance: float
    residual: float
    share: float
    squared_error: float
    known: bool
    charged: bool = True

    @property
    def trusted(self) -> bool:
        """True if the residual is small beside the noise, and the errors are no larger."""
        return self.share <= TRUSTED_SHARE and self.squared_error <= TRUSTED_ERROR * self.variance


class InducingCount(NamedTuple):
    r"""Number of inducing variables, counted in three ways.

    Attributes:
        size: their number M.
        distinct: their number where those with a correlation above 0.9999 count as one.
        determined: how many the data determine, $M - \operatorname{tr} \mathbf B^{-1}$, the sum
            of one minus posterior over prior variance of whitened variables, mean over outputs.
        weights: whether they are the weights of features, which make up all of the function.
    """

    size: int
    distinct: int
    determined: float
    weights: bool = False


@dataclasses.dataclass(frozen=True)
class Examination:
    """Diagnostics of a fit at its parameters; `print` gives the verdicts in sentences.

    Attributes:
        bracket: bounds of the exact log evidence; see `cavity.diagnostics.bracket`.
        noise_alone: the largest log density of the outputs under a constant and noise, nats.
        inducing: the verdict on the number of inducing variables.
        terms: complexity, data fit and residual of the evidence; None for a full GP without
            Gaussian noise.
        noise: the noise variance beside the residual; None without Gaussian noise.
        count: how many inducing variables there are; None for a full GP.
        gains: what one more point would change of the bound of power 0; None for a full GP.
        parts: what can be learned of the function at the rows, and what not; None for a full GP.
        power: of the approximation, the mean over the rows.
    """

    bracket: Bracket
    noise_alone: float
    inducing: InducingVerdict
    terms: EvidenceTerms | None
    noise: Noise | None
    count: InducingCount | None
    gains: PointGains | Any
    parts: FunctionParts | None
    power: float

    @property
    def found(self) -> bool | None:
        """True if learning has found more than noise; None where the bracket leaves it open."""
        return self.inducing.more_than_noise

    @property
    def sentences(self) -> tuple[str, ...]:
        """The verdicts: on inducing variables, on the noise, on what was learned."""
        found = (
            _inducing_verdict(self),
            _noise_verdict(self),
            _learning_verdict(self),
            _evidence_verdict(self),
        )
        return tuple(text for text in found if text)

    def __str__(self) -> str:
        return "\n\n".join([aligned(self.rows()), "\n".join(self.sentences)])

    @property
    def learnable(self) -> float | None:
        """The share of the prior variance at the rows that can be learned at all."""
        if self.parts is None:
            return None
        can, cannot = (np.mean(v) for v in (self.parts.prior_var, self.parts.unlearnable_var))
        return float(can / (can + cannot))

    @property
    def learned(self) -> float | None:
        """The share of the learnable prior variance that the data have removed, at the rows."""
        if self.parts is None:
            return None
        left = np.mean(self.parts.var) / np.mean(self.parts.prior_var)
        return float(1.0 - left)

    def shifted(self, nats: float) -> "Examination":
        """The same with so much more in all log densities, as in another unit of the outputs."""
        terms = self.terms
        if terms is not None:
            terms = dataclasses.replace(terms, constant=terms.constant + nats)
        return dataclasses.replace(
            self,
            bracket=self.bracket.shifted(nats),
            noise_alone=self.noise_alone + nats,
            terms=terms,
        )

    def rows(self, numbers: Sequence[int] | None = None) -> list[tuple[str, str]]:
        """The numbers with their names, for a table.

        Args:
            numbers: what a reader calls the rows of the data; None to count them from 0.
        """
        b = self.bracket
        kind = "" if b.proved else ", estimated"
        found = [
            ("log evidence", f"{b.log_evidence:.4f} nats"),
            ("exact log evidence", f"between {b.lower:.4f} and {b.upper:.4f} ({b.level}{kind})"),
            ("noise alone", f"{self.noise_alone:.4f} nats"),
        ]
        if self.terms is not None:
            t = self.terms
            found += [
                ("data fit", f"{t.data_fit:.4f}"),
                ("complexity", f"{t.complexity:.4f}"),
                ("residual", f"{t.residual:.4f}"),
            ]
            if t.beyond:
                found.append(("beyond the sites", f"{t.beyond:.4f}"))
        if self.noise is not None:
            n = self.noise
            found += [
                ("noise variance", f"{n.variance:.4g}{', known' if n.known else ''}"),
                ("mean squared error", f"{n.squared_error:.4g}, at the same rows"),
                ("left unexplained", f"{n.residual:.4g}, {_of(n.share, 'the noise')}"),
            ]
        if self.count is not None:
            c = self.count
            which = f"{c.distinct} are distinct and the data determine {c.determined:.1f}"
            name = "inducing variables"
            if c.weights:
                name, which = "weights of features", f"the data determine {c.determined:.1f}"
            found.append((name, f"{c.size}, of which {which}"))
        if self.gains is not None:
            best = best_place(self.gains, numbers)
            found.append(("one more point", f"{best}, in the bound of power 0"))
        if self.learnable is not None:
            found.append(
                (
                    "learnable",
                    f"{100.0 * self.learnable:.3g} % of the prior variance at the rows, of which "
                    f"the data took away {100.0 * (self.learned or 0.0):.3g} %",
                )
            )
        return found


def _inducing_verdict(e: Examination) -> str:
    """Verdict on the number of inducing variables."""
    text = f"Inducing variables: {e.inducing.text}."
    if e.count is None or e.count.weights or e.count.distinct == e.count.size:
        return text
    repeated = e.count.size - e.count.distinct
    why = (
        "as they do where powers above 0 are learned with" if e.power > 0.0 else "and add nothing"
    )
    return f"{text} {repeated} of {e.count.size} repeat others, {why}."


def _noise_verdict(e: Examination) -> str:
    """Verdict on the noise variance."""
    noise = e.noise
    if noise is None:
        return ""
    left = f"what inducing variables leave unexplained is {_of(noise.share, 'it')} on average"
    exact = e.count is None or e.count.weights
    left = "nothing of the function is approximated" if exact else left
    error = f"the mean squared error at the same rows is {noise.squared_error:.3g}"
    beside = f"beside a noise variance of {noise.variance:.3g}"
    if noise.known:
        return f"Noise: its variances are known; {left}, and {error} {beside}."
    if noise.trusted:
        return f"Noise: to be trusted; {left}, and {error} {beside}."
    if noise.squared_error > TRUSTED_ERROR * noise.variance:
        cause = " (rows count what is left unexplained as noise of their own)"
        cause = cause if noise.share > TRUSTED_SHARE and e.power > 0.0 else ""
        return f"Noise: not to be trusted, too small; {error} {beside}{cause}; {left}."
    if e.power > 0.0:
        way = "it may be too small" if e.power > 0.9 else "it may be wrong either way"
        part = "that" if e.power > 0.9 else "part of that"
        return (
            f"Noise: not to be trusted, {way}; {left}, and at power {e.power:g} rows count {part} "
            "as noise of their own."
        )
    if not noise.charged:
        return (
            f"Noise: not to be trusted, it may be wrong either way; {left}, and DTC charges "
            "nothing for that."
        )
    return (
        f"Noise: not to be trusted, it may be too large; {left}, and at power 0 more noise makes "
        "that cheaper."
    )


def _learning_verdict(e: Examination) -> str:
    """Verdict on learning: more than noise, or not."""
    alone = f"noise alone ({e.noise_alone:.4f} nats)"
    exact, least = "exact log evidence", " at least"
    if e.bracket.level == "exact":
        exact, least = "log evidence", ""
    elif not e.bracket.proved:
        least = " by an estimate"
    if e.noise_alone == math.inf:
        return "Learning: the outputs do not vary, and no model explains more than no noise does."
    if e.found is None:
        return (
            f"Learning: whether more than noise was found is not known, {alone} is within the "
            "bracket or as good as that."
        )
    if e.found:
        return (
            f"Learning: more than noise was found, for the {exact} is"
            f"{least} {e.inducing.explained:.4g} nats over that of {alone}."
        )
    below = e.noise_alone - e.bracket.upper
    if below > EQUAL:
        return (
            f"Learning: the parameters are worse than noise alone, for their {exact} is{least} "
            f"{below:.4g} nats below that of {alone}. They were learned for an approximation "
            "that is not near the model, or not learned: learn at a lower power, or start there."
        )
    return (
        f"Learning: no more than noise was found, for the {exact} is at the most "
        f"{max(-below, 0.0):.3g} nats above that of {alone}, as parameters gain from noise. "
        "Either there is nothing to find, or learning ended in the wrong place: start it where a "
        "short fit at power 1 ends, or with other lengthscales."
    )


def _evidence_verdict(e: Examination) -> str:
    """Verdict on an evidence that is too high."""
    over = e.bracket.overestimate
    if over <= 0.0:
        return ""
    shown = "at least" if e.bracket.proved else "by an estimate"
    text = f"Log evidence: {shown} {over:.4g} nats too high, as it may be at powers above 0"
    return f"{text}; do not compare models by it." if over > EQUAL else f"{text}."


def best_place(gains: PointGains, numbers: Sequence[int] | None = None) -> str:
    """The largest gain, and the row where it is, in words."""
    best, place = gains.best, ""
    if gains.rows is not None:
        row = int(gains.rows[best])
        place = f" at row {row} (from 0)" if numbers is None else f" at row {numbers[row]}"
    return f"up to {gains.gain[best]:.4g} nats{place}, of {plural(len(gains.gain), 'candidate')}"


def _of(share: float, what: str) -> str:
    """A share in words, such as 5 % of it, or 3 times it."""
    return f"{100.0 * share:.2g} % of {what}" if share < 0.995 else f"{share:.3g} times {what}"
