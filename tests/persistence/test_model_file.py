"""Models on disk: nothing lost, nothing damaged passes, nothing half written."""

import json
import random
import signal
import struct
import subprocess
import sys
import threading
import time

import equinox as eqx
import jax
import numpy as np
import pytest

from cavity import inducing, kernels, likelihoods, means, models
from cavity.learning.infer import infer
from cavity.persistence import model_file as storage
from cavity.persistence.atomic_file import held
from cavity.persistence.errors import StorageError
from tests.persistence.fixtures import version_1


class Mine(eqx.Module):
    scale: jax.Array
    power: float = eqx.field(static=True, default=2.0)
    parts: dict = eqx.field(default_factory=dict)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.cavity"


def assert_same(found, expected):
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        if isinstance(a, np.ndarray):
            assert a.dtype == np.float64
        np.testing.assert_array_equal(a, b)


def refusal(path, kind="model", **options):
    with pytest.raises(StorageError) as caught:
        storage.load_module(path, **options)
    assert caught.value.kind == kind
    return str(caught.value)


def rewrite(path, change):
    """Changes the JSON description of a file and makes its checksum right again."""
    from safetensors.numpy import load, save

    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    metadata = json.loads(data[8 : 8 + length])["__metadata__"]
    description, arrays = json.loads(metadata["description"]), load(data)
    change(metadata, description)
    metadata["description"] = json.dumps(description)
    metadata["sha256"] = storage._digest(metadata["description"], arrays)
    path.write_bytes(save(arrays, metadata))


# ------------------------------------------------------------------------------ round trips


def test_model_and_description_come_back(path):
    storage.save_module(path, version_1.model(), version_1.DESCRIPTION)
    module, description = storage.load_module(path)
    assert type(module) is models.GP
    assert_same(module, version_1.model())
    assert description == version_1.DESCRIPTION
    assert module.kernel.second.first.dims == (1,)
    assert all(isinstance(leaf, np.ndarray) for leaf in jax.tree.leaves(module))


def test_a_file_of_format_1_loads():
    module, description = storage.load_module(version_1.PATH)
    assert_same(module, version_1.model())
    assert description == version_1.DESCRIPTION
    X = np.array([[0.1, 0.2], [0.3, 0.4]])
    np.testing.assert_allclose(
        module.kernel.cross(X, X), version_1.model().kernel.cross(X, X), rtol=1e-15
    )


