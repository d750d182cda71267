"""Models whose checksum is right and whose contents are not: an error, and never a traceback."""

import contextlib
import copy
import json
import random
import struct

import numpy as np
import polars as pl
import pytest
from safetensors.numpy import load, save

import cavity
from cavity.persistence import model_file
from cavity.persistence.errors import StorageError
from tests.cli.conftest import run

GONE = "gone"
# What takes the place of a part of the description.
OTHERS = [GONE, None, "text", {}, [], 3, -1, 10**9, True, 1.5, -1.5, np.nan, {"a": 1}, [1, "b"]]
OTHERS += [{"float": "nan"}, [[1.0]]]
ARRAYS = {
    "nan": lambda a: np.where(np.arange(a.size).reshape(a.shape) == 0, np.nan, a),
    "infinite": lambda a: a + np.inf,
    "negative": lambda a: -a - 1,
    "large": lambda a: np.full_like(a, 10**9),
    "shorter": lambda a: a[:-1] if a.ndim else np.zeros(0),
    "twice": lambda a: np.stack([a, a]),
    "whole": lambda a: a.astype(int),
    "single": lambda a: np.float64(np.mean(a)),
}
USES = {
    "predict": ("--out", "p.csv"),
    "update": ("--out", "n.cavity", "--no-learn", "--inducing", "keep"),
}


def opened(path):
    """The description and the arrays of a model file."""
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    metadata = json.loads(data[8 : 8 + length])["__metadata__"]
    return json.loads(metadata["description"]), load(data)


def write(path, description, arrays):
    """A model file whose checksum is right."""
    text = json.dumps(description)
    digest = model_file._digest(text, arrays)
    about = {"format": model_file.FORMAT, "description": text, "sha256": digest}
    path.write_bytes(save({n: a.copy(order="C") for n, a in arrays.items()}, about))


def places(node, at=()):
    """Every place of a description."""
    inside = node.items() if isinstance(node, dict) else enumerate(node)
    for key, value in inside:
        yield (*at, key)
        if isinstance(value, dict | list):
            yield from places(value, (*at, key))


def damaged(description, arrays, share, seed):
    """A share of all that can be done to them one at a time, with its name."""
    chance = random.Random(seed)
    for at in places(description):
        for other in OTHERS:
            if chance.random() < share:
                yield f"{at} {other}", changed(description, at, other), arrays
    for name, array in arrays.items():
        for kind, change in ARRAYS.items():
            if chance.random() < share:
                yield f"{name} {kind}", description, arrays | {name: np.asarray(change(array))}


def changed(description, at, other):
    """A description with something else in a place."""
    found = copy.deepcopy(description)
    node = found
    for key in at[:-1]:
        node = node[key]
    if other == GONE:
        node.pop(at[-1])
    else:
        node[at[-1]] = other
    return found


def check_uses(here, tables, share, seed, contents):
    """What is done with every damaged model, and how that ends."""
    path, ends = here / "damaged.cavity", []
    for name, *found in damaged(*contents, share, seed):
        write(path, *found)
        shown = run("show", path, "--json")
        ends.append(shown.code)
        if shown.code:
            assert shown.json["error"]["kind"] == "model", name
            assert "damaged" in shown.err or "the model file" in shown.err, name
            continue
        with contextlib.suppress(StorageError):
            cavity.load(path)
        for command, options in USES.items():
            used = run(command, path, tables / "test.csv", *options, "--json")
            assert used.code in (0, 1), name
            assert ("error" in used.json) == bool(used.code), name
            if command == "predict" and used.code == 0:
                numbers = pl.read_csv("p.csv").select(pl.selectors.numeric())
                assert not any(numbers.null_count().row(0)), name
                assert all(min(numbers[c]) >= 0.0 for c in numbers.columns if "std" in c), name
    assert 0.6 < np.mean(ends) < 1.0  # what nobody reads may be anything


@pytest.mark.parametrize("name", ["model", "two_targets", "classes"])
def test_a_share_of_damages(here, tables, request, name):
    check_uses(here, tables, 0.005, 0, opened(request.getfixturevalue(name)))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["model", "two_targets", "classes"])
def test_many_damages(here, tables, request, name):
    check_uses(here, tables, 0.2, 7, opened(request.getfixturevalue(name)))


# What a user would meet first: where, what is there, and what is said of it.
NAMED = {
    "no method": (("about", "record", "method"), GONE, "record has no method"),
    "text for a record": (("about", "record"), "text", "is not a record"),
    "a negative scale": (("about", "output_scale"), [-1.0], "is not between"),
    "no scale": (("about", "output_scale"), [None], "is not a number"),
    "many classes": (
        ("module", "dict", "posterior", "fields", "model", "fields", "likelihood"),
        {"class": "likelihoods.Softmax", "fields": {"n_classes": 10**9}},
        "is not between 0 and 1e+07",
    ),
    "other classes": (
        ("module", "dict", "posterior", "fields", "model", "fields", "likelihood"),
        {"class": "likelihoods.Softmax", "fields": {"n_classes": 9_000_000}},
        "another number of classes",
    ),
}


@pytest.mark.parametrize("name", NAMED)
def test_what_is_said(here, tables, classes, name):
    description, arrays = opened(classes)
    at, other, said = NAMED[name]
    write(here / "m.cavity", changed(description, at, other), arrays)
    for command in (("show",), ("predict", "--out", "p.csv"), ("evaluate",)):
        words = [command[0], "m.cavity", *([tables / "test.csv"] if command != ("show",) else [])]
        done = run(*words, *command[1:], "--json")
        assert done.code == 1
        assert done.json["error"]["kind"] == "model"
        assert said in done.json["error"]["message"]
        assert "m.cavity is damaged" in done.json["error"]["message"]
