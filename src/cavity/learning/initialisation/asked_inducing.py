"""Inducing variables as they are asked for."""

import dataclasses


@dataclasses.dataclass(frozen=True, eq=False)
class Inducing:
    """Inducing variables of an estimator: where they start, and what learning does with them.

    Attributes:
        start: "greedy" (largest conditional variance), "kmeans" or "random", of the rows; the
            points themselves, (M, D); or an object of `cavity.inducing`.
        kind: what stands at points that are chosen, with `n_inducing` a number: "points", the
            values of the function; "windows", "waves" or "slopes", as `initial_inducing` starts
            them.
        learn: whether they move in learning.
        most: how many there are at the most, with `n_inducing="enough"`.

    Example:
        >>> import cavity
        >>> held = cavity.initialisation.Inducing("kmeans", learn=False)
        >>> cavity.GPRegressor(n_inducing=50, inducing=held)
        GPRegressor(inducing=Inducing(start='kmeans', kind='points', learn=False, most=1000),
                    n_inducing=50)
    """

    start: object = "greedy"
    kind: object = "points"
    learn: object = True
    most: object = 1000


def asked_inducing(given: object) -> Inducing:
    """The setting of an estimator, of which where variables start is a short form."""
    return given if isinstance(given, Inducing) else Inducing(given)