@pytest.mark.parametrize("points", [None, 4], ids=["full", "sparse"])
def test_posteriors_predict_the_same(path, rng, points):
    X = rng.normal(size=(12, 2))
    y = X @ np.array([[1.0, 0.5], [0.0, 2.0]])
    Z = None if points is None else inducing.Points(X[:points])
    model = models.GP(kernels.RBF(), likelihoods.Gaussian(), Z)
    posterior = infer(model, X, y).posterior
    storage.save_module(path, posterior, {})
    found, _ = storage.load_module(path)
    assert type(found) is type(posterior)
    for ours, theirs in zip(found.marginals(X + 0.1), posterior.marginals(X + 0.1), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def several_latents():
    kernel = kernels.RBF(1.0, 0.7), kernels.Matern32(0.5, 1.0)
    mean = means.Zero(), means.Constant(-2.0)
    return kernel, likelihoods.HeteroscedasticGaussian(), mean


def ordered_classes():
    return kernels.RBF(4.0, 1.0), likelihoods.OrdinalProbit([-0.5, 0.5]), None


@pytest.mark.slow
@pytest.mark.parametrize("points", [None, 4], ids=["full", "sparse"])
@pytest.mark.parametrize("parts", [several_latents, ordered_classes])
def test_results_of_the_library(path, rng, parts, points):
    """Models with several latent functions, and with ordered classes."""
    kernel, likelihood, mean = parts()
    X = rng.normal(size=(12, 1))
    y = np.digitize(X[:, 0], [-0.5, 0.5]).astype(float)
    Z = None if points is None else inducing.Points(X[:points])
    model = models.GP(kernel, likelihood, Z, mean)
    posterior = infer(model, X, y, power=0.0).posterior
    storage.save_module(path, posterior, {})
    found, _ = storage.load_module(path)
    assert type(found) is type(posterior)
    assert_same(found.model, jax.tree.map(np.asarray, model))
    for ours, theirs in zip(found.marginals(X + 0.1), posterior.marginals(X + 0.1), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    density = (p.predict(X).log_density(y) for p in (found, posterior))
    np.testing.assert_array_equal(*density)


def test_every_kind_of_value(path):
    tree = (
        None,
        True,
        7,
        "text",
        0.1,
        float("inf"),
        float("-inf"),
        [1, (2, "x")],
        {"a": np.arange(3), "b": {}},
        np.array([True, False]),
        np.float64(3.5),
        np.zeros((0, 2)),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.float32(0.5),
    )
    storage.save_module(path, tree, {})
    found, _ = storage.load_module(path)
    assert found[:8] == tree[:8]
    assert found[8]["a"].tolist() == [0, 1, 2]
    assert found[8]["a"].dtype == tree[8]["a"].dtype
    assert found[8]["b"] == {}
    assert found[9].dtype == bool
    assert found[10].shape == ()
    assert found[11].shape == (0, 2)
    np.testing.assert_array_equal(found[12], tree[12])
    assert found[13].dtype == np.float64
    assert found[12].flags.writeable
    storage.save_module(path, float("nan"), {})
    assert np.isnan(storage.load_module(path)[0])


def test_descriptions_are_made_plain(path):
    given = {"a": np.float64(1.5), "b": (1, np.inf), "c": np.array([1.0, np.nan]), "d": path}
    storage.save_module(path, None, given)
    _, description = storage.load_module(path)
    assert description == {"a": 1.5, "b": [1, None], "c": [1.0, None], "d": str(path)}


@pytest.mark.x32
def test_precision_survives_a_session_without_x64(path):
    Z = np.array([[1 / 3, 1 / 7]])
    with jax.enable_x64(True):
        storage.save_module(path, inducing.Points(Z), {})
    np.testing.assert_array_equal(storage.load_module(path)[0].Z, Z)


def test_equal_names_of_different_classes(path):
    from cavity import means

    storage.save_module(path, (kernels.Constant(2.0), means.Constant(3.0)), {})
    kernel, mean = storage.load_module(path)[0]
    assert (type(kernel), type(mean)) == (kernels.Constant, means.Constant)


def test_classes_of_ones_own(path):
    mine = Mine(np.array(2.0), 3.0, {"k": kernels.RBF()})
    with pytest.raises(StorageError, match=r"model is a Mine.*classes="):
        storage.save_module(path, mine, {})
    storage.save_module(path, (mine,), {}, classes={"Mine": Mine})
    assert "needs the class 'Mine'" in refusal(path)
    (found,), _ = storage.load_module(path, classes={"Mine": Mine})
    assert (found.scale, found.power) == (2.0, 3.0)
    assert type(found.parts["k"]) is kernels.RBF


@pytest.mark.parametrize("part", [object(), len, {1: 2}, np.array(["text"]), 1j])
def test_what_a_file_cannot_hold(path, part):
    with pytest.raises(StorageError, match=r"model\.1 is a"):
        storage.save_module(path, (None, part), {})
    assert not path.exists()


def test_saves_of_one_model_are_the_same_bytes(path):
    module = (kernels.RBF(), likelihoods.Gaussian(), {"\N{GREEK SMALL LETTER ALPHA}": np.eye(3)})
    files = set()
    for _ in range(20):  # the three entries of the metadata have six orders
        storage.save_module(path, module, {"name": "\N{GREEK SMALL LETTER ALPHA}"})
        files.add(path.read_bytes())
    assert len(files) == 1
    assert storage.load_module(path)[1] == {"name": "\N{GREEK SMALL LETTER ALPHA}"}


# --------------------------------------------------------------------------------- versions


@pytest.mark.parametrize("name", ["power", "parts"])
def test_absent_fields_are_refused(path, name):
    """Also those that have a default: a file says all fields."""

    def drop(name):
        return lambda _, description: description["module"]["fields"].pop(name)

    storage.save_module(path, Mine(np.array(2.0)), {}, classes={"Mine": Mine})
    rewrite(path, drop(name))
    with pytest.raises(StorageError, match=f"does not say {name} of Mine"):
        storage.load_module(path, classes={"Mine": Mine})
    storage.save_module(path, likelihoods.Gaussian(), {})
    rewrite(path, drop("variance"))
    assert "does not say variance of likelihoods.Gaussian" in refusal(path)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda m, d: m.update(format="cavity/2"), "format 'cavity/2', this version reads"),
        (lambda m, d: d["module"].update({"class": "kernels.New"}), "the class 'kernels.New'"),
        (lambda m, d: d["module"].update({"class": "os.system"}), "the class 'os.system'"),
        (lambda m, d: d["module"]["fields"].update(new=1), "sets new of likelihoods.Gaussian"),
        (lambda m, d: d["module"].update(extra=1), "unknown way"),
        (lambda m, d: d.update(module={"array": "none"}), "unknown way"),
        (lambda m, d: d.update(module=None), "arrays of no use"),
        (lambda m, d: d.pop("module"), "description"),
    ],
)
def test_files_of_other_versions(path, change, said):
    storage.save_module(path, likelihoods.Gaussian(), {})
    rewrite(path, change)
    assert said in refusal(path)


