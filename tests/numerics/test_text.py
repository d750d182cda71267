"""Numbers of things in words."""

import pytest

from cavity.numerics.text import plural, quoted, shortened, told


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0 rows"), (1, "1 row"), (2, "2 rows"), (1234, "1234 rows")]
)
def test_counted(number, text):
    assert plural(number, "row") == text


def test_an_irregular_plural():
    assert [plural(n, "entry", "entries") for n in (1, 3)] == ["1 entry", "3 entries"]


def test_quoted_texts_are_short_and_plain():
    assert quoted("a cell") == "'a cell'"
    assert quoted("\x1b[2J\r\n\t\x00") == r"'\x1b[2J\r\n\t\x00'"
    assert quoted("é\u202eµ") == r"'é\u202eµ'"
    assert quoted(12) == "'12'"
    assert quoted("y" * 60) == f"'{'y' * 60}'"
    assert quoted("y" * 61) == f"'{'y' * 60}...' (61 characters)"
    assert shortened("y" * 10**7) == "y" * 60 + "..."


def test_messages_keep_both_of_their_ends():
    assert told("one\ntwo\x07") == r"one\ntwo\x07"
    assert told("one\ntwo\x07", keep="\n") == "one\ntwo\\x07"
    long = told("column " + "y" * 10**7 + ": correct the cell")
    assert len(long) < 2_100
    assert long.startswith("column yyy")
    assert long.endswith(": correct the cell")
    assert "characters" in long
