"""Inference methods: how the sites of a factor are found."""

import equinox as eqx


class PowerEP(eqx.Module):
    r"""Power expectation propagation, at the power given beside it.

    Factors that are Gaussian in the function are exact and need no sweeps. All others are
    matched by parallel sweeps, and where these do not converge by the double loop, which does.

    Args:
        step: damping step in (0, 1], the share of the way to the matched site; the power itself
            is classical Power EP. None adapts it: full steps, shorter ones after a sweep that
            came no closer.
        tolerance: sweeps stop when a further one would change no moment by more than this
            many standard deviations.
        max_sweeps: sweeps at the most.
        exact: use the closed form of Gaussian factors; False sweeps for them too.
        fallback: go on with the double loop where sweeps fail.

    References:
        Bui (2017), S19 and S21 to S23; Turner's slides, S5; Jylanki (2013), S33 to S38.
    """

    step: float | None = eqx.field(static=True, default=None, kw_only=True)
    tolerance: float = eqx.field(static=True, default=1e-8, kw_only=True)
    max_sweeps: int = eqx.field(static=True, default=500, kw_only=True)
    exact: bool = eqx.field(static=True, default=True, kw_only=True)
    fallback: bool = eqx.field(static=True, default=True, kw_only=True)

    def __check_init__(self) -> None:
        if self.step is not None and not 0.0 < self.step <= 1.0:
            raise ValueError(f"step must lie in (0, 1], given {self.step}")
        if self.max_sweeps < 1:
            raise ValueError(f"max_sweeps must be at least 1, given {self.max_sweeps}")
