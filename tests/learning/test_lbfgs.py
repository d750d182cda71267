"""The minimiser: the best point, whatever happens."""

import numpy as np
import pytest

from cavity.learning.optimisers.lbfgs import StartFailed, minimise

FAR = np.array([[-np.inf, np.inf]] * 2)
OPTIONS = {"bounds": FAR, "max_iterations": 200, "tolerance": 1e-10}


def banana(x):
    a, b = 1 - x[0], x[1] - x[0] ** 2
    return a**2 + 100 * b**2, np.array([-2 * a - 400 * b * x[0], 200 * b])


def test_finds_a_minimum():
    found = minimise(banana, np.array([-1.0, 1.0]), **OPTIONS)
    assert found.converged
    np.testing.assert_allclose(found.x, [1.0, 1.0], atol=1e-4)
    assert found.objective == banana(found.x)[0]
    assert found.history[-1] == found.objective
    assert found.iterations == len(found.history)
    assert found.evaluations >= found.iterations


def test_steps_back_from_where_the_objective_is_not_finite():
    def walled(x):
        value, gradient = banana(x)
        return (np.nan, gradient) if x[0] > 0.5 else (value, gradient)

    found = minimise(walled, np.array([-1.0, 1.0]), **OPTIONS)
    assert np.isfinite(found.objective)
    assert found.x[0] <= 0.5
    assert found.objective < banana(np.array([-1.0, 1.0]))[0]


def test_undefined_values_shorten_steps_to_about_a_quarter():
    """The hyperbola about 1 is undefined beyond 1.2; a first curvature leads to 20 and more."""
    points = []

    def hyperbola(x):
        points.append(float(x[0]))
        value = np.sqrt(1.0 + (x[0] - 1.0) ** 2)
        return (np.nan, x) if x[0] > 1.2 else (value, (x - 1.0) / value)

    found = minimise(hyperbola, np.array([-8.0]), **OPTIONS | {"bounds": FAR[:1]})
    assert found.x[0] == pytest.approx(1.0, abs=1e-4)
    assert max(points) > 1.2
    far = [point for point in points if abs(point - 1.0) > 0.3]
    assert np.min(np.abs(np.diff(far))) > 0.1


def test_a_start_that_is_not_finite_is_refused():
    with pytest.raises(StartFailed):
        minimise(lambda x: (np.nan, x), np.zeros(2), **OPTIONS)
    with pytest.raises(StartFailed):
        minimise(lambda x: (0.0, np.array([np.nan, 0.0])), np.zeros(2), **OPTIONS)


def test_bounds_hold():
    bounds = np.array([[-1.5, 0.3], [-np.inf, np.inf]])
    found = minimise(banana, np.array([-1.0, 1.0]), **OPTIONS | {"bounds": bounds})
    np.testing.assert_allclose(found.x, [0.3, 0.09], atol=1e-4)


def test_ends_when_little_is_gained():
    found = minimise(banana, np.array([-1.0, 1.0]), **OPTIONS | {"tolerance": 10.0})
    assert found.converged
    assert found.iterations <= 15
    assert "fell by less than 10 nats per iteration" in found.message


def stiff(x):
    """A bowl whose coordinates differ in steepness by up to a million."""
    steepness = np.logspace(0.0, 6.0, x.size)
    return 0.5 * float(steepness @ x**2), steepness * x


def test_rescaled_coordinates_reach_a_minimum_in_fewer_iterations():
    """The record stays whole, bounds hold in every part of the search, and the limit too."""
    n, seen = 120, []
    bounds = np.tile([[-np.inf, np.inf]], (n, 1))
    bounds[5] = [0.5, 2.0]
    options = OPTIONS | {"bounds": bounds, "tolerance": 1e-9}
    plain = minimise(stiff, np.ones(n), **options)
    found = minimise(stiff, np.ones(n), rescale=True, callback=seen.append, **options)
    assert found.converged
    assert found.iterations < 0.6 * plain.iterations
    np.testing.assert_allclose(found.x, 0.5 * (np.arange(n) == 5), atol=1e-3)
    assert [p.iteration for p in seen] == list(range(1, found.iterations + 1))
    assert np.all(np.diff(found.history) <= 0.0)
    short = minimise(stiff, np.ones(n), rescale=True, **options | {"max_iterations": 40})
    assert not short.converged
    assert short.history == found.history[:40]


BOXED = np.array([[-18.0, 18.0]] * 2)


def test_a_first_step_has_at_most_length_one():
    """Where every coordinate is bounded L-BFGS-B by itself steps by the whole gradient."""
    tried = []

    def fn(x):
        tried.append(x.copy())
        return banana(x)

    minimise(fn, np.array([-1.0, 2.0]), **OPTIONS | {"bounds": BOXED})
    assert np.linalg.norm(tried[1] - tried[0]) < 1.0 + 1e-12