# ----------------------------------------------------------------------------------- damage


def test_every_changed_byte_is_noticed(path):
    """Each byte of a small file in turn: some bits, all bits, and a blank that JSON skips."""
    storage.save_module(path, (likelihoods.Gaussian(), np.arange(2)), {"n": 3})
    whole = path.read_bytes()
    changes = [lambda b, k=k: b ^ k for k in (0x01, 0x20, 0xFF)] + [lambda b: ord("\t")]
    for position in range(len(whole)):
        damaged = bytearray(whole)
        for change in changes:
            damaged[position] = change(whole[position])
            if damaged[position] != whole[position]:
                path.write_bytes(damaged)
                assert refusal(path), (position, damaged[position])
    path.write_bytes(whole)
    storage.load_module(path)


def test_every_cut_is_noticed(path):
    storage.save_module(path, likelihoods.Gaussian(), {})
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        refusal(path)
    path.write_bytes(whole + b"\0")
    refusal(path)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"a,b\n1,2\n",
        b"PK\x03\x04" + b"x" * 100,
        b"\xff" * 100,
        struct.pack("<Q", 2) + b"{}",
        struct.pack("<Q", 100_000) + b"[" * 100_000,
        struct.pack("<Q", 22) + b'{"__metadata__":{"a":1',
    ],
)
def test_files_of_another_kind(path, content):
    path.write_bytes(content)
    assert "damaged or not a model file" in refusal(path)


def test_a_safetensors_file_of_somebody_else(path):
    from safetensors.numpy import save

    path.write_bytes(save({"x": np.zeros(3)}))
    assert "damaged or not a model file" in refusal(path)


def test_deep_descriptions_do_not_break_the_reader(path):
    deep = "[" * 5000 + "]" * 5000
    metadata = {"format": "cavity/1", "description": deep, "sha256": storage._digest(deep, {})}
    from safetensors.numpy import save

    path.write_bytes(save({}, metadata))
    assert refusal(path)


def test_paths(tmp_path):
    assert "no such file" in refusal(tmp_path / "none.cavity", "io")
    assert "is a folder" in refusal(tmp_path, "io")
    for target in (tmp_path, tmp_path / "none" / "model"):
        with pytest.raises(StorageError, match="folder") as caught:
            storage.save_module(target, None, {})
        assert caught.value.kind == "io"


# ---------------------------------------------------------------------------------- killing


def test_a_failed_save_leaves_the_old_file(path, monkeypatch):
    storage.save_module(path, kernels.RBF(2.0), {})

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(StorageError, match="no space left"):
        storage.save_module(path, kernels.RBF(3.0), {})
    assert storage.load_module(path)[0].variance == 2.0
    assert [p.name for p in path.parent.iterdir()] == [path.name]


SAVE_FOR_EVER = """
import itertools, sys
import numpy as np
from cavity.persistence import model_file as storage

storage.known_classes()
for n in itertools.count():
    storage.save_module(sys.argv[1], (np.full(200_000, float(n)),), {"n": n})
    print(n, flush=True)
"""


@pytest.mark.slow
def test_a_killed_save_is_never_half_a_file(path):
    """A process that saves all the time is killed at random moments; the file always loads."""
    rng = random.Random(0)
    for _ in range(4):
        command = [sys.executable, "-W", "ignore", "-c", SAVE_FOR_EVER, str(path)]
        child = subprocess.Popen(command, stdout=subprocess.PIPE)
        child.stdout.readline()
        time.sleep(rng.uniform(0.0, 0.1))
        child.send_signal(signal.SIGKILL)
        child.communicate()
        (values,), description = storage.load_module(path)
        assert np.all(values == description["n"])


def test_who_holds_a_file_lets_others_wait(path):
    path.write_bytes(b"model")
    order, begun = [], threading.Event()

    def wait():
        begun.set()
        with held(path):
            order.append("second")

    other = threading.Thread(target=wait)
    with held(path):
        other.start()
        begun.wait()
        time.sleep(0.1)
        order.append("first")
    other.join()
    assert order == ["first", "second"]
    with pytest.raises(FileNotFoundError), held(path.parent / "none"):
        pass
