"""Lengthscales that columns share: the same kernel as with one for each, set equal."""

import json
import struct

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cavity import kernels
from cavity.kernels.expectations.terms import expansion
from cavity.learning.data.scales import in_data_units, measure
from cavity.persistence import model_file as storage

GROUPS = (0, 1, 1, 2, 1)
KINDS = [
    kernels.RBF,
    kernels.Matern12,
    kernels.Matern32,
    kernels.Matern52,
    kernels.RationalQuadratic,
]


def both(kind):
    """A kernel with groups, and the same with a lengthscale for each column."""
    own = np.array([0.5, 2.0, 3.0])
    return kind(1.3, own, groups=GROUPS), kind(1.3, own[list(GROUPS)])


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_groups_are_equal_lengthscales(kind):
    rng = np.random.default_rng(0)
    X, Z = rng.standard_normal((6, 5)), rng.standard_normal((4, 5))
    shared, apart = both(kind)
    np.testing.assert_array_equal(shared.cross(X, Z), apart.cross(X, Z))
    np.testing.assert_array_equal(shared.diag(X), apart.diag(X))

    def total(kernel):
        return jnp.sum(jnp.sin(kernel.cross(X, Z)))

    slopes = np.asarray(jax.grad(total)(apart).lengthscale)
    summed = [slopes[[g == i for g in GROUPS]].sum() for i in range(3)]
    np.testing.assert_allclose(jax.grad(total)(shared).lengthscale, summed, rtol=1e-6)


def test_groups_in_expectations_and_random_waves():
    shared, apart = both(kernels.RBF)
    found, expected = expansion(shared, 5), expansion(apart, 5)
    np.testing.assert_array_equal(found.stacks[0].precision, expected.stacks[0].precision)
    X = np.random.default_rng(0).standard_normal((3, 5))
    waves = kernels.RandomFourier(shared, 4)
    np.testing.assert_array_equal(waves.features(X), kernels.RandomFourier(apart, 4).features(X))


def test_groups_from_text_are_those_of_the_columns_that_it_names():
    names = ["x", "c=a", "c=b", "z", "c=d"]
    whole = kernels.parse("rbf", 5, names, GROUPS)
    assert whole.groups == GROUPS
    assert whole.lengthscale.shape == (3,)
    some = kernels.parse('matern32[z,"c=d","c=a"] + linear + rbf[x,z]', 5, names, GROUPS)
    first, last = some.first.first, some.second
    assert first.kernel.groups == (0, 1, 1)
    assert first.kernel.lengthscale.shape == (2,)
    assert last.kernel.groups is None
    assert some.first.second.variance.shape == (5,)
    assert kernels.text(some, names) == 'matern32[z,"c=d","c=a"] + linear + rbf[x,z]'
    assert kernels.parse("rbf", 5, names, range(5)).groups is None
    with pytest.raises(ValueError, match="2 groups were given for 5 input columns"):
        kernels.parse("rbf", 5, names, (0, 1))


@pytest.mark.parametrize(
    ("lengthscale", "groups"), [([1.0, 1.0], (0, 2)), ([1.0], (0, 1)), (1.0, (0, 0))]
)
def test_groups_without_a_lengthscale_are_refused(lengthscale, groups):
    with pytest.raises(ValueError, match="every number has a lengthscale"):
        kernels.RBF(1.0, lengthscale, groups=groups)


def test_a_group_starts_at_the_distance_of_its_rows():
    """Two rows differ in a category as often as they do, whatever the number of levels."""
    rng = np.random.default_rng(1)
    level = rng.integers(0, 3, 200)
    X = np.column_stack([rng.standard_normal(200), level[:, None] == np.arange(3)])
    scales = measure(X, X[:, :1])
    start = in_data_units(kernels.RBF(1.0, np.ones(2), groups=(0, 1, 1, 1)), scales)
    share = np.bincount(level) / 200
    np.testing.assert_allclose(start.lengthscale, [X[:, 0].std(), np.sqrt(1 - share @ share)])


def test_groups_are_kept_on_disk_and_files_of_before_have_none(tmp_path):
    path = tmp_path / "kernel.cavity"
    storage.save_module(path, both(kernels.RBF)[0], {})
    found, _ = storage.load_module(path)
    assert found.groups == GROUPS
    storage.save_module(path, kernels.RBF(2.0, 3.0), {})
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    metadata = json.loads(data[8 : 8 + length])["__metadata__"]
    module = json.loads(metadata["description"])["module"]
    assert module["fields"].pop("groups", 0) is None
    classes = storage.known_classes()
    values = {"variance": np.array(2.0), "lengthscale": np.array(3.0)}
    assert storage._instance("kernels.RBF", values, classes).groups is None
