"""Compiled programs: the same results however they were compiled."""

import importlib
import re
import subprocess
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from packaging.requirements import Requirement

from cavity.numerics.jit import (
    ENTRIES_PER_OPERATION,
    FEW_ROWS,
    Bound,
    Programs,
    _Key,
    _taken_apart,
    compiled,
    shapes_of,
    stops_in_batches,
)
from cavity.numerics.program_size import program_size
from tests.meta.source import ROOT

module = importlib.import_module("cavity.numerics.jit")


@compiled
def _softened(x, *, sharp: bool = False):
    return jnp.log1p(jnp.exp(x)) if not sharp else jnp.maximum(x, 0.0)


@pytest.mark.parametrize("count", [1, 40_000])
def test_results_do_not_depend_on_the_size(count):
    x = np.linspace(-3.0, 3.0, count)
    np.testing.assert_allclose(_softened(jnp.asarray(x)), np.log1p(np.exp(x)), rtol=1e-14)
    np.testing.assert_array_equal(_softened(jnp.asarray(x), sharp=True), np.maximum(x, 0.0))


def test_it_can_be_part_of_other_programs():
    x = jnp.asarray([0.3, -0.2])
    expected = np.log1p(np.exp(np.asarray(x)))
    np.testing.assert_allclose(jax.jit(lambda x: 2.0 * _softened(x))(x), 2.0 * expected)
    constant = jax.jit(lambda y: y + _softened(jnp.asarray([0.3, -0.2])))
    np.testing.assert_allclose(constant(0.0), expected)
    np.testing.assert_allclose(jax.vmap(_softened)(x), expected)
    slope = jax.grad(lambda x: jnp.sum(_softened(x)))(x)
    np.testing.assert_allclose(slope, 1.0 / (1.0 + np.exp(-np.asarray(x))))


def test_options_that_xla_does_not_know_are_left_out(monkeypatch):
    module._understood.cache_clear()
    monkeypatch.setattr(module, "QUICK", {"xla_no_such_option": True})
    try:
        assert not module._understood()
        assert float(compiled(lambda x: x + 1.0)(jnp.asarray(1.0))) == 2.0
    finally:
        module._understood.cache_clear()


def test_what_is_not_an_array_is_static():
    class Scaled(eqx.Module):
        factor: jax.Array
        name: str = eqx.field(static=True)

    times = compiled(lambda module, x: module.factor * x if module.name == "a" else x)
    assert float(times(Scaled(jnp.asarray(3.0), "a"), jnp.asarray(2.0))) == 6.0
    assert float(times(Scaled(jnp.asarray(3.0), "b"), jnp.asarray(2.0))) == 2.0


def _affine(scale, name, offset, x):
    _affine.traced += 1
    return scale * x + offset if name == "up" else scale * x - offset


def test_bound_arguments_are_the_functions_first_ones():
    _affine.traced = 0
    up = Bound(_affine, jnp.asarray(2.0), "up", np.asarray(1.0))
    assert float(up(np.asarray(3.0))) == 7.0
    assert float(up(np.asarray(4.0))) == 9.0
    assert _affine.traced == 1


def test_bound_functions_share_programs_unless_what_is_static_differs():
    _affine.traced = 0
    first = Bound(_affine, jnp.asarray(3.0), "up", np.asarray(1.0))
    second = Bound(_affine, jnp.asarray(5.0), "up", np.asarray(1.0))
    down = Bound(_affine, jnp.asarray(5.0), "down", np.asarray(1.0))
    assert [float(f(np.asarray([2.0]))[0]) for f in (first, second, down)] == [7.0, 11.0, 9.0]
    assert _affine.traced == 2


@pytest.mark.parametrize("count", [1, 40_000])
def test_bound_functions_of_any_size(count):
    x = np.linspace(-1.0, 1.0, count)
    bound = Bound(lambda a, b: jnp.sum(a * b), x)
    np.testing.assert_allclose(bound(np.asarray(2.0)), 2.0 * np.sum(x), atol=1e-10)