@pytest.mark.parametrize("steep", [1e6, 1e10, 1e14])
def test_a_steep_start_ends_at_the_minimum(steep):
    """As of noise that is far too small at first: the fall that counts is that of the end."""

    def fn(x):
        quick = 0.5 * steep * np.exp(-x[0])
        value = 50.0 * x[0] + quick + (x[1] - 0.01 * x[0]) ** 4
        slow = 4.0 * (x[1] - 0.01 * x[0]) ** 3
        return value, np.array([50.0 - quick - 0.01 * slow, slow])

    bounds = np.array([[-60.0, 60.0]] * 2)
    found = minimise(fn, np.array([0.0, 3.0]), **OPTIONS | {"bounds": bounds})
    best = np.log(0.01 * steep)
    np.testing.assert_allclose(found.objective, 50.0 * best + 50.0, rtol=0.0, atol=1e-4)
    assert found.converged


def test_what_rounding_hides_is_not_missed():
    """Values are rounded by more than is left to gain, as where noise is near zero."""

    def rounded(x):
        value, gradient = 300.0 * float(x @ x), 600.0 * x
        return np.round(value, 4) - 1e-4 * (np.abs(x[0] - 5e-5) < 1e-15), gradient

    start = np.array([5e-5, 0.0])
    found = minimise(rounded, start, **OPTIONS | {"tolerance": 1e-3})
    assert found.converged
    assert "left to gain" in found.message
    # a slope that leads somewhere is not taken for that
    found = minimise(lambda x: (0.0, np.array([1.0, 0.0])), start, **OPTIONS)
    assert not found.converged


def test_what_is_left_is_in_nats_whatever_the_first_slope():
    """A steep start makes the search count in units of 600 nats."""
    curvature = np.array([600.0, 80.0])

    def rounded(x):
        return np.round(0.5 * float(x @ (curvature * x)), 1), curvature * x

    found = minimise(rounded, np.array([1.0, 0.7]), **OPTIONS | {"tolerance": 1e-2})
    slope = curvature * found.x
    assert np.max(np.abs(slope)) > 0.1  # not level
    assert 0.5 * found.x @ slope < 1e-2
    assert "left to gain" in found.message
    assert found.converged


def test_what_a_bound_blocks_does_not_count():
    """A slope of 1e14 that cannot be followed leaves steps along the other coordinate alone."""

    def fn(x):
        return 1e14 * x[0] + (x[1] - 2.0) ** 2, np.array([1e14, 2.0 * (x[1] - 2.0)])

    bounds = np.array([[0.0, 18.0], [-18.0, 18.0]])
    found = minimise(fn, np.zeros(2), **OPTIONS | {"bounds": bounds})
    np.testing.assert_allclose(found.x, [0.0, 2.0], atol=1e-5)
    assert found.converged


def test_a_slope_beyond_all_numbers_is_survived():
    def fn(x):
        return 1e200 * float(x @ x), 2e200 * x

    found = minimise(fn, np.ones(2), **OPTIONS | {"bounds": BOXED})
    assert found.objective < 1e190


def test_a_jump_is_no_minimum():
    """Beyond 0.3 the value leaps up, where the slope still points."""

    def stepped(x):
        return x[0] ** 2 + x[1] ** 2 + 10.0 * (x[0] < 0.3), 2.0 * x

    found = minimise(stepped, np.array([1.0, 1.0]), **OPTIONS)
    assert not found.converged
    assert "though it has a slope" in found.message
    assert found.objective < 0.5


@pytest.fixture
def walled():
    """A bowl in 40 dimensions, undefined at more than 0.1 from the best point so far."""
    best, point = np.inf, None

    def fn(x):
        nonlocal best, point
        value, gradient = 0.5 * float(x @ x), x.copy()
        if point is not None and np.linalg.norm(x - point) > 0.1:
            return np.nan, gradient
        if value < best:
            best, point = value, x.copy()
        return value, gradient

    return fn


WALLED = {"bounds": np.tile(FAR[:1], (40, 1)), "tolerance": 1e-6, "rescale": True}


def test_evaluations_are_limited_over_the_whole_search(walled):
    """Not by those of the iterations up to the first rescaling, which are 100."""
    found = minimise(walled, np.full(40, 10.0), **WALLED, max_iterations=1000)
    assert found.iterations > 50
    assert "1000 iterations" not in found.message


def test_ends_at_the_limit_of_evaluations(walled):
    """The message names that limit, and not the one on iterations, which is far."""
    found = minimise(walled, np.full(40, 10.0), **WALLED, max_iterations=30)
    assert not found.converged
    assert found.iterations < 30
    assert found.evaluations > 120
    assert "limit of 120 evaluations" in found.message


def test_ends_at_the_limit():
    found = minimise(banana, np.array([-1.0, 1.0]), **OPTIONS | {"max_iterations": 2})
    assert not found.converged
    assert found.iterations == 2
    assert "limit of 2 iterations" in found.message


@pytest.mark.parametrize("where", ["callback", "function"])
def test_an_interrupt_keeps_the_best(where):
    calls = []

    def stop(*_):
        calls.append(None)
        if len(calls) == 6:
            raise KeyboardInterrupt

    def fn(x):
        if where == "function":
            stop()
        return banana(x)

    callback = stop if where == "callback" else None
    found = minimise(fn, np.array([-1.0, 1.0]), **OPTIONS, callback=callback)
    assert found.interrupted
    assert not found.converged
    assert found.objective < banana(np.array([-1.0, 1.0]))[0]
    assert found.objective == banana(found.x)[0]


def test_an_interrupt_before_anything_is_known_is_passed_on():
    def fn(x):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        minimise(fn, np.zeros(2), **OPTIONS)
