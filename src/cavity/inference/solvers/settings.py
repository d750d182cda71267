"""Settings of the solvers of fixed points, by which any part can be varied or left out."""

import dataclasses

# What goes on where sweeps fail, in the order in which it is tried.
RUNGS = (
    "damped sweeps",
    "Newton's method",
    "line search",
    "continuation in the power",
    "noise continuation",
    "moment descent",
)


@dataclasses.dataclass(frozen=True)
class AndersonSettings:
    """Settings of Anderson acceleration.

    Attributes:
        depth: differences of iterates that are stored.
        most: numbers that they have at the most, all together; two are stored in any case.
        ridge: the ridge of the least squares, as a share of their mean square.
        longest: how far an extrapolation leads at the most, in the unit of any coordinate, if the
            plain step does not lead farther.
    """

    depth: int = 8
    most: int = 2**25
    ridge: float = 1e-10
    longest: float = 0.3

    def depth_for(self, size: int) -> int:
        """Differences that are stored of iterates of so many numbers."""
        return min(self.depth, max(self.most // max(size, 1), 2))


@dataclasses.dataclass(frozen=True)
class SweepSettings:
    """Settings of sweeps with a damping step that adapts, and of their line search.

    Attributes:
        patience: sweeps without coming a tenth closer, after which they end.
        shortest: the damping step below which they end.
        shortest_descent: the same for the line search: the first step of Newton's method for a
            count of a billion is 1e-8.
        largest_rise: sweeps are extrapolated where the residual is below this many times the one
            before.
        nearby: the residual at which sites are near enough to count by the sum of all changes.
        last: whether sweeps that end early give the last sites, not those that came nearest.
        anderson: settings of their extrapolation.
    """

    patience: int = 60
    shortest: float = 1e-3
    shortest_descent: float = 1e-12
    largest_rise: float = 2.0
    nearby: float = 1e-2
    last: bool = False
    anderson: AndersonSettings = AndersonSettings()


@dataclasses.dataclass(frozen=True)
class NewtonSettings:
    """Settings of Newton's method in the sites.

    Attributes:
        tolerance: the distance from a fixed point that counts as converged, in deviations.
        max_steps: steps at the most.
        max_halvings: halvings of a step at the most.
        least_gain: the share of the distance that a step must close.
        largest_dense: numbers of sites up to which the Jacobian is a matrix.
        most_weights: numbers of sites up to which it is tried on weights with a flat prior, where
            each step has a dense response of all of them.
    """

    tolerance: float = 1e-9
    max_steps: int = 20
    max_halvings: int = 30
    least_gain: float = 1e-3
    largest_dense: int = 3000
    most_weights: int = 1500


@dataclasses.dataclass(frozen=True)
class ContinuationSettings:
    """Settings of the continuation in the power.

    Attributes:
        starts: shares of the power at which sweeps are tried, one after the other.
        first_step: the first step, as a share of the power.
        least_step: the step below which it is given up.
    """

    starts: tuple[float, ...] = (0.5, 0.25, 0.1)
    first_step: float = 0.25
    least_step: float = 1e-3


@dataclasses.dataclass(frozen=True)
class NoiseSettings:
    """Settings of the continuation from wide noise to the noise of the likelihood.

    Attributes:
        widest: how many times as wide the noise is at first.
        length: what the whole way counts as, in deviations of the sites.
        first_step: the first step in arc length.
        least_step: the step below which it is given up.
        largest_step: the longest step.
        max_corrections: Newton steps after one step, at the most.
        tolerance: how near to the curve they must come, in deviations.
        least_cosine: of the angle that the curve may turn by in one step, lest it be followed
            back.
        least_position: how far behind its start it is given up, as a share of the way.
        max_evaluations: points at which the curve is linearised, at the most.
    """

    widest: float = 1000.0
    length: float = 10.0
    first_step: float = 0.3
    least_step: float = 1e-5
    largest_step: float = 3.0
    max_corrections: int = 8
    tolerance: float = 1e-4
    least_cosine: float = 0.7
    least_position: float = -0.1
    max_evaluations: int = 1500


@dataclasses.dataclass(frozen=True)
class TiltedSettings:
    """Settings of the search for cavities whose tilted distributions have given moments.

    Attributes:
        tolerance: how near to the moments it ends, in deviations.
        accepted: how near rows must be, lest they start anew from a Gaussian.
        steps: Newton steps from the given start, at the most.
        steps_anew: Newton steps from a Gaussian.
        max_cuts: how often one step is cut at the most.
    """

    tolerance: float = 1e-11
    accepted: float = 1e-8
    steps: int = 25
    steps_anew: int = 200
    max_cuts: int = 40


@dataclasses.dataclass(frozen=True)
class MomentSettings:
    """Settings of the descent of the free energy in the moments.

    Attributes:
        max_evaluations: evaluations of the free energy at the most.
        tolerance: the slope at which it ends, in nats per deviation.
        radius: the radius of the trust region at first, in deviations of the convex terms.
        largest_radius: the largest radius.
        least_radius: the radius below which it ends.
        longest_log_var: the largest change of a log variance in one step.
        starts: variances of the start over the prior's, tried one after the other: one-sided
            densities leave only a share of them.
        jitter: added to the prior covariance, over its mean variance, for duplicated rows make it
            singular.
        max_rows: rows, padding included, up to which it is tried: an evaluation costs their cube,
            many times.
        accepted: how near moments must be to those asked for, in deviations.
        rounding: changes below this share of the value are rounding, so that slopes decide.
        tilted: settings of the search for cavities.
    """

    max_evaluations: int = 200
    tolerance: float = 1e-10
    radius: float = 1.0
    largest_radius: float = 20.0
    least_radius: float = 1e-12
    longest_log_var: float = 3.0
    starts: tuple[float, ...] = (0.9, 0.3, 0.1, 0.03)
    jitter: float = 1e-10
    max_rows: int = 128
    accepted: float = 1e-6
    rounding: float = 1e-9
    tilted: TiltedSettings = TiltedSettings()


@dataclasses.dataclass(frozen=True)
class LayerSettings:
    """Settings of plain sweeps for weights of several layers.

    Attributes:
        steps: the steps, tried one after the other, each from the start.
        nearby: the residual at which sweeps are extrapolated, in deviations.
        round: sweeps between two looks at the energy.
        rounds: rounds at the most.
        quick_rounds: the same while parameters are learned, where sites start near.
        too_far: the residual after a round at which a step is given up as too long.
        least_fall: nats by which the energy must fall in a round to count as falling.
        stalls: rounds without a fall of the energy, or of the residual by a tenth, after which
            sweeps end.
        extrapolations: extrapolated sweeps at the most, with a round of plain ones in between.
        ridge: the ridge of extrapolations: a larger one hides the one direction in which units
            creep, whose differences are tiny beside those of earlier sweeps.
    """

    steps: tuple[float, ...] = (0.5, 0.2)
    nearby: float = 3e-3
    round: int = 200
    rounds: int = 30
    quick_rounds: int = 4
    too_far: float = 1.0
    least_fall: float = 1e-6
    stalls: int = 3
    extrapolations: int = 8
    ridge: float = 1e-14


@dataclasses.dataclass(frozen=True)
class FixedPointSolver:
    """Settings of the solvers that find sites at their fixed point.

    Attributes:
        step: the damping step in (0, 1]; None adapts it.
        tolerance: on what a further sweep would change, in standard deviations.
        max_sweeps: sweeps at the most.
        batch: rows whose sites move together; None for all of them.
        rungs: what goes on where sweeps fail: names among `RUNGS`.
        sweeps: settings of the sweeps.
        newton: settings of Newton's method.
        continuation: settings of the continuation in the power.
        noise: settings of the noise continuation.
        moments: settings of the descent in the moments.
        layers: settings of plain sweeps for weights of several layers.
        damped_steps: the steps of damped sweeps, one after the other.
        warm_step: the longest step of sweeps of coupled classes from the sites of nearby
            parameters, from where full steps, extrapolated, may run into a cycle.
        nearby: the residual at which sites are near enough, to start from and to learn by.
        accepted: the residual at which sites that another algorithm than plain sweeps reached
            count as a fixed point.
        enough: parallel sweeps end too where the squares of all changes, in deviations, add up to
            less than this.
        rowwise: whether rows with latent inputs, whose sites reach no other row than their own,
            have a step each; states in time have one for all.

    Raises:
        ValueError: for an unknown rung.
    """

    step: float | None = None
    tolerance: float = 1e-8
    max_sweeps: int = 500
    batch: int | None = None
    rungs: tuple[str, ...] = ()
    sweeps: SweepSettings = SweepSettings()
    newton: NewtonSettings = NewtonSettings()
    continuation: ContinuationSettings = ContinuationSettings()
    noise: NoiseSettings = NoiseSettings()
    moments: MomentSettings = MomentSettings()
    layers: LayerSettings = LayerSettings()
    damped_steps: tuple[float, ...] = (0.3, 0.1)
    warm_step: float = 0.5
    nearby: float = 1e-2
    accepted: float = 1e-6
    enough: float = 0.0
    rowwise: bool = False

    def __post_init__(self) -> None:
        if unknown := set(self.rungs) - set(RUNGS):
            raise ValueError(f"rungs must be among {RUNGS}, given {sorted(unknown)}")