def test_a_program_is_optimised_when_calls_have_paid_for_it():
    kept = Programs(8)
    times = _Key(lambda x: jnp.exp(x) * 2.0, _taken_apart(((jnp.ones(100),), {})))
    kept.run(times, [jnp.ones(100)])
    (program,) = kept.kept.values()
    allowed = ENTRIES_PER_OPERATION * program.size.operations // (program.size.entries + 1)
    assert not program.optimised
    assert program.calls_left == allowed
    program.calls_left = 1
    results = [np.asarray(kept.run(times, [jnp.full(100, 0.3)])) for _ in range(3)]
    assert program.optimised
    for result in results:
        np.testing.assert_allclose(result, 2.0 * np.exp(0.3), rtol=1e-14)


def test_threads_that_call_a_new_program_wait_for_one():
    """Compiled once at first, and once with all passes, whichever threads call it."""
    kept, traced = Programs(8), []

    def plus(x):
        traced.append(1)
        return jnp.exp(x) + 1.0

    key = _Key(plus, _taken_apart(((jnp.ones(50),), {})))
    with ThreadPoolExecutor(8) as pool:
        first = list(pool.map(lambda _: kept.run(key, [jnp.ones(50)]), range(8)))
        (program,) = kept.kept.values()
        program.calls_left = 4
        second = list(pool.map(lambda _: kept.run(key, [jnp.ones(50)]), range(16)))
    assert len(traced) == 1
    assert program.optimised
    assert program.traced is None
    for result in first + second:
        np.testing.assert_allclose(result, 1.0 + np.e, rtol=1e-14)


def test_a_program_that_could_not_be_made_is_tried_again():
    kept, failures = Programs(8), [1, 1]

    def plus(x):
        if failures:
            failures.pop()
            raise ValueError("not yet")
        return x + 1.0

    key = _Key(plus, _taken_apart(((jnp.ones(2),), {})))
    for _ in range(2):
        with pytest.raises(ValueError, match="not yet"):
            kept.run(key, [jnp.ones(2)])
    np.testing.assert_array_equal(kept.run(key, [jnp.ones(2)]), [2.0, 2.0])


def test_programs_of_many_rows_are_optimised_at_once():
    kept, count = Programs(8), FEW_ROWS + 1
    plus = _Key(lambda x: x + 1.0, _taken_apart(((jnp.ones(count),), {})))
    kept.run(plus, [jnp.ones(count)])
    assert all(program.optimised for program in kept.kept.values())


def test_programs_used_last_are_kept():
    kept = Programs(2)
    keys = [_Key(lambda x: x + 1.0, _taken_apart(((jnp.ones(n),), {}))) for n in (1, 2, 3)]
    for n in (1, 2, 1, 3):
        assert kept.run(keys[n - 1], [jnp.ones(n)]).shape == (n,)
    assert set(kept.kept) == {keys[0], keys[2]}
    kept.forget()
    assert not kept.kept


@pytest.mark.x32
def test_precision_is_part_of_what_a_program_is_for():
    twice = compiled(lambda x: 2.0 * x)
    assert twice(np.asarray(1.5)).dtype == jnp.float32
    with jax.enable_x64(True):
        assert twice(np.asarray(1.5)).dtype == jnp.float64
    assert twice(np.asarray(1.5)).dtype == jnp.float32


def test_numbers_of_other_types_are_other_constants():
    plus = compiled(lambda x, number: x + number)
    assert plus(jnp.asarray(1), 1).dtype != plus(jnp.asarray(1), 1.0).dtype


def test_zeros_of_other_signs_are_other_constants_and_nan_is_one():
    traced = []

    @compiled
    def angle(x, number):
        traced.append(number)
        return jnp.arctan2(x * number, -1.0)

    assert float(angle(jnp.asarray(1.0), 0.0)) == np.pi
    assert float(angle(jnp.asarray(1.0), -0.0)) == -np.pi
    for _ in range(3):
        assert np.isnan(float(angle(jnp.asarray(1.0), float("nan"))))
    assert len(traced) == 3


