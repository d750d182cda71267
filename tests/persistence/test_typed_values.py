"""Values of files whose checksum is right, of another kind than they should be."""

import pytest

from cavity import kernels, likelihoods
from cavity.persistence import model_file as storage
from tests.persistence.test_model_file import refusal, rewrite


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.cavity"


# each of the wrong kind: a name in a file, the field, its value
WRONG = {
    "text for a number": (likelihoods.Gaussian, "variance", "big", "is not an array of numbers"),
    "a list for an array": (kernels.RBF, "lengthscale", {"list": [1]}, "is not an array"),
    "a kernel for a number": (
        kernels.RBF,
        "variance",
        {"class": "kernels.RBF", "fields": {"variance": 1.0, "lengthscale": 1.0}},
        "is not an array",
    ),
    "a number for a whole one": (kernels.Polynomial, "degree", 1.5, "a whole number"),
    "truth for a whole number": (kernels.Polynomial, "degree", True, "a whole number"),
    "a whole number without end": (kernels.Polynomial, "degree", 10**9, "between 0 and 1e+07"),
    "a negative count": (likelihoods.Softmax, "n_classes", -3, "between 0 and 1e+07"),
}


@pytest.mark.parametrize("name", WRONG)
def test_values_of_another_kind(path, name):
    cls, field, value, said = WRONG[name]
    module = cls(n_classes=3) if cls is likelihoods.Softmax else cls()
    storage.save_module(path, module, {})
    rewrite(path, lambda _, description: description["module"]["fields"].update({field: value}))
    assert said in refusal(path)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
def test_numbers_that_are_none(path, number):
    storage.save_module(path, None, {"n": 1.0})
    rewrite(path, lambda _, description: description["about"].update(n=float(number)))
    assert f"has {number} among its numbers" in refusal(path)
