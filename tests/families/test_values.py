"""Values of options, as they are typed."""

import pytest

from cavity.families.options import bounds_of, fixed_of, prior_texts


def test_what_is_said_of_parameters():
    found = fixed_of(["likelihood.variance=0.1", "kernel.variance", "kernel.lengthscale = 1, 2"])
    assert found == {
        "likelihood.variance": 0.1,
        "kernel.variance": None,
        "kernel.lengthscale": [1.0, 2.0],
    }
    assert fixed_of(["kernel.lengthscale=(1, 2)"]) == {"kernel.lengthscale": [1.0, 2.0]}
    assert bounds_of(["a=0.1:10", "b=:2", "c=-1:"]) == {
        "a": (0.1, 10.0),
        "b": (None, 2.0),
        "c": (-1.0, None),
    }
    assert prior_texts(["a = normal(mean=1, std=2)"]) == {"a": "normal(mean=1, std=2)"}


@pytest.mark.parametrize(
    ("read", "typed", "message"),
    [
        (fixed_of, ["=2"], "not a name and a value"),
        (fixed_of, ["a="], "not a name and a value"),
        (fixed_of, ["a=1", "a=2"], "a is given twice"),
        (fixed_of, ["a", "a=2"], "a is given twice"),
        (fixed_of, ["a=nan"], "a takes numbers, given 'nan'"),
        (fixed_of, [""], "not a name and a value"),
        (bounds_of, ["a=1"], "LOW:HIGH"),
        (bounds_of, ["a=1:x"], "a takes numbers, given 'x'"),
        (prior_texts, ["laplace"], "priors of weights .* add --model linear"),
    ],
)
def test_what_is_refused(read, typed, message):
    with pytest.raises(ValueError, match=message):
        read(typed)