def test_settings_of_jax_are_part_of_what_a_program_is_for():
    draw = compiled(lambda key: jax.random.normal(key))
    key = jax.random.key(0)
    for partitionable in (True, False):
        with jax.threefry_partitionable(partitionable):
            assert float(draw(key)) == float(jax.random.normal(key))


def test_nothing_is_compiled_where_jit_is_disabled():
    seen = []

    def plus(x):
        seen.append(float(x[0]))  # has a value
        return x + 1.0

    with jax.disable_jit():
        np.testing.assert_array_equal(compiled(plus)(jnp.ones(2)), [2.0, 2.0])
        np.testing.assert_array_equal(Bound(plus)(jnp.ones(2)), [2.0, 2.0])
    assert seen == [1.0, 1.0]


def test_results_keep_what_is_no_array():
    out = compiled(lambda x, name: {name: (x, "text", None, 1.5)})(jnp.ones(2), "a")
    assert out["a"][1:] == ("text", None, 1.5)


def test_sizes_count_turns_of_loops_and_the_least_of_branches():
    def loop(x):
        turned = jax.lax.scan(lambda c, _: (jnp.exp(c), None), x, length=7)[0]
        return jax.lax.cond(x[0] > 0.0, lambda: turned, lambda: jnp.exp(jnp.sin(turned)))

    size = program_size(jax.make_jaxpr(loop)(jnp.ones(100)))
    assert 7 * 100 <= size.entries < 7 * 100 + 120
    assert 6 <= size.operations < 16


def test_shapes_are_found_once_for_each_structure():
    traced = []

    def described(x, name, factor):
        traced.append(name)
        return {name: factor * x[:2]}, x.ndim == 1

    def shape(*args):
        (found, flat) = shapes_of(described, *args)
        ((name, array),) = found.items()
        return name, array.shape, array.dtype, flat

    x = jnp.arange(3.0)
    assert shape(x, "a", 2.0) == ("a", (2,), x.dtype, True)
    assert shape(x + 1.0, "a", 2.0) == ("a", (2,), x.dtype, True)
    assert traced == ["a"]
    assert shape(x, "b", 2.0)[0] == "b"
    assert shape(jnp.ones((1, 4)), "a", 2.0)[1:] == ((1, 4), x.dtype, False)
    assert shape(x.astype(jnp.float32), "a", 2.0)[2] == jnp.float32
    assert traced == ["a", "b", "a", "a"]


@pytest.mark.parametrize(
    ("version", "stops"),
    [
        ("0.9.2", False),
        ("0.10.0", True),
        ("0.10.2", True),
        ("0.11.0", True),
        ("0.11.1", False),
        ("0.12.0.1", False),
        ("0.10.2rc1", True),
        ("0.12.0+rocm7", False),
        ("unknown", False),
    ],
)
def test_releases_that_stop_in_factorisations_of_batches(version, stops):
    """Those that are released are not installed if they stop, and only then."""
    assert stops_in_batches(version) == stops
    if re.fullmatch(r"[\d.]+", version):
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
        wanted = [Requirement(line) for line in project["dependencies"]]
        accepted = [w.specifier.contains(version) for w in wanted if w.name in ("jax", "jaxlib")]
        assert accepted == [not stops, not stops]


# Four solves of three matrices each, side by side.
SOLVES = """
import os
os.environ.pop("XLA_FLAGS", None)
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])
import jax, jax.numpy as jnp
from jax.scipy.linalg import solve_triangular
solve = jax.vmap(lambda a, b: solve_triangular(a, b, lower=True))
B = jnp.ones((3, 300, 300))
A = B + 300.0 * jnp.eye(300)
several = jax.jit(lambda A, B: sum(solve(A + i, B) for i in range(4)))
for _ in range(100):
    several(A, B).block_until_ready()
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="sets the cores of a process, as Linux does")
def test_batches_are_solved_side_by_side_on_two_cores():
    """The installed jaxlib does not stop for ever, which no test of numbers would see."""
    subprocess.run([sys.executable, "-c", SOLVES], check=True, timeout=120)
