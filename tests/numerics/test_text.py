"""Numbers of things in words."""

import pytest

from cavity.numerics.text import plural


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0 rows"), (1, "1 row"), (2, "2 rows"), (1234, "1234 rows")]
)
def test_counted(number, text):
    assert plural(number, "row") == text


def test_an_irregular_plural():
    assert [plural(n, "entry", "entries") for n in (1, 3)] == ["1 entry", "3 entries"]
