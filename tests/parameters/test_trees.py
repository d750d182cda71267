"""Domains, bijections and the flat vector that an optimiser moves."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import cavity
from cavity.numerics.types import Array, Float
from cavity.parameters import (
    FIXED,
    Interval,
    Positive,
    Real,
    Units,
    bijections,
    fixed,
    free_parts,
    from_real,
    interval,
    log_jacobian,
    positive,
    real,
    to_real,
    units,
)
from tests.tolerances import assert_close


class Part(eqx.Module):
    """One parameter of each domain."""

    scale: Float[Array, ""] = positive(output=2)
    bounded: Float[Array, " K"] = positive(0.5, 8.0, input=1)
    share: Float[Array, ""] = interval(-1.0, 1.0)
    place: Float[Array, " D"] = real(input=1, location=True)
    constant: Float[Array, ""] = fixed()
    label: str = eqx.field(static=True, default="static")


class Whole(eqx.Module):
    """Nested, with a tuple and a gap."""

    parts: tuple
    nothing: None = None


def part():
    return Part(2.0, [1.0, 3.0], 0.25, np.array([-4.0, 1e6]), 7.0)


@pytest.mark.parametrize(
    ("domain", "values"),
    [
        (Real(), [-1e6, 0.0, 3.0]),
        (Positive(), [1e-12, 1.0, 1e12]),
        (Positive(0.5), [0.5 + 1e-9, 1.0, 1e6]),
        (Positive(0.5, 8.0), [0.5 + 1e-6, 1.0, 7.999]),
        (Positive(upper=8.0), [1e-6, 1.0, 7.999]),
        (Interval(-1.0, 1.0), [-0.999, 0.0, 0.999]),
        (FIXED, [-3.0, 2.0]),
    ],
    ids=str,
)
def test_round_trips(domain, values):
    values = jnp.asarray(values)
    assert_close(domain.from_real(domain.to_real(values)), values, "factorised", scale=0.0)


@pytest.mark.parametrize("domain", [Positive(0.5, 8.0), Positive(0.5), Interval(-1.0, 1.0)])
def test_bounds_hold_wherever_the_optimiser_goes(domain):
    far = domain.from_real(jnp.array([-1e3, -30.0, 0.0, 30.0, 1e2]))
    assert np.all(far >= domain.lower)
    assert np.all(far <= domain.upper)


@pytest.mark.parametrize(
    ("domain", "arguments"),
    [
        (Positive, (-1.0,)),
        (Positive, (2.0, 1.0)),
        (Interval, (1.0, 1.0)),
        (Interval, (0.0, np.inf)),
    ],
)
def test_impossible_bounds_are_refused(domain, arguments):
    with pytest.raises(ValueError, match=r"lower < upper, given \("):
        domain(*arguments)


def test_bijections_mirror_the_model():
    b = bijections(Whole((part(), part())))
    first = b.parts[0]
    assert first.scale == Positive()
    assert first.bounded == Positive(0.5, 8.0)
    assert first.share == Interval(-1.0, 1.0)
    assert first.place == Real()
    assert first.constant == FIXED
    assert b.nothing is None


def test_values_become_float64_arrays():
    made = part()
    for value in jax.tree.leaves(made):
        assert value.dtype == np.float64
    assert isinstance(made.scale, np.ndarray)


def test_units_are_declared():
    u = units(part())
    assert u.scale == Units(output=2)
    assert u.place == Units(input=1, location=True)
    assert u.constant == Units()


def test_to_real_and_back():
    model = Whole((part(), part()))
    b = bijections(model)
    vector = to_real(model, b)
    assert vector.shape == (12,)  # two of 1 + 2 + 1 + 2 free numbers
    moved = from_real(vector + 0.1, model, b)
    assert_close(moved.parts[1].scale, 2.0 * np.exp(0.1))
    assert_close(moved.parts[1].place, np.array([-3.9, 1e6 + 0.1]))
    assert_close(moved.parts[0].constant, 7.0)
    assert_close(to_real(moved, b), vector + 0.1, "factorised")


def test_fixed_parameters_keep_their_values():
    model = part()
    b = eqx.tree_at(lambda m: (m.scale, m.place), bijections(model), (FIXED, FIXED))
    assert to_real(model, b).shape == (3,)
    moved = from_real(jnp.array([0.3, -0.3, 2.0]), model, b)
    assert_close(moved.scale, 2.0)
    assert_close(moved.place, model.place)
    assert moved.share != model.share
    nothing = jax.tree.map(lambda _: FIXED, b, is_leaf=lambda x: not isinstance(x, Part))
    assert to_real(model, nothing).shape == (0,)
    free = eqx.tree_at(lambda m: m.constant, bijections(model), Positive())
    assert to_real(model, free).shape == (7,)


def test_a_number_put_in_place_of_an_array_is_still_learned():
    """`tree_at` with a plain number must not freeze the parameter in silence."""
    model = eqx.tree_at(lambda m: m.scale, part(), 3.0)
    b = bijections(model)
    assert b.scale == Positive()
    assert to_real(model, b).shape == (6,)
    assert_close(from_real(to_real(model, b), model, b).scale, 3.0)


def test_trees_of_another_structure_are_refused():
    with pytest.raises(ValueError, match="the model has 5 arrays, the tree 10 entries"):
        to_real(part(), bijections(Whole((part(), part()))))


def test_free_parts_are_in_the_order_of_to_real():
    model = part()
    rows = free_parts(model, bijections(model), units(model))
    assert [b for _, b, _ in rows] == [Positive(), Positive(0.5, 8.0), Interval(-1, 1), Real()]
    assert rows[1][2] == Units(input=1)
    sizes = [np.size(value) for value, _, _ in rows]
    assert sum(sizes) == to_real(model, bijections(model)).size


def test_bijections_of_a_traced_model():
    @jax.jit
    def again(model):
        return from_real(to_real(model, bijections(model)), model, bijections(model))

    for value, back in zip(*map(jax.tree.leaves, (part(), again(part()))), strict=True):
        assert_close(back, value, "factorised")


def test_gradients_pass_through():
    model = cavity.kernels.RBF(2.0, [1.0, 3.0])
    b = bijections(model)
    gradient = jax.grad(lambda v: from_real(v, model, b).variance)(to_real(model, b))
    assert_close(gradient, [2.0, 0.0, 0.0])


def test_log_jacobian():
    """Entry by entry the log derivative of the value in what the optimiser moves."""
    model = cavity.GP(cavity.kernels.RBF(2.0, [0.5, 3.0]), cavity.likelihoods.Gaussian(0.1))
    maps = eqx.tree_at(lambda m: m.kernel.variance, bijections(model), Interval(1.0, 4.0))
    maps = eqx.tree_at(lambda m: m.likelihood.variance, maps, FIXED)
    real = to_real(model, maps)
    found = log_jacobian(real, model, maps)
    # logit slope (v - a)(b - v)/(b - a), and that of an exponential
    expected = np.log((2.0 - 1.0) * (4.0 - 2.0) / 3.0) + np.log(0.5) + np.log(3.0)
    assert_close(float(found), expected, scale=1.0)


@pytest.mark.parametrize("given", ["a", None, [1.0, "b"], [[1.0], [1.0, 2.0]]])
def test_parameters_that_are_no_numbers_are_refused(given):
    with pytest.raises(TypeError, match="parameters are numbers or arrays of numbers, given"):
        cavity.kernels.RBF(1.0, given)
